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
    error::RdmaError,
    incoming::{
        Incoming,
        Reply, //
    },
    plan::{
        Plan,
        PlanError,
        PlanLimits,
        Shape,
        Sole, //
    },
    responder::{
        offer::Offer,
        received::Received,
        reply::{
            Refusal,
            ReplyLimits,
            ReplyPlan,
            ReplyShape, //
        }, //
    },
    rpc::Program,
    v1,
    xdr::NoRoom, //
};

/// The version of the protocol that a connection speaks, chosen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Version 1 (RFC 8166).
    V1,
}

impl Wire {
    /// The version word of messages.
    pub(crate) const fn version(self) -> u32 {
        match self {
            Self::V1 => v1::header::VERSION,
        }
    }

    /// Bytes of a header without chunks.
    pub(crate) const fn header_len(self) -> usize {
        match self {
            Self::V1 => v1::header::MIN_LEN,
        }
    }

    /// Returns `true` if `call` needs no chunk in either direction, as nearly all calls.
    #[inline(always)]
    pub(crate) fn is_inline(self, call: &impl Shape, limits: &PlanLimits) -> bool {
        match self {
            Self::V1 => v1::usual::is_inline(call, limits),
        }
    }

    /// The only chunk of `call`, if it has one, of one segment, as nearly all calls with chunks;
    /// `None` leaves the decision to [`Self::plan`].
    #[inline(always)]
    pub(crate) fn sole(self, call: &impl Shape, limits: &PlanLimits) -> Option<Sole> {
        match self {
            Self::V1 => v1::usual::sole(call, limits),
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
        }
    }

    /// Writes the header of a message in the reverse direction and returns its length in bytes.
    /// `credits` are the reverse calls that the client can serve together, in its reply, or those
    /// that the server asks for, in its call: at least 1 (RFC 8167, section 4.1).
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    pub(crate) fn encode_reverse(
        self,
        xid: u32,
        credits: u32,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        match self {
            Self::V1 => v1::encode::encode_bare_header(xid, credits, out),
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
        match self {
            Self::V1 => v1::encode::encode_error(xid, version, grant, error, out),
        }
    }

    /// The reply that a client has received in `message`, if it has no chunk, or one of one
    /// segment: nearly all messages. `None` if it is anything else.
    #[inline(always)]
    pub(crate) fn reply(self, message: &[u8]) -> Option<Reply<'_>> {
        match self {
            Self::V1 => v1::requester::reply(message),
        }
    }

    /// Classifies `message`, which a client has received.
    pub(crate) fn receive(self, message: &[u8]) -> Incoming<'_> {
        match self {
            Self::V1 => v1::requester::classify(message),
        }
    }

    /// Classifies `message`, which a server has received.
    pub(crate) fn receive_call(self, message: &[u8]) -> Received<'_> {
        match self {
            Self::V1 => v1::responder::receive(message),
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
        let header_len = match self {
            Self::V1 => v1::reply_header::header_len(offer),
        };
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
        }
    }
}
