// SPDX-License-Identifier: GPL-2.0

//! The decisions about more registrations and buffers while the connection is in use: most
//! connections need no more than they began with. Pure, and explored by the host tests.
//!
//! A sender sets a flag and queues the work item, which clears the flag before it allocates. A
//! sender that waits is woken when anything was added, or another attempt is queued; no request is
//! lost; and attempts do not repeat while no sender waits.

use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

/// The resource that is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Buffers of both kinds: with Receives.
    Buffers,
    /// Registrations.
    Registrations,
}

/// The end of an attempt to allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// As many as an attempt allocates.
    All,
    /// None: the limit is reached, or the connection is closing.
    Limit,
    /// Fewer, or none, without memory.
    NoMemory,
    /// Fewer, or none: the device has refused.
    Refused,
}

/// The time until the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// None.
    Nothing,
    /// Until memory may be free.
    Memory,
    /// Until a device that has refused is tried again: it may log each refusal.
    Device,
}

/// The connection, which acts.
pub(crate) trait Grow {
    /// Queues the work item after `pause`, unless it is queued already.
    fn queue(&self, pause: Pause);

    /// Returns `true` if memory is short: speed alone is not worth the reserves then.
    fn is_swapping(&self) -> bool;

    /// Returns `true` if a sender waits.
    fn has_waiter(&self) -> bool;

    /// Allocates some more. Returns `true` if any were added.
    fn make(&self, kind: Kind) -> (bool, Made);

    /// Wakes the senders that wait.
    fn wake(&self);
}

/// The requests for more.
pub(crate) struct Growth {
    /// Set if more registrations are needed.
    wants_mrs: Atomic<bool>,
    /// Set if more buffers are needed.
    wants_buffers: Atomic<bool>,
    /// The time in jiffies of the last failure to allocate buffers.
    refused: Atomic<usize>,
}

impl Growth {
    /// Nothing was requested. The last failure was at `refused`, in jiffies.
    pub(crate) const fn new(refused: usize) -> Self {
        Self {
            wants_mrs: Atomic::new(false),
            wants_buffers: Atomic::new(false),
            refused: Atomic::new(refused),
        }
    }

    #[inline(always)]
    fn wants(&self, kind: Kind) -> &Atomic<bool> {
        match kind {
            Kind::Buffers => &self.wants_buffers,
            Kind::Registrations => &self.wants_mrs,
        }
    }

    /// Requests more.
    pub(crate) fn ask(&self, connection: &impl Grow, kind: Kind) {
        // Release: a worker that sees it sees also that the sender waits, by either mark.
        self.wants(kind).store(true, Release);
        connection.queue(Pause::Nothing);
    }

    /// Returns `true` if buffers that are not necessary may be requested: not within `pause`
    /// jiffies after an allocation failed.
    pub(crate) fn may_ask(&self, now: usize, pause: usize) -> bool {
        now.wrapping_sub(self.refused.load(Relaxed)) >= pause
    }

    /// Allocates the requested resources, at `now` in jiffies. Called by the work item.
    pub(crate) fn run(&self, connection: &impl Grow, now: usize) {
        if connection.is_swapping() && !connection.has_waiter() {
            // A sender that has to wait queues this again.
            return;
        }
        // Without memory the calls proceed one after the other, with the resources of their
        // predecessors.
        let mut grown = false;
        for kind in [Kind::Buffers, Kind::Registrations] {
            if self.wants(kind).xchg(false, Acquire) {
                let (any, made) = connection.make(kind);
                self.end(connection, kind, made, now);
                grown |= any;
            }
        }
        if grown {
            connection.wake();
        }
    }

    /// Ends an attempt. After a failure another follows while a sender waits: nothing else might
    /// wake it. A call may need more registrations than exist, and if abandoned calls hold the
    /// Receives, a sender waits for these.
    fn end(&self, connection: &impl Grow, kind: Kind, made: Made, now: usize) {
        let pause = match made {
            Made::Limit => return,
            Made::All => {
                if kind == Kind::Buffers {
                    // A sender that has requested more in between did not see these. Acquire: if it
                    // waits, it has set its mark before this flag.
                    let _ = self.wants_buffers.xchg(false, Acquire); // after the buffers
                }
                return;
            }
            Made::NoMemory => Pause::Memory,
            Made::Refused => Pause::Device,
        };
        if kind == Kind::Buffers {
            self.refused.store(now, Relaxed);
        }
        if connection.has_waiter() {
            // A read-modify-write continues the release of a sender that has set it in between.
            let _ = self.wants(kind).xchg(true, Relaxed);
            connection.queue(pause);
        }
    }
}
