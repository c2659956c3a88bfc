// SPDX-License-Identifier: GPL-2.0

//! From a Receive to a completed call.

mod accept;
mod first;
mod invalidate;
mod operations;
mod unexpected;
mod validate;

use kernel::prelude::*;

use super::{
    connection::{
        close_reason::CloseReason,
        waiters::Returned,
        Connection, //
    },
    request::{
        Delivery,
        HeldReply,
        Request, //
    },
    reverse, //
};
use crate::{
    proto::{
        exchange::Refused,
        Incoming,
        RdmaError,
        Reply, //
    },
    sunrpc::{
        Found,
        Pinned, //
    },
    trace::Trace,
    verbs::{
        CompletionHandler,
        Failure,
        Invalidated,
        InvalidatedHandle,
        InvalidationHandler,
        MrList,
        Received,
        RecvBuffer,
        RecvQueue,
        Registered, //
    }, //
};

/// The most bytes of a call plus its reply that are unmapped under `queue_lock`: a READ of 16 KiB,
/// with the XDR around the data.
const MOST_INSIDE: u32 = 20480;

impl CompletionHandler for Connection {
    type Queue = RecvQueue;

    fn sent(&self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.lost(CloseReason::Completion(failure));
        }
        self.waiters.wake(&self.shared.xprt, Returned::Sends);
    }

    #[inline(always)]
    fn received(
        &self,
        queue: &mut RecvQueue,
        buf: RecvBuffer,
        result: Result<Received<'_>, Failure>,
    ) {
        let received = match result {
            Ok(received) => received,
            Err(failure) => return self.lost(CloseReason::Completion(failure)),
        };
        if Trace::is_wc_receive_on() {
            let Received { len, invalidated } = received;
            self.shared
                .trace()
                .wc_receive(len, invalidated.map(InvalidatedHandle::get));
        }
        let source = Source {
            connection: self,
            invalidated: received.invalidated,
        };
        let arrival = Arrival { source, queue, buf };
        let Some(reply) = self.wire().reply(arrival.buf.message()) else {
            return arrival.handle();
        };
        let disposition = source.reply(&reply);

        arrival.dispose(disposition);
    }
}

impl InvalidationHandler for Connection {
    fn invalidated(
        &self,
        queue: &mut RecvQueue,
        context: usize,
        result: Result<MrList<Invalidated>, Failure>,
    ) {
        self.handle_invalidated(queue, context, result);
    }

    fn registration_failed(&self, failure: Failure) {
        self.lost(CloseReason::Completion(failure));
    }
}

impl Connection {
    /// Gives back the buffer of a reply.
    #[inline(always)]
    fn recycle(&self, queue: &mut RecvQueue, buf: RecvBuffer) {
        // Store-buffer pattern: a sender that finds none of these has set its mark before.
        if queue.recycle(buf) || self.waiters.is_short() {
            self.post_receives(0);
        }
    }

    /// Posts the Receives that came back, `unsolicited` of them after an unsolicited message.
    #[cold]
    fn post_receives(&self, unsolicited: u32) {
        let posted = self.link.with_qp(|qp| {
            self.window.receives.remove(unsolicited);
            self.post_held(qp)
        });
        if let Some(Err(error)) = posted {
            self.post_failed(error);
        }
        self.waiters.wake(&self.shared.xprt, Returned::Receives);
    }
}

/// A message that has arrived, in the Receive buffer that it fills. Each exit of the reply path
/// consumes it: [`Self::recycle`], [`Self::unsolicited`] or [`Self::hold`].
#[must_use = "its Receive has to be given back"]
struct Arrival<'q> {
    source: Source<'q>,
    queue: &'q mut RecvQueue,
    buf: RecvBuffer,
}

/// The source of a message. It is passed by value, so that an arrival stays in registers.
#[derive(Clone, Copy)]
struct Source<'q> {
    connection: &'q Connection,
    /// The handle that the server has invalidated with the message.
    invalidated: Option<InvalidatedHandle<'q>>,
}

/// The kind of a message, by the action that it needs.
enum Disposition<'a> {
    /// The reply to a call that waits for it.
    Reply(Replied<'a>),
    /// Any other: its buffer goes back.
    Spent(Spent),
}

/// A message that completes no call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spent {
    /// The reply to an abandoned call.
    Late,
    /// An unsolicited or unusable message.
    Unsolicited,
}

impl From<Spent> for Disposition<'_> {
    #[inline(always)]
    fn from(spent: Spent) -> Self {
        Self::Spent(spent)
    }
}

/// A call that has its reply.
struct Replied<'a> {
    xid: u32,
    found: Found<'a, Request>,
    /// The memory that the server could reach before the reply invalidated any of it.
    exposed: Option<MrList<Registered>>,
    /// The rest of the work on the reply.
    outcome: Outcome,
}

/// The rest of the work on a reply, or the end of its call: with the text for the log, unless the
/// server has reported an error.
type Outcome = Result<Delivery, Option<&'static str>>;

impl Arrival<'_> {
    /// Acts on any message from the server.
    #[inline(never)]
    fn handle(self) {
        let Source { connection, .. } = self.source;
        if connection.attempt.is_probing() {
            if let Some(spent) = self.source.first(self.buf.message()) {
                return self.dispose(spent.into());
            }
        }
        let message = connection.wire().receive(self.buf.message());
        let disposition = self.source.disposition(message);

        self.dispose(disposition);
    }

    /// Ends the life of the message, and gives its buffer back, unless the reply in it has to wait.
    #[inline(always)]
    fn dispose(self, disposition: Disposition<'_>) {
        match disposition {
            Disposition::Reply(replied) => self.accept(replied),
            Disposition::Spent(Spent::Late) => self.recycle(),
            Disposition::Spent(Spent::Unsolicited) => self.unsolicited(),
        }
    }

    /// Gives back the buffer of a reply.
    #[inline(always)]
    fn recycle(self) {
        self.source.connection.recycle(self.queue, self.buf);
    }

    /// Gives back the buffer of a message for which no call has posted a Receive.
    #[cold]
    fn unsolicited(self) {
        self.queue.recycle(self.buf);
        self.source.connection.post_receives(1);
    }

    /// Keeps the buffer, with the reply in it to the call of `pinned`, until the server can no
    /// longer reach the memory of the call.
    #[inline]
    fn hold(self, pinned: Pinned<Request>, delivery: Option<Delivery>) -> HeldReply {
        HeldReply {
            pinned,
            delivery,
            buf: self.buf,
        }
    }
}

impl<'q> Source<'q> {
    /// Acts on a `message`. Returns its kind.
    fn disposition(self, message: Incoming<'_>) -> Disposition<'q> {
        match message {
            Incoming::Reply(reply) => self.reply(&reply),
            Incoming::Unusable { xid, why } => self.unusable(xid, why),
            Incoming::Error {
                xid,
                credits,
                error,
            } => self.refused(xid, credits, &error),
            _ if self.invalidated.is_some() => self.dropped().into(),
            Incoming::Operation(arrived) => self.operation(&arrived).into(),
            Incoming::ReverseCall {
                xid,
                credits,
                payload,
            } => {
                reverse::deliver(self.connection, xid, credits, payload);
                Spent::Unsolicited.into()
            }
            Incoming::BadReverseCall {
                xid,
                version,
                error,
            } => {
                reverse::refuse(self.connection, xid, version, &error);
                Spent::Unsolicited.into()
            }
            Incoming::BadResponse { xid, why } => self.bad_response(xid, why).into(),
            Incoming::Discard(why) => {
                self.count_discarded(why);
                Spent::Unsolicited.into()
            }
        }
    }

    /// Acts on a reply, as [`Self::disposition`].
    #[inline(always)]
    fn reply(self, reply: &Reply<'_>) -> Disposition<'q> {
        let Reply { xid, credits, .. } = *reply;
        let Self {
            connection,
            invalidated,
        } = self;

        // First, since sunrpc counts replies to calls that it does not know.
        if connection.attempt.is_probing() && invalidated.is_none() && self.probed(xid, credits) {
            return Spent::Late.into();
        }
        let Some(mut found) = connection.shared.xprt.find(xid) else {
            return self.unknown(xid, credits).into();
        };
        if Trace::is_reply_on() {
            connection.shared.trace().reply(xid, credits);
        }
        // The section that found the call also completes a short reply, unless more than a little
        // memory has to be unmapped: unmapping may copy it.
        let is_short = reply.payload.len() <= found.head_room()
            && (invalidated.is_none() || found.bytes() <= MOST_INSIDE);
        if !is_short || !connection.window.is_settled(credits) {
            found.leave();
            // Take the grant first: completing the call lets the next one be sent.
            connection.granted(credits);
        }
        self.replied(xid, found, Some(reply))
    }

    /// Acts on an `error` that the server has reported about the call `xid`.
    #[cold]
    fn refused(self, xid: u32, credits: u32, error: &RdmaError) -> Disposition<'q> {
        let connection = self.connection;

        connection.shared.stats.count_error(error);
        match self.operation_refused(xid, error) {
            // Nothing but a reply may invalidate.
            Refused::Request | Refused::OneWay if self.invalidated.is_some() => {
                return self.dropped().into();
            }
            Refused::Request => return Spent::Late.into(),
            Refused::OneWay => return Spent::Unsolicited.into(),
            Refused::Nothing => {}
        }
        // A server that refuses a call that does nothing would refuse all others.
        if connection.attempt.is_probing() && self.probe_failed(xid) {
            return Spent::Late.into();
        }
        let Some(mut found) = connection.shared.xprt.find(xid) else {
            return self.unknown(xid, credits).into();
        };
        found.leave();
        if self.is_refused(xid, error) {
            return Spent::Unsolicited.into();
        }
        if Trace::is_reply_on() {
            connection.shared.trace().reply(xid, credits);
        }
        connection.granted(credits);
        self.replied(xid, found, None)
    }

    /// Takes a reply for its call, if that waits for one on this connection, and checks it against
    /// the chunks that the call offered; `None` is an error of the server.
    #[inline(always)]
    fn replied(
        self,
        xid: u32,
        found: Found<'q, Request>,
        reply: Option<&Reply<'_>>,
    ) -> Disposition<'q> {
        let mut state = found.slot().state.lock();
        if state.gss_sequence != found.gss_sequence() {
            drop(state);
            drop(found);
            return self.outdated(xid).into();
        }
        let Some(exposed) = state.call.replied(self.connection.generation()) else {
            drop(state);
            drop(found);
            self.repeated();
            return Spent::Unsolicited.into();
        };
        let outcome = match reply {
            Some(reply) => self.validate(reply, &state.offered()),
            None => Err(None),
        };

        drop(state);
        Disposition::Reply(Replied {
            xid,
            found,
            exposed,
            outcome,
        })
    }
}
