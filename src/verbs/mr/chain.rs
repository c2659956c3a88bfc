// SPDX-License-Identifier: GPL-2.0

//! An owning intrusive singly linked list, of registrations for example.

use core::{
    iter::from_fn,
    marker::PhantomData,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

use kernel::prelude::*;

/// An item that can lead to another.
///
/// # Safety
///
/// [`Self::next`] must be null at first, and then return the pointer that was set last.
pub(crate) unsafe trait Linked: Sized {
    /// The next item, or null.
    fn next(&self) -> *mut Self;

    /// Makes `next` the next item.
    ///
    /// # Safety
    ///
    /// For the chain that the item is part of: `next` must be null, or a valid item that belongs to
    /// that chain.
    unsafe fn set_next(&mut self, next: *mut Self);
}

/// State of registrations that are mapped and not posted.
pub(crate) struct Mapped;

/// State of registrations that the peer may use.
pub(crate) struct Registered;

/// State of registrations that only the owner can reach: neither valid nor mapped.
pub(crate) struct Invalidated;

/// A state without a posted request that refers to the registrations.
pub(crate) trait Unposted {}

impl Unposted for Mapped {}
impl Unposted for Invalidated {}

/// Items, such as registrations, in the same state: at least one. A single pointer.
///
/// Dropping it leaks them: the owner knows the pool to return them to.
///
/// # Invariants
///
/// `head` is the first of a chain of items in the state `S`, each from a box, that belong to this
/// value.
pub(crate) struct Chain<T: Linked, S> {
    head: NonNull<T>,
    _state: PhantomData<S>,
}

// SAFETY: The chain owns its items, which are `Send`.
unsafe impl<T: Linked + Send, S> Send for Chain<T, S> {}

impl<T: Linked, S> Chain<T, S> {
    /// The chain whose first item is `head`.
    ///
    /// # Safety
    ///
    /// `head` must be the first of a chain of items in the state `S`, each from a box, which
    /// nothing else owns.
    #[inline]
    pub(super) unsafe fn from_raw(head: NonNull<T>) -> Self {
        // INVARIANT: By the safety requirements of this function the chain is in the state `S`, and
        // belongs to this value.
        Self {
            head,
            _state: PhantomData,
        }
    }

    /// Forgets the value, but not its items. Returns the first one.
    #[inline]
    pub(super) fn into_raw(self) -> NonNull<T> {
        self.head
    }

    /// The same items in another state.
    ///
    /// # Safety
    ///
    /// They must be in the state `U`.
    #[inline]
    pub(super) unsafe fn assume<U>(self) -> Chain<T, U> {
        // INVARIANT: By the safety requirements of this function the items are in the state `U`.
        Chain {
            head: self.head,
            _state: PhantomData,
        }
    }

    /// The first item.
    #[inline]
    pub(super) fn head(&self) -> &T {
        // SAFETY: By the type invariants the item is valid, and borrowed with this value.
        unsafe { self.head.as_ref() }
    }

    /// The first item, to change it.
    #[inline]
    pub(super) fn head_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariants the item is valid, and belongs to this value, which is
        // borrowed exclusively.
        unsafe { self.head.as_mut() }
    }

    /// Returns `true` if the chain has one item only.
    #[inline]
    pub(super) fn is_single(&self) -> bool {
        self.head().next().is_null()
    }

    /// The items.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut at = Some(self.head);

        from_fn(move || {
            // SAFETY: By the type invariants the items are valid, and borrowed with this value.
            let item: &T = unsafe { &*at?.as_ptr() };
            at = NonNull::new(item.next());
            Some(item)
        })
    }

    /// The items, to change them.
    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let mut at = Some(self.head);

        from_fn(move || {
            // SAFETY: By the type invariants the items are valid, and belong to this value, which
            // is borrowed exclusively; each of them is returned once.
            let item: &mut T = unsafe { &mut *at?.as_ptr() };
            at = NonNull::new(item.next());
            Some(item)
        })
    }

    /// This chain, and `rest` behind it.
    pub(super) fn followed_by(mut self, rest: Option<Self>) -> Self {
        if let Some(last) = self.iter_mut().last() {
            // INVARIANT: The items of `rest` are in the same state, and belong to this value now.
            // SAFETY: By the type invariants of `rest` they are valid.
            unsafe { last.set_next(rest.map_or(null_mut(), |rest| rest.head.as_ptr())) };
        }
        self
    }

    /// Takes out the first item that `is_it` holds for. Returns it and the others, or the chain as
    /// it was.
    pub(super) fn take_out(
        mut self,
        is_it: impl Fn(&T) -> bool,
    ) -> Result<(Self, Option<Self>), Self> {
        let head = self.head_mut();
        if is_it(head) {
            let rest = NonNull::new(head.next());
            // SAFETY: Null ends the chain.
            unsafe { head.set_next(null_mut()) };
            // SAFETY: The others were behind the first one, which leads to none of them now.
            return Ok((self, rest.map(|rest| unsafe { Self::from_raw(rest) })));
        }
        let mut before = self.head;
        // SAFETY: By the type invariants the items of the chain are valid.
        while let Some(mut at) = NonNull::new(unsafe { before.as_ref() }.next()) {
            // SAFETY: By the type invariants the item is valid, and belongs to this value.
            let item = unsafe { at.as_mut() };
            if is_it(item) {
                // SAFETY: By the type invariants the items are valid, and belong to this value;
                // `before` and `item` are different items. Null ends the other chain.
                unsafe {
                    before.as_mut().set_next(item.next());
                    item.set_next(null_mut());
                }
                // SAFETY: The item was taken out of the chain, no longer leads to any of it, and is
                // in the same state.
                return Ok((unsafe { Self::from_raw(at) }, Some(self)));
            }
            before = at;
        }
        Err(self)
    }
}

impl<T: Linked> Chain<T, Mapped> {
    /// Adds an item in front of `chain`.
    #[inline]
    pub(super) fn push(chain: Option<Self>, item: KBox<T>) -> Self {
        let item = KBox::leak(item);

        // SAFETY: The items of `chain` are valid, and belong to the new chain from here on.
        unsafe { item.set_next(chain.map_or(null_mut(), |chain| chain.head.as_ptr())) };
        // INVARIANT: The box was the owner of the item, which was not posted, and leads to the
        // items of `chain`.
        Self {
            head: NonNull::from(item),
            _state: PhantomData,
        }
    }
}

impl<T: Linked, S: Unposted> Chain<T, S> {
    /// Takes the first item out of `chain`.
    #[inline]
    pub(super) fn pop(chain: &mut Option<Self>) -> Option<KBox<T>> {
        let head = chain.take()?.head;
        // SAFETY: By the type invariants the item is from a box, and belonged to the chain; in the
        // state `S` no posted request refers to it.
        let item = unsafe { KBox::from_raw(head.as_ptr()) };

        // SAFETY: By the type invariants the others were behind it, in the same state, and belonged
        // to the chain.
        *chain = NonNull::new(item.next()).map(|next| unsafe { Self::from_raw(next) });
        Some(item)
    }

    /// Destroys all items. Process context.
    pub(super) fn destroy(self) {
        let mut chain = Some(self);

        while let Some(item) = Self::pop(&mut chain) {
            drop(item);
        }
    }
}
