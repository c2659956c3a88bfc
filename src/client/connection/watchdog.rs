// SPDX-License-Identifier: GPL-2.0

//! The work item that ends a connection whose [invalidations](super::deadline) are overdue.

use kernel::{
    impl_has_delayed_work,
    sync::Arc,
    workqueue::WorkItem, //
};

use super::{
    close_reason::CloseReason,
    deadline::Expiry,
    Connection,
    INVALIDATE_LIMIT_SECS, //
};
use crate::os;

/// The number of this work item of a connection.
pub(super) const WATCHDOG: u64 = 1;

impl Connection {
    /// Ends the connection unless the invalidation that a reply waits for completes in time. Called
    /// by the completion handler.
    #[cold]
    pub(in crate::client) fn watch(&self) {
        // This is the current connection: its teardown waits for the completion handler, and the
        // next one is made after the teardown.
        if let Some(connection) = self.shared.current() {
            queue(connection);
        }
    }
}

/// Queues the work item, which the teardown cancels.
fn queue(connection: Arc<Connection>) {
    let limit = os::secs_to_jiffies(INVALIDATE_LIMIT_SECS);

    // It is not queued already, so that this fails only while the teardown cancels it.
    let _ = os::transport_queue().enqueue_delayed::<_, WATCHDOG>(connection, limit);
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, WATCHDOG> for Connection { self.watchdog }
}

impl WorkItem<WATCHDOG> for Connection {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        match this.link.with_qp(|_| this.deadline.expired()) {
            Some(Expiry::Overdue) => this.lost(CloseReason::NotInvalidated),
            Some(Expiry::Rearm) => queue(this),
            // All are complete once the queue pair is destroyed.
            Some(Expiry::Done) | None => {}
        }
    }
}
