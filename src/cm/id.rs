// SPDX-License-Identifier: GPL-2.0

//! Connection identifiers.

use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};

use kernel::{
    error::from_err_ptr,
    ffi::c_int,
    fmt,
    prelude::*,
    sync::Arc, //
};

use super::Reject;
use crate::{
    bindings,
    os::Net,
    verbs::Device, //
};

/// An event of an identifier.
pub(crate) enum Event<'a> {
    /// The peer's address is known, and with it the local device.
    AddressResolved,
    /// The route to the peer is known.
    RouteResolved,
    /// Connected; the peer sent this private data, valid only now.
    Established(&'a [u8]),
    /// The peer has rejected the connection.
    Rejected(Reject),
    /// Resolving or connecting has failed with this (negative) errno.
    Failed(c_int),
    /// The peer cannot be reached, with this (negative) errno. Software for RoCE also reports this,
    /// at any time, when a neighbour's address changes.
    Unreachable(c_int),
    /// The connection has ended.
    Disconnected,
    /// The local address has moved to another interface.
    AddressChanged,
    /// The device is being removed, which waits for this identifier to be dropped.
    DeviceRemoval,
}

/// Receives the events of an identifier.
pub(crate) trait EventHandler: Send + Sync + 'static {
    /// Called in process context, one event at a time, on a workqueue that all connections of the
    /// system share: it must not wait for anything.
    fn event(&self, event: Event<'_>);
}

/// A connection identifier. The first step of an active side is [`Self::resolve_address`]; that of
/// a passive side comes with a request ([`Incoming`](super::Incoming)).
///
/// # Invariants
///
/// `raw` is a valid identifier, owned by this value, whose context points to `handler`.
pub(crate) struct Id<H: EventHandler> {
    raw: NonNull<bindings::rdma_cm_id>,
    handler: Arc<H>,
}

// SAFETY: rdma_cm's functions may be called from any thread, and `H` is `Send` and `Sync`.
unsafe impl<H: EventHandler> Send for Id<H> {}
// SAFETY: The identifier may be used from any thread: rdma_cm locks it, and `H` is `Sync`.
unsafe impl<H: EventHandler> Sync for Id<H> {}

impl<H: EventHandler> Id<H> {
    /// Makes an identifier in the network namespace `net`, and keeps a reference to it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(net: Net<'_>, handler: Arc<H>) -> Result<Self> {
        let context = Arc::as_ptr(&handler).cast_mut().cast();

        // SAFETY: `net` is valid; `context` stays valid until the identifier is destroyed, since
        // `handler` is kept.
        let raw = from_err_ptr(unsafe {
            bindings::rdma_create_id(net.as_ptr(), Some(event_callback::<H>), context)
        })?;
        // INVARIANT: `rdma_create_id` has made it for this value alone, with `context`.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            handler,
        })
    }

    /// Takes over `id`, which a request has made, and gives its events to `handler` from now on.
    ///
    /// # Safety
    ///
    /// `id` must be valid and the caller's, and the caller run as its handler, so that no other
    /// event is under way.
    pub(super) unsafe fn adopt(id: *mut bindings::rdma_cm_id, handler: Arc<H>) -> Self {
        // SAFETY: By the safety requirements of this function the identifier is valid, and nothing
        // reads the fields now: rdma_cm does under the lock that the caller's handler runs in.
        unsafe {
            (*id).context = Arc::as_ptr(&handler).cast_mut().cast();
            (*id).event_handler = Some(event_callback::<H>);
        }
        // INVARIANT: The context is set above; the identifier was the caller's.
        Self {
            // SAFETY: A valid identifier is not at address 0.
            raw: unsafe { NonNull::new_unchecked(id) },
            handler,
        }
    }

    /// Leaves the identifier to rdma_cm, which destroys it without another event: the running
    /// handler of its request returns an error.
    pub(super) fn disown(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: The value is not used again, so that the reference is dropped once.
        drop(unsafe { core::ptr::read(&this.handler) });
    }

    /// The handler of its events.
    pub(super) fn handler(&self) -> &Arc<H> {
        &self.handler
    }

    /// The C object.
    pub(super) fn as_ptr(&self) -> *mut bindings::rdma_cm_id {
        self.raw.as_ptr()
    }

    /// The port of the device, and our address on it; both are known once the address is resolved.
    pub(super) fn local(&self) -> (u32, Gid) {
        let mut gid: bindings::ib_gid = pin_init::zeroed();

        // SAFETY: The identifier is valid by its type invariants. Its port and its device's address
        // do not change once the address is resolved.
        unsafe {
            bindings::rdma_read_gids(self.as_ptr(), &mut gid, core::ptr::null_mut());
            ((*self.as_ptr()).port_num, Gid(*gid.raw.as_ref()))
        }
    }

    /// The device that leads to the peer.
    ///
    /// # Errors
    ///
    /// `ENODEV` before the address is resolved, or when the device is being removed; `ENOMEM`.
    pub(super) fn device(&self) -> Result<Arc<Device>> {
        // SAFETY: The identifier is valid by its type invariants. Once it has a device it keeps the
        // memory of that until it is destroyed.
        unsafe { Device::get((*self.as_ptr()).device) }
    }
}

/// An address of a port.
#[derive(Clone, Copy)]
pub(crate) struct Gid([u8; 16]);

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pair) in self.0.chunks_exact(2).enumerate() {
            if i != 0 {
                f.write_str(":")?;
            }
            pair.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        Ok(())
    }
}

impl<H: EventHandler> Drop for Id<H> {
    fn drop(&mut self) {
        // SAFETY: Owned by this value and destroyed only here, outside any handler. The call waits
        // for a running handler, after which none is called.
        unsafe { bindings::rdma_destroy_id(self.as_ptr()) }
    }
}

/// Turns a C event into ours. Always returns 0: the identifier stays with its owner.
///
/// # Safety
///
/// Called by rdma_cm with a live identifier of an `Id<H>` and a valid event.
unsafe extern "C" fn event_callback<H: EventHandler>(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: The context of an `Id<H>` is its handler, which the id keeps.
    let handler = unsafe { &*(*id).context.cast::<H>() };
    // SAFETY: `event` is valid during the call.
    let (kind, status) = unsafe { ((*event).event, (*event).status) };

    let event = match kind {
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => Event::AddressResolved,
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => Event::RouteResolved,
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR
        | bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR
        | bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR => Event::Failed(status),
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE => Event::Unreachable(status),
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => Event::Rejected(Reject::of(status)),
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED => Event::Disconnected,
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => Event::AddressChanged,
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => Event::DeviceRemoval,
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => {
            // SAFETY: This kind of event carries connection parameters.
            Event::Established(unsafe { private_data(event) })
        }
        _ => return 0,
    };
    handler.event(event);
    0
}

/// The connection parameters of an event.
///
/// # Safety
///
/// `event` must be valid during `'a`, and of a kind that carries them.
pub(super) unsafe fn conn_param<'a>(
    event: *mut bindings::rdma_cm_event,
) -> &'a bindings::rdma_conn_param {
    // SAFETY: By the safety requirements of this function this is the field in use.
    unsafe { (*event).param.conn.as_ref() }
}

/// The private data of an event.
///
/// # Safety
///
/// As [`conn_param`].
pub(super) unsafe fn private_data<'a>(event: *mut bindings::rdma_cm_event) -> &'a [u8] {
    // SAFETY: The safety requirements of both functions are the same.
    let conn = unsafe { conn_param(event) };
    let (data, len) = (
        conn.private_data.cast::<u8>(),
        usize::from(conn.private_data_len),
    );

    // siw leaves a pointer without a length when the peer sent no data.
    if data.is_null() || len == 0 {
        &[]
    } else {
        // SAFETY: rdma_cm promises `len` readable bytes during the callback.
        unsafe { core::slice::from_raw_parts(data, len) }
    }
}
