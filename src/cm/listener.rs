// SPDX-License-Identifier: GPL-2.0

//! Identifiers that listen.

use core::ptr::NonNull;

use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

use super::{
    id::{
        conn_param,
        private_data, //
    },
    EventHandler,
    Id,
    Incoming, //
};
use crate::{
    bindings,
    os::{
        series::ECONNREFUSED,
        Net, //
    },
    verbs::{
        Device,
        NameText, //
    }, //
};

/// The address of a socket, as the bindings have it.
type Address = bindings::__kernel_sockaddr_storage;

/// The request of a peer to connect, valid during the call that gets it.
pub(crate) struct Request<'a> {
    /// The private data, with the zeros that pad it.
    pub(crate) private_data: &'a [u8],
    /// RDMA Reads that the peer takes from us at a time.
    pub(crate) reads: u8,
    /// The address of this end, and of the peer.
    pub(crate) addresses: (Address, Address),
    /// The name of the device that it came over.
    pub(crate) device: NameText,
}

/// Receives the requests of peers.
///
/// The methods are called in process context, one at a time, on a workqueue that all connections of
/// the system share: they must not wait for anything.
pub(crate) trait RequestHandler: Send + Sync + 'static {
    /// The handler of the events of a new connection.
    type Peer: EventHandler;

    /// A peer requests a connection. Returns the handler of its events from now on; `None` rejects
    /// the request.
    fn requested(&self, request: &Request<'_>) -> Option<Arc<Self::Peer>>;

    /// Takes the request to which [`Self::requested`] has agreed.
    ///
    /// # Errors
    ///
    /// The request, which is rejected.
    fn take(&self, incoming: Incoming<Self::Peer>) -> Result<(), Incoming<Self::Peer>>;

    /// The device is being removed, or the address has moved: no requests come from now on.
    fn lost(&self);
}

/// An identifier that listens. Dropping it waits for a handler that runs.
///
/// # Invariants
///
/// `raw` is a valid identifier, owned by this value, whose context points to `handler`.
pub(crate) struct Listening<R: RequestHandler> {
    raw: NonNull<bindings::rdma_cm_id>,
    _handler: Arc<R>,
}

// SAFETY: rdma_cm's functions may be called from any thread, and `R` is `Send` and `Sync`.
unsafe impl<R: RequestHandler> Send for Listening<R> {}
// SAFETY: The identifier may be used from any thread: rdma_cm locks it, and `R` is `Sync`.
unsafe impl<R: RequestHandler> Sync for Listening<R> {}

impl<R: RequestHandler> Listening<R> {
    /// Listens at `at` in the network namespace `net`, with up to `backlog` requests that are not
    /// handled. An address of IPv6 is for IPv6 alone.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the error that rdma_cm returns, such as `EADDRINUSE`.
    pub(crate) fn new(net: Net<'_>, at: &Address, backlog: u32, handler: Arc<R>) -> Result<Self> {
        let context = Arc::as_ptr(&handler).cast_mut().cast();
        let mut at = *at;

        // SAFETY: `net` is valid; `context` stays valid until the identifier is destroyed, since
        // `handler` is kept.
        let raw = from_err_ptr(unsafe {
            bindings::rdma_create_id(net.as_ptr(), Some(listener_callback::<R>), context)
        })?;
        // INVARIANT: `rdma_create_id` has made it for this value alone, with `context`.
        let this = Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            _handler: handler,
        };
        let at = (&raw mut at).cast::<bindings::sockaddr>();
        // SAFETY: The identifier is valid; the storage has room for any address, and begins with
        // its family.
        unsafe {
            if u32::from((*at).sa_family) == bindings::AF_INET6 {
                to_result(bindings::rdma_set_afonly(raw, 1))?;
            }
            to_result(bindings::rdma_bind_addr(raw, at))?;
            to_result(bindings::rdma_listen(raw, c_int::try_from(backlog)?))?;
        }
        Ok(this)
    }

    /// The address that it listens at.
    pub(crate) fn address(&self) -> Address {
        // SAFETY: The identifier is valid by its type invariants; the address does not change once
        // it is bound.
        unsafe { (*self.raw.as_ptr()).route.addr.src_addr }
    }
}

impl<R: RequestHandler> Drop for Listening<R> {
    fn drop(&mut self) {
        // SAFETY: Owned by this value and destroyed only here, outside any handler. The call waits
        // for a running handler, after which none is called.
        unsafe { bindings::rdma_destroy_id(self.raw.as_ptr()) }
    }
}

/// The request that has made the identifier `id`.
///
/// # Safety
///
/// `id` must be a new identifier whose handler runs, for `event`, a request, which must stay valid
/// as long as the result is used.
unsafe fn request<'a>(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> Request<'a> {
    // SAFETY: This kind of event carries connection parameters.
    let (private_data, reads) = unsafe { (private_data(event), conn_param(event).initiator_depth) };
    // SAFETY: `id` is valid. A request comes over a device, which the identifier keeps, and with
    // the addresses, which do not change.
    let (addresses, device) = unsafe {
        let addr = &raw const (*id).route.addr;
        (
            ((*addr).src_addr, (*addr).dst_addr),
            Device::name_of((*id).device),
        )
    };

    Request {
        private_data,
        reads,
        addresses,
        device,
    }
}

/// Hands a request to the handler. Any other result than 0 destroys the new identifier, which
/// rejects the request.
///
/// # Safety
///
/// Called by rdma_cm with a valid event, and with a live identifier of a `Listening<R>`, or a new
/// one that a request has made from it.
unsafe extern "C" fn listener_callback<R: RequestHandler>(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: The context of a `Listening<R>` is its handler, which it keeps; a new identifier has
    // the same context until `Id::adopt`. Destroying the listener waits for this callback.
    let handler = unsafe { &*(*id).context.cast::<R>() };
    // SAFETY: `event` is valid during the call.
    match unsafe { (*event).event } {
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST => (),
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL
        | bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => {
            handler.lost();
            return 0;
        }
        _ => return 0,
    }
    // SAFETY: `id` is a new identifier with a request, whose parameters `event` carries.
    let request = unsafe { request(id, event) };
    let reads = request.reads;
    let Some(peer) = handler.requested(&request) else {
        return ECONNREFUSED.to_errno();
    };
    // SAFETY: `id` is a new identifier, whose handler runs here; nothing else owns it.
    let incoming = Incoming::new(unsafe { Id::adopt(id, peer) }, reads);
    match handler.take(incoming) {
        Ok(()) => 0,
        Err(incoming) => {
            incoming.disown();
            ECONNREFUSED.to_errno()
        }
    }
}
