// SPDX-License-Identifier: GPL-2.0

//! Messages as a requester receives them.
//!
//! With calls in the reverse direction each end is both: a client is the requester of its own calls
//! and the responder of the server's.
//!
//! Nearly all messages are replies with no chunk, or with one of one segment, whose words stand at
//! fixed places: [`reply`] reads these without a walk over the lists.

use super::{
    super::{
        chunk::Segment,
        defect::Defect,
        error::RdmaError,
        incoming::{
            Incoming,
            Reason,
            Reply,
            Returned, //
        },
        prefix::Proc,
        rpc,
        xdr::Reader, //
    },
    header::{
        Body,
        DecodeError,
        Header,
        VERSION, //
    }, //
};

/// The reply that `message` is, if it has no chunk, or one of one segment, as nearly all messages;
/// `None` if it is anything else.
#[inline(always)]
pub(crate) fn reply(message: &[u8]) -> Option<Reply<'_>> {
    inline_reply(message).or_else(|| long_reply(message))
}

/// Classifies `message`.
pub(crate) fn classify(message: &[u8]) -> Incoming<'_> {
    match reply(message) {
        Some(reply) => Incoming::Reply(reply),
        None => classify_any(message),
    }
}

/// The reply that `message` is, if it has no chunk, or a Write chunk of one segment, and something
/// inline.
#[inline(always)]
fn inline_reply(message: &[u8]) -> Option<Reply<'_>> {
    let mut message = Reader::new(message);
    let [xid, version, credits, proc, read, write] = message.words()?;
    if version != VERSION || proc != Proc::Msg.code() || read != 0 || write > 1 {
        return None;
    }
    let chunks = if write == 0 {
        Returned::None
    } else {
        let [count, handle, length, high, low, end] = message.words()?;
        if count != 1 || end != 0 {
            return None;
        }
        Returned::Write(Segment::of_words(handle, length, high, low))
    };
    let reply_chunk = message.word()?;
    let payload = message.rest();
    let [payload_xid, direction] = message.words()?;
    let is_reply = reply_chunk == 0 && payload_xid == xid && direction == rpc::REPLY;
    is_reply.then_some(Reply {
        xid,
        credits,
        chunks,
        payload,
    })
}

/// The reply that `message` is, if all of it is in a Reply chunk of one segment.
#[inline(always)]
fn long_reply(message: &[u8]) -> Option<Reply<'_>> {
    let mut message = Reader::new(message);
    let [xid, version, credits, proc, read, write, reply, count, handle, length, high, low] =
        message.words()?;
    let is_reply = version == VERSION
        && proc == Proc::NoMsg.code()
        && (read, write, reply, count) == (0, 0, 1, 1);
    is_reply.then_some(Reply {
        xid,
        credits,
        chunks: Returned::Reply(Segment::of_words(handle, length, high, low)),
        payload: &[],
    })
}

/// [`classify`] for any message.
fn classify_any(message: &[u8]) -> Incoming<'_> {
    let header = match Header::decode(message) {
        Ok(header) => header,
        Err(error) => return unusable(error),
    };
    let Header { xid, credits, .. } = header;
    let reply = |lists, long, payload| {
        Incoming::Reply(Reply {
            xid,
            credits,
            chunks: Returned::Lists { lists, long },
            payload,
        })
    };
    match header.body {
        Body::Msg { chunks, payload } => match rpc::direction(xid, payload) {
            Ok(rpc::REPLY) => reply(chunks, false, payload),
            Ok(rpc::CALL) if chunks.is_empty() => Incoming::ReverseCall {
                xid,
                credits,
                payload,
            },
            Ok(rpc::CALL) => Incoming::BadReverseCall {
                xid,
                version: header.version,
                error: RdmaError::BadHeader,
            },
            Ok(_) => defective(xid, Defect::Direction),
            Err(defect) => defective(xid, defect),
        },
        Body::NoMsg { chunks } => reply(chunks, true, &[]),
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
        DecodeError::NoPrefix => return Incoming::Discard(Reason::Short),
        DecodeError::Version { xid, .. } => (xid, Reason::Version),
        DecodeError::Defect { xid, defect, .. } => (xid, Reason::of(defect)),
        DecodeError::UndecodableError { xid } => (xid, Reason::UndecodableError),
    };
    Incoming::Unusable { xid, why }
}

#[cold]
fn defective(xid: u32, defect: Defect) -> Incoming<'static> {
    let why = Reason::of(defect);
    Incoming::Unusable { xid, why }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_requester))]
mod tests {
    use super::{
        super::super::{
            chunk::ChunkLists,
            error::RdmaError,
            vectors::*, //
        },
        *, //
    };

    // TV-V1-2, V1-100, V1-91, BI-28: replies without chunks, and with a Write chunk of one segment.
    #[test]
    fn inline_replies() {
        let bare = Message::new(&TV_V1_2);
        let expected = Reply {
            xid: 0xa1b2_c301,
            credits: 16,
            chunks: Returned::None,
            payload: bare.bytes().get(28..).unwrap_or_default(),
        };
        assert_eq!(classify(bare.bytes()), Incoming::Reply(expected));
        // The first of two Write chunks with its first segment.
        let written = Message::without(&TV_V1_5, 11, 29).put(24, 1);
        let expected = Reply {
            xid: 0xa1b2_c303,
            credits: 16,
            chunks: Returned::Write(segment(0x2101, 4096, 0x10000)),
            payload: written.bytes().get(52..).unwrap_or_default(),
        };
        assert_eq!(classify(written.bytes()), Incoming::Reply(expected));
    }

    // TV-V1-8, V1-16, V1-102: the whole reply in a Reply chunk of one segment.
    #[test]
    fn long_replies() {
        let expected = Incoming::Reply(Reply {
            xid: 0xa1b2_c305,
            credits: 16,
            chunks: Returned::Reply(segment(0x4201, 5120, 0xa_0000)),
            payload: &[],
        });
        let message = Message::new(&TV_V1_8);
        assert_eq!(classify(message.bytes()), expected);
        let longer = Message::new(TV_V1_8.iter().chain(&[0]));
        assert_eq!(classify(longer.bytes()), expected);
        for at in [4, 12, 16, 20, 24, 28] {
            assert!(!matches!(
                classify(message.put(at, 2).bytes()),
                Incoming::Reply(_)
            ));
        }
        assert!(!matches!(
            classify(message.cut(47).bytes()),
            Incoming::Reply(_)
        ));
    }

    // TV-V1-5, 6, 7: any lists.
    #[test]
    fn other_replies() {
        let message = Message::new(&TV_V1_5);
        let lists = lists(&message);
        assert_eq!(lists.write.len(), 2);
        let expected = Reply {
            xid: 0xa1b2_c303,
            credits: 16,
            chunks: Returned::Lists { lists, long: false },
            payload: message.bytes().get(124..).unwrap_or_default(),
        };
        assert_eq!(classify(message.bytes()), Incoming::Reply(expected));

        let message = Message::new(&TV_V1_7);
        let expected = Reply {
            xid: 0xa1b2_c305,
            credits: 32,
            chunks: Returned::Lists {
                lists: self::lists(&message),
                long: true,
            },
            payload: &[],
        };
        assert_eq!(classify(message.bytes()), Incoming::Reply(expected));
        let message = Message::new(&TV_V1_6).put(68, 1);
        assert!(matches!(
            classify(message.bytes()),
            Incoming::Reply(Reply { chunks: Returned::Lists { lists, long: false }, .. })
                if lists.reply.is_some_and(|chunk| chunk.len() == 2)
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
            let (version, error) = (1, RdmaError::BadHeader);
            let expected = Incoming::BadReverseCall {
                xid,
                version,
                error,
            };
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
        assert_eq!(classify(&[]), Incoming::Discard(Reason::Short));
        let short = Incoming::Discard(Reason::Short);
        assert_eq!(classify(call.cut(15).bytes()), short);
        assert_eq!(reason(call.put(4, 2)), Some(Reason::Version));
        assert_eq!(reason(call.put(12, 2)), Some(Reason::Type));
        assert_eq!(reason(call.put(12, 3)), Some(Reason::Type));
        assert_eq!(reason(call.put(12, 5)), Some(Reason::Type));
        assert_eq!(reason(call.put(28, 0xdead_beef)), Some(Reason::XidMismatch));
        let undecodable = Some(Reason::UndecodableError);
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
                why: Reason::Defect(defect),
            };
            assert_eq!(classify(message.bytes()), expected);
        }
        assert!(matches!(
            classify(call.cut(36).bytes()),
            Incoming::ReverseCall { .. }
        ));
    }

    // The lists of a message.
    fn lists(message: &Message) -> ChunkLists<'_> {
        let bytes = message.bytes().get(16..).unwrap_or_default();
        ChunkLists::decode(bytes).map_or_else(|_| ChunkLists::default(), |(lists, _)| lists)
    }

    fn reason(message: Message) -> Option<Reason> {
        match classify(message.bytes()) {
            Incoming::Unusable { why, .. } => Some(why),
            _ => None,
        }
    }
}
