// SPDX-License-Identifier: GPL-2.0

//! Classification of the messages that a server receives (RFC 8166, sections 4.5.1, 4.5.2 and 4.6;
//! RFC 8167, section 5).
//!
//! | message | outcome |
//! |---|---|
//! | shorter than 16 bytes | dropped: it names no xid |
//! | `RDMA_ERROR` of any version | about a reverse call, or dropped; never rejected |
//! | `RDMA_DONE` | dropped |
//! | any other type of another version | rejected with `ERR_VERS` |
//! | a type that is not known, a header that does not parse | rejected with `ERR_CHUNK` |
//! | an inline RPC reply | for a reverse call, or dropped; never rejected |
//! | all others | a call, or rejected with `ERR_CHUNK` |
//!
//! A rejection of a bad reply would have the xid of a reverse call, and the client could have a
//! call of its own with the same xid (RFC 8167, section 5.1), which it would fail.

use super::{
    super::{
        chunk::ChunkLists,
        defect::Defect,
        error::RdmaError,
        responder::{
            check::check,
            received::{
                Call,
                Reason,
                Received, //
            }, //
        },
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

/// Classifies `message`.
pub(crate) fn receive(message: &[u8]) -> Received<'_> {
    let Header {
        xid, credits, body, ..
    } = match Header::decode(message) {
        Ok(header) => header,
        Err(error) => return unusable(error),
    };
    let (chunks, payload) = match body {
        Body::Error(error) => {
            return Received::ReverseError {
                xid,
                credits,
                error,
            }
        }
        Body::Msg { chunks, payload } if is_reply(payload) => {
            return reverse_reply(xid, credits, &chunks, payload);
        }
        Body::Msg { chunks, payload } => (chunks, Some(payload)),
        Body::NoMsg { chunks } => (chunks, None),
    };
    match check(xid, &chunks, payload) {
        Ok(()) => Received::Call(Call {
            xid,
            credits,
            chunks,
            payload,
        }),
        Err(defect) => Received::bad_header(xid, VERSION, defect),
    }
}

/// Returns `true` if the second word of an inline payload is the message type of a reply.
fn is_reply(payload: &[u8]) -> bool {
    matches!(Reader::new(payload).words(), Some([_, rpc::REPLY]))
}

fn reverse_reply<'a>(
    xid: u32,
    credits: u32,
    chunks: &ChunkLists<'a>,
    payload: &'a [u8],
) -> Received<'a> {
    if !chunks.is_empty() || rpc::direction(xid, payload).is_err() {
        return Received::Drop(Reason::BadReply);
    }
    Received::ReverseReply {
        xid,
        credits,
        payload,
    }
}

#[cold]
fn unusable(error: DecodeError) -> Received<'static> {
    match error {
        DecodeError::NoPrefix => Received::Drop(Reason::Short),
        DecodeError::UndecodableError { .. } => Received::Drop(Reason::UndecodableError),
        DecodeError::Defect {
            defect: Defect::Done,
            ..
        } => Received::Drop(Reason::Done),
        DecodeError::Defect { xid, defect, .. } => Received::bad_header(xid, VERSION, defect),
        DecodeError::Version { xid, version, .. } => Received::Reject {
            xid,
            version,
            error: RdmaError::Version {
                low: VERSION,
                high: VERSION,
            },
            why: Reason::Version,
        },
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_call))]
mod tests {
    use super::super::super::vectors::*;
    use super::*;

    // TV-V1-1, 3, 4, 6, 7, V1-10, V1-37, V1-98: calls of each form, with their credits.
    #[test]
    fn calls() {
        for (words, payload) in [
            (TV_V1_1.as_slice(), Some(40)),
            (TV_V1_3.as_slice(), Some(132)),
            (TV_V1_4.as_slice(), Some(40)),
            (TV_V1_6.as_slice(), Some(40)),
            (TV_V1_7.as_slice(), None),
        ] {
            let message = Message::new(words).put(8, 0xffff_fff0);
            let Received::Call(call) = receive(message.bytes()) else {
                assert!(false);
                continue;
            };
            assert_eq!(Some(&call.xid), words.first());
            assert_eq!(call.credits, 0xffff_fff0);
            assert_eq!(call.payload.map(<[u8]>::len), payload);
        }
    }

    // TV-M-1, 3..5, 18, V1-9, V1-15, V1-106, V1-107, V1-114, V1-116: messages without a header.
    #[test]
    fn headers() {
        let call = Message::new(&TV_V1_1);
        assert_eq!(receive(&[]), Received::Drop(Reason::Short));
        for len in 1..16 {
            assert_eq!(
                receive(call.cut(len).bytes()),
                Received::Drop(Reason::Short)
            );
        }
        for len in 16..28 {
            assert_eq!(defect(&call.cut(len)), Some(Defect::Truncated));
        }
        for code in [2, 5, 6, u32::MAX] {
            assert_eq!(defect(&call.put(12, code)), Some(Defect::Type));
        }
        let done = call.put(12, 3);
        assert_eq!(receive(done.bytes()), Received::Drop(Reason::Done));
        assert_eq!(defect(&call.put(16, 2)), Some(Defect::OptionalData));
        assert_eq!(defect(&call.put(12, 1)), Some(Defect::NoLists));
    }

    // TV-M-3, V1-104, V1-106, V1-149: ERR_VERS for each type but RDMA_ERROR.
    #[test]
    fn versions() {
        for version in [0, 2, 0x0100_0000, u32::MAX] {
            for code in [0, 1, 2, 3, 5, u32::MAX] {
                let message = Message::new(&TV_V1_1).put(4, version).put(12, code);
                let expected = Received::Reject {
                    xid: 0xa1b2_c301,
                    version,
                    error: RdmaError::Version { low: 1, high: 1 },
                    why: Reason::Version,
                };
                assert_eq!(receive(message.bytes()), expected);
            }
            let error = Message::new(&TV_V1_10).put(4, version);
            let expected = Received::ReverseError {
                xid: 0xa1b2_c307,
                credits: 16,
                error: RdmaError::BadHeader,
            };
            assert_eq!(receive(error.bytes()), expected);
        }
    }

    // TV-M-18..20, V1-105, V1-114, BI-31: errors are for a reverse call, or dropped.
    #[test]
    fn errors() {
        let undecodable = Received::Drop(Reason::UndecodableError);
        let error = Message::new(&TV_V1_9);
        assert!(matches!(
            receive(error.bytes()),
            Received::ReverseError {
                xid: 0xa1b2_c306,
                ..
            }
        ));
        for len in 16..28 {
            assert_eq!(receive(error.cut(len).bytes()), undecodable);
        }
        let error = Message::new(&TV_V1_10);
        for code in [0, 3, u32::MAX] {
            assert_eq!(receive(error.put(16, code).bytes()), undecodable);
        }
        for len in 16..20 {
            assert_eq!(receive(error.cut(len).bytes()), undecodable);
        }
    }

    // TV-BI-2, BI-24, BI-29, V1-17: replies are for a reverse call, or dropped.
    #[test]
    fn replies() {
        let message = Message::new(&TV_BI_2);
        let expected = Received::ReverseReply {
            xid: 7,
            credits: 2,
            payload: message.bytes().get(28..).unwrap_or_default(),
        };
        assert_eq!(receive(message.bytes()), expected);

        let bad = Received::Drop(Reason::BadReply);
        assert_eq!(receive(message.put(28, 8).bytes()), bad);
        // A reply that returns chunks, as to a call of the other direction.
        assert_eq!(receive(Message::new(&TV_V1_5).bytes()), bad);
        assert_eq!(defect(&message.put(32, 2)), Some(Defect::Direction));
        for len in 28..36 {
            assert_eq!(defect(&message.cut(len)), Some(Defect::ShortPayload));
        }
    }

    // The defect of a message that is rejected with ERR_CHUNK and its own xid.
    fn defect(message: &Message) -> Option<Defect> {
        match receive(message.bytes()) {
            Received::Reject {
                xid,
                version: 1,
                error: RdmaError::BadHeader,
                why: Reason::Defect(defect),
            } if message.bytes().starts_with(&xid.to_be_bytes()) => Some(defect),
            _ => None,
        }
    }
}
