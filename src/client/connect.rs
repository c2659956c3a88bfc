// SPDX-License-Identifier: GPL-2.0

//! Making a connection.
//!
//! [`cm`](crate::cm) has a type for each step; between two of them the connection waits for an
//! event (`Attempt::wait`). The steps of an attempt:
//!
//! 1. [`resolve`] finds the server's address, the route to it, and so a device;
//! 2. [`queue_pair`] makes a queue pair of a [`size`] that the device can have, with Receives;
//! 3. [`ask`] requests the connection from the server with the terms of a [`proposal`];
//! 4. [`negotiate`] settles the terms of both ends; then the first call is made, if one is due.
//!
//! A failed attempt leaves nothing but its [`failure`].

mod failure;
mod proposal;
mod queue_pair;
pub(super) mod size;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    connection::{
        attempt::StepError,
        Connection,
        ConnectionQp,
        ConnectionSends,
        Shared, //
    },
    negotiated::PeerData,
    probe::probe_xid,
    send::Sender,
    shared::{
        Destination,
        OPERATIONS,
        REVERSE_SLOTS, //
    }, //
};
use crate::os::series::{
    EAFNOSUPPORT,
    ECONNRESET,
    ENOTCONN, //
};
use crate::{
    cm::{
        Bound,
        ConnectParams,
        Gid,
        Id,
        Resolved, //
    },
    os::secs_to_jiffies,
    policy::{
        self,
        pattern::DeviceName,
        peers,
        table::Name,
        Policy,
        RemoteInvalidation, //
    },
    proto::{
        Versions,
        Wire, //
    },
    sunrpc::{
        ConnectStatus,
        WriteLock, //
    },
    verbs::MrPool, //
};

use failure::{
    ConnectError,
    Step, //
};
use proposal::Proposal;
use size::{
    Size,
    Wants, //
};

/// Seconds that resolving an address or a route may take.
const RESOLVE_LIMIT_SECS: u32 = 5;
/// Seconds that the response to our characteristics may take.
const EXCHANGE_LIMIT_SECS: u32 = 5;
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
            proposal,
        }) => {
            let connection = connection.clone();
            let mut sender = Sender::new(connection, queue);
            match negotiate(shared, &mut sender, bound, proposal) {
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

/// A connection that is ready for the connection request.
struct Prepared {
    bound: Bound<Connection>,
    queue: ConnectionSends,
    proposal: Proposal,
}

/// Waits for the end of a step, at most `limit` jiffies, as
/// [`Attempt::wait`](super::connection::attempt::Attempt::wait).
fn wait(connection: &Connection, limit: usize) -> Result<PeerData, StepError> {
    let xprt = &connection.shared.xprt;
    connection.attempt.wait(limit, || xprt.is_released())
}

/// Resolves the server's address and the route to it.
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
    wait(connection, limit).map_err(ConnectError::unresolved)?;
    let resolving = resolving
        .resolve_route(LIMIT_MS)
        .map_err(ConnectError::at(Step::ResolveRoute))?;
    wait(connection, limit).map_err(ConnectError::with(Step::ResolveRoute))?;
    resolving.resolved().map_err(ConnectError::at(Step::Device))
}

/// The decision of the administrator for this connection, and the rule that it comes from.
fn policy_for(shared: &Shared) -> (Policy, Option<Name>) {
    let (mut policy, rule) = shared.policy();

    policy::check(&policy);
    if policy.remote_invalidation != RemoteInvalidation::Strict {
        shared.lessons.offer_invalidation();
    } else if shared.lessons.withholds_invalidation() {
        // The server has invalidated without having announced it: the next connection does not
        // offer it.
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
        // Once an upper layer has set up the reverse direction, it relies on it.
        reverse_slots: if policy.reverse || has_callbacks {
            REVERSE_SLOTS
        } else {
            1
        },
        operations: match policy.versions() {
            Versions::One => 0,
            Versions::Two | Versions::Auto => OPERATIONS,
        },
        memory: u64::from(policy.memory).saturating_mul(1024),
    }
}

/// Makes the registrations of `qp`, posts the first Receives, and puts the queue pair behind the
/// gate of `connection`. Returns the registrations.
fn open(
    shared: &Shared,
    connection: &Connection,
    mut qp: ConnectionQp,
    size: &Size,
) -> Result<Arc<MrPool>, ConnectError> {
    let pool = MrPool::new(qp.poster(), &size.mrs).map_err(ConnectError::at(Step::QueuePair))?;

    shared.stats.mrs_allocated.add(pool.allocated());
    connection
        .post_first_receives(&mut qp, size.first_unsolicited)
        .map_err(|_| ConnectError::at(Step::Receives)(EIO))?;
    connection.link.set_qp(qp);
    Ok(pool)
}

/// Takes the steps before the connection request: finds the route to the server, and makes a queue
/// pair with Receives.
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
        device: DeviceName::parse(device.name().as_str()),
    };
    let (policy, rule) = policy_for(shared);
    // Each registration is for one call alone, so the server may invalidate any of them (PD-27).
    let own = policy.own();
    let wants = wants(shared, &policy);
    let made = queue_pair::bind(shared, connection, id, &own, wants)?;
    let proposal = Proposal {
        policy,
        rule,
        own,
        device,
        pool: open(shared, connection, made.qp, &made.size)?,
        size: made.size,
        credits: made.credits,
        reverse_slots: wants.reverse_slots,
    };
    Ok(Prepared {
        bound: made.bound,
        queue: made.queue,
        proposal,
    })
}

/// Requests the connection from the server with the terms of `proposal`. Returns the server's
/// private data, and the port and the address of this end.
fn ask(
    shared: &Shared,
    connection: &Connection,
    bound: Bound<Connection>,
    proposal: &Proposal,
) -> Result<(PeerData, (u32, Gid)), ConnectError> {
    let private_data = proposal.private_data();
    let params = ConnectParams {
        private_data: private_data.as_ref().map_or(&[], |bytes| bytes),
        responder_resources: proposal.device.limits().max_rd_atom,
        retry_count: RETRY_COUNT,
    };
    connection.attempt.ask();
    let connecting = bound
        .connect(&params)
        .map_err(ConnectError::at(Step::Connect))?;
    let peer = wait(connection, shared.xprt.connect_timeout())
        .map_err(ConnectError::with(Step::Connect))?;
    Ok((peer, connecting.connected().local()))
}

/// Makes the first call, if it has to offer version 2, or if the last connection has ended for
/// calls without a reply.
fn probe(shared: &Shared, sender: &mut Sender, proposal: &Proposal) -> Result<(), ConnectError> {
    let connection = &sender.connection;
    let (versions, xid) = (proposal.policy.versions(), probe_xid(connection));
    let peer = shared.peer();
    let remembered = versions == Versions::Auto && peers::version_1(&peer).is_some();
    if !peers::may_grow(&peer) {
        connection.agreement.characteristics.distrust();
    }
    if shared.lessons.is_silent() {
        connection.agreement.characteristics.be_silent();
    }
    let offers = connection.agreement.offer.begin(versions, xid, remembered);
    let Some(program) = shared
        .program()
        .filter(|_| offers || shared.lessons.probes())
    else {
        return Ok(());
    };
    let (wire, credits) = match offers {
        true => (Wire::V2, proposal.credits),
        false => (connection.wire(), proposal.credits),
    };
    // A loss during the connection request has failed no step.
    if !sender.connection.link.life().is_forming() {
        return Err(ConnectError::at(Step::Probe)(ECONNRESET));
    }
    sender
        .probe(wire, program, credits)
        .map_err(ConnectError::at(Step::Probe))?;
    let answered = wait(&sender.connection, shared.xprt.connect_timeout());
    // A transport that is no longer wanted says nothing about the server.
    let offer = &sender.connection.agreement.offer;
    if answered.is_err() && !shared.xprt.is_released() && offer.unanswered() {
        shared.trace().offer(xid, "no answer");
    }
    peers::note(&peer, offer.take_note());
    answered.map_err(ConnectError::with(Step::Probe))?;
    shared.lessons.probed();
    Ok(())
}

/// Exchanges characteristics over a connection of version 2. A server that does not respond is
/// taken to have none.
fn exchange(shared: &Shared, sender: &mut Sender) -> Result<(), ConnectError> {
    let limit = secs_to_jiffies(EXCHANGE_LIMIT_SECS);

    if sender.connection.wire() != Wire::V2 {
        return Ok(());
    }
    // A server that has hung up at the announcement would do so again.
    if !shared.lessons.is_silent() {
        sender
            .announce(probe_xid(&sender.connection))
            .map_err(|_| ConnectError::at(Step::Exchange)(ENOTCONN))?;
    }
    let connection = &sender.connection;
    if !connection.agreement.characteristics.is_settled() {
        match wait(connection, limit) {
            Ok(_) => {}
            Err(failed) if failed.code == ETIMEDOUT.to_errno() => {
                if shared.log.may_inform() {
                    pr_info!(
                        "{}: the server did not respond to our characteristics\n",
                        shared.xprt.peer()
                    );
                }
            }
            Err(failed) => {
                shared.lessons.be_silent();
                return Err(ConnectError::with(Step::Exchange)(failed));
            }
        }
    }
    // What was not responded to holds its credit.
    connection.apply_characteristics();
    connection.confirm();
    Ok(())
}

/// Requests the connection from the server, and settles the terms.
fn negotiate(
    shared: &Shared,
    sender: &mut Sender,
    bound: Bound<Connection>,
    proposal: Proposal,
) -> Result<(), ConnectError> {
    let connection = &sender.connection;
    let (peer, local) = ask(shared, connection, bound, &proposal)?;
    let negotiated = proposal.negotiated(peer, local);
    let thresholds = negotiated.limits.get().thresholds;

    connection.set_negotiated(negotiated);
    proposal.log(shared, &thresholds, peer);
    probe(shared, sender, &proposal)?;
    exchange(shared, sender)
}
