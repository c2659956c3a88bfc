// SPDX-License-Identifier: GPL-2.0

//! The registrations of one call, and the fence that ends them.

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

use kernel::{
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

use super::{
    Access,
    Mr,
    MrPool,
    Spans, //
};
use crate::{
    bindings,
    os::PageSpan, //
};

/// State of a list whose registrations are mapped and not posted.
pub(crate) struct Mapped;

/// State of a list whose registrations the peer may use.
pub(crate) struct Live;

/// What all registrations of a list have in common.
pub(crate) trait State {
    /// Whether the peer may use them.
    const LIVE: bool;
}

impl State for Mapped {
    const LIVE: bool = false;
}

impl State for Live {
    const LIVE: bool = true;
}

/// Registrations in the same state, for one call: at least one.
///
/// A single pointer, since a list goes through many hands between a Send and its reply.
///
/// # Invariants
///
/// `head` is the first of a chain of registrations that belong to this value, and holds a reference
/// to the pool that they are from.
pub(crate) struct MrList<S: State> {
    head: NonNull<Mr>,
    _state: PhantomData<S>,
}

// SAFETY: The list owns its registrations, which have no thread affinity.
unsafe impl<S: State> Send for MrList<S> {}

impl<S: State> MrList<S> {
    /// Number of registrations.
    pub(crate) fn count(&self) -> u32 {
        let (mut count, mut at) = (0u32, Some(self.head));

        while let Some(mr) = at {
            count = count.saturating_add(1);
            // SAFETY: By the type invariants.
            at = NonNull::new(unsafe { mr.as_ref() }.next);
        }
        count
    }

    /// Whether its registrations are from `pool`.
    #[inline]
    pub(crate) fn is_of(&self, pool: &Arc<MrPool>) -> bool {
        // SAFETY: By the type invariants.
        let own = unsafe { &self.head.as_ref().pool };
        own.as_ref().is_some_and(|own| Arc::ptr_eq(own, pool))
    }

    /// Gives up the value, but not what it owns.
    #[inline]
    fn into_head(self) -> NonNull<Mr> {
        ManuallyDrop::new(self).head
    }
}

impl<S: State> Drop for MrList<S> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        let Some(pool) = unsafe { self.head.as_mut() }.pool.take() else {
            return;
        };
        if S::LIVE {
            pool.set_aside(self.head.as_ptr());
        } else {
            pool.reclaim(self.head.as_ptr());
        }
    }
}

impl MrList<Mapped> {
    /// Registers `spans`, one registration after the other, adds them to `list` and tells `segment`
    /// the handle, length in octets and offset of each.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` when the pool is empty for now, `EIO` when memory cannot be mapped, and what
    /// `segment` returns. What was added to the list until then stays there.
    #[inline]
    pub(crate) fn register(
        list: &mut Option<Self>,
        pool: &Arc<MrPool>,
        spans: impl Iterator<Item = PageSpan>,
        access: Access,
        mut segment: impl FnMut(u32, u32, u64) -> Result,
    ) -> Result {
        let device = pool.device();
        let mut spans = Spans::new(spans);

        while spans.peek().is_some() {
            let mut mr = pool.take().ok_or(ENOBUFS)?;
            // SAFETY: Taken from the pool, so that it is ours alone.
            let inner = unsafe { mr.as_mut() };
            let octets = match inner.map(device, &mut spans, access) {
                Ok(octets) => octets,
                Err(e) => {
                    pool.give_back(mr);
                    return Err(e);
                }
            };
            // SAFETY: The registration is valid.
            let iova = unsafe { inner.raw.as_ref() }.iova;
            let handle = inner.handle();

            // In front of the others: their order is of no interest.
            match list.take().map(Self::into_head) {
                Some(mut next) => {
                    inner.next = next.as_ptr();
                    // SAFETY: The head of the list until now.
                    inner.pool = unsafe { next.as_mut() }.pool.take();
                }
                None => {
                    inner.next = null_mut();
                    inner.pool = Some(pool.clone());
                }
            }
            // INVARIANT: The registration is from the pool, and the first of the chain.
            *list = Some(Self {
                head: mr,
                _state: PhantomData,
            });
            segment(handle, octets, iova)?;
        }
        Ok(())
    }

    /// Chains the registration requests in front of `send`; returns the first request of the chain.
    #[inline]
    pub(crate) fn chain(&mut self, send: *mut bindings::ib_send_wr) -> *mut bindings::ib_send_wr {
        let mut at = self.head;

        loop {
            // SAFETY: The list owns its registrations.
            let inner = unsafe { at.as_mut() };
            let Some(next) = NonNull::new(inner.next) else {
                inner.reg.wr.next = send;
                break;
            };
            // SAFETY: As above.
            inner.reg.wr.next = unsafe { &raw mut (*next.as_ptr()).reg.wr };
            at = next;
        }
        // SAFETY: As above.
        unsafe { &raw mut (*self.head.as_ptr()).reg.wr }
    }

    /// The requests made by `chain` were handed to the device.
    #[inline]
    pub(crate) fn posted(self) -> MrList<Live> {
        // INVARIANT: As before.
        MrList {
            head: self.into_head(),
            _state: PhantomData,
        }
    }
}

impl MrList<Live> {
    /// The peer has invalidated `handle`: if it is one of the list's, takes it out, unmaps it and
    /// gives it back to the pool. Returns whether it was.
    pub(crate) fn retire(list: &mut Option<Self>, handle: u32) -> bool {
        let Some(own) = list else {
            return false;
        };
        let head = own.head;
        let mut before: Option<NonNull<Mr>> = None;
        let mut at = Some(head);

        while let Some(mut mr) = at {
            // SAFETY: The list owns its registrations.
            let inner = unsafe { mr.as_mut() };
            let next = NonNull::new(inner.next);
            if inner.handle() != handle {
                (before, at) = (at, next);
                continue;
            }

            inner.next = null_mut();
            let pool = match (before, next) {
                (Some(mut before), _) => {
                    // SAFETY: As above.
                    unsafe { before.as_mut() }.next = next.map_or(null_mut(), NonNull::as_ptr);
                    // SAFETY: As above; the head keeps its reference.
                    unsafe { head.as_ref() }.pool.clone()
                }
                (None, Some(mut next)) => {
                    let pool = inner.pool.take();
                    // SAFETY: As above.
                    unsafe { next.as_mut() }.pool = pool.clone();
                    // INVARIANT: The second is the first now, and has its reference.
                    own.head = next;
                    pool
                }
                (None, None) => {
                    let pool = inner.pool.take();
                    if let Some(own) = list.take() {
                        own.into_head();
                    }
                    pool
                }
            };
            if let Some(pool) = pool {
                pool.reclaim(mr.as_ptr());
            }
            return true;
        }
        false
    }

    /// Chains local invalidations of all registrations, the last one signalled, and leaves the list
    /// to the device until [`fence_completed`]. Returns the first request.
    pub(crate) fn into_fence(self, context: usize) -> (*mut bindings::ib_send_wr, FenceChain) {
        let mut head = self.into_head();
        // SAFETY: The list owned its registrations, and we took them over.
        let pool = unsafe { head.as_mut() }.pool.take();
        let mut last = head;

        loop {
            // SAFETY: As above.
            let inner = unsafe { last.as_mut() };
            let Some(next) = NonNull::new(inner.next) else {
                inner.inv.next = null_mut();
                inner.inv.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED as c_int;
                inner.fence = Some(Fence {
                    context,
                    head,
                    pool,
                });
                break;
            };
            inner.inv.send_flags = 0;
            // SAFETY: As above.
            inner.inv.next = unsafe { &raw mut (*next.as_ptr()).inv };
            last = next;
        }
        // SAFETY: As above.
        let first = unsafe { &raw mut (*head.as_ptr()).inv };
        (first, FenceChain { last })
    }
}

/// What a fence in progress comes back to; kept in the last registration of its chain.
pub(super) struct Fence {
    context: usize,
    head: NonNull<Mr>,
    /// The reference that the list had.
    pool: Option<Arc<MrPool>>,
}

/// A fence whose post failed, perhaps after part of its chain went out: the completion may or may
/// not come.
pub(crate) struct FenceChain {
    last: NonNull<Mr>,
}

// SAFETY: The registrations have no thread affinity.
unsafe impl Send for FenceChain {}

impl FenceChain {
    /// Sets the registrations aside if no completion has done so.
    ///
    /// # Safety
    ///
    /// The queue pair must be drained, so that no completion can come any more.
    pub(crate) unsafe fn abandon(self) {
        // SAFETY: No completion runs any more, so that the registration is ours alone.
        if let Some(fence) = unsafe { (*self.last.as_ptr()).fence.take() } {
            if let Some(pool) = fence.pool {
                pool.set_aside(fence.head.as_ptr());
            }
        }
    }
}

/// Ends the fence whose last completion entry is `cqe`; returns its context. On success the
/// registrations go back to their pool, else they are set aside until the drain. `None` if the
/// entry belongs to an invalidation inside a chain (those complete only when flushed).
///
/// # Safety
///
/// `cqe` must be the completion entry of a local invalidation posted by
/// [`crate::verbs::Qp::fence`].
pub(crate) unsafe fn fence_completed(cqe: *mut bindings::ib_cqe, ok: bool) -> Option<usize> {
    // SAFETY: The completion entry is the first field of a registration, which stays until the
    // drain.
    let fence = unsafe { (*cqe.cast::<Mr>()).fence.take() }?;

    if let Some(pool) = fence.pool {
        if ok {
            pool.reclaim(fence.head.as_ptr());
        } else {
            pool.set_aside(fence.head.as_ptr());
        }
    }
    Some(fence.context)
}
