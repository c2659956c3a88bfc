// SPDX-License-Identifier: GPL-2.0

//! The time limit of replies that wait for their invalidation (V1-128).
//!
//! Without it a peer could keep a killed task for ever: the task sleeps in
//! `xprt_wait_on_pinned_rqst()` until the reply unpins its request, a killed call has no timer, and
//! the invalidation may stand in the send queue behind a Send that finds no Receive at the peer. A
//! work item ends the connection then. It is queued when a reply begins to wait, unless it is
//! queued already, so that it costs most replies nothing and the others a few instructions.

use kernel::{
    impl_has_delayed_work,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    workqueue::WorkItem, //
};

use super::{
    close_reason::CloseReason,
    Connection,
    INVALIDATE_LIMIT_SECS, //
};
use crate::os;

/// The number of this work item of a connection.
pub(super) const OVERDUE: u64 = 1;

/// The invalidations that replies wait for, by their numbers, which wrap around. They complete in
/// posting order.
///
/// The completion handler alone counts. What it counts as posted, and the fields of the work item,
/// change under the lock of the queue pair, so that the work item misses none when it ends.
pub(in crate::client) struct Awaited {
    /// The number of the last one that was posted.
    posted: Atomic<u32>,
    /// The number of the last one that is complete.
    completed: Atomic<u32>,
    /// The number of the last one that has to be complete when the work item runs.
    due: Atomic<u32>,
    /// Set while the work item is queued.
    watched: Atomic<bool>,
}

/// The action that is due when the limit is over.
enum Verdict {
    /// None: no invalidation is out.
    Done,
    /// Look again: all that are still out were posted later.
    Again,
    /// End the connection: one has taken longer.
    Overdue,
}

impl Awaited {
    /// None.
    pub(super) fn new() -> Self {
        Self {
            posted: Atomic::new(0),
            completed: Atomic::new(0),
            due: Atomic::new(0),
            watched: Atomic::new(false),
        }
    }

    /// One more is posted. Returns `true` if [`Connection::watch`] has to be called. With the lock
    /// of the queue pair.
    #[inline]
    pub(in crate::client) fn posted(&self) -> bool {
        let posted = self.posted.load(Relaxed).wrapping_add(1);

        self.posted.store(posted, Relaxed);
        if self.watched.load(Relaxed) {
            return false;
        }
        self.due.store(posted, Relaxed);
        self.watched.store(true, Relaxed);
        true
    }

    /// One more is complete, or has failed.
    #[inline]
    pub(in crate::client) fn completed(&self) {
        let completed = self.completed.load(Relaxed).wrapping_add(1);

        self.completed.store(completed, Relaxed);
    }

    /// The limit is over for the invalidations that are due. With the lock of the queue pair.
    fn look(&self) -> Verdict {
        let posted = self.posted.load(Relaxed);
        let out = posted.wrapping_sub(self.completed.load(Relaxed));
        let later = posted.wrapping_sub(self.due.load(Relaxed));

        if out > later {
            return Verdict::Overdue;
        }
        self.due.store(posted, Relaxed);
        self.watched.store(out != 0, Relaxed);
        if out == 0 {
            Verdict::Done
        } else {
            Verdict::Again
        }
    }
}

impl Connection {
    /// Ends the connection unless the invalidation that a reply waits for completes in time. Called
    /// by the completion handler.
    #[cold]
    pub(in crate::client) fn watch(&self) {
        // This is the current connection: its teardown waits for the completion handler, and the
        // next one is made after the teardown.
        if let Some(connection) = self.shared.current() {
            connection.look_later();
        }
    }

    /// Queues the work item, which the teardown cancels.
    fn look_later(self: Arc<Self>) {
        let limit = os::secs_to_jiffies(INVALIDATE_LIMIT_SECS);

        // It is not queued already, so that this fails only while the teardown cancels it.
        let _ = os::transport_queue().enqueue_delayed::<_, OVERDUE>(self, limit);
    }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, OVERDUE> for Connection { self.overdue }
}

impl WorkItem<OVERDUE> for Connection {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        match this.with_qp(|_| this.awaited.look()) {
            Some(Verdict::Overdue) => this.lost(CloseReason::NotInvalidated),
            Some(Verdict::Again) => this.look_later(),
            // All are complete once the queue pair is destroyed.
            Some(Verdict::Done) | None => {}
        }
    }
}
