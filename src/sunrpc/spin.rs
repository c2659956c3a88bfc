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
