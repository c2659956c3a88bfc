// SPDX-License-Identifier: GPL-2.0

//! Calls of a server to its client, over the connection that the client has made (RFC 8167).
//!
//! For sunrpc such a call is one of a client, over a transport object of its own: the upper layer
//! asks for one by the number of the server's class. Each connection gets at most one, which stays
//! until the connection has ended and no client of sunrpc refers to it. The object keeps the
//! connection, and the connection the object's memory, until sunrpc calls `destroy`.
//!
//! A call that sunrpc gives up returns its credit, although the client may still serve it: so many
//! more calls than the client's grant may be outstanding, as with the in-tree server.

mod ops;

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    types::ForeignOwnable, //
};

use super::{
    object::Object,
    rqst::{
        Found,
        NoData,
        TooLong, //
    },
    window,
    Class, //
};
use crate::{
    bindings,
    os,
    sunrpc::{
        module::ModuleRef,
        spin::SpinGuard,
        CallbackStatus,
        XdrBuf, //
    }, //
};

/// A connection that calls to the client go over.
pub(crate) trait CallsBack: Sized + Send + Sync + 'static {
    /// The most calls that may be outstanding.
    const MOST_CALLS: u32;

    /// The class of the objects.
    fn class() -> &'static Class;

    /// Keeps the handle of the object that the upper layer calls over. Returns `false` if the
    /// connection has one already. May sleep.
    fn set_callbacks(this: ArcBorrow<'_, Self>, callbacks: Callbacks) -> bool;

    /// Bytes of the longest call and of the longest reply.
    fn longest_callback(&self) -> u32;

    /// Sends a call, which has a credit. One at a time; no sleeping.
    ///
    /// A call that is too long for the client counts as sent, and times out: an error would end
    /// whatever call sunrpc has at hand, and the upper layer make this one again immediately.
    ///
    /// # Errors
    ///
    /// The reason why it was not sent.
    fn call_back(&self, call: &Callback<'_>) -> Result<(), CallbackStatus>;

    /// sunrpc gives up the object, or the core the connection, which ends.
    fn close_callbacks(&self);
}

/// The memory of an object, dropped in this order.
struct Memory {
    object: Object,
    _module: ModuleRef,
}

/// A handle to the object that a server calls over. As long as it is there, so is the memory, also
/// after sunrpc is done with the object, which has no calls then.
#[derive(Clone)]
pub(crate) struct Callbacks(Arc<Memory>);

impl Callbacks {
    /// Allocates an object in `net` for up to `most` calls. sunrpc holds the module meanwhile.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The object must get the methods of [`ops`], and no others.
    unsafe fn alloc(net: os::Net<'_>, most: u32) -> Result<Self> {
        let object = Object::alloc(net, 1, most)?;
        // SAFETY: sunrpc holds the module while it sets up a transport of our class.
        let module = unsafe { ModuleRef::new() };
        let memory = Memory {
            object,
            _module: module,
        };

        Ok(Self(Arc::new(memory, GFP_KERNEL)?))
    }

    /// The C object.
    #[inline]
    fn as_ptr(&self) -> *mut bindings::rpc_xprt {
        self.0.object.as_ptr().as_ptr()
    }

    /// Gives the handle to the object itself.
    fn into_raw(self) -> *mut c_void {
        self.0.into_foreign()
    }

    /// Takes the handle back from the object.
    ///
    /// # Safety
    ///
    /// `raw` must be from [`Self::into_raw`], and not be used again.
    unsafe fn from_raw(raw: *mut c_void) -> Self {
        // SAFETY: By the safety requirements of this function `raw` is such a reference.
        Self(unsafe { Arc::from_foreign(raw) })
    }

    /// Lets `credits` calls be outstanding (RFC 8167, section 4.1).
    pub(crate) fn set_credits(&self, credits: u32) {
        let xprt = self.as_ptr();
        // SAFETY: The object and its lock are there as long as the handle; the field changes only
        // under the lock.
        unsafe {
            let _lock = SpinGuard::take(&raw mut (*xprt).transport_lock);
            (*xprt).cwnd = window(credits);
        }
    }

    /// The reply to the call with this xid has come; `payload` is the RPC reply. From now on
    /// `credits` calls may be outstanding. Returns `false` if no such call waits for one.
    pub(crate) fn complete(&self, xid: u32, payload: &[u8], credits: u32) -> bool {
        let Some(mut found) = self.find(xid) else {
            return false;
        };
        // The end of the call wakes the next one, which finds the new number.
        found.leave();
        self.set_credits(credits);
        match found.fill(payload, None) {
            Ok((len, _)) => found.finish(len),
            // It would not fit the next time either.
            Err(TooLong) => Self::end(found),
        }
        true
    }

    /// The client could not process the call with this xid, which ends with an I/O error. Returns
    /// `false` if no such call waits.
    pub(crate) fn fail(&self, xid: u32) -> bool {
        self.find(xid).map(Self::end).is_some()
    }

    /// Finds the call with this xid.
    fn find(&self, xid: u32) -> Option<Found<'_, NoData>> {
        // SAFETY: The object is there as long as the handle, and its requests are sunrpc's own.
        unsafe { Found::lookup(self.0.object.as_ptr(), xid) }
    }

    /// Ends a call with an I/O error.
    fn end(mut call: Found<'_, NoData>) {
        let len = call.write_error();
        call.finish(len);
    }
}

/// A call to the client that is to be sent.
///
/// # Invariants
///
/// `rqst` is valid during `'a`: sunrpc has pinned it, and it is encoded.
pub(crate) struct Callback<'a> {
    rqst: NonNull<bindings::rpc_rqst>,
    _rqst: PhantomData<&'a ()>,
}

impl Callback<'_> {
    /// Its xid.
    pub(crate) fn xid(&self) -> u32 {
        // SAFETY: Set when the task got the request, and not changed until it releases it.
        u32::from_be(unsafe { (*self.rqst.as_ptr()).rq_xid })
    }

    /// The RPC call.
    pub(crate) fn body(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants the call is encoded; it does not change while it is sent.
        unsafe { XdrBuf::new(&(*self.rqst.as_ptr()).rq_snd_buf) }
    }
}
