// SPDX-License-Identifier: GPL-2.0

//! The deadline of invalidations that replies wait for (V1-128). Pure, and explored by the host
//! tests.
//!
//! Without it a peer could keep a killed task for ever: the task sleeps in
//! `xprt_wait_on_pinned_rqst()` until the reply unpins its request, a killed call has no timer, and
//! the invalidation may stand in the send queue behind a Send that finds no Receive at the peer. A
//! work item ends the connection then. It is queued when a reply begins to wait, unless it is
//! queued already, so that it costs most replies nothing and the others a few instructions.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The invalidations that replies wait for, by their numbers, which wrap around. They complete in
/// posting order.
///
/// The completion handler alone counts. The number of the last one posted, and the fields of the
/// work item, change under the lock of the queue pair, so that the work item misses none when it
/// ends.
pub(crate) struct InvalidationDeadline {
    /// The number of the last one that was posted.
    posted: Atomic<u32>,
    /// The number of the last one that is complete.
    completed: Atomic<u32>,
    /// The number of the last one that has to be complete when the work item runs.
    due: Atomic<u32>,
    /// Set while the work item is queued.
    armed: Atomic<bool>,
}

/// The action of the work item, when the limit is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// None: no invalidation is outstanding.
    Done,
    /// Queue the work item again: all that are outstanding were posted later.
    Rearm,
    /// End the connection: one has taken longer.
    Overdue,
}

impl InvalidationDeadline {
    /// No invalidation was posted.
    pub(crate) const fn new() -> Self {
        Self {
            posted: Atomic::new(0),
            completed: Atomic::new(0),
            due: Atomic::new(0),
            armed: Atomic::new(false),
        }
    }

    /// One more is posted. Returns `true` if the work item has to be queued. With the lock of the
    /// queue pair.
    #[inline]
    pub(crate) fn posted(&self) -> bool {
        let posted = self.posted.load(Relaxed).wrapping_add(1);

        self.posted.store(posted, Relaxed);
        if self.armed.load(Relaxed) {
            return false;
        }
        self.due.store(posted, Relaxed);
        self.armed.store(true, Relaxed);
        true
    }

    /// One more is complete, or has failed.
    #[inline]
    pub(crate) fn completed(&self) {
        let completed = self.completed.load(Relaxed).wrapping_add(1);

        self.completed.store(completed, Relaxed);
    }

    /// The limit is over for the invalidations that are due. With the lock of the queue pair.
    pub(crate) fn expired(&self) -> Expiry {
        let posted = self.posted.load(Relaxed);
        let outstanding = posted.wrapping_sub(self.completed.load(Relaxed));
        let later = posted.wrapping_sub(self.due.load(Relaxed));

        if outstanding > later {
            return Expiry::Overdue;
        }
        self.due.store(posted, Relaxed);
        self.armed.store(outstanding != 0, Relaxed);
        if outstanding == 0 {
            Expiry::Done
        } else {
            Expiry::Rearm
        }
    }
}
