// SPDX-License-Identifier: GPL-2.0

//! An atomic pointer. The host tests explore what is built upon it.

use core::{
    marker::PhantomData,
    ptr::with_exposed_provenance_mut, //
};

use kernel::sync::atomic::{
    ordering::{
        AcquireOrRelaxed,
        Ordering, //
    },
    Atomic, //
};

/// A pointer in an atomic word, null at first.
pub(crate) struct AtomicPtr<T>(Atomic<usize>, PhantomData<fn(*mut T) -> *mut T>);

impl<T> AtomicPtr<T> {
    /// A null pointer.
    pub(crate) const fn null() -> Self {
        Self(Atomic::new(0), PhantomData)
    }

    /// Reads the pointer.
    #[inline(always)]
    #[cfg_attr(test, track_caller)]
    pub(crate) fn load<O: AcquireOrRelaxed>(&self, order: O) -> *mut T {
        with_exposed_provenance_mut(self.0.load(order))
    }

    /// Replaces the pointer, and returns the previous one.
    #[inline(always)]
    #[cfg_attr(test, track_caller)]
    pub(crate) fn xchg<O: Ordering>(&self, new: *mut T, order: O) -> *mut T {
        with_exposed_provenance_mut(self.0.xchg(new.expose_provenance(), order))
    }

    /// Replaces the pointer if it is `old`.
    ///
    /// # Errors
    ///
    /// The pointer that is there instead.
    #[inline(always)]
    #[cfg_attr(test, track_caller)]
    pub(crate) fn cmpxchg<O: Ordering>(
        &self,
        old: *mut T,
        new: *mut T,
        order: O,
    ) -> Result<(), *mut T> {
        match self.0.cmpxchg(old.addr(), new.expose_provenance(), order) {
            Ok(_) => Ok(()),
            Err(found) => Err(with_exposed_provenance_mut(found)),
        }
    }
}
