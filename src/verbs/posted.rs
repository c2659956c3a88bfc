// SPDX-License-Identifier: GPL-2.0

//! Lists of memory that may be posted.
//!
//! Memory that is posted belongs to the device, and a completion gives it back. A device that
//! cannot move a queue pair to the error state brings no completions: such a list finds the memory
//! then. It changes when the memory is allocated and freed, not when it is posted.

use core::ptr::{
    null_mut,
    NonNull, //
};

use kernel::{
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

/// The place of a piece of memory in the list.
pub(super) struct Links {
    prev: *mut Links,
    next: *mut Links,
    is_posted: Atomic<bool>,
}

/// A member of the list, inside the memory that may be posted.
#[repr(transparent)]
pub(super) struct Member(Opaque<Links>);

impl Member {
    /// Memory that is in no list, and not posted.
    pub(super) const fn new() -> Self {
        Self(Opaque::new(Links {
            prev: null_mut(),
            next: null_mut(),
            is_posted: Atomic::new(false),
        }))
    }

    /// Notes whether the device has the memory.
    #[inline(always)]
    pub(super) fn set_posted(&self, is_posted: bool) {
        // SAFETY: The links are initialised, and this field is atomic.
        let links = unsafe { &(*self.0.get()).is_posted };
        // Relaxed: it is read when the device can post no completion, after it was written.
        links.store(is_posted, Relaxed);
    }

    fn as_ptr(&self) -> *mut Links {
        self.0.get()
    }
}

/// Pieces of memory of one kind.
///
/// # Invariants
///
/// `first` is null, or the first of a list, linked both ways, of members that were added and not
/// removed. Their `prev` and `next` change under the lock that this value is in.
pub(super) struct PostedList {
    first: *mut Links,
}

// SAFETY: The members are memory without thread affinity.
unsafe impl Send for PostedList {}

impl PostedList {
    /// An empty list.
    pub(super) const fn new() -> Self {
        // INVARIANT: The list is empty.
        Self { first: null_mut() }
    }

    /// Adds a member.
    ///
    /// # Safety
    ///
    /// It must not be in a list, and stay where it is until it is removed from this one.
    pub(super) unsafe fn add(&mut self, member: &Member) {
        let links = member.as_ptr();

        // SAFETY: By the safety requirements of this function `links` is in no list; by the type
        // invariants `first` is null or valid. The caller has the lock.
        unsafe {
            (*links).prev = null_mut();
            (*links).next = self.first;
            if let Some(first) = self.first.as_mut() {
                first.prev = links;
            }
        }
        // INVARIANT: The new member is linked to the previous first one, and back.
        self.first = links;
    }

    /// Removes a member.
    ///
    /// # Safety
    ///
    /// It must be in this list.
    pub(super) unsafe fn remove(&mut self, member: &Member) {
        let links = member.as_ptr();

        // SAFETY: By the safety requirements of this function `links` is in the list, whose members
        // are valid by the type invariants. The caller has the lock.
        unsafe {
            let (prev, next) = ((*links).prev, (*links).next);
            if let Some(next) = next.as_mut() {
                next.prev = prev;
            }
            match prev.as_mut() {
                Some(prev) => prev.next = next,
                // INVARIANT: It was the first: the list begins behind it now.
                None => self.first = next,
            }
        }
    }

    /// A member that is posted, if any is.
    pub(super) fn posted(&self) -> Option<NonNull<Member>> {
        let mut at = NonNull::new(self.first);

        while let Some(links) = at {
            // SAFETY: By the type invariants the members are valid. The caller has the lock.
            let (next, is_posted) = unsafe {
                let links = links.as_ptr();
                ((*links).next, (*links).is_posted.load(Relaxed))
            };
            if is_posted {
                break;
            }
            at = NonNull::new(next);
        }
        // A member is nothing but its links.
        at.map(NonNull::cast)
    }
}
