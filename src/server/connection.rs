// SPDX-License-Identifier: GPL-2.0

//! One connection of a client, from its request to its end.

mod allowance;
mod call;
mod callback;
mod calls;
mod characteristics;
mod close_reason;
mod growth;
pub(super) mod list;
mod open;
mod outbox;
mod read;
mod reading;
mod receive;
mod receives;
mod refusals;
mod reply;
mod show;
mod space;
mod tenure;
mod version;

use core::ops::Deref;

use kernel::{
    new_delayed_work,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        SetOnce, //
    },
    workqueue::DelayedWork, //
};

pub(super) use self::open::{
    Own,
    MOST_SINKS, //
};
use self::{
    call::Call,
    calls::Calls,
    characteristics::Characteristics,
    close_reason::CloseReason,
    list::Entry,
    outbox::Outbox,
    receives::Receives,
    tenure::Tenure,
    version::Version, //
};
use super::{
    admission::Admission,
    refused::RefusedCalls,
    stats::Stats, //
};
use crate::{
    cm::{
        Event,
        EventHandler,
        Gid, //
    },
    link::{
        life::{
            Life,
            LossAction,
            PublishAction, //
        },
        Link,
        LinkQp,
        LinkSends, //
    },
    os::{
        cancel_delayed,
        series::ENOTCONN,
        Last, //
    },
    proto::{
        neutral::Invalidation,
        PrivateData,
        Thresholds,
        Wire, //
    },
    sunrpc::{
        svc::{
            self,
            Arguments,
            Incoming,
            Outgoing,
            SvcXprt, //
        },
        Callbacks,
        Peer, //
    },
    trace::ServerTrace,
    verbs::{
        MrPool,
        PostError,
        RecvBuffer,
        SharedRecvQueue,
        Transfers, //
    }, //
};

/// Messages about connections that are lost.
static LOST: Last = Last::never();

/// The queue pair of a connection, without its send queue.
pub(super) type ConnectionQp = LinkQp<Connection>;

/// The send queue of such a queue pair.
pub(super) type ConnectionSends = LinkSends<Connection>;

/// The terms of a connection, fixed just before its request is accepted.
struct Terms {
    /// The object that the core knows the connection by.
    xprt: SvcXprt,
    /// The port of our device, and its address.
    local: (u32, Gid),
    /// Our message to the client.
    own: PrivateData,
    /// When the terms were fixed, in jiffies.
    since: usize,
    /// The longest messages.
    thresholds: Thresholds,
    /// The most calls that the client may have outstanding.
    credits: u32,
    /// Bytes of a Send buffer.
    send_len: usize,
    /// Takes Receives back.
    receives: SharedRecvQueue,
    /// Makes RDMA Reads and Writes.
    transfers: Arc<Transfers>,
    /// The registrations that RDMA Reads land in, where they need some.
    sinks: Option<Arc<MrPool>>,
    /// The most of them for one message.
    most_transfers: u32,
    /// Elements of an RDMA Write, and of an RDMA Read.
    elements: (u32, u32),
    /// The handles that replies may invalidate.
    invalidation: Invalidation,
}

/// One connection of a client. Completions and events of the connection manager hold this. What it
/// does once it has terms is done by [`Settled`].
#[pin_data]
pub(crate) struct Connection {
    /// The part that is the same at both ends.
    #[pin]
    link: Link<Self>,
    /// The time that it exists.
    #[pin]
    tenure: Tenure,
    /// The client, and the administrator's settings for it.
    admission: Admission,
    /// The version of the protocol that it speaks.
    version: Version,
    /// The characteristics of both ends, in version 2.
    #[pin]
    characteristics: Characteristics,
    /// Its counters.
    stats: Stats,
    /// The terms; none until they are fixed.
    terms: SetOnce<Terms>,
    /// The calls of the client.
    #[pin]
    calls: Calls,
    /// The messages to the client.
    #[pin]
    outbox: Outbox,
    /// The Receives, and the credits that they are good for.
    receives: Receives,
    /// The object that the upper layer calls the client over.
    callbacks: SetOnce<Callbacks>,
    /// Allocates more buffers.
    #[pin]
    growth: DelayedWork<Self>,
}

/// A connection with its terms: all that serves calls and sends messages.
#[derive(Clone, Copy)]
struct Settled<'c> {
    connection: &'c Connection,
    terms: &'c Terms,
}

impl Deref for Settled<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Connection {
    /// A connection that is requested.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(admission: Admission, refused: Arc<RefusedCalls>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                link <- Link::new(),
                tenure <- Tenure::new(),
                version: Version::new(admission.policy.versions()),
                admission,
                characteristics <- Characteristics::new(),
                stats: Stats::new(),
                terms: SetOnce::new(),
                calls <- Calls::new(refused),
                outbox <- Outbox::new(),
                receives: Receives::new(),
                callbacks: SetOnce::new(),
                growth <- new_delayed_work!("rpcrdma_rs::Connection::growth"),
            }),
            GFP_KERNEL,
        )
    }

    /// Puts the connection into the list of all.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the client may not have another one, `ENOMEM`.
    pub(super) fn enlist(self: &Arc<Self>) -> Result {
        self.tenure.enlist(Entry::new(self)?);
        Ok(())
    }

    /// The version of the protocol that it speaks.
    fn wire(&self) -> Wire {
        self.version.wire()
    }

    /// The tracer of this connection.
    fn trace(&self) -> ServerTrace {
        ServerTrace(self.number())
    }

    /// The number of the connection.
    pub(super) fn number(&self) -> u32 {
        self.tenure.number()
    }

    /// The client, and the administrator's settings for it.
    pub(super) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The client's sizes and abilities.
    fn peer(&self) -> PrivateData {
        self.admission.data.unwrap_or_default()
    }

    /// Ends the connection, which its client may make again.
    pub(super) fn end(&self) {
        self.lost(CloseReason::Rule);
    }

    /// The connection with its terms; `None` until these are fixed.
    #[inline]
    fn settled(&self) -> Option<Settled<'_>> {
        let terms = self.terms.as_ref()?;

        Some(Settled {
            connection: self,
            terms,
        })
    }

    /// Logs the end of a connection, loudly unless the client or the administrator wanted it.
    fn log_end(&self, why: &CloseReason) {
        let client = Peer::new(&self.admission.client);

        self.trace().close(why.as_str());
        match why {
            CloseReason::HungUp | CloseReason::Rule | CloseReason::DeviceRemoval => {
                pr_debug!("{client}: connection lost: {why}\n");
            }
            _ if LOST.is_due() => pr_info!("{client}: connection lost: {why}\n"),
            _ => (),
        }
    }

    /// Returns `true` if the connection was lost before it was accepted.
    pub(super) fn is_lost(&self) -> bool {
        !self.link.life().is_forming()
    }

    /// Returns `true` if the connection is lost, or being torn down.
    fn is_closed(&self) -> bool {
        self.link.life().is_closed()
    }

    /// Asks sunrpc to look for calls.
    fn ask(&self) {
        if let Some(settled) = self.settled() {
            settled.terms.xprt.enqueue();
        }
    }

    /// Asks the core to close the connection.
    fn close(&self) {
        if let Some(settled) = self.settled() {
            settled.terms.xprt.close();
        }
    }

    /// The connection is accepted; if it was lost before that, asks the core to close it.
    pub(super) fn publish(&self) {
        self.link.advance_and_tell(Life::published, |action| {
            if action == PublishAction::Disconnect {
                self.close();
            }
        });
    }

    /// Marks the connection as lost because of `why`, and asks the core, once, to close it.
    fn lost(&self, why: CloseReason) {
        self.link.advance_and_tell(Life::lost, |action| {
            self.tenure.end(why);
            if action == LossAction::Disconnect {
                self.close();
            }
        });
    }

    /// A request could not be posted.
    fn post_failed(&self, error: PostError) {
        if let PostError::Device(_) = error {
            self.lost(CloseReason::PostRefused);
        }
    }

    /// Takes the connection down, and frees all that depends on the queue pair.
    pub(super) fn tear_down(self: &Arc<Self>) {
        self.tenure.delist();
        let sends = self.outbox.take_sends();

        self.link.tear_down(sends, || (), || ());
        cancel_delayed::<_, 0>(self);
        self.calls.close();
        // No RDMA Read is under way: the drain has freed the pages of all that did not complete.
        self.calls.close_reading();
    }
}

impl Settled<'_> {
    /// Takes back a Receive whose message has been read, and posts a batch of them when it is full.
    fn recycle(&self, buf: RecvBuffer) {
        if self.terms.receives.recycle(buf) {
            self.post_held();
        }
    }

    /// As [`Self::recycle`], for a message that returns no credit of the client: what a batch holds
    /// back would be missing from the last grant.
    fn recycle_now(&self, buf: RecvBuffer) {
        self.recycle(buf);
        self.post_held();
    }

    /// Posts the Receives that came back.
    fn post_held(&self) {
        let posted = self.link.with_qp(|qp| {
            // Counted under the lock: a message may come into one immediately.
            let posted = qp.post_held().map(|count| self.receives.posted(count));
            if let Some(edition) = qp.take_exchanged() {
                self.characteristics.sizes.exchanged(edition);
            }
            posted
        });
        if let Some(Err(error)) = posted {
            self.post_failed(error);
        }
    }

    /// Drops a call, whether it has a reply or not.
    fn end_call(&self, mut call: KBox<Call>) {
        if core::mem::take(&mut call.is_busy) {
            self.receives.ended();
        }
        let (message, share) = self.calls.end(call);
        if let Some(message) = message {
            self.recycle(message);
        }
        self.pushed(self.calls.give_back(&self.terms.xprt, share));
    }
}

impl EventHandler for Connection {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Established(_) => {
                self.outbox.space.establish(|| self.ask());
            }
            Event::Failed(_) | Event::Unreachable(_) | Event::Rejected(_) => {
                self.lost(CloseReason::Unreachable);
            }
            Event::Disconnected => self.lost(CloseReason::HungUp),
            Event::AddressChanged => self.lost(CloseReason::AddressChanged),
            Event::DeviceRemoval => self.lost(CloseReason::DeviceRemoval),
            Event::AddressResolved | Event::RouteResolved => (),
        }
    }
}

impl svc::Connection for Connection {
    type Item = KBox<Call>;
    type Call = Call;

    fn next(&self) -> Option<KBox<Call>> {
        self.calls.pop(&self.terms.as_ref()?.xprt)
    }

    fn receive<'r>(
        this: ArcBorrow<'_, Self>,
        call: KBox<Call>,
        rqst: Incoming<'r>,
    ) -> Option<(Arguments<'r>, KBox<Call>)> {
        let settled = this.settled()?;
        let (arguments, call) = settled.take_call(call, rqst)?;

        // Replies that wait for buffers hold the calls behind them back, and Receives would be no
        // fewer.
        if settled.outbox.space.is_waited_for()
            || settled
                .receives
                .are_few(call.credits, settled.terms.credits)
        {
            Self::grow(this);
        }
        if settled.characteristics.sizes.is_stirred() {
            Self::work(this);
        }
        Some((arguments, call))
    }

    fn result(&self, call: &mut Call, at: u32, len: u32) {
        call.add_result(at, len);
    }

    fn send(&self, call: &mut Call, reply: Outgoing<'_>) -> Result {
        self.settled().ok_or(ENOTCONN)?.reply(call, reply)
    }

    fn release(&self, call: KBox<Call>) {
        if let Some(settled) = self.settled() {
            settled.end_call(call);
        }
    }

    fn has_space(&self) -> bool {
        self.outbox.space.is_there()
    }

    fn detach(&self) {
        // No loss is reported from here on.
        self.link
            .advance_and_tell(|life| Some((life.torn_down(), ())), |()| ());
        if let Some(why) = self.tenure.ended() {
            self.log_end(why);
        }
        // No completion ends the calls whose RDMA Reads waited.
        self.outbox
            .close(|context| drop(self.calls.end_reading(context)));
        self.calls.close();
        let endpoint = self.link.with_qp(|qp| qp.owner().clone());
        if let Some(endpoint) = endpoint {
            endpoint.disconnect();
        }
    }

    fn free(this: &Arc<Self>) {
        this.tear_down();
    }
}
