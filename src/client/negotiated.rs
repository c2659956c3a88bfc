// SPDX-License-Identifier: GPL-2.0

//! The terms of a connection.

use kernel::sync::Arc;

use crate::{
    cm::Gid,
    policy::{
        table::Name,
        Policy,
        RemoteInvalidation, //
    },
    proto::{
        Limits,
        PrivateData, //
    },
    verbs::MrPool, //
};

/// The terms that both ends agreed on, fixed for the life of the connection (PD-19).
pub(super) struct Negotiated {
    /// The limits with which calls and replies are planned.
    pub(super) limits: Limits,
    /// Calls that we ask leave to have outstanding.
    pub(super) credits: u32,
    /// Calls that the server may have outstanding.
    pub(super) reverse_slots: u32,
    /// Set to say if the server may invalidate registrations. `Strict`: it was told that it may,
    /// and did not say that it does, so that it must not.
    pub(super) remote_invalidation: RemoteInvalidation,
    /// The registrations of this connection.
    pub(super) pool: Arc<MrPool>,
    /// All else that was fixed, for those who look at it.
    pub(super) facts: Facts,
}

/// Facts that are fixed when a connection is made, for those who look at it later.
pub(super) struct Facts {
    /// The policy, and the rule that it comes from.
    pub(super) policy: Policy,
    pub(super) rule: Option<Name>,
    /// The message that we sent to the server, its own, and all of its private data.
    pub(super) own: PrivateData,
    pub(super) peer: Option<PrivateData>,
    pub(super) bytes: PeerData,
    /// The port of the device, and our address on it.
    pub(super) port: u32,
    pub(super) gid: Gid,
    /// The time at which it was made, in jiffies.
    pub(super) since: usize,
}

/// Private data of the peer, without the zeros that pad it.
#[derive(Clone, Copy)]
pub(super) struct PeerData {
    bytes: [u8; Self::MAX],
    len: usize,
}

impl PeerData {
    /// The most that fits into a reply of the InfiniBand connection manager.
    const MAX: usize = 196;

    /// No private data.
    pub(super) const NONE: Self = Self {
        bytes: [0; Self::MAX],
        len: 0,
    };

    /// As much of `bytes` as there is room for.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut new = Self::NONE;
        let mut copied = 0usize;

        for (to, from) in new.bytes.iter_mut().zip(bytes) {
            *to = *from;
            copied = copied.saturating_add(1);
            if *from != 0 {
                // A message may end with zeros.
                new.len = copied.saturating_add(PrivateData::LEN);
            }
        }
        new.len = new.len.min(copied);
        new
    }

    /// The bytes.
    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}
