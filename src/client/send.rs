// SPDX-License-Identifier: GPL-2.0

//! From a call to its Send.

use kernel::{
    prelude::*,
    sync::{
        barrier::{
            smp_mb,
            Full, //
        },
        lock::{
            spinlock::SpinLockBackend,
            Guard, //
        },
        Arc, //
    }, //
};

use super::{
    connection::{
        Connection,
        ConnectionSends,
        Negotiated, //
    },
    request::{
        Exposed,
        Lists,
        Request,
        State, //
    }, //
};
use crate::{
    os::PageSpan,
    proto::{
        encode_bare_call_header,
        is_inline,
        plan,
        CallHeader,
        CallMode,
        CallShape,
        Plan,
        ReadSegment,
        ReplyMode,
        Segment, //
    },
    sunrpc::{
        Call,
        SendStatus,
        XdrBuf, //
    },
    trace::Trace,
    verbs::{
        Access,
        Expects,
        Mapped,
        MrList,
        PostError,
        SendBuffer,
        Supply, //
    }, //
};

/// A message is longer than the plan for it.
const TOO_LONG: &str = "its message exceeds the inline threshold";

/// The reason why a call could not be built.
enum Unsendable {
    /// Try again later.
    Later(SendStatus),
    /// Never: the call itself is the reason, which is told.
    Never(&'static str),
}

impl From<Error> for Unsendable {
    fn from(error: Error) -> Self {
        match error {
            e if e == ENOBUFS => Self::Later(SendStatus::NoSpace),
            // Memory could not be mapped for the device: that passes.
            e if e == EIO => Self::Later(SendStatus::NoMemory),
            e if e == EMSGSIZE => Self::Never("more segments than a list has room for"),
            _ => Self::Never("its memory cannot be registered"),
        }
    }
}

/// Registers what `plan` wants of a call, and lists it in `lists`. Process context, without a
/// spinlock: some drivers allocate memory.
///
/// # Errors
///
/// As [`MrList::register`]; `EMSGSIZE` when there are more segments than a list has room for.
fn expose(
    plan: &Plan,
    send: &XdrBuf<'_>,
    receive: &XdrBuf<'_>,
    mut supply: Supply<'_>,
    lists: &mut Lists,
) -> Result<Option<MrList<Mapped>>> {
    let supply = &mut supply;
    let mut mrs = None;
    lists.clear();
    let mut to_read = Chunk::new(&mut mrs, supply, Access::RemoteRead);
    match plan.call {
        CallMode::Inline => {}
        CallMode::ReadChunk => {
            let position = u32::try_from(send.head().len())?;
            to_read.add(send.page_spans(), |segment| {
                lists.read.push(ReadSegment { position, segment })
            })?;
        }
        CallMode::Long => {
            let fill = |head: &mut [u8], tail: &mut [u8]| {
                for (to, from) in [(head, send.head()), (tail, send.tail())] {
                    // They are as long as what they are for; unlike this, an equality that is only
                    // known leaves a panic behind.
                    if let Some(to) = to.get_mut(..from.len()) {
                        to.copy_from_slice(from);
                    }
                }
            };
            to_read.add_all(send, fill, |segment| {
                let position = 0;
                lists.read.push(ReadSegment { position, segment })
            })?;
        }
    }
    let mut to_write = Chunk::new(&mut mrs, supply, Access::RemoteWrite);
    match plan.reply {
        ReplyMode::Inline => {}
        ReplyMode::WriteChunk => {
            to_write.add(receive.page_spans(), |segment| lists.write.push(segment))?;
        }
        ReplyMode::ReplyChunk => {
            // As `Call::forget_old_reply`, and for the same reason.
            let wipe = |head: &mut [u8], _: &mut [u8]| head.fill(0);
            to_write.add_all(receive, wipe, |segment| lists.reply.push(segment))?;
        }
    }
    Ok(mrs)
}

/// A chunk in the making.
struct Chunk<'a, 'p> {
    mrs: &'a mut Option<MrList<Mapped>>,
    supply: &'a mut Supply<'p>,
    access: Access,
}

impl<'a, 'p> Chunk<'a, 'p> {
    /// A chunk without segments, whose registrations come from `supply` and are added to `mrs`.
    #[inline]
    fn new(
        mrs: &'a mut Option<MrList<Mapped>>,
        supply: &'a mut Supply<'p>,
        access: Access,
    ) -> Self {
        Self {
            mrs,
            supply,
            access,
        }
    }

    /// Registers `spans`, and tells `push` the segments.
    ///
    /// # Errors
    ///
    /// As [`MrList::register`].
    #[inline]
    fn add(
        &mut self,
        spans: impl Iterator<Item = PageSpan>,
        mut push: impl FnMut(Segment) -> Result,
    ) -> Result {
        let segment = |handle, length, offset| {
            push(Segment {
                handle,
                length,
                offset,
            })
        };
        MrList::register(self.mrs, self.supply, spans, self.access, segment)
    }

    /// Registers all of `buf`: as one if possible, with what `prepare` makes of its head and tail,
    /// else part by part.
    ///
    /// # Errors
    ///
    /// As [`MrList::register`].
    fn add_all(
        &mut self,
        buf: &XdrBuf<'_>,
        prepare: impl FnOnce(&mut [u8], &mut [u8]),
        mut push: impl FnMut(Segment) -> Result,
    ) -> Result {
        let joined = buf.is_joinable()
            && MrList::register_joined(
                self.mrs,
                self.supply,
                (buf.head_len(), buf.tail_len()),
                buf.page_spans(),
                self.access,
                prepare,
                |handle, length, offset| {
                    push(Segment {
                        handle,
                        length,
                        offset,
                    })
                },
            )?;
        if !joined {
            self.add(buf.head_spans(), &mut push)?;
            self.add(buf.page_spans(), &mut push)?;
            self.add(buf.tail_spans(), &mut push)?;
        }
        Ok(())
    }
}

/// A call, and what its message is built of.
struct Draft<'a> {
    negotiated: &'a Negotiated,
    call: &'a Call<'a, Request>,
    plan: &'a Plan,
    send: &'a XdrBuf<'a>,
    receive: &'a XdrBuf<'a>,
}

impl Draft<'_> {
    /// Registers the memory of the chunks, lists them in `lists`, and writes the message. Returns
    /// the registrations and the length of the message in bytes.
    ///
    /// # Errors
    ///
    /// The reason why the call cannot be built.
    #[inline]
    fn build(
        &self,
        supply: Supply<'_>,
        lists: &mut Lists,
        message: &mut [u8],
    ) -> Result<(Option<MrList<Mapped>>, u32), Unsendable> {
        let Self {
            negotiated,
            call,
            plan,
            send,
            receive,
        } = *self;
        let mrs = expose(plan, send, receive, supply, lists)?;
        let header = CallHeader {
            xid: call.xid(),
            credits: negotiated.credits,
            long: plan.call == CallMode::Long,
            read: lists.read.as_slice(),
            write: lists.write.as_slice(),
            reply: lists.reply.as_slice(),
        };
        let header_len = header
            .encode(message)
            .map_err(|_| Unsendable::Never(TOO_LONG))?;
        let payload_len = if plan.call == CallMode::Long {
            0
        } else {
            let room = message
                .get_mut(header_len..)
                .ok_or(Unsendable::Never(TOO_LONG))?;
            send.copy_to(room, plan.call == CallMode::ReadChunk)
                .ok_or(Unsendable::Never(TOO_LONG))?
        };
        // CAST: A header is shorter than any threshold.
        let len = payload_len.saturating_add(header_len as u32);
        // PD-18: a longer message would cost the connection.
        if len > negotiated.limits.thresholds.call {
            return Err(Unsendable::Never(TOO_LONG));
        }
        Ok((mrs, len))
    }
}

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
    pub(super) fn send(&mut self, call: &Call<'_, Request>) -> Result<(), SendStatus> {
        let mut buf = self.take_buffer(Expects::Reply)?;
        let mut built = self.connection.build(call, buf.as_mut_slice());
        let again = matches!(built, Err(Unsendable::Later(SendStatus::NoSpace)));
        if again {
            built = self.build_again(call, buf.as_mut_slice());
        }
        let sent = match built {
            Ok(built) => self.post(call, built, buf),
            Err(why) => {
                self.queue.put(buf);
                self.connection.not_sent(call, why)
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

        // The calls that hold the other registrations will give them back, and tell.
        shared.stats.no_registration.inc();
        self.connection.grow_pool();
        shared.xprt.wait_for_buffer_space();
        // Those that other requests keep, and those that came back in between, which have woken
        // nothing.
        for request in shared.slots.iter() {
            request.release_kept();
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
            None => self.wait_for_buffer(expects),
        }
    }

    /// Looks for what has been made or has come back since, and else has sunrpc wait for it.
    #[cold]
    fn wait_for_buffer(&mut self, expects: Expects) -> Result<SendBuffer, SendStatus> {
        if let Some(buf) = self.look_again(expects) {
            return Ok(buf);
        }
        let Connection { shared, .. } = &*self.connection;

        // The device has all buffers, and enough of them are signalled: a completion will tell. Or
        // all Receives wait for replies: one of those will, or the growth of the queue pair.
        shared.stats.no_send_buffer.inc();
        self.connection.grow_buffers();
        shared.xprt.wait_for_buffer_space();
        // Either this finds what has come in between, or the completion handler, which looks for a
        // sender that waits after it has put something there, finds that there is one.
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
        queue.take(expects)
    }

    /// Posts the message for `call` that was built in `buf`.
    ///
    /// # Errors
    ///
    /// [`SendStatus::NotConnected`].
    #[inline]
    fn post(
        &mut self,
        call: &Call<'_, Request>,
        built: Built<'_>,
        buf: SendBuffer,
    ) -> Result<(), SendStatus> {
        let Built {
            mut state,
            mrs,
            len,
        } = built;
        let Self { connection, queue } = self;

        call.stamp();
        let posted = queue.post(mrs, buf, len, Expects::Reply);
        match posted {
            Ok(mrs) => {
                let exposed = mrs.map(|mrs| Exposed {
                    connection: connection.clone(),
                    mrs,
                });
                state.call.sent(connection.generation(), exposed);
                drop(state);
                if Trace::is_post_send_on() {
                    connection.shared.trace().post_send(call.xid(), len);
                }
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

/// A message that has been built.
struct Built<'c> {
    /// The state of its call. Locked, since the reply may come before it is known that the message
    /// was posted.
    state: Guard<'c, State, SpinLockBackend>,
    /// The registrations that the server is to use.
    mrs: Option<MrList<Mapped>>,
    /// Bytes.
    len: u32,
}

impl Connection {
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

    /// Builds the message for `call`.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be built.
    #[inline(always)]
    fn build<'c>(
        &self,
        call: &Call<'c, Request>,
        message: &mut [u8],
    ) -> Result<Built<'c>, Unsendable> {
        let negotiated = self
            .negotiated()
            .ok_or(Unsendable::Later(SendStatus::NotConnected))?;
        let (send, receive) = (call.send_buf(), call.receive_buf());
        if !self.is_confirmed() {
            self.shared.note_program(send.head());
        }
        if !is_inline(
            send.len(),
            receive.capacity(),
            &negotiated.limits.thresholds,
        ) {
            return self.build_chunks(negotiated, call, message);
        }
        let xid = call.xid();
        if Trace::is_marshal_on() {
            self.shared.trace().marshal(
                xid,
                (send.len(), send.page_len(), receive.capacity()),
                (CallMode::Inline as u32, ReplyMode::Inline as u32),
            );
        }
        let header_len = encode_bare_call_header(xid, negotiated.credits, message)
            .map_err(|_| Unsendable::Never(TOO_LONG))?;
        let room = message.get_mut(header_len..).unwrap_or(&mut []);
        let len = send
            .copy_to(room, false)
            .ok_or(Unsendable::Never(TOO_LONG))?;
        // CAST: 28. No sum wraps around: all of it is in `message`.
        let len = len.wrapping_add(header_len as u32);
        // PD-18: a longer message would cost the connection.
        if len > negotiated.limits.thresholds.call {
            return Err(Unsendable::Never(TOO_LONG));
        }
        self.shared.stats.count_pullup(&send);

        let state = self.sendable(call, xid)?;
        Ok(Built {
            state,
            mrs: None,
            len,
        })
    }

    /// Locks the state of a call whose message is built. The reply may come before the post
    /// returns, and waits for the lock then.
    ///
    /// # Errors
    ///
    /// [`SendStatus::NotConnected`] if the call may not be sent.
    #[inline]
    fn sendable<'c>(
        &self,
        call: &Call<'c, Request>,
        xid: u32,
    ) -> Result<Guard<'c, State, SpinLockBackend>, Unsendable> {
        let mut state = call.slot().state.lock();

        if !state.call.is_sendable() {
            return Err(Unsendable::Later(SendStatus::NotConnected));
        }
        if state.xid != xid {
            state.xid = xid;
            state.undecodable = 0;
        }
        state.chunked = false;
        Ok(state)
    }

    /// Builds the message for a call that has chunks.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be built.
    #[inline(never)]
    fn build_chunks<'c>(
        &self,
        negotiated: &Negotiated,
        call: &Call<'c, Request>,
        message: &mut [u8],
    ) -> Result<Built<'c>, Unsendable> {
        let (send, receive) = (call.send_buf(), call.receive_buf());
        let shape = CallShape {
            send_len: send.len(),
            send_pages: send.page_len(),
            send_kvecs: send.kvecs(),
            send_eligible: send.may_be_read_chunk(),
            recv_max: receive.capacity(),
            recv_pages: receive.page_len(),
            recv_eligible: receive.may_be_write_chunk(),
            opaque: call.is_opaque(),
        };
        let plan =
            plan(&shape, &negotiated.limits).map_err(|why| Unsendable::Never(why.as_str()))?;
        let xid = call.xid();
        if Trace::is_marshal_on() {
            self.shared.trace().marshal(
                xid,
                (shape.send_len, shape.send_pages, shape.recv_max),
                (plan.call as u32, plan.reply as u32),
            );
        }
        // Nothing but this sender uses the call until it is posted: it is built without a lock.
        let (lists, kept) = {
            let mut state = call.slot().state.lock();
            if !state.call.is_sendable() {
                return Err(Unsendable::Later(SendStatus::NotConnected));
            }
            (state.lists.take(), state.kept.take())
        };
        let Some(mut lists) = lists else {
            return Err(Unsendable::Later(SendStatus::NotConnected));
        };
        if plan.reply == ReplyMode::ReplyChunk {
            // Before the memory is the device's.
            call.forget_old_reply();
        }
        let draft = Draft {
            negotiated,
            call,
            plan: &plan,
            send: &send,
            receive: &receive,
        };
        let supply = Supply::new(&negotiated.pool, kept);
        let built = draft.build(supply, &mut lists, message);
        if built.is_ok() {
            self.shared.stats.count_call(&plan, &send, &lists);
            if Trace::is_mr_map_on() {
                self.trace_chunks(xid, &lists);
            }
        }
        let (mrs, len) = match built {
            Ok(built) => built,
            Err(error) => {
                call.slot().state.lock().lists = Some(lists);
                return Err(error);
            }
        };
        match self.sendable(call, xid) {
            Ok(mut state) => {
                state.lists = Some(lists);
                state.chunked = true;
                Ok(Built { state, mrs, len })
            }
            Err(error) => {
                call.slot().state.lock().lists = Some(lists);
                Err(error)
            }
        }
    }

    /// Traces each segment of `lists`.
    #[cold]
    fn trace_chunks(&self, xid: u32, lists: &Lists) {
        let trace = self.shared.trace();
        let map = |segment: &Segment, writable| {
            let Segment {
                handle,
                length,
                offset,
            } = *segment;
            trace.mr_map(xid, handle, length, offset, writable);
        };

        for ReadSegment { segment, .. } in lists.read.as_slice() {
            map(segment, false);
        }
        for segment in lists.write.as_slice() {
            map(segment, true);
        }
        for segment in lists.reply.as_slice() {
            map(segment, true);
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

    /// Something could not be posted: ends the connection.
    pub(super) fn post_failed(&self, error: PostError) {
        if let PostError::Device(_) = error {
            self.lost(c"the device refused a work request");
        }
    }
}
