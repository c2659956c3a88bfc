// SPDX-License-Identifier: GPL-2.0

//! Local invalidation, which keeps the peer from memory whose handle it has not invalidated.

use core::ptr::{
    null_mut,
    NonNull, //
};

use kernel::ffi::c_int;

use super::{
    chain::{
        Invalidated,
        Registered, //
    },
    list::MrList,
    registration::{
        Mr,
        MrChain, //
    }, //
};
use crate::{
    bindings,
    verbs::{
        Failure,
        PostError,
        Qp,
        QpOwner, //
    }, //
};

impl MrList<Registered> {
    /// Posts the invalidation of all registrations on `qp`: once the completion, which carries
    /// `context`, has come, the peer cannot use any of them.
    ///
    /// # Errors
    ///
    /// [`PostError`]: the registrations wait for the drain, and the connection has to end.
    /// Registrations of another queue pair count as [`PostError::Closed`].
    pub(crate) fn invalidate<O: QpOwner>(
        self,
        qp: &mut Qp<O>,
        context: usize,
    ) -> Result<(), PostError> {
        if !qp.is_open() || !qp.mrs().is_some_and(|own| self.is_of(own)) {
            return Err(PostError::Closed);
        }
        let (first, chain) = self.into_invalidate(context);
        let posted = qp.post_send(first);

        if let (Err(_), Some(own)) = (posted, qp.mrs()) {
            own.keep_failed(chain);
        }
        posted
    }

    /// Chains local invalidations of all registrations, the last one signalled, and leaves the list
    /// to the device until [`invalidation_completed`]. Returns the first request.
    fn into_invalidate(self, context: usize) -> (*mut bindings::ib_send_wr, InvalidateChain) {
        let mut chain = self.into_chain();
        let mut first: *mut bindings::ib_send_wr = null_mut();

        for mr in chain.iter_mut() {
            // The first of the chain is invalidated last.
            let is_last = first.is_null();
            mr.inv.send_flags = if is_last {
                bindings::ib_send_flags_IB_SEND_SIGNALED as c_int
            } else {
                0
            };
            mr.invalidation = is_last.then_some(context);
            mr.inv.next = first;
            first = &raw mut mr.inv;
        }
        let head = chain.into_raw();
        (first, InvalidateChain { head })
    }
}

/// An invalidation whose post failed, perhaps after part of its chain was sent: the completion may
/// or may not come.
pub(super) struct InvalidateChain {
    head: NonNull<Mr>,
}

// SAFETY: The registrations have no thread affinity.
unsafe impl Send for InvalidateChain {}

impl InvalidateChain {
    /// Orphans the registrations if no completion has done so.
    ///
    /// # Safety
    ///
    /// The queue pair must be drained, so that no completion can follow.
    pub(super) unsafe fn orphan(self) {
        // SAFETY: The registration stays until the purge, which follows. Only a completion and this
        // function take that field, and no completion runs after the drain.
        if unsafe { (*self.head.as_ptr()).invalidation.take() }.is_some() {
            // SAFETY: No completion has ended the invalidation, so that the list is the device's,
            // and is taken over.
            drop(unsafe { registered(self.head) });
        }
    }
}

/// The list of registrations that an invalidation was posted for.
///
/// # Safety
///
/// `head` must be the first of a chain that [`MrList::into_invalidate`] has left to the device, and
/// nothing else may have taken it back.
unsafe fn registered(head: NonNull<Mr>) -> MrList<Registered> {
    // SAFETY: `into_invalidate` has left the chain, with the reference to its pool, to the device;
    // by the safety requirements of this function the caller is the first to own it after that.
    MrList::new(unsafe { MrChain::from_raw(head) })
}

/// Ends the invalidation whose last completion entry is `cqe`; returns its context and, on success,
/// its registrations. Otherwise they wait for the drain. `None` if the entry belongs to a request
/// inside a chain (such requests complete only when flushed).
///
/// # Safety
///
/// `cqe` must be the completion entry of a local invalidation posted by [`MrList::invalidate`].
pub(super) unsafe fn invalidation_completed(
    cqe: *mut bindings::ib_cqe,
    result: Result<(), Failure>,
) -> Option<(usize, Result<MrList<Invalidated>, Failure>)> {
    let mut head = NonNull::new(cqe.cast::<Mr>())?;
    // SAFETY: The completion entry is the first field of a registration, which stays until the
    // drain; nothing else uses it before this completion.
    let context = unsafe { head.as_mut() }.invalidation.take()?;
    // SAFETY: The registration with the context is the first of its chain; the context is taken
    // once.
    let mrs = unsafe { registered(head) };

    Some((
        context,
        // SAFETY: The last invalidation has completed, and so have all earlier ones and all
        // requests that they refer to.
        result.map(|()| unsafe { mrs.into_invalidated() }),
    ))
}
