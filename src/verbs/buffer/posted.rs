// SPDX-License-Identifier: GPL-2.0

//! The list of the Receive buffers of a protection domain.
//!
//! A Receive that is posted belongs to the device, and its completion gives it back. A device that
//! cannot move a queue pair to the error state brings no completions: this list finds the buffers
//! then. It changes when a buffer is allocated and freed, not when it is posted.

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

/// The place of a buffer in the list.
pub(super) struct Links {
    prev: *mut Links,
    next: *mut Links,
    is_posted: Atomic<bool>,
}

/// A member of the list, inside a buffer.
#[repr(transparent)]
pub(super) struct Member(Opaque<Links>);

impl Member {
    /// A buffer that is in no list, and not posted.
    pub(super) const fn new() -> Self {
        Self(Opaque::new(Links {
            prev: null_mut(),
            next: null_mut(),
            is_posted: Atomic::new(false),
        }))
    }

    /// Notes whether the device has the buffer.
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

/// All Receive buffers of a protection domain.
///
/// # Invariants
///
/// `first` is null, or the first of a list, linked both ways, of members that were added and not
/// removed. Their `prev` and `next` change under the lock that this value is in.
pub(in crate::verbs) struct RecvList {
    first: *mut Links,
}

// SAFETY: The members are memory without thread affinity.
unsafe impl Send for RecvList {}

impl RecvList {
    /// An empty list.
    pub(in crate::verbs) const fn new() -> Self {
        // INVARIANT: The list is empty.
        Self { first: null_mut() }
    }

    /// Adds a buffer's member.
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

    /// Removes a buffer's member.
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
    pub(super) fn posted(&self) -> Option<NonNull<Links>> {
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
        at
    }
}
