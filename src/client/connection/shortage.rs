// SPDX-License-Identifier: GPL-2.0

//! Calls that wait for registrations or Receives, which only replies, or growth, give back.
//!
//! The server may send such replies only after the reply to a call of its own, such as the recall
//! of a delegation (H-74). So the shortage is not reported to sunrpc as lack of space, since sunrpc
//! would send no reply to a reverse call either. The call gives its credit back instead, and sunrpc
//! makes all calls wait as without a credit.
//!
//! Store-buffer pattern. Waiter: set `short`, request growth, smp_mb(), retry. Waker: return the
//! resource, smp_mb(), test `short`. The waker may come before sunrpc makes the call wait: sunrpc
//! does so under a lock, and only if `short` is still set; the waker clears `short` before it ends
//! the wait under the same lock.

use kernel::sync::atomic::Relaxed;

use super::Connection;

/// The resource that a call is short of.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Shortage {
    /// A Receive for the reply.
    Receives = 1,
    /// Registrations.
    Registrations = 2,
}

impl Connection {
    /// Notes that a call is short of a resource. A full barrier and another look have to follow.
    #[cold]
    pub(crate) fn note_shortage(&self, shortage: Shortage) {
        // CAST: The number of the variant.
        self.short.store(shortage as u32, Relaxed);
    }

    /// Returns `true` if a call is short of a resource that replies give back.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Relaxed) != 0
    }

    /// Returns `true` if a call is short of registrations.
    pub(crate) fn is_short_of_registrations(&self) -> bool {
        // CAST: The number of the variant.
        self.short.load(Relaxed) == Shortage::Registrations as u32
    }

    /// Ends a shortage, since registrations or Receives have come back. Cheap when no call waits
    /// for them. Not under the lock of a request.
    #[inline]
    pub(crate) fn resources_available(&self) {
        if self.is_short() {
            self.end_shortage();
        }
    }

    #[cold]
    fn end_shortage(&self) {
        // If this takes the note of another call as well, that one looks again, too.
        self.short.store(0, Relaxed);
        self.shared.xprt.wake_sender();
    }
}
