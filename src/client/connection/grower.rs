// SPDX-License-Identifier: GPL-2.0

//! Allocates more registrations and buffers, as [`Growth`](super::growth::Growth) decides, and
//! others of other lengths.

use kernel::{
    impl_has_delayed_work,
    prelude::*,
    sync::Arc,
    workqueue::WorkItem, //
};

use super::{
    super::{
        connect::size::{
            GROWTH,
            MR_GROWTH,
            RETRY_DEVICE_MS,
            RETRY_MS, //
        },
        negotiated::Negotiated, //
    },
    growth::{
        Grow,
        Kind,
        Made,
        Pause, //
    },
    waiters::Returned,
    Connection, //
};
use crate::{
    os,
    proto::Wire, //
};

/// Jiffies between attempts to allocate more after memory was short.
pub(super) const RETRY: usize = os::secs_to_jiffies(1) * RETRY_MS / 1000;

/// Jiffies before a device that has refused is tried again.
const RETRY_DEVICE: usize = os::secs_to_jiffies(1) * RETRY_DEVICE_MS / 1000;

impl Connection {
    /// Queues the allocation of more, unless the limit is reached.
    pub(in crate::client) fn grow(self: &Arc<Self>, kind: Kind) {
        self.growth.ask(self, kind);
    }

    /// Returns `true` if more buffers may be requested that are not necessary: not soon after an
    /// allocation failed.
    pub(in crate::client) fn may_grow(&self) -> bool {
        self.growth.may_ask(os::jiffies(), RETRY)
    }
}

/// Allocates more registrations. Returns `true` if any were added.
fn make_mrs(connection: &Connection) -> (bool, Made) {
    let Some(Negotiated { pool, .. }) = connection.negotiated() else {
        return (false, Made::Limit);
    };
    // New registrations could not be posted to a closed queue pair, and would hold the device.
    if connection.link.with_qp(|qp| qp.is_open()) != Some(true) {
        return (false, Made::Limit);
    }
    let before = pool.allocated();
    let made = match pool.grow(before.clamp(MR_GROWTH.0, MR_GROWTH.1)) {
        Ok(()) => Made::All,
        Err(error) if error == ENOMEM => Made::NoMemory,
        Err(_) => Made::Refused,
    };
    let added = pool.allocated().saturating_sub(before);

    connection.shared.stats.mrs_allocated.add(added);
    (added != 0, made)
}

/// Allocates more buffers. Returns `true` if any were added.
fn make_buffers(connection: &Connection) -> (bool, Made) {
    let Some(ordered) = connection.link.with_qp(|qp| qp.order(GROWTH)).flatten() else {
        return (false, Made::Limit);
    };
    // Partial success counts.
    let (mut buffers, made) = ordered.make();
    let any = !buffers.is_empty();
    let add = |count| connection.window.receives.add(count);
    let added = connection.link.with_qp(|qp| qp.add(&mut buffers).map(add));
    let made = if made.is_err() {
        Made::NoMemory
    } else {
        Made::All
    };

    match added {
        Some(Err(error)) => {
            connection.post_failed(error);
            (false, made)
        }
        added => (any && added.is_some(), made),
    }
}

/// Queues the allocation of buffers of the lengths that both ends have agreed on.
pub(in crate::client) fn adapt_later(connection: &Arc<Connection>) {
    let pause = connection.agreement.characteristics.sizes.pause();
    // If it is queued already, that will do.
    let _ = os::transport_queue().enqueue_delayed::<_, 0>(connection.clone(), pause);
}

/// Gives the buffers the lengths that both ends have agreed on. Process context.
fn adapt(connection: &Connection) {
    let Some(negotiated) = connection.negotiated() else {
        return;
    };
    // Memory that is short is for the calls that write pages back. The next operation looks again.
    if negotiated.wire() == Wire::V1 || connection.shared.xprt.is_swapping() {
        return;
    }
    let memory = u64::from(negotiated.facts.policy.memory).saturating_mul(1024);
    let sizes = &connection.agreement.characteristics.sizes;

    sizes.adapt(&connection.link, memory);
    sizes.stir();
}

impl Grow for Arc<Connection> {
    fn queue(&self, pause: Pause) {
        let jiffies = match pause {
            Pause::Nothing => 0,
            Pause::Memory => RETRY,
            Pause::Device => RETRY_DEVICE,
        };
        // If it is queued already, that will do.
        let _ = os::transport_queue().enqueue_delayed::<_, 0>(self.clone(), jiffies);
    }

    fn is_swapping(&self) -> bool {
        self.shared.xprt.is_swapping()
    }

    fn has_waiter(&self) -> bool {
        self.waiters.is_any(&self.shared.xprt)
    }

    fn make(&self, kind: Kind) -> (bool, Made) {
        match kind {
            Kind::Buffers => make_buffers(self),
            Kind::Registrations => make_mrs(self),
        }
    }

    fn wake(&self) {
        self.waiters.wake(&self.shared.xprt, Returned::Growth);
    }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Connection { self.grower }
}

impl WorkItem for Connection {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // Dirty pages may be waiting for the calls that wait for this.
        let _scope = os::ReclaimScope::enter(this.is_swapping());

        this.growth.run(&this, os::jiffies());
        adapt(&this);
    }
}
