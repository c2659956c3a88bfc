// SPDX-License-Identifier: GPL-2.0

//! The spinlocks inside sunrpc's objects.

use core::marker::PhantomData;

use crate::bindings;

/// A spinlock of an object of sunrpc, held while this lives.
///
/// `SpinLock::from_raw` of the kernel crate would do as well, but its calls are not inlined, and
/// each call that is sent and each reply takes such a lock.
///
/// # Invariants
///
/// The running task has taken the lock, which stays during `'a`. Not `Send`: it is released where
/// it was taken.
pub(crate) struct SpinGuard<'a> {
    lock: *mut bindings::spinlock_t,
    _object: PhantomData<&'a *mut ()>,
}

impl SpinGuard<'_> {
    /// Takes `lock`.
    ///
    /// # Safety
    ///
    /// `lock` must be initialised, and stay during `'a`.
    #[inline]
    pub(super) unsafe fn take(lock: *mut bindings::spinlock_t) -> Self {
        // SAFETY: By the safety requirements of this function the lock is initialised.
        unsafe { bindings::spin_lock(lock) };
        // INVARIANT: Taken above. By the safety requirements of this function the lock stays.
        Self {
            lock,
            _object: PhantomData,
        }
    }
}

impl Drop for SpinGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants the lock is held, and only this value releases it.
        unsafe { bindings::spin_unlock(self.lock) };
    }
}

/// A proof that code runs inside ([`Inside`]) or outside ([`Outside`]) a section of a spinlock.
///
/// # Safety
///
/// [`Self::enter`] may return `None` only if a section lasts as long as the value.
pub(crate) unsafe trait Section {
    /// Enters a section of `lock`, unless the code is in it.
    ///
    /// # Safety
    ///
    /// `lock` must be initialised, and stay during `'a`. If this is [`Inside`] of a section, that
    /// must be one of `lock`.
    unsafe fn enter<'a>(&self, lock: *mut bindings::spinlock_t) -> Option<SpinGuard<'a>>;
}

/// The lock is not held.
pub(crate) struct Outside;

// SAFETY: It always enters.
unsafe impl Section for Outside {
    #[inline]
    unsafe fn enter<'a>(&self, lock: *mut bindings::spinlock_t) -> Option<SpinGuard<'a>> {
        // SAFETY: By the safety requirements of this function the lock is initialised, and stays
        // during `'a`.
        Some(unsafe { SpinGuard::take(lock) })
    }
}

/// The lock is held as long as this lives.
pub(crate) struct Inside<'a> {
    _lock: SpinGuard<'a>,
}

impl<'a> Inside<'a> {
    /// The section of `lock`.
    #[inline]
    pub(super) fn new(lock: SpinGuard<'a>) -> Self {
        Self { _lock: lock }
    }
}

// SAFETY: It has the guard of a section.
unsafe impl Section for Inside<'_> {
    #[inline]
    unsafe fn enter<'a>(&self, _lock: *mut bindings::spinlock_t) -> Option<SpinGuard<'a>> {
        None
    }
}
