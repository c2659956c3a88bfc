// SPDX-License-Identifier: GPL-2.0

//! The door to the wire: the messages of a connection, in the version that it speaks.
//!
//! No other room names a version. The types on this side of the door have none: a message that was
//! received is an [`Incoming`], whatever its header looked like.

use super::{
    incoming::Incoming,
    v1, //
};

/// The version of the protocol that a connection speaks, chosen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Version 1 (RFC 8166).
    V1,
}

impl Wire {
    /// Classifies `message`, which a client has received.
    #[inline(always)]
    pub(crate) fn receive(self, message: &[u8]) -> Incoming<'_> {
        match self {
            Self::V1 => v1::requester::classify(message),
        }
    }
}
