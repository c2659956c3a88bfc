// SPDX-License-Identifier: GPL-2.0

//! Registrations in a row, each of which leads to the next.

use core::{
    iter::from_fn,
    marker::PhantomData,
    mem::replace,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

use kernel::prelude::*;

use super::{
    pool::MrPool,
    registration::Mr, //
};

/// State of registrations that are mapped and not posted.
pub(crate) struct Mapped;

/// State of registrations that the peer may use.
pub(crate) struct Registered;

/// State of registrations that only the owner can reach any more: neither valid nor mapped.
pub(crate) struct Invalidated;

/// The state that all registrations of a chain have in common.
pub(crate) trait MrState: Sized {
    /// Gives registrations in this state back to their pool.
    fn give_back(chain: Chain<Self>, pool: &MrPool);
}

impl MrState for Mapped {
    fn give_back(chain: Chain<Self>, pool: &MrPool) {
        pool.reclaim(chain);
    }
}

impl MrState for Registered {
    fn give_back(chain: Chain<Self>, pool: &MrPool) {
        pool.orphan(chain);
    }
}

impl MrState for Invalidated {
    fn give_back(chain: Chain<Self>, pool: &MrPool) {
        pool.reclaim(chain);
    }
}

/// A state in which no posted request refers to the registrations.
pub(crate) trait Unposted: MrState {}

impl Unposted for Mapped {}
impl Unposted for Invalidated {}

/// Registrations in the same state: at least one. A single pointer.
///
/// Dropping it leaks them: the owner knows the pool that they go back to.
///
/// # Invariants
///
/// `head` is the first of a chain of registrations in the state `S`, each from a box, that belong
/// to this value.
pub(crate) struct Chain<S: MrState> {
    head: NonNull<Mr>,
    _state: PhantomData<S>,
}

// SAFETY: The chain owns its registrations, which have no thread affinity.
unsafe impl<S: MrState> Send for Chain<S> {}

impl<S: MrState> Chain<S> {
    /// The chain whose first registration is `head`.
    ///
    /// # Safety
    ///
    /// `head` must be the first of a chain of registrations in the state `S`, each from a box,
    /// which nothing else owns.
    #[inline]
    pub(super) unsafe fn from_raw(head: NonNull<Mr>) -> Self {
        // INVARIANT: By the safety requirements of this function the chain is in the state `S`, and
        // belongs to this value.
        Self {
            head,
            _state: PhantomData,
        }
    }

    /// Forgets the value, but not its registrations. Returns the first one.
    #[inline]
    pub(super) fn into_raw(self) -> NonNull<Mr> {
        self.head
    }

    /// The same registrations in another state.
    ///
    /// # Safety
    ///
    /// They must be in the state `T`.
    #[inline]
    pub(super) unsafe fn assume<T: MrState>(self) -> Chain<T> {
        // INVARIANT: The state is that of the safety requirements of this function.
        Chain {
            head: self.head,
            _state: PhantomData,
        }
    }

    /// The first registration.
    #[inline]
    pub(super) fn head(&self) -> &Mr {
        // SAFETY: By the type invariants the registration is valid, and borrowed with this value.
        unsafe { self.head.as_ref() }
    }

    /// The first registration, to change it.
    #[inline]
    pub(super) fn head_mut(&mut self) -> &mut Mr {
        // SAFETY: By the type invariants the registration is valid, and belongs to this value,
        // which is borrowed exclusively.
        unsafe { self.head.as_mut() }
    }

    /// Tells whether there is one registration only.
    #[inline]
    pub(super) fn is_single(&self) -> bool {
        self.head().next.is_null()
    }

    /// The registrations.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Mr> {
        let mut at = Some(self.head);

        from_fn(move || {
            // SAFETY: By the type invariants the registrations are valid, and borrowed with this
            // value.
            let mr: &Mr = unsafe { &*at?.as_ptr() };
            at = NonNull::new(mr.next);
            Some(mr)
        })
    }

    /// The registrations, to change them.
    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Mr> {
        let mut at = Some(self.head);

        from_fn(move || {
            // SAFETY: By the type invariants the registrations are valid, and belong to this value,
            // which is borrowed exclusively; each of them is returned once.
            let mr: &mut Mr = unsafe { &mut *at?.as_ptr() };
            at = NonNull::new(mr.next);
            Some(mr)
        })
    }

    /// Adds a registration, which must be in this state, in front of `chain`.
    #[inline]
    pub(super) fn push(chain: Option<Self>, mr: KBox<Mr>) -> Self {
        let mr = KBox::leak(mr);

        mr.next = chain.map_or(null_mut(), |chain| chain.head.as_ptr());
        // INVARIANT: The box was the owner of the registration, which leads to those of `chain`.
        Self {
            head: NonNull::from(mr),
            _state: PhantomData,
        }
    }

    /// This chain, and `rest` behind it.
    pub(super) fn followed_by(mut self, rest: Option<Self>) -> Self {
        if let Some(last) = self.iter_mut().last() {
            // INVARIANT: The registrations of `rest` are in the same state, and belong to this
            // value now.
            last.next = rest.map_or(null_mut(), |rest| rest.head.as_ptr());
        }
        self
    }

    /// Takes out the first registration that `is_it` holds for. Returns it and the others, or the
    /// chain as it was.
    pub(super) fn take_out(
        mut self,
        is_it: impl Fn(&Mr) -> bool,
    ) -> Result<(Self, Option<Self>), Self> {
        let head = self.head_mut();
        if is_it(head) {
            let rest = NonNull::new(replace(&mut head.next, null_mut()));
            // SAFETY: The others were behind the first one, which leads to none of them any more.
            return Ok((self, rest.map(|rest| unsafe { Self::from_raw(rest) })));
        }
        let mut before = self.head;
        // SAFETY: By the type invariants the registrations of the chain are valid.
        while let Some(mut at) = NonNull::new(unsafe { before.as_ref() }.next) {
            // SAFETY: By the type invariants the registration is valid, and belongs to this value.
            let mr = unsafe { at.as_mut() };
            if is_it(mr) {
                // SAFETY: By the type invariants the registration is valid, and belongs to this
                // value; it is another one than `mr`.
                unsafe { before.as_mut() }.next = replace(&mut mr.next, null_mut());
                // SAFETY: The registration was taken out of the chain, leads to none of it any
                // more, and is in the same state.
                return Ok((unsafe { Self::from_raw(at) }, Some(self)));
            }
            before = at;
        }
        Err(self)
    }
}

impl<S: Unposted> Chain<S> {
    /// Takes the first registration out of `chain`.
    #[inline]
    pub(super) fn pop(chain: &mut Option<Self>) -> Option<KBox<Mr>> {
        let head = chain.take()?.head;
        // SAFETY: By the type invariants the registration is from a box, and belonged to the chain;
        // in the state `S` no posted request refers to it.
        let mr = unsafe { KBox::from_raw(head.as_ptr()) };

        // SAFETY: By the type invariants the others were behind it, in the same state, and belonged
        // to the chain.
        *chain = NonNull::new(mr.next).map(|next| unsafe { Self::from_raw(next) });
        Some(mr)
    }

    /// Destroys all registrations. Process context.
    pub(super) fn destroy(self) {
        let mut chain = Some(self);

        while let Some(mr) = Self::pop(&mut chain) {
            drop(mr);
        }
    }
}
