// SPDX-License-Identifier: GPL-2.0

//! The method table of a transport, from a Rust trait.

use core::ptr::NonNull;

use kernel::{
    ffi::{
        c_int,
        c_uint,
        c_ulong,
        c_ushort, //
    },
    prelude::*,
    seq_file::SeqFile,
    sync::{
        Arc,
        ArcBorrow, //
    },
    types::ForeignOwnable, //
};

use super::{
    names,
    slot,
    window,
    Backchannel,
    Call,
    ConnectLock,
    ReverseReply,
    SlotData,
    Slots,
    Transport,
    WriteLock,
    Xprt,
    XprtAlloc, //
};
use crate::{
    bindings,
    sunrpc::{
        spin::SpinGuard,
        SendStatus, //
    }, //
};

mod setup;

/// The transport behind `xprt`.
///
/// # Safety
///
/// `xprt` must be a transport object of class `T::class()`, between set-up and the end of
/// `destroy`.
#[inline]
unsafe fn transport<'a, T: Transport>(xprt: *mut bindings::rpc_xprt) -> ArcBorrow<'a, T> {
    // SAFETY: Such objects are the first field of an `XprtAlloc`, which holds an `Arc<T>` during
    // that time.
    unsafe { Arc::<T>::borrow((*xprt.cast::<XprtAlloc>()).transport) }
}

/// The requests of `xprt`.
///
/// # Safety
///
/// As [`transport`], with requests that are used during `'a`.
#[inline]
unsafe fn slots<'a, T: Transport>(xprt: *mut bindings::rpc_xprt) -> &'a Slots<T::Slot> {
    // SAFETY: Such objects are the first field of an `XprtAlloc`, which holds the handle of the
    // object during that time.
    unsafe { Xprt::slots_of_raw((*xprt.cast::<XprtAlloc>()).handle) }
}

/// The write lock of `xprt`.
///
/// # Safety
///
/// `xprt` must be valid, and the running task must hold its write lock, during `'a`.
#[inline]
unsafe fn write_lock<'a>(xprt: *mut bindings::rpc_xprt) -> WriteLock<'a> {
    // SAFETY: By the safety requirements of this function the lock is held; the methods below are
    // called one at a time for one transport, and each makes one value.
    unsafe { WriteLock::assume(NonNull::new_unchecked(xprt)) }
}

/// The methods of a `T`.
pub(super) struct Table<T>(core::marker::PhantomData<T>);

impl<T: Transport> Table<T> {
    /// The table for C. Methods of sunrpc itself stand in wherever they do the right thing.
    pub(super) const OPS: bindings::rpc_xprt_ops = bindings::rpc_xprt_ops {
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
        prepare_request: Some(prepare_request),
        send_request: Some(send_request::<T>),
        timer: Some(timer::<T>),
        close: Some(close::<T>),
        destroy: Some(setup::destroy::<T>),
        set_connect_timeout: Some(set_connect_timeout),
        print_stats: Some(print_stats::<T>),
        enable_swap: Some(enable_swap::<T>),
        disable_swap: Some(disable_swap),
        inject_disconnect: Some(inject_disconnect),
        bc_setup: Some(bc_setup::<T>),
        bc_maxpayload: Some(bc_maxpayload::<T>),
        bc_num_slots: Some(bc_num_slots::<T>),
        bc_free_rqst: Some(bc_free_rqst),
        bc_destroy: Some(bc_destroy),
        ..pin_init::zeroed()
    };
}

// The safety section of every method below: called by sunrpc as `struct rpc_xprt_ops` says, with an
// object of class `T::class()` that is set up and not yet destroyed, and a task or request of that
// transport.

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn alloc_slot<T: Transport>(
    xprt: *mut bindings::rpc_xprt,
    task: *mut bindings::rpc_task,
) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    unsafe { slots::<T>(xprt).alloc(xprt, task) }
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn free_slot<T: Transport>(
    xprt: *mut bindings::rpc_xprt,
    rqst: *mut bindings::rpc_rqst,
) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    unsafe { slots::<T>(xprt).free(xprt, rqst) }
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn set_port<T: Transport>(xprt: *mut bindings::rpc_xprt, port: c_ushort) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    unsafe { names::set_port(xprt, port) }
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn connect<T: Transport>(
    xprt: *mut bindings::rpc_xprt,
    task: *mut bindings::rpc_task,
) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    let (transport, handle) = unsafe {
        (
            transport::<T>(xprt),
            Xprt::of_raw((*xprt.cast::<XprtAlloc>()).handle),
        )
    };
    // SAFETY: `task` holds the write lock.
    match unsafe { ConnectLock::take(handle, task) } {
        Some(lock) => T::connect(transport, lock),
        None => {
            // sunrpc calls this with the lock held; without it the lock would stay taken.
            // SAFETY: Has no preconditions.
            unsafe { bindings::warn_on(true) };
        }
    }
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn buf_alloc<T: Transport>(task: *mut bindings::rpc_task) -> c_int {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    // The request belongs to the task.
    let done = unsafe {
        let rqst = (*task).tk_rqstp;
        slots::<T>((*rqst).rq_xprt).alloc_buffers(rqst)
    };
    if done {
        0
    } else {
        ENOMEM.to_errno()
    }
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn buf_free<T: Transport>(task: *mut bindings::rpc_task) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    let (transport, slot) = unsafe {
        let rqst = (*task).tk_rqstp;
        (
            transport::<T>((*rqst).rq_xprt),
            slot::Slot::<T::Slot>::of(rqst),
        )
    };
    if !slot.is_completed() {
        release(transport, &slot.data);
    }
}

/// Has the transport release the buffers of a call that was not completed, and sees that it does.
#[cold]
#[inline(never)]
fn release<T: Transport>(transport: ArcBorrow<'_, T>, slot: &T::Slot) {
    transport.release_buffers(slot);
    slot.wait_until_unreachable();
}

/// A task is done with its request: takes the credit back.
///
/// # Safety
///
/// For sunrpc to call, as said above, under `transport_lock`.
unsafe extern "C" fn release_request<T: Transport>(task: *mut bindings::rpc_task) {
    // SAFETY: sunrpc calls this with a task of a transport of the class. Its request is still that
    // of the task, and has left the queues of sunrpc, so that its fields are final but for those
    // that change under the lock, which is held, as the window of the transport does. Requests that
    // are not reverse calls are those of slots.
    unsafe {
        let rqst = (*task).tk_rqstp;
        if bindings::bc_prealloc(rqst) != 0 {
            // A reverse reply has only looked as if it had a credit (`Backchannel::deliver`).
            (*rqst).rq_cong = 0;
            return;
        }
        if (*rqst).rq_reply_bytes_recvd == 0 {
            let xprt = (*rqst).rq_xprt;
            let slot = slot::Slot::<T::Slot>::of(rqst);
            if let Some(credits) = transport::<T>(xprt).released(&slot.data) {
                (*xprt).cwnd = window(credits);
            }
        }
        bindings::xprt_release_rqst_cong(task);
    }
}

/// Fills in the pages that the upper layer has left to the transport.
///
/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn prepare_request(
    _rqst: *mut bindings::rpc_rqst,
    buf: *mut bindings::xdr_buf,
) -> c_int {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    unsafe { setup::fill_sparse_pages(buf) }
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn send_request<T: Transport>(rqst: *mut bindings::rpc_rqst) -> c_int {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    let (transport, mut lock, reverse) = unsafe {
        (
            transport::<T>((*rqst).rq_xprt),
            write_lock((*rqst).rq_xprt),
            bindings::bc_prealloc(rqst) != 0,
        )
    };
    let Some(rqst) = NonNull::new(rqst) else {
        return 0;
    };

    let result = if reverse {
        // SAFETY: Preallocated requests are those of the backchannel.
        transport.send_reverse(&mut lock, &unsafe { ReverseReply::new(rqst) })
    } else {
        // SAFETY: All others are those of the slot table; sunrpc has pinned it and holds the write
        // lock.
        transport.send(&mut lock, unsafe { Call::new(rqst) })
    };
    result.map_or_else(SendStatus::to_errno, |()| 0)
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn timer<T: Transport>(
    xprt: *mut bindings::rpc_xprt,
    _task: *mut bindings::rpc_task,
) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    unsafe { transport::<T>(xprt) }.timed_out();
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn close<T: Transport>(xprt: *mut bindings::rpc_xprt) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    // sunrpc holds the write lock.
    unsafe { transport::<T>(xprt).close(&mut write_lock(xprt)) };
}

/// Shortens the time that attempts to connect may take.
///
/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn set_connect_timeout(
    xprt: *mut bindings::rpc_xprt,
    connect: c_ulong,
    reconnect: c_ulong,
) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    // The lock is valid, and the fields change only under it.
    unsafe {
        let _lock = SpinGuard::take(&raw mut (*xprt).transport_lock);
        (*xprt).connect_timeout = (*xprt).connect_timeout.min(connect);
        (*xprt).max_reconnect_timeout = (*xprt).max_reconnect_timeout.min(reconnect);
    }
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn print_stats<T: Transport>(
    xprt: *mut bindings::rpc_xprt,
    seq: *mut bindings::seq_file,
) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    // `seq` is valid during the call.
    let (transport, seq) = unsafe { (transport::<T>(xprt), SeqFile::from_raw(seq)) };
    transport.print_stats(seq);
}

/// A swap file is behind the transport from now on: sunrpc sends from the memory reserves, and so
/// does the worker that connects.
///
/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn enable_swap<T: Transport>(xprt: *mut bindings::rpc_xprt) -> c_int {
    // As many as there is memory for: sunrpc does not undo what it has done before if this fails.
    // SAFETY: sunrpc calls this with a transport of the class, which is valid during the call.
    unsafe { slots::<T>(xprt).make_all(xprt) };
    // SAFETY: The transport is valid during the call.
    unsafe { bindings::xprt_swapper_inc(xprt) };
    0
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn disable_swap(xprt: *mut bindings::rpc_xprt) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    unsafe { bindings::xprt_swapper_dec(xprt) };
}

/// Fault injection: loses the connection.
///
/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn inject_disconnect(xprt: *mut bindings::rpc_xprt) {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    unsafe { bindings::xprt_force_disconnect(xprt) };
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn bc_setup<T: Transport>(xprt: *mut bindings::rpc_xprt, _min: c_uint) -> c_int {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    match unsafe { transport::<T>(xprt) }.reverse_set_up() {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn bc_maxpayload<T: Transport>(xprt: *mut bindings::rpc_xprt) -> usize {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    unsafe { transport::<T>(xprt) }.reverse_payload()
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn bc_num_slots<T: Transport>(xprt: *mut bindings::rpc_xprt) -> c_uint {
    // SAFETY: sunrpc calls this with a transport of the class, and with tasks and requests of it.
    unsafe { transport::<T>(xprt) }.reverse_slots()
}

/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn bc_free_rqst(rqst: *mut bindings::rpc_rqst) {
    let Some(rqst) = NonNull::new(rqst) else {
        return;
    };
    // SAFETY: Every request with this operation came from `Backchannel::deliver`.
    unsafe { Backchannel::free(rqst) };
}

/// The slots stay until the transport goes: sessions come and go on a live transport (H-72).
///
/// # Safety
///
/// For sunrpc to call, as said above.
unsafe extern "C" fn bc_destroy(_xprt: *mut bindings::rpc_xprt, _max: c_uint) {}
