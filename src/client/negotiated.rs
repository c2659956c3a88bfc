// SPDX-License-Identifier: GPL-2.0

//! The terms of a connection, which are settled when it is made. Its [`Limits`] may change.

use core::ops::Deref;

use kernel::sync::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    Arc, //
};

use super::limits::Limits;

use crate::{
    cm::Gid,
    policy::{
        table::Name,
        Policy,
        RemoteInvalidation, //
    },
    proto::{
        PlanLimits,
        PrivateData,
        Thresholds,
        Wire, //
    },
    verbs::MrPool, //
};

/// The terms that both ends agreed on (PD-19).
pub(super) struct Negotiated {
    /// The version that the connection speaks.
    pub(super) spoken: Spoken,
    /// The limits for the plans of calls and replies.
    pub(super) limits: Limits,
    /// The number of outstanding calls that we request from the server.
    pub(super) credits: u32,
    /// Calls that the server may have outstanding.
    pub(super) reverse_slots: u32,
    /// The server's permission to invalidate registrations. `Strict`: we offered it, and the server
    /// did not accept, so that it must not.
    pub(super) remote_invalidation: RemoteInvalidation,
    /// The registrations of this connection.
    pub(super) pool: Arc<MrPool>,
    /// The rest, for display.
    pub(super) facts: Facts,
}

/// The terms at one moment, for one call.
pub(super) struct Terms<'a> {
    negotiated: &'a Negotiated,
    /// The limits at that moment, instead of [`Negotiated::limits`].
    pub(super) limits: PlanLimits,
}

/// The version that a connection speaks: the first, until the server has agreed to another.
pub(super) struct Spoken(Atomic<u32>);

impl Spoken {
    /// The version of a new connection.
    pub(super) const fn first() -> Self {
        Self(Atomic::new(Wire::V1.version()))
    }

    /// The version.
    #[inline(always)]
    pub(super) fn wire(&self) -> Wire {
        // Relaxed: it changes before the first call.
        Wire::of(self.0.load(Relaxed)).unwrap_or(Wire::V1)
    }

    /// Both ends have agreed on `wire`.
    pub(super) fn set(&self, wire: Wire) {
        self.0.store(wire.version(), Relaxed);
    }
}

impl Negotiated {
    /// The version that the connection speaks.
    #[inline(always)]
    pub(super) fn wire(&self) -> Wire {
        self.spoken.wire()
    }

    /// Both ends have agreed on `wire`. In version 2 a server without private data takes longer
    /// messages than it may in version 1 (V2-22, V2-25), and no reply is planned to be longer until
    /// the server has shown that it heeds sizes (XC-89).
    pub(super) fn agree(&self, wire: Wire) {
        self.spoken.set(wire);
        if wire == Wire::V2 {
            let told = self.told();
            let default = PrivateData::of_version_2();
            let planned = Thresholds::for_client(&self.facts.own, &default);

            self.limits.change(Thresholds {
                call: told.call,
                reply: planned.reply.min(told.reply),
            });
        }
    }

    /// The thresholds of version 2 by private data, or without it. No characteristic is about Send
    /// buffers, so that no reply is longer than these permit.
    pub(super) fn told(&self) -> Thresholds {
        Thresholds::for_client(&self.facts.own, &self.server())
    }

    /// The longest message in bytes that the server of version 2 has said that it sends.
    pub(super) fn server_sends(&self) -> u32 {
        self.server().send.bytes()
    }

    /// The private data of a server of version 2, or what holds without it.
    fn server(&self) -> PrivateData {
        self.facts.peer.unwrap_or_else(PrivateData::of_version_2)
    }

    /// The terms that hold now, for a message in a buffer of `len` bytes: a buffer may be older
    /// than the limit.
    #[inline(always)]
    pub(super) fn for_buffer(&self, len: usize) -> Terms<'_> {
        let mut limits = self.limits.get();
        // CAST: The buffers of a connection are short.
        limits.thresholds.call = limits.thresholds.call.min(len as u32);

        Terms {
            negotiated: self,
            limits,
        }
    }
}

impl Deref for Terms<'_> {
    type Target = Negotiated;

    #[inline(always)]
    fn deref(&self) -> &Negotiated {
        self.negotiated
    }
}

/// Facts about a connection, noted when it was made, for display.
pub(super) struct Facts {
    /// The policy, and the rule that it comes from.
    pub(super) policy: Policy,
    pub(super) rule: Option<Name>,
    /// Our message to the server, the server's, and all of its private data.
    pub(super) own: PrivateData,
    pub(super) peer: Option<PrivateData>,
    pub(super) bytes: PeerData,
    /// The port of the device, and our address on it.
    pub(super) port: u32,
    pub(super) gid: Gid,
    /// When the connection was made, in jiffies.
    pub(super) since: usize,
}

/// Private data of the peer, without the zeros that pad it.
#[derive(Clone, Copy)]
pub(super) struct PeerData {
    bytes: [u8; Self::MAX],
    len: usize,
}

impl PeerData {
    /// The most bytes in an event of the connection manager, whose length field has one byte: 196
    /// fit into a reply of InfiniBand, and more into a reply of iWARP (PD-36).
    const MAX: usize = 255;

    /// No private data.
    pub(super) const NONE: Self = Self {
        bytes: [0; Self::MAX],
        len: 0,
    };

    /// The private data `bytes`, up to [`Self::MAX`] of them.
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
