// SPDX-License-Identifier: GPL-2.0

//! Registrations that messages leave for later ones.

use core::ptr::{
    null_mut,
    NonNull, //
};

use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};

use super::{
    chain::Invalidated,
    list::MrList,
    pool::{
        Mr,
        MrChain, //
    }, //
};
use crate::os::series::AtomicPtr;

/// A place for registrations that one message leaves for the next. Any task may put some there, or
/// take them.
///
/// # Invariants
///
/// `head` is null, or the first of a list of invalidated registrations that belongs to this value.
pub(crate) struct Kept {
    head: AtomicPtr<Mr>,
    /// Their number, which may be wrong for a moment.
    count: Atomic<u32>,
}

impl Kept {
    /// A place without registrations.
    pub(crate) const fn new() -> Self {
        // INVARIANT: `head` is null.
        Self {
            head: AtomicPtr::null(),
            count: Atomic::new(0),
        }
    }

    /// Keeps `mrs`; previously kept registrations return to their pool.
    #[inline(always)]
    pub(crate) fn put(&self, mrs: MrList<Invalidated>) {
        self.count.store(mrs.count(), Relaxed);
        let head = mrs.into_chain().into_raw();
        // INVARIANT: The head of an invalidated list, which is consumed.
        let old = self.head.xchg(head.as_ptr(), Full);
        drop(Self::list(old));
    }

    /// Takes the registrations that are there.
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

    /// The list that was taken out of such a place.
    #[inline]
    fn list(head: *mut Mr) -> Option<MrList<Invalidated>> {
        // SAFETY: By the type invariants it was the head of an invalidated list, which belonged to
        // the place; the exchange has left the caller as its only owner.
        NonNull::new(head).map(|head| MrList::new(unsafe { MrChain::from_raw(head) }))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.take());
    }
}
