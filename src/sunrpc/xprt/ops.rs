// SPDX-License-Identifier: GPL-2.0

//! The method table of a transport, from a Rust trait.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::{
    ffi::{
        c_int,
        c_uint,
        c_ulong,
        c_ushort, //
    },
    seq_file::SeqFile,
    sync::{
        Arc,
        ArcBorrow, //
    },
    types::ForeignOwnable, //
};

use super::{
    names,
    ConnectLock,
    Slots,
    Transport,
    WriteLock,
    Xprt,
    XprtAlloc, //
};
use crate::{
    bindings,
    os::secs_to_jiffies,
    sunrpc::spin::SpinGuard, //
};

mod request;
mod setup;

use request::{
    Rqst,
    Task, //
};

/// A transport object, during a call of sunrpc.
///
/// # Invariants
///
/// `raw` is an object of class `T::class()`: `setup` has returned it, and its `destroy` has not
/// ended during `'a`. So it is the first field of an [`XprtAlloc`] that has both an `Arc<T>` and a
/// handle.
struct Object<'a, T> {
    raw: *mut bindings::rpc_xprt,
    _transport: PhantomData<&'a T>,
}

impl<'a, T: Transport> Object<'a, T> {
    /// Views `raw`.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    #[inline]
    unsafe fn new(raw: *mut bindings::rpc_xprt) -> Self {
        // INVARIANT: The safety requirements of this function are the invariants.
        Self {
            raw,
            _transport: PhantomData,
        }
    }

    /// The transport.
    #[inline]
    fn transport(&self) -> ArcBorrow<'a, T> {
        // SAFETY: By the type invariants the object has such a reference during `'a`.
        unsafe { Arc::<T>::borrow((*self.raw.cast::<XprtAlloc>()).transport) }
    }

    /// Its requests.
    #[inline]
    fn slots(&self) -> &'a Slots<T::Slot> {
        // SAFETY: By the type invariants the object has its handle during `'a`.
        unsafe { Xprt::slots_of_raw((*self.raw.cast::<XprtAlloc>()).handle) }
    }

    /// Its write lock.
    ///
    /// # Safety
    ///
    /// The running task must hold it during `'a`, and there must be no other value for it.
    #[inline]
    unsafe fn write_lock(&self) -> WriteLock<'a> {
        // SAFETY: By the type invariants the object is valid, and so not null; the rest are the
        // safety requirements of this function.
        unsafe { WriteLock::assume(NonNull::new_unchecked(self.raw)) }
    }

    /// Gives `task` a request.
    ///
    /// # Safety
    ///
    /// As [`Slots::alloc`].
    #[inline(always)]
    unsafe fn alloc_slot(self, task: *mut bindings::rpc_task) {
        // SAFETY: By the type invariants the object is valid; by the safety requirements of this
        // function `task` is as `Slots::alloc` needs it.
        unsafe { self.slots().alloc(self.raw, task) }
    }

    /// Takes `rqst` back.
    ///
    /// # Safety
    ///
    /// As [`Slots::free`].
    #[inline(always)]
    unsafe fn free_slot(self, rqst: *mut bindings::rpc_rqst) {
        // SAFETY: By the type invariants the object is valid; by the safety requirements of this
        // function `rqst` is as `Slots::free` needs it.
        unsafe { self.slots().free(self.raw, rqst) }
    }

    /// rpcbind has found the port.
    ///
    /// # Safety
    ///
    /// As [`names::set_port`].
    unsafe fn set_port(self, port: c_ushort) {
        // SAFETY: By the type invariants the object is valid; that it is being bound is a safety
        // requirement of this function.
        unsafe { names::set_port(self.raw, port) }
    }

    /// Begins to connect.
    ///
    /// # Safety
    ///
    /// `task` must hold the write lock.
    unsafe fn connect(self, task: *mut bindings::rpc_task) {
        // SAFETY: By the type invariants the object has its handle.
        let handle = unsafe { Xprt::of_raw((*self.raw.cast::<XprtAlloc>()).handle) };
        // SAFETY: By the safety requirements of this function `task` holds the write lock.
        match unsafe { ConnectLock::take(handle, task) } {
            Some(lock) => T::connect(self.transport(), lock),
            None => {
                // The task does not hold the lock. The next one may try.
                // SAFETY: The first has no preconditions; the object is valid.
                unsafe {
                    bindings::warn_on(true);
                    bindings::xprt_clear_connecting(self.raw);
                }
            }
        }
    }

    /// A call has waited for its reply for too long.
    ///
    /// # Safety
    ///
    /// `task` must be the running task, with a request of this object.
    unsafe fn timer(self, task: *mut bindings::rpc_task) {
        // SAFETY: Both have the safety requirements of this function.
        unsafe { Task::<T>::new(task).timed_out() };
    }

    /// Takes the connection down.
    ///
    /// # Safety
    ///
    /// As [`Self::write_lock`].
    unsafe fn close(self) {
        // SAFETY: By the safety requirements of this function the running task has the lock.
        self.transport().close(&mut unsafe { self.write_lock() });
    }

    /// Shortens the time that attempts to connect may take, and the pauses between them. The time
    /// is the server's lease; a lease of 0 would let no attempt succeed.
    fn set_connect_timeout(self, connect: c_ulong, reconnect: c_ulong) {
        let least = secs_to_jiffies(T::PARAMS.reconnect_secs);
        let (connect, reconnect) = (connect.max(least), reconnect.max(least));

        // SAFETY: By the type invariants the object, and with it the lock, is valid; the fields
        // change only under it.
        unsafe {
            let _lock = SpinGuard::take(&raw mut (*self.raw).transport_lock);
            (*self.raw).connect_timeout = (*self.raw).connect_timeout.min(connect);
            (*self.raw).max_reconnect_timeout = (*self.raw).max_reconnect_timeout.min(reconnect);
        }
    }

    /// Prints the line that mountstats shows.
    ///
    /// # Safety
    ///
    /// `seq` must be valid, and used by nothing else.
    unsafe fn print_stats(self, seq: *mut bindings::seq_file) {
        // SAFETY: By the safety requirements of this function `seq` is valid.
        let seq = unsafe { SeqFile::from_raw(seq) };

        self.transport().print_stats(seq);
    }

    /// A swap file is behind the transport from now on: sunrpc sends from the memory reserves, and
    /// so does the worker that connects.
    fn enable_swap(self) -> c_int {
        // As many as memory allows: if this fails, sunrpc leaves earlier swap files enabled.
        // SAFETY: By the type invariants the object is valid, and these are its requests.
        unsafe { self.slots().make_all(self.raw) };
        // SAFETY: By the type invariants the object is valid.
        unsafe { bindings::xprt_swapper_inc(self.raw) };
        0
    }

    /// A swap file is no longer behind the transport.
    fn disable_swap(self) {
        // SAFETY: By the type invariants the object is valid.
        unsafe { bindings::xprt_swapper_dec(self.raw) };
    }

    /// Fault injection: loses the connection.
    fn inject_disconnect(self) {
        // SAFETY: By the type invariants the object is valid.
        unsafe { bindings::xprt_force_disconnect(self.raw) };
    }

    /// Makes ready for calls in the reverse direction.
    fn bc_setup(self, _min: c_uint) -> c_int {
        match self.transport().reverse_set_up() {
            Ok(()) => 0,
            Err(e) => e.to_errno(),
        }
    }

    /// Bytes of the largest reverse message.
    fn bc_maxpayload(self) -> usize {
        self.transport().reverse_payload()
    }

    /// The number of reverse calls that may be in progress.
    fn bc_num_slots(self) -> c_uint {
        self.transport().reverse_slots()
    }

    /// The slots stay until the transport is destroyed: sessions begin and end on a live transport
    /// (H-72).
    fn bc_destroy(self, _max: c_uint) {}
}

/// The functions of the table that C calls. Each views its first argument, and calls the method of
/// its own name.
macro_rules! functions {
    ($(
        $name:ident($first:ident: $view:ident = $raw:ty $(, $arg:ident: $type:ty)*) $(-> $ret:ty)?;
    )*) => {$(
        #[doc = concat!("`", stringify!($name), "` of `struct rpc_xprt_ops`.")]
        ///
        /// # Safety
        ///
        /// Only sunrpc may call this, as it calls the functions of such a structure, for an object
        /// that has the [`Table`] of `T`.
        unsafe extern "C" fn $name<T: Transport>($first: $raw $(, $arg: $type)*) $(-> $ret)? {
            // SAFETY: sunrpc calls the functions of an object that `setup` has returned, until its
            // `destroy`, which comes last and when nothing else is under way; it passes tasks and
            // requests of that object. net/sunrpc/xprt.c calls each function at the moment, and
            // with the locks, that its method requires.
            unsafe { $view::<T>::new($first).$name($($arg),*) }
        }
    )*};
}

functions! {
    alloc_slot(xprt: Object = *mut bindings::rpc_xprt, task: *mut bindings::rpc_task);
    free_slot(xprt: Object = *mut bindings::rpc_xprt, rqst: *mut bindings::rpc_rqst);
    set_port(xprt: Object = *mut bindings::rpc_xprt, port: c_ushort);
    connect(xprt: Object = *mut bindings::rpc_xprt, task: *mut bindings::rpc_task);
    timer(xprt: Object = *mut bindings::rpc_xprt, task: *mut bindings::rpc_task);
    close(xprt: Object = *mut bindings::rpc_xprt);
    destroy(xprt: Object = *mut bindings::rpc_xprt);
    set_connect_timeout(xprt: Object = *mut bindings::rpc_xprt, first: c_ulong, next: c_ulong);
    print_stats(xprt: Object = *mut bindings::rpc_xprt, seq: *mut bindings::seq_file);
    enable_swap(xprt: Object = *mut bindings::rpc_xprt) -> c_int;
    disable_swap(xprt: Object = *mut bindings::rpc_xprt);
    inject_disconnect(xprt: Object = *mut bindings::rpc_xprt);
    bc_setup(xprt: Object = *mut bindings::rpc_xprt, min: c_uint) -> c_int;
    bc_maxpayload(xprt: Object = *mut bindings::rpc_xprt) -> usize;
    bc_num_slots(xprt: Object = *mut bindings::rpc_xprt) -> c_uint;
    bc_destroy(xprt: Object = *mut bindings::rpc_xprt, max: c_uint);
    buf_alloc(task: Task = *mut bindings::rpc_task) -> c_int;
    buf_free(task: Task = *mut bindings::rpc_task);
    release_request(task: Task = *mut bindings::rpc_task);
    prepare_request(rqst: Rqst = *mut bindings::rpc_rqst, buf: *mut bindings::xdr_buf) -> c_int;
    send_request(rqst: Rqst = *mut bindings::rpc_rqst) -> c_int;
    bc_free_rqst(rqst: Rqst = *mut bindings::rpc_rqst);
}

/// The methods of a `T`.
struct Table<T>(PhantomData<T>);

impl<T: Transport> Table<T> {
    /// The table for C. Methods of sunrpc itself stand in wherever they do the right thing.
    const OPS: bindings::rpc_xprt_ops = bindings::rpc_xprt_ops {
        reserve_xprt: Some(bindings::xprt_reserve_xprt_cong),
        release_xprt: Some(bindings::xprt_release_xprt_cong),
        release_request: Some(release_request::<T>),
        wait_for_reply_request: Some(bindings::xprt_wait_for_reply_request_def),
        rpcbind: Some(bindings::rpcb_getport_async),
        alloc_slot: Some(alloc_slot::<T>),
        free_slot: Some(free_slot::<T>),
        set_port: Some(set_port::<T>),
        connect: Some(connect::<T>),
        buf_alloc: Some(buf_alloc::<T>),
        buf_free: Some(buf_free::<T>),
        prepare_request: Some(prepare_request::<T>),
        send_request: Some(send_request::<T>),
        timer: Some(timer::<T>),
        close: Some(close::<T>),
        destroy: Some(destroy::<T>),
        set_connect_timeout: Some(set_connect_timeout::<T>),
        print_stats: Some(print_stats::<T>),
        enable_swap: Some(enable_swap::<T>),
        disable_swap: Some(disable_swap::<T>),
        inject_disconnect: Some(inject_disconnect::<T>),
        bc_setup: Some(bc_setup::<T>),
        bc_maxpayload: Some(bc_maxpayload::<T>),
        bc_num_slots: Some(bc_num_slots::<T>),
        bc_free_rqst: Some(bc_free_rqst::<T>),
        bc_destroy: Some(bc_destroy::<T>),
        ..pin_init::zeroed()
    };
}
