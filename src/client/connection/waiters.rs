// SPDX-License-Identifier: GPL-2.0

//! Calls that wait for a resource of their connection. Pure, and explored by the host tests.
//!
//! Room on the send queue and Send buffers come back when Sends complete: sunrpc waits for buffer
//! space. Registrations and Receives come back with replies, or growth. The server may send such
//! replies only after the reply to a call of its own, such as the recall of a delegation (H-74). So
//! this shortage is not reported to sunrpc as lack of space, since sunrpc would send no reply to a
//! reverse call either. The call gives its credit back instead, and sunrpc makes all calls wait as
//! without a credit.
//!
//! Store-buffer pattern. Waiter: set the mark, request growth, smp_mb(), retry. Waker: return the
//! resource, smp_mb(), test the mark. A waker may come before sunrpc makes a call wait for replies:
//! sunrpc does so under a lock, and only if `short` is still set; the waker clears `short` before
//! it ends the wait under the same lock.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use crate::os::series::smp_mb;

/// The resource that a message is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Shortage {
    /// A Send buffer, or room on the send queue.
    Sends = 1,
    /// A Receive for the reply.
    Receives = 2,
    /// Registrations.
    Registrations = 3,
}

/// The resources that have come back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returned {
    /// Sends have completed.
    Sends,
    /// Receives were posted.
    Receives,
    /// Buffers or registrations were allocated.
    Growth,
}

/// The upper layer, which makes senders wait and wakes them.
pub(crate) trait UpperLayer {
    /// Sends no message from now on until [`Self::space_available`]: the mark of a message that is
    /// short of Sends.
    fn wait_for_buffer_space(&self);

    /// Returns `true` if that mark is set.
    fn is_space_wanted(&self) -> bool;

    /// Clears that mark, and wakes a sender if it was set.
    fn space_available(&self);

    /// Ends the wait of calls that have given their credits back, and wakes a sender.
    fn wake_sender(&self);
}

/// The calls of a connection that wait.
pub(crate) struct Waiters {
    /// The [`Shortage`] of a call that waits for replies; 0 for none.
    short: Atomic<u32>,
}

impl Waiters {
    /// No call waits.
    pub(crate) const fn new() -> Self {
        Self {
            short: Atomic::new(0),
        }
    }

    /// Marks a message as waiting because of `shortage`, calls `ask`, which requests growth, and
    /// returns the result of `retry`, which looks for the resource again.
    #[cold]
    pub(crate) fn wait<R>(
        &self,
        upper: &impl UpperLayer,
        shortage: Shortage,
        ask: impl FnOnce(),
        retry: impl FnOnce() -> R,
    ) -> R {
        // First, so that growth that fails finds the mark, and is tried again.
        match shortage {
            Shortage::Sends => upper.wait_for_buffer_space(),
            // CAST: The number of the variant.
            _ => self.short.store(shortage as u32, Relaxed),
        }
        ask();
        smp_mb(); // of a waiter
        retry()
    }

    /// Ends the wait of [`Self::wait`] because of `shortage`: the caller has found the resource, or
    /// is short of another.
    pub(crate) fn end(&self, upper: &impl UpperLayer, shortage: Shortage) {
        match shortage {
            Shortage::Sends => upper.space_available(),
            _ => self.replied(upper),
        }
    }

    /// Wakes the senders that wait for the resources `returned` before. Not under the lock of a
    /// request.
    #[inline(always)]
    pub(crate) fn wake(&self, upper: &impl UpperLayer, returned: Returned) {
        smp_mb(); // of a waker
        if returned != Returned::Receives {
            upper.space_available();
        }
        if returned != Returned::Sends {
            self.replied(upper);
        }
    }

    /// Ends a shortage after registrations have come back under the lock that a waiter takes to
    /// look for them, which orders both. Cheap when no call waits. Not under the lock of a request.
    #[inline]
    pub(crate) fn replied(&self, upper: &impl UpperLayer) {
        if self.is_short() {
            self.end_shortage(upper);
        }
    }

    #[cold]
    fn end_shortage(&self, upper: &impl UpperLayer) {
        // If this takes the mark of another call as well, that one retries, too.
        self.short.store(0, Relaxed);
        upper.wake_sender();
    }

    /// Returns `true` if any message waits.
    pub(crate) fn is_any(&self, upper: &impl UpperLayer) -> bool {
        upper.is_space_wanted() || self.is_short()
    }

    /// Returns `true` if a call waits for replies.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Relaxed) != 0
    }

    /// Returns `true` if a call waits for registrations.
    pub(crate) fn is_short_of_registrations(&self) -> bool {
        // CAST: The number of the variant.
        self.short.load(Relaxed) == Shortage::Registrations as u32
    }
}
