// SPDX-License-Identifier: GPL-2.0

//! Classification of messages that a client receives.
//!
//! A server may send us replies, calls in the reverse direction, and errors about our calls.
//! Everything else is counted and gets no message in return: a client sends an `RDMA_ERROR` only
//! for a message that is recognisably a reverse call, because one for a bad reply would look like
//! one for a call that the server never sent. A message that names a call of ours ends that call,
//! since no other reply to it will come.

use super::super::{
    super::{
        chunk::ChunkLists,
        defect::Defect,
        error::RdmaError,
        rpc, //
    },
    header::{
        Body,
        DecodeError,
        Header, //
    }, //
};

/// A reply to one of our calls, not yet compared with the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    /// The xid of the call.
    pub(crate) xid: u32,
    /// The credits word, unchecked; see [`super::super::super::credits::grant`].
    pub(crate) credits: u32,
    /// The chunk lists as they came back.
    pub(crate) chunks: ChunkLists<'a>,
    /// The inline part of the RPC reply; `None` when all of it is in the Reply chunk
    /// (`RDMA_NOMSG`).
    pub(crate) payload: Option<&'a [u8]>,
}

/// A received message, as a client sees it.
///
/// Its xid is not looked up yet; a message that belongs to no call of ours is dropped and counted,
/// too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incoming<'a> {
    /// A reply to one of our calls.
    Reply(Reply<'a>),
    /// A call in the reverse direction (RFC 8167, section 5.1).
    ReverseCall {
        /// Its xid; the xids of the two directions are independent.
        xid: u32,
        /// The replies that the server can take together, unchecked.
        credits: u32,
        /// The RPC call.
        payload: &'a [u8],
    },
    /// A call in the reverse direction that has chunks; the reply is
    /// [`RdmaError::BadHeader`].
    BadReverseCall {
        /// Its xid.
        xid: u32,
        /// Its version word, to be repeated in the reply.
        version: u32,
    },
    /// The server could not process one of our calls, which ends the call.
    Error {
        /// The xid of the call.
        xid: u32,
        /// The credits word, unchecked.
        credits: u32,
        /// The error that the server reports.
        error: RdmaError,
    },
    /// A message that does not parse but names a call, which it ends if that is one of ours.
    Unusable {
        /// The xid of the header.
        xid: u32,
        /// The defect.
        why: Discard,
    },
    /// A message without the words that every message has: it belongs to no call.
    Discard(Discard),
}

/// The reason why a message cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discard {
    /// Too short for the words that every message has.
    Short,
    /// The version is not ours.
    Version,
    /// The type is reserved or undefined.
    Type,
    /// Header and payload name different calls.
    XidMismatch,
    /// The header, or the start of the payload, is not well-formed.
    Defect(Defect),
    /// An `RDMA_ERROR` that is short or has an unknown code. RFC 8166, section 4.5, has it dropped
    /// silently, so it does not end its call.
    UndecodableError,
}

impl Discard {
    /// The number of reasons; [`Discard::index`] is below it.
    pub(crate) const REASONS: usize = 6;

    /// The names of the counters, in the order of [`Discard::index`].
    pub(crate) const NAMES: [&'static str; Self::REASONS] = [
        "short",
        "version",
        "type",
        "xid_mismatch",
        "malformed",
        "undecodable",
    ];

    /// The reason as the index of a counter.
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Short => 0,
            Self::Version => 1,
            Self::Type => 2,
            Self::XidMismatch => 3,
            Self::Defect(_) => 4,
            Self::UndecodableError => 5,
        }
    }

    /// The reason in words, for a trace or a log line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Short => "message shorter than a prefix",
            Self::Version => "unsupported version",
            Self::Type => Defect::Type.as_str(),
            Self::XidMismatch => Defect::XidMismatch.as_str(),
            Self::Defect(defect) => defect.as_str(),
            Self::UndecodableError => "undecodable RDMA_ERROR",
        }
    }

    const fn of(defect: Defect) -> Self {
        match defect {
            Defect::Type | Defect::Done => Self::Type,
            Defect::XidMismatch => Self::XidMismatch,
            _ => Self::Defect(defect),
        }
    }
}

/// Classifies `message`.
#[inline(always)]
pub(crate) fn classify(message: &[u8]) -> Incoming<'_> {
    let header = match Header::decode(message) {
        Ok(header) => header,
        Err(error) => return unusable(error),
    };
    let Header { xid, credits, .. } = header;
    match header.body {
        Body::Msg { chunks, payload } => match rpc::direction(xid, payload) {
            Ok(rpc::REPLY) => Incoming::Reply(Reply {
                xid,
                credits,
                chunks,
                payload: Some(payload),
            }),
            Ok(rpc::CALL) if chunks.is_empty() => Incoming::ReverseCall {
                xid,
                credits,
                payload,
            },
            Ok(rpc::CALL) => Incoming::BadReverseCall {
                xid,
                version: header.version,
            },
            Ok(_) => defective(xid, Defect::Direction),
            Err(defect) => defective(xid, defect),
        },
        Body::NoMsg { chunks } => Incoming::Reply(Reply {
            xid,
            credits,
            chunks,
            payload: None,
        }),
        Body::Error(error) => Incoming::Error {
            xid,
            credits,
            error,
        },
    }
}

#[cold]
fn unusable(error: DecodeError) -> Incoming<'static> {
    let (xid, why) = match error {
        DecodeError::NoPrefix => return Incoming::Discard(Discard::Short),
        DecodeError::Version { xid, .. } => (xid, Discard::Version),
        DecodeError::Defect { xid, defect, .. } => (xid, Discard::of(defect)),
        DecodeError::UndecodableError { xid } => (xid, Discard::UndecodableError),
    };
    Incoming::Unusable { xid, why }
}

#[cold]
fn defective(xid: u32, defect: Defect) -> Incoming<'static> {
    let why = Discard::of(defect);
    Incoming::Unusable { xid, why }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_incoming))]
mod tests {
    use super::super::super::super::vectors::*;
    use super::*;

    // TV-V1-2, 5, 8, BI-28: replies.
    #[test]
    fn replies() {
        let message = Message::new(&TV_V1_2);
        let expected = Reply {
            xid: 0xa1b2_c301,
            credits: 16,
            chunks: ChunkLists::default(),
            payload: message.bytes().get(28..),
        };
        assert_eq!(classify(message.bytes()), Incoming::Reply(expected));

        let message = Message::new(&TV_V1_5);
        assert!(matches!(
            classify(message.bytes()),
            Incoming::Reply(Reply { xid: 0xa1b2_c303, credits: 16, chunks, payload: Some(payload) })
                if chunks.write.len() == 2 && payload.len() == 24
        ));

        let message = Message::new(&TV_V1_8);
        assert!(matches!(
            classify(message.bytes()),
            Incoming::Reply(Reply { xid: 0xa1b2_c305, credits: 16, chunks, payload: None })
                if chunks.reply.is_some_and(|chunk| chunk.len() == 1)
        ));
    }

    // TV-M-16, 17: a message with any credits word is used.
    #[test]
    fn credits() {
        for word in [0, u32::MAX] {
            let message = Message::new(&TV_V1_2).put(8, word);
            assert!(matches!(
                classify(message.bytes()),
                Incoming::Reply(Reply { credits, .. }) if credits == word
            ));
        }
    }

    // TV-BI-1, BI-25, BI-28: a reverse call; TV-BI-2 is for a server.
    #[test]
    fn reverse_call() {
        let message = Message::new(&TV_BI_1);
        let expected = Incoming::ReverseCall {
            xid: 7,
            credits: 2,
            payload: message.bytes().get(28..).unwrap_or_default(),
        };
        assert_eq!(classify(message.bytes()), expected);
    }

    // BI-30, BI-24: a reverse call with any chunk list, here the calls of the other direction.
    #[test]
    fn reverse_call_with_chunks() {
        let calls = [
            (0xa1b2_c302, TV_V1_3.as_slice()),
            (0xa1b2_c303, TV_V1_4.as_slice()),
            (0xa1b2_c304, TV_V1_6.as_slice()),
        ];
        for (xid, words) in calls {
            let message = Message::new(words);
            let expected = Incoming::BadReverseCall { xid, version: 1 };
            assert_eq!(classify(message.bytes()), expected);
        }
    }

    // TV-V1-9, 10: errors about our calls.
    #[test]
    fn errors() {
        let message = Message::new(&TV_V1_9);
        let expected = Incoming::Error {
            xid: 0xa1b2_c306,
            credits: 16,
            error: RdmaError::Version { low: 1, high: 1 },
        };
        assert_eq!(classify(message.bytes()), expected);

        let message = Message::new(&TV_V1_10);
        let expected = Incoming::Error {
            xid: 0xa1b2_c307,
            credits: 16,
            error: RdmaError::BadHeader,
        };
        assert_eq!(classify(message.bytes()), expected);
    }

    // TV-M-1, 3..5, 8, 18..20, V1-108, V1-117: unusable messages, and their calls.
    #[test]
    fn discards() {
        let call = Message::new(&TV_V1_1);
        assert_eq!(classify(&[]), Incoming::Discard(Discard::Short));
        let short = Incoming::Discard(Discard::Short);
        assert_eq!(classify(call.cut(15).bytes()), short);
        assert_eq!(reason(call.put(4, 2)), Some(Discard::Version));
        assert_eq!(reason(call.put(12, 2)), Some(Discard::Type));
        assert_eq!(reason(call.put(12, 3)), Some(Discard::Type));
        assert_eq!(reason(call.put(12, 5)), Some(Discard::Type));
        assert_eq!(
            reason(call.put(28, 0xdead_beef)),
            Some(Discard::XidMismatch)
        );
        let undecodable = Some(Discard::UndecodableError);
        assert_eq!(reason(Message::new(&TV_V1_9).cut(24)), undecodable);
        assert_eq!(reason(Message::new(&TV_V1_10).put(16, 9)), undecodable);
        assert_eq!(reason(Message::new(&TV_V1_10).cut(16)), undecodable);
    }

    // TV-M-2, 6, 7, V1-17, BI-28: malformed, with the xid at hand.
    #[test]
    fn malformed() {
        let call = Message::new(&TV_V1_1);
        for (at, word, len, defect) in [
            (12, 0, 27, Defect::Truncated),
            (12, 1, 68, Defect::NoLists),
            (16, 2, 68, Defect::OptionalData),
            (12, 0, 28, Defect::ShortPayload),
            (12, 0, 35, Defect::ShortPayload),
            (32, 2, 68, Defect::Direction),
            (32, u32::MAX, 68, Defect::Direction),
        ] {
            let message = call.put(at, word).cut(len);
            let expected = Incoming::Unusable {
                xid: 0xa1b2_c301,
                why: Discard::Defect(defect),
            };
            assert_eq!(classify(message.bytes()), expected);
        }
        assert!(matches!(
            classify(call.cut(36).bytes()),
            Incoming::ReverseCall { .. }
        ));
    }

    // Every reason has a counter of its own.
    #[test]
    fn indexes() {
        let reasons = [
            Discard::Short,
            Discard::Version,
            Discard::Type,
            Discard::XidMismatch,
            Discard::Defect(Defect::Wraps),
            Discard::UndecodableError,
        ];
        assert_eq!(reasons.len(), Discard::REASONS);
        for (index, reason) in reasons.iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
    }

    fn reason(message: Message) -> Option<Discard> {
        match classify(message.bytes()) {
            Incoming::Unusable { why, .. } => Some(why),
            _ => None,
        }
    }
}
