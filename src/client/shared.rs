// SPDX-License-Identifier: GPL-2.0

//! The part of a transport that its connections and the files in debugfs use, too.

use core::net::SocketAddr;

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc,
        SetOnce,
        SpinLock, //
    }, //
};

use super::{
    connection::waiters::UpperLayer,
    history::History,
    lessons::Lessons,
    log::Log,
    request::Request,
    stats::Stats, //
};
use crate::{
    policy::{
        self,
        pattern::{
            DeviceName,
            Pattern, //
        },
        Policy,
        Target, //
    },
    proto::{
        peers::Peer,
        PrivateData,
        Program,
        Thresholds,
        Wire, //
    },
    sunrpc::{
        Slots,
        Xprt, //
    },
    trace::Trace, //
};

/// Reverse calls that a server may have outstanding, and the grant that replies to them carry
/// (BI-34).
pub(super) const REVERSE_SLOTS: u32 = 16;

/// Operations of version 2 that a server may have outstanding besides its calls: a request, and a
/// message without a response (XC-86).
pub(super) const OPERATIONS: u32 = 2;

/// The part of a transport that outlives its connections, of type `C`.
#[pin_data]
pub(crate) struct Shared<C: Send + Sync + 'static> {
    pub(super) slots: Arc<Slots<Request>>,
    pub(super) stats: Stats,
    /// The lessons of the last connections.
    pub(super) lessons: Lessons,
    /// The messages in the log.
    pub(super) log: Log,
    /// The program that the calls are for.
    program: SetOnce<Program>,
    /// Bytes that a reverse message may have on the current or the last connection.
    pub(super) reverse_payload: Atomic<u32>,
    /// The current connection, for all but the sender, until its teardown is over: a task whose
    /// memory the server may reach through it finds it here. It holds this in turn.
    #[pin]
    pub(super) current: SpinLock<Option<Arc<C>>>,
    /// Set once sunrpc has requested a connection; before that, its object is not complete.
    pub(super) started: Atomic<bool>,
    /// The ends of the last connections.
    #[pin]
    pub(super) history: History,
    /// The destination of the last connection, or of the last attempt to make one.
    #[pin]
    pub(super) destination: SpinLock<Destination>,
    // Last: dropping it may drop the last reference to the module.
    pub(super) xprt: Xprt<Request>,
}

/// The other end of a connection, and the device on this one.
#[derive(Clone, Copy)]
pub(super) struct Destination {
    pub(super) server: SocketAddr,
    /// `None` until an address was resolved.
    pub(super) device: Option<DeviceName>,
}

impl<C: Send + Sync + 'static> Shared<C> {
    /// The part of a transport to `server`, without a connection.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(xprt: Xprt<Request>, server: SocketAddr) -> Result<Arc<Self>> {
        let slots = xprt.slots().clone();
        let nothing = PrivateData::default();
        let unannounced = Thresholds::for_client(&nothing, &nothing);
        Arc::pin_init(
            pin_init!(Shared {
                slots,
                stats: Stats::new(),
                lessons: Lessons::new(),
                log: Log::new(),
                started: Atomic::new(false),
                program: SetOnce::new(),
                reverse_payload: Atomic::new(Wire::V1.reverse_payload(&unannounced)),
                current <- new_spinlock!(None, "rpcrdma_rs::Shared::current"),
                history <- History::new(),
                destination <- new_spinlock!(
                    Destination {
                        server,
                        device: None,
                    },
                    "rpcrdma_rs::Shared::destination"
                ),
                xprt,
            }),
            GFP_KERNEL,
        )
    }

    /// The current connection.
    #[inline]
    pub(super) fn current(&self) -> Option<Arc<C>> {
        self.current.lock().clone()
    }

    /// The tracer of this transport.
    #[inline]
    pub(super) fn trace(&self) -> Trace {
        Trace(self.xprt.id())
    }

    /// The server, for the memory of peers.
    pub(super) fn peer(&self) -> Peer {
        let server = self.destination.lock().server;

        Peer {
            netns: self.xprt.net().number(),
            address: server.ip(),
            port: server.port(),
        }
    }

    /// Returns `true` if a rule with `pattern` is for the connections of this transport.
    pub(super) fn is_target_of(&self, pattern: &Pattern) -> bool {
        self.with_target(|target| pattern.matches(target))
    }

    /// The administrator's decision for the connections of this transport, and the name of the rule
    /// behind it.
    pub(super) fn policy(&self) -> (Policy, Option<policy::table::Name>) {
        self.with_target(policy::table::decide)
    }

    fn with_target<R>(&self, act: impl FnOnce(&Target<'_>) -> R) -> R {
        let Destination { server, device } = *self.destination.lock();
        let device = device.as_ref().map(DeviceName::as_str);

        act(&Target::server(
            server.ip(),
            server.port(),
            device,
            self.xprt.net().number(),
        ))
    }

    /// Notes the program of the client that wants a connection, unless one is known.
    pub(super) fn note_client(&self, (number, version): (u32, u32)) {
        if self.program.as_ref().is_none() {
            self.program.populate(Program { number, version });
        }
    }

    /// The program that the calls are for.
    pub(super) fn program(&self) -> Option<Program> {
        self.program.as_ref().copied()
    }
}

impl UpperLayer for Xprt<Request> {
    fn wait_for_buffer_space(&self) {
        self.wait_for_buffer_space();
    }

    fn is_space_wanted(&self) -> bool {
        self.is_space_wanted()
    }

    #[inline(always)]
    fn space_available(&self) {
        self.space_available();
    }

    fn wake_sender(&self) {
        self.wake_sender();
    }
}
