// SPDX-License-Identifier: GPL-2.0

//! From a Receive to a completed call.

mod invalidate;
mod unexpected;
mod validate;

use kernel::{
    prelude::*,
    sync::atomic::Relaxed, //
};

use super::{
    connection::{
        close_reason::{
            CloseReason,
            Violation, //
        },
        waiters::Returned,
        Connection, //
    },
    request::{
        remotely_invalidated,
        Delivery,
        HeldReply,
        Request, //
    }, //
};
use crate::{
    policy::RemoteInvalidation,
    proto::{
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
        let Some(reply) = self.wire().reply(buf.message()) else {
            return self.handle(queue, buf, received);
        };
        let disposition = self.reply(&reply, received.invalidated);
        self.dispose(queue, buf, received, disposition);
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

/// Copies the parts of a reply that have come by RDMA to the bounce page of `mrs` to their places.
#[inline]
fn place(pinned: &mut Pinned<Request>, delivery: Option<Delivery>, mrs: &MrList<Invalidated>) {
    if let Some(Delivery::Nothing { len }) = delivery {
        if let Some((head, tail)) = mrs.written() {
            pinned.place(head, tail, len);
        }
    }
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

impl Connection {
    /// Acts on any message from the server.
    #[inline(never)]
    fn handle(&self, queue: &mut RecvQueue, buf: RecvBuffer, received: Received<'_>) {
        let message = self.wire().receive(buf.message());
        let disposition = self.disposition(message, received.invalidated);

        self.dispose(queue, buf, received, disposition);
    }

    /// Acts on a message from the server, which has `invalidated` this handle, if any. Returns the
    /// kind of the message.
    fn disposition(
        &self,
        message: Incoming<'_>,
        invalidated: Option<InvalidatedHandle<'_>>,
    ) -> Disposition<'_> {
        match message {
            Incoming::Reply(reply) => self.reply(&reply, invalidated),
            Incoming::Unusable { xid, why } => self.unusable(xid, why, invalidated),
            Incoming::Error {
                xid,
                credits,
                error,
            } => self.refused(xid, credits, &error, invalidated),
            _ if invalidated.is_some() => self.dropped(invalidated).into(),
            Incoming::ReverseCall {
                xid,
                credits,
                payload,
            } => {
                self.reverse_call(xid, credits, payload);
                Spent::Unsolicited.into()
            }
            Incoming::BadReverseCall { xid, version } => {
                self.refuse_reverse(xid, version);
                Spent::Unsolicited.into()
            }
            Incoming::Discard(why) => {
                self.discard(why);
                Spent::Unsolicited.into()
            }
        }
    }

    /// Acts on a reply, as [`Self::disposition`].
    #[inline(always)]
    fn reply(
        &self,
        reply: &Reply<'_>,
        invalidated: Option<InvalidatedHandle<'_>>,
    ) -> Disposition<'_> {
        let Reply { xid, credits, .. } = *reply;

        // First, since sunrpc counts replies to calls that it does not know.
        if self.attempt.is_probing() && invalidated.is_none() && self.probed(xid, credits) {
            return Spent::Late.into();
        }
        let Some(mut found) = self.shared.xprt.find(xid) else {
            return self.unknown(xid, credits, invalidated).into();
        };
        if Trace::is_reply_on() {
            self.shared.trace().reply(xid, credits);
        }
        // The section that found the call also completes a short reply, unless more than a little
        // memory has to be unmapped: unmapping may copy it.
        let is_short = reply.payload.len() <= found.head_room()
            && (invalidated.is_none() || found.bytes() <= MOST_INSIDE);
        if !is_short || !self.window.is_settled(credits) {
            found.leave();
            // Take the grant first: completing the call lets the next one be sent.
            self.granted(credits);
        }
        self.replied(xid, found, Some(reply))
    }

    /// Acts on an `error` that the server has reported about the call `xid`.
    #[cold]
    fn refused(
        &self,
        xid: u32,
        credits: u32,
        error: &RdmaError,
        invalidated: Option<InvalidatedHandle<'_>>,
    ) -> Disposition<'_> {
        self.shared.stats.count_error(error);
        // A server that refuses a call that does nothing would refuse all others.
        if self.attempt.is_probing() && self.probe_failed(xid) {
            return Spent::Late.into();
        }
        let Some(mut found) = self.shared.xprt.find(xid) else {
            return self.unknown(xid, credits, invalidated).into();
        };
        found.leave();
        if Trace::is_reply_on() {
            self.shared.trace().reply(xid, credits);
        }
        self.granted(credits);
        self.replied(xid, found, None)
    }

    /// Takes a reply for its call, if that waits for one on this connection, and checks it against
    /// the chunks that the call offered; `None` is an error of the server.
    #[inline(always)]
    fn replied<'a>(
        &self,
        xid: u32,
        found: Found<'a, Request>,
        reply: Option<&Reply<'_>>,
    ) -> Disposition<'a> {
        let mut state = found.slot().state.lock();
        let Some(exposed) = state.call.replied(self.generation()) else {
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

    /// Ends the life of a message, and gives its buffer back, unless the reply in it has to wait.
    #[inline(always)]
    fn dispose(
        &self,
        queue: &mut RecvQueue,
        buf: RecvBuffer,
        received: Received<'_>,
        disposition: Disposition<'_>,
    ) {
        match disposition {
            Disposition::Reply(replied) => self.accept(queue, buf, received, replied),
            Disposition::Spent(Spent::Late) => self.recycle(queue, buf),
            Disposition::Spent(Spent::Unsolicited) => self.unsolicited(queue, buf),
        }
    }

    /// Gives back the buffer of a message for which no call has posted a Receive.
    #[cold]
    fn unsolicited(&self, queue: &mut RecvQueue, buf: RecvBuffer) {
        queue.recycle(buf);
        self.post_receives(true);
    }

    /// Takes a reply for its call, unless it has invalidated a handle of another call. Completes
    /// the call, or first invalidates the memory that the server can reach.
    #[inline(always)]
    fn accept(
        &self,
        queue: &mut RecvQueue,
        buf: RecvBuffer,
        received: Received<'_>,
        mut replied: Replied<'_>,
    ) {
        let (mut free, mut trusted) = (None, true);
        let (xid, outcome) = (replied.xid, replied.outcome);
        let delivery = outcome.ok();

        if let Some(handle) = received.invalidated {
            let Some(taken) = remotely_invalidated(&mut replied.exposed, handle) else {
                return self.reject(queue, buf, replied);
            };
            place(&mut replied.found, delivery, &taken);
            free = Some(taken);
            trusted = self.count_remote_invalidation();
        }
        let found = replied.found;
        match replied.exposed {
            None => {
                if let Some(mrs) = free {
                    found.slot().keep(mrs);
                }
                self.complete(found, delivery, buf.message());
                self.recycle(queue, buf);
            }
            Some(mrs) => {
                let reply = HeldReply {
                    pinned: found.into_pinned(),
                    delivery,
                    buf,
                };
                self.invalidate(reply, mrs);
            }
        }
        // Not while sunrpc's lock may be held: the console may be slow.
        if let Err(Some(why)) = outcome {
            self.report(xid, why);
        }
        if !trusted {
            self.violated(Violation::UnannouncedInvalidation);
        }
    }

    /// Ends the connection over a reply that has invalidated a handle that is not the call's. The
    /// call stays as it was, and is sent again after the teardown.
    #[cold]
    fn reject(&self, queue: &mut RecvQueue, buf: RecvBuffer, replied: Replied<'_>) {
        let mut state = replied.found.slot().state.lock();
        state
            .call
            .reply_rejected(self.generation(), replied.exposed);
        drop(state);
        drop(replied.found);
        self.foreign_handle();
        self.unsolicited(queue, buf);
    }

    /// Gives the buffer of a reply back.
    #[inline(always)]
    fn recycle(&self, queue: &mut RecvQueue, buf: RecvBuffer) {
        // Store-buffer pattern: a sender that finds none of these has set its mark before.
        if queue.recycle(buf) || self.waiters.is_short() {
            self.post_receives(false);
        }
    }

    /// Posts the Receives that came back. With `unsolicited`, one of them has taken an unsolicited
    /// message.
    #[cold]
    fn post_receives(&self, unsolicited: bool) {
        let posted = self.with_qp(|qp| {
            if unsolicited {
                self.window.receives.remove(1);
            }
            self.post_held(qp)
        });
        if let Some(Err(error)) = posted {
            self.post_failed(error);
        }
        self.waiters.wake(&self.shared.xprt, Returned::Receives);
    }

    /// Counts a handle that the server has invalidated. Returns `true` if the connection may
    /// continue.
    #[inline(always)]
    fn count_remote_invalidation(&self) -> bool {
        let stats = &self.shared.stats;
        let policy = self
            .negotiated()
            .map(|negotiated| negotiated.remote_invalidation);

        stats.remote_invalidates.inc();
        if policy == Some(RemoteInvalidation::On) {
            return true;
        }
        // PD-31: it did so without permission.
        stats.unsolicited_invalidates.inc();
        let strict = policy == Some(RemoteInvalidation::Strict);
        if strict {
            // The next connection does not offer it.
            self.shared.distrusted.store(true, Relaxed);
        }
        !strict
    }

    /// Completes a call whose memory the server can no longer reach, with its reply in `message`,
    /// or with an error.
    #[inline(always)]
    fn complete(&self, mut found: Found<'_, Request>, delivery: Option<Delivery>, message: &[u8]) {
        let len = match delivery {
            Some(Delivery::Nothing { len }) => Some(len),
            Some(Delivery::Inline { payload, placed }) => message
                .len()
                .checked_sub(payload)
                .and_then(|start| message.get(start..))
                .and_then(|payload| found.fill(payload, placed).ok())
                .map(|(len, copied)| {
                    if copied != 0 {
                        self.shared.stats.fixup_bytes.add(copied);
                    }
                    len
                }),
            None => None,
        };
        match len {
            Some(len) => {
                self.confirm();
                found.complete(len);
            }
            None => {
                self.shared.stats.bad_replies.inc();
                found.fail();
            }
        }
    }

    /// The server has invalidated a handle that was not its to invalidate: which memory it can
    /// still reach is in doubt.
    fn foreign_handle(&self) {
        self.shared.stats.foreign_invalidates.inc();
        self.violated(Violation::ForeignHandle);
    }
}
