// SPDX-License-Identifier: GPL-2.0

//! Values that belong to the holder of a transport's write lock.
//!
//! C source: [`net/sunrpc/xprt.c`](srctree/net/sunrpc/xprt.c)

use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    net::SocketAddr,
    ptr::NonNull, //
};

use super::Xprt;
use crate::{
    bindings,
    sunrpc::address::socket_address, //
};

/// Proof that the running code has the write lock of a transport (`XPRT_LOCKED`), which sunrpc
/// gives to one task at a time: to send, to connect, or to close.
///
/// # Invariants
///
/// `xprt` is valid and its write lock held during `'a`, and no other value for it exists.
pub(crate) struct WriteLock<'a> {
    xprt: NonNull<bindings::rpc_xprt>,
    _held: PhantomData<&'a mut ()>,
}

impl WriteLock<'_> {
    /// Assumes that the caller holds the lock.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    #[inline]
    pub(super) unsafe fn assume(xprt: NonNull<bindings::rpc_xprt>) -> Self {
        // INVARIANT: The safety requirements of this function are the invariants.
        Self {
            xprt,
            _held: PhantomData,
        }
    }

    /// Notifies sunrpc that the connection is lost.
    pub(crate) fn disconnected(&mut self) {
        let xprt = self.xprt.as_ptr();

        // SAFETY: By the type invariants the object is valid and the write lock held; the field
        // changes only under it.
        unsafe {
            (*xprt).connect_cookie = (*xprt).connect_cookie.wrapping_add(1);
            bindings::xprt_disconnect_done(xprt);
        }
    }

    /// The pause before the next attempt to connect, in jiffies; makes the pause after that longer.
    pub(crate) fn next_backoff(&mut self, first: usize) -> usize {
        let xprt = self.xprt.as_ptr();

        // SAFETY: By the type invariants the object is valid and the write lock held; its fields
        // change only under it, except for the field that `Xprt::reset_backoff` clears.
        unsafe {
            let delay = bindings::xprt_reconnect_delay(xprt);
            bindings::xprt_reconnect_backoff(xprt, first);
            delay
        }
    }

    /// The server's address as it is now.
    pub(crate) fn address(&self) -> bindings::__kernel_sockaddr_storage {
        // The host changes only under the write lock. The port is stored by rpcbind, while the
        // transport is not bound, and it is bound when it connects; if another task binds it again
        // during this read, either port may be read.
        // SAFETY: By the type invariants the object is valid, and any bits are an address.
        unsafe { (&raw const (*self.xprt.as_ptr()).addr).read_volatile() }
    }

    /// The server's address and port as they are now; `None` for a family that is not of IP.
    pub(crate) fn server(&self) -> Option<SocketAddr> {
        let address = self.address();

        // SAFETY: The storage has room for any address.
        unsafe { socket_address((&raw const address).cast()) }
    }
}

/// A value that only the holder of one transport's write lock can reach.
pub(crate) struct WriteLocked<V> {
    xprt: NonNull<bindings::rpc_xprt>,
    value: UnsafeCell<V>,
}

// SAFETY: `xprt` is only compared; the value moves from thread to thread, one at a time.
unsafe impl<V: Send> Send for WriteLocked<V> {}
// SAFETY: A `WriteLock` of the right transport is needed to access the value, and only one exists
// at a time.
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

    /// Puts another value in its place and returns the old one; gives `value` back if the lock
    /// belongs to another transport.
    pub(crate) fn replace(&self, lock: &mut WriteLock<'_>, value: V) -> V {
        if self.xprt != lock.xprt {
            return value;
        }
        // SAFETY: The only `WriteLock` for the value is borrowed mutably, so that nothing refers to
        // it.
        core::mem::replace(unsafe { &mut *self.value.get() }, value)
    }
}
