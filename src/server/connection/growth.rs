// SPDX-License-Identifier: GPL-2.0

//! Allocates more buffers while the connection is in use: most connections need no more than they
//! began with. Where both ends agree on other lengths, it allocates those, too.

use core::net::SocketAddr;

use kernel::{
    impl_has_delayed_work,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    workqueue::WorkItem, //
};

use super::{
    super::{
        memory,
        size::MOST_CALLBACKS, //
    },
    Connection, //
    Settled,
};
use crate::{
    os::{
        self,
        series::EDQUOT,
        Last, //
    },
    policy,
    sunrpc::Peer, //
};

/// Buffers of either kind that are allocated at a time.
const GROWTH: u32 = 32;

/// Messages about connections that lack memory for more buffers.
static SHORTAGE: Last = Last::never();

/// Jiffies before an allocation is tried again that has failed.
const RETRY: usize = os::secs_to_jiffies(1) / 10;

impl Connection {
    /// Queues the allocation of more buffers of both kinds, unless the limit is reached, or memory
    /// was short a moment ago.
    pub(super) fn grow(this: ArcBorrow<'_, Self>) {
        if this.receives.may_want(os::jiffies(), RETRY) {
            Self::grow_now(this);
        }
    }

    /// Queues the allocation even if all buffers are there: the worker also decides how many
    /// Receives are kept for replies to calls of the server.
    pub(super) fn grow_now(this: ArcBorrow<'_, Self>) {
        if this.receives.want() {
            Self::work(this);
        }
    }

    /// Queues the worker.
    pub(super) fn work(this: ArcBorrow<'_, Self>) {
        let sizes = &this.characteristics.sizes;
        let pause = if sizes.is_stirred() { sizes.pause() } else { 0 };
        // If it is queued already, that will do.
        let _ = os::transport_queue().enqueue_delayed::<_, 0>(Arc::from(this), pause);
    }
}

impl Settled<'_> {
    /// `count` more Receives are posted. Some are kept for replies to calls of the server, before a
    /// grant counts them.
    fn count(&self, count: u32) {
        if self.callbacks.as_ref().is_some() {
            self.receives.reserve(MOST_CALLBACKS, count);
        }
        self.receives.posted(count);
    }

    /// Allocates more buffers. Without memory the calls proceed one after the other, with the
    /// buffers of their predecessors.
    fn make_buffers(&self) {
        memory::refresh();
        if let Some(order) = self.link.with_qp(|qp| qp.order(GROWTH)).flatten() {
            // Partial success counts.
            let (mut buffers, made) = order.make();
            if let Err(error) = made {
                self.receives.fail(os::jiffies());
                log_shortage(&self.admission().client, error);
            }
            let added = self
                .link
                .with_qp(|qp| qp.add(&mut buffers).map(|count| self.count(count)));
            if let Some(Err(error)) = added {
                self.post_failed(error);
            }
        } else {
            // All are there already.
            self.receives.complete();
            self.count(0);
        }
        self.fetch_sends();
        self.flush_waiting();
    }
}

/// Logs that `client` gets no more credits for now.
#[cold]
fn log_shortage(client: &SocketAddr, error: Error) {
    if !SHORTAGE.is_due() {
        return;
    }
    let client = Peer::new(client);
    // No other code than that of the account returns it.
    if error == EDQUOT {
        let kib = policy::server_memory() / 1024;
        pr_warn!("{client}: no more credits: server_memory allows {kib} KiB\n");
    } else {
        pr_warn!(
            "{client}: no more credits: no buffers, error {}\n",
            error.to_errno()
        );
    }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Connection { self.growth }
}

impl WorkItem for Connection {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let Some(settled) = this.settled() else {
            return;
        };
        // On a machine that is a client, too, dirty pages may wait for a worker of this queue.
        let _scope = os::ReclaimScope::enter(false);

        if this.receives.take_wanted() {
            settled.make_buffers();
        }
        settled.follow();
    }
}
