// SPDX-License-Identifier: GPL-2.0

//! The registrations of one call.

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    kept::Supply,
    pool::MrPool,
    registration::{
        Access,
        Mr, //
    }, //
};
use crate::{
    bindings,
    os::Runs,
    verbs::InvalidatedHandle, //
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
            // SAFETY: The registrations of the chain are valid, for the list owns them.
            at = NonNull::new(unsafe { mr.as_ref() }.next);
        }
        count
    }

    /// Tells whether its registrations are from `pool`.
    #[inline]
    pub(crate) fn is_of(&self, pool: &Arc<MrPool>) -> bool {
        // SAFETY: The list owns its head, so that it is valid and nothing else changes it.
        let own = unsafe { &self.head.as_ref().pool };
        own.as_ref().is_some_and(|own| Arc::ptr_eq(own, pool))
    }

    /// The list whose first registration is `head`.
    ///
    /// # Safety
    ///
    /// `head` must be the first of a chain of registrations in the state `S`, which nothing else
    /// owns, and hold a reference to their pool.
    #[inline]
    pub(super) unsafe fn new(head: NonNull<Mr>) -> Self {
        // INVARIANT: Promised by the caller.
        Self {
            head,
            _state: PhantomData,
        }
    }

    /// Forgets the value, but not what it owns.
    #[inline]
    pub(super) fn into_head(self) -> NonNull<Mr> {
        ManuallyDrop::new(self).head
    }
}

impl<S: State> Drop for MrList<S> {
    fn drop(&mut self) {
        // SAFETY: The list owns its head, so that it is valid and nothing else uses it.
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

impl MrList<Mapped> {
    /// Registers `memory`, one registration after the other, adds them to `list` and tells
    /// `segment` the handle, length in bytes and offset of each.
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
    /// Takes out the registration whose handle the peer has invalidated on the connection of this
    /// list, if it is one of the list's. Returns it and the others, or the list as it was.
    #[inline]
    pub(crate) fn remotely_invalidated(
        self,
        handle: InvalidatedHandle<'_>,
    ) -> Result<(MrList<Invalidated>, Option<Self>), Self> {
        let handle = handle.get();
        // SAFETY: The list owns its head, so that it is valid and nothing else changes it.
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
    pub(super) fn into_invalidated(self) -> MrList<Invalidated> {
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
