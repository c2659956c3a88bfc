// SPDX-License-Identifier: GPL-2.0

//! The door to the wire: plans and messages in the version that a connection speaks.
//!
//! No other room names a version. The types on this side of the door have none: a call is a
//! [`Shape`] before it is planned and a [`CallHeader`] before it is written, and a message that was
//! received is a [`Reply`], or another [`Incoming`], whatever its header looks like. At a server, a
//! message is a [`Received`], and a reply a [`ReplyPlan`].

use super::{
    call_header::{
        CallHeader,
        EncodeError, //
    },
    defect::Defect,
    error::RdmaError,
    incoming::{
        Incoming,
        Reply, //
    },
    neutral::Direction,
    plan::{
        Plan,
        PlanError,
        PlanLimits,
        Shape,
        Sole, //
    },
    prefix::Prefix,
    responder::{
        offer::Offer,
        received::{
            Reason,
            Received, //
        },
        reply::{
            lists::lists_len,
            Refusal,
            ReplyLimits,
            ReplyPlan,
            ReplyShape, //
        }, //
    },
    rpc::Program,
    v1,
    v2::{
        self,
        negotiate::{
            server::{
                Action,
                Kind,
                Server, //
            },
            Versions, //
        }, //
    },
    xdr::{
        NoRoom,
        Reader, //
    },
    Thresholds, //
};

/// The version of the protocol that a connection speaks, chosen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Version 1 (RFC 8166).
    V1,
    /// Version 2 (see [`v2`]).
    V2,
}

/// Bytes of the direction word in front of the chunk lists of version 2, whose messages are planned
/// as those of version 1 with as much less room.
const DIRECTION: u32 = 4;

impl Kind {
    /// The kind of a message that was received in this version.
    fn of(received: &Received<'_>, wire: Wire) -> Self {
        match received {
            Received::Call(_) | Received::ReverseReply { .. } | Received::Operation(_) => {
                Self::Good
            }
            Received::ReverseError { .. } => Self::Error,
            Received::Reject {
                why: Reason::Defect(Defect::Type),
                ..
            } if wire == Wire::V2 => Self::UnknownType,
            // Of another version; or of an operation, which is well-formed.
            Received::Reject {
                error: RdmaError::Version { .. } | RdmaError::InvalidOption,
                ..
            } => Self::Good,
            Received::Reject { .. } => Self::Defect { is_reply: false },
            Received::BadResponse { .. } | Received::Drop(Reason::BadReply) => {
                Self::Defect { is_reply: true }
            }
            Received::Drop(_) => Self::Error,
        }
    }
}

impl Wire {
    /// The version of this number.
    pub(crate) const fn of(version: u32) -> Option<Self> {
        match version {
            v1::header::VERSION => Some(Self::V1),
            v2::header::VERSION => Some(Self::V2),
            _ => None,
        }
    }

    /// The version word of messages.
    pub(crate) const fn version(self) -> u32 {
        match self {
            Self::V1 => v1::header::VERSION,
            Self::V2 => v2::header::VERSION,
        }
    }

    /// Bytes of a header without chunks.
    pub(crate) const fn header_len(self) -> usize {
        match self {
            Self::V1 => v1::header::MIN_LEN,
            Self::V2 => v2::header::MIN_LEN,
        }
    }

    /// Bytes that a reverse message may have behind its header. Neither a reverse call nor its
    /// reply has chunks, so that both have to fit inline (BI-20).
    pub(crate) fn reverse_payload(self, thresholds: &Thresholds) -> u32 {
        let Thresholds { call, reply } = *thresholds;

        let header = u32::try_from(self.header_len()).unwrap_or(u32::MAX);

        match self {
            Self::V1 => call.min(reply).saturating_sub(header),
            Self::V2 => v2::limits::reverse_payload(call, reply),
        }
    }

    /// Returns `true` if `call` needs no chunk in either direction, as nearly all calls.
    #[inline(always)]
    pub(crate) fn is_inline(self, call: &impl Shape, limits: &PlanLimits) -> bool {
        match self {
            Self::V1 => v1::usual::is_inline(call, limits),
            Self::V2 => v1::usual::is_inline(call, &limits.less(DIRECTION)),
        }
    }

    /// The only chunk of `call`, if it has one, of one segment, as nearly all calls with chunks;
    /// `None` leaves the decision to [`Self::plan`].
    #[inline(always)]
    pub(crate) fn sole(self, call: &impl Shape, limits: &PlanLimits) -> Option<Sole> {
        match self {
            Self::V1 => v1::usual::sole(call, limits),
            Self::V2 => v1::usual::sole(call, &limits.less(DIRECTION)),
        }
    }

    /// Decides how `call` is sent under `limits`.
    ///
    /// # Errors
    ///
    /// See [`PlanError`]; such a call fails immediately.
    pub(crate) fn plan(self, call: &impl Shape, limits: &PlanLimits) -> Result<Plan, PlanError> {
        match self {
            Self::V1 => v1::plan::plan(call, limits),
            Self::V2 => v1::plan::plan(call, &limits.less(DIRECTION)),
        }
    }

    /// Returns `true` if the replies to `call` fit when its Write chunk has this number of
    /// segments: it can have more than were planned (V1-153).
    pub(crate) fn reply_fits(
        self,
        call: &impl Shape,
        limits: &PlanLimits,
        write_segments: u32,
    ) -> bool {
        match self {
            Self::V1 => v1::plan::reply_fits(call, limits, write_segments),
            Self::V2 => v1::plan::reply_fits(call, &limits.less(DIRECTION), write_segments),
        }
    }

    /// Writes the header of a call to the front of `out` and returns its length in bytes.
    ///
    /// # Errors
    ///
    /// See [`EncodeError`]; the content of `out` is then undefined.
    #[inline(always)]
    pub(crate) fn encode(
        self,
        header: &CallHeader<'_>,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        match self {
            Self::V1 => v1::encode::encode_call(header, out),
            Self::V2 => Ok(v2::encode::encode_call(header, out)?),
        }
    }

    /// Writes the header of a message in the reverse direction, a call or a reply, and returns its
    /// length in bytes. `credits` are the reverse calls that the client can serve together, in its
    /// reply, or those that the server asks for, in its call: at least 1 (RFC 8167, section 4.1).
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub(crate) fn encode_reverse(
        self,
        xid: u32,
        credits: u32,
        direction: Direction,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        match self {
            Self::V1 => v1::encode::encode_bare_header(xid, credits, out),
            Self::V2 => Ok(v2::encode::encode_bare_header(
                xid, credits, direction, out,
            )?),
        }
    }

    /// Writes a call of procedure 0 of `program`, which every program answers immediately, and
    /// returns the length of the message in bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub(crate) fn encode_null_call(
        self,
        xid: u32,
        credits: u32,
        program: Program,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        match self {
            Self::V1 => v1::message::encode_null_call(xid, credits, program, out),
            Self::V2 => Ok(v2::encode::encode_null_call(xid, credits, program, out)?),
        }
    }

    /// Writes the reply in the reverse direction to a call whose own reply does not fit (BI-32),
    /// and returns the length of the message in bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub(crate) fn encode_system_error(
        self,
        xid: u32,
        grant: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        match self {
            Self::V1 => v1::message::encode_system_error(xid, grant, out),
            Self::V2 => Ok(v2::encode::encode_system_error(xid, grant, out)?),
        }
    }

    /// Writes the `error` in reply to a message with this xid and `version` word, and returns its
    /// length in bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub(crate) fn encode_error(
        self,
        xid: u32,
        version: u32,
        grant: u32,
        error: &RdmaError,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        // The layout is the same in all versions.
        Ok(error.encode(xid, version, grant, out)?)
    }

    /// The reply that a client has received in `message`, if it has no chunk, or one of one
    /// segment: nearly all messages. `None` if it is anything else.
    #[inline(always)]
    pub(crate) fn reply(self, message: &[u8]) -> Option<Reply<'_>> {
        match self {
            Self::V1 => v1::requester::reply(message),
            Self::V2 => v2::requester::reply(message),
        }
    }

    /// Classifies `message`, which a client has received.
    pub(crate) fn receive(self, message: &[u8]) -> Incoming<'_> {
        match self {
            Self::V1 => v1::requester::classify(message),
            Self::V2 => v2::requester::classify(message),
        }
    }

    /// Classifies `message`, which a server has received.
    pub(crate) fn receive_call(self, message: &[u8]) -> Received<'_> {
        match self {
            Self::V1 => v1::responder::receive(message),
            Self::V2 => v2::responder::receive(message),
        }
    }

    /// Classifies `message`, which a server has received before the version of the connection was
    /// fixed: the first message that can be served fixes it, among `versions`. Returns that version
    /// with such a message.
    pub(crate) fn first(versions: Versions, message: &[u8]) -> (Option<Self>, Received<'_>) {
        let Some(prefix) = Prefix::decode(&mut Reader::new(message)) else {
            return (None, Received::Drop(Reason::Short));
        };
        let wire = match prefix.version {
            v2::header::VERSION => Self::V2,
            _ => Self::V1,
        };
        let received = wire.receive_call(message);
        let action = Server::new(versions).received(prefix.version, Kind::of(&received, wire));
        let rejected = |error, why| Received::Reject {
            xid: prefix.xid,
            version: prefix.version,
            error,
            why,
        };

        match action {
            Action::Serve => (Some(wire), received),
            Action::Versions { low, high } => {
                let error = RdmaError::Version { low, high };
                (None, rejected(error, Reason::Version))
            }
            Action::BadHeader => (None, received),
            Action::Drop => (None, received.dropped()),
        }
    }

    /// Classifies `message`, which a server has received on a connection of this version, one of
    /// `versions`.
    #[inline]
    pub(crate) fn next(self, versions: Versions, message: &[u8]) -> Received<'_> {
        match self.receive_call(message) {
            Received::Reject {
                xid,
                version,
                error: RdmaError::Version { .. },
                why,
            } => {
                let (low, high) = versions.range();
                Received::Reject {
                    xid,
                    version,
                    error: RdmaError::Version { low, high },
                    why,
                }
            }
            received => received,
        }
    }

    /// Plans the reply to a call with this offer.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub(crate) fn plan_reply<'a, 'r>(
        self,
        offer: &Offer<'a>,
        shape: &ReplyShape<'r>,
        limits: &ReplyLimits,
    ) -> Result<ReplyPlan<'a, 'r>, Refusal> {
        let header_len = u64::try_from(self.header_len()).unwrap_or(u64::MAX);
        let header_len = header_len.saturating_add(lists_len(offer));
        ReplyPlan::new(offer, header_len, shape, limits)
    }

    /// Writes the header of a planned reply to the front of `out` and returns its length in bytes.
    /// `credits` is the current grant.
    ///
    /// # Errors
    ///
    /// [`NoRoom`].
    pub(crate) fn encode_reply(
        self,
        plan: &ReplyPlan<'_, '_>,
        xid: u32,
        credits: u32,
        out: &mut [u8],
    ) -> Result<usize, NoRoom> {
        match self {
            Self::V1 => v1::reply_header::encode(plan, xid, credits, out),
            Self::V2 => v2::encode::encode_reply(plan, xid, credits, out),
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_wire))]
mod tests {
    use super::{
        super::{
            v2::vectors::*,
            vectors::*, //
        },
        *, //
    };

    // V2-7, V2-9, V2-20, V2-62, V2-68, V2-70: the first message that can be served fixes the
    // version.
    #[test]
    fn first_messages() {
        let (one, two) = (Message::new(&TV_V1_1), Message::new(&TV_V2_1));
        let range = |message: &Message, low, high| Received::Reject {
            xid: message.word(0),
            version: message.word(4),
            error: RdmaError::Version { low, high },
            why: Reason::Version,
        };
        let first = |versions, message| Wire::first(versions, Message::bytes(message));
        for (versions, message, wire) in [
            (Versions::One, &one, Wire::V1),
            (Versions::Auto, &one, Wire::V1),
            (Versions::Auto, &two, Wire::V2),
            (Versions::Two, &two, Wire::V2),
        ] {
            let (fixed, received) = first(versions, message);
            assert_eq!(fixed, Some(wire));
            assert!(matches!(received, Received::Call(_)));
        }
        let (type_10, third) = (two.put(12, 10), two.put(4, 3));
        for (versions, message, low, high) in [
            (Versions::One, &two, 1, 1),
            (Versions::Two, &one, 2, 2),
            (Versions::Auto, &third, 1, 2),
            (Versions::Auto, &type_10, 1, 1),
        ] {
            let expected = (None, range(message, low, high));
            assert_eq!(first(versions, message), expected);
        }
        // A defect, an error, and a message without a prefix fix nothing.
        let (defect, error) = (one.put(16, 2), Message::new(&TV_V2_4));
        let defect = first(Versions::Auto, &defect);
        assert!(matches!(defect, (None, Received::Reject { .. })));
        let error = first(Versions::Auto, &error);
        assert!(matches!(error, (None, Received::Drop(_))));
        // XC-56: nor does a response that cannot be decoded.
        let response = Message::new(&TV_XC_3);
        let cut = response.cut(response.bytes().len() - 4);
        let cut = first(Versions::Auto, &cut);
        assert_eq!(cut, (None, Received::Drop(Reason::BadReply)));
        let short = one.cut(15);
        let short = first(Versions::Auto, &short);
        assert_eq!(short, (None, Received::Drop(Reason::Short)));
    }

    // V2-18: another version later.
    #[test]
    fn next_messages() {
        let (one, two) = (Message::new(&TV_V1_1), Message::new(&TV_V2_1));
        for (wire, own, other) in [(Wire::V1, &one, &two), (Wire::V2, &two, &one)] {
            let received = wire.next(Versions::Auto, own.bytes());
            assert!(matches!(received, Received::Call(_)));
            let expected = Received::Reject {
                xid: other.word(0),
                version: other.word(4),
                error: RdmaError::Version { low: 1, high: 2 },
                why: Reason::Version,
            };
            assert_eq!(wire.next(Versions::Auto, other.bytes()), expected);
            assert_eq!(Wire::of(wire.version()), Some(wire));
        }
        assert_eq!(Wire::of(3), None);
    }
}
