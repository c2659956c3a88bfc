// SPDX-License-Identifier: GPL-2.0

//! The door to the wire: the messages of a connection, in the version that it speaks.
//!
//! No other room names a version. The types on this side of the door have none: a message that was
//! received is an [`Incoming`], whatever its header looked like.

use super::{
    incoming::{
        Incoming,
        Reply, //
    },
    v1, //
};

/// The version of the protocol that a connection speaks, chosen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Version 1 (RFC 8166).
    V1,
}

impl Wire {
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
}
