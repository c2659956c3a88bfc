// SPDX-License-Identifier: GPL-2.0

//! From a call to its Send.

mod build;
mod chunks;

use kernel::{
    prelude::*,
    sync::{
        barrier::{
            smp_mb,
            Full, //
        },
        Arc, //
    }, //
};

use super::{
    connection::{
        close_reason::CloseReason,
        Connection,
        ConnectionSends, //
    },
    request::{
        CallData,
        Request, //
    }, //
};
use crate::{
    proto::Segment,
    sunrpc::{
        Call,
        PostedCall,
        SendStatus, //
    },
    trace::Trace,
    verbs::{
        Expects,
        PostError,
        SendBuffer, //
    }, //
};

use build::{
    Built,
    Unsendable, //
};

/// The holder of the write lock sends with this: a connection, and the half of its queue pair that
/// nothing else uses.
pub(super) struct Sender {
    /// The connection.
    pub(super) connection: Arc<Connection>,
    /// Its send queue.
    pub(super) queue: ConnectionSends,
}

impl Sender {
    /// Sends `call`, or ends it when it can never be sent.
    ///
    /// # Errors
    ///
    /// The reason why it was not sent; [`SendStatus::NotConnected`] wants the connection closed.
    #[inline(always)]
    pub(super) fn send(&mut self, call: Call<'_, Request>) -> Result<(), SendStatus> {
        let mut buf = self.take_buffer(Expects::Reply)?;
        let mut built = self.connection.build(&call, buf.as_mut_slice());
        let again = matches!(built, Err(Unsendable::Later(SendStatus::NoSpace)));
        if again {
            built = self.build_again(&call, buf.as_mut_slice());
        }
        let sent = match built {
            Ok(built) => {
                if Trace::is_send_on() {
                    self.connection.trace_send(&call, &built.state, built.len);
                }
                self.post(call.stamp(), built, buf)
            }
            Err(why) => {
                self.queue.put(buf);
                self.connection.not_sent(&call, why)
            }
        };
        // sunrpc need not wait after all. Not before: the message was built under a lock.
        if again && sent != Err(SendStatus::NoSpace) {
            self.connection.shared.xprt.space_available();
        }
        sent
    }

    /// Builds `call` once more, after there were no registrations for it.
    #[cold]
    fn build_again<'c>(
        &self,
        call: &Call<'c, Request>,
        message: &mut [u8],
    ) -> Result<Built<'c>, Unsendable> {
        let Connection { shared, .. } = &*self.connection;

        // The calls that hold the other registrations will return them, and wake a sender.
        shared.stats.no_registration.inc();
        // First, so that an attempt to make more that fails sees it, and is made again.
        shared.xprt.wait_for_buffer_space();
        self.connection.grow_pool();
        // Those that other requests keep, and those that came back in between, which have woken
        // nothing. Either this finds them, or the code that puts them there finds that a sender
        // waits.
        smp_mb(Full);
        for request in shared.slots.iter() {
            drop(request.kept.take());
        }
        self.connection.build(call, message)
    }

    /// A buffer for a message.
    ///
    /// # Errors
    ///
    /// [`SendStatus::NoSpace`] when there is none: sunrpc is told when there is.
    #[inline]
    pub(super) fn take_buffer(&mut self, expects: Expects) -> Result<SendBuffer, SendStatus> {
        match self.queue.take(expects) {
            Some(buf) => Ok(buf),
            None => self.find_buffer(expects),
        }
    }

    /// Looks for buffers that have come back or have been allocated since, and else has sunrpc wait
    /// for one.
    #[cold]
    fn find_buffer(&mut self, expects: Expects) -> Result<SendBuffer, SendStatus> {
        let Self { connection, queue } = self;
        queue.reclaim();
        if queue.wants_more() {
            connection.with_qp(|qp| qp.fetch_sends(queue));
            if queue.wants_more() && connection.may_grow() {
                connection.grow_buffers();
            }
        }
        let found = queue.take_any(expects);
        if let Some(buf) = found.or_else(|| self.look_again(expects)) {
            return Ok(buf);
        }
        let Connection { shared, .. } = &*self.connection;

        // The device has all buffers, or no room for more registrations, and enough Sends are
        // signalled: a completion will tell. Or all Receives wait for replies: one of those will,
        // or the growth of the queue pair.
        shared.stats.no_send_buffer.inc();
        // First, so that an attempt to make more that fails sees it, and is made again.
        shared.xprt.wait_for_buffer_space();
        if !self.queue.is_short_of_room() {
            self.connection.grow_buffers();
        }
        // Either this finds a buffer that has come in between, or the completion handler, which
        // looks for a sender that waits after it has put one there, finds that there is one.
        smp_mb(Full);
        let buf = self.look_again(expects).ok_or(SendStatus::NoSpace)?;
        self.connection.shared.xprt.space_available();
        Ok(buf)
    }

    /// A buffer for a message, after new buffers were fetched and Receives that came back posted.
    fn look_again(&mut self, expects: Expects) -> Option<SendBuffer> {
        let Self { connection, queue } = self;
        let posted = connection.with_qp(|qp| {
            qp.fetch_sends(queue);
            qp.post_held()
        });

        if let Some(Err(error)) = posted {
            connection.post_failed(error);
        }
        queue.take_any(expects)
    }

    /// Posts the message for `call`, now, that was built in `buf`.
    ///
    /// # Errors
    ///
    /// [`SendStatus::NotConnected`].
    #[inline(always)]
    fn post(
        &mut self,
        call: PostedCall<'_, Request>,
        built: Built<'_>,
        buf: SendBuffer,
    ) -> Result<(), SendStatus> {
        let Built {
            mut state,
            mrs,
            len,
        } = built;
        let Self { connection, queue } = self;

        let posted = queue.post(mrs, buf, len, Expects::Reply);
        match posted {
            Ok(mrs) => {
                state.call.sent(connection.generation(), mrs);
                drop(state);
                call.count_sent();
                Ok(())
            }
            Err(error) => {
                state.call.send_failed();
                drop(state);
                connection.post_failed(error);
                Err(SendStatus::NotConnected)
            }
        }
    }
}

impl Connection {
    /// Traces a call that is about to go out in a message of `len` bytes: its plan, its chunks, and
    /// the message.
    #[cold]
    #[inline(never)]
    fn trace_send(&self, call: &Call<'_, Request>, state: &CallData, len: u32) {
        let (trace, xid) = (self.shared.trace(), call.xid());
        let (send, receive) = (call.send_buf(), call.receive_buf());
        let (call_mode, reply_mode) = state.modes();

        trace.marshal(
            xid,
            (send.len(), send.page_len(), receive.capacity()),
            (call_mode as u32, reply_mode as u32),
        );
        for (segment, writable) in state.segments() {
            let Segment {
                handle,
                length,
                offset,
            } = *segment;
            trace.mr_map(xid, handle, length, offset, writable);
        }
        trace.post_send(xid, len);
    }

    /// Ends a call that can never be sent; says when another can be sent again.
    #[cold]
    fn not_sent(&self, call: &Call<'_, Request>, why: Unsendable) -> Result<(), SendStatus> {
        match why {
            Unsendable::Later(status) => Err(status),
            Unsendable::Never(why) => {
                self.shared.stats.failed_marshal.inc();
                self.report_unsendable(call.xid(), why);
                // The error must not go back through the sender, which may be another task (H-15).
                if let Some(pinned) = self.shared.xprt.lookup(call.xid()) {
                    pinned.fail();
                }
                Ok(())
            }
        }
    }

    /// Tells the log, not too often, why a call fails that was not sent.
    #[cold]
    fn report_unsendable(&self, xid: u32, why: &'static str) {
        self.shared.trace().marshal_failed(xid, why);
        if self.shared.may_report() {
            pr_info!(
                "{}: call {:08x} fails: it cannot be sent: {}\n",
                self.shared.xprt.peer(),
                xid,
                why
            );
        }
    }

    /// Ends the connection over a request that could not be posted.
    pub(super) fn post_failed(&self, error: PostError) {
        if let PostError::Device(_) = error {
            self.lost(CloseReason::PostRefused);
        }
    }
}
