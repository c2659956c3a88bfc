// SPDX-License-Identifier: GPL-2.0

//! Allocates more registrations and buffers while the connection is in use: most connections need
//! no more than they began with.

use kernel::{
    impl_has_delayed_work,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    workqueue::WorkItem, //
};

use super::{
    super::negotiated::Negotiated,
    Connection,
    RETRY, //
};
use crate::os;
use crate::os::series::smp_mb;

/// Buffers of either kind that are allocated at a time.
const GROWTH: u32 = 32;

/// Registrations that are allocated at a time: as many as exist, within these bounds.
const MR_GROWTH: (u32, u32) = (8, 32);

/// Jiffies before a device that has refused is tried again: it may log each refusal.
const RETRY_DEVICE: usize = os::secs_to_jiffies(1);

impl Connection {
    /// All registrations are in use: queues the allocation of more, unless the limit is reached.
    pub(in crate::client) fn grow_pool(self: &Arc<Self>) {
        // Release: a worker that sees it sees also that the sender waits.
        self.wants_mrs.store(true, Release);
        self.grow();
    }

    /// Queues the allocation of more buffers of both kinds, unless the limit is reached.
    pub(in crate::client) fn grow_buffers(self: &Arc<Self>) {
        // Release: a worker that sees it sees also that the sender waits, by either mark.
        self.wants_buffers.store(true, Release);
        self.grow();
    }

    /// Returns `true` if more buffers may be requested that are not necessary: not soon after an
    /// allocation failed.
    pub(in crate::client) fn may_grow(&self) -> bool {
        os::jiffies().wrapping_sub(self.refused.load(Relaxed)) >= RETRY
    }

    /// Queues the work that the `wants_*` flags request.
    fn grow(self: &Arc<Self>) {
        // If it is queued already, that will do.
        let _ = os::transport_queue().enqueue_delayed::<_, 0>(self.clone(), 0);
    }

    /// Returns `true` if a sender waits for the completion of Sends, or for replies.
    fn has_waiter(&self) -> bool {
        self.shared.xprt.is_space_wanted() || self.is_short()
    }

    /// Requeues the work after `pause` jiffies, if a sender still waits: nothing else might wake
    /// it.
    fn retry(self: &Arc<Self>, wants: &Atomic<bool>, pause: usize) {
        if self.has_waiter() {
            // A read-modify-write continues the release of a sender that has set it in between.
            let _ = wants.xchg(true, Relaxed);
            let _ = os::transport_queue().enqueue_delayed::<_, 0>(self.clone(), pause);
        }
    }

    /// Allocates more registrations. Returns `true` if any were added. After a failure, tries
    /// again: a call may need more than exist.
    fn make_mrs(self: &Arc<Self>) -> bool {
        let Some(Negotiated { pool, .. }) = self.negotiated() else {
            return false;
        };
        // New registrations could not be posted to a closed queue pair, and would hold the device.
        if self.with_qp(|qp| qp.is_open()) != Some(true) {
            return false;
        }
        let before = pool.allocated();

        if let Err(error) = pool.grow(before.clamp(MR_GROWTH.0, MR_GROWTH.1)) {
            let pause = if error == ENOMEM { RETRY } else { RETRY_DEVICE };
            self.retry(&self.wants_mrs, pause);
        }
        let made = pool.allocated().saturating_sub(before);
        self.shared.stats.mrs_allocated.add(made);
        made != 0
    }

    /// Allocates more buffers. Returns `true` if any were added. After a failure, tries again: if
    /// abandoned calls hold the Receives, a sender waits for these.
    fn make_buffers(self: &Arc<Self>) -> bool {
        let Some(ordered) = self.with_qp(|qp| qp.order(GROWTH)).flatten() else {
            return false;
        };
        // Partial success counts.
        let (mut buffers, made) = ordered.make();
        let any = !buffers.is_empty();
        let added = self.with_qp(|qp| qp.add(&mut buffers).map(|count| self.receives.add(count)));
        if made.is_err() {
            self.refused.store(os::jiffies(), Relaxed);
            self.retry(&self.wants_buffers, RETRY);
        } else {
            // A sender that has requested more in between did not see these. Acquire: if it waits,
            // it has set its mark before this flag.
            let _ = self.wants_buffers.xchg(false, Acquire);
        }
        match added {
            Some(Err(error)) => {
                self.post_failed(error);
                false
            }
            added => any && added.is_some(),
        }
    }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Connection { self.growth }
}

impl WorkItem for Connection {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let swapping = this.shared.xprt.is_swapping();
        if swapping && !this.has_waiter() {
            // Speed alone is not worth the reserves. A sender that has to wait queues this again.
            return;
        }
        // Dirty pages may be waiting for the calls that wait for this.
        let _scope = os::ReclaimScope::enter(swapping);

        // Without memory the calls proceed one after the other, with the resources of their
        // predecessors.
        let mut grown = this.wants_buffers.xchg(false, Acquire) && this.make_buffers();
        if this.wants_mrs.xchg(false, Acquire) {
            grown |= this.make_mrs();
        }
        if grown {
            // Pairs with the barrier of a sender that waits.
            smp_mb();
            this.shared.xprt.space_available();
            this.resources_available();
        }
    }
}
