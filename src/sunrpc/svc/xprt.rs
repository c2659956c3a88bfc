// SPDX-License-Identifier: GPL-2.0

//! Transport objects of servers.

use core::{
    cell::UnsafeCell,
    ffi::c_void,
    mem::offset_of,
    ptr::null_mut, //
};

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
    types::{
        ForeignOwnable,
        Opaque, //
    }, //
};

use super::{
    super::{
        address,
        module::ModuleRef, //
    },
    address_in,
    Address, //
};
use crate::{
    bindings,
    os::{
        HeldNet,
        Net, //
    }, //
};

/// The addresses of a connection.
pub(crate) struct Ends {
    /// This end.
    pub(crate) local: Address,
    /// The client.
    pub(crate) remote: Address,
}

/// The memory of a transport object.
///
/// # Invariants
///
/// - `raw` was initialised by `svc_xprt_init`.
/// - `is_own` is set until the core gets the object. From then on the core has a reference to this
///   memory, and `behind` is an `Arc` of the listener or of the connection, until `withdraw`.
#[repr(C)]
struct Memory {
    raw: Opaque<bindings::svc_xprt>,
    behind: UnsafeCell<*mut c_void>,
    is_own: Atomic<bool>,
    /// The namespace. The core drops its own reference before `xpo_free`, and the trace event of
    /// `svc_xprt_enqueue()`, which completions call until then, reads it.
    _net: HeldNet,
    // Last: the module may be unloaded after that.
    _module: ModuleRef,
}

// SAFETY: The object has locks of its own, and `behind` belongs to no thread.
unsafe impl Send for Memory {}
// SAFETY: The object has locks of its own; `behind` changes only while nothing else can reach it.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.is_own.load(Relaxed) {
            // The core has never had the object, which refers to nothing but its namespace.
            //
            // SAFETY: By the type invariants it was initialised, which took that reference.
            unsafe { bindings::svc_xprt_put_net(self.raw.get()) };
        }
    }
}

/// A handle to a transport object of a server.
///
/// It keeps the memory, not the object's life in the core: after `xpo_free`, and before the core
/// gets the object, its methods have no effect. So completions can hold one without keeping the
/// transport alive.
#[derive(Clone)]
pub(crate) struct SvcXprt(Arc<Memory>);

impl SvcXprt {
    /// Allocates an object of `class` for `server` in `net`. The core holds the module during the
    /// call.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `class` and `server` must be valid, and remain so as long as the core has the object.
    pub(super) unsafe fn alloc(
        net: Net<'_>,
        class: *mut bindings::svc_xprt_class,
        server: *mut bindings::svc_serv,
    ) -> Result<Self> {
        // SAFETY: The core holds the module while it calls the methods of our class.
        let module = unsafe { ModuleRef::new() };
        // INVARIANT: Initialised below, before anything else uses the value.
        let memory = Arc::new(
            Memory {
                raw: Opaque::zeroed(),
                behind: UnsafeCell::new(null_mut()),
                is_own: Atomic::new(false),
                _net: net.hold(),
                _module: module,
            },
            GFP_KERNEL,
        )?;

        // SAFETY: The object is zeroed memory that does not move; by the safety requirements of
        // this function the other arguments are valid.
        unsafe { bindings::svc_xprt_init(net.as_ptr(), class, memory.raw.get(), server) };
        memory.is_own.store(true, Relaxed);
        let this = Self(memory);
        // NFSv4 requires a transport that controls congestion (RFC 8881, section 2.9.1).
        this.set(bindings::XPT_CONG_CTRL);
        Ok(this)
    }

    /// The C object.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::svc_xprt {
        self.0.raw.get()
    }

    /// Sets a flag.
    #[inline]
    pub(super) fn set(&self, flag: u32) {
        // SAFETY: By the type invariants the object is initialised; flags are atomic.
        unsafe { bindings::svc_xprt_set(self.as_ptr(), flag) };
    }

    /// Clears a flag.
    #[inline]
    pub(super) fn clear(&self, flag: u32) {
        // SAFETY: By the type invariants the object is initialised; flags are atomic.
        unsafe { bindings::svc_xprt_clear(self.as_ptr(), flag) };
    }

    /// Sets the address of this end, which only the core reads, before it gets the object.
    pub(super) fn set_local(&self, at: &Address) {
        let Some(len) = address::len(at) else {
            return;
        };
        // SAFETY: By the type invariants the object is initialised. By the contract of this
        // function, which only this room calls, the core does not have it yet, and nothing else
        // uses the fields. The address is `len` bytes long.
        unsafe { bindings::svc_xprt_local(self.as_ptr(), core::ptr::from_ref(at).cast(), len) };
    }

    /// Sets the addresses of both ends, before the core gets the object or another thread a handle.
    pub(super) fn set_ends(&self, ends: &Ends) {
        self.set_local(&ends.local);
        let Some(len) = address::len(&ends.remote) else {
            return;
        };
        let remote = &raw const ends.remote;
        // SAFETY: By the type invariants the object is initialised. By the contract of this
        // function, which only this room calls, nothing else uses the fields. The address is `len`
        // bytes long.
        unsafe {
            bindings::svc_xprt_remote(self.as_ptr(), remote.cast(), len);
            // The cache of replies knows a client by its address and port. A client that connects
            // again has another port, and its calls must be found there (H-131).
            bindings::rpc_set_port((&raw mut (*self.as_ptr()).xpt_remote).cast(), 0);
        }
        let host = |address| address_in(address).map(|address| address.ip());
        if host(&ends.local) == host(&ends.remote) {
            self.set(bindings::XPT_LOCAL);
        }
    }

    /// Gives the object to the core, which calls the methods of `behind` from now on.
    pub(super) fn publish<T: Send + Sync + 'static>(
        self,
        behind: Arc<T>,
    ) -> *mut bindings::svc_xprt {
        const { assert!(offset_of!(Memory, raw) == 0) };
        // SAFETY: The core does not have the object yet, so that nothing reads the pointer.
        unsafe { *self.0.behind.get() = behind.into_foreign() };
        // INVARIANT: The core has the reference that the pointer below stands for.
        self.0.is_own.store(false, Relaxed);
        Arc::into_raw(self.0).cast_mut().cast()
    }

    /// The listener or the connection behind `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`Self::publish`], with the same type, and not be withdrawn during
    /// `'a`.
    #[inline]
    pub(super) unsafe fn behind<'a, T: Send + Sync + 'static>(
        raw: *mut bindings::svc_xprt,
    ) -> ArcBorrow<'a, T> {
        // SAFETY: By the safety requirements of this function the memory is valid, and by its
        // invariants has such a reference.
        unsafe { Arc::<T>::borrow(*(*raw.cast::<Memory>()).behind.get()) }
    }

    /// Takes the object back from the core, with the listener or the connection.
    ///
    /// # Safety
    ///
    /// As [`Self::behind`]. The core must not use the object after this, which is withdrawn once.
    pub(super) unsafe fn withdraw<T: Send + Sync + 'static>(
        raw: *mut bindings::svc_xprt,
    ) -> (Arc<T>, Self) {
        // SAFETY: By the safety requirements of this function `raw` is such a reference, which is
        // taken back once.
        let memory = unsafe { Arc::from_raw(raw.cast::<Memory>()) };
        // SAFETY: By the invariants of `Memory` the pointer is such a reference, and it is not used
        // again.
        let behind = unsafe { Arc::<T>::from_foreign(*memory.behind.get()) };
        (behind, Self(memory))
    }

    /// Makes a thread look at the transport, if something waits there. Any process context.
    #[inline]
    pub(crate) fn enqueue(&self) {
        // SAFETY: By the type invariants the object is initialised. Before the core gets the object
        // and after it is dead `XPT_BUSY` stays set, and the function does nothing then. Otherwise
        // the core has a reference, which it cannot drop before it has set that flag.
        unsafe { bindings::svc_xprt_enqueue(self.as_ptr()) };
    }

    /// Asks the core to close the transport, as `svc_xprt_deferred_close()`. Any process context;
    /// does not wait.
    pub(crate) fn close(&self) {
        // SAFETY: By the type invariants the object is initialised; flags are atomic.
        if !unsafe { bindings::svc_xprt_test_and_set(self.as_ptr(), bindings::XPT_CLOSE) } {
            self.enqueue();
        }
    }

    /// The network namespace and the server of `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must be an object that the core has and that is not dead, during `'a`.
    pub(super) unsafe fn surroundings<'a>(
        raw: *mut bindings::svc_xprt,
    ) -> (Net<'a>, *mut bindings::svc_serv) {
        // SAFETY: By the safety requirements of this function the object is valid, with references
        // to both.
        unsafe { (Net::new((*raw).xpt_net), (*raw).xpt_server) }
    }
}
