// SPDX-License-Identifier: GPL-2.0

//! The registrations of one call, and the invalidation that ends them.

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
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    }, //
};

use super::{
    Access,
    Mr,
    MrPool, //
};
use crate::{
    bindings,
    os::Runs,
    verbs::Failure, //
};

/// State of a list whose registrations are mapped and not posted.
pub(crate) struct Mapped;

/// State of a list whose registrations the peer may use.
pub(crate) struct Registered;

/// State of a list whose registrations only the owner can reach any more: neither valid nor
/// mapped.
pub(crate) struct Invalidated;

/// The state that all registrations of a list have in common.
pub(crate) trait State {
    /// Set if the peer may use them.
    const LIVE: bool;
}

impl State for Mapped {
    const LIVE: bool = false;
}

impl State for Registered {
    const LIVE: bool = true;
}

impl State for Invalidated {
    const LIVE: bool = false;
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

    /// Tells whether its registrations are from `pool`.
    #[inline]
    pub(crate) fn is_of(&self, pool: &Arc<MrPool>) -> bool {
        // SAFETY: By the type invariants.
        let own = unsafe { &self.head.as_ref().pool };
        own.as_ref().is_some_and(|own| Arc::ptr_eq(own, pool))
    }

    /// Forgets the value, but not what it owns.
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
            pool.orphan(self.head.as_ptr());
        } else {
            pool.reclaim(self.head.as_ptr());
        }
    }
}

/// A place for registrations that one call leaves for the next. Any task may put some there, or
/// take what is there.
///
/// # Invariants
///
/// Null, or the head of a list of invalidated registrations that belongs to this value.
pub(crate) struct Kept {
    head: Atomic<*mut Mr>,
    /// About as many as they are.
    count: Atomic<u32>,
}

impl Kept {
    /// None.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Null.
        Self {
            head: Atomic::new(null_mut()),
            count: Atomic::new(0),
        }
    }

    /// Puts `mrs` there; what was there before goes back to its pool.
    #[inline]
    pub(crate) fn put(&self, mrs: MrList<Invalidated>) {
        self.count.store(mrs.count(), Relaxed);
        // INVARIANT: The head of an invalidated list, which is consumed.
        let old = self.head.xchg(mrs.into_head().as_ptr(), Full);
        drop(Self::list(old));
    }

    /// Takes what is there.
    #[inline]
    pub(crate) fn take(&self) -> Option<MrList<Invalidated>> {
        if self.head.load(Relaxed).is_null() {
            return None;
        }
        self.count.store(0, Relaxed);
        Self::list(self.head.xchg(null_mut(), Full))
    }

    /// The number of registrations that are there.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// The list that was in such a place.
    #[inline]
    fn list(head: *mut Mr) -> Option<MrList<Invalidated>> {
        // INVARIANT: By the type invariants the head of such a list, which was taken out.
        NonNull::new(head).map(|head| MrList {
            head,
            _state: PhantomData,
        })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The source of the registrations for a call: first those that an earlier call has left, then
/// the pool.
///
/// # Invariants
///
/// `kept` is null, or the first of a chain of registrations of `pool` that belong to this value and
/// are neither posted nor mapped.
pub(crate) struct Supply<'p> {
    kept: *mut Mr,
    /// The reference to the pool that the list of those had.
    reference: Option<Arc<MrPool>>,
    pool: &'p Arc<MrPool>,
}

impl<'p> Supply<'p> {
    /// Takes registrations from `kept`, if that is of `pool`, and then from `pool`.
    #[inline]
    pub(crate) fn new(pool: &'p Arc<MrPool>, kept: Option<MrList<Invalidated>>) -> Self {
        let mut head = kept.filter(|kept| kept.is_of(pool)).map(MrList::into_head);
        let reference = match &mut head {
            // SAFETY: The list owned its registrations, and we took them over.
            Some(head) => unsafe { head.as_mut() }.pool.take(),
            None => None,
        };

        // INVARIANT: The list is gone, and its registrations were invalid and not mapped.
        Self {
            kept: head.map_or(null_mut(), NonNull::as_ptr),
            reference,
            pool,
        }
    }

    /// A registration that is not in use; the caller owns it.
    #[inline]
    fn take(&mut self) -> Option<NonNull<Mr>> {
        let Some(mr) = NonNull::new(self.kept) else {
            return self.pool.take();
        };
        // SAFETY: By the type invariants.
        self.kept = unsafe { mr.as_ref() }.next;
        Some(mr)
    }

    /// A reference to the pool.
    #[inline]
    fn reference(&mut self) -> Arc<MrPool> {
        match self.reference.take() {
            Some(reference) => reference,
            None => self.pool.clone(),
        }
    }
}

impl Drop for Supply<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.kept.is_null() {
            self.pool.reclaim(self.kept);
        }
    }
}

impl MrList<Mapped> {
    /// Registers `memory`, one registration after the other, adds them to `list` and tells `segment`
    /// the handle, length in bytes and offset of each.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` when there are no registrations for now, `EIO` when memory cannot be mapped, and
    /// what `segment` returns. What was added to the list until then stays there.
    #[inline]
    pub(crate) fn register(
        list: &mut Option<Self>,
        supply: &mut Supply<'_>,
        mut memory: impl Runs,
        access: Access,
        mut segment: impl FnMut(u32, u32, u64) -> Result,
    ) -> Result {
        while memory.offset().is_some() {
            let mut mr = supply.take().ok_or(ENOBUFS)?;
            // SAFETY: Taken from the supply, so that it is ours alone.
            let inner = unsafe { mr.as_mut() };
            let (extent, _) = inner.cover(&mut memory);
            let bytes = inner
                .map(supply.pool.device(), &extent, access)
                .inspect_err(|_| supply.pool.give_back(mr))?;
            let (handle, offset) = Self::push(list, supply, mr);
            segment(handle, bytes, offset)?;
        }
        Ok(())
    }

    /// Registers a head of `ends.0` bytes, `pages`, and a tail of `ends.1` bytes as one, if there
    /// is no gap between them: the pages begin and, before a tail, end at the border of a page.
    /// Returns whether that could be done.
    ///
    /// With a single handle the peer can invalidate all of it with its reply, where several would
    /// have to be invalidated locally. Head and tail are in memory of the registration, which
    /// `prepare` gets before it is mapped.
    ///
    /// # Errors
    ///
    /// As [`Self::register`].
    pub(crate) fn register_joined(
        list: &mut Option<Self>,
        supply: &mut Supply<'_>,
        ends: (usize, usize),
        pages: impl Runs,
        access: Access,
        prepare: impl FnOnce(&mut [u8], &mut [u8]),
        segment: impl FnOnce(u32, u32, u64) -> Result,
    ) -> Result<bool> {
        let mut mr = supply.take().ok_or(ENOBUFS)?;
        // SAFETY: Taken from the supply, so that it is ours alone.
        let inner = unsafe { mr.as_mut() };

        let Some(extent) = inner.join(ends, pages, prepare) else {
            supply.pool.give_back(mr);
            return Ok(false);
        };
        let bytes = inner
            .map(supply.pool.device(), &extent, access)
            .inspect_err(|_| supply.pool.give_back(mr))?;
        let (handle, offset) = Self::push(list, supply, mr);
        segment(handle, bytes, offset)?;
        Ok(true)
    }

    /// Adds a mapped registration of `supply` to `list`; returns its handle and offset.
    #[inline]
    fn push(list: &mut Option<Self>, supply: &mut Supply<'_>, mut mr: NonNull<Mr>) -> (u32, u64) {
        // SAFETY: The caller owns the registration.
        let inner = unsafe { mr.as_mut() };

        // In front of the others: their order is of no interest.
        match list.take().map(Self::into_head) {
            Some(mut next) => {
                inner.next = next.as_ptr();
                // SAFETY: The head of the list until now.
                inner.pool = unsafe { next.as_mut() }.pool.take();
            }
            None => {
                inner.next = null_mut();
                inner.pool = Some(supply.reference());
            }
        }
        // INVARIANT: The registration is from the pool, and the first of the chain.
        *list = Some(Self {
            head: mr,
            _state: PhantomData,
        });
        // SAFETY: The registration is valid.
        (inner.handle(), unsafe { inner.raw.as_ref() }.iova)
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
            // SAFETY: The list owns its registrations, of which this is the next one.
            inner.reg.wr.next = unsafe { &raw mut (*next.as_ptr()).reg.wr };
            at = next;
        }
        // SAFETY: The list owns its registrations, of which this is the first one.
        unsafe { &raw mut (*self.head.as_ptr()).reg.wr }
    }

    /// The requests made by `chain` were handed to the device.
    #[inline]
    pub(crate) fn posted(self) -> MrList<Registered> {
        // INVARIANT: As before.
        MrList {
            head: self.into_head(),
            _state: PhantomData,
        }
    }
}

impl MrList<Registered> {
    /// The peer has invalidated `handle`: takes that registration out, if it is one of the list's.
    /// Returns it and what is left, or the list as it was.
    #[inline]
    pub(crate) fn remotely_invalidated(
        self,
        handle: u32,
    ) -> Result<(MrList<Invalidated>, Option<Self>), Self> {
        // SAFETY: By the type invariants.
        let head = unsafe { self.head.as_ref() };

        // Nearly always there is one.
        if head.next.is_null() && head.handle() == handle {
            return Ok((self.into_invalidated(), None));
        }
        self.take_out(handle)
    }

    fn take_out(mut self, handle: u32) -> Result<(MrList<Invalidated>, Option<Self>), Self> {
        let mut head = self.head;
        let mut before: Option<NonNull<Mr>> = None;
        let mut mr = head;

        // SAFETY: The list owns its registrations.
        while unsafe { mr.as_ref() }.handle() != handle {
            before = Some(mr);
            // SAFETY: The list owns its registrations.
            match NonNull::new(unsafe { mr.as_ref() }.next) {
                Some(next) => mr = next,
                None => return Err(self),
            }
        }
        // SAFETY: The list owns its registrations.
        let inner = unsafe { mr.as_mut() };
        match (before, NonNull::new(inner.next)) {
            (Some(mut before), _) => {
                // SAFETY: The list owns its registrations.
                unsafe { before.as_mut() }.next = inner.next;
                // SAFETY: The list owns its registrations; the head keeps its reference.
                inner.pool = unsafe { head.as_mut() }.pool.clone();
            }
            (None, Some(mut next)) => {
                // SAFETY: The list owns its registrations.
                unsafe { next.as_mut() }.pool = inner.pool.clone();
                // INVARIANT: The second is the first now, and has a reference.
                self.head = next;
            }
            (None, None) => return Ok((self.into_invalidated(), None)),
        }
        inner.next = null_mut();
        // INVARIANT: Taken out of the list, and the only one of its chain, with a reference.
        let taken = Self {
            head: mr,
            _state: PhantomData,
        };
        Ok((taken.into_invalidated(), Some(self)))
    }

    /// The registrations are invalid: unmaps them.
    #[inline]
    fn into_invalidated(self) -> MrList<Invalidated> {
        let head = self.into_head();

        // SAFETY: The list owned its registrations, and we took them over.
        if let Some(pool) = unsafe { &head.as_ref().pool } {
            let device = pool.device();
            let mut at = Some(head);
            while let Some(mut mr) = at {
                // SAFETY: The registrations were taken over from the list.
                let inner = unsafe { mr.as_mut() };
                inner.unmap(device);
                at = NonNull::new(inner.next);
            }
        }
        // INVARIANT: As before.
        MrList {
            head,
            _state: PhantomData,
        }
    }

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

/// The context of an invalidation in progress; kept in the last registration of its chain.
pub(super) struct Invalidation {
    context: usize,
    head: NonNull<Mr>,
    /// The reference that the list had.
    pool: Option<Arc<MrPool>>,
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
    // INVARIANT: The chain with the reference that it had as a list.
    let mrs = MrList::<Registered> {
        head,
        _state: PhantomData,
    };
    Some((
        invalidation.context,
        result.map(|()| mrs.into_invalidated()),
    ))
}

impl MrList<Invalidated> {
    /// Registers `memory` with the registration of this list. Returns the new list, and handle,
    /// length in bytes and offset of its segment; or this list, if it is not of `pool`, has more
    /// registrations than one or not enough for `memory`, or if memory cannot be mapped.
    ///
    /// # Errors
    ///
    /// This list.
    #[inline(always)]
    pub(crate) fn reuse(
        self,
        pool: &Arc<MrPool>,
        mut memory: impl Runs,
        access: Access,
    ) -> Result<(MrList<Mapped>, u32, u32, u64), Self> {
        let (is_of, mut head) = (self.is_of(pool), self.head);
        // SAFETY: The list owns its registrations.
        let inner = unsafe { head.as_mut() };
        if !is_of || !inner.next.is_null() {
            return Err(self);
        }
        let (extent, is_all) = inner.cover(&mut memory);
        if !is_all {
            return Err(self);
        }
        let Ok(bytes) = inner.map(pool.device(), &extent, access) else {
            return Err(self);
        };
        // INVARIANT: As before.
        let list = MrList {
            head: self.into_head(),
            _state: PhantomData,
        };
        // SAFETY: The registration is valid.
        let offset = unsafe { inner.raw.as_ref() }.iova;
        Ok((list, inner.handle(), bytes, offset))
    }

    /// The bytes that the peer has written to the head and the tail of a joined registration, if
    /// there is one ([`MrList::register_joined`]).
    #[inline]
    pub(crate) fn written(&self) -> Option<(&[u8], &[u8])> {
        let mut at = Some(self.head);

        while let Some(mr) = at {
            // SAFETY: By the type invariants, as long as the list is borrowed.
            let inner: &Mr = unsafe { &*mr.as_ptr() };
            if inner.ends != (0, 0) && inner.access == Access::RemoteWrite {
                return inner.margins();
            }
            at = NonNull::new(inner.next);
        }
        None
    }
}
