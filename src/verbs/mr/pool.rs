// SPDX-License-Identifier: GPL-2.0

//! The registrations of a connection that are not in use, and those that wait for the drain.

use core::ptr::{
    null_mut,
    NonNull, //
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

use super::registration::{
    destroy,
    Mr, //
};
use crate::{
    bindings,
    verbs::{
        completion::Callbacks,
        Pd, //
    }, //
};

struct Lists {
    free: *mut Mr,
    /// The length of that list.
    free_count: u32,
    orphans: *mut Mr,
    drained: bool,
}

// SAFETY: The lists own their registrations, which have no thread affinity.
unsafe impl Send for Lists {}

/// The registrations of one connection.
///
/// # Invariants
///
/// The registrations on `free` are neither posted nor mapped. Those on `orphans` may belong to the
/// device until the queue pair is drained, which `drained` says; the pool is dropped only after
/// that, since the queue pair keeps it.
#[pin_data]
pub(crate) struct MrPool {
    #[pin]
    lists: SpinLock<Lists>,
    reg_cqe: bindings::ib_cqe,
    callbacks: &'static Callbacks,
    /// Pages that each registration can cover.
    pages: u32,
    /// Registrations that there are, and that there may be.
    made: Atomic<u32>,
    most: u32,
    pd: Arc<Pd>,
}

// SAFETY: The completion entry holds only a function pointer; the rest is `Send` and `Sync`.
unsafe impl Send for MrPool {}
// SAFETY: The lists are under a lock; the rest is `Sync` or does not change.
unsafe impl Sync for MrPool {}

impl MrPool {
    /// Makes a pool that has `first` registrations of up to `pages` pages and may grow to `most`,
    /// for a queue pair with these callbacks.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the driver returns.
    pub(in crate::verbs) fn new(
        callbacks: &'static Callbacks,
        pd: Arc<Pd>,
        (first, most): (u32, u32),
        pages: u32,
    ) -> Result<Arc<Self>> {
        let pool = Arc::pin_init(
            pin_init!(Self {
                lists <- new_spinlock!(
                    Lists {
                        free: null_mut(),
                        free_count: 0,
                        orphans: null_mut(),
                        drained: false,
                    },
                    "rpcrdma_rs::MrPool"
                ),
                reg_cqe: bindings::ib_cqe {
                    done: Some(callbacks.reg),
                },
                callbacks,
                pages: pages.max(1),
                made: Atomic::new(0),
                most,
                pd,
            }),
            GFP_KERNEL,
        )?;
        pool.grow(first)?;
        Ok(pool)
    }

    /// Registrations that there are, in use or not.
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Relaxed)
    }

    /// Registrations that are in use.
    pub(crate) fn in_use(&self) -> u32 {
        self.made().saturating_sub(self.lists.lock().free_count)
    }

    /// Makes `count` registrations more, but not more than the pool may have. Process context, one
    /// caller at a time.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the driver returns. What was made until then stays.
    pub(crate) fn grow(&self, count: u32) -> Result {
        let reg_cqe = (&raw const self.reg_cqe).cast_mut();

        for _ in 0..count.min(self.most.saturating_sub(self.made())) {
            let mr = Mr::new(self.callbacks, &self.pd, self.pages, reg_cqe)?;
            self.made.fetch_add(1, Relaxed);
            self.give_back(mr);
        }
        Ok(())
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

    /// Puts an unmapped registration on the free list.
    pub(super) fn give_back(&self, mut mr: NonNull<Mr>) {
        let mut lists = self.lists.lock();
        // SAFETY: The caller owns `mr`, and nothing else refers to it.
        unsafe { mr.as_mut() }.next = lists.free;
        lists.free = mr.as_ptr();
        lists.free_count = lists.free_count.wrapping_add(1);
    }

    /// Takes a registration that is not in use, or `None` when all are.
    pub(super) fn take(&self) -> Option<NonNull<Mr>> {
        let mut lists = self.lists.lock();
        let mr = NonNull::new(lists.free)?;
        // SAFETY: The registrations on the list are valid and owned by it.
        lists.free = unsafe { mr.as_ref() }.next;
        lists.free_count = lists.free_count.wrapping_sub(1);
        Some(mr)
    }

    /// Unmaps a chain of registrations that are known to be invalid, unless that is done, and puts
    /// them on the free list.
    pub(super) fn reclaim(&self, chain: *mut Mr) {
        let device = self.device();
        let Some(mut last) = NonNull::new(chain) else {
            return;
        };

        let mut count = 0u32;
        loop {
            // SAFETY: The caller owns the chain.
            let inner = unsafe { last.as_mut() };
            inner.unmap(device);
            count = count.wrapping_add(1);
            let Some(next) = NonNull::new(inner.next) else {
                break;
            };
            last = next;
        }
        let mut lists = self.lists.lock();
        // SAFETY: The caller owns the chain, of which this is the last registration.
        unsafe { last.as_mut() }.next = lists.free;
        lists.free = chain;
        lists.free_count = lists.free_count.wrapping_add(count);
    }

    /// Keeps a chain until the drain; after it, destroys the chain at once.
    pub(super) fn orphan(&self, chain: *mut Mr) {
        let mut next = chain;

        while let Some(mut mr) = NonNull::new(next) {
            // SAFETY: The caller owns the chain.
            let inner = unsafe { mr.as_mut() };
            next = inner.next;
            let mut lists = self.lists.lock();
            if lists.drained {
                drop(lists);
                // SAFETY: The chain is ours, and no request refers to it any more.
                unsafe { destroy(mr) };
            } else {
                inner.next = lists.orphans;
                lists.orphans = mr.as_ptr();
            }
        }
    }

    /// Destroys all orphans, those to come included: their memory is unmapped when
    /// this returns.
    ///
    /// # Safety
    ///
    /// The queue pair must be drained. Process context.
    pub(crate) unsafe fn purge(&self) {
        let mut next = {
            let mut lists = self.lists.lock();
            lists.drained = true;
            core::mem::replace(&mut lists.orphans, null_mut())
        };
        while let Some(mr) = NonNull::new(next) {
            // SAFETY: Taken off the list, so that it is ours.
            next = unsafe { mr.as_ref() }.next;
            // SAFETY: Taken off the list, so that it is ours, and no request refers to it.
            unsafe { destroy(mr) };
        }
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        for list in [self.free, self.orphans] {
            let mut next = list;
            while let Some(mr) = NonNull::new(next) {
                // SAFETY: The lists own their registrations.
                next = unsafe { mr.as_ref() }.next;
                // SAFETY: By the pool's invariants the queue pair is drained, so that no request
                // refers to it.
                unsafe { destroy(mr) };
            }
        }
    }
}
