// SPDX-License-Identifier: GPL-2.0

//! Local invalidation, which keeps the peer from memory whose handle it has not invalidated.

use core::ptr::{
    null_mut,
    NonNull, //
};

use kernel::{
    ffi::c_int,
    sync::Arc, //
};

use super::{
    chain::{
        Invalidated,
        Registered, //
    },
    list::MrList,
    pool::{
        Mr,
        MrChain,
        MrPool, //
    }, //
};
use crate::{
    bindings,
    verbs::{
        Failure,
        PostError,
        Poster,
        QpOwner, //
    }, //
};

impl MrPool {
    /// Posts the invalidation of `mrs`: once the completion, which carries `context`, has come, the
    /// peer cannot use any of them.
    ///
    /// # Errors
    ///
    /// [`PostError`]: the registrations wait for the drain, and the connection has to end.
    /// Registrations of another pool, or the poster of another queue pair, count as
    /// [`PostError::Closed`].
    pub(crate) fn invalidate<O: QpOwner>(
        self: &Arc<Self>,
        mut poster: Poster<'_, O>,
        mrs: MrList<Registered>,
        context: usize,
    ) -> Result<(), PostError> {
        let is_own = mrs.is_of(self) && Arc::ptr_eq(self.pd(), poster.pd());

        if !is_own || !poster.is_open() {
            return Err(PostError::Closed);
        }
        let (first, head) = mrs.into_invalidate(context);
        // SAFETY: The requests are fields of registrations that are left to the device until they
        // complete, and the queue pair keeps the pool until the drain.
        let posted = unsafe { poster.post(first) };

        // SAFETY: The chain is one of this pool, and was left to the device.
        posted.inspect_err(|_| unsafe { self.keep_failed(head) })
    }
}

impl MrList<Registered> {
    /// Chains local invalidations of all registrations, the last one signalled, and leaves the list
    /// to the device until [`invalidation_completed`]. Returns the first request and the first
    /// registration.
    fn into_invalidate(self, context: usize) -> (*mut bindings::ib_send_wr, NonNull<Mr>) {
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
        (first, chain.into_raw())
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
/// `cqe` must be the completion entry of a local invalidation posted by [`MrPool::invalidate`].
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
