// SPDX-License-Identifier: GPL-2.0

//! The steps that find a peer.

use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

use super::{
    EventHandler,
    Id, //
};
use crate::{
    bindings,
    verbs::Device, //
};

impl<H: EventHandler> Id<H> {
    /// Starts to resolve the address `peer`. The result is an event, at the latest after `limit_ms`
    /// milliseconds: [`AddressResolved`](super::Event::AddressResolved), or a failure.
    ///
    /// # Errors
    ///
    /// The error that rdma_cm returns, such as `ENODEV` when no device leads there.
    pub(crate) fn resolve_address(
        self,
        peer: &bindings::__kernel_sockaddr_storage,
        limit_ms: u32,
    ) -> Result<ResolvingAddress<H>> {
        let mut peer = *peer;

        // SAFETY: The identifier is valid by its type invariants; the address is copied during the
        // call, which does not change it.
        to_result(unsafe {
            bindings::rdma_resolve_addr(
                self.as_ptr(),
                core::ptr::null_mut(),
                (&raw mut peer).cast(),
                limit_ms as usize,
            )
        })?;
        Ok(ResolvingAddress(self))
    }
}

/// An identifier whose peer's address is being resolved.
pub(crate) struct ResolvingAddress<H: EventHandler>(Id<H>);

impl<H: EventHandler> ResolvingAddress<H> {
    /// Starts to resolve the route to the address, after
    /// [`AddressResolved`](super::Event::AddressResolved). The result is an event, at the latest
    /// after `limit_ms` milliseconds: [`RouteResolved`](super::Event::RouteResolved), or a failure.
    ///
    /// # Errors
    ///
    /// The error that rdma_cm returns; `EINVAL` as long as no device was found.
    pub(crate) fn resolve_route(self, limit_ms: u32) -> Result<ResolvingRoute<H>> {
        let Self(id) = self;

        // rdma_cm sets the device after the state that makes it accept this call.
        // SAFETY: The identifier is valid by its type invariants; the device is set once.
        if unsafe { (&raw const (*id.as_ptr()).device).read_volatile() }.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: The identifier is valid by its type invariants, and was given a device.
        to_result(unsafe { bindings::rdma_resolve_route(id.as_ptr(), limit_ms as usize) })?;
        Ok(ResolvingRoute(id))
    }
}

/// An identifier whose route to the peer is being resolved.
pub(crate) struct ResolvingRoute<H: EventHandler>(Id<H>);

impl<H: EventHandler> ResolvingRoute<H> {
    /// Ends the search, after [`RouteResolved`](super::Event::RouteResolved), and takes a reference
    /// to the device that it has found.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device is being removed, `ENOMEM`.
    pub(crate) fn resolved(self) -> Result<Resolved<H>> {
        let Self(id) = self;
        let device = id.device()?;

        Ok(Resolved { id, device })
    }
}

/// An identifier whose peer and local device are known. The next step is [`Self::bind`].
pub(crate) struct Resolved<H: EventHandler> {
    pub(super) id: Id<H>,
    pub(super) device: Arc<Device>,
}

impl<H: EventHandler> Resolved<H> {
    /// The device that leads to the peer.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }
}
