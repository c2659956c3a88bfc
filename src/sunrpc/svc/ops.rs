// SPDX-License-Identifier: GPL-2.0

//! The method table of a class, from the traits.

use core::{
    marker::PhantomData,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

use kernel::{
    ffi::{
        c_int,
        c_uint,
        c_void, //
    },
    prelude::*,
    sync::ArcBorrow, //
};

use super::{
    super::address::{
        self,
        SHORTEST, //
    },
    Address,
    Class,
    Connection,
    Incoming,
    Listener,
    Outgoing,
    SvcXprt, //
};
use crate::{
    bindings,
    os::{
        series::EAFNOSUPPORT,
        Net, //
    }, //
};

impl Class {
    /// The class whose listeners are `L`s.
    pub(crate) const fn new<L: Listener>() -> Self {
        let ops = const { &Table::<L>::OPS };
        // SAFETY: They are the methods of `L`'s `Table`; the SAFETY text of its functions argues
        // that each meets the core's requirements.
        unsafe { Self::with_ops(L::NAME, L::IDENT, L::MAX_PAYLOAD, ops) }
    }
}

/// A transport object, during a call of the core.
///
/// # Invariants
///
/// `raw` is an object of class `L::class()`: [`SvcXprt::publish`] has returned it, and its
/// `xpo_free` has not ended during `'a`. Behind it is an `L` if `XPT_LISTENER` is set, which does
/// not change, and an `L::Connection` otherwise.
struct Object<'a, L> {
    raw: *mut bindings::svc_xprt,
    _transport: PhantomData<&'a L>,
}

/// The transport behind an object.
enum Behind<'a, L: Listener> {
    Listener(ArcBorrow<'a, L>),
    Connection(ArcBorrow<'a, L::Connection>),
}

impl<'a, L: Listener> Object<'a, L> {
    /// Views `raw`.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    #[inline]
    unsafe fn new(raw: *mut bindings::svc_xprt) -> Self {
        // INVARIANT: The safety requirements of this function are the invariants.
        Self {
            raw,
            _transport: PhantomData,
        }
    }

    /// Returns `true` for a listener.
    #[inline]
    fn is_listener(&self) -> bool {
        // SAFETY: By the type invariants the object is valid.
        unsafe { bindings::svc_xprt_test(self.raw, bindings::XPT_LISTENER) }
    }

    /// The transport.
    #[inline]
    fn behind(&self) -> Behind<'a, L> {
        // SAFETY: By the type invariants the object has one of the type that the flag tells, during
        // `'a`.
        unsafe {
            if self.is_listener() {
                Behind::Listener(SvcXprt::behind(self.raw))
            } else {
                Behind::Connection(SvcXprt::behind(self.raw))
            }
        }
    }

    /// The connection; `None` for a listener.
    #[inline]
    fn connection(&self) -> Option<ArcBorrow<'a, L::Connection>> {
        match self.behind() {
            Behind::Connection(connection) => Some(connection),
            Behind::Listener(_) => None,
        }
    }

    /// Accepts a request. Returns null if none was accepted.
    ///
    /// # Safety
    ///
    /// The running thread must have the object to itself, and a reference to the module.
    unsafe fn accept(self) -> *mut bindings::svc_xprt {
        let Behind::Listener(listener) = self.behind() else {
            return null_mut();
        };
        let Some((request, ends)) = listener.next() else {
            return null_mut();
        };
        // SAFETY: A listener that a thread has is not dead.
        let (net, server) = unsafe { SvcXprt::surroundings(self.raw) };
        // SAFETY: The class is static. The core keeps the server as long as it has connections of
        // it that are not dead, and uses it no longer.
        let xprt = match unsafe { SvcXprt::alloc(net, L::class().as_ptr(), server) } {
            Ok(xprt) => xprt,
            Err(error) => {
                listener.reject(request, error);
                return null_mut();
            }
        };
        xprt.set_ends(&ends);
        match listener.accept(request, xprt.clone()) {
            Ok(connection) => xprt.publish(connection),
            Err(_) => null_mut(),
        }
    }

    /// Returns 1 if a thread may take a call.
    fn has_wspace(self) -> c_int {
        self.connection()
            .is_none_or(|connection| connection.has_space())
            .into()
    }

    /// The core is done with the call whose data is at `call`, if it is one.
    ///
    /// # Safety
    ///
    /// `call` must be null, or data of a call of this connection that the core gives back.
    unsafe fn release_ctxt(self, call: *mut c_void) {
        if call.is_null() {
            return;
        }
        if let Some(connection) = self.connection() {
            // SAFETY: By the safety requirements of this function it is from `recvfrom`, which has
            // taken it out of a box of this type, and the core does not use it again.
            connection.release(unsafe { KBox::from_raw(call.cast()) });
        }
    }

    /// Begins to close the transport.
    fn detach(self) {
        match self.behind() {
            Behind::Listener(listener) => listener.detach(),
            Behind::Connection(connection) => connection.detach(),
        }
    }

    /// Ends the transport.
    ///
    /// # Safety
    ///
    /// The core must not use the object after this.
    unsafe fn free(self) {
        // The last handle frees the memory.
        if self.is_listener() {
            // SAFETY: By the type invariants a listener is behind it; by the safety requirements of
            // this function nothing is called after this.
            drop(unsafe { SvcXprt::withdraw::<L>(self.raw) });
        } else {
            // SAFETY: By the type invariants a connection is behind it; by the safety requirements
            // of this function nothing is called after this.
            let (connection, xprt) = unsafe { SvcXprt::withdraw::<L::Connection>(self.raw) };
            L::Connection::free(&connection);
            drop(connection);
            drop(xprt);
        }
    }

    /// The address of a connection has vanished: the core closes it next.
    fn kill_temp_xprt(self) {}
}

impl SvcXprt {
    /// The connection behind `raw`; `None` for null, for a listener, and for objects of classes
    /// other than `L`'s.
    ///
    /// # Safety
    ///
    /// `raw` must be null, or an object that the caller has a reference to during `'a`.
    pub(in crate::sunrpc) unsafe fn connection_of<'a, L: Listener>(
        raw: *mut bindings::svc_xprt,
    ) -> Option<ArcBorrow<'a, L::Connection>> {
        // SAFETY: By the safety requirements of this function the object is valid, unless null; the
        // class does not change.
        if raw.is_null() || unsafe { (*raw).xpt_class } != L::class().as_ptr() {
            return None;
        }
        // SAFETY: Objects of the class that the core knows come from `publish`. `xpo_free` comes
        // after the last reference.
        unsafe { Object::<L>::new(raw) }.connection()
    }
}

/// Makes a listener.
///
/// # Safety
///
/// The arguments must be those of a call of `xpo_create` by the core.
unsafe fn listen<L: Listener>(
    server: *mut bindings::svc_serv,
    net: *mut bindings::net,
    at: *const bindings::sockaddr,
    len: c_int,
) -> Result<*mut bindings::svc_xprt> {
    let len = usize::try_from(len)?;
    if !(SHORTEST..=size_of::<Address>()).contains(&len) {
        return Err(EINVAL);
    }
    let mut address: Address = pin_init::zeroed();
    // SAFETY: By the safety requirements of this function `at` has `len` bytes, which fit.
    unsafe { core::ptr::copy_nonoverlapping(at.cast::<u8>(), (&raw mut address).cast(), len) };
    if address::len(&address).is_none_or(|least| len < least) {
        return Err(EAFNOSUPPORT);
    }
    // SAFETY: The caller keeps the namespace during this call.
    let net = unsafe { Net::new(net) };
    // SAFETY: The class is static, and the core keeps the server as long as it has listeners.
    let xprt = unsafe { SvcXprt::alloc(net, L::class().as_ptr(), server) }?;
    xprt.set(bindings::XPT_LISTENER);
    let (listener, local) = L::listen(xprt.clone(), net, &address)?;
    xprt.set_local(&local);
    Ok(xprt.publish(listener))
}

/// `xpo_create` of `struct svc_xprt_ops`.
///
/// # Safety
///
/// Only the core may call this, which holds the module.
unsafe extern "C" fn create<L: Listener>(
    server: *mut bindings::svc_serv,
    net: *mut bindings::net,
    at: *mut bindings::sockaddr,
    len: c_int,
    _flags: c_int,
) -> *mut bindings::svc_xprt {
    // SAFETY: The core has called this.
    match unsafe { listen::<L>(server, net, at, len) } {
        Ok(xprt) => xprt,
        Err(e) => e.to_ptr(),
    }
}

/// A thread of a server, during a call of the core.
///
/// # Invariants
///
/// `raw` is valid, belongs to the running thread during `'a`, and has an object that satisfies the
/// invariants of [`Object`].
struct Thread<'a, L> {
    raw: NonNull<bindings::svc_rqst>,
    _object: PhantomData<Object<'a, L>>,
}

impl<'a, L: Listener> Thread<'a, L> {
    /// Views `raw`.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    #[inline]
    unsafe fn new(raw: *mut bindings::svc_rqst) -> Self {
        // INVARIANT: The safety requirements of this function are the invariants.
        Self {
            // SAFETY: A valid object is not at address 0.
            raw: unsafe { NonNull::new_unchecked(raw) },
            _object: PhantomData,
        }
    }

    /// The object.
    #[inline]
    fn object(&self) -> Object<'a, L> {
        // SAFETY: By the type invariants the thread has such an object.
        unsafe { Object::new((*self.raw.as_ptr()).rq_xprt) }
    }

    /// Takes a call. Returns the length of its arguments, or 0 if none was taken.
    ///
    /// # Safety
    ///
    /// The running thread must have the object to itself, and have pages for a call.
    unsafe fn recvfrom(self) -> c_int {
        let object = self.object();
        let xprt = object.raw;
        let connection = object.connection();
        let item = connection.as_ref().and_then(|connection| connection.next());
        // From here on another thread may have the object to itself (H-113). This thread has a
        // reference to it.
        // SAFETY: By the safety requirements of this function the running thread has it, and gives
        // it up only here.
        unsafe { bindings::svc_xprt_received(xprt) };
        let (Some(connection), Some(item)) = (connection, item) else {
            return 0;
        };
        // SAFETY: By the safety requirements of this function the thread has its pages, and by the
        // type invariants it is the running one.
        let incoming = unsafe { Incoming::new(self.raw) };
        let Some((arguments, call)) = L::Connection::receive(connection, item, incoming) else {
            return 0;
        };
        // SAFETY: By the type invariants the thread is the running one, and has a reference to the
        // object.
        unsafe { self.received(xprt, call) };
        // CAST: A call is shorter than 2 GiB, as its pages.
        arguments.len() as c_int
    }

    /// Notes the origin of a call that the thread has.
    ///
    /// # Safety
    ///
    /// `xprt` must be the object of the thread.
    unsafe fn received<C>(&self, xprt: *mut bindings::svc_xprt, call: KBox<C>) {
        let raw = self.raw.as_ptr();

        // SAFETY: By the type invariants the object is valid, and only the running thread uses it.
        unsafe {
            (*raw).rq_xprt_ctxt = KBox::into_raw(call).cast();
            // A number of no protocol: the cache of replies compares it.
            (*raw).rq_prot = bindings::RPCRDMA_RS_IPPROTO_MAX as u32;
            bindings::svc_xprt_copy_addrs(raw, xprt);
            bindings::svc_rqst_set(raw, bindings::RQ_SECURE);
            // The flag is still as the last call of the thread has left it (H-141).
            if bindings::svc_xprt_test(xprt, bindings::XPT_LOCAL) {
                bindings::svc_rqst_set(raw, bindings::RQ_LOCAL);
            } else {
                bindings::svc_rqst_clear(raw, bindings::RQ_LOCAL);
            }
        }
    }

    /// The transport's data of the call that the thread has.
    #[inline]
    fn call(&self) -> Option<&'a mut <L::Connection as Connection>::Call> {
        // SAFETY: By the type invariants the object is valid. Its pointer is null or from
        // `received`, which has taken it out of a box of this type; until the release only the
        // thread uses it.
        unsafe {
            (*self.raw.as_ptr())
                .rq_xprt_ctxt
                .cast::<<L::Connection as Connection>::Call>()
                .as_mut()
        }
    }

    /// Notes a result that may be placed directly. Returns 0: an error would have the upper layer
    /// undo a reply whose pages are those of a file, which `xdr_truncate_encode()` is not safe for.
    fn result_payload(self, at: c_uint, len: c_uint) -> c_int {
        if let (Some(connection), Some(call)) = (self.object().connection(), self.call()) {
            connection.result(call, at, len);
        }
        0
    }

    /// Sends the reply. Returns 0, or an error that the core traces.
    ///
    /// # Safety
    ///
    /// The reply must be encoded.
    unsafe fn sendto(self) -> c_int {
        let (Some(connection), Some(call)) = (self.object().connection(), self.call()) else {
            return 0;
        };
        // SAFETY: By the safety requirements of this function the reply is encoded, and by the type
        // invariants the thread is the running one.
        let reply = unsafe { Outgoing::new(self.raw) };
        connection
            .send(call, reply)
            .map_or_else(|e| e.to_errno(), |()| 0)
    }
}

/// The functions of the table that C calls. Each views its first argument, and calls the method of
/// its own name.
macro_rules! functions {
    ($(
        $name:ident($first:ident: $view:ident = $raw:ty $(, $arg:ident: $type:ty)*) $(-> $ret:ty)?;
    )*) => {$(
        #[doc = concat!("`xpo_", stringify!($name), "` of `struct svc_xprt_ops`.")]
        ///
        /// # Safety
        ///
        /// Only the core may call this, as it calls the functions of such a structure, for an
        /// object that has the [`Table`] of `L`.
        #[allow(unused_unsafe)]
        unsafe extern "C" fn $name<L: Listener>($first: $raw $(, $arg: $type)*) $(-> $ret)? {
            // SAFETY: The core calls the functions of an object that `publish` has returned, until
            // its `xpo_free`, which comes last and when nothing else is under way; it passes the
            // running thread. net/sunrpc/svc_xprt.c calls each function at the moment, and with the
            // flags set, that its method requires.
            unsafe { $view::<L>::new($first).$name($($arg),*) }
        }
    )*};
}

functions! {
    accept(xprt: Object = *mut bindings::svc_xprt) -> *mut bindings::svc_xprt;
    has_wspace(xprt: Object = *mut bindings::svc_xprt) -> c_int;
    release_ctxt(xprt: Object = *mut bindings::svc_xprt, call: *mut c_void);
    detach(xprt: Object = *mut bindings::svc_xprt);
    free(xprt: Object = *mut bindings::svc_xprt);
    kill_temp_xprt(xprt: Object = *mut bindings::svc_xprt);
    recvfrom(rqst: Thread = *mut bindings::svc_rqst) -> c_int;
    result_payload(rqst: Thread = *mut bindings::svc_rqst, at: c_uint, len: c_uint) -> c_int;
    sendto(rqst: Thread = *mut bindings::svc_rqst) -> c_int;
}

/// The methods of a class of `L`s.
pub(super) struct Table<L>(PhantomData<L>);

impl<L: Listener> Table<L> {
    /// The table for C.
    pub(super) const OPS: bindings::svc_xprt_ops = bindings::svc_xprt_ops {
        xpo_create: Some(create::<L>),
        xpo_accept: Some(accept::<L>),
        xpo_has_wspace: Some(has_wspace::<L>),
        xpo_recvfrom: Some(recvfrom::<L>),
        xpo_sendto: Some(sendto::<L>),
        xpo_result_payload: Some(result_payload::<L>),
        xpo_release_ctxt: Some(release_ctxt::<L>),
        xpo_detach: Some(detach::<L>),
        xpo_free: Some(free::<L>),
        xpo_kill_temp_xprt: Some(kill_temp_xprt::<L>),
        ..pin_init::zeroed()
    };
}
