// SPDX-License-Identifier: GPL-2.0

//! Transfers that are posted: left to the device with all that they use, until their completion or
//! the drain.

use core::ptr::NonNull;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    pages::Direction,
    pool::{
        Block,
        Load,
        Memory,
        TransferSize,
        Transfers, //
    },
    transfer::Admitted, //
};
use crate::{
    bindings,
    verbs::{
        buffer::LentSend,
        completion::TransferCallbacks,
        owner::Drained,
        poster::{
            Keeps,
            UntilDrain, //
        },
        MrPool,
        PostError,
        Poster,
        QpOwner, //
    }, //
};

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
        while let Some(head) = self.posted() {
            // SAFETY: By the type invariants the block is the first of a chain that was left to the
            // device; by the safety requirements of this function it is no longer used.
            drop(unsafe { reclaim(head) });
        }
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
        if drained.is_of(self.queue_pair()) {
            // SAFETY: By the type invariants the transfers were posted to the queue pair that is
            // drained.
            unsafe { self.free_posted() };
        }
    }
}
