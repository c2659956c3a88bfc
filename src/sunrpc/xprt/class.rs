// SPDX-License-Identifier: GPL-2.0

//! Transport classes.

use core::{
    ffi::CStr,
    net::SocketAddr, //
};

use kernel::{
    error::to_result,
    ffi::{
        c_char,
        c_int, //
    },
    prelude::*,
    str::as_char_ptr_in_const_context,
    types::Opaque, //
};

use crate::{
    bindings,
    os::this_module, //
};

/// A `struct xprt_class` with its list of network identifiers, which C declares as a flexible array
/// that ends with an empty string.
#[repr(C)]
struct Repr {
    class: bindings::xprt_class,
    netids: [*const c_char; 3],
}

/// The names of a class of transports for users.
pub(crate) struct Names {
    /// The class, in messages.
    pub(crate) class: &'static CStr,
    /// The protocol, as sysfs and trace events show it.
    pub(crate) protocol: &'static CStr,
    /// The network identifier of transports to an IPv4 address; like the other one, a value of the
    /// mount option `proto`.
    pub(crate) netid: &'static CStr,
    /// The network identifier of transports to an IPv6 address.
    pub(crate) netid6: &'static CStr,
}

impl Names {
    /// The network identifier of transports to `server`.
    pub(super) fn netid(&self, server: SocketAddr) -> &'static CStr {
        if server.is_ipv6() {
            self.netid6
        } else {
            self.netid
        }
    }
}

/// `setup` of `struct xprt_class`.
type Setup = unsafe extern "C" fn(*mut bindings::xprt_create) -> *mut bindings::rpc_xprt;

/// A class of transports. Meant for a `static`: sunrpc links it into a list and transports point to
/// it.
pub(crate) struct Class(Opaque<Repr>);

// SAFETY: sunrpc changes only the list head, under a lock of its own.
unsafe impl Sync for Class {}

impl Class {
    /// The class with the number `ident` and these names, whose transports `setup` makes.
    ///
    /// # Safety
    ///
    /// `setup` must meet the requirements of `struct xprt_class`, and make transports with methods
    /// that meet the requirements of `struct rpc_xprt_ops`.
    pub(super) const unsafe fn with_setup(ident: u32, names: &Names, setup: Setup) -> Self {
        let mut class: bindings::xprt_class = pin_init::zeroed();
        // CAST: A small number.
        class.ident = ident as c_int;
        class.setup = Some(setup);
        class.owner = this_module();
        // A terminator always remains.
        let last = class.name.len().saturating_sub(1);
        let (room, _) = class.name.split_at_mut(last);
        let mut name = names.class.to_bytes();
        let mut room = room;
        while let (Some((to, rest)), Some((from, left))) =
            (room.split_first_mut(), name.split_first())
        {
            *to = *from;
            room = rest;
            name = left;
        }
        Self(Opaque::new(Repr {
            class,
            netids: [
                as_char_ptr_in_const_context(names.netid),
                as_char_ptr_in_const_context(names.netid6),
                as_char_ptr_in_const_context(c""),
            ],
        }))
    }

    /// The C object.
    pub(super) fn as_ptr(&self) -> *mut bindings::xprt_class {
        self.0.get().cast()
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
    /// `EEXIST` when another module has registered a class with the same number.
    pub(crate) fn new(class: &'static Class) -> Result<Self> {
        // SAFETY: The class is static.
        to_result(unsafe { bindings::xprt_register_transport(class.as_ptr()) })?;
        Ok(Self(class))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: `new` has registered the class, and only this value takes it out again.
        unsafe { bindings::xprt_unregister_transport(self.0.as_ptr()) };
    }
}

const _: () = {
    // The array starts where C expects it.
    assert!(core::mem::offset_of!(Repr, netids) == core::mem::size_of::<bindings::xprt_class>());
};
