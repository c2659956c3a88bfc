// SPDX-License-Identifier: GPL-2.0

//! Accepting the request of a client.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    admission::Refusal,
    connection::{
        Connection,
        ConnectionQp,
        ConnectionSends,
        Own,
        MOST_SINKS, //
    },
    memory,
    size::{
        fit,
        Wants,
        MIN_CREDITS, //
    }, //
};
use crate::{
    cm::{
        self,
        Acceptable,
        Accepting,
        Incoming, //
    },
    os::series::{
        ECONNRESET,
        ENOBUFS, //
    },
    policy::{
        self,
        Policy, //
    },
    proto::PrivateData,
    sunrpc::svc::SvcXprt,
    verbs::{
        Cq,
        Pd,
        QpSize, //
    }, //
};

/// The most elements of a request. More make each request of the queue larger, and hardly fewer.
const MOST_ELEMENTS: u32 = 16;

/// A request with a queue pair of the size that the device can have.
struct BoundRequest {
    /// The next step.
    accepting: Accepting<Connection>,
    /// The part of the queue pair that is kept under a lock.
    qp: ConnectionQp,
    /// The sender's part.
    sends: ConnectionSends,
    elements: (u32, u32),
    has_sinks: bool,
    size: QpSize,
    /// Calls that may be outstanding with that.
    credits: u32,
}

/// Makes a queue pair of `size`.
///
/// # Errors
///
/// The request, unless it has ended, and `ENOMEM` or the error of the device.
fn bind_with(
    connection: &Arc<Connection>,
    request: Acceptable<Connection>,
    size: &QpSize,
) -> Result<cm::BoundRequest<Connection>, (Option<Acceptable<Connection>>, Error)> {
    let device = request.device().clone();

    match Pd::new(device.clone(), Some(memory::buffers()))
        .and_then(|pd| Ok((pd, Cq::new(device, connection.clone(), size)?)))
    {
        Ok((pd, cq)) => request.bind(cq, pd, size),
        Err(error) => Err((Some(request), error)),
    }
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
    let (writes, reads) = request.device().elements();
    let elements = (writes.min(MOST_ELEMENTS), reads.min(MOST_ELEMENTS));
    let has_sinks = request.device().reads_register(request.port());
    // The queue pair has room to invalidate each of them.
    let sinks = if has_sinks { MOST_SINKS } else { 0 };
    let mut wants = Wants {
        credits: policy.credits,
        memory: u64::from(policy.memory).saturating_mul(1024),
    };

    loop {
        let (size, credits) = fit(&limits, own, elements.0, sinks, &wants).ok_or(ENOBUFS)?;
        let (same, error) = match bind_with(connection, request, &size) {
            Ok((accepting, qp, sends)) => {
                return Ok(BoundRequest {
                    accepting,
                    qp,
                    sends,
                    elements,
                    has_sinks,
                    size,
                    credits,
                });
            }
            Err(refused) => refused,
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
    let policy = connection.admission().policy;
    let request = request.ready()?;
    let local = request.local();
    let mut own = policy.own();
    own.remote_invalidation &= request.device().limits().mem_mgt_extensions;
    let BoundRequest {
        accepting,
        qp,
        sends,
        elements,
        has_sinks,
        size,
        credits,
    } = bind(connection, request, &own, &policy)?;

    let data = own.encode();
    connection.open(
        qp,
        sends,
        Own {
            xprt,
            local,
            data: own,
            credits,
            size,
            elements,
            has_sinks,
        },
    )?;
    let data: &[u8] = if policy.private_data { &data } else { &[] };
    accepting.accept(data, policy::server_reads())
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
    let opened = match connection.enlist() {
        Ok(()) => open(connection, request, xprt).map_err(|error| match error {
            // The answer of rdma_accept() in any other state than that of a request; over iWARP it
            // is the second.
            e if (e == EINVAL || e == ECONNRESET) && connection.is_lost() => Refusal::Gone,
            e => e.into(),
        }),
        Err(e) if e == EBUSY => Err(Refusal::Connections),
        Err(e) => Err(e.into()),
    };

    if let Err(why) = opened {
        connection.admission().refused(why);
        connection.tear_down();
        return Err(EIO);
    }
    connection.publish();
    Ok(())
}
