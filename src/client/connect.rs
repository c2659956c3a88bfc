// SPDX-License-Identifier: GPL-2.0

//! Making a connection.

mod failure;
mod queue_pair;
mod size;

use kernel::{
    fmt,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

use super::{
    connection::{
        Connection,
        ConnectionSends,
        Shared, //
    },
    negotiated::{
        Facts,
        Negotiated,
        PeerData, //
    },
    send::Sender,
    shared::{
        Destination,
        REVERSE_SLOTS, //
    }, //
};
use crate::{
    cm::{
        Bound,
        ConnectParams,
        Gid,
        Id,
        Resolved, //
    },
    os::{
        jiffies,
        secs_to_jiffies,
        PAGE_SIZE, //
    },
    policy::{
        rule::DeviceName,
        table::Name,
        Policy,
        RemoteInvalidation, //
    },
    proto::{
        PlanLimits,
        PrivateData,
        Thresholds, //
    },
    sunrpc::{
        ConnectStatus,
        WriteLock, //
    },
    verbs::{
        Device,
        MrPool,
        QpSize, //
    }, //
};

use failure::{
    ConnectError,
    Step, //
};
use queue_pair::BoundQp;
use size::Wants;

/// Seconds that resolving an address or a route may take.
const RESOLVE_LIMIT_SECS: u32 = 5;
/// The number of times that a message is sent again before the connection ends.
const RETRY_COUNT: u8 = 6;

/// Makes a connection to the transport's server.
///
/// # Errors
///
/// The status for sunrpc. Nothing is left of the attempt then.
pub(super) fn connect(
    shared: &Arc<Shared>,
    generation: u64,
    lock: &WriteLock<'_>,
) -> Result<Sender, ConnectStatus> {
    let connection = Connection::new(shared, generation).map_err(|_| ConnectStatus::NoMemory)?;
    let (sends, failed) = match prepare(shared, &connection, lock) {
        Ok(Prepared {
            bound,
            queue,
            terms,
        }) => {
            let connection = connection.clone();
            let mut sender = Sender { connection, queue };
            match negotiate(shared, &mut sender, bound, terms) {
                Ok(()) => return Ok(sender),
                Err(failed) => (Some(sender.queue), failed),
            }
        }
        Err(failed) => (None, failed),
    };
    connection.tear_down(sends);
    shared.history.failed(failed.step.as_str(), failed.code);
    shared.trace().op_close(failed.step.as_str());
    failed.report(shared);
    Err(failed.status)
}

/// The terms of a connection before the server was asked for it.
struct Terms {
    policy: Policy,
    rule: Option<Name>,
    own: PrivateData,
    device: Arc<Device>,
    pool: Arc<MrPool>,
    size: QpSize,
    credits: u32,
    reverse_slots: u32,
}

impl Terms {
    /// The private data that the server gets.
    fn sent(&self) -> Option<[u8; PrivateData::LEN]> {
        self.policy.private_data.then(|| self.own.encode())
    }

    /// The terms of both ends, after the server has sent its private data, `peer`.
    fn negotiated(&self, peer: PeerData, (port, gid): (u32, Gid)) -> Negotiated {
        let Self { policy, size, .. } = self;
        let said = PrivateData::find(peer.as_slice());
        let announced = said.unwrap_or_default();

        Negotiated {
            limits: PlanLimits {
                thresholds: Thresholds::for_client(&self.own, &announced),
                page_size: PAGE_SIZE,
                pages_per_segment: size.mr_pages,
                // No message is built before the send queue has room for those of two chunks.
                max_segments: size.mrs_per_send / 2,
            },
            credits: self.credits,
            reverse_slots: self.reverse_slots,
            remote_invalidation: match policy.remote_invalidation {
                _ if policy.takes_invalidation(&announced) => RemoteInvalidation::On,
                setting if policy.private_data => setting,
                _ => RemoteInvalidation::Off,
            },
            pool: self.pool.clone(),
            facts: Facts {
                policy: *policy,
                rule: self.rule,
                own: self.own,
                peer: said,
                bytes: peer,
                port,
                gid,
                since: jiffies(),
            },
        }
    }
}

/// A connection that is ready to ask the server for it.
struct Prepared {
    bound: Bound<Connection>,
    queue: ConnectionSends,
    terms: Terms,
}

/// Resolves the address of the server and the route to it.
fn resolve(
    shared: &Shared,
    connection: &Arc<Connection>,
    lock: &WriteLock<'_>,
) -> Result<Resolved<Connection>, ConnectError> {
    const LIMIT_MS: u32 = RESOLVE_LIMIT_SECS * 1000;
    let limit = secs_to_jiffies(RESOLVE_LIMIT_SECS + 1);

    let id = Id::new(shared.xprt.net(), connection.clone())
        .map_err(ConnectError::at(Step::Identifier))?;
    let resolving = id
        .resolve_address(&lock.address(), LIMIT_MS)
        .map_err(ConnectError::at(Step::ResolveAddress))?;
    connection
        .wait_step(limit)
        .map_err(ConnectError::with(Step::ResolveAddress))?;
    let resolving = resolving
        .resolve_route(LIMIT_MS)
        .map_err(ConnectError::at(Step::ResolveRoute))?;
    connection
        .wait_step(limit)
        .map_err(ConnectError::with(Step::ResolveRoute))?;
    resolving.resolved().map_err(ConnectError::at(Step::Device))
}

/// The decision of the administrator for this connection, and the rule that it comes from.
fn policy_for(shared: &Shared) -> (Policy, Option<Name>) {
    let (mut policy, rule) = shared.policy();

    if policy.remote_invalidation != RemoteInvalidation::Strict {
        shared.distrusted.store(false, Relaxed);
    } else if shared.distrusted.load(Relaxed) {
        // It has invalidated without saying that it would: it is not asked to any more.
        policy.remote_invalidation = RemoteInvalidation::Off;
    }
    (policy, rule)
}

/// The size that `policy` and the upper layers want.
fn wants(shared: &Shared, policy: &Policy) -> Wants {
    let has_callbacks = shared.xprt.backchannel().is_set_up();

    Wants {
        has_callbacks,
        credits: policy.credits.min(shared.xprt.max_requests()),
        // An upper layer that has asked for it counts on it.
        reverse_slots: if policy.reverse || has_callbacks {
            REVERSE_SLOTS
        } else {
            1
        },
        memory: u64::from(policy.memory).saturating_mul(1024),
    }
}

/// Does what can be done before the server is asked: finds the way to it, and makes a queue pair
/// with Receives.
fn prepare(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    lock: &WriteLock<'_>,
) -> Result<Prepared, ConnectError> {
    let server = lock.server().ok_or(EAFNOSUPPORT);
    let server = server.map_err(ConnectError::at(Step::Address))?;
    let id = resolve(shared, connection, lock)?;
    let device = id.device().clone();
    *shared.destination.lock() = Destination {
        server,
        device: device.name().to_str().ok().and_then(DeviceName::parse),
    };
    let (policy, rule) = policy_for(shared);
    // All registrations are made for one call each, so the server may invalidate any of them
    // (PD-27).
    let own = policy.own();
    let wants = wants(shared, &policy);
    let BoundQp {
        bound,
        mut qp,
        queue,
        size,
        credits,
    } = queue_pair::bind(shared, connection, id, &own, wants)?;
    shared.stats.mrs_allocated.add(qp.pool().allocated());
    qp.post_first_receives()
        .map_err(|_| ConnectError::at(Step::Receives)(EIO))?;
    let pool = qp.pool().clone();
    connection.set_qp(qp);
    Ok(Prepared {
        bound,
        queue,
        terms: Terms {
            policy,
            rule,
            own,
            device,
            pool,
            size,
            credits,
            reverse_slots: wants.reverse_slots,
        },
    })
}

/// Asks the server for the connection, and fixes what both ends agree on.
fn negotiate(
    shared: &Arc<Shared>,
    sender: &mut Sender,
    bound: Bound<Connection>,
    terms: Terms,
) -> Result<(), ConnectError> {
    let connection = &sender.connection;
    let sent = terms.sent();
    let params = ConnectParams {
        private_data: sent.as_ref().map_or(&[], |bytes| bytes),
        responder_resources: terms.device.limits().max_rd_atom,
        retry_count: RETRY_COUNT,
    };
    let connecting = bound
        .connect(&params)
        .map_err(ConnectError::at(Step::Connect))?;
    let limit = shared.xprt.connect_timeout();
    let peer = connection
        .wait_step(limit)
        .map_err(ConnectError::with(Step::Connect))?;
    let local = connecting.connected().local();

    agree(shared, connection, &terms, peer, local).map_err(ConnectError::at(Step::Connect))?;
    if let Some(program) = shared.program_to_probe() {
        sender
            .probe(program, terms.credits)
            .map_err(ConnectError::at(Step::Probe))?;
        sender
            .connection
            .wait_step(limit)
            .map_err(ConnectError::with(Step::Probe))?;
        shared.wary.store(false, Relaxed);
    }
    Ok(())
}

/// Settles the terms of both ends, now that the server has sent its private data, `peer`; tells the
/// log.
///
/// # Errors
///
/// `ENOMEM`.
fn agree(
    shared: &Shared,
    connection: &Connection,
    terms: &Terms,
    peer: PeerData,
    local: (u32, Gid),
) -> Result {
    let (sent, found) = (terms.sent(), PrivateData::locate(peer.as_slice()));
    let negotiated = terms.negotiated(peer, local);
    let thresholds = negotiated.limits.thresholds;

    connection.set_negotiated(negotiated)?;
    shared.trace().inline_thresh(
        sent.map_or(0, u64::from_be_bytes),
        found.map_or(0, u64::from_be_bytes),
        (thresholds.call, thresholds.reply),
        terms.credits,
    );
    pr_info!(
        "{}: connected over {}: private data sent {}, received {}; \
         inline thresholds: call {} reply {} bytes; {} credits asked for; {}\n",
        shared.xprt.peer(),
        terms.device.name(),
        Bytes(sent),
        Bytes(found),
        thresholds.call,
        thresholds.reply,
        terms.credits,
        RuleName(terms.rule),
    );
    Ok(())
}

/// The origin of a connection's policy, for a message.
struct RuleName(Option<Name>);

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => {
                f.write_str("rule ")?;
                name.fmt(f)
            }
            None => f.write_str("no rule"),
        }
    }
}

/// Private data for a message.
struct Bytes(Option<[u8; PrivateData::LEN]>);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bytes) = self.0 else {
            return f.write_str("none");
        };
        write!(f, "{:016x}", u64::from_be_bytes(bytes))
    }
}
