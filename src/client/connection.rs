// SPDX-License-Identifier: GPL-2.0

//! One connection, from its first event to its teardown.

pub(in crate::client) mod abandoned;
pub(in crate::client) mod agreement;
pub(in crate::client) mod attempt;
pub(in crate::client) mod characteristics;
pub(in crate::client) mod close_reason;
mod deadline;
mod events;
pub(in crate::client) mod grower;
pub(in crate::client) mod growth;
mod loss;
pub(in crate::client) mod offer;
mod receives;
mod tenure;
pub(in crate::client) mod waiters;
mod watchdog;
mod window;

use kernel::{
    new_delayed_work,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    workqueue::DelayedWork, //
};

use self::{
    abandoned::Abandoned,
    agreement::Agreement,
    attempt::Attempt,
    close_reason::CloseReason,
    deadline::InvalidationDeadline,
    grower::RETRY,
    growth::{
        Growth,
        Kind, //
    },
    receives::Receives,
    tenure::Tenure,
    waiters::Waiters,
    watchdog::WATCHDOG,
    window::{
        Change,
        Window, //
    }, //
};
use super::{
    negotiated::Negotiated,
    request::Request,
    shared::{
        self,
        OPERATIONS,
        REVERSE_SLOTS, //
    }, //
};
use crate::{
    link::{
        Link,
        LinkQp,
        LinkSends, //
    },
    os::{
        cancel_delayed,
        jiffies,
        secs_since,
        secs_to_jiffies, //
    },
    policy,
    proto::{
        credits,
        Wire, //
    },
    verbs::{
        MrList,
        PostError,
        Registered, //
    }, //
};

/// Seconds that an invalidation of our own may take before the connection is taken down instead.
const INVALIDATE_LIMIT_SECS: u32 = 10;

/// The part of a transport that outlives its connections.
pub(super) type Shared = shared::Shared<Connection>;

/// The queue pair of a connection, without its send queue.
pub(super) type ConnectionQp = LinkQp<Connection>;

/// The send queue of such a queue pair.
pub(super) type ConnectionSends = LinkSends<Connection>;

/// One connection to the server. Completions and events of the connection manager hold this, never
/// the transport.
#[pin_data]
pub(crate) struct Connection {
    /// Its time in use.
    pub(super) tenure: Tenure,
    /// The part that is the same at both ends.
    #[pin]
    pub(super) link: Link<Self>,
    /// The attempt to make it.
    #[pin]
    pub(super) attempt: Attempt,
    /// The calls that may be outstanding.
    pub(super) window: Window,
    /// The records of abandoned calls.
    #[pin]
    pub(super) abandoned: Abandoned,
    /// The requests for more registrations and buffers.
    growth: Growth,
    /// Allocates them.
    #[pin]
    grower: DelayedWork<Self>,
    /// The calls that wait for a resource.
    pub(super) waiters: Waiters,
    /// The deadline of invalidations.
    pub(super) deadline: InvalidationDeadline,
    /// Ends the connection when that is over.
    #[pin]
    watchdog: DelayedWork<Self, WATCHDOG>,
    /// The terms that both ends have agreed on, and the exchanges that settle them.
    #[pin]
    pub(super) agreement: Agreement,
    // Last: dropping it may drop the last reference to the module.
    pub(super) shared: Arc<Shared>,
}

/// Reserves `count` Receives for unsolicited messages. That many fewer calls may be sent until
/// more Receives are posted. Returns `true` if more are reserved than before.
fn reserve(receives: &Receives, qp: &mut ConnectionQp, count: u32) -> bool {
    let more = qp.reserve_receives(count);
    receives.remove(more);
    more != 0
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
                tenure: Tenure::new(generation),
                link <- Link::new(),
                attempt <- Attempt::new(),
                window: Window::new(),
                abandoned <- Abandoned::new(),
                growth: Growth::new(jiffies().wrapping_sub(RETRY)),
                grower <- new_delayed_work!("rpcrdma_rs::Connection::grower"),
                waiters: Waiters::new(),
                deadline: InvalidationDeadline::new(),
                watchdog <- new_delayed_work!("rpcrdma_rs::Connection::watchdog"),
                agreement <- Agreement::new(),
                shared,
            }),
            GFP_KERNEL,
        )
    }

    /// Reserves Receives for reverse calls, which begin after a call that is yet to be sent. A
    /// connection that was sized for fewer of them has to be replaced.
    pub(super) fn expect_reverse_calls(self: &Arc<Self>) {
        let is_small = |negotiated: &Negotiated| negotiated.reverse_slots < REVERSE_SLOTS;

        let count = match self.wire() {
            Wire::V1 => REVERSE_SLOTS,
            Wire::V2 => REVERSE_SLOTS.saturating_add(OPERATIONS),
        };
        if self.negotiated().is_some_and(is_small) {
            self.tenure.end(CloseReason::ReverseWanted);
            self.link
                .tell_if_in_use(|| self.shared.xprt.force_disconnect());
        } else if self
            .link
            .with_qp(|qp| reserve(&self.window.receives, qp, count))
            == Some(true)
        {
            self.grow(Kind::Buffers);
        }
    }

    /// Posts the first Receives of `qp`, and reserves `unsolicited` of them.
    ///
    /// # Errors
    ///
    /// As [`Qp::post_held`](crate::verbs::Qp::post_held).
    pub(super) fn post_first_receives(
        &self,
        qp: &mut ConnectionQp,
        unsolicited: u32,
    ) -> Result<(), PostError> {
        reserve(&self.window.receives, qp, unsolicited);
        self.window.receives.add(qp.post_first_receives()?);
        Ok(())
    }

    /// Posts the Receives that came back.
    ///
    /// # Errors
    ///
    /// As [`Qp::post_held`](crate::verbs::Qp::post_held).
    pub(super) fn post_held(&self, qp: &mut ConnectionQp) -> Result<(), PostError> {
        self.window.receives.add(qp.post_held()?);
        if let Some(edition) = qp.take_exchanged() {
            self.agreement.characteristics.sizes.exchanged(edition);
        }
        Ok(())
    }

    /// The number of this connection in its transport.
    #[inline(always)]
    pub(super) fn generation(&self) -> u64 {
        self.tenure.generation()
    }

    /// The terms; `None` before both ends have agreed on them.
    #[inline]
    pub(super) fn negotiated(&self) -> Option<&Negotiated> {
        self.agreement.terms()
    }

    /// The version that the connection speaks; the first while the terms are not settled.
    #[inline(always)]
    pub(super) fn wire(&self) -> Wire {
        self.negotiated().map_or(Wire::V1, Negotiated::wire)
    }

    /// Publishes the terms that both ends agreed on.
    pub(super) fn set_negotiated(&self, negotiated: Negotiated) {
        self.note_reverse_payload(&negotiated);
        self.agreement.settle(negotiated);
    }

    /// Notes the length of reverse messages under these terms, for upper layers.
    pub(super) fn note_reverse_payload(&self, negotiated: &Negotiated) {
        let thresholds = negotiated.limits.get().thresholds;
        let reverse = negotiated.wire().reverse_payload(&thresholds);
        self.shared.reverse_payload.store(reverse, Relaxed);
    }

    /// Takes a grant of `wire` credits.
    #[inline(always)]
    pub(super) fn granted(&self, wire: u32) {
        let requested = || self.negotiated().map_or(1, |negotiated| negotiated.credits);

        if let Some(change) = self.window.granted(wire, requested) {
            self.grant_changed(wire, change);
        }
    }

    #[cold]
    fn grant_changed(&self, wire: u32, change: Change) {
        if credits::is_zero(wire) {
            self.shared.stats.zero_grants.inc();
        }
        match change {
            Change::Raised => self.reopen_window(),
            Change::NotRaised => self.open_window(),
        }
        if self.window.abandoned_calls() != 0 {
            self.end_if_exhausted();
        }
    }

    /// Sets sunrpc's congestion window to the number of calls that the last grant allows.
    #[inline]
    pub(super) fn open_window(&self) {
        self.shared.xprt.set_credits(|| self.window.size());
    }

    /// Sets the window as [`Self::open_window`], and wakes a sender that may have waited for that.
    pub(super) fn reopen_window(&self) {
        self.shared.xprt.raise_credits(|| self.window.size());
    }

    /// Notes that a valid reply has come: the connection works. After its loss the next attempt has
    /// no back-off, but a [pause](super::pauses::pause_secs) if it and its predecessors did not
    /// last.
    #[inline]
    pub(super) fn confirm(&self) {
        if self.window.confirm() {
            self.shared.lessons.confirmed();
            self.shared.xprt.reset_backoff();
        }
    }

    /// Keeps the server from the memory under `mrs`, of an abandoned call, and waits until that is
    /// certain.
    pub(super) fn invalidate_and_wait(&self, request: &Request, mrs: MrList<Registered>) {
        let count = mrs.count();
        self.shared.stats.local_invalidations.add(count);
        self.shared
            .trace()
            .mr_localinv(request.state.lock().xid, count);
        // Drops the signal of an earlier invalidation that came after the wait for it had ended.
        request.released.forget();
        // Without a queue pair the registrations are dropped: they wait for the drain.
        let posted = self.post_invalidation(mrs, request.index as usize, || ());
        if posted.is_ok()
            && request
                .released
                .wait(secs_to_jiffies(INVALIDATE_LIMIT_SECS))
        {
            // An invalidation that failed leaves the state as it is.
            if !request.state.lock().call.is_releasing() {
                return;
            }
        }
        // Registrations that cannot be invalidated end with the connection (V1-128).
        self.end();
    }

    /// Asks sunrpc to close the connection and waits. Process context, without the write lock. A
    /// worker of sunrpc's queue for transports closes it, and tasks may come here on such workers,
    /// too: the queue has more workers than such tasks can exist.
    pub(super) fn end(&self) {
        // Does nothing if the teardown has begun, or if sunrpc was asked to close the connection.
        self.announce_loss(CloseReason::NotInvalidated);
        self.link.wait_torn_down();
    }

    /// Ends a connection that sunrpc has had: notes why, and [takes it down](Self::tear_down).
    pub(super) fn close(self: &Arc<Self>, sends: ConnectionSends) {
        let why = self.tenure.end(CloseReason::Sunrpc);
        let peer = self.shared.peer();

        policy::peers::note(&peer, self.agreement.offer.take_note());
        // XC-106: the next connections to this server use no larger size.
        if self.agreement.permits_long_sends()
            && matches!(why, CloseReason::Completion(failure) if failure.is_refused())
        {
            policy::peers::lost_at_long_send(&peer);
        }
        if let Some(negotiated) = self.negotiated() {
            let since = negotiated.facts.since;
            self.shared.history.closed(why, since);
            // A connection that is no longer wanted proves nothing about the server.
            if !why.is_wanted() {
                let replies = self.tenure.replies(self.shared.xprt.counters().receives);
                self.shared.lessons.ended(secs_since(since), replies);
            }
            self.shared.trace().op_close(why.as_str());
        }
        self.tear_down(Some(sends));
    }

    /// [Takes the connection down](Link::tear_down), and takes from the calls all that depends on
    /// it. Calls without a reply keep their place in sunrpc, to be sent again, and so do calls
    /// whose invalidation the drain did not complete. A task that abandons its call before the end
    /// finds that it has to wait for this teardown.
    ///
    /// Called once, by the holder of the write lock, with its send queue, or without one if the
    /// connection was never made. Process context.
    pub(super) fn tear_down(self: &Arc<Self>, sends: Option<ConnectionSends>) {
        let (generation, slots) = (self.generation(), &self.shared.slots);

        self.link.tear_down(
            sends,
            || {
                slots
                    .iter()
                    .for_each(|request| request.tear_down(generation))
            },
            || {
                for request in slots.iter() {
                    request.state.lock().call.drained(generation);
                }
            },
        );
        // It would keep the connection, and the device with it, until the limit is over. After the
        // drain no completion queues it again.
        cancel_delayed::<_, WATCHDOG>(self);
    }
}
