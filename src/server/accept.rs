// SPDX-License-Identifier: GPL-2.0

//! Accepting the request of a client.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    connection::{
        Connection,
        ConnectionQp,
        ConnectionSends,
        Terms, //
    },
    outbox::BEYOND,
    size::{
        fit,
        Wants,
        MIN_CREDITS, //
    }, //
};
use crate::{
    cm::{
        Acceptable,
        Accepting,
        Incoming, //
    },
    os::{
        series::ENOBUFS,
        Fifo, //
    },
    policy::{
        self,
        Policy, //
    },
    proto::{
        PrivateData,
        Thresholds, //
    },
    sunrpc::svc::SvcXprt,
    verbs::{
        Cq,
        Pd,
        QpSize, //
    }, //
};

/// A request with a queue pair of the size that the device can have.
struct BoundRequest {
    /// The next step.
    accepting: Accepting<Connection>,
    /// The part of the queue pair that is kept under a lock.
    qp: ConnectionQp,
    /// The sender's part.
    sends: ConnectionSends,
    size: QpSize,
    /// Calls that may be outstanding with that.
    credits: u32,
}

/// Makes a queue pair for `request`. Drivers count queue entries in units of their own, so that one
/// may refuse a size within its limits: then with half the credits, and so on.
fn bind(
    connection: &Arc<Connection>,
    mut request: Acceptable<Connection>,
    own: &PrivateData,
    policy: &Policy,
) -> Result<BoundRequest> {
    let limits = request.device().limits();
    let mut wants = Wants {
        credits: policy.credits,
        memory: u64::from(policy.memory).saturating_mul(1024),
    };

    loop {
        let (size, credits) = fit(&limits, own, &wants).ok_or(ENOBUFS)?;
        let device = request.device();
        let pd = Pd::new(device.clone())?;
        let (same, error) = match Cq::new(device.clone(), connection.clone(), &size) {
            Err(error) => (Some(request), error),
            Ok(cq) => match request.bind(cq, pd, &size) {
                Ok((accepting, qp, sends)) => {
                    return Ok(BoundRequest {
                        accepting,
                        qp,
                        sends,
                        size,
                        credits,
                    });
                }
                Err(refused) => refused,
            },
        };
        if credits <= MIN_CREDITS || !(error == ENOMEM || error == EINVAL) {
            return Err(error);
        }
        request = same.ok_or(error)?;
        wants.credits = credits / 2;
    }
}

/// Takes the steps up to the reply to the request: a queue pair with Receives, then the terms.
fn open(connection: &Arc<Connection>, request: Incoming<Connection>, xprt: SvcXprt) -> Result {
    let policy = policy::defaults();
    // No reply invalidates a handle.
    let own = PrivateData {
        remote_invalidation: false,
        ..policy.own()
    };
    let BoundRequest {
        accepting,
        mut qp,
        sends,
        size,
        credits,
    } = bind(connection, request.ready()?, &own, &policy)?;

    // CAST: Widening.
    connection.calls.make(size.recvs as usize)?;
    let waiting = Fifo::new(credits.saturating_add(BEYOND) as usize)?;
    connection.set_terms(Terms {
        xprt,
        thresholds: Thresholds::for_server(&own, &connection.peer),
        credits,
        send_len: size.send_len as usize,
        receives: qp.recv_queue(),
    });
    let posted = qp.post_first_receives().map_err(|_| EIO)?;
    connection.receives.posted(posted);
    connection.link.set_qp(qp);
    connection.outbox.lock().open(sends, waiting);

    let private_data = policy.private_data.then(|| own.encode());
    accepting.accept(private_data.as_ref().map_or(&[], |bytes| bytes))
}

/// Accepts `request`, for the connection with the object `xprt`.
///
/// # Errors
///
/// Any; the request is rejected, and nothing is left of the connection.
pub(super) fn accept(
    connection: &Arc<Connection>,
    request: Incoming<Connection>,
    xprt: SvcXprt,
) -> Result {
    open(connection, request, xprt).inspect_err(|_| connection.tear_down())?;
    connection.publish();
    Ok(())
}
