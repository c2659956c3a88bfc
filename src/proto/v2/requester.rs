// SPDX-License-Identifier: GPL-2.0

//! Messages as a client receives them, in the terms of [`incoming`](super::super::incoming).
//!
//! Nearly all are replies without chunks, whose words stand at fixed places.

use super::{
    super::{
        incoming::{
            Incoming,
            Reason,
            Reply,
            Returned, //
        },
        neutral::{
            self,
            Direction,
            Optional,
            Side, //
        },
        prefix::Proc,
        rpc,
        xdr::Reader, //
    },
    defect,
    encode::word,
    header::VERSION,
    operations::Request,
    receive::{
        self,
        receive,
        Received,
        Stage, //
    }, //
};

/// The reply that `message` is, if it has no chunk, as most messages; `None` if it is anything
/// else.
#[inline(always)]
pub(crate) fn reply(message: &[u8]) -> Option<Reply<'_>> {
    let mut message = Reader::new(message);
    let [xid, version, credits, proc, direction, lists @ ..] = message.words::<8>()?;
    let payload = message.rest();
    let [payload_xid, kind] = message.words()?;
    let is_reply = version == VERSION
        && proc == Proc::Msg.code()
        && direction == word(Direction::Reply)
        && lists == [0; 3]
        && payload_xid == xid
        && kind == rpc::REPLY;

    is_reply.then_some(Reply {
        xid,
        credits,
        chunks: Returned::None,
        payload,
    })
}

/// Classifies `message`.
pub(crate) fn classify(message: &[u8]) -> Incoming<'_> {
    if let Some(reply) = reply(message) {
        return Incoming::Reply(reply);
    }
    match receive(Side::Client, Stage::Fixed, message) {
        Received::Message(incoming) => decoded(message, incoming),
        Received::Reject { xid, rejection, .. } => Incoming::BadReverseCall {
            xid,
            version: VERSION,
            error: rejection.into(),
        },
        Received::Malformed {
            xid,
            request: Request::Call,
            why,
        } => {
            let why = reason(why);
            Incoming::Unusable { xid, why }
        }
        Received::Malformed {
            xid,
            request: Request::Reqxch,
            why,
        } => {
            let why = reason(why);
            Incoming::BadResponse { xid, why }
        }
        Received::Discard(why) => Incoming::Discard(reason(why)),
        // Another version than that of the connection: no call ends (V2-18).
        Received::Version { .. } => Incoming::Discard(Reason::Version),
        Received::Later(_) => Incoming::Discard(Reason::Type),
    }
}

/// A message that decodes, as `incoming`.
fn decoded<'a>(
    message: &'a [u8],
    incoming: neutral::Incoming<'a, receive::Control<'a>>,
) -> Incoming<'a> {
    match incoming {
        neutral::Incoming::Reply(reply) => Incoming::Reply(Reply {
            xid: reply.xid,
            credits: reply.credits,
            chunks: Returned::Lists {
                lists: reply.chunks,
                long: reply.payload.is_none(),
            },
            payload: reply.payload.unwrap_or(&[]),
        }),
        neutral::Incoming::Call(call) => Incoming::ReverseCall {
            xid: call.xid,
            credits: call.credits,
            payload: call.payload.unwrap_or(&[]),
        },
        neutral::Incoming::Error {
            xid,
            credits,
            rejection,
            ..
        } => Incoming::Error {
            xid,
            credits,
            error: rejection.into(),
        },
        neutral::Incoming::Control { xid, credits, .. } => Incoming::Operation(Optional {
            xid,
            credits,
            message,
        }),
    }
}

/// The reason in terms of no version.
fn reason(why: defect::Reason) -> Reason {
    match why {
        defect::Reason::Short => Reason::Short,
        defect::Reason::Type => Reason::Type,
        defect::Reason::Error => Reason::UndecodableError,
        defect::Reason::Defect(_) | defect::Reason::Operation | defect::Reason::Direction => {
            Reason::of(why.common())
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_requester))]
mod tests {
    use super::{
        super::{
            super::{
                error::RdmaError,
                vectors::*, //
            },
            vectors::*, //
        },
        *, //
    };

    // TV-V2-2, 6: replies, with and without chunks.
    #[test]
    fn replies() {
        let bare = Message::new(&TV_V2_2);
        assert_eq!(
            reply(bare.bytes()).map(Incoming::Reply),
            Some(classify(bare.bytes()))
        );
        for (at, word) in [
            (4, 1),
            (12, 1),
            (16, 0),
            (20, 1),
            (24, 1),
            (28, 1),
            (32, 9),
            (36, 0),
        ] {
            assert_eq!(reply(bare.put(at, word).bytes()), None);
        }
        for len in 0..40 {
            assert_eq!(reply(bare.cut(len).bytes()), None);
        }
        let chunks = Message::new(&TV_V2_6);
        assert!(reply(chunks.bytes()).is_none());
        assert!(matches!(
            classify(chunks.bytes()),
            Incoming::Reply(Reply {
                chunks: Returned::Lists { .. },
                ..
            })
        ));
    }

    // V2-18, V2-33, V2-45, V2-48, V2-50, V2-53, V2-64: messages that are no replies.
    #[test]
    fn others() {
        let (call, error) = (Message::new(&TV_V2_7), Message::new(&TV_V2_3));
        assert!(matches!(
            classify(call.bytes()),
            Incoming::ReverseCall { .. }
        ));
        let refused = |error| Incoming::BadReverseCall {
            xid: call.word(0),
            version: 2,
            error,
        };
        assert_eq!(
            classify(call.put(24, 1).bytes()),
            refused(RdmaError::BadHeader)
        );
        let version = Message::new(&TV_V1_1);
        assert_eq!(
            classify(version.bytes()),
            Incoming::Discard(Reason::Version)
        );
        assert!(matches!(
            classify(error.bytes()),
            Incoming::Error {
                error: RdmaError::InvalidOption,
                ..
            }
        ));
        let unknown = Message::new(&TV_XC_1).put(20, 0x63);
        assert!(matches!(
            classify(unknown.bytes()),
            Incoming::BadReverseCall {
                error: RdmaError::InvalidOption,
                ..
            }
        ));
        assert!(matches!(
            classify(unknown.put(16, 1).bytes()),
            Incoming::Discard(_)
        ));
        // XC-56: a response that cannot be decoded. Other operations in its place are none.
        let response = Message::new(&TV_XC_3);
        let cut = response.cut(response.bytes().len() - 4);
        assert!(matches!(
            classify(cut.bytes()),
            Incoming::BadResponse { xid, .. } if xid == response.word(0)
        ));
        assert!(matches!(
            classify(response.put(28, 0x1000_0000).bytes()),
            Incoming::BadResponse { .. }
        ));
        for other in [
            cut.put(20, 1),
            cut.put(20, 2),
            cut.put(20, 4),
            cut.put(20, 99),
            cut.cut(20),
        ] {
            assert!(matches!(classify(other.bytes()), Incoming::Discard(_)));
        }
        assert!(matches!(
            classify(Message::new(&TV_V2_1).put(16, 1).bytes()),
            Incoming::Unusable {
                why: Reason::Defect(_),
                ..
            }
        ));
        assert_eq!(
            classify(error.put(16, 9).bytes()),
            Incoming::Discard(Reason::UndecodableError)
        );
        assert_eq!(
            classify(call.put(12, 9).bytes()),
            Incoming::Discard(Reason::Type)
        );
        assert_eq!(classify(&[0; 15]), Incoming::Discard(Reason::Short));
    }
}
