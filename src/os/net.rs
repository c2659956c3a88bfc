// SPDX-License-Identifier: GPL-2.0

//! Network namespaces.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use core::marker::PhantomData;

use crate::bindings;

/// A network namespace that stays during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Net<'a> {
    raw: *mut bindings::net,
    _keeper: PhantomData<&'a ()>,
}

impl Net<'_> {
    /// Refers to `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must stay valid during the lifetime that the caller chooses.
    pub(crate) unsafe fn new(raw: *mut bindings::net) -> Self {
        Self {
            raw,
            _keeper: PhantomData,
        }
    }

    /// The namespace's number in user space, as in `/proc/self/ns/net`.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: The namespace is valid; the number is fixed.
        unsafe { bindings::net_number(self.raw) }
    }

    /// The C object.
    pub(crate) fn as_ptr(&self) -> *mut bindings::net {
        self.raw
    }
}

/// A reference to a network namespace.
///
/// # Invariants
///
/// `raw` is valid, and this value has a reference to it.
pub(crate) struct HeldNet {
    raw: *mut bindings::net,
}

// SAFETY: References to a namespace are counted atomically.
unsafe impl Send for HeldNet {}
// SAFETY: Nothing but the drop uses the namespace.
unsafe impl Sync for HeldNet {}

impl Net<'_> {
    /// Takes a reference.
    pub(crate) fn hold(&self) -> HeldNet {
        // SAFETY: The namespace is valid.
        unsafe { bindings::get_net(self.raw) };
        // INVARIANT: The call above has taken the reference.
        HeldNet { raw: self.raw }
    }
}

impl Drop for HeldNet {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the reference belongs to this value.
        unsafe { bindings::put_net(self.raw) };
    }
}
