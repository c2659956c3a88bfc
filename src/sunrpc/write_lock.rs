// SPDX-License-Identifier: GPL-2.0

//! Values that belong to the holder of a transport's write lock.

use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ptr::NonNull, //
};

use super::Xprt;
use crate::bindings;

/// Says that the running code has the write lock of a transport (`XPRT_LOCKED`), which sunrpc gives
/// to one task at a time: to send, to connect, or to close.
///
/// # Invariants
///
/// The write lock of `xprt` is held during `'a`, and there is no other value for it.
pub(crate) struct WriteLock<'a> {
    xprt: NonNull<bindings::rpc_xprt>,
    _held: PhantomData<&'a mut ()>,
}

impl WriteLock<'_> {
    /// Takes the caller's word for it.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    #[inline]
    pub(super) unsafe fn assume(xprt: NonNull<bindings::rpc_xprt>) -> Self {
        // INVARIANT: Promised by the caller.
        Self {
            xprt,
            _held: PhantomData,
        }
    }
}

/// A value that only the holder of one transport's write lock gets at.
pub(crate) struct WriteLocked<V> {
    xprt: NonNull<bindings::rpc_xprt>,
    value: UnsafeCell<V>,
}

// SAFETY: `xprt` is only compared; the value goes from thread to thread, one at a time.
unsafe impl<V: Send> Send for WriteLocked<V> {}
// SAFETY: A `WriteLock` of the right transport is needed to get at the value, and there is one at a
// time.
unsafe impl<V: Send> Sync for WriteLocked<V> {}

impl<V> WriteLocked<V> {
    /// Puts `value` under the write lock of `xprt`.
    pub(crate) fn new<S>(xprt: &Xprt<S>, value: V) -> Self {
        Self {
            xprt: xprt.as_non_null(),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, as long as the lock is held; `None` if it is the lock of another transport.
    #[inline]
    pub(crate) fn get<'l>(&'l self, lock: &'l mut WriteLock<'_>) -> Option<&'l mut V> {
        if self.xprt != lock.xprt {
            return None;
        }
        // SAFETY: The only `WriteLock` for the value is borrowed mutably, so that nothing else
        // refers to it.
        Some(unsafe { &mut *self.value.get() })
    }

    /// Puts another value in its place and returns the old one; gives `value` back if the lock is
    /// that of another transport.
    pub(crate) fn replace(&self, lock: &mut WriteLock<'_>, value: V) -> V {
        if self.xprt != lock.xprt {
            return value;
        }
        // SAFETY: The only `WriteLock` for the value is borrowed mutably, so that nothing refers to
        // it.
        core::mem::replace(unsafe { &mut *self.value.get() }, value)
    }
}
