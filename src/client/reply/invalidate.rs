// SPDX-License-Identifier: GPL-2.0

//! Local invalidation: the reply of a call waits until the server can no longer reach its memory.

use kernel::prelude::*;

use super::{
    super::{
        connection::{
            close_reason::CloseReason,
            Connection,
            ConnectionQp, //
        },
        negotiated::Negotiated,
        request::{
            state::InvalidationOutcome,
            HeldReply, //
        }, //
    },
    accept::place, //
};
use crate::{
    trace::Trace,
    verbs::{
        Failure,
        Invalidated,
        MrList,
        PostError,
        RecvQueue,
        Registered, //
    }, //
};

impl Connection {
    /// Posts the invalidation of `mrs`, whose completion carries `context`, and calls `posted`
    /// under the lock of the queue pair.
    ///
    /// # Errors
    ///
    /// As [`MrPool::invalidate`](crate::verbs::MrPool::invalidate); without a queue pair the
    /// registrations wait for the drain, too.
    pub(in crate::client) fn post_invalidation<R>(
        &self,
        mrs: MrList<Registered>,
        context: usize,
        posted: impl FnOnce() -> R,
    ) -> Result<R, PostError> {
        let Some(Negotiated { pool, .. }) = self.negotiated() else {
            return Err(PostError::Closed);
        };
        let invalidate = |qp: &mut ConnectionQp| {
            pool.invalidate(qp.poster(), mrs, context)?;
            Ok(posted())
        };
        self.link
            .with_qp(invalidate)
            .unwrap_or(Err(PostError::Closed))
    }

    /// Keeps the server from the memory under `mrs` before its reply counts (V1-126), and before
    /// the processor touches the memory, which is the device's until then (V1-127).
    pub(super) fn invalidate(&self, reply: HeldReply, mrs: MrList<Registered>) {
        let count = mrs.count();
        self.shared.stats.local_invalidations.add(count);
        let index = reply.pinned.slot().index as usize;
        let Some(request) = self.shared.slots.get(index) else {
            return;
        };
        {
            let mut state = request.state.lock();
            if Trace::is_mr_localinv_on() {
                self.shared.trace().mr_localinv(state.xid, count);
            }
            state.call.invalidate_for(self.generation(), reply);
        }
        match self.post_invalidation(mrs, index, || self.deadline.posted()) {
            Ok(false) => {}
            Ok(true) => self.watch(),
            Err(error) => {
                // V1-120: without an invalidation the call gets no reply; the connection ends and
                // the call is sent again.
                let dropped = request.state.lock().call.invalidated(false);
                drop(dropped);
                self.post_failed(error);
            }
        }
    }

    /// Completes the call of slot `context`, whose reply waits for the invalidation that has ended
    /// with `result`, or wakes the task that waits for it. If the invalidation failed, the call is
    /// sent again after the teardown.
    pub(super) fn handle_invalidated(
        &self,
        queue: &mut RecvQueue,
        context: usize,
        result: Result<MrList<Invalidated>, Failure>,
    ) {
        let mrs = result
            .inspect_err(|failure| self.lost(CloseReason::Completion(*failure)))
            .ok();
        let Some(request) = self.shared.slots.get(context) else {
            return;
        };
        let outcome = request.state.lock().call.invalidated(mrs.is_some());
        match outcome {
            InvalidationOutcome::Deliver(mut reply) => {
                self.deadline.completed();
                if let Some(mrs) = mrs {
                    place(&mut reply.pinned, reply.delivery, &mrs);
                }
                self.complete(reply.pinned.into(), reply.delivery, reply.buf.message());
                self.recycle(queue, reply.buf);
            }
            InvalidationOutcome::Released => {
                // Before the task continues.
                drop(mrs);
                request.released.signal();
            }
            // The call is sent again after the teardown.
            InvalidationOutcome::Drop(reply) => {
                self.deadline.completed();
                drop(reply);
            }
            InvalidationOutcome::Nothing => {}
        }
        // A sender may wait for these registrations.
        self.waiters.replied(&self.shared.xprt);
    }
}
