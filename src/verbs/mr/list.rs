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

/// Registrations in the same state, for one call.
pub(crate) struct MrList<S> {
    head: *mut Mr,
    tail: *mut Mr,
    count: u32,
    live: bool,
    pool: Arc<MrPool>,
    _state: PhantomData<S>,
}

// SAFETY: The list owns its registrations, which have no thread affinity.
unsafe impl<S> Send for MrList<S> {}

impl<S> MrList<S> {
    /// Number of registrations.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether its registrations are from `pool`.
    #[inline]
    pub(crate) fn is_of(&self, pool: &Arc<MrPool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    fn into_state<T>(self, live: bool) -> MrList<T> {
        let this = ManuallyDrop::new(self);
        MrList {
            head: this.head,
            tail: this.tail,
            count: this.count,
            live,
            // SAFETY: `this` is not used again.
            pool: unsafe { core::ptr::read(&this.pool) },
            _state: PhantomData,
        }
    }
}

impl<S> Drop for MrList<S> {
    fn drop(&mut self) {
        if self.head.is_null() {
            return;
        }
        if self.live {
            self.pool.set_aside(self.head);
        } else {
            self.pool.reclaim(self.head);
        }
    }
}

impl MrList<Mapped> {
    /// An empty list.
    pub(crate) fn new(pool: &Arc<MrPool>) -> Self {
        Self {
            head: null_mut(),
            tail: null_mut(),
            count: 0,
            live: false,
            pool: pool.clone(),
            _state: PhantomData,
        }
    }

    /// Registers `spans`, one registration after the other, and tells `segment` the handle, length
    /// in octets and offset of each.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` when the pool is empty for now, `EIO` when memory cannot be mapped, and what
    /// `segment` returns. What was added to the list until then stays there.
    pub(crate) fn register(
        &mut self,
        spans: &mut dyn Iterator<Item = PageSpan>,
        access: Access,
        mut segment: impl FnMut(u32, u32, u64) -> Result,
    ) -> Result {
        let device = self.pool.device();
        let mut spans = Spans::new(spans);

        while spans.peek().is_some() {
            let mut mr = self.pool.take().ok_or(ENOBUFS)?;
            // SAFETY: Taken from the pool, so that it is ours alone.
            let inner = unsafe { mr.as_mut() };
            let octets = match inner.map(device, &mut spans, access) {
                Ok(octets) => octets,
                Err(e) => {
                    self.pool.give_back(mr);
                    return Err(e);
                }
            };
            // SAFETY: The registration is valid.
            let iova = unsafe { inner.raw.as_ref() }.iova;
            let handle = inner.handle();

            inner.next = null_mut();
            if self.head.is_null() {
                self.head = mr.as_ptr();
            } else {
                // SAFETY: A non-empty list has a valid last element.
                unsafe { (*self.tail).next = mr.as_ptr() };
            }
            self.tail = mr.as_ptr();
            self.count = self.count.saturating_add(1);
            segment(handle, octets, iova)?;
        }
        Ok(())
    }

    /// Chains the registration requests in front of `send`; returns the first request of the chain.
    pub(crate) fn chain(&mut self, send: *mut bindings::ib_send_wr) -> *mut bindings::ib_send_wr {
        let (mut first, mut next) = (send, self.head);
        let mut last: *mut bindings::ib_reg_wr = null_mut();

        while let Some(mut mr) = NonNull::new(next) {
            // SAFETY: The list owns its registrations.
            let inner = unsafe { mr.as_mut() };
            next = inner.next;
            inner.reg.wr.next = send;
            if last.is_null() {
                first = &raw mut inner.reg.wr;
            } else {
                // SAFETY: `last` is the request of the registration before, owned by the list.
                unsafe { (*last).wr.next = &raw mut inner.reg.wr };
            }
            last = &raw mut inner.reg;
        }
        first
    }

    /// The requests made by `chain` were handed to the device.
    pub(crate) fn posted(self) -> MrList<Live> {
        self.into_state(true)
    }
}

impl MrList<Live> {
    /// The peer has invalidated `handle`: if it is one of the list's, takes it out, unmaps it and
    /// gives it back to the pool. Returns whether it was.
    pub(crate) fn retire(&mut self, handle: u32) -> bool {
        let mut before: *mut Mr = null_mut();
        let mut next = self.head;

        while let Some(mut mr) = NonNull::new(next) {
            // SAFETY: The list owns its registrations.
            let inner = unsafe { mr.as_mut() };
            if inner.handle() == handle {
                if before.is_null() {
                    self.head = inner.next;
                } else {
                    // SAFETY: `before` is an element of the list.
                    unsafe { (*before).next = inner.next };
                }
                if self.tail == mr.as_ptr() {
                    self.tail = before;
                }
                self.count = self.count.saturating_sub(1);
                inner.next = null_mut();
                self.pool.reclaim(mr.as_ptr());
                return true;
            }
            before = mr.as_ptr();
            next = inner.next;
        }
        false
    }

    /// Chains local invalidations of all registrations, the last one signalled, and leaves the list
    /// to the device until [`fence_completed`]. Returns the first request, or `None` for an empty
    /// list.
    pub(crate) fn into_fence(
        mut self,
        context: usize,
    ) -> Option<(*mut bindings::ib_send_wr, FenceChain)> {
        let head = NonNull::new(core::mem::replace(&mut self.head, null_mut()))?;
        let last = NonNull::new(self.tail)?;
        let mut at = Some(head);

        while let Some(mut mr) = at {
            // SAFETY: The list owned its registrations, and we took them over.
            let inner = unsafe { mr.as_mut() };
            at = NonNull::new(inner.next);
            inner.inv.send_flags = 0;
            // SAFETY: `next` is another registration of the chain.
            inner.inv.next = at.map_or(null_mut(), |next| unsafe { &raw mut (*next.as_ptr()).inv });
        }
        // SAFETY: `last` is the last registration of the chain.
        let tail = unsafe { &mut *last.as_ptr() };
        tail.inv.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED as c_int;
        tail.fence = Some(Fence {
            context,
            head,
            pool: self.pool.clone(),
        });
        // SAFETY: `head` is valid.
        let first = unsafe { &raw mut (*head.as_ptr()).inv };
        Some((first, FenceChain { last }))
    }
}

/// What a fence in progress comes back to; kept in the last registration of its chain.
pub(super) struct Fence {
    context: usize,
    head: NonNull<Mr>,
    pool: Arc<MrPool>,
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
            fence.pool.set_aside(fence.head.as_ptr());
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

    if ok {
        fence.pool.reclaim(fence.head.as_ptr());
    } else {
        fence.pool.set_aside(fence.head.as_ptr());
    }
    Some(fence.context)
}
