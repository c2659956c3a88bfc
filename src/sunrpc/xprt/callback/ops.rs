// SPDX-License-Identifier: GPL-2.0

//! The class of the objects that a server calls over, and their methods.

use core::ptr::NonNull;

use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    ffi::c_int,
    pr_warn_once,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    types::ForeignOwnable, //
};

use super::{
    super::{
        names,
        object::XprtAlloc,
        Class,
        Names, //
    },
    Callback,
    Callbacks,
    CallsBack, //
};
use crate::{
    bindings,
    os::{
        secs_to_jiffies,
        series::smp_mb,
        Net, //
    },
    sunrpc::{
        memory::Memory,
        svc::{
            Listener,
            SvcXprt, //
        },
        CallbackStatus, //
    }, //
};

/// The names of the objects.
const NAMES: Names = Names {
    class: c"rdma backchannel",
    protocol: c"rdma",
    netid: c"rdma",
    netid6: c"rdma6",
};

/// The names of the class, which has no network identifier, so that no mount finds it.
const CLASS_NAMES: Names = Names {
    netid: c"",
    netid6: c"",
    ..NAMES
};

/// The times after which calls time out, for callers that name none.
const TIMEOUT: bindings::rpc_timeout = bindings::rpc_timeout {
    to_initval: secs_to_jiffies(60),
    to_maxval: secs_to_jiffies(60),
    ..pin_init::zeroed()
};

/// The number of the class for the connections of `L`s.
const fn ident<L: Listener>() -> u32 {
    // CAST: The same bits.
    L::IDENT as u32 | bindings::XPRT_TRANSPORT_BC
}

impl Class {
    /// The class of the objects for the connections of `L`s.
    pub(crate) const fn of_callbacks<L: Listener>() -> Self
    where
        L::Connection: CallsBack,
    {
        // SAFETY: `setup` makes objects with the methods below; the SAFETY text of each argues that
        // it meets sunrpc's requirements.
        unsafe { Self::with_setup(ident::<L>(), &CLASS_NAMES, setup::<L>) }
    }
}

/// `setup` of `struct xprt_class`.
///
/// # Safety
///
/// Called by sunrpc with valid arguments.
unsafe extern "C" fn setup<L: Listener>(args: *mut bindings::xprt_create) -> *mut bindings::rpc_xprt
where
    L::Connection: CallsBack,
{
    // SAFETY: By the safety requirements of this function `args` are valid.
    match unsafe { create::<L>(&*args) } {
        Ok(xprt) => xprt,
        Err(e) => e.to_ptr(),
    }
}

/// Fills in what all objects of the class have, and the `longest` message, in bytes.
fn init<L: Listener>(fields: &mut bindings::rpc_xprt, longest: u32)
where
    L::Connection: CallsBack,
{
    fields.ops = const { &ops::<L::Connection>() };
    fields.xprt_class = L::Connection::class().as_ptr();
    fields.timeout = const { &TIMEOUT };
    // CAST: Widening.
    fields.max_payload = longest as usize;
    // CAST: The same bits.
    fields.prot = ident::<L>() as c_int;
}

/// Makes an object for the connection in `args`.
///
/// # Safety
///
/// `args` must be valid arguments from sunrpc, with a connection that the caller keeps: by a
/// reference, or, when one more transport is added by sysfs, by an object of this class.
unsafe fn create<L: Listener>(args: &bindings::xprt_create) -> Result<*mut bindings::rpc_xprt>
where
    L::Connection: CallsBack,
{
    // SAFETY: By the safety requirements of this function the arguments are sunrpc's.
    let client = unsafe { names::peer(args) }?;
    // SAFETY: By the safety requirements of this function the caller keeps the object, if it is
    // not null.
    let connection = unsafe { SvcXprt::connection_of::<L>(args.bc_xprt) }.ok_or(EINVAL)?;
    // SAFETY: The caller keeps the namespace during this call.
    let net = unsafe { Net::new(args.net) };
    // SAFETY: The object gets the methods below.
    let handle = unsafe { Callbacks::alloc(net, L::Connection::MOST_CALLS) }?;
    let xprt = handle.as_ptr();
    // SAFETY: The object is ours until it is returned.
    let fields = unsafe { &mut *xprt };

    init::<L>(fields, connection.longest_callback());
    fields.bc_xprt = args.bc_xprt;
    // SAFETY: The arguments are sunrpc's; nothing else uses the object yet.
    unsafe {
        names::fill_in(xprt, args, client, &NAMES)?;
        bindings::xprt_set_bound(xprt);
        bindings::xprt_set_connected(xprt);
    }
    // Two upper layers may ask at the same time for what either could use. The one that comes
    // second learns that the way back does not work yet, and its client has it try again.
    if !L::Connection::set_callbacks(connection, handle.clone()) {
        return Err(EAGAIN);
    }
    // SAFETY: `xprt` is the object of the handle, made above with the methods for this class and
    // without a connection; the caller keeps `bc_xprt`.
    unsafe { publish(xprt, Arc::from(connection), handle, args.bc_xprt) };
    Ok(xprt)
}

/// Gives an object its connection and its handle, and publishes it as the way back of `bc_xprt`.
///
/// # Safety
///
/// `xprt` must be the object of `handle`, with the methods for connections of type `C`, and its
/// fields `transport` and `handle` unset; `bc_xprt` must be valid.
unsafe fn publish<C: CallsBack>(
    xprt: *mut bindings::rpc_xprt,
    connection: Arc<C>,
    handle: Callbacks,
    bc_xprt: *mut bindings::svc_xprt,
) {
    // SAFETY: By the safety requirements of this function. The handle keeps the object; `destroy`
    // takes both back. The second reference is for `xpt_bc_xprt`, from which the core drops it when
    // it frees the connection (H-135).
    unsafe {
        let object = xprt.cast::<XprtAlloc>();
        (*object).transport = connection.into_foreign();
        (*object).handle = handle.into_raw();
        bindings::xprt_get(xprt);
        // Others look at the field without a lock: the object comes first.
        smp_mb();
        (&raw mut (*bc_xprt).xpt_bc_xprt).write_volatile(xprt);
    }
}

/// The connection of an object.
///
/// # Safety
///
/// `xprt` must come from [`create`], with the same type, and its [`destroy`] not have ended during
/// `'a`.
#[inline]
unsafe fn connection<'a, C: CallsBack>(xprt: *mut bindings::rpc_xprt) -> ArcBorrow<'a, C> {
    // SAFETY: By the safety requirements of this function the object has such a reference.
    unsafe { Arc::<C>::borrow((*xprt.cast::<XprtAlloc>()).transport) }
}

/// `send_request` of `struct rpc_xprt_ops`.
///
/// # Safety
///
/// Only sunrpc may call this, for an object of [`create`], with the write lock held and the request
/// encoded and pinned.
unsafe extern "C" fn send_request<C: CallsBack>(rqst: *mut bindings::rpc_rqst) -> c_int {
    // SAFETY: By the safety requirements of this function both are valid.
    let connection = unsafe { connection::<C>((*rqst).rq_xprt) };
    // SAFETY: By the safety requirements of this function the request is valid, and so not null.
    let rqst = unsafe { NonNull::new_unchecked(rqst) };
    // INVARIANT: By the safety requirements of this function.
    let call = Callback {
        rqst,
        _rqst: core::marker::PhantomData,
    };
    // SAFETY: Only the holder of the write lock changes the field while the request is sent.
    unsafe { (*rqst.as_ptr()).rq_xtime = bindings::ktime_get() };

    // A call that is sent again keeps its credit.
    // SAFETY: Both are valid; the function takes them in any state, and no lock is held.
    if !unsafe { bindings::xprt_request_get_cong((*rqst.as_ptr()).rq_xprt, rqst.as_ptr()) } {
        return CallbackStatus::NoCredit.to_errno();
    }
    let sent = connection.call_back(&call);
    if sent == Err(CallbackStatus::NotConnected) {
        // sunrpc would send again immediately as long as it believes in the connection.
        // SAFETY: The request has a valid object, whose locks this thread does not have.
        unsafe { bindings::xprt_disconnect_done((*rqst.as_ptr()).rq_xprt) };
    }
    sent.map_or_else(CallbackStatus::to_errno, |()| 0)
}

/// `buf_alloc` of `struct rpc_xprt_ops`: one piece of memory for the call and its reply.
///
/// # Safety
///
/// Only sunrpc may call this, for the task that runs, with a request.
unsafe extern "C" fn buf_alloc(task: *mut bindings::rpc_task) -> c_int {
    // SAFETY: By the safety requirements of this function the task has a request, which only the
    // task uses now.
    let rqst = unsafe { &mut *(*task).tk_rqstp };
    let size = rqst.rq_callsize.saturating_add(rqst.rq_rcvsize).max(1);
    // Reclaim could wait for the client that this call is for. Without memory sunrpc tries again.
    let Ok(memory) = KVec::<u8>::with_capacity(size, GFP_NOWAIT | __GFP_NOWARN) else {
        return ENOMEM.to_errno();
    };
    let (memory, _, _) = memory.into_raw_parts();
    rqst.rq_buffer = memory.cast();
    // SAFETY: The memory is at least as long as the call.
    rqst.rq_rbuffer = unsafe { memory.add(rqst.rq_callsize) }.cast();
    0
}

/// `buf_free` of `struct rpc_xprt_ops`.
///
/// # Safety
///
/// Only sunrpc may call this, once for each [`buf_alloc`].
unsafe extern "C" fn buf_free(task: *mut bindings::rpc_task) {
    // SAFETY: By the safety requirements of this function the request has the memory of a
    // `KVec<u8>`, from kmalloc, which nothing uses any longer.
    drop(unsafe { Memory::from_raw((*(*task).tk_rqstp).rq_buffer) });
}

/// `connect` of `struct rpc_xprt_ops`: only the client can make a connection. Callers of ours ask
/// for none.
///
/// # Safety
///
/// Only sunrpc may call this, for an object of [`create`], with the write lock held.
unsafe extern "C" fn connect(xprt: *mut bindings::rpc_xprt, _task: *mut bindings::rpc_task) {
    // SAFETY: By the safety requirements of this function the object is valid, and being connected.
    // sunrpc pauses for three seconds after this error.
    unsafe {
        bindings::xprt_clear_connecting(xprt);
        bindings::xprt_wake_pending_tasks(xprt, EPIPE.to_errno());
    }
}

/// `close` of `struct rpc_xprt_ops`: the core closes the connection, or sunrpc gives it up.
///
/// # Safety
///
/// Only sunrpc may call this, for an object of [`create`].
unsafe extern "C" fn close<C: CallsBack>(xprt: *mut bindings::rpc_xprt) {
    // SAFETY: By the safety requirements of this function the object is valid.
    unsafe {
        bindings::xprt_disconnect_done(xprt);
        connection::<C>(xprt).close_callbacks();
    }
}

/// `destroy` of `struct rpc_xprt_ops`.
///
/// # Safety
///
/// Only sunrpc may call this, for an object of [`create`], once, and nothing after it.
unsafe extern "C" fn destroy<C: CallsBack>(xprt: *mut bindings::rpc_xprt) {
    let object = xprt.cast::<XprtAlloc>();
    // SAFETY: The object has both, from `create`; they are not used again.
    let (connection, handle) = unsafe {
        (
            Arc::<C>::from_foreign((*object).transport),
            Callbacks::from_raw((*object).handle),
        )
    };
    // SAFETY: The handle keeps the object.
    if unsafe { bindings::xprt_refs(xprt) } != 0 {
        // sunrpc had no memory for the rest of the object, and gives it up although `xpt_bc_xprt`
        // refers to it, which others may use for as long as the connection lives, or longer.
        pr_warn_once!("no memory for calls to a client: the module stays loaded for good\n");
        core::mem::forget(handle.clone());
    }
    drop(connection);
    // The last handle frees the object.
    drop(handle);
}

/// `inject_disconnect` of `struct rpc_xprt_ops`.
///
/// # Safety
///
/// Only sunrpc may call this, for an object of [`create`].
unsafe extern "C" fn inject_disconnect<C: CallsBack>(xprt: *mut bindings::rpc_xprt) {
    // SAFETY: By the safety requirements of this function the object is valid.
    unsafe { connection::<C>(xprt).close_callbacks() };
}

/// `print_stats` of `struct rpc_xprt_ops`: no mount shows them.
///
/// # Safety
///
/// None.
unsafe extern "C" fn print_stats(_xprt: *mut bindings::rpc_xprt, _seq: *mut bindings::seq_file) {}

/// The methods. Those of sunrpc itself stand in wherever they do the right thing.
const fn ops<C: CallsBack>() -> bindings::rpc_xprt_ops {
    bindings::rpc_xprt_ops {
        reserve_xprt: Some(bindings::xprt_reserve_xprt_cong),
        release_xprt: Some(bindings::xprt_release_xprt_cong),
        alloc_slot: Some(bindings::xprt_alloc_slot),
        free_slot: Some(bindings::xprt_free_slot),
        release_request: Some(bindings::xprt_release_rqst_cong),
        wait_for_reply_request: Some(bindings::xprt_wait_for_reply_request_def),
        buf_alloc: Some(buf_alloc),
        buf_free: Some(buf_free),
        send_request: Some(send_request::<C>),
        connect: Some(connect),
        close: Some(close::<C>),
        destroy: Some(destroy::<C>),
        print_stats: Some(print_stats),
        inject_disconnect: Some(inject_disconnect::<C>),
        ..pin_init::zeroed()
    }
}
