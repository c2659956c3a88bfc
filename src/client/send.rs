// SPDX-License-Identifier: GPL-2.0

//! From a call to its Send.

mod build;
mod chunks;
mod draft;
mod operations;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    connection::{
        close_reason::CloseReason,
        growth::Kind,
        waiters::Shortage,
        Connection,
        ConnectionSends, //
    },
    request::Request, //
};
use crate::{
    os::{
        jiffies,
        secs_to_jiffies, //
    },
    proto::Segment,
    sunrpc::{
        Call,
        PostedCall,
        SendStatus, //
    },
    trace::Trace,
    verbs::{
        Mapped,
        MrList,
        PostError,
        Registered,
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
    /// Calls that were sent.
    calls: u32,
}

/// The server's reaction to a message.
#[derive(Clone, Copy)]
pub(super) enum Expects {
    /// It sends a reply.
    Reply,
    /// Nothing.
    Nothing,
}

impl Sender {
    /// The sender of a connection over which nothing was sent.
    pub(super) fn new(connection: Arc<Connection>, queue: ConnectionSends) -> Self {
        Self {
            connection,
            queue,
            calls: 0,
        }
    }

    /// Sends `call`, or ends it when it can never be sent.
    ///
    /// # Errors
    ///
    /// The reason why it was not sent; [`SendStatus::NotConnected`] wants the connection closed.
    #[inline(always)]
    pub(super) fn send(&mut self, call: Call<'_, Request>) -> Result<(), SendStatus> {
        if self.connection.agreement.characteristics.sizes.is_stirred() {
            self.follow_before(&call)?;
        }
        let mut buf = match self.take_buffer(Expects::Reply) {
            Ok(buf) => buf,
            Err(status) => return self.not_sent(&call, Unsendable::Later(status)),
        };
        let mut built = build::build(&self.connection, &call, buf.as_mut_slice());
        let again = matches!(built, Err(Unsendable::Later(SendStatus::NoResources)));
        if again {
            built = self.build_again(&call, buf.as_mut_slice());
        }
        let sent = match built {
            Ok(built) => {
                if Trace::is_send_on() {
                    self.trace_send(&call, &built);
                }
                self.post(call.stamp(), built, buf)
            }
            Err(why) => {
                self.queue.put(buf);
                self.not_sent(&call, why)
            }
        };
        // No call waits after all. Not before: the message was built under a lock.
        if again && sent != Err(SendStatus::NoResources) {
            let Connection {
                waiters, shared, ..
            } = &*self.connection;
            waiters.replied(&shared.xprt);
        }
        sent
    }

    /// Follows changed characteristics before `call` is sent.
    #[cold]
    fn follow_before(&mut self, call: &Call<'_, Request>) -> Result<(), SendStatus> {
        self.follow(call.xid()).map_err(|error| {
            self.connection.post_failed(error);
            SendStatus::NotConnected
        })
    }

    /// Builds `call` again, after it found no registrations.
    #[cold]
    fn build_again<'c>(
        &self,
        call: &Call<'c, Request>,
        message: &mut [u8],
    ) -> Result<Built<'c>, Unsendable> {
        let Connection {
            waiters, shared, ..
        } = &*self.connection;

        // The calls that hold the other registrations will return them, and wake a sender.
        shared.stats.no_registration.inc();
        waiters.wait(
            &shared.xprt,
            Shortage::Registrations,
            || self.connection.grow(Kind::Registrations),
            || {
                // Takes the registrations that other requests keep, and any that came back in
                // between without waking a sender.
                for request in shared.slots.iter() {
                    drop(request.take_kept());
                }
                build::build(&self.connection, call, message)
            },
        )
    }

    /// A buffer for a message.
    ///
    /// # Errors
    ///
    /// [`SendStatus::NoSpace`] when no buffer is free: sunrpc is woken when one comes back.
    /// [`SendStatus::NoResources`] when no Receive is left for the reply, if one is expected.
    #[inline]
    pub(super) fn take_buffer(&mut self, expects: Expects) -> Result<SendBuffer, SendStatus> {
        if self.has_receive(expects) {
            if let Some(buf) = self.queue.take() {
                return Ok(buf);
            }
        }
        self.find_buffer(expects)
    }

    /// Returns `true` if a Receive is left for the reply that the next message `expects`.
    #[inline(always)]
    fn has_receive(&self, expects: Expects) -> bool {
        match expects {
            Expects::Reply => self.connection.window.receives.allow(self.calls),
            Expects::Nothing => true,
        }
    }

    /// A buffer for a message.
    ///
    /// # Errors
    ///
    /// The [`Shortage`] that keeps the message back.
    pub(super) fn take_any(&mut self, expects: Expects) -> Result<SendBuffer, Shortage> {
        if !self.has_receive(expects) {
            return Err(Shortage::Receives);
        }
        self.queue.take_any().ok_or(Shortage::Sends)
    }

    /// Looks for buffers that have come back or have been allocated since, and else makes sunrpc
    /// wait for one.
    #[cold]
    fn find_buffer(&mut self, expects: Expects) -> Result<SendBuffer, SendStatus> {
        let Self {
            connection, queue, ..
        } = self;
        queue.reclaim();
        if queue.wants_more() {
            connection.link.with_qp(|qp| qp.fetch_sends(queue));
            if queue.wants_more() && connection.may_grow() {
                connection.grow(Kind::Buffers);
            }
        }
        let found = self.take_any(expects);
        match found.or_else(|_| self.look_again(expects)) {
            Ok(buf) => Ok(buf),
            Err(shortage) => self.wait_for(shortage, expects),
        }
    }

    /// A buffer that has come back in between, or else makes sunrpc wait until the `shortage` ends.
    fn wait_for(&mut self, shortage: Shortage, expects: Expects) -> Result<SendBuffer, SendStatus> {
        let connection = self.connection.clone();
        let Connection {
            waiters, shared, ..
        } = &*connection;

        shared.stats.no_send_buffer.inc();
        // Short of Sends: the device has all buffers, or no room for more registrations, and
        // enough Sends are signalled: a completion will wake sunrpc. More buffers do not make room
        // for registrations. Short of Receives: all wait for replies, and a reply or growth will
        // wake sunrpc.
        let grows = shortage == Shortage::Receives || !self.queue.is_short_of_room();
        let found = waiters.wait(
            &shared.xprt,
            shortage,
            || {
                if grows {
                    connection.grow(Kind::Buffers);
                }
            },
            || self.look_again(expects),
        );
        if found.as_ref().err() == Some(&shortage) {
            return Err(match shortage {
                Shortage::Sends => SendStatus::NoSpace,
                _ => SendStatus::NoResources,
            });
        }
        // Either a buffer is free, or another resource is lacking now: the next attempt waits for
        // it.
        waiters.end(&shared.xprt, shortage);
        found.map_err(|_| SendStatus::NoSpace)
    }

    /// A buffer for a message, after new buffers were fetched and Receives that came back posted.
    ///
    /// # Errors
    ///
    /// As [`Self::take_any`].
    fn look_again(&mut self, expects: Expects) -> Result<SendBuffer, Shortage> {
        let Self {
            connection, queue, ..
        } = self;
        let posted = connection.link.with_qp(|qp| {
            qp.fetch_sends(queue);
            connection.post_held(qp)
        });

        if let Some(Err(error)) = posted {
            connection.post_failed(error);
        }
        self.take_any(expects)
    }

    /// Posts the first `len` bytes of `buf`, and the registrations in front of them.
    ///
    /// # Errors
    ///
    /// As [`SendQueue::post`](crate::verbs::SendQueue::post).
    #[inline(always)]
    pub(super) fn post_buffer(
        &mut self,
        mrs: Option<MrList<Mapped>>,
        buf: SendBuffer,
        len: u32,
        expects: Expects,
    ) -> Result<Option<MrList<Registered>>, PostError> {
        if let Expects::Reply = expects {
            self.calls = self.calls.wrapping_add(1);
        }
        self.queue.post(mrs, buf, len)
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
            ..
        } = built;
        match self.post_buffer(mrs, buf, len, Expects::Reply) {
            Ok(mrs) => {
                state.call.sent(self.connection.generation(), mrs);
                drop(state);
                call.count_sent();
                Ok(())
            }
            Err(error) => {
                state.call.send_failed();
                drop(state);
                self.connection.post_failed(error);
                Err(SendStatus::NotConnected)
            }
        }
    }

    /// Traces a call that is about to be sent: its plan, its chunks, and the message.
    #[cold]
    #[inline(never)]
    fn trace_send(&self, call: &Call<'_, Request>, built: &Built<'_>) {
        let (trace, xid) = (self.connection.shared.trace(), call.xid());
        let (send, receive) = (call.send_buf(), call.receive_buf());
        let (call_mode, reply_mode) = built.modes;

        trace.marshal(
            xid,
            (send.len(), send.page_len(), receive.capacity()),
            (call_mode as u32, reply_mode as u32),
        );
        for (segment, writable) in built.state.chunks().segments() {
            let Segment {
                handle,
                length,
                offset,
            } = *segment;
            trace.mr_map(xid, handle, length, offset, writable);
        }
        trace.post_send(xid, built.len);
    }

    /// Ends a call that can never be sent; returns the status for sunrpc if it can be sent later.
    #[cold]
    fn not_sent(&self, call: &Call<'_, Request>, why: Unsendable) -> Result<(), SendStatus> {
        match why {
            Unsendable::Later(status) => {
                // Replies to reverse calls must not wait behind this call (H-74).
                match status {
                    SendStatus::NoResources => {
                        call.give_credit_back(|| self.connection.waiters.is_short())
                    }
                    SendStatus::NoMemory => call.go_to_the_end(),
                    _ => {}
                }
                Err(status)
            }
            Unsendable::Unmapped if is_unmapped_for_long(call) => {
                self.end_unsendable(call, "its memory cannot be mapped");
                Ok(())
            }
            Unsendable::Unmapped => {
                call.go_to_the_end();
                Err(SendStatus::NoMemory)
            }
            Unsendable::Never(why) => {
                self.end_unsendable(call, why);
                Ok(())
            }
        }
    }

    /// Ends a call that can never be sent.
    fn end_unsendable(&self, call: &Call<'_, Request>, why: &'static str) {
        self.connection.shared.stats.failed_marshal.inc();
        self.report_unsendable(call.xid(), why);
        // The error must not be returned to the sender, which may be another task (H-15).
        if let Some(found) = self.connection.shared.xprt.find(call.xid()) {
            found.fail();
        }
    }

    /// Logs, not too often, why a call fails that was not sent.
    #[cold]
    fn report_unsendable(&self, xid: u32, why: &'static str) {
        self.connection.shared.trace().marshal_failed(xid, why);
        if self.connection.shared.log.may_report() {
            pr_info!(
                "{}: call {:08x} fails: it cannot be sent: {}\n",
                self.connection.shared.xprt.peer(),
                xid,
                why
            );
        }
    }
}

/// Notes that the memory of `call` could not be mapped. Returns `true` if this has lasted for
/// too long.
fn is_unmapped_for_long(call: &Call<'_, Request>) -> bool {
    let mut state = call.slot().state.lock();
    state
        .unmapped
        .failed(call.xid(), jiffies(), secs_to_jiffies(1))
}

impl Connection {
    /// Ends the connection over a request that could not be posted.
    pub(super) fn post_failed(&self, error: PostError) {
        if let PostError::Device(_) = error {
            self.lost(CloseReason::PostRefused);
        }
    }
}
