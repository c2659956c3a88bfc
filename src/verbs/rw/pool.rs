// SPDX-License-Identifier: GPL-2.0

//! The blocks of a queue pair's transfers, and the transfers that are posted.

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
    budget::Budget,
    pages::Direction,
    split::{
        order_for,
        ORDERS, //
    },
    transfer::{
        Admitted,
        Block,
        Load,
        Memory, //
    }, //
};
use crate::{
    bindings,
    verbs::{
        buffer::LentSend,
        completion::TransferCallbacks,
        owner::Drained,
        posted::PostedList,
        poster::{
            Keeps,
            UntilDrain, //
        },
        MrPool,
        Pd,
        PostError,
        Poster,
        QpOwner, //
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
    /// Makes a pool for the queue pair of `poster`, whose completions have these callbacks.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub(super) fn with_callbacks<O: QpOwner>(
        poster: &mut Poster<'_, O>,
        callbacks: &'static TransferCallbacks,
        size: &TransferSize,
        sinks: Option<Arc<MrPool>>,
    ) -> Result<Arc<Self>> {
        let pd = poster.pd().clone();
        let is_own = |sinks: &Arc<MrPool>| Arc::ptr_eq(sinks.pd(), &pd);
        if !sinks.as_ref().is_none_or(is_own) {
            return Err(EINVAL);
        }
        let pool = Self::make(poster.as_raw(), pd, callbacks, size, sinks)?;
        // INVARIANT: The queue pair keeps the pool from here on; no transfer was made before.
        poster.keep(Keeps::Transfers, pool.clone(), size.entries)?;
        Ok(pool)
    }

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

    /// Posts `transfer`. Its completion carries `context`.
    ///
    /// # Errors
    ///
    /// [`PostError`]: the connection has to end, and the pages are freed after the drain. A
    /// transfer of another pool, or the poster of another queue pair, count as
    /// [`PostError::Closed`].
    pub(crate) fn post<O: QpOwner, D: Direction>(
        self: &Arc<Self>,
        mut poster: Poster<'_, O>,
        transfer: Admitted<D>,
        context: usize,
    ) -> Result<(), PostError> {
        if !transfer.is_of(self) || !self.is_of_domain(poster.pd()) || !poster.is_open() {
            return Err(PostError::Closed);
        }
        let first = transfer.leave(context);
        // SAFETY: The requests and all that they use are left to the device until the completion of
        // the last one, which `completed` gets, or until the drain: the queue pair keeps the pool.
        unsafe { poster.post(first) }
    }

    /// Frees all that is posted, which the device no longer uses.
    ///
    /// # Safety
    ///
    /// The device must use no request of the queue pair, and no completion must come.
    pub(super) unsafe fn free_posted(&self) {
        loop {
            let Some(member) = self.lists.lock().all.posted() else {
                break;
            };
            // SAFETY: By the type invariants the list has blocks of this pool.
            let head = unsafe { Block::of_member(member) };
            // SAFETY: By the type invariants the block is the first of a chain that was left to the
            // device; by the safety requirements of this function it is no longer used.
            drop(unsafe { reclaim(head) });
        }
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

/// A transfer that has completed.
pub(super) struct Done {
    /// The number that it was posted with.
    pub(super) context: usize,
    /// Its memory, mapped.
    pub(super) memory: Memory,
    /// The message behind it.
    pub(super) send: Option<LentSend>,
}

/// Takes back a chain that was left to the device: its room in the send queue and its blocks are
/// free when this returns.
///
/// # Safety
///
/// `head` must be the first block of a chain that was left to the device, whose requests have all
/// completed, or never will. Nothing else may take it back.
unsafe fn reclaim(head: NonNull<Block>) -> Option<Done> {
    // SAFETY: By the safety requirements of this function the block, from a box, has no owner.
    let head = unsafe { KBox::from_raw(head.as_ptr()) };
    head.member.set_posted(false);
    let Load {
        memory,
        permit,
        context,
        send,
        pool,
    } = Transfers::take_back(head)?;

    drop(permit);
    drop(pool);
    Some(Done {
        context,
        memory,
        send,
    })
}

/// Takes back the chain whose last completion entry is `cqe`.
///
/// # Safety
///
/// `cqe` must be the entry of a chain that was left to the device, whose last request has
/// completed, and so have all others: they are on one queue. It must not be used again.
pub(super) unsafe fn completed(cqe: *mut bindings::ib_cqe) -> Option<Done> {
    let head = NonNull::new(cqe.cast::<Block>())?;
    // SAFETY: The entry is the first field of the first block; by the safety requirements of this
    // function all requests have completed, once.
    unsafe { reclaim(head) }
}

impl<O: QpOwner> UntilDrain<O> for Transfers {
    /// Frees all that is posted. Does nothing unless the queue pair of the pool is the `drained`
    /// one.
    fn drained(&self, drained: &Drained<O>) {
        if drained.is_of(self.queue_pair) {
            // SAFETY: By the type invariants the transfers were posted to the queue pair that is
            // drained.
            unsafe { self.free_posted() };
        }
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
