// SPDX-License-Identifier: GPL-2.0

//! Messages of the client: the completion handler tells them apart, and threads take the calls.

use kernel::{
    alloc::{
        flags::{
            GFP_NOWAIT,
            __GFP_NOWARN, //
        },
        Flags, //
    },
    prelude::*, //
};

use super::{
    allowance::LIMITS,
    call::Call,
    close_reason::CloseReason,
    outbox::Unsent,
    Connection, //
    Settled,
};
use crate::{
    proto::{
        neutral::{
            Invalidation,
            Optional, //
        },
        responder::{
            offer::{
                Offer,
                OfferLimits, //
            },
            rebuild::Rebuild,
            received::{
                self,
                Reason,
                Received, //
            }, //
        },
        Defect,
        RdmaError,
        Wire, //
    },
    sunrpc::svc::{
        Arguments,
        Incoming, //
    },
    trace::ServerTrace,
    verbs::{
        self,
        CompletionHandler,
        Failure,
        RecvBuffer,
        SharedRecvQueue, //
    }, //
};

impl CompletionHandler for Connection {
    type Queue = SharedRecvQueue;

    fn sent(&self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.lost(CloseReason::Completion(failure));
        }
        if let Some(settled) = self.settled() {
            settled.flush_waiting();
        }
    }

    fn received(
        &self,
        _queue: &mut SharedRecvQueue,
        buf: RecvBuffer,
        result: Result<verbs::Received<'_>, Failure>,
    ) {
        self.receives.completed();
        match result {
            Ok(_) => {
                self.stats.received.inc();
                if let Some(settled) = self.settled() {
                    settled.arrived(buf);
                }
            }
            // Freed here: the queue pair ends.
            Err(failure) => self.lost(CloseReason::Completion(failure)),
        }
    }
}

/// A message of the client.
enum Arrival<'m> {
    /// A call.
    Call(Result<KBox<Call>>),
    /// A reply to a call of the server.
    Reply {
        xid: u32,
        credits: u32,
        payload: &'m [u8],
    },
    /// The client could not process a message of the server.
    CallFailed { xid: u32, error: RdmaError },
    /// An optional operation, or the xid of a response to one of ours that cannot be decoded.
    Operation(Result<Optional<'m>, u32>),
    /// A message that gets an error in reply.
    Reject {
        xid: u32,
        version: u32,
        error: RdmaError,
    },
    /// A message that gets no reply.
    Nothing,
}

impl Settled<'_> {
    /// The handles that the reply to a call in version `wire` may invalidate. Private data is about
    /// version 1 alone (V2-26).
    fn invalidation(&self, wire: Wire) -> Invalidation {
        match wire {
            Wire::V1 => self.terms.invalidation,
            Wire::V2 if self.characteristics.permit_invalidation() => self.own_invalidation(),
            Wire::V2 => Invalidation::None,
        }
    }

    /// The kind of `message`.
    fn kind<'m>(&self, message: &'m [u8]) -> Arrival<'m> {
        let (wire, received) = self.version.receive(message);
        match received {
            Received::Call(call) => match check(&call) {
                Ok(len) => Arrival::Call(self.calls.record(|record| {
                    self.version.fix(wire);
                    record.begin(wire, &call, message.len(), len, self.invalidation(wire));
                })),
                Err(defect) => {
                    self.unusable(Received::bad_header(call.xid, wire.version(), defect))
                }
            },
            received => self.unusable(received),
        }
    }

    /// The arrival of something else than a call.
    fn unusable<'m>(&self, received: Received<'m>) -> Arrival<'m> {
        match received {
            Received::Reject {
                xid,
                version,
                error,
                why,
            } => {
                self.count_unusable(xid, why);
                Arrival::Reject {
                    xid,
                    version,
                    error,
                }
            }
            Received::ReverseReply {
                xid,
                credits,
                payload,
            } => Arrival::Reply {
                xid,
                credits,
                payload,
            },
            Received::ReverseError { xid, error, .. } => Arrival::CallFailed { xid, error },
            Received::Operation(arrived) => Arrival::Operation(Ok(arrived)),
            Received::BadResponse { xid } => {
                self.count_unusable(xid, Reason::BadReply);
                Arrival::Operation(Err(xid))
            }
            Received::Drop(why) => {
                self.count_unusable(0, why);
                Arrival::Nothing
            }
            Received::Call(_) => Arrival::Nothing,
        }
    }

    /// Counts a message that is no call; `xid` is 0 if it has none.
    #[cold]
    fn count_unusable(&self, xid: u32, why: Reason) {
        self.trace().unusable(xid, why.as_str());
        if let Some(counter) = self.stats.unusable.get(why.index()) {
            counter.inc();
        }
    }

    /// A call of the client has come.
    #[inline]
    fn called(&self, mut call: KBox<Call>, buf: RecvBuffer) {
        let client = self.admission.client.ip();

        if self.calls.refusals.take(client, call.xid) {
            self.stats.repeated_calls.inc();
            self.recycle(buf);
            let _ = self.reject_call(&call, GFP_NOWAIT | __GFP_NOWARN);
            return self.end_call(call);
        }
        call.keep(buf);
        self.enqueue(call);
    }

    /// The client refuses an operation, or a call to it, with this xid.
    #[cold]
    fn refused(&self, xid: u32, error: &RdmaError) {
        if !self.operation_refused(xid, error) {
            self.call_back_failed(xid);
        }
    }

    /// A message of the client has come.
    fn arrived(&self, buf: RecvBuffer) {
        match self.kind(buf.message()) {
            Arrival::Call(Ok(call)) => self.called(call, buf),
            Arrival::Call(Err(_)) => self.lost(CloseReason::NoResources),
            Arrival::Reject {
                xid,
                version,
                error,
            } => {
                if error == RdmaError::InvalidOption {
                    return self.refuse_operation(buf, xid, version);
                }
                // Its Receive is posted again before the client gets its credit back (V1-34).
                self.recycle(buf);
                let _ = self.reject(xid, version, &error, GFP_NOWAIT | __GFP_NOWARN);
            }
            Arrival::Reply {
                xid,
                credits,
                payload,
            } => {
                self.called_back(xid, credits, payload);
                self.recycle_now(buf);
            }
            Arrival::Operation(arrived) => {
                let order = self.characteristics.order.lock();
                let messages = self.take_operation(arrived);
                // Its Receive is posted again before the client gets its credit back (V1-34).
                self.recycle_now(buf);
                self.send_operations(messages);
                drop(order);
            }
            Arrival::CallFailed { xid, error } => {
                self.refused(xid, &error);
                self.recycle_now(buf);
            }
            Arrival::Nothing => self.recycle_now(buf),
        }
    }

    /// Leaves a call to a thread.
    fn enqueue(&self, mut call: KBox<Call>) {
        call.is_busy = true;
        self.stats.calls.inc();
        if ServerTrace::is_call_on() {
            // CAST: A message is shorter than 4 GiB.
            self.trace().call(call.xid, call.message().len() as u32);
        }
        if !self.receives.begun() {
            self.stats.excess_calls.inc();
        }
        self.push(call);
    }

    /// Puts a call into the inbox.
    fn push(&self, call: KBox<Call>) {
        self.pushed(self.calls.push(&self.terms.xprt, call));
    }

    /// Puts a call whose arguments are here into the inbox.
    pub(super) fn push_read(&self, call: KBox<Call>) {
        self.pushed(self.calls.push_read(&self.terms.xprt, call));
    }

    /// Ends a call for which the inbox has no place.
    pub(super) fn pushed(&self, pushed: Result<(), KBox<Call>>) {
        // If it is closed the connection ends anyway. If it is full the client has sent far more
        // calls than it may.
        if let Err(call) = pushed {
            self.lost(CloseReason::Overrun);
            self.end_call(call);
        }
    }

    /// Gives the arguments of `call` to a thread. `None` drops the call.
    pub(super) fn take_call<'r>(
        &self,
        mut call: KBox<Call>,
        rqst: Incoming<'r>,
    ) -> Option<(Arguments<'r>, KBox<Call>)> {
        if call.is_reduced {
            self.read_arguments(call);
            return None;
        }
        let arguments = match call.take_read() {
            Some(pages) => rqst.exchange(pages, call.len),
            None => rqst.copy(call.arguments()),
        };
        // The thread has freed as many pages as it took.
        self.pushed(self.calls.give_back(&self.terms.xprt, call.share.take()));
        if let Some(message) = call.take_message() {
            self.recycle(message);
        }
        let Some(arguments) = arguments else {
            let _ = self.reject_call(&call, GFP_KERNEL);
            self.end_call(call);
            return None;
        };
        // A call must not be executed that could not be replied to (H-116).
        if self.is_closed() {
            self.end_call(call);
            return None;
        }
        Some((arguments, call))
    }

    /// Rejects `call`, whose arguments cannot be had, or whose reply cannot be sent.
    ///
    /// # Errors
    ///
    /// As [`Self::reject`].
    pub(super) fn reject_call(&self, call: &Call, flags: Flags) -> Result {
        let version = call.wire.version();
        self.reject(call.xid, version, &RdmaError::BadHeader, flags)
    }

    /// Refuses an operation that is not supported. Of a flood each but one is dropped: errors about
    /// them have a buffer of their own, and take no room from replies (V2-75).
    #[cold]
    fn refuse_operation(&self, buf: RecvBuffer, xid: u32, version: u32) {
        // A dropped error returns no credit.
        self.recycle_now(buf);
        let most = self.terms.credits;
        let credits = self.receives.grant(most, most);
        let posted = self.link.with_qp(|qp| {
            qp.post_spare(|out| {
                let error = RdmaError::InvalidOption;
                let written = self.wire().encode_error(xid, version, credits, &error, out);
                written.ok().and_then(|len| u32::try_from(len).ok())
            })
        });
        match posted {
            Some(Ok(true)) => self.stats.header_errors.inc(),
            Some(Ok(false)) => self.stats.odd_operations.inc(),
            Some(Err(error)) => self.post_failed(error),
            None => {}
        }
    }

    /// Rejects the message with this xid and version because of `error`.
    ///
    /// # Errors
    ///
    /// The reason why the client does not learn of it; the connection ends then.
    fn reject(&self, xid: u32, version: u32, error: &RdmaError, flags: Flags) -> Result {
        match error {
            RdmaError::Version { .. } => self.stats.version_errors.inc(),
            RdmaError::BadHeader | RdmaError::InvalidOption => self.stats.header_errors.inc(),
        }
        let most = self.terms.credits;
        let credits = self.receives.grant(most, most);
        let sent = self.send_message(RdmaError::LONGEST, None, flags, |out| {
            let len = self
                .wire()
                .encode_error(xid, version, credits, error, out)
                .ok()?;
            u32::try_from(len).ok()
        });
        self.check_sent(sent)
    }

    /// Ends the connection if a message could not be sent, so that the client does not wait for it
    /// (V1-121).
    pub(super) fn check_sent(&self, sent: Result<(), Unsent>) -> Result {
        match sent {
            Ok(()) | Err(Unsent::Closed) => (),
            Err(Unsent::Device) => self.lost(CloseReason::PostRefused),
            Err(Unsent::Refused(error)) => self.lost(CloseReason::of(error)),
        }
        Ok(sent?)
    }
}

/// The most that is taken as the offer of one call. A larger one takes more RDMA Writes than a
/// reply may have.
const OFFER: OfferLimits = OfferLimits {
    chunks: 16,
    segments: 256,
};

/// Checks that the arguments of a call can be put together, and its offer kept. Returns the bytes
/// of the arguments if parts of them are in the client's memory.
///
/// # Errors
///
/// The [`Defect`]; the call is rejected.
fn check(call: &received::Call<'_>) -> Result<u32, Defect> {
    Offer::of(&call.chunks, &OFFER)?;
    if call.is_inline() {
        return Ok(0);
    }
    Ok(Rebuild::plan(&call.chunks, call.payload, &LIMITS)?.len())
}
