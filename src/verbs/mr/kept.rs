// SPDX-License-Identifier: GPL-2.0

//! Registrations that calls leave for those after them.

use core::ptr::{
    null_mut,
    NonNull, //
};

use kernel::sync::{
    atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
    Arc, //
};

use super::{
    list::{
        Invalidated,
        MrList, //
    },
    pool::MrPool,
    registration::Mr, //
};

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
        // SAFETY: What is in such a place is the head of an invalidated list, and `head` was taken
        // out.
        NonNull::new(head).map(|head| unsafe { MrList::new(head) })
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
    pub(super) pool: &'p Arc<MrPool>,
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
    pub(super) fn take(&mut self) -> Option<NonNull<Mr>> {
        let Some(mr) = NonNull::new(self.kept) else {
            return self.pool.take();
        };
        // SAFETY: The registration is valid, for the supply owns it.
        self.kept = unsafe { mr.as_ref() }.next;
        Some(mr)
    }

    /// A reference to the pool.
    #[inline]
    pub(super) fn reference(&mut self) -> Arc<MrPool> {
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
