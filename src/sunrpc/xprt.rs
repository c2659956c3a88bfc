// SPDX-License-Identifier: GPL-2.0

//! Client transports: the object, its parts and its methods.
//!
//! - [`transport`]: the trait, [`ops`]: the methods that C calls, [`class`]: how they are found.
//! - This file: the object's memory, and a handle to it, for any task.
//! - [`write_lock`], [`connect_lock`]: rights of the holder of the write lock.
//! - [`slot`]: the requests; [`rqst`]: one of them, on its way out and when its reply has come.
//! - [`backchannel`]: the requests of the reverse direction; [`callback`]: the other end of it, the
//!   transport that a server calls its clients over.
//! - [`names`], [`info`]: strings and counters for users.

/// Reads a field of the object behind a handle. Others may change it at the same time, which C
/// marks with `READ_ONCE`; a field of several words is read word by word, each at some moment.
macro_rules! read_once {
    ($xprt:expr, $field:ident $(. $part:ident)?) => {{
        let xprt: &Xprt<_> = $xprt;
        // SAFETY: The object is valid as long as its handle, and any bits are a value of the field.
        unsafe { (&raw const (*xprt.as_ptr()).$field $(. $part)?).read_volatile() }
    }};
}

mod backchannel;
mod call;
mod callback;
mod class;
mod connect_lock;
mod info;
mod names;
mod object;
mod ops;
mod rqst;
mod slot;
mod transport;
mod write_lock;

use core::ptr::NonNull;

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::Arc,
    types::ForeignOwnable, //
};

use super::{
    module::ModuleRef,
    spin::SpinGuard, //
};
use crate::{
    bindings,
    os, //
};

use backchannel::Backchannel;
pub(crate) use backchannel::{
    DeliverError,
    ReverseReply, //
};
pub(crate) use call::{
    Call,
    PostedCall, //
};
pub(crate) use callback::{
    Callback,
    Callbacks,
    CallsBack, //
};
pub(crate) use class::{
    Class,
    Names,
    Registration, //
};
pub(crate) use connect_lock::ConnectLock;
pub(crate) use info::Load;
use object::{
    Object,
    XprtAlloc, //
};
pub(crate) use rqst::{
    Found,
    Pinned, //
};
pub(crate) use slot::{
    SlotData,
    Slots, //
};
pub(crate) use transport::{
    Params,
    Transport, //
};
pub(crate) use write_lock::{
    WriteLock,
    WriteLocked, //
};

/// The congestion window that lets `credits` calls be outstanding.
#[inline]
pub(super) fn window(credits: u32) -> usize {
    usize::try_from(credits).unwrap_or(1) << bindings::RPC_CWNDSHIFT
}

/// The memory behind a handle: the transport object with its requests and its slots of the reverse
/// direction. All handles to an object share it.
///
/// The fields are dropped in this order, the module last, since it may be unloaded after that.
#[pin_data]
struct XprtMemory<S> {
    slots: Arc<Slots<S>>,
    #[pin]
    backchannel: Backchannel,
    object: Object,
    _module: ModuleRef,
}

/// A handle to a transport object, whose requests have data of type `S`.
///
/// It keeps the memory, not the object's life in sunrpc: after `destroy` a handle still works, and
/// a request to disconnect has no effect. So a connection can hold one without keeping its
/// transport alive.
///
/// # Invariants
///
/// The object in the memory is valid as long as the handle.
pub(crate) struct Xprt<S> {
    memory: Arc<XprtMemory<S>>,
}

impl<S> Clone for Xprt<S> {
    fn clone(&self) -> Self {
        Self {
            memory: self.memory.clone(),
        }
    }
}

impl<S: SlotData> Xprt<S> {
    /// Allocates a transport object in `net` for up to `requests` requests. sunrpc holds the module
    /// during the call.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the error of [`SlotData::new`].
    ///
    /// # Safety
    ///
    /// The object must get the methods of a [`super::Transport`] whose requests have data of type
    /// `S`, and no others.
    pub(super) unsafe fn alloc(net: os::Net<'_>, requests: u32) -> Result<Self> {
        let object = Object::alloc(net, 0, requests)?;
        let raw = object.as_ptr();
        // SAFETY: sunrpc holds the module while it sets up a transport of our class.
        let module = unsafe { ModuleRef::new() };
        // SAFETY: Both are in the same memory. A reference to the object keeps it from being
        // destroyed, and until then it has a handle to that memory.
        let backchannel = unsafe { Backchannel::new(raw) };
        let slots = Slots::new(requests)?;

        let memory = Arc::pin_init(
            pin_init!(XprtMemory {
                slots,
                backchannel <- backchannel,
                object,
                _module: module,
            }),
            GFP_KERNEL,
        )?;
        Ok(Self { memory })
    }
}

impl<S: Send + Sync + 'static> Xprt<S> {
    /// Gives the handle to the object itself.
    pub(super) fn into_raw(self) -> *mut c_void {
        self.memory.into_foreign()
    }

    /// Takes the handle back from the object.
    ///
    /// # Safety
    ///
    /// `raw` must be from [`Self::into_raw`], with the same type, and not be used again.
    pub(super) unsafe fn from_raw(raw: *mut c_void) -> Self {
        Self {
            // SAFETY: By the safety requirements of this function `raw` is such a reference.
            memory: unsafe { Arc::from_foreign(raw) },
        }
    }

    /// Clones the handle behind `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must be from [`Self::into_raw`], with the same type, and not yet taken back.
    pub(super) unsafe fn of_raw(raw: *mut c_void) -> Self {
        // SAFETY: By the safety requirements of this function the memory is valid.
        let memory = unsafe { Arc::<XprtMemory<S>>::borrow(raw) };
        Self {
            memory: memory.into(),
        }
    }

    /// The requests of the object behind `raw`.
    ///
    /// # Safety
    ///
    /// As [`Self::of_raw`], during `'a`.
    #[inline]
    pub(super) unsafe fn slots_of_raw<'a>(raw: *mut c_void) -> &'a Slots<S> {
        // SAFETY: By the safety requirements of this function the memory is valid during `'a`, and
        // its reference to the requests does not change.
        unsafe {
            let memory = Arc::<XprtMemory<S>>::borrow(raw);
            &*core::ptr::from_ref::<Slots<S>>(&memory.slots)
        }
    }
}

impl<S> Xprt<S> {
    /// The C object.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::rpc_xprt {
        self.memory.object.as_ptr().as_ptr()
    }

    /// The C object, which is there as long as the handle.
    #[inline]
    pub(super) fn as_non_null(&self) -> NonNull<bindings::rpc_xprt> {
        self.memory.object.as_ptr()
    }

    /// All requests of the transport.
    pub(crate) fn slots(&self) -> &Arc<Slots<S>> {
        &self.memory.slots
    }

    /// The slots for calls in the reverse direction.
    pub(crate) fn backchannel(&self) -> &Backchannel {
        &self.memory.backchannel
    }

    /// sunrpc's number for the transport, in sysfs and debugfs.
    pub(crate) fn id(&self) -> u32 {
        read_once!(self, id)
    }

    /// Returns `true` if sunrpc may send over it.
    #[inline]
    pub(crate) fn is_connected(&self) -> bool {
        // SAFETY: By the type invariants the object is valid; the function takes it in any state.
        unsafe { bindings::xprt_connected(self.as_ptr()) != 0 }
    }

    /// The number of the connection, as sunrpc counts them.
    #[inline]
    pub(crate) fn connect_cookie(&self) -> u32 {
        read_once!(self, connect_cookie)
    }

    /// Asks sunrpc to close the connection. May be called from any process context; does not wait.
    pub(crate) fn force_disconnect(&self) {
        // SAFETY: By the type invariants the object is valid. After `destroy` its write lock stays
        // taken, so this only sets a flag.
        unsafe { bindings::xprt_force_disconnect(self.as_ptr()) };
    }

    /// Returns `true` once sunrpc has dropped its last reference: it only waits for the write lock
    /// to destroy the object.
    pub(crate) fn is_released(&self) -> bool {
        // SAFETY: The memory is valid, and with it the reference count.
        unsafe { bindings::xprt_refs(self.as_ptr()) == 0 }
    }

    /// No message is sent from now on until [`Self::space_available`]. Only valid while something
    /// outstanding is certain to call that.
    pub(crate) fn wait_for_buffer_space(&self) {
        // SAFETY: By the type invariants the object is valid; the function takes it in any state.
        unsafe { bindings::xprt_wait_for_buffer_space(self.as_ptr()) };
    }

    /// Returns `true` if a sender waits for [`Self::space_available`].
    #[inline]
    pub(crate) fn is_space_wanted(&self) -> bool {
        // SAFETY: By the type invariants the object is valid; the function takes it in any state.
        unsafe { bindings::xprt_is_space_wanted(self.as_ptr()) }
    }

    /// Wakes a sender that waits for room to send. Cheap when no sender waits.
    #[inline]
    pub(crate) fn space_available(&self) {
        // SAFETY: By the type invariants the object is valid; the function takes it in any state.
        unsafe { bindings::xprt_write_space(self.as_ptr()) };
    }

    /// Finds the call with this transaction identifier in sunrpc's receive queue, and stays in the
    /// section of `queue_lock`.
    #[inline]
    pub(crate) fn find(&self, xid: u32) -> Option<Found<'_, S>> {
        // SAFETY: The object is valid, and its requests are in a `Slots<S>`.
        unsafe { Found::lookup(NonNull::new(self.as_ptr())?, xid) }
    }

    /// Sets the number of calls that may be outstanding to the result of `credits`, called under
    /// `transport_lock`, which [`Transport::released`] is called under, too.
    pub(crate) fn set_credits(&self, credits: impl Fn() -> u32) {
        let lock = self.lock();

        self.store_window(&lock, credits());
    }

    /// Takes `transport_lock`, which protects the accounting of credits.
    #[inline]
    fn lock(&self) -> SpinGuard<'_> {
        // SAFETY: The object and its lock are there as long as the handle.
        unsafe { SpinGuard::take(&raw mut (*self.as_ptr()).transport_lock) }
    }

    /// Sets the congestion window, under the lock of [`Self::lock`].
    fn store_window(&self, _lock: &SpinGuard<'_>, credits: u32) {
        // SAFETY: The object is valid, and the field changes only under the lock.
        unsafe { (*self.as_ptr()).cwnd = window(credits) };
    }

    /// Raises the number of calls that may be outstanding, and wakes a sender: for use outside the
    /// completion of a call, which would wake one (H-66).
    pub(crate) fn raise_credits(&self, credits: impl Fn() -> u32) {
        let lock = self.lock();

        self.store_window(&lock, credits());
        self.end_window_wait(lock);
    }

    /// Wakes a sender that waits as if for a credit ([`Call::give_credit_back`]).
    pub(crate) fn wake_sender(&self) {
        self.end_window_wait(self.lock());
    }

    /// Ends the wait of senders for credits.
    fn end_window_wait(&self, lock: SpinGuard<'_>) {
        // SAFETY: The object is valid; sunrpc changes the bit under the same lock.
        unsafe { bindings::xprt_clear_cwnd_wait(self.as_ptr()) };
        drop(lock);
        // Tasks that wait for a credit and tasks that wait for buffers sleep on the same queue.
        self.wait_for_buffer_space();
        self.space_available();
    }

    /// Starts the accounting of credits again, with one: no call holds a credit (V1-31).
    pub(crate) fn reset_credits(&self) {
        let lock = self.lock();

        for rqst in self.memory.slots.rqsts() {
            // SAFETY: The requests live as long as the table, whose transport has the lock; the
            // field changes only under it.
            unsafe { (*rqst).rq_cong = 0 };
        }
        // SAFETY: The object is valid, and the field changes only under the lock.
        unsafe { (*self.as_ptr()).cong = 0 };
        self.store_window(&lock, 1);
    }

    /// The time limit of an attempt to connect, in jiffies.
    pub(crate) fn connect_timeout(&self) -> usize {
        read_once!(self, connect_timeout)
    }

    /// The requests that the transport may have.
    pub(crate) fn max_requests(&self) -> u32 {
        read_once!(self, max_reqs)
    }

    /// Returns `true` if a swap file is behind the transport.
    pub(crate) fn is_swapping(&self) -> bool {
        // SAFETY: By the type invariants the object is valid; the function takes it in any state.
        unsafe { bindings::xprt_swapper_read(self.as_ptr()) != 0 }
    }

    /// The network namespace that the transport belongs to.
    pub(crate) fn net(&self) -> os::Net<'_> {
        let net = read_once!(self, xprt_net);
        // SAFETY: The object holds a reference to its namespace as long as the handle is there.
        unsafe { os::Net::new(net) }
    }

    /// The largest READ or WRITE payload that the upper layer may use, in bytes.
    pub(crate) fn max_payload(&self) -> u32 {
        u32::try_from(read_once!(self, max_payload)).unwrap_or(u32::MAX)
    }

    /// Resets the back-off: the connection works, so that the next attempt need not wait.
    pub(crate) fn reset_backoff(&self) {
        // SAFETY: The object is valid; a word that only the backoff uses, which takes any value.
        unsafe { (&raw mut (*self.as_ptr()).reestablish_timeout).write_volatile(0) };
    }
}
