// SPDX-License-Identifier: GPL-2.0

//! Requests of peers to connect, until they are accepted.

use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

use super::{
    BindError,
    Bound,
    Endpoint,
    EventHandler,
    Gid,
    Id,
    Resolved, //
};
use crate::{
    bindings,
    verbs::{
        CompletionHandler,
        Cq,
        Device,
        Pd,
        Qp,
        QpSize,
        SendQueue, //
    }, //
};

/// The address of a socket, as the bindings have it.
type Address = bindings::__kernel_sockaddr_storage;

/// The request of a peer to connect. Dropping it rejects the request.
pub(crate) struct Incoming<H: EventHandler> {
    id: Id<H>,
    /// RDMA Reads that the peer takes from us at a time.
    reads: u8,
}

impl<H: EventHandler> Incoming<H> {
    /// The request with this identifier.
    pub(super) fn new(id: Id<H>, reads: u8) -> Self {
        Self { id, reads }
    }

    /// The handler of its events.
    pub(crate) fn handler(&self) -> &Arc<H> {
        self.id.handler()
    }

    /// The addresses of this end and of the peer.
    pub(crate) fn addresses(&self) -> (Address, Address) {
        // SAFETY: The identifier is valid by its type invariants; a request comes with the
        // addresses, which do not change.
        unsafe {
            let addr = &raw const (*self.id.as_ptr()).route.addr;
            ((*addr).src_addr, (*addr).dst_addr)
        }
    }

    /// Takes a reference to the device that the request came over.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device is being removed, `ENOMEM`.
    pub(crate) fn ready(self) -> Result<Acceptable<H>> {
        let device = self.id.device()?;

        Ok(Acceptable {
            route: Resolved {
                id: self.id,
                device,
            },
            reads: self.reads,
        })
    }

    /// Leaves the identifier to rdma_cm, whose handler that runs destroys it.
    pub(super) fn disown(self) {
        self.id.disown();
    }
}

/// A request whose device is known. The next step is [`Self::bind`].
pub(crate) struct Acceptable<H: EventHandler> {
    route: Resolved<H>,
    reads: u8,
}

/// A request that was bound to a queue pair, as [`Resolved::bind`] returns it.
pub(crate) type BoundRequest<H> = (
    Accepting<H>,
    Qp<Arc<Endpoint<H>>>,
    SendQueue<Arc<Endpoint<H>>>,
);

impl<H: EventHandler + CompletionHandler> Acceptable<H> {
    /// The device that the request came over.
    pub(crate) fn device(&self) -> &Arc<Device> {
        self.route.device()
    }

    /// The port of the device, and its address.
    pub(crate) fn local(&self) -> (u32, Gid) {
        self.route.id.local()
    }

    /// The port of the device.
    pub(crate) fn port(&self) -> u32 {
        self.local().0
    }

    /// Gives the identifier a queue pair, as [`Resolved::bind`].
    ///
    /// # Errors
    ///
    /// The driver's error, and if it refuses a queue pair of this size, the request as before.
    pub(crate) fn bind(
        self,
        cq: Arc<Cq<H>>,
        pd: Arc<Pd>,
        size: &QpSize,
    ) -> Result<BoundRequest<H>, (Option<Self>, Error)> {
        let reads = self.reads;

        match self.route.bind(cq, pd, size) {
            Ok((bound, qp, sends)) => Ok((Accepting { bound, reads }, qp, sends)),
            Err(BindError::Refused(route, error)) => Err((Some(Self { route, reads }), error)),
            Err(BindError::Failed(error)) => Err((None, error)),
        }
    }
}

/// A request with a queue pair.
pub(crate) struct Accepting<H: EventHandler + CompletionHandler> {
    bound: Bound<H>,
    reads: u8,
}

impl<H: EventHandler + CompletionHandler> Accepting<H> {
    /// RDMA Reads that may be outstanding at the peer.
    pub(crate) fn reads(&self) -> u8 {
        self.reads.min(self.bound.max_reads())
    }

    /// Accepts the request, with `private_data` for the peer, and with up to `reads` RDMA Reads of
    /// ours outstanding; at most 196 bytes arrive over
    /// InfiniBand and RoCE. The peer's part is an event: [`Established`](super::Event::Established)
    /// or a failure. Messages may come before that.
    ///
    /// # Errors
    ///
    /// The error that rdma_cm returns, after which the request is rejected: `EINVAL`, too, if the
    /// peer has taken it back.
    pub(crate) fn accept(self, private_data: &[u8], reads: u8) -> Result {
        let reads = self.reads().min(reads);
        let mut param: bindings::rdma_conn_param = pin_init::zeroed();
        param.private_data = private_data.as_ptr().cast();
        param.private_data_len = u8::try_from(private_data.len())?;
        param.initiator_depth = reads;
        // None of our memory is for the peer to read.
        param.responder_resources = 0;
        // A peer that finds no Receive of ours has broken the credit rules: let that show
        // immediately (H-67).
        param.rnr_retry_count = 0;

        // SAFETY: The private data is copied during the call.
        self.bound.accept(|id| unsafe {
            bindings::rdma_lock_handler(id);
            let ret = bindings::rdma_accept(id, &mut param);
            bindings::rdma_unlock_handler(id);
            to_result(ret)
        })
    }
}
