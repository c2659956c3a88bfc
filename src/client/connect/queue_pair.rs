// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of the size that the device can have.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    super::{
        connection::{
            Connection,
            ConnectionQp,
            ConnectionSends,
            Shared, //
        },
        request::chunks::MAX_SEGMENTS, //
    },
    failure::{
        ConnectError,
        Step, //
    },
    size::{
        Size,
        Sizing,
        Wants,
        MIN_CREDITS, //
    }, //
};
use crate::{
    cm::{
        BindError,
        Bound,
        Resolved, //
    },
    os::PAGE_SIZE,
    proto::PrivateData,
    verbs::{
        Cq,
        Pd,
        QpSize, //
    }, //
};

/// An identifier with a queue pair, and the two parts of that.
type Halves = (Bound<Connection>, ConnectionQp, ConnectionSends);

/// An identifier with a queue pair of the size that the device can have, with a completion queue
/// and a protection domain of its own.
pub(super) struct BoundQp {
    /// The next step.
    pub(super) bound: Bound<Connection>,
    /// The part that is kept under a lock.
    pub(super) qp: ConnectionQp,
    /// The sender's part.
    pub(super) queue: ConnectionSends,
    /// Its size.
    pub(super) size: Size,
    /// Calls that may be outstanding with that.
    pub(super) credits: u32,
}

impl BoundQp {
    fn new((bound, qp, queue): Halves, size: Size, credits: u32) -> Self {
        Self {
            bound,
            qp,
            queue,
            size,
            credits,
        }
    }
}

/// The reason why no queue pair was made.
enum Unbound {
    /// The driver refuses a queue pair of this size in this step. The identifier is as before.
    Refused(Resolved<Connection>, Step, Error),
    /// Anything else.
    Failed(ConnectError),
}

/// Makes a queue pair of `size` for `id`.
fn bind_sized(
    connection: &Arc<Connection>,
    id: Resolved<Connection>,
    size: &QpSize,
) -> Result<Halves, Unbound> {
    let failed = |step| move |error| Unbound::Failed(ConnectError::at(step)(error));

    let pd = Pd::new(id.device().clone(), None).map_err(failed(Step::ProtectionDomain))?;
    let cq = match Cq::new(id.device().clone(), connection.clone(), size) {
        Ok(cq) => cq,
        Err(error) => return Err(Unbound::Refused(id, Step::CompletionQueue, error)),
    };
    id.bind(cq, pd, size).map_err(|error| match error {
        BindError::Failed(error) => failed(Step::QueuePair)(error),
        BindError::Refused(id, error) => Unbound::Refused(id, Step::QueuePair, error),
    })
}

/// Makes a queue pair for `id`. Drivers count queue entries in units of their own, so that one may
/// refuse a size within its limits: then with half the credits, and so on.
///
/// # Errors
///
/// The step that failed.
pub(super) fn bind(
    shared: &Shared,
    connection: &Arc<Connection>,
    mut id: Resolved<Connection>,
    own: &PrivateData,
    mut wants: Wants,
) -> Result<BoundQp, ConnectError> {
    let limits = id.device().limits();
    let payload = shared.xprt.max_payload().div_ceil(PAGE_SIZE);
    let sizing = Sizing::new(&limits, own, payload, MAX_SEGMENTS)?;

    loop {
        let (size, credits) = sizing.fit(&wants)?;
        let (same, step, error) = match bind_sized(connection, id, &size.qp) {
            Ok(halves) => return Ok(BoundQp::new(halves, size, credits)),
            Err(Unbound::Failed(error)) => return Err(error),
            Err(Unbound::Refused(id, step, error)) => (id, step, error),
        };
        if credits <= MIN_CREDITS || !(error == ENOMEM || error == EINVAL) {
            return Err(ConnectError::at(step)(error));
        }
        id = same;
        wants = wants.fewer(credits);
        let (peer, device) = (shared.xprt.peer(), id.device().name());
        let (code, fewer) = (error.to_errno(), wants.credits);
        pr_info!(
            "{peer}: {device} refuses a {step} for {credits} credits ({code}); trying {fewer}\n"
        );
    }
}
