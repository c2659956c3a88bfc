// SPDX-License-Identifier: GPL-2.0

//! The time that a connection is in use: its numbers, and the reason of its end.

use kernel::sync::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    SetOnce, //
};

use super::close_reason::CloseReason;

/// The time that a connection is in use.
pub(in crate::client) struct Tenure {
    /// The number of the connection in its transport.
    generation: u64,
    /// Its number in sunrpc's count of connections.
    cookie: Atomic<u32>,
    /// Replies that earlier connections of the transport have brought.
    receives_before: Atomic<usize>,
    /// The reason of its end.
    ended: SetOnce<CloseReason>,
}

impl Tenure {
    /// The time before use.
    pub(super) fn new(generation: u64) -> Self {
        Self {
            generation,
            cookie: Atomic::new(0),
            receives_before: Atomic::new(0),
            ended: SetOnce::new(),
        }
    }

    /// The number of the connection in its transport.
    #[inline(always)]
    pub(in crate::client) fn generation(&self) -> u64 {
        self.generation
    }

    /// sunrpc is about to learn of the connection, gives it the number `cookie`, and has counted
    /// `receives` replies.
    pub(in crate::client) fn begin(&self, cookie: u32, receives: usize) {
        self.cookie.store(cookie, Relaxed);
        self.receives_before.store(receives, Relaxed);
    }

    /// The number that sunrpc gives a connection in use.
    pub(in crate::client) fn cookie(&self) -> u32 {
        self.cookie.load(Relaxed)
    }

    /// The number of its replies, when sunrpc has counted `receives`.
    pub(super) fn replies(&self, receives: usize) -> usize {
        receives.wrapping_sub(self.receives_before.load(Relaxed))
    }

    /// Notes why the connection ends, unless that is known already. Returns the reason.
    pub(in crate::client) fn end(&self, why: CloseReason) -> CloseReason {
        self.ended.populate(why);
        self.ended.as_ref().copied().unwrap_or(why)
    }
}
