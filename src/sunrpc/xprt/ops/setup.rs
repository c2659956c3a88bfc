// SPDX-License-Identifier: GPL-2.0

//! Making and unmaking transport objects.

use kernel::{
    prelude::*,
    sync::Arc,
    types::ForeignOwnable, //
};

use super::{
    super::{
        names,
        Class,
        Transport,
        Xprt,
        XprtAlloc, //
    },
    Object,
    Table, //
};
use crate::{
    bindings,
    os::{
        self,
        secs_to_jiffies, //
    }, //
};

impl Class {
    /// The class whose transports are `T`s.
    pub(crate) const fn new<T: Transport>() -> Self {
        // SAFETY: `setup` makes transports with the methods of `T`'s `Table`; the SAFETY text of
        // its functions argues that each meets sunrpc's requirements.
        unsafe { Self::with_setup(T::IDENT, &T::NAMES, setup::<T>) }
    }
}

/// `setup` of `struct xprt_class`.
///
/// # Safety
///
/// Called by sunrpc with valid arguments.
unsafe extern "C" fn setup<T: Transport>(
    args: *mut bindings::xprt_create,
) -> *mut bindings::rpc_xprt {
    // SAFETY: By the safety requirements of this function `args` are valid.
    match unsafe { create::<T>(&*args) } {
        Ok(xprt) => xprt,
        Err(e) => e.to_ptr(),
    }
}

/// The times after which calls over a `T` time out, for callers that name none.
const fn default_timeout<T: Transport>() -> bindings::rpc_timeout {
    bindings::rpc_timeout {
        to_initval: secs_to_jiffies(T::PARAMS.reply_secs),
        to_maxval: secs_to_jiffies(T::PARAMS.reply_secs),
        ..pin_init::zeroed()
    }
}

/// Makes a transport object and the transport behind it.
///
/// # Safety
///
/// `args` must be valid arguments from sunrpc.
unsafe fn create<T: Transport>(args: &bindings::xprt_create) -> Result<*mut bindings::rpc_xprt> {
    // SAFETY: By the safety requirements of this function the arguments are sunrpc's.
    let server = unsafe { names::peer(args) }?;
    // SAFETY: The caller keeps the namespace during this call.
    let net = unsafe { os::Net::new(args.net) };
    // SAFETY: The object gets the methods of `T` below.
    let handle = unsafe { Xprt::<T::Slot>::alloc(net, T::max_requests(server, net)) }?;
    let xprt = handle.as_ptr();

    // SAFETY: The object is ours until it is returned.
    let fields = unsafe { &mut *xprt };
    fields.ops = const { &Table::<T>::OPS };
    fields.xprt_class = T::class().as_ptr();
    let timeout: &'static bindings::rpc_timeout = const { &default_timeout::<T>() };
    fields.timeout = timeout;
    fields.connect_timeout = timeout.to_initval;
    fields.max_reconnect_timeout = timeout.to_maxval;
    fields.bind_timeout = secs_to_jiffies(T::PARAMS.bind_secs);
    fields.reestablish_timeout = secs_to_jiffies(T::PARAMS.reconnect_secs);
    fields.idle_timeout = secs_to_jiffies(T::PARAMS.idle_secs);
    fields.max_payload = T::PARAMS.payload;
    // Side protocols (mount, locks, rpcbind) read this and use TCP.
    fields.prot = bindings::RPCRDMA_RS_IPPROTO_TCP;
    // SAFETY: The arguments are sunrpc's; nothing else uses the object yet.
    unsafe {
        names::fill_in(xprt, args, server, &T::NAMES)?;
        if server.port() != 0 {
            bindings::xprt_set_bound(xprt);
        }
    }

    let transport = T::new(handle.clone(), server)?;
    // SAFETY: The handle keeps the object. `destroy` takes both back.
    unsafe {
        let object = xprt.cast::<XprtAlloc>();
        (*object).transport = transport.into_foreign();
        (*object).handle = handle.into_raw();
    }
    Ok(xprt)
}

impl<T: Transport> Object<'_, T> {
    /// Takes everything apart.
    ///
    /// # Safety
    ///
    /// As [`Self::write_lock`], and nothing may call a method of the object after this.
    pub(super) unsafe fn destroy(self) {
        let object = self.raw.cast::<XprtAlloc>();

        // SAFETY: By the safety requirements of this function the write lock is held. It is not
        // given back.
        self.transport().close(&mut unsafe { self.write_lock() });
        // SAFETY: By the type invariants the object has both, from `create`; they are not used
        // again, since no method is called after this.
        let (transport, handle) = unsafe {
            (
                Arc::<T>::from_foreign((*object).transport),
                Xprt::<T::Slot>::from_raw((*object).handle),
            )
        };
        drop(transport);
        // The last handle frees the object.
        drop(handle);
    }
}
