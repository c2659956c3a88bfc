// SPDX-License-Identifier: GPL-2.0

//! Making a connection.

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
        ConnectionQp,
        ConnectionSends,
        StepError, //
    },
    negotiated::{
        Facts,
        Negotiated,
        PeerData, //
    },
    request::MAX_SEGMENTS,
    send::Sender,
    shared::{
        Destination,
        Shared,
        REVERSE_SLOTS, //
    }, //
};
use crate::{
    cm::{
        ConnectParams,
        Endpoint,
        EndpointError,
        Gid,
        Id, //
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
        Limits,
        PrivateData,
        Thresholds, //
    },
    sunrpc::{
        ConnectStatus,
        WriteLock, //
    },
    verbs::{
        self,
        Cq,
        Device,
        MrPool,
        Pd,
        QpSize, //
    }, //
};

/// Seconds that resolving an address or a route may take.
const RESOLVE_LIMIT_SECS: u32 = 5;
/// The first resources of a connection: registrations, buffers to send from, and to receive into
/// besides those that are posted in advance. Few mounts need more at once; those that do get them
/// ([`Connection::grow`]).
const FIRST_MRS: u32 = 32;
const FIRST_SENDS: u32 = 48;
const FIRST_RECVS: u32 = 8;
/// Registrations that there may be for each call that may be outstanding: head, pages and tail of a
/// Long call.
const MRS_PER_CALL: u32 = 3;
/// The fewest credits that a connection is made for.
const MIN_CREDITS: u32 = 4;
/// The number of times that a message is sent again before the connection ends.
const RETRY_COUNT: u8 = 6;

/// The failure of an attempt, for the log and for sunrpc.
#[derive(Clone, Copy)]
struct ConnectError {
    step: &'static str,
    status: ConnectStatus,
    code: i32,
}

impl ConnectError {
    fn at(step: &'static str) -> impl Fn(Error) -> Self {
        move |error| {
            let status = match error {
                e if e == ENOMEM => ConnectStatus::NoMemory,
                e if e == ENETUNREACH => ConnectStatus::NetUnreachable,
                e if e == ENETDOWN => ConnectStatus::NetDown,
                e if e == ENODEV || e == EADDRNOTAVAIL || e == EHOSTUNREACH => {
                    ConnectStatus::Unreachable
                }
                e if e == ECONNREFUSED => ConnectStatus::Refused,
                _ => ConnectStatus::Retry,
            };
            Self {
                step,
                status,
                code: error.to_errno(),
            }
        }
    }

    fn with(step: &'static str) -> impl Fn(StepError) -> Self {
        move |StepError { status, code }| Self { step, status, code }
    }
}

/// The most registrations of `pages` pages that one chunk can need: for the pages of the largest
/// payload, which may start anywhere in the first, and one each for the head and the tail around
/// them.
fn segments_per_chunk(max_payload: u32, pages: u32) -> u32 {
    max_payload
        .div_ceil(PAGE_SIZE)
        .saturating_add(1)
        .div_ceil(pages)
        .saturating_add(2)
}

/// The wanted size of a connection, if the device can.
struct Wants {
    /// Calls outstanding.
    credits: u32,
    /// Calls from the server outstanding.
    reverse_slots: u32,
    /// Bytes that its buffers may take; with large inline thresholds fewer calls are outstanding.
    memory: u64,
}

/// Sizes the queues of a connection with the inline sizes `own`, so that the device can have them.
fn size_for(
    device: &verbs::Limits,
    own: &PrivateData,
    wants: &Wants,
    max_payload: u32,
) -> Result<(QpSize, u32), &'static str> {
    const TOO_SMALL: &str = "the device lacks fast registration or is too small";

    // CAST: A small constant.
    let max_segments = u32::try_from(MAX_SEGMENTS).unwrap_or(0);
    // The largest payload, and either a page more since it may start anywhere in the first, or two
    // for what stands around it.
    let pages = device
        .fast_reg_pages
        .min(max_payload.div_ceil(PAGE_SIZE).saturating_add(2));
    if pages == 0 || !device.mem_mgt_extensions {
        return Err(TOO_SMALL);
    }
    let segments = segments_per_chunk(max_payload, pages);
    if segments > max_segments {
        return Err(TOO_SMALL);
    }
    let mut credits = wants.credits.max(MIN_CREDITS);
    // One call must be able to go out in any case.
    let first_mrs = segments.saturating_mul(2).max(FIRST_MRS);
    loop {
        // With more at once the doorbells, of which a call would still have one and a fortieth, get
        // hardly fewer, but an idle connection has more Receives posted.
        let recv_batch = (credits / 3).clamp(1, 40);
        let sends = credits
            .saturating_add(credits / 4)
            .saturating_add(wants.reverse_slots);
        let in_advance = wants.reverse_slots.saturating_add(recv_batch);
        let size = QpSize {
            sends,
            first_sends: sends.min(FIRST_SENDS),
            send_len: own.send.bytes(),
            mrs_per_send: segments.saturating_mul(2),
            mrs: credits
                .saturating_mul(segments.min(MRS_PER_CALL))
                .max(first_mrs),
            first_mrs,
            mr_pages: pages,
            recvs: credits.saturating_add(in_advance),
            first_recvs: credits.min(FIRST_RECVS).saturating_add(in_advance),
            recv_len: own.receive.bytes(),
            unsolicited: wants.reverse_slots,
            recv_batch,
        };
        let fits = size.send_depth() <= device.max_wr
            && size.recv_depth() <= device.max_wr
            && size.completions() <= device.max_cqe;
        let affordable = size.buffer_bytes() <= wants.memory;
        if fits && affordable {
            return Ok((size, credits));
        }
        if credits == MIN_CREDITS {
            return Err(if fits {
                "the memory limit is too small for the inline sizes"
            } else {
                TOO_SMALL
            });
        }
        credits = if fits {
            credits.saturating_sub((credits / 8).max(1))
        } else {
            credits / 2
        }
        .max(MIN_CREDITS);
    }
}

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
        Ok(Prepared { queue, terms }) => {
            let connection = connection.clone();
            let mut sender = Sender { connection, queue };
            match negotiate(shared, &mut sender, terms) {
                Ok(()) => return Ok(sender),
                Err(failed) => (Some(sender.queue), failed),
            }
        }
        Err(failed) => (None, failed),
    };
    connection.tear_down(sends);
    shared.history.failed(failed.step, failed.code);
    shared.trace().op_close(failed.step);
    report(shared, failed);
    Err(failed.status)
}

/// Tells the log about a failed attempt, unless it has heard the same since the last success.
fn report(shared: &Shared, failed: ConnectError) {
    // Nothing waits for the connection any more.
    if failed.code == ECANCELED.to_errno() {
        return;
    }
    // Distinguishes reasons well enough: the place of the text, which is a constant, and the
    // status. CAST: Only compared.
    let reason = (failed.step.as_ptr().addr() as u32) ^ (failed.status as u32) ^ 1;

    if shared.reported.xchg(reason, Relaxed) != reason {
        let why = match failed.status {
            ConnectStatus::Refused => "refused",
            ConnectStatus::Unreachable => "not reachable",
            ConnectStatus::NetUnreachable => "no route",
            ConnectStatus::NetDown => "network down",
            ConnectStatus::NoMemory => "out of memory",
            ConnectStatus::Retry => "failed",
        };
        pr_info!(
            "{}: cannot connect: {}: {} ({}); will try again\n",
            shared.xprt.peer(),
            failed.step,
            why,
            failed.code
        );
    }
}

/// A queue pair of the size that the device can have, with a completion queue and a protection
/// domain of its own.
struct Made {
    qp: ConnectionQp,
    queue: ConnectionSends,
    size: QpSize,
    credits: u32,
}

/// Makes a queue pair for `id`. Drivers count queue entries in units of their own, so that one may
/// refuse what it says it can have: then with half the credits, and so on.
fn make_qp(
    shared: &Shared,
    connection: &Arc<Connection>,
    mut id: Id<Connection>,
    device: &Arc<Device>,
    own: &PrivateData,
    mut wants: Wants,
) -> Result<Made, ConnectError> {
    let limits = device.limits();
    let max_payload = shared.xprt.max_payload();

    loop {
        let sized = size_for(&limits, own, &wants, max_payload);
        let (size, credits) = sized.map_err(|step| ConnectError {
            step,
            status: ConnectStatus::Unreachable,
            code: EOPNOTSUPP.to_errno(),
        })?;
        let pd = Pd::new(device.clone()).map_err(ConnectError::at("protection domain"))?;
        let refused = match Cq::new(device.clone(), connection.clone(), &size) {
            Ok(cq) => match Endpoint::new(id, cq, pd, &size) {
                Ok((qp, queue)) => {
                    return Ok(Made {
                        qp,
                        queue,
                        size,
                        credits,
                    })
                }
                Err(EndpointError::Failed(error)) => {
                    return Err(ConnectError::at("queue pair")(error))
                }
                Err(EndpointError::Refused(same, error)) => {
                    id = same;
                    ("queue pair", error)
                }
            },
            Err(error) => ("completion queue", error),
        };
        let (what, error) = refused;
        if credits <= MIN_CREDITS || !(error == ENOMEM || error == EINVAL) {
            return Err(ConnectError::at(what)(error));
        }
        wants.credits = (credits / 2).max(MIN_CREDITS);
        pr_info!(
            "{}: {} refuses a {} for {} credits ({}); trying {}\n",
            shared.xprt.peer(),
            device.name(),
            what,
            credits,
            error.to_errno(),
            wants.credits
        );
    }
}

/// The terms of a connection before the server was asked for it.
struct Terms {
    policy: Policy,
    rule: Option<Name>,
    own: PrivateData,
    device: Arc<Device>,
    size: QpSize,
    credits: u32,
    reverse_slots: u32,
}

/// A connection that is ready to ask the server for it.
struct Prepared {
    queue: ConnectionSends,
    terms: Terms,
}

/// Resolves the address of the server and the route to it. Returns the identifier, which is bound
/// to a device.
fn resolve(
    shared: &Shared,
    connection: &Arc<Connection>,
    lock: &WriteLock<'_>,
) -> Result<Id<Connection>, ConnectError> {
    const ADDRESS: &str = "resolving the address";
    const ROUTE: &str = "resolving the route";
    const LIMIT_MS: u32 = RESOLVE_LIMIT_SECS * 1000;
    let limit = secs_to_jiffies(RESOLVE_LIMIT_SECS + 1);

    let id =
        Id::new(shared.xprt.net(), connection.clone()).map_err(ConnectError::at("identifier"))?;
    id.resolve_address(&shared.xprt.address(lock), LIMIT_MS)
        .map_err(ConnectError::at(ADDRESS))?;
    connection
        .wait_step(limit)
        .map_err(ConnectError::with(ADDRESS))?;
    id.resolve_route(LIMIT_MS)
        .map_err(ConnectError::at(ROUTE))?;
    connection
        .wait_step(limit)
        .map_err(ConnectError::with(ROUTE))?;
    Ok(id)
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

/// Does what can be done before the server is asked: finds the way to it, and makes a queue pair
/// with Receives.
fn prepare(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    lock: &WriteLock<'_>,
) -> Result<Prepared, ConnectError> {
    let server = shared
        .xprt
        .server(lock)
        .ok_or(EAFNOSUPPORT)
        .map_err(ConnectError::at("address"))?;
    let id = resolve(shared, connection, lock)?;
    let device = id.device().map_err(ConnectError::at("device"))?;
    *shared.destination.lock() = Destination {
        server,
        device: device.name().to_str().ok().and_then(DeviceName::parse),
    };
    let (policy, rule) = policy_for(shared);
    // All registrations are made for one call each, so the server may invalidate any of them
    // (PD-27).
    let own = policy.own();
    // An upper layer that has asked for it counts on it.
    let reverse_slots = if policy.reverse || shared.backchannel.is_set_up() {
        REVERSE_SLOTS
    } else {
        1
    };
    let wants = Wants {
        credits: policy.credits.min(shared.xprt.max_requests()),
        reverse_slots,
        memory: u64::from(policy.memory).saturating_mul(1024),
    };
    let Made {
        mut qp,
        queue,
        size,
        credits,
    } = make_qp(shared, connection, id, &device, &own, wants)?;
    shared.stats.mrs_allocated.add(qp.pool().made());
    qp.post_first_receives()
        .map_err(|_| ConnectError::at("Receives")(EIO))?;
    *connection.qp.lock() = Some(qp);
    Ok(Prepared {
        queue,
        terms: Terms {
            policy,
            rule,
            own,
            device,
            size,
            credits,
            reverse_slots,
        },
    })
}

/// Asks the server for the connection, and fixes what both ends agree on.
fn negotiate(shared: &Arc<Shared>, sender: &mut Sender, terms: Terms) -> Result<(), ConnectError> {
    let connection = &sender.connection;
    let credits = terms.credits;
    let bytes = terms.own.encode();
    let params = ConnectParams {
        private_data: if terms.policy.private_data {
            &bytes
        } else {
            &[]
        },
        responder_resources: terms.device.limits().max_rd_atom,
        retry_count: RETRY_COUNT,
    };
    let (endpoint, pool) = connection
        .with_qp(|qp| (qp.endpoint().clone(), qp.pool().clone()))
        .ok_or(ENOTCONN)
        .map_err(ConnectError::at("queue pair"))?;
    endpoint
        .connect(&params)
        .map_err(ConnectError::at("connecting"))?;
    let (port, gid) = endpoint.local();
    drop(endpoint);
    let limit = shared.xprt.connect_timeout();
    let peer = connection
        .wait_step(limit)
        .map_err(ConnectError::with("connecting"))?;

    agree(shared, connection, terms, peer, (port, gid), pool);
    if let Some(program) = shared.program_to_probe() {
        sender
            .probe(program, credits)
            .map_err(ConnectError::at("asking the server"))?;
        sender
            .connection
            .wait_step(limit)
            .map_err(ConnectError::with("asking the server"))?;
        shared.wary.store(false, Relaxed);
    }
    Ok(())
}

/// Fixes what both ends agree on, now that the server has sent its private data, `peer`; tells the
/// log.
fn agree(
    shared: &Shared,
    connection: &Connection,
    terms: Terms,
    peer: PeerData,
    (port, gid): (u32, Gid),
    pool: Arc<MrPool>,
) {
    let Terms {
        policy,
        rule,
        own,
        device,
        size,
        credits,
        reverse_slots,
    } = terms;
    let sent = policy.private_data.then(|| own.encode());
    let found = PrivateData::locate(peer.as_slice());
    let said = PrivateData::find(peer.as_slice());
    let announced = said.unwrap_or_default();
    let thresholds = Thresholds::for_client(&own, &announced);

    connection.set_negotiated(Negotiated {
        limits: Limits {
            thresholds,
            page_size: PAGE_SIZE,
            pages_per_segment: size.mr_pages,
            // The send queue has room for the registrations of two chunks per call.
            max_segments: size.mrs_per_send / 2,
        },
        credits,
        reverse_slots,
        remote_invalidation: match policy.remote_invalidation {
            _ if policy.takes_invalidation(&announced) => RemoteInvalidation::On,
            setting if policy.private_data => setting,
            _ => RemoteInvalidation::Off,
        },
        pool,
        facts: Facts {
            policy,
            rule,
            own,
            peer: said,
            bytes: peer,
            port,
            gid,
            since: jiffies(),
        },
    });
    // Reverse messages have no chunks, so that they fit either way (BI-20).
    let reverse = thresholds.call.min(thresholds.reply).saturating_sub(28);
    shared.reverse_payload.store(reverse, Relaxed);
    shared.trace().inline_thresh(
        sent.map_or(0, u64::from_be_bytes),
        found.map_or(0, u64::from_be_bytes),
        (thresholds.call, thresholds.reply),
        credits,
    );
    pr_info!(
        "{}: connected over {}: private data sent {}, received {}; \
         inline thresholds: call {} reply {} bytes; {} credits asked for; {}\n",
        shared.xprt.peer(),
        device.name(),
        Bytes(sent),
        Bytes(found),
        thresholds.call,
        thresholds.reply,
        credits,
        RuleName(rule),
    );
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
