// SPDX-License-Identifier: GPL-2.0

//! From a Receive to a completed call.

use kernel::prelude::*;

use super::{
    connection::Connection,
    flight::{
        Flight,
        Phase, //
    }, //
};
use crate::{
    proto::{
        classify,
        credits,
        encode_error,
        reply,
        Incoming,
        Placed,
        RdmaError,
        Reply, //
    },
    sunrpc::{
        DeliverError,
        Pinned, //
    },
    verbs::{
        Completions,
        Failure,
        PostError,
        Received,
        WrId, //
    }, //
};

impl Completions for Connection {
    fn sent(&self, id: WrId, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.lost(failure.as_str());
        }
        self.with_qp(|qp| qp.sent(id));
        self.shared.xprt.space_available();
    }

    fn received(&self, id: WrId, result: Result<Received, Failure>) {
        let len = result.map_or(0, |received| received.len);
        let buf = self.with_qp(|qp| qp.received(id, len)).flatten();

        let (received, buf) = match (result, buf) {
            (Ok(received), Some(buf)) => (received, buf),
            (Err(failure), _) => return self.lost(failure.as_str()),
            (Ok(_), None) => return self.lost(c"Receives completed out of order"),
        };
        self.handle(buf.message(received.len), received.invalidated);

        if let Some(Err(error)) = self.with_qp(|qp| qp.recycle(buf)) {
            self.post_failed(error);
        }
    }

    fn fenced(&self, context: usize, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.lost(failure.as_str());
        }
        self.shared.xprt.space_available();
        let Some(flight) = self.shared.slots.get(context) else {
            return;
        };
        let mut state = flight.state.lock();
        match core::mem::replace(&mut state.phase, Phase::Idle) {
            Phase::Fencing { reply, len } => {
                drop(state);
                match result {
                    Ok(()) => finish(reply, len),
                    // Not fenced, so not answered: the teardown sees to the registrations, and the
                    // call is sent again.
                    Err(_) => drop(reply),
                }
            }
            Phase::Releasing => {
                if result.is_err() {
                    state.phase = Phase::Releasing;
                }
                drop(state);
                flight.released.signal();
            }
            other => state.phase = other,
        }
    }

    fn registration_failed(&self, failure: Failure) {
        self.lost(failure.as_str());
    }
}

/// Completes a call with a reply of `len` octets, or with an error.
fn finish(pinned: Pinned<Flight>, len: Option<u32>) {
    match len {
        Some(len) => pinned.complete(len),
        None => pinned.fail(),
    }
}

impl Connection {
    /// Acts on a message from the server.
    #[inline]
    fn handle(&self, message: &[u8], invalidated: Option<u32>) {
        let stats = &self.shared.stats;

        match classify(message) {
            Incoming::Reply(reply) => {
                self.answered(reply.xid, reply.credits, invalidated, |pinned| {
                    self.take_reply(&reply, pinned)
                })
            }
            Incoming::Error {
                xid,
                credits,
                error,
            } => {
                match error {
                    RdmaError::Version { .. } => stats.version_errors.inc(),
                    RdmaError::BadHeader => stats.header_errors.inc(),
                }
                self.answered(xid, credits, invalidated, |_| None);
            }
            Incoming::BackwardCall { xid, payload, .. } if invalidated.is_none() => {
                self.backward_call(xid, payload);
            }
            Incoming::BadBackwardCall { xid, version } if invalidated.is_none() => {
                self.refuse_backward(xid, version);
            }
            Incoming::Discard(why) if invalidated.is_none() => {
                if let Some(counter) = stats.discarded.get(why.index()) {
                    counter.inc();
                }
            }
            // PD-33, PD-30: nothing but an answer may invalidate a handle.
            Incoming::BackwardCall { .. }
            | Incoming::BadBackwardCall { .. }
            | Incoming::Discard(_) => {
                self.foreign_handle();
            }
        }
    }

    /// The server has answered the call `xid`, in a way that `take` makes a reply of.
    #[inline]
    fn answered(
        &self,
        xid: u32,
        wire_credits: u32,
        invalidated: Option<u32>,
        take: impl FnOnce(&mut Pinned<Flight>) -> Option<u32>,
    ) {
        let stats = &self.shared.stats;
        let Some(mut pinned) = self.shared.xprt.lookup(xid) else {
            // Given up by its task, or never ours. What it exposed was fenced when it was given up.
            stats.unknown_xids.inc();
            if invalidated.is_some() {
                self.foreign_handle();
            }
            return;
        };

        // The grant counts before the call completes, since completing it lets the next one go.
        let requested = self.terms().map_or(1, |terms| terms.credits);
        if wire_credits == 0 {
            stats.zero_grants.inc();
        }
        self.shared
            .xprt
            .set_credits(credits::grant(wire_credits, requested));

        let exposed = {
            let mut state = pinned.slot().state.lock();
            match &mut state.phase {
                Phase::Sent {
                    generation,
                    exposed,
                } if *generation == self.generation() => {
                    let exposed = exposed.take();
                    state.phase = Phase::Idle;
                    exposed
                }
                _ => {
                    drop(state);
                    stats.duplicate_replies.inc();
                    self.violated(c"a second reply to the same call");
                    return;
                }
            }
        };

        let mut mrs = exposed.map(|exposed| exposed.mrs);
        if let Some(handle) = invalidated {
            if !mrs.as_mut().is_some_and(|mrs| mrs.retire(handle)) {
                // What remains is set aside for the teardown, and the call is sent again after it.
                self.foreign_handle();
                return;
            }
            stats.remote_invalidations.inc();
            self.shared.xprt.space_available();
        }

        let len = take(&mut pinned);
        match len {
            Some(_) => self.prove(),
            None => stats.bad_replies.inc(),
        }
        let Some(mrs) = mrs.filter(|mrs| mrs.count() != 0) else {
            return finish(pinned, len);
        };

        // The reply waits until the server cannot reach the memory any more (V1-126).
        stats.local_invalidations.add(mrs.count());
        let index = pinned.slot().index as usize;
        let slots = self.shared.slots.clone();
        let Some(flight) = slots.get(index) else {
            return;
        };
        flight.state.lock().phase = Phase::Fencing { reply: pinned, len };
        let fenced = self
            .with_qp(|qp| qp.fence(mrs, index))
            .unwrap_or(Err(PostError::Closed));
        if let Err(error) = fenced {
            // V1-120: without a fence the call is not answered; the connection ends and the call is
            // sent again.
            let phase = core::mem::replace(&mut flight.state.lock().phase, Phase::Idle);
            drop(phase);
            self.post_failed(error);
        }
    }

    /// Checks a reply against what its call offered and puts its inline part where it belongs.
    /// Returns the length of the whole reply, or `None` if it is not a good one.
    #[inline]
    fn take_reply(&self, reply: &Reply<'_>, pinned: &mut Pinned<Flight>) -> Option<u32> {
        let stats = &self.shared.stats;
        let placed = reply::check(reply, &pinned.slot().state.lock().offered()).ok()?;

        let placed = match placed {
            Placed::ReplyChunk { length } => {
                stats.rdma_reply_octets.add(length);
                return (length % 4 == 0).then_some(length);
            }
            Placed::WriteChunk { length } => {
                stats.rdma_reply_octets.add(length);
                (length != 0).then_some(length)
            }
            Placed::Inline => None,
        };
        let payload = reply.payload?;
        if payload.len() % 4 != 0 {
            return None;
        }
        let (len, copied) = pinned.fill(payload, placed).ok()?;
        if copied != 0 {
            stats.fixup_octets.add(copied);
        }
        Some(len)
    }

    /// The server calls us.
    fn backward_call(&self, xid: u32, payload: &[u8]) {
        let stats = &self.shared.stats;

        match self
            .shared
            .backchannel
            .deliver(&self.shared.xprt, xid, payload, self.generation())
        {
            Ok(()) => stats.backward_calls.inc(),
            Err(DeliverError::NotSetUp | DeliverError::TooLong) => stats.backward_unserved.inc(),
            Err(DeliverError::NoSlot) => {
                stats.backward_overflows.inc();
                self.violated(c"more backward calls than granted");
            }
        }
    }

    /// Answers a backward call that has chunks (BI-30).
    fn refuse_backward(&self, xid: u32, version: u32) {
        self.with_qp(|qp| {
            let Some(mut buf) = qp.take_send() else {
                return;
            };
            let encoded = encode_error(
                xid,
                version,
                super::transport::BACKWARD_SLOTS,
                &RdmaError::BadHeader,
                buf.as_mut_slice(),
            );
            match encoded.ok().and_then(|len| u32::try_from(len).ok()) {
                Some(len) => {
                    // A failure closes the queue pair, which the next to post reports.
                    let _ = qp.post(None, buf, len);
                }
                None => qp.put_send(buf),
            }
        });
    }

    /// The server has invalidated a handle that was not its to invalidate: what else it can reach
    /// is in doubt.
    fn foreign_handle(&self) {
        self.shared.stats.foreign_invalidations.inc();
        self.violated(c"it invalidated a handle that is not the call's");
    }
}
