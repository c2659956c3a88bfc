// SPDX-License-Identifier: GPL-2.0

//! The registrations of a connection: unused ones, and those that wait for the drain.

use core::{
    mem::offset_of,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    }, //
};

use super::{
    chain::{
        Chain,
        Invalidated,
        Linked,
        Mapped,
        Registered,
        Unposted, //
    },
    registration::Registration, //
};
use crate::os::series::fetch_sub;
use crate::{
    bindings,
    verbs::{
        completion::MrCallbacks,
        owner::Drained,
        poster::{
            Keeps,
            UntilDrain, //
        },
        InvalidatedHandle,
        MrSize,
        Pd,
        Poster,
        QpOwner, //
    }, //
};

/// Registrations in the state `S`.
pub(crate) type MrChain<S> = Chain<Mr, S>;

/// A registration of a pool. The completion entry comes first: the completion of an invalidation
/// leads back to its registration by it. Only its owner has a pointer to it.
///
/// In a box it is not posted; one that may be is part of a [`Chain`].
///
/// # Invariants
///
/// The invalidation of `registration` completes to `cqe`.
#[repr(C)]
pub(crate) struct Mr {
    cqe: bindings::ib_cqe,
    /// Dropped before the reference to the pool, which has one to the domain.
    registration: Registration,
    /// The next one of the chain.
    next: *mut Mr,
    /// The pool that it is from, as long as it is the first of a list.
    pub(super) pool: Option<Arc<MrPool>>,
    /// The context of the invalidation that this registration's completion ends: it is the first of
    /// a chain whose invalidation is posted.
    pub(super) invalidation: Option<usize>,
}

// SAFETY: A registration has no thread affinity, and neither has its place in a chain.
unsafe impl Send for Mr {}

// SAFETY: The two functions use the same field, which is null at first and which nothing else sets.
unsafe impl Linked for Mr {
    #[inline(always)]
    fn next(&self) -> *mut Self {
        self.next
    }

    #[inline(always)]
    unsafe fn set_next(&mut self, next: *mut Self) {
        self.next = next;
    }
}

impl Mr {
    /// A registration in the domain `pd` for up to `pages` pages. The request for it completes to
    /// `reg_cqe`.
    ///
    /// # Errors
    ///
    /// As [`Registration::new`].
    fn new(
        callbacks: &MrCallbacks,
        pd: &Pd,
        pages: u32,
        reg_cqe: *mut bindings::ib_cqe,
    ) -> Result<KBox<Self>> {
        const { assert!(offset_of!(Self, cqe) == 0) };
        let mut mr = KBox::new(
            Self {
                cqe: bindings::ib_cqe {
                    done: Some(callbacks.invalidate),
                },
                registration: Registration::new(pd, pages)?,
                next: null_mut(),
                pool: None,
                invalidation: None,
            },
            GFP_KERNEL,
        )?;
        let inv_cqe = &raw mut mr.cqe;

        // INVARIANT: Set here; no registration leaves its box, and nothing exchanges two.
        // SAFETY: The first entry is the pool's, which outlives its registrations, the second that
        // of the box.
        unsafe { mr.registration.fill_requests(reg_cqe, inv_cqe) };
        Ok(mr)
    }
}

impl Deref for Mr {
    type Target = Registration;

    #[inline(always)]
    fn deref(&self) -> &Registration {
        &self.registration
    }
}

impl DerefMut for Mr {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Registration {
        &mut self.registration
    }
}

struct Lists {
    free: Option<MrChain<Invalidated>>,
    /// The length of that list.
    free_count: u32,
    orphans: Option<MrChain<Registered>>,
    /// The first registration of an invalidation that could not be posted.
    failed: Option<NonNull<Mr>>,
    drained: bool,
}

/// The registrations of one connection.
///
/// # Invariants
///
/// - They are posted to `queue_pair` alone.
/// - The registrations on `orphans` may belong to the device until the queue pair is drained, which
///   sets `drained`; the pool is dropped only after that, since the queue pair keeps it.
/// - `failed` is the first registration of a chain that was left to the device, and exists until
///   the orphans are destroyed.
#[pin_data]
pub(crate) struct MrPool {
    #[pin]
    lists: SpinLock<Lists>,
    reg_cqe: bindings::ib_cqe,
    queue_pair: NonNull<bindings::ib_qp>,
    callbacks: &'static MrCallbacks,
    /// Pages that each registration can cover.
    pages: u32,
    /// Registrations that are allocated, and that may be.
    allocated: Atomic<u32>,
    most: u32,
    /// The most that one message may have.
    pub(super) most_per_message: u32,
    pd: Arc<Pd>,
}

// SAFETY: The completion entry holds only a function pointer, and that to the queue pair is only
// compared; the rest is `Send` and `Sync`.
unsafe impl Send for MrPool {}
// SAFETY: The lists are under a lock; the rest is `Sync` or does not change.
unsafe impl Sync for MrPool {}

impl MrPool {
    /// Makes a pool of registrations for the queue pair of `poster`, whose completions have these
    /// callbacks.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub(super) fn with_callbacks<O: QpOwner>(
        mut poster: Poster<'_, O>,
        callbacks: &'static MrCallbacks,
        size: &MrSize,
    ) -> Result<Arc<Self>> {
        let (queue_pair, pd) = (poster.as_raw(), poster.pd().clone());

        // INVARIANT: `SendQueue::post` and `MrPool::invalidate` post registrations of a pool to the
        // queue pair of its domain alone, and no others post any; `Poster::keep` below has the
        // queue pair keep the pool.
        let pool = Arc::pin_init(
            pin_init!(Self {
                lists <- new_spinlock!(
                    Lists {
                        free: None,
                        free_count: 0,
                        orphans: None,
                        failed: None,
                        drained: false,
                    },
                    "rpcrdma_rs::MrPool"
                ),
                reg_cqe: bindings::ib_cqe {
                    done: Some(callbacks.reg),
                },
                queue_pair,
                callbacks,
                pages: size.pages.max(1),
                allocated: Atomic::new(0),
                most: size.most,
                most_per_message: size.most_per_message,
                pd,
            }),
            GFP_KERNEL,
        )?;
        poster.keep(Keeps::Registrations, pool.clone(), size.most)?;
        pool.grow(size.first)?;
        Ok(pool)
    }

    /// Registrations that are allocated, in use or not.
    pub(crate) fn allocated(&self) -> u32 {
        self.allocated.load(Relaxed)
    }

    /// Registrations that are in use.
    pub(crate) fn in_use(&self) -> u32 {
        self.allocated().saturating_sub(self.unused())
    }

    /// Registrations that are not in use.
    pub(crate) fn unused(&self) -> u32 {
        self.lists.lock().free_count
    }

    /// Allocates `count` registrations more, but not more than the pool may have. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the driver's error. The registrations allocated until then stay.
    pub(crate) fn grow(&self, count: u32) -> Result {
        let reg_cqe = (&raw const self.reg_cqe).cast_mut();

        for _ in 0..count {
            if !self.reserve() {
                break;
            }
            match Mr::new(self.callbacks, &self.pd, self.pages, reg_cqe) {
                Ok(mr) => self.give_back(mr),
                Err(error) => {
                    fetch_sub(&self.allocated, 1, Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Counts a registration that is yet to be allocated. Returns `false` if the pool has as many
    /// as it may: the send queue has no room for the invalidations of more.
    fn reserve(&self) -> bool {
        // Relaxed: the number guards nothing else.
        let mut count = self.allocated();
        while count < self.most {
            match self
                .allocated
                .cmpxchg(count, count.wrapping_add(1), Relaxed)
            {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// The protection domain of the registrations.
    #[inline]
    pub(in crate::verbs) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// The device of that domain.
    pub(super) fn device(&self) -> *mut bindings::ib_device {
        self.pd.device().as_ptr()
    }

    /// Puts a registration on the free list.
    pub(super) fn give_back(&self, mr: KBox<Mr>) {
        self.reclaim(MrChain::<Mapped>::push(None, mr));
    }

    /// Takes a registration that is not in use, or `None` when all are.
    pub(super) fn take(&self) -> Option<KBox<Mr>> {
        let mut lists = self.lists.lock();
        let mr = MrChain::pop(&mut lists.free)?;
        lists.free_count = lists.free_count.wrapping_sub(1);
        Some(mr)
    }

    /// Unmaps registrations, unless that is done, and puts them on the free list.
    pub(super) fn reclaim<S: Unposted>(&self, mut chain: MrChain<S>) {
        let mut count = 0u32;

        for mr in chain.iter_mut() {
            mr.unmap();
            count = count.wrapping_add(1);
        }
        // SAFETY: By their state they are not posted, and none of them is mapped.
        let chain = unsafe { chain.assume::<Invalidated>() };
        let mut lists = self.lists.lock();
        lists.free = Some(chain.followed_by(lists.free.take()));
        lists.free_count = lists.free_count.wrapping_add(count);
    }

    /// Keeps an invalidation that could not be posted until the drain: part of its chain may be
    /// posted, and complete. At most one comes: the queue pair is closed then.
    ///
    /// # Safety
    ///
    /// `head` must be the first registration of a chain of this pool that was left to the device.
    #[cold]
    pub(super) unsafe fn keep_failed(&self, head: NonNull<Mr>) {
        // INVARIANT: By the safety requirements of this function.
        self.lists.lock().failed = Some(head);
    }

    /// Keeps registrations until the drain; after it, destroys them immediately.
    pub(super) fn orphan(&self, chain: MrChain<Registered>) {
        let mut lists = self.lists.lock();

        if !lists.drained {
            lists.orphans = Some(chain.followed_by(lists.orphans.take()));
            return;
        }
        drop(lists);
        // SAFETY: The queue pair is drained, so that no posted request refers to any of them.
        unsafe { chain.assume::<Mapped>() }.destroy();
    }

    /// Returns `true` if the peer has invalidated `handle` on the queue pair of these
    /// registrations.
    #[inline(always)]
    pub(super) fn shares_queue_pair(&self, handle: InvalidatedHandle<'_>) -> bool {
        handle.is_of(self.queue_pair)
    }
}

impl<O: QpOwner> UntilDrain<O> for MrPool {
    /// Destroys all orphans, including later ones: their memory is unmapped when this returns.
    /// Does nothing unless the queue pair of the pool is the `drained` one.
    fn drained(&self, drained: &Drained<O>) {
        if !drained.is_of(self.queue_pair) {
            return;
        }
        let (orphans, failed) = {
            let mut lists = self.lists.lock();
            lists.drained = true;
            (lists.orphans.take(), lists.failed.take())
        };
        // Before the orphans are destroyed: a completion has made it one of them.
        let is_pending = |head: &NonNull<Mr>| {
            // SAFETY: By the type invariants the registration exists. Only a completion and this
            // function take that field, and no completion runs after the drain.
            unsafe { (*head.as_ptr()).invalidation.take() }.is_some()
        };
        let failed = failed.filter(is_pending);
        if let Some(head) = failed {
            // SAFETY: No completion has ended the invalidation, so that the chain is still left to
            // the device, which uses none of it after the drain.
            unsafe { MrChain::<Mapped>::from_raw(head) }.destroy();
        }
        if let Some(chain) = orphans {
            // SAFETY: By the type invariants they were posted to the queue pair that is drained, if
            // at all, so that no posted request refers to any of them.
            unsafe { chain.assume::<Mapped>() }.destroy();
        }
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        if let Some(chain) = self.free.take() {
            chain.destroy();
        }
        if let Some(chain) = self.orphans.take() {
            // SAFETY: By the invariants of the pool the queue pair is drained, so that no posted
            // request refers to any of them.
            unsafe { chain.assume::<Mapped>() }.destroy();
        }
    }
}
