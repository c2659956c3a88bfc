// SPDX-License-Identifier: GPL-2.0

//! Classes of transports.

use kernel::{
    error::to_result,
    prelude::*,
    str::as_char_ptr_in_const_context,
    types::Opaque, //
};

use crate::{
    bindings,
    os::this_module, //
};

/// A class of transports. Meant for a `static`: sunrpc links it into a list and transports point to
/// it.
pub(crate) struct Class(Opaque<bindings::svc_xprt_class>);

// SAFETY: sunrpc changes only the list head, under a lock of its own.
unsafe impl Sync for Class {}

impl Class {
    /// The class with this name and number, for payloads of up to `payload` bytes, whose transports
    /// have the methods `ops`.
    ///
    /// # Safety
    ///
    /// `ops` must meet the requirements of `struct svc_xprt_ops`.
    pub(super) const unsafe fn with_ops(
        name: &'static CStr,
        ident: i32,
        payload: u32,
        ops: &'static bindings::svc_xprt_ops,
    ) -> Self {
        let mut class: bindings::svc_xprt_class = pin_init::zeroed();
        class.xcl_name = as_char_ptr_in_const_context(name);
        class.xcl_owner = this_module();
        class.xcl_ops = ops;
        class.xcl_max_payload = payload;
        class.xcl_ident = ident;
        Self(Opaque::new(class))
    }

    /// The C object.
    pub(super) fn as_ptr(&self) -> *mut bindings::svc_xprt_class {
        self.0.get()
    }
}

/// A registered class; dropping it takes the class out again. Transports of the class pin the
/// module, so none is left.
pub(crate) struct Registration(&'static Class);

impl Registration {
    /// Registers `class`.
    ///
    /// # Errors
    ///
    /// `EEXIST` when another module has registered a class with the same name.
    pub(crate) fn new(class: &'static Class) -> Result<Self> {
        // SAFETY: The class is static.
        to_result(unsafe { bindings::svc_reg_xprt_class(class.as_ptr()) })?;
        Ok(Self(class))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: `new` has registered the class, and only this value takes it out again.
        unsafe { bindings::svc_unreg_xprt_class(self.0.as_ptr()) };
    }
}
