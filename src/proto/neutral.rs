// SPDX-License-Identifier: GPL-2.0

//! Meanings that every version of the protocol has, or could have, in types of no version.
//!
//! The code of a connection is to know these alone, so that another version, or another text with
//! the number of one, is a codec beside the others.
//!
//! | type | stands for |
//! |---|---|
//! | [`Direction`], [`Rpc`], [`Incoming`] | a received message |
//! | [`Rejection`] | the error in reply to a message that cannot be processed |
//! | [`Credits`] | flow control: grants, or running totals |
//! | [`Invalidation`] | the handles that a reply may invalidate |
//! | [`Row`], [`Kind`], [`Value`], [`ChangedBy`] | a table of transport characteristics |

use super::{
    chunk::ChunkLists,
    error::RdmaError,
    xdr::Reader, //
};

/// The roles of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The end that connected.
    Client,
    /// The end that accepted.
    Server,
}

/// The direction of a message with respect to the request that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the requester; the xid and the credits are its own.
    Call,
    /// From the responder; the xid is the request's, the credits are a grant.
    Reply,
}

/// An RPC message with its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rpc<'a> {
    /// Its xid.
    pub(crate) xid: u32,
    /// The credits word, unchecked.
    pub(crate) credits: u32,
    /// The chunk lists.
    pub(crate) chunks: ChunkLists<'a>,
    /// The inline part of the message; `None` when all of it is in a chunk.
    pub(crate) payload: Option<&'a [u8]>,
}

/// A message that decodes. `C` is a message between the transports themselves, in the terms of its
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incoming<'a, C> {
    /// A call, in either direction of the connection.
    Call(Rpc<'a>),
    /// A reply to a call, not yet compared with it.
    Reply(Rpc<'a>),
    /// The peer could not process a message that was sent with [`Direction::Call`].
    Error {
        /// The xid of that message.
        xid: u32,
        /// The version word: the message's, or the peer's own.
        version: u32,
        /// The credits word, unchecked.
        credits: u32,
        /// The error.
        rejection: Rejection,
    },
    /// A message between the transports.
    Control {
        /// Its xid.
        xid: u32,
        /// The credits word, unchecked.
        credits: u32,
        /// Its direction.
        direction: Direction,
        /// The message.
        message: C,
    },
}

impl<C> Incoming<'_, C> {
    /// The direction of the message, which selects the space of its xid and the count of its
    /// credits.
    pub(crate) const fn direction(&self) -> Direction {
        match self {
            Self::Call(_) => Direction::Call,
            Self::Reply(_) | Self::Error { .. } => Direction::Reply,
            Self::Control { direction, .. } => *direction,
        }
    }
}

/// An optional operation that was received, well-formed, in the bytes of its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Optional<'a> {
    /// Its xid.
    pub(crate) xid: u32,
    /// The credits word, unchecked.
    pub(crate) credits: u32,
    /// The message.
    pub(crate) message: &'a [u8],
}

/// The reason why a message cannot be processed. A codec that cannot be as specific reports
/// [`Rejection::BadHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// Its version is not spoken.
    Version {
        /// The lowest version that is.
        low: u32,
        /// The highest version that is.
        high: u32,
    },
    /// Its header is not well-formed, or its chunks cannot be used.
    BadHeader,
    /// It is of an optional operation that is unknown or not supported.
    InvalidOption,
    /// The reply does not fit into what the call offered.
    ReplyTooLong {
        /// The bytes that it needs, if the peer reports them.
        needed: Option<u32>,
    },
    /// A result does not fit into its Write chunk.
    ResultTooLong {
        /// The index of the chunk, and the bytes that are needed, if the peer reports them.
        needed: Option<(u32, u32)>,
    },
    /// A list has more chunks, or a chunk more segments, than the responder takes.
    TooManySegments {
        /// The number that it takes, if it reports it.
        most: Option<u32>,
    },
}

impl From<Rejection> for RdmaError {
    /// The error that every version has for it.
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Version { low, high } => Self::Version { low, high },
            Rejection::InvalidOption => Self::InvalidOption,
            Rejection::BadHeader
            | Rejection::ReplyTooLong { .. }
            | Rejection::ResultTooLong { .. }
            | Rejection::TooManySegments { .. } => Self::BadHeader,
        }
    }
}

impl From<RdmaError> for Rejection {
    fn from(error: RdmaError) -> Self {
        match error {
            RdmaError::Version { low, high } => Self::Version { low, high },
            RdmaError::BadHeader => Self::BadHeader,
            RdmaError::InvalidOption => Self::InvalidOption,
        }
    }
}

/// The kinds of messages that credits distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// A message that the peer replies to.
    TwoWay,
    /// A message that it does not reply to.
    OneWay,
    /// A reply.
    Reply,
}

/// The flow control of a connection, for one end.
pub(crate) trait Credits {
    /// Returns `true` if the peer has a Receive for the message.
    fn may_send(&self, message: Sending) -> bool;

    /// Counts the message as sent, and returns its credits word.
    fn send(&mut self, message: Sending) -> u32;

    /// Takes the credits word of a received message.
    fn receive(&mut self, message: Sending, word: u32);
}

/// The handles that the reply to a call may invalidate (Send With Invalidate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalidation {
    /// None.
    None,
    /// Each one of the call.
    Any,
    /// This one.
    Handle(u32),
}

impl Invalidation {
    /// Returns `true` if `handle`, one of the call, may be invalidated.
    pub(crate) const fn permits(self, handle: u32) -> bool {
        match self {
            Self::None => false,
            Self::Any => true,
            Self::Handle(named) => named == handle,
        }
    }
}

/// The type of a characteristic's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An unsigned integer of 32 bits.
    Word,
    /// A boolean.
    Flag,
    /// An enumeration of the numbers below this one.
    Choice(u32),
    /// Bytes.
    Opaque,
}

/// The value of a characteristic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Of [`Kind::Word`].
    Word(u32),
    /// Of [`Kind::Flag`].
    Flag(bool),
    /// Of [`Kind::Choice`].
    Choice(u32),
    /// Of [`Kind::Opaque`].
    Opaque(&'a [u8]),
}

impl Kind {
    /// The value that `data` is the XDR of; `None` if it is too short, too long or none of the
    /// type.
    #[inline]
    pub(crate) fn decode(self, data: &[u8]) -> Option<Value<'_>> {
        if self == Self::Opaque {
            return Some(Value::Opaque(data));
        }
        let mut reader = Reader::new(data);
        let word = reader.word()?;
        if !reader.rest().is_empty() {
            return None;
        }
        match self {
            Self::Flag if word <= 1 => Some(Value::Flag(word == 1)),
            Self::Choice(values) if word < values => Some(Value::Choice(word)),
            Self::Word => Some(Value::Word(word)),
            Self::Flag | Self::Choice(_) | Self::Opaque => None,
        }
    }
}

/// The ends that may change a characteristic during a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangedBy {
    /// None: it keeps its first value.
    None,
    /// The end that it describes, by itself or at the peer's request.
    Owner,
}

/// A characteristic, as a document defines it. An implementation knows the rows of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its number in this document.
    pub(crate) id: u32,
    /// Its name there.
    pub(crate) name: &'static str,
    /// The type of its value.
    pub(crate) kind: Kind,
    /// The value of a peer that does not send it.
    pub(crate) default: Value<'static>,
    /// The ends that may change it.
    pub(crate) changed_by: ChangedBy,
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_neutral))]
mod tests {
    use super::*;

    // XC-5..XC-8: the values of each kind at their limits, and data of any other length.
    #[test]
    fn values() {
        let all = [
            Kind::Word,
            Kind::Flag,
            Kind::Choice(3),
            Kind::Choice(0),
            Kind::Opaque,
        ];
        for (word, flag, choice) in [
            (0, Some(Value::Flag(false)), Some(Value::Choice(0))),
            (1, Some(Value::Flag(true)), Some(Value::Choice(1))),
            (2, None, Some(Value::Choice(2))),
            (3, None, None),
            (0x0100_0000, None, None),
            (u32::MAX, None, None),
        ] {
            let data = word.to_be_bytes();
            let expected = [
                Some(Value::Word(word)),
                flag,
                choice,
                None,
                Some(Value::Opaque(&data)),
            ];
            assert_eq!(all.map(|kind| kind.decode(&data)), expected);
        }
        for len in [0, 1, 2, 3, 5, 8] {
            let data = [0; 8];
            let data = data.get(..len).unwrap_or_default();
            let expected = [None, None, None, None, Some(Value::Opaque(data))];
            assert_eq!(all.map(|kind| kind.decode(data)), expected);
        }
    }

    // PD-30: a handle is invalidated with leave alone.
    #[test]
    fn invalidations() {
        for (leave, expected) in [
            (Invalidation::None, [false, false]),
            (Invalidation::Any, [true, true]),
            (Invalidation::Handle(7), [true, false]),
        ] {
            assert_eq!([7, 8].map(|handle| leave.permits(handle)), expected);
        }
    }

    // Grants (RFC 8166, section 3.3.1): absolute numbers, returned with replies.
    struct Grants {
        requested: u32,
        granted: u32,
        unanswered: u32,
    }

    impl Credits for Grants {
        fn may_send(&self, message: Sending) -> bool {
            match message {
                Sending::TwoWay => self.unanswered < self.granted,
                Sending::OneWay => false,
                Sending::Reply => true,
            }
        }

        fn send(&mut self, message: Sending) -> u32 {
            if message == Sending::TwoWay {
                self.unanswered = self.unanswered.saturating_add(1);
            }
            self.requested
        }

        fn receive(&mut self, message: Sending, word: u32) {
            if message == Sending::Reply {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.granted = super::super::credits::grant(word, self.requested);
            }
        }
    }

    // Running totals, as the later texts of version 2 have them: each message takes one.
    struct Totals {
        sent: u32,
        limit: u32,
        own_limit: u32,
    }

    impl Credits for Totals {
        fn may_send(&self, _: Sending) -> bool {
            self.sent != self.limit
        }

        fn send(&mut self, _: Sending) -> u32 {
            self.sent = self.sent.wrapping_add(1);
            self.own_limit
        }

        fn receive(&mut self, _: Sending, word: u32) {
            self.limit = word;
            self.own_limit = self.own_limit.wrapping_add(1);
        }
    }

    // V1-32, V1-39: both ways of flow control answer the three questions.
    #[test]
    fn flow_control() {
        let mut grants = Grants {
            requested: 32,
            granted: 1,
            unanswered: 0,
        };
        assert!(grants.may_send(Sending::TwoWay) && !grants.may_send(Sending::OneWay));
        assert_eq!(grants.send(Sending::TwoWay), 32);
        assert!(!grants.may_send(Sending::TwoWay) && grants.may_send(Sending::Reply));
        grants.receive(Sending::Reply, 0);
        assert_eq!(grants.granted, 1);
        assert!(grants.may_send(Sending::TwoWay));

        let mut totals = Totals {
            sent: u32::MAX,
            limit: 1,
            own_limit: 16,
        };
        for message in [Sending::OneWay, Sending::Reply] {
            assert!(totals.may_send(message));
            assert_eq!(totals.send(message), 16);
        }
        assert!(!totals.may_send(Sending::TwoWay));
        totals.receive(Sending::OneWay, 2);
        assert!(totals.may_send(Sending::TwoWay));
        assert_eq!(totals.send(Sending::TwoWay), 17);
    }

    // V1-104: the errors that all versions have.
    #[test]
    fn common_errors() {
        let version = RdmaError::Version { low: 1, high: 2 };
        let expected = Rejection::Version { low: 1, high: 2 };
        assert_eq!(Rejection::from(version), expected);
        let bad_header = Rejection::from(RdmaError::BadHeader);
        assert_eq!(bad_header, Rejection::BadHeader);
    }

    // V2-34, V2-39: the direction of each kind of message.
    #[test]
    fn directions() {
        let rpc = Rpc {
            xid: 1,
            credits: 1,
            chunks: ChunkLists::default(),
            payload: None,
        };
        let error = Incoming::Error {
            xid: 1,
            version: 2,
            credits: 1,
            rejection: Rejection::BadHeader,
        };
        let control = |direction| Incoming::Control {
            xid: 1,
            credits: 1,
            direction,
            message: (),
        };
        for (message, direction) in [
            (Incoming::Call(rpc), Direction::Call),
            (Incoming::Reply(rpc), Direction::Reply),
            (error, Direction::Reply),
            (control(Direction::Call), Direction::Call),
            (control(Direction::Reply), Direction::Reply),
        ] {
            assert_eq!(message.direction(), direction);
        }
    }
}
