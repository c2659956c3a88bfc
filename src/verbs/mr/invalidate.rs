// SPDX-License-Identifier: GPL-2.0

//! Local invalidation: what keeps the peer from memory when it has not done so itself.

use core::ptr::{
    null_mut,
    NonNull, //
};

use kernel::ffi::c_int;

use super::{
    list::{
        Invalidated,
        MrList,
        Registered, //
    },
    registration::{
        Invalidation,
        Mr, //
    }, //
};
use crate::{
    bindings,
    verbs::Failure, //
};

impl MrList<Registered> {
    /// Chains local invalidations of all registrations, the last one signalled, and leaves the list
    /// to the device until [`invalidation_completed`]. Returns the first request.
    pub(crate) fn into_invalidate(
        self,
        context: usize,
    ) -> (*mut bindings::ib_send_wr, InvalidateChain) {
        let mut head = self.into_head();
        // SAFETY: The list owned its registrations, and we took them over.
        let pool = unsafe { head.as_mut() }.pool.take();
        let mut last = head;

        loop {
            // SAFETY: The registrations were taken over from the list.
            let inner = unsafe { last.as_mut() };
            let Some(next) = NonNull::new(inner.next) else {
                inner.inv.next = null_mut();
                inner.inv.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED as c_int;
                inner.invalidation = Some(Invalidation {
                    context,
                    head,
                    pool,
                });
                break;
            };
            inner.inv.send_flags = 0;
            // SAFETY: The registrations were taken over from the list; this is the next one.
            inner.inv.next = unsafe { &raw mut (*next.as_ptr()).inv };
            last = next;
        }
        // SAFETY: The registrations were taken over from the list; this is the first one.
        let first = unsafe { &raw mut (*head.as_ptr()).inv };
        (first, InvalidateChain { last })
    }
}

/// An invalidation whose post failed, perhaps after part of its chain went out: the completion may
/// or may not come.
pub(crate) struct InvalidateChain {
    last: NonNull<Mr>,
}

// SAFETY: The registrations have no thread affinity.
unsafe impl Send for InvalidateChain {}

impl InvalidateChain {
    /// Orphans the registrations if no completion has done so.
    ///
    /// # Safety
    ///
    /// The queue pair must be drained, so that no completion can come any more.
    pub(crate) unsafe fn abandon(self) {
        // SAFETY: No completion runs any more, so that the registration is ours alone.
        if let Some(invalidation) = unsafe { (*self.last.as_ptr()).invalidation.take() } {
            if let Some(pool) = invalidation.pool {
                pool.orphan(invalidation.head.as_ptr());
            }
        }
    }
}

/// Ends the invalidation whose last completion entry is `cqe`; returns its context and, on success,
/// its registrations. Otherwise they wait for the drain. `None` if the entry belongs to
/// a request inside a chain (those complete only when flushed).
///
/// # Safety
///
/// `cqe` must be the completion entry of a local invalidation posted by
/// [`crate::verbs::Qp::invalidate`].
pub(crate) unsafe fn invalidation_completed(
    cqe: *mut bindings::ib_cqe,
    result: Result<(), Failure>,
) -> Option<(usize, Result<MrList<Invalidated>, Failure>)> {
    // SAFETY: The completion entry is the first field of a registration, which stays until the
    // drain.
    let invalidation = unsafe { (*cqe.cast::<Mr>()).invalidation.take() }?;
    let mut head = invalidation.head;

    // SAFETY: The chain is the invalidation's, and comes back with it.
    unsafe { head.as_mut() }.pool = invalidation.pool;
    // SAFETY: The chain, with the reference that it had as a list of this kind.
    let mrs = unsafe { MrList::<Registered>::new(head) };
    Some((
        invalidation.context,
        result.map(|()| mrs.into_invalidated()),
    ))
}
