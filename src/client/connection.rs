// SPDX-License-Identifier: GPL-2.0

//! One connection, from its first event to its teardown.

use kernel::{
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex,
        SetOnce,
        SpinLock, //
    }, //
};

use super::{
    flight::{
        Flight,
        Phase, //
    },
    transport::Shared, //
};
use crate::{
    cm::{
        self,
        Endpoint, //
    },
    os::{
        secs_to_jiffies,
        Event, //
    },
    proto::{
        Limits,
        PrivateData, //
    },
    sunrpc::ConnectStatus,
    verbs::{
        Live,
        MrList,
        MrPool,
        Qp, //
    }, //
};

/// Seconds that an invalidation of our own may take before the connection is taken down instead.
const FENCE_LIMIT_SECS: u32 = 10;

/// What both ends agreed on, fixed for the life of the connection (PD-19).
pub(super) struct Terms {
    /// What calls and replies are planned with.
    pub(super) limits: Limits,
    /// Calls that we ask leave to have outstanding.
    pub(super) credits: u32,
    /// The registrations of this connection.
    pub(super) pool: Arc<MrPool>,
}

/// The life of a connection, in one word.
mod life {
    /// Not published to sunrpc yet.
    pub(super) const FORMING: u32 = 0;
    /// Lost before it was published.
    pub(super) const DOOMED: u32 = 1;
    /// In use.
    pub(super) const OPEN: u32 = 2;
    /// Lost, or being torn down: whoever moved it here has told sunrpc.
    pub(super) const CLOSED: u32 = 3;
}

/// Why a step of connecting has failed.
#[derive(Clone, Copy)]
pub(super) struct Obstacle {
    /// What to tell sunrpc.
    pub(super) status: ConnectStatus,
    /// The number that the connection manager gave: a negative errno, or the reason of a rejection.
    pub(super) code: i32,
}

/// What the connection manager last said.
struct Progress {
    outcome: Option<Result<(), Obstacle>>,
    peer: Option<PrivateData>,
}

pub(super) type ConnectionQp = Qp<Arc<Endpoint<Connection>>>;

/// One connection to the server. Completions and events of the connection manager hold this, never
/// the transport.
#[pin_data]
pub(crate) struct Connection {
    generation: u64,
    pub(super) shared: Arc<Shared>,
    life: Atomic<u32>,
    #[pin]
    progress: SpinLock<Progress>,
    #[pin]
    stepped: Event,
    /// The gate: whoever posts holds this lock, and finds nothing once the teardown has begun.
    #[pin]
    pub(super) qp: SpinLock<Option<ConnectionQp>>,
    #[pin]
    torn_down: Mutex<bool>,
    terms: SetOnce<Terms>,
    proven: Atomic<bool>,
}

impl Connection {
    /// A connection in its first state.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(shared: &Arc<Shared>, generation: u64) -> Result<Arc<Self>> {
        let shared = shared.clone();

        Arc::pin_init(
            pin_init!(Self {
                generation,
                shared,
                life: Atomic::new(life::FORMING),
                progress <- new_spinlock!(
                    Progress {
                        outcome: None,
                        peer: None,
                    },
                    "rpcrdma_rs::Connection::progress"
                ),
                stepped <- Event::new(),
                qp <- new_spinlock!(None, "rpcrdma_rs::Connection::qp"),
                torn_down <- new_mutex!(false, "rpcrdma_rs::Connection::torn_down"),
                terms: SetOnce::new(),
                proven: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Does something with the queue pair, if the teardown has not taken it.
    #[inline]
    pub(super) fn with_qp<R>(&self, act: impl FnOnce(&mut ConnectionQp) -> R) -> Option<R> {
        let mut guard = self.qp.lock();
        let qp: &mut Option<ConnectionQp> = &mut guard;

        qp.as_mut().map(act)
    }

    /// The number of this connection among those of its transport.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// What both ends agreed on; nothing before the connection is established.
    #[inline]
    pub(super) fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// Fixes what both ends agreed on.
    pub(super) fn agree(&self, terms: Terms) {
        self.terms.populate(terms);
    }

    /// Waits at most `secs` seconds for the answer to a step of connecting. Returns what the peer
    /// sent, if anything.
    ///
    /// # Errors
    ///
    /// What to tell sunrpc.
    pub(super) fn wait_step(&self, secs: u32) -> Result<Option<PrivateData>, Obstacle> {
        if !self.stepped.wait(secs_to_jiffies(secs)) {
            return Err(Obstacle {
                status: ConnectStatus::Unreachable,
                code: ETIMEDOUT.to_errno(),
            });
        }
        let mut progress = self.progress.lock();
        // A signal without an outcome belongs to a step before this one.
        progress.outcome.take().unwrap_or(Err(Obstacle {
            status: ConnectStatus::Retry,
            code: EAGAIN.to_errno(),
        }))?;
        Ok(progress.peer)
    }

    fn step(&self, outcome: Result<(), Obstacle>, peer: Option<PrivateData>) {
        {
            let mut progress = self.progress.lock();
            progress.outcome = Some(outcome);
            progress.peer = peer;
        }
        self.stepped.signal();
    }

    fn failed(&self, status: ConnectStatus, code: i32) {
        self.step(Err(Obstacle { status, code }), None);
    }

    /// The connection is in use from here on.
    pub(super) fn publish(&self) {
        if self
            .life
            .cmpxchg(life::FORMING, life::OPEN, Relaxed)
            .is_err()
        {
            self.shared.xprt.force_disconnect();
        }
    }

    /// The connection is of no further use, because of `why`. Asks sunrpc, once, to close it.
    pub(super) fn lost(&self, why: &CStr) {
        if self.life.cmpxchg(life::OPEN, life::CLOSED, Relaxed).is_ok() {
            pr_info!("{}: connection lost: {}\n", self.shared.xprt.peer(), why);
            self.shared.xprt.force_disconnect();
        } else {
            // Before it is published nobody but its maker can close it; after, it is closed
            // already.
            let _ = self.life.cmpxchg(life::FORMING, life::DOOMED, Relaxed);
        }
    }

    /// The server has broken the protocol in a way that leaves the connection in doubt: reports it
    /// and ends the connection.
    pub(super) fn violated(&self, what: &CStr) {
        if self.life.cmpxchg(life::OPEN, life::CLOSED, Relaxed).is_ok() {
            pr_warn!(
                "{}: ending the connection: {}\n",
                self.shared.xprt.peer(),
                what
            );
            self.shared.xprt.force_disconnect();
        }
    }

    /// A valid reply has come: the connection works, and if it is lost it may be made anew at once.
    #[inline]
    pub(super) fn prove(&self) {
        if !self.proven.load(Relaxed) {
            self.proven.store(true, Relaxed);
            self.shared.failing.store(false, Relaxed);
            self.shared.reported.store(0, Relaxed);
            self.shared.xprt.reset_backoff();
        }
    }

    /// Keeps the server from the memory under `mrs`, of a call that was given up, and waits until
    /// that is certain.
    pub(super) fn fence_and_wait(&self, flight: &Flight, mrs: MrList<Live>) {
        self.shared.stats.local_invalidations.add(mrs.count());
        // Without a queue pair the registrations are dropped: they wait for the drain.
        let posted = self
            .with_qp(|qp| qp.fence(mrs, flight.index as usize))
            .is_some_and(|result| result.is_ok());
        if posted && flight.released.wait(secs_to_jiffies(FENCE_LIMIT_SECS)) {
            // A fence that failed leaves the phase as it is.
            if !matches!(flight.state.lock().phase, Phase::Releasing) {
                return;
            }
        }
        // What cannot be fenced ends with the connection (V1-128).
        self.tear_down();
        self.shared.xprt.force_disconnect();
    }

    /// Takes the connection down: no request of ours is left with the device, no memory of any call
    /// is reachable, and everything that belonged to the connection is freed. Process context. A
    /// second call waits for the first.
    pub(super) fn tear_down(&self) {
        let mut done = self.torn_down.lock();
        if *done {
            return;
        }
        *done = true;
        self.life.store(life::CLOSED, Relaxed);

        let Some(closing) = self.with_qp(Qp::close) else {
            return;
        };
        let endpoint = closing.owner().clone();
        endpoint.disconnect();
        let drained = closing.drain();
        let qp = self.qp.lock().take();

        // Calls that were not answered keep their place in sunrpc, to be sent again; their
        // registrations end here.
        for flight in self.shared.slots.iter() {
            let exposed = {
                let mut state = flight.state.lock();
                match &mut state.phase {
                    Phase::Sent {
                        generation,
                        exposed,
                    } if *generation == self.generation => exposed.take(),
                    _ => None,
                }
            };
            drop(exposed);
        }
        if let Some(qp) = qp {
            qp.finish(drained);
        }
    }
}

impl cm::Events for Connection {
    fn event(&self, event: cm::Event<'_>) {
        /// Reason of a rejection over InfiniBand or RoCE: the peer still has a connection with our
        /// numbers.
        const STALE_CONNECTION: i32 = 10;

        match event {
            cm::Event::AddressResolved | cm::Event::RouteResolved => self.step(Ok(()), None),
            cm::Event::Established(octets) => self.step(Ok(()), PrivateData::find(octets)),
            cm::Event::Rejected(code) => {
                let status = match code {
                    STALE_CONNECTION => ConnectStatus::Retry,
                    errno if errno == ECONNRESET.to_errno() => ConnectStatus::Retry,
                    _ => ConnectStatus::Refused,
                };
                self.failed(status, code);
            }
            cm::Event::Failed(code) | cm::Event::Unreachable(code) => {
                self.lost(c"the server cannot be reached any more");
                self.failed(ConnectStatus::Unreachable, code);
            }
            cm::Event::Disconnected => {
                self.lost(c"the server hung up");
                self.failed(ConnectStatus::Retry, ECONNRESET.to_errno());
            }
            cm::Event::AddressChanged => {
                self.lost(c"the local address has moved");
                self.failed(ConnectStatus::Retry, EADDRNOTAVAIL.to_errno());
            }
            cm::Event::DeviceRemoval => {
                self.lost(c"the local device goes away");
                self.failed(ConnectStatus::Unreachable, ENODEV.to_errno());
            }
        }
    }
}
