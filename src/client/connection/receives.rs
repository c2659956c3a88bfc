// SPDX-License-Identifier: GPL-2.0

//! The Receives of a connection, counted for the replies that calls expect (V1-27). The host tests
//! explore it.

use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

/// The number of calls that may be sent, since the connection was made: each has a Receive for its
/// reply.
///
/// On a cache line of its own: the holder of the queue pair's lock writes it, each call reads it.
#[repr(align(64))]
pub(crate) struct Receives(Atomic<u32>);

impl Receives {
    /// No Receive is posted.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Allows `count` more calls, whose Receives are posted. Under the lock of the queue pair.
    pub(crate) fn add(&self, count: u32) {
        self.set(self.0.load(Relaxed).wrapping_add(count));
    }

    /// Allows `count` fewer calls: other messages use up their Receives. Under the lock of the
    /// queue pair.
    pub(crate) fn remove(&self, count: u32) {
        self.set(self.0.load(Relaxed).wrapping_sub(count));
    }

    fn set(&self, calls: u32) {
        // Release: the Receives are posted before a call is sent that needs them.
        self.0.store(calls, Release);
    }

    /// Returns `true` if a call may be sent after `calls` others.
    #[inline(always)]
    pub(crate) fn allow(&self, calls: u32) -> bool {
        // CAST: The difference of near numbers, negative if more calls were sent than are allowed:
        // unsolicited messages have used up their Receives.
        (self.0.load(Acquire).wrapping_sub(calls) as i32) > 0
    }
}
