// SPDX-License-Identifier: GPL-2.0

//! Classification of the messages that an end receives.
//!
//! The direction word shows which end is the requester. A defect of a message is reported to its
//! sender if that waits for a reply, so by both ends where the word marks a call, and by the server
//! where it cannot be read; a bad reply ends the request that it is for (V2-64). No error is
//! reported in reply to an error.

use super::{
    super::{
        neutral::{
            Direction,
            Incoming,
            Rejection,
            Rpc,
            Side, //
        },
        xdr::Reader, //
    },
    check::check,
    defect::{
        Defect,
        Reason, //
    },
    header::{
        Body,
        DecodeError,
        Header, //
    },
    later::Later,
    operations::{
        Operation,
        Request, //
    }, //
};

/// The knowledge of the version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is not: no message, or no reply to the first one, has decoded yet.
    Open,
    /// It is 2.
    Fixed,
}

/// A message between the transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control<'a> {
    /// The operation.
    pub(crate) operation: Operation<'a>,
    /// Bytes follow it, which are ignored and worth a counter (XC-11).
    pub(crate) trailing: bool,
}

/// A received message, as one end sees it. Its xid is not looked up yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received<'a> {
    /// It decodes.
    Message(Incoming<'a, Control<'a>>),
    /// The reply to it is an error.
    Reject {
        /// Its xid.
        xid: u32,
        /// The error.
        rejection: Rejection,
        /// The reason.
        why: Reason,
    },
    /// A reply that does not decode; it ends the request of ours with this xid (V2-64, XC-56).
    Malformed {
        /// The xid of the request.
        xid: u32,
        /// The kind of the request.
        request: Request,
        /// The reason.
        why: Reason,
    },
    /// It is dropped, and counted.
    Discard(Reason),
    /// It is of another version (V2-18, V2-68).
    Version {
        /// Its xid.
        xid: u32,
        /// Its version word.
        version: u32,
    },
    /// The peer speaks another text with this version number; at [`Stage::Open`] only.
    Later(Later),
}

/// Classifies a message that `side` received.
pub(crate) fn receive(side: Side, stage: Stage, message: &[u8]) -> Received<'_> {
    let decoded = Header::decode(message);
    if stage == Stage::Open {
        if let Some(later) = Later::of(&decoded) {
            return Received::Later(later);
        }
    }
    match decoded {
        Ok(header) => classify(side, header),
        Err(error) => unusable(side, message, error),
    }
}

fn classify(side: Side, header: Header<'_>) -> Received<'_> {
    let (xid, version, credits) = (header.xid, header.version, header.credits);
    let rpc = |chunks, payload| Rpc {
        xid,
        credits,
        chunks,
        payload,
    };
    match header.body {
        Body::Msg {
            direction,
            chunks,
            payload,
        } => rpc_message(side, direction, rpc(chunks, Some(payload))),
        Body::NoMsg { direction, chunks } => rpc_message(side, direction, rpc(chunks, None)),
        Body::Error(rejection) => Received::Message(Incoming::Error {
            xid,
            version,
            credits,
            rejection,
        }),
        Body::Optional {
            direction,
            operation,
            info,
            payload,
        } => match Operation::receive(operation, direction, info) {
            Ok(operation) => Received::Message(Incoming::Control {
                xid,
                credits,
                direction,
                message: Control {
                    operation,
                    trailing: !payload.is_empty(),
                },
            }),
            Err(why) => no_control(side, xid, direction, operation, why),
        },
    }
}

/// A control message that cannot be understood for the reason `why`.
fn no_control<'a>(
    side: Side,
    xid: u32,
    direction: Direction,
    operation: u32,
    why: Reason,
) -> Received<'a> {
    match why {
        Reason::Operation if direction == Direction::Call => Received::Reject {
            xid,
            rejection: Rejection::InvalidOption,
            why,
        },
        Reason::Defect(defect) => {
            defective(side, xid, Some(direction), Request::of(operation), defect)
        }
        _ => Received::Discard(why),
    }
}

fn unusable(side: Side, message: &[u8], error: DecodeError) -> Received<'static> {
    match error {
        DecodeError::NoPrefix => Received::Discard(Reason::Short),
        DecodeError::Version { xid, version, .. } => Received::Version { xid, version },
        DecodeError::Type { xid, .. } if side == Side::Server => Received::Reject {
            xid,
            rejection: Rejection::BadHeader,
            why: Reason::Type,
        },
        DecodeError::Type { .. } => Received::Discard(Reason::Type),
        DecodeError::Defect {
            xid,
            direction,
            optional,
            defect,
        } => {
            let request = match Reader::new(message).words() {
                _ if !optional => Some(Request::Call),
                Some([_, _, _, _, _, operation]) => Request::of(operation),
                None => None,
            };
            defective(side, xid, direction, request, defect)
        }
        DecodeError::ShortError { .. } | DecodeError::UnknownError { .. } => {
            Received::Discard(Reason::Error)
        }
    }
}

/// The end of a message with a defect.
fn defective(
    side: Side,
    xid: u32,
    direction: Option<Direction>,
    request: Option<Request>,
    defect: Defect,
) -> Received<'static> {
    let why = Reason::Defect(defect);
    match (side, direction, request) {
        (_, Some(Direction::Call), _) | (Side::Server, None, _) => Received::Reject {
            xid,
            rejection: Rejection::BadHeader,
            why,
        },
        (_, Some(Direction::Reply), Some(request)) => Received::Malformed { xid, request, why },
        (_, Some(Direction::Reply), None) | (Side::Client, None, _) => Received::Discard(why),
    }
}

fn rpc_message(side: Side, direction: Direction, message: Rpc<'_>) -> Received<'_> {
    match check(side, direction, &message) {
        Err(defect) => {
            let request = Some(Request::Call);
            defective(side, message.xid, Some(direction), request, defect)
        }
        Ok(()) if direction == Direction::Call => Received::Message(Incoming::Call(message)),
        Ok(()) => Received::Message(Incoming::Reply(message)),
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_receive))]
mod tests {
    use super::{
        super::{
            super::vectors::*,
            operations::Code,
            vectors::*, //
        },
        *, //
    };

    // TV-V2-1, 2, 5, 6, V2-34, V2-52, BI-29: calls and replies at either end.
    #[test]
    fn rpc_messages() {
        for (words, kind) in [
            (TV_V2_1.as_slice(), "call"),
            (TV_V2_2.as_slice(), "reply"),
            (TV_V2_7.as_slice(), "call"),
        ] {
            assert_eq!(outcome(Side::Client, &Message::new(words)), kind);
            assert_eq!(outcome(Side::Server, &Message::new(words)), kind);
        }
        assert_eq!(outcome(Side::Server, &Message::new(&TV_V2_5)), "call");
        assert_eq!(outcome(Side::Client, &Message::new(&TV_V2_6)), "reply");
    }

    // TV-XC-1..TV-XC-6, TV-XC-8..TV-XC-12, TV-M-35, TV-M-38, XC-1, XC-11, XC-33, XC-34, XC-35:
    // both ends take each operation.
    #[test]
    fn operations() {
        for (words, code) in [
            (TV_XC_1.as_slice(), Code::Initxch),
            (TV_XC_2.as_slice(), Code::Reqxch),
            (TV_XC_3.as_slice(), Code::Respxch),
            (TV_XC_4.as_slice(), Code::Updxch),
            (TV_XC_5.as_slice(), Code::Updxch),
            (TV_XC_6.as_slice(), Code::Initxch),
            (TV_XC_8.as_slice(), Code::Reqxch),
            (TV_XC_9.as_slice(), Code::Respxch),
            (TV_XC_10.as_slice(), Code::Reqxch),
            (TV_XC_11.as_slice(), Code::Respxch),
            (TV_XC_12.as_slice(), Code::Updxch),
        ] {
            let longer = Message::new(words.iter().chain(&[0]));
            for side in [Side::Client, Side::Server] {
                let taken = (code, code.direction(), false);
                assert_eq!(operation(side, &Message::new(words)), Some(taken));
                let taken = (code, code.direction(), true);
                assert_eq!(operation(side, &longer), Some(taken));
            }
        }
        for (words, code) in [
            (TV_XC_1.as_slice(), Code::Initxch),
            (TV_XC_4.as_slice(), Code::Updxch),
        ] {
            let reply = Message::new(words).put(16, 1);
            let taken = (code, Direction::Reply, false);
            assert_eq!(operation(Side::Client, &reply), Some(taken));
        }
    }

    // TV-M-22, TV-M-23, TV-M-55, V2-30, V2-33, V2-64: each end's way with each kind of defect.
    #[test]
    fn defects() {
        let call = Message::new(&TV_V2_1);
        for (message, client, server) in [
            (call.put(16, 2), "discard", "BAD_HEADER"),
            (call.put(12, 3), "discard", "BAD_HEADER"),
            (
                Message::new(&TV_V2_7).put(24, 1),
                "BAD_HEADER",
                "BAD_HEADER",
            ),
            (
                Message::new(&TV_V2_2).put(20, 2),
                "ends a call",
                "ends a call",
            ),
            (call.cut(15), "discard", "discard"),
        ] {
            assert_eq!(outcome(Side::Client, &message), client);
            assert_eq!(outcome(Side::Server, &message), server);
        }
    }

    // TV-M-8, TV-M-21, TV-M-41, V2-32, V2-33, V2-41, V2-64: header and payload differ.
    #[test]
    fn directions() {
        let call = Message::new(&TV_V2_1);
        assert_eq!(outcome(Side::Client, &call.put(16, 1)), "ends a call");
        assert_eq!(outcome(Side::Server, &call.put(16, 1)), "ends a call");
        let reply = Message::new(&TV_V2_2).put(16, 0);
        assert_eq!(outcome(Side::Server, &reply), "BAD_HEADER");
        for (at, word) in [(32, 0xdead_beef), (36, 1), (36, 2), (36, u32::MAX)] {
            assert_eq!(outcome(Side::Server, &call.put(at, word)), "BAD_HEADER");
        }
        assert_eq!(outcome(Side::Server, &call.cut(39)), "BAD_HEADER");
    }

    // TV-M-24, TV-M-46..TV-M-48, V2-45, V2-47, V2-48, XC-30, XC-35: unknown operations, and known
    // ones in the wrong direction.
    #[test]
    fn refused_operations() {
        for side in [Side::Client, Side::Server] {
            let unknown = Message::new(&TV_XC_1).put(20, 0x63);
            assert_eq!(outcome(side, &unknown), "INVAL_OPTION");
            assert_eq!(outcome(side, &unknown.put(16, 1)), "discard");
            assert_eq!(outcome(side, &unknown.put(24, 0x1000)), "BAD_HEADER");
            let request = Message::new(&TV_XC_8).put(16, 1);
            assert_eq!(outcome(side, &request), "discard");
            let response = Message::new(&TV_XC_9).put(16, 0);
            assert_eq!(outcome(side, &response.put(28, 99)), "discard");
        }
    }

    // TV-M-25..TV-M-30, TV-M-34, TV-M-36, TV-M-37, TV-M-39, TV-M-53, V2-64, XC-4..XC-8, XC-10,
    // XC-11, XC-20, XC-56, XC-66: a defect of an operation is reported, one of a reply ends its
    // request.
    #[test]
    fn defective_operations() {
        let request = Message::new(&TV_XC_1);
        let (head, tail) = TV_XC_1.split_at(11);
        let data = Message::new(head.iter().chain(&[0]).chain(tail));
        let empty = Message::new(TV_XC_6.iter().chain(&[0]));
        let entry = Message::new(TV_XC_10.iter().chain(&[0]));
        for message in [
            request.put(24, 0x1000),
            request.put(36, 0x1000),
            request.put(36, 2),
            data.put(24, 0x34).put(36, 8),
            request.put(52, 2),
            request.put(64, 3),
            Message::new(&TV_XC_5).put(40, 2),
            empty.put(24, 4),
            empty.put(24, 12),
            request.put(28, 0x2000_0000),
            entry.put(24, 0x14).put(28, 2),
        ] {
            for side in [Side::Client, Side::Server] {
                assert_eq!(outcome(side, &message), "BAD_HEADER");
                // What comes as a reply gets none.
                let reply = outcome(side, &message.put(16, 1));
                assert!(matches!(reply, "ends a request" | "discard"));
            }
        }
        let response = Message::new(&TV_XC_3).put(28, 99);
        assert_eq!(outcome(Side::Client, &response), "ends a request");
        assert_eq!(outcome(Side::Server, &response), "ends a request");
    }

    // TV-M-31, TV-M-32, TV-M-40, XC-9, XC-18, XC-46: what is accepted in spite of its oddity.
    #[test]
    fn odd_operations() {
        for message in [
            Message::new(&TV_XC_1).put(32, 0x63),
            Message::new(&TV_XC_1).put(72, 0xff),
            Message::new(&TV_XC_5).put(28, 0x63),
            Message::new(&TV_XC_3).put(32, 4),
            Message::new(&TV_XC_12).put(36, 0x3ff),
            Message::new(&TV_XC_12).put(36, 0x4003),
            Message::new(&TV_XC_12).put(36, u32::MAX),
            Message::new(&TV_XC_10).put(40, 0x800),
        ] {
            for side in [Side::Client, Side::Server] {
                assert!(operation(side, &message).is_some());
            }
        }
    }

    // TV-M-18..TV-M-20, TV-M-44, TV-M-45, V1-105, V1-114, V2-39, V2-50: errors are taken or
    // dropped, and never get a reply.
    #[test]
    fn errors() {
        let versions = Message::new(&TV_V2_4);
        let option = Message::new(&TV_V2_3);
        for side in [Side::Client, Side::Server] {
            for message in [
                versions,
                versions.put(24, 2),
                versions.put(20, 3).put(24, 5),
                option,
                option.put(16, 2),
            ] {
                assert_eq!(outcome(side, &message), "error");
            }
            for message in [
                versions.cut(24),
                option.cut(16),
                option.put(16, 0),
                option.put(16, 4),
                option.put(16, u32::MAX),
            ] {
                assert_eq!(outcome(side, &message), "discard");
            }
        }
    }

    // TV-M-42, TV-M-43, V2-69, V2-70: signs of a later text count until the version is known.
    #[test]
    fn later_texts() {
        let code = Message::new(&TV_V2_1).put(12, 10);
        let error = Message::new(&TV_V2_3).put(16, 4);
        for side in [Side::Client, Side::Server] {
            for message in [&code, &error, &Message::new(&TV_V2_3)] {
                let found = receive(side, Stage::Open, message.bytes());
                assert!(matches!(found, Received::Later(_)));
            }
        }
        assert_eq!(outcome(Side::Server, &code), "BAD_HEADER");
        assert_eq!(outcome(Side::Client, &code), "discard");
        assert_eq!(outcome(Side::Client, &error), "discard");
    }

    // TV-V1-1, V2-18: a message of another version is left to the machine that knows ours.
    #[test]
    fn versions() {
        let expected = Received::Version {
            xid: 0xa1b2_c301,
            version: 1,
        };
        let message = Message::new(&TV_V1_1);
        assert_eq!(fixed(Side::Client, &message), expected);
        assert_eq!(fixed(Side::Server, &message), expected);
    }

    fn fixed(side: Side, message: &Message) -> Received<'_> {
        receive(side, Stage::Fixed, message.bytes())
    }

    fn operation(side: Side, message: &Message) -> Option<(Code, Direction, bool)> {
        let Received::Message(Incoming::Control {
            direction, message, ..
        }) = fixed(side, message)
        else {
            return None;
        };
        let code = match message.operation {
            Operation::Initxch { .. } => Code::Initxch,
            Operation::Reqxch { .. } => Code::Reqxch,
            Operation::Respxch(_) => Code::Respxch,
            Operation::Updxch { .. } => Code::Updxch,
        };
        Some((code, direction, message.trailing))
    }

    // The end of a message, in a word.
    fn outcome(side: Side, message: &Message) -> &'static str {
        match fixed(side, message) {
            Received::Message(Incoming::Call(_)) => "call",
            Received::Message(Incoming::Reply(_)) => "reply",
            Received::Message(Incoming::Error { .. }) => "error",
            Received::Message(Incoming::Control { .. }) => "operation",
            Received::Reject { rejection, .. } => match rejection {
                Rejection::BadHeader => "BAD_HEADER",
                Rejection::InvalidOption => "INVAL_OPTION",
                _ => "another error",
            },
            Received::Malformed { request, .. } => match request {
                Request::Call => "ends a call",
                Request::Reqxch => "ends a request",
            },
            Received::Discard(_) => "discard",
            Received::Version { .. } => "version",
            Received::Later(_) => "later",
        }
    }
}
