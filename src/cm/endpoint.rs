// SPDX-License-Identifier: GPL-2.0

//! Identifiers with a queue pair.

use core::ptr::NonNull;

use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    }, //
};

use super::{
    id::Gid,
    EventHandler,
    Id,
    Resolved, //
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

/// An identifier with a queue pair: the owner of that, from before the connection is made until
/// after it has ended.
///
/// # Invariants
///
/// The identifier has a queue pair, which uses `cq` and `pd`, until `destroyed` is set.
pub(crate) struct Endpoint<H: EventHandler + CompletionHandler> {
    // Dropped in this order, after the queue pair.
    id: Id<H>,
    /// Set when `rdma_connect()` or `rdma_accept()` has succeeded.
    connected: Atomic<bool>,
    /// Set when the queue pair is destroyed.
    destroyed: Atomic<bool>,
    cq: Arc<Cq<H>>,
    pd: Arc<Pd>,
}

/// An identifier that was bound to a queue pair: the next step, the part of the queue pair that is
/// kept under a lock, and the sender's part. The completion queue has the completion handler's
/// part.
type Halves<H> = (Bound<H>, Qp<Arc<Endpoint<H>>>, SendQueue<Arc<Endpoint<H>>>);

/// The reason why an identifier did not get a queue pair.
pub(crate) enum BindError<H: EventHandler> {
    /// The driver refuses a queue pair of this size. The identifier is as before.
    Refused(Resolved<H>, Error),
    /// Anything else.
    Failed(Error),
}

impl<H: EventHandler, E: Into<Error>> From<E> for BindError<H> {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The attributes of a queue pair of `size` with the completion queue `cq`.
fn attributes<H: CompletionHandler>(cq: &Cq<H>, size: &QpSize) -> bindings::ib_qp_init_attr {
    let mut attr: bindings::ib_qp_init_attr = pin_init::zeroed();

    attr.send_cq = cq.as_ptr();
    attr.recv_cq = cq.as_ptr();
    attr.cap.max_send_wr = size.send_depth();
    attr.cap.max_recv_wr = size.recv_depth();
    attr.cap.max_send_sge = size.elements.max(1);
    attr.cap.max_recv_sge = 1;
    attr.sq_sig_type = bindings::ib_sig_type_IB_SIGNAL_REQ_WR;
    attr.qp_type = bindings::ib_qp_type_IB_QPT_RC;
    attr
}

impl<H: EventHandler + CompletionHandler> Resolved<H> {
    /// Gives the identifier a queue pair with the completion queue `cq`, and buffers for `size`.
    ///
    /// # Errors
    ///
    /// [`BindError`], with the error that the driver returns or `ENOMEM`; `EBUSY` when another
    /// queue pair uses `cq` or `pd`, `EINVAL` when `pd` is of another device.
    pub(crate) fn bind(
        self,
        cq: Arc<Cq<H>>,
        pd: Arc<Pd>,
        size: &QpSize,
    ) -> Result<Halves<H>, BindError<H>> {
        let counters = cq.counters_for(&pd)?;
        let mut attr = attributes(&cq, size);

        // SAFETY: The identifier is valid by its type invariants. `cq` is of the device of `pd`, as
        // `counters_for` has checked, and rdma_cm checks the identifier's. All of them outlive the
        // queue pair, which `endpoint` is to destroy before it releases them.
        let made = unsafe { bindings::rdma_create_qp(self.id.as_ptr(), pd.as_ptr(), &mut attr) };
        if let Err(error) = to_result(made) {
            return Err(BindError::Refused(self, error));
        }
        // INVARIANT: The queue pair was made above; from here on dropping `endpoint` destroys it.
        let endpoint = Endpoint {
            id: self.id,
            connected: Atomic::new(false),
            destroyed: Atomic::new(false),
            cq,
            pd: pd.clone(),
        };
        let endpoint = Arc::new(endpoint, GFP_KERNEL)?;
        // SAFETY: The identifier is valid, and its queue pair was made above.
        let raw = NonNull::new(unsafe { (*endpoint.id.as_ptr()).qp }).ok_or(ENODEV)?;

        // SAFETY: `raw` has the requested depths. `endpoint` keeps it, and alone knows of it; the
        // counters were reserved together with its completion queue, of `H`, and `pd`.
        let (qp, sends) = unsafe { Qp::new(raw, endpoint, counters, &pd, size) }?;
        let bound = Bound(qp.owner().clone());
        Ok((bound, qp, sends))
    }
}

/// An identifier with a queue pair that is ready to connect.
pub(crate) struct Bound<H: EventHandler + CompletionHandler>(Arc<Endpoint<H>>);

impl<H: EventHandler + CompletionHandler> Bound<H> {
    /// Requests the connection from the peer. The result is an event:
    /// [`Established`](super::Event::Established), [`Rejected`](super::Event::Rejected), or a
    /// failure.
    ///
    /// # Errors
    ///
    /// The error that rdma_cm returns.
    pub(crate) fn connect(self, params: &ConnectParams<'_>) -> Result<Connecting<H>> {
        let Self(endpoint) = self;
        let mut param: bindings::rdma_conn_param = pin_init::zeroed();
        param.private_data = params.private_data.as_ptr().cast();
        param.private_data_len = u8::try_from(params.private_data.len())?;
        param.responder_resources = params.responder_resources;
        param.retry_count = params.retry_count.min(7);
        // A peer that finds no Receive of ours has broken the credit rules: let that show
        // immediately (H-67).
        param.rnr_retry_count = 0;

        // SAFETY: The identifier is valid by its type invariants, and the private data is copied
        // during the call.
        to_result(unsafe { bindings::rdma_connect(endpoint.id.as_ptr(), &mut param) })?;
        // Release: a disconnect that reads this comes after the call above.
        endpoint.connected.store(true, Release);
        Ok(Connecting(endpoint))
    }
}

impl<H: EventHandler + CompletionHandler> Bound<H> {
    /// Accepts the peer's request by `accept`, which is called with the identifier.
    ///
    /// # Errors
    ///
    /// The error of `accept`.
    pub(super) fn accept(self, accept: impl FnOnce(*mut bindings::rdma_cm_id) -> Result) -> Result {
        let Self(endpoint) = self;

        accept(endpoint.id.as_ptr())?;
        // Release: a disconnect that reads this comes after the call above.
        endpoint.connected.store(true, Release);
        Ok(())
    }

    /// RDMA Reads that the device may have outstanding on one connection.
    pub(super) fn max_reads(&self) -> u8 {
        self.0.pd.device().max_reads()
    }
}

/// An identifier that has requested a connection from its peer.
pub(crate) struct Connecting<H: EventHandler + CompletionHandler>(Arc<Endpoint<H>>);

impl<H: EventHandler + CompletionHandler> Connecting<H> {
    /// Ends the attempt, after [`Established`](super::Event::Established).
    pub(crate) fn connected(self) -> Connected<H> {
        Connected(self.0)
    }
}

/// An identifier that is connected to its peer.
pub(crate) struct Connected<H: EventHandler + CompletionHandler>(Arc<Endpoint<H>>);

impl<H: EventHandler + CompletionHandler> Connected<H> {
    /// The port of the device, and our address on it.
    pub(crate) fn local(&self) -> (u32, Gid) {
        self.0.id.local()
    }
}

impl<H: EventHandler + CompletionHandler> Endpoint<H> {
    /// Ends the connection, without waiting for the peer. Does nothing before
    /// [`Bound::connect`] or [`Accepting::accept`](super::Accepting::accept) has succeeded.
    pub(crate) fn disconnect(&self) {
        // rdma_connect() frees the connection manager's identifier when it fails, and
        // rdma_disconnect() uses it without a lock.
        if !self.connected.load(Acquire) {
            return;
        }
        // SAFETY: The identifier is valid by its type invariants, and rdma_connect() or
        // rdma_accept() has returned with success. Without a connection this fails, and nothing has
        // to be ended.
        let _ = unsafe { bindings::rdma_disconnect(self.id.as_ptr()) };
    }
}

/// Moves a queue pair to the error state, in which all its requests end.
///
/// # Safety
///
/// `qp` must be valid.
unsafe fn end_requests(qp: *mut bindings::ib_qp) -> Result {
    let mut attr: bindings::ib_qp_attr = pin_init::zeroed();
    attr.qp_state = bindings::ib_qp_state_IB_QPS_ERR;

    // CAST: A small number.
    let mask = bindings::ib_qp_attr_mask_IB_QP_STATE as c_int;
    // SAFETY: By the safety requirements of this function.
    to_result(unsafe { bindings::ib_modify_qp(qp, &mut attr, mask) })
}

// SAFETY: A device that has destroyed a queue pair uses none of its requests, and `Cq::free` ends
// the completions. It does so only once no queue pair uses the queue.
//
// The queue pair completes to `cq`, a queue of `H`.
unsafe impl<H: EventHandler + CompletionHandler> QpOwner for Arc<Endpoint<H>> {
    type Handler = H;

    fn drain(&self) {
        if self.destroyed.load(Relaxed) {
            return;
        }
        // SAFETY: By the type invariants the queue pair is valid until `destroy`, which comes after
        // this call.
        let qp = unsafe { (*self.id.as_ptr()).qp };

        // The calls below would do this, too, but not report that the device has refused.
        // SAFETY: The queue pair is valid.
        if let Err(error) = unsafe { end_requests(qp) } {
            pr_err!(
                "{}: cannot end the requests of a queue pair ({}): it is destroyed with them\n",
                self.pd.device().name(),
                error.to_errno()
            );
            return;
        }
        // Receives first: their completions may still request invalidations, which the closed queue
        // refuses.
        //
        // SAFETY: The queue pair lives as long as this value. The depth of its receive queue leaves
        // room for the marker (`QpSize::recv_depth`), and this is process context by the contract
        // of this method.
        unsafe { bindings::ib_drain_rq(qp) };
        // SAFETY: The queue pair lives as long as this value. The depth of its send queue leaves
        // room for the marker (`QpSize::send_depth`), and this is process context by the contract
        // of this method.
        unsafe { bindings::ib_drain_sq(qp) };
    }

    fn destroy(&self) -> bool {
        self.destroy_qp();
        let is_gone = self.cq.free();

        if is_gone {
            // SAFETY: The queue pair is destroyed, since the completion queue, which is freed, had
            // no user.
            unsafe { self.pd.free_posted_receives() };
        } else {
            pr_err!(
                "{}: cannot destroy a queue pair: its memory is lost\n",
                self.pd.device().name()
            );
        }
        is_gone
    }
}

impl<H: EventHandler + CompletionHandler> Endpoint<H> {
    /// Destroys the queue pair, unless that is done.
    fn destroy_qp(&self) {
        if self.destroyed.xchg(true, Relaxed) {
            return;
        }
        // SAFETY: By the type invariants the queue pair is valid, and this is the only call.
        // Nothing posts to it: its `Qp` is closed, or held this value.
        unsafe { bindings::rdma_destroy_qp(self.id.as_ptr()) }
    }
}

impl<H: EventHandler + CompletionHandler> Drop for Endpoint<H> {
    fn drop(&mut self) {
        self.destroy_qp();
    }
}
