// SPDX-License-Identifier: GPL-2.0

//! Identifiers with a queue pair.

use core::ptr::NonNull;

use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

use super::{
    id::Gid,
    EventHandler,
    Id, //
};
use crate::{
    bindings,
    verbs::{
        CompletionHandler,
        Cq,
        Pd,
        Qp,
        QpOwner,
        QpSize,
        SendQueue, //
    }, //
};

/// Parameters of a connection.
pub(crate) struct ConnectParams<'a> {
    /// Private data for the peer; at most 56 bytes arrive over InfiniBand and RoCE.
    pub(crate) private_data: &'a [u8],
    /// RDMA Reads the peer may have outstanding at us.
    pub(crate) responder_resources: u8,
    /// Retransmissions of a message that is not acknowledged, 0..=7.
    pub(crate) retry_count: u8,
}

/// An identifier with a queue pair: one connection, from before it is made until after it has
/// ended.
///
/// # Invariants
///
/// The identifier has a queue pair, which uses `_cq` and `_pd`, until this value is dropped.
pub(crate) struct Endpoint<H: EventHandler + CompletionHandler> {
    // Dropped in this order, after the queue pair.
    id: Id<H>,
    _cq: Arc<Cq<H>>,
    _pd: Arc<Pd>,
}

/// A queue pair: what is under a lock, and what belongs to the sender. What belongs to the handler
/// of completions is the completion queue's.
type Halves<H> = (Qp<Arc<Endpoint<H>>>, SendQueue<Arc<Endpoint<H>>>);

/// The reason why an identifier did not get a queue pair.
pub(crate) enum EndpointError<H: EventHandler> {
    /// The driver does not make one of this size. The identifier is as before.
    Refused(Id<H>, Error),
    /// Anything else.
    Failed(Error),
}

impl<H: EventHandler, E: Into<Error>> From<E> for EndpointError<H> {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl<H: EventHandler + CompletionHandler> Endpoint<H> {
    /// Gives a resolved identifier a queue pair whose completions go to `cq`, with buffers and
    /// registrations for `size`.
    ///
    /// # Errors
    ///
    /// [`EndpointError`], with what the driver returns or `ENOMEM`; `EBUSY` when another queue pair
    /// uses `cq`, `EINVAL` when `pd` is of another device.
    pub(crate) fn new(
        id: Id<H>,
        cq: Arc<Cq<H>>,
        pd: Arc<Pd>,
        size: &QpSize,
    ) -> Result<Halves<H>, EndpointError<H>> {
        let counters = cq.counters_for(&pd)?;
        let mut attr: bindings::ib_qp_init_attr = pin_init::zeroed();
        attr.send_cq = cq.as_ptr();
        attr.recv_cq = cq.as_ptr();
        attr.cap.max_send_wr = size.send_depth();
        attr.cap.max_recv_wr = size.recv_depth();
        attr.cap.max_send_sge = 1;
        attr.cap.max_recv_sge = 1;
        attr.sq_sig_type = bindings::ib_sig_type_IB_SIGNAL_REQ_WR;
        attr.qp_type = bindings::ib_qp_type_IB_QPT_RC;

        // SAFETY: The identifier is bound to the device of `pd` and `cq`, all of which outlive the
        // queue pair.
        let made = unsafe { bindings::rdma_create_qp(id.as_ptr(), pd.as_ptr(), &mut attr) };
        if let Err(error) = to_result(made) {
            return Err(EndpointError::Refused(id, error));
        }
        // INVARIANT: The queue pair was made above; from here on dropping `endpoint` destroys it.
        let endpoint = Self {
            id,
            _cq: cq,
            _pd: pd.clone(),
        };
        let endpoint = Arc::new(endpoint, GFP_KERNEL)?;
        // SAFETY: By the type invariants there is a queue pair.
        let raw = NonNull::new(unsafe { (*endpoint.id.as_ptr()).qp }).ok_or(ENODEV)?;

        // SAFETY: `raw` has the depths asked for, is kept by `endpoint`, which alone knows of it;
        // the counters are those of its completion queue.
        Ok(unsafe { Qp::new::<H>(raw, endpoint, counters, &pd, size) }?)
    }

    /// Asks the peer to connect; the result is an event.
    ///
    /// # Errors
    ///
    /// The error that rdma_cm returns at once.
    pub(crate) fn connect(&self, params: &ConnectParams<'_>) -> Result {
        let mut param: bindings::rdma_conn_param = pin_init::zeroed();
        param.private_data = params.private_data.as_ptr().cast();
        param.private_data_len = u8::try_from(params.private_data.len())?;
        param.responder_resources = params.responder_resources;
        param.retry_count = params.retry_count.min(7);
        // A peer that finds no Receive of ours has broken the credit rules: let that show at once
        // (H-67).
        param.rnr_retry_count = 0;

        // SAFETY: The identifier is valid, and the private data is copied during the call.
        to_result(unsafe { bindings::rdma_connect(self.id.as_ptr(), &mut param) })
    }

    /// The port of the device, and our address on it.
    pub(crate) fn local(&self) -> (u32, Gid) {
        self.id.local()
    }

    /// Ends the connection, without waiting for the peer. Harmless when there is none.
    pub(crate) fn disconnect(&self) {
        // SAFETY: The identifier is valid. The result says whether there was a connection.
        let _ = unsafe { bindings::rdma_disconnect(self.id.as_ptr()) };
    }
}

// SAFETY: `ib_drain_rq` and `ib_drain_sq` return when every request of the queue has completed.
unsafe impl<H: EventHandler + CompletionHandler> QpOwner for Arc<Endpoint<H>> {
    fn drain(&self) {
        // SAFETY: By the type invariants there is a queue pair as long as this value lives.
        let qp = unsafe { (*self.id.as_ptr()).qp };

        // Receives first: their completions may still ask for invalidations, which the closed queue
        // refuses. SAFETY: The depth of the queues leaves room for the markers, and the caller is
        // in process context.
        unsafe { bindings::ib_drain_rq(qp) };
        // SAFETY: The queue pair is there, the depth of its queues leaves room for the marker, and
        // the caller is in process context.
        unsafe { bindings::ib_drain_sq(qp) };
    }
}

impl<H: EventHandler + CompletionHandler> Drop for Endpoint<H> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants there is a queue pair; its `Qp` held this value, so
        // nothing posts to it.
        unsafe { bindings::rdma_destroy_qp(self.id.as_ptr()) }
    }
}
