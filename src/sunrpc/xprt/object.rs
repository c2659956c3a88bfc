// SPDX-License-Identifier: GPL-2.0

//! The memory of transport objects.

use core::ptr::NonNull;

use kernel::{
    ffi::c_void,
    prelude::*, //
};

use super::names;
use crate::{
    bindings,
    os, //
};

/// The object that `xprt_alloc` allocates for us: sunrpc's object first, since its last act is to
/// free that address, and then the way to our own state. From set-up until `destroy` neither
/// pointer is null.
#[repr(C)]
pub(super) struct XprtAlloc {
    pub(super) xprt: bindings::rpc_xprt,
    /// An `Arc<T>`.
    pub(super) transport: *mut c_void,
    /// A handle, so that the object keeps its own memory.
    pub(super) handle: *mut c_void,
}

/// The memory of a transport object of sunrpc.
///
/// # Invariants
///
/// It came from `xprt_alloc` with the size of an [`XprtAlloc`], and only this value frees it.
pub(super) struct Object(NonNull<XprtAlloc>);

// SAFETY: sunrpc's functions may be called from any thread.
unsafe impl Send for Object {}
// SAFETY: The object has locks of its own and may be used from any thread.
unsafe impl Sync for Object {}

impl Object {
    /// Allocates a transport object in `net`, with `first` requests of sunrpc's own, for up to
    /// `most` requests.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn alloc(net: os::Net<'_>, first: u32, most: u32) -> Result<Self> {
        // SAFETY: `net` is valid by its lifetime; sunrpc takes a reference of its own.
        let raw =
            unsafe { bindings::xprt_alloc(net.as_ptr(), size_of::<XprtAlloc>(), first, most) };
        // INVARIANT: Allocated with the size of an `XprtAlloc`.
        NonNull::new(raw.cast()).map(Self).ok_or(ENOMEM)
    }

    /// The C object, which is there as long as this value.
    #[inline]
    pub(super) fn as_ptr(&self) -> NonNull<bindings::rpc_xprt> {
        // The object is the first field.
        self.0.cast()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the object is ours, and nothing else refers to it: sunrpc
        // has called `destroy`, or has never seen it.
        unsafe {
            let xprt = self.as_ptr().as_ptr();
            names::free(xprt);
            bindings::xprt_free(xprt);
        }
    }
}
