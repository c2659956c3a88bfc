// SPDX-License-Identifier: GPL-2.0

//! Messages as a server receives them, in the terms of
//! [`received`](super::super::responder::received).

use super::{
    super::{
        error::RdmaError,
        neutral::{
            self,
            Optional,
            Side, //
        },
        responder::received::{
            Call,
            Reason,
            Received, //
        }, //
    },
    defect,
    header::VERSION,
    operations::Request,
    receive::{
        self,
        receive as decode,
        Stage, //
    }, //
};

/// Classifies `message`.
pub(crate) fn receive(message: &[u8]) -> Received<'_> {
    match decode(Side::Server, Stage::Fixed, message) {
        receive::Received::Message(incoming) => decoded(message, incoming),
        receive::Received::Reject {
            xid,
            rejection,
            why,
        } => Received::Reject {
            xid,
            version: VERSION,
            error: rejection.into(),
            why: Reason::Defect(why.common()),
        },
        receive::Received::Malformed {
            xid,
            request: Request::Reqxch,
            ..
        } => Received::BadResponse { xid },
        receive::Received::Malformed { .. } => Received::Drop(Reason::BadReply),
        receive::Received::Discard(why) => Received::Drop(match why {
            defect::Reason::Short => Reason::Short,
            defect::Reason::Error => Reason::UndecodableError,
            _ => Reason::Defect(why.common()),
        }),
        receive::Received::Version { xid, version } => Received::Reject {
            xid,
            version,
            error: RdmaError::Version {
                low: VERSION,
                high: VERSION,
            },
            why: Reason::Version,
        },
        // Only before the version is fixed.
        receive::Received::Later(_) => Received::Drop(Reason::Version),
    }
}

/// A message that decodes, as `incoming`.
fn decoded<'a>(
    message: &'a [u8],
    incoming: neutral::Incoming<'a, receive::Control<'a>>,
) -> Received<'a> {
    match incoming {
        neutral::Incoming::Call(call) => Received::Call(Call {
            xid: call.xid,
            credits: call.credits,
            chunks: call.chunks,
            payload: call.payload,
        }),
        neutral::Incoming::Reply(reply) => Received::ReverseReply {
            xid: reply.xid,
            credits: reply.credits,
            payload: reply.payload.unwrap_or(&[]),
        },
        neutral::Incoming::Error {
            xid,
            credits,
            rejection,
            ..
        } => Received::ReverseError {
            xid,
            credits,
            error: rejection.into(),
        },
        neutral::Incoming::Control { xid, credits, .. } => Received::Operation(Optional {
            xid,
            credits,
            message,
        }),
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_responder))]
mod tests {
    use super::{
        super::{
            super::vectors::*,
            vectors::*, //
        },
        *, //
    };

    // TV-V2-1, 2, 3, 5, V2-18, V2-30, V2-45, V2-48, V2-50, V2-64: each kind of message.
    #[test]
    fn kinds() {
        for words in [TV_V2_1.as_slice(), TV_V2_5.as_slice()] {
            let message = Message::new(words);
            assert!(matches!(receive(message.bytes()), Received::Call(_)));
        }
        let reply = Message::new(&TV_V2_2);
        assert!(matches!(
            receive(reply.bytes()),
            Received::ReverseReply { .. }
        ));
        let error = Message::new(&TV_V2_3);
        assert!(matches!(
            receive(error.bytes()),
            Received::ReverseError {
                error: RdmaError::InvalidOption,
                ..
            }
        ));
        let call = Message::new(&TV_V2_1);
        let unknown = Message::new(&TV_XC_1).put(20, 0x63);
        let range = RdmaError::Version { low: 2, high: 2 };
        for (message, error) in [
            (call.put(4, 1), range),
            (call.put(4, 3), range),
            (call.put(12, 9), RdmaError::BadHeader),
            (call.put(16, 2), RdmaError::BadHeader),
            (unknown, RdmaError::InvalidOption),
        ] {
            let (xid, version) = (message.word(0), message.word(4));
            let found = match receive(message.bytes()) {
                Received::Reject {
                    xid,
                    version,
                    error,
                    ..
                } => Some((xid, version, error)),
                _ => None,
            };
            assert_eq!(found, Some((xid, version, error)));
        }
        for (message, why) in [
            (call.cut(15), Reason::Short),
            (error.put(16, 9), Reason::UndecodableError),
            (reply.put(20, 2), Reason::BadReply),
        ] {
            assert_eq!(receive(message.bytes()), Received::Drop(why));
        }
        // XC-56.
        let response = Message::new(&TV_XC_3);
        let cut = response.cut(response.bytes().len() - 4);
        let xid = response.word(0);
        assert_eq!(receive(cut.bytes()), Received::BadResponse { xid });
        assert!(matches!(receive(cut.put(20, 4).bytes()), Received::Drop(_)));
        assert!(matches!(
            receive(unknown.put(16, 1).bytes()),
            Received::Drop(Reason::Defect(_))
        ));
    }
}
