// SPDX-License-Identifier: GPL-2.0

//! The number of calls that a connection may have outstanding. Pure, and explored by the host
//! tests.
//!
//! The server grants credits with each reply. An abandoned call keeps its credit until its late
//! reply comes or the connection ends (V1-41): the window is the last grant less these credits.
//! The words are independent, so that no order is needed; sunrpc gets the window under its
//! `transport_lock`, computed under that lock.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use super::{
    super::super::proto::credits,
    receives::Receives, //
};
use crate::os::series::fetch_sub;

/// Replies to unknown calls that one connection may bring. Each costs a look at all calls, and a
/// server that keeps to the protocol sends none.
const UNKNOWN_LIMIT: u32 = 1024;

/// The effect of a grant on the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The grant is larger. The task of the call with the reply may be frozen, and never wake
    /// another.
    Raised,
    /// The grant is the same, or smaller.
    NotRaised,
}

/// The window of a connection.
pub(crate) struct Window {
    /// The last grant.
    grant: Atomic<u32>,
    /// Its word on the wire; 0 before the first grant.
    wire_grant: Atomic<u32>,
    /// Calls that were abandoned and may still get a reply.
    abandoned: Atomic<u32>,
    /// Credits that operations of version 2 hold.
    operations: Atomic<u32>,
    /// The number of replies to unknown calls that are still accepted.
    unknown_left: Atomic<u32>,
    /// Set once a valid reply has come.
    confirmed: Atomic<bool>,
    /// The Receives for replies: a call needs a credit and a Receive.
    pub(crate) receives: Receives,
}

impl Window {
    /// The window before the first reply: one credit.
    pub(crate) const fn new() -> Self {
        Self {
            grant: Atomic::new(1),
            wire_grant: Atomic::new(0),
            abandoned: Atomic::new(0),
            operations: Atomic::new(0),
            unknown_left: Atomic::new(UNKNOWN_LIMIT),
            confirmed: Atomic::new(false),
            receives: Receives::new(),
        }
    }

    /// Returns `true` if a grant of `wire` credits leaves the window unchanged.
    #[inline(always)]
    fn is_same(&self, wire: u32) -> bool {
        wire == self.wire_grant.load(Relaxed)
            && !credits::is_zero(wire)
            && self.abandoned_calls() == 0
    }

    /// Returns `true` if a good reply that grants `wire` credits changes nothing.
    #[inline(always)]
    pub(crate) fn is_settled(&self, wire: u32) -> bool {
        self.is_same(wire) && self.is_confirmed()
    }

    /// Takes a grant of `wire` credits, of the `requested` ones. Returns `None` if the window stays
    /// the same. Called by the completion handler.
    #[inline(always)]
    pub(crate) fn granted(&self, wire: u32, requested: impl FnOnce() -> u32) -> Option<Change> {
        if self.is_same(wire) {
            return None;
        }
        Some(self.change(wire, requested()))
    }

    #[cold]
    fn change(&self, wire: u32, requested: u32) -> Change {
        let granted = credits::grant(wire, requested);
        let before = self.grant.load(Relaxed);

        self.wire_grant.store(wire, Relaxed);
        self.grant.store(granted, Relaxed);
        if granted > before {
            Change::Raised
        } else {
            Change::NotRaised
        }
    }

    /// The number of calls that may be outstanding, abandoned ones and operations not counted.
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        let others = self
            .abandoned_calls()
            .saturating_add(self.operations.load(Relaxed));

        credits::window(self.last_grant(), others)
    }

    /// Operations hold `count` credits from here on. Returns `true` if that changes the window.
    pub(crate) fn hold(&self, count: u32) -> bool {
        self.operations.xchg(count, Relaxed) != count
    }

    /// Returns `true` if operations that hold `held` credits may have another one: not the last,
    /// since a server that never responds must not stop the calls.
    pub(crate) fn spares_another(&self, held: u32) -> bool {
        self.last_grant() > held.saturating_add(1)
    }

    /// The credits of the last grant.
    pub(crate) fn last_grant(&self) -> u32 {
        self.grant.load(Relaxed)
    }

    /// Calls that were abandoned and may still get a reply.
    #[inline(always)]
    pub(crate) fn abandoned_calls(&self) -> u32 {
        self.abandoned.load(Relaxed)
    }

    /// A call is abandoned. With the lock of its request, before a late reply can count it down.
    pub(crate) fn abandon(&self) {
        self.abandoned.fetch_add(1, Relaxed);
    }

    /// The late reply to an abandoned call has come, and frees its credit.
    pub(crate) fn replied_late(&self) {
        fetch_sub(&self.abandoned, 1, Relaxed);
    }

    /// Returns `true` if abandoned calls hold too many of the credits.
    pub(crate) fn is_exhausted(&self) -> bool {
        credits::is_exhausted(self.last_grant(), self.abandoned_calls())
    }

    /// A reply to an unknown call has come. Returns `true` if it is one too many (V1-113). Called
    /// by the completion handler.
    pub(crate) fn replied_unknown(&self) -> bool {
        let left = self.unknown_left.load(Relaxed);

        self.unknown_left.store(left.saturating_sub(1), Relaxed);
        left == 0
    }

    /// A valid reply has come. Returns `true` if it is the first.
    #[inline]
    pub(crate) fn confirm(&self) -> bool {
        let first = !self.is_confirmed();

        if first {
            self.confirmed.store(true, Relaxed);
        }
        first
    }

    /// Returns `true` once a valid reply has come.
    #[inline(always)]
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed.load(Relaxed)
    }
}
