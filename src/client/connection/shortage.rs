// SPDX-License-Identifier: GPL-2.0

//! Calls that wait for registrations or Receives, which only replies, or growth, give back.
//!
//! The server may send those replies only after the reply to a call of its own, such as the recall
//! of a delegation (H-74). So sunrpc is not told that there is no space, since it would send no
//! reply to a reverse call either. The call gives its credit back instead, and sunrpc has all calls
//! wait as if there were no credit.
//!
//! The one that waits notes that, asks for growth, has a full barrier, and looks once more. The
//! code that puts something back has a full barrier, and looks if a call waits. That may come
//! before sunrpc has been told to wait: it is told under a lock, unless the note is gone, and the
//! note is gone before sunrpc is told under the same lock not to wait any more.

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
    /// Notes that a call is short of something. A full barrier and another look have to follow.
    #[cold]
    pub(crate) fn note_shortage(&self, shortage: Shortage) {
        // CAST: The number of the variant.
        self.short.store(shortage as u32, Relaxed);
    }

    /// Tells whether a call is short of something that replies give back.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Relaxed) != 0
    }

    /// Tells whether a call is short of registrations.
    pub(crate) fn is_short_of_registrations(&self) -> bool {
        // CAST: The number of the variant.
        self.short.load(Relaxed) == Shortage::Registrations as u32
    }

    /// There are registrations or Receives again. Cheap when no call waits for them. Not under the
    /// lock of a request.
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
