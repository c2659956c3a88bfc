// SPDX-License-Identifier: GPL-2.0

//! The blocks of a queue pair's transfers, and all that a transfer uses.

use core::ptr::NonNull;

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};

use super::{
    block,
    budget::{
        Budget,
        Permit, //
    },
    pages::{
        FromPeer,
        MappedPages,
        ToPeer, //
    },
    split::{
        order_for,
        ORDERS, //
    }, //
};
use crate::{
    bindings,
    os::{
        PageSet,
        Private, //
    },
    verbs::{
        buffer::LentSend,
        completion::TransferCallbacks,
        posted::PostedList,
        Mapped,
        MrList,
        MrPool,
        Pd,
        Registered, //
    }, //
};

/// The size of a queue pair's transfers.
#[derive(Clone, Copy)]
pub(crate) struct TransferSize {
    /// Entries of the send queue that they may take together ([`super::super::QpSize::others`]).
    pub(crate) entries: u32,
    /// Elements of an RDMA Write, and of an RDMA Read.
    pub(crate) write_elements: u32,
    pub(crate) read_elements: u32,
    /// Blocks of each order that are allocated at first.
    pub(crate) first: [u32; ORDERS.len()],
    /// The most work requests of all blocks. Transfers that wait for room have blocks, too.
    pub(crate) most: u32,
}

/// A block of a transfer.
pub(super) type Block = block::Block<Load>;

/// The memory of ours that a chain uses.
pub(super) enum Memory {
    /// The source of RDMA Writes.
    Source(MappedPages<ToPeer>),
    /// The sink of RDMA Reads.
    Sink(MappedPages<FromPeer>),
    /// The sink of RDMA Reads on iWARP, which the peer addresses by registrations. These hold
    /// references to the pages, too, until they are invalid.
    Registered(Sinks, PageSet<Private>),
}

/// The registrations of the sink of a chain, whose last requests invalidate them.
pub(super) enum Sinks {
    /// Not posted.
    Unposted(MrList<Mapped>),
    /// Posted with the chain.
    Posted(MrList<Registered>),
    /// None: their list was moved.
    Moved,
}

impl Memory {
    /// Chains the registration requests, if any, in front of `first`, and takes them for posted.
    pub(super) fn register(
        &mut self,
        first: *mut bindings::ib_send_wr,
    ) -> *mut bindings::ib_send_wr {
        let Self::Registered(sinks, _) = self else {
            return first;
        };
        match core::mem::replace(sinks, Sinks::Moved) {
            Sinks::Unposted(mut mrs) => {
                let first = MrList::chain(&mut mrs, first);
                *sinks = Sinks::Posted(mrs.posted());
                first
            }
            other => {
                *sinks = other;
                first
            }
        }
    }
}

/// All that a chain has besides its requests. Kept in its first block, so that it is the device's
/// with that.
pub(super) struct Load {
    /// The memory.
    pub(super) memory: Memory,
    /// The room in the send queue.
    pub(super) permit: Option<Permit>,
    /// The number that its user posted it with.
    pub(super) context: usize,
    /// The message behind the requests, whose completion is the chain's.
    pub(super) send: Option<LentSend>,
    /// The pool of the blocks.
    pub(super) pool: Arc<Transfers>,
}

struct Lists {
    /// Free blocks of each order.
    free: [Option<KBox<Block>>; ORDERS.len()],
    /// All blocks.
    all: PostedList,
    /// Work requests of all blocks.
    allocated: u32,
}

/// The blocks of one queue pair's transfers, which are made and posted through this value.
///
/// # Invariants
///
/// - Transfers of this pool are posted to `queue_pair` alone, the only one of the domain `pd`,
///   which keeps the pool until the drain.
/// - `lists.all` has all blocks, which are destroyed with the pool only. A block that is marked as
///   posted is the first of a chain that was left to the device, with its load.
#[pin_data(PinnedDrop)]
pub(crate) struct Transfers {
    #[pin]
    lists: SpinLock<Lists>,
    queue_pair: NonNull<bindings::ib_qp>,
    pub(super) pd: Arc<Pd>,
    pub(super) size: TransferSize,
    /// The registrations that RDMA Reads land in, if the device needs some.
    pub(super) sinks: Option<Arc<MrPool>>,
    budget: Arc<Budget>,
    callbacks: &'static TransferCallbacks,
}

// SAFETY: The pointer to the queue pair is only compared; the rest is `Send` and `Sync`.
unsafe impl Send for Transfers {}
// SAFETY: The lists are under a lock; the rest is `Sync` or does not change.
unsafe impl Sync for Transfers {}

impl Transfers {
    /// Makes a pool for `queue_pair`, which is yet to keep it.
    pub(super) fn make(
        queue_pair: NonNull<bindings::ib_qp>,
        pd: Arc<Pd>,
        callbacks: &'static TransferCallbacks,
        size: &TransferSize,
        sinks: Option<Arc<MrPool>>,
    ) -> Result<Arc<Self>> {
        let budget = Arc::new(Budget::new(size.entries), GFP_KERNEL)?;
        let pool = Arc::pin_init(
            pin_init!(Self {
                lists <- new_spinlock!(
                    Lists {
                        free: [const { None }; ORDERS.len()],
                        all: PostedList::new(),
                        allocated: 0,
                    },
                    "rpcrdma_rs::Transfers"
                ),
                queue_pair,
                pd,
                size: *size,
                sinks,
                budget,
                callbacks,
            }),
            GFP_KERNEL,
        )?;
        for (order, &count) in size.first.iter().enumerate() {
            for _ in 0..count {
                pool.allocate(order)?;
            }
        }
        Ok(pool)
    }

    /// The room in the send queue.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns `true` if its transfers are for the queue pair of the domain `pd`.
    pub(super) fn is_of_domain(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.pd, pd)
    }

    /// The queue pair.
    pub(super) fn queue_pair(&self) -> NonNull<bindings::ib_qp> {
        self.queue_pair
    }

    /// The first block of a chain that is posted, if any is.
    pub(super) fn posted(&self) -> Option<NonNull<Block>> {
        let member = self.lists.lock().all.posted()?;

        // SAFETY: By the type invariants the list has blocks of this pool.
        Some(unsafe { Block::of_member(member) })
    }

    /// Work requests that blocks are allocated for.
    pub(crate) fn allocated(&self) -> u32 {
        self.lists.lock().allocated
    }

    /// Allocates blocks for a transfer of `requests` more, after [`Self::write`] or [`Self::read`]
    /// has found too few. Process context.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if the pool has as many as it may, `ENOMEM`. The blocks allocated until then stay.
    pub(crate) fn grow(&self, requests: u32) -> Result {
        let mut left = requests;

        while left != 0 {
            let order = order_for(left);
            self.allocate(order)?;
            left = left.saturating_sub(ORDERS.get(order).copied().unwrap_or(left));
        }
        Ok(())
    }

    fn allocate(&self, order: usize) -> Result {
        let elements = self.size.write_elements.max(self.size.read_elements).max(1);
        let count = ORDERS.get(order).copied().unwrap_or(0);

        if self.allocated().saturating_add(count) > self.size.most {
            return Err(crate::os::series::ENOBUFS);
        }
        let block = Block::new(order, elements, self.callbacks)?;
        let mut lists = self.lists.lock();
        lists.allocated = lists.allocated.saturating_add(count);
        // SAFETY: The new member is in no list; the block does not move, and by the type invariants
        // it is destroyed with the list only.
        unsafe { lists.all.add(&block.member) };
        lists.put(block);
        Ok(())
    }

    /// Takes a free block that is best for `left` requests: of the smallest order that has room for
    /// them, else of the largest that is free.
    pub(super) fn take(&self, left: u32) -> Option<KBox<Block>> {
        let best = order_for(left);
        let mut lists = self.lists.lock();
        let mut orders = Iterator::chain(best..ORDERS.len(), (0..best).rev());

        orders.find_map(|order| lists.take(order))
    }

    /// Puts blocks on the free lists.
    pub(super) fn give_back(&self, head: KBox<Block>) {
        let mut lists = self.lists.lock();
        let mut next = Some(head);

        while let Some(mut block) = next {
            next = block.next.take();
            lists.put(block);
        }
    }

    /// Takes the load out of the chain of `head`, whose requests are not posted, or have completed,
    /// and puts its blocks on the free lists.
    pub(super) fn take_back(mut head: KBox<Block>) -> Option<Load> {
        let load = head.load.take()?;
        load.pool.give_back(head);
        Some(load)
    }
}

impl Lists {
    fn put(&mut self, mut block: KBox<Block>) {
        block.reset();
        if let Some(list) = self.free.get_mut(block.order) {
            block.next = list.take();
            *list = Some(block);
        }
    }

    fn take(&mut self, order: usize) -> Option<KBox<Block>> {
        let list = self.free.get_mut(order)?;
        let mut block = list.take()?;
        *list = block.next.take();
        Some(block)
    }
}

#[pinned_drop]
impl PinnedDrop for Transfers {
    fn drop(self: Pin<&mut Self>) {
        // A chain that is not free has a reference to the pool, so that all blocks are here. One
        // after the other: a long list must not be dropped recursively.
        for order in 0..ORDERS.len() {
            loop {
                let block = self.lists.lock().take(order);
                if block.is_none() {
                    break;
                }
            }
        }
    }
}
