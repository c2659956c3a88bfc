// SPDX-License-Identifier: GPL-2.0

//! From a call to its Send.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    connection::{
        Connection,
        Negotiated, //
    },
    request::{
        Exposed,
        Lists,
        Request, //
    }, //
};
use crate::{
    os::PageSpan,
    proto::{
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
        MrPool,
        PostError,
        SendBuffer, //
    }, //
};

/// A message is longer than the plan for it.
const TOO_LONG: &str = "its message exceeds the inline threshold";

/// A call without a buffer was to be built.
const NO_BUFFER: Unsendable = Unsendable::Never("it has no buffer");

/// Why a call could not be built.
enum Unsendable {
    /// Try again later.
    Later(SendStatus),
    /// Never: the call itself is the reason, which is told.
    Never(&'static str),
    /// It was built, and could not be posted.
    Refused(PostError),
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
    pool: &Arc<MrPool>,
    lists: &mut Lists,
) -> Result<Option<MrList<Mapped>>> {
    let mut mrs = None;
    lists.clear();
    let mut to_read = Chunk::new(&mut mrs, pool, Access::RemoteRead);
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
    let mut to_write = Chunk::new(&mut mrs, pool, Access::RemoteWrite);
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
struct Chunk<'a> {
    mrs: &'a mut Option<MrList<Mapped>>,
    pool: &'a Arc<MrPool>,
    access: Access,
}

impl<'a> Chunk<'a> {
    /// A chunk without segments, whose registrations come from `pool` and are added to `mrs`.
    #[inline]
    fn new(mrs: &'a mut Option<MrList<Mapped>>, pool: &'a Arc<MrPool>, access: Access) -> Self {
        Self { mrs, pool, access }
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
        let (pool, access) = (self.pool, self.access);
        MrList::register(self.mrs, pool, spans, access, |handle, length, offset| {
            push(Segment {
                handle,
                length,
                offset,
            })
        })
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
        let (pool, access) = (self.pool, self.access);
        let joined = buf.is_joinable()
            && MrList::register_joined(
                self.mrs,
                pool,
                (buf.head_len(), buf.tail_len()),
                buf.page_spans(),
                access,
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
    /// Why the call cannot be built.
    #[inline]
    fn build(
        &self,
        mut lists: Option<&mut Lists>,
        message: &mut [u8],
    ) -> Result<(Option<MrList<Mapped>>, u32), Unsendable> {
        let Self {
            negotiated,
            call,
            plan,
            send,
            receive,
        } = *self;
        let mrs = match &mut lists {
            Some(lists) => expose(plan, send, receive, &negotiated.pool, lists)?,
            None => None,
        };
        let mut header = CallHeader {
            xid: call.xid(),
            credits: negotiated.credits,
            long: plan.call == CallMode::Long,
            read: &[],
            write: &[],
            reply: &[],
        };
        if let Some(lists) = &lists {
            header.read = lists.read.as_slice();
            header.write = lists.write.as_slice();
            header.reply = lists.reply.as_slice();
        }
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

impl Connection {
    /// Sends `call`, or ends it when it can never be sent.
    ///
    /// # Errors
    ///
    /// Why it was not sent; [`SendStatus::NotConnected`] wants the connection closed.
    pub(super) fn send(this: &Arc<Self>, call: &Call<'_, Request>) -> Result<(), SendStatus> {
        let stats = &this.shared.stats;
        let negotiated = this.negotiated().ok_or(SendStatus::NotConnected)?;
        let mut buf = this.take_send_buffer(Expects::Reply)?;

        let mut posted = this.build_and_post(negotiated, call, &mut buf);
        if matches!(posted, Err(Unsendable::Later(SendStatus::NoSpace))) {
            // The calls that hold the other registrations will give them back, and tell.
            stats.no_registration.inc();
            this.grow_pool();
            this.shared.xprt.wait_for_buffer_space();
            // Those that came back in between told nobody.
            posted = this.build_and_post(negotiated, call, &mut buf);
            if !matches!(posted, Err(Unsendable::Later(SendStatus::NoSpace))) {
                this.shared.xprt.space_available();
            }
        }
        match posted {
            Ok(()) => {
                call.count_sent();
                Ok(())
            }
            Err(Unsendable::Later(status)) => {
                this.put_send_buffer(buf);
                Err(status)
            }
            Err(Unsendable::Never(why)) => {
                this.put_send_buffer(buf);
                stats.failed_marshal.inc();
                this.report_unsendable(call.xid(), why);
                // The error must not go back through the sender, who may be another task (H-15).
                if let Some(pinned) = this.shared.xprt.lookup(call.xid()) {
                    pinned.fail();
                }
                Ok(())
            }
            Err(Unsendable::Refused(error)) => {
                this.post_failed(error);
                Err(SendStatus::NotConnected)
            }
        }
    }

    #[inline]
    pub(super) fn take_send_buffer(
        self: &Arc<Self>,
        expects: Expects,
    ) -> Result<Option<SendBuffer>, SendStatus> {
        match self.try_send_buffer(expects)? {
            Some(buf) => Ok(Some(buf)),
            None => self.wait_for_send_buffer(expects),
        }
    }

    #[cold]
    fn wait_for_send_buffer(
        self: &Arc<Self>,
        expects: Expects,
    ) -> Result<Option<SendBuffer>, SendStatus> {
        // All buffers are with the device, and enough of them signalled: a completion will tell.
        // Or all Receives wait for answers: one of those will.
        self.shared.stats.no_send_buffer.inc();
        self.shared.xprt.wait_for_buffer_space();
        // One that came in between told nobody.
        let buf = self.try_send_buffer(expects)?.ok_or(SendStatus::NoSpace)?;
        self.shared.xprt.space_available();
        Ok(Some(buf))
    }

    #[inline(always)]
    fn try_send_buffer(
        self: &Arc<Self>,
        expects: Expects,
    ) -> Result<Option<SendBuffer>, SendStatus> {
        let (buf, short) = self
            .with_qp(|qp| (qp.take_send(expects), qp.wants_growth()))
            .ok_or(SendStatus::NotConnected)?;

        if short {
            self.grow();
        }
        Ok(buf)
    }

    pub(super) fn put_send_buffer(&self, buf: Option<SendBuffer>) {
        if let Some(buf) = buf {
            self.with_qp(|qp| qp.put_send(buf));
        }
    }

    /// Builds the message for `call` in `buf` and posts it. The buffer is left when it was not
    /// posted.
    fn build_and_post(
        self: &Arc<Self>,
        negotiated: &Negotiated,
        call: &Call<'_, Request>,
        buf: &mut Option<SendBuffer>,
    ) -> Result<(), Unsendable> {
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
        if !self.is_confirmed() {
            self.shared.note_program(send.head());
        }
        // Nothing but this sender uses the call until it is posted: it is built without a lock.
        let chunked = plan.call != CallMode::Inline || plan.reply != ReplyMode::Inline;
        let mut lists = None;
        if chunked {
            let mut state = call.slot().state.lock();
            if !state.call.is_sendable() {
                return Err(Unsendable::Later(SendStatus::NotConnected));
            }
            lists = state.lists.take();
        }
        if plan.reply == ReplyMode::ReplyChunk {
            // Before the memory is the device's.
            call.forget_old_reply();
        }
        let message = buf.as_mut().ok_or(NO_BUFFER)?.as_mut_slice();
        let draft = Draft {
            negotiated,
            call,
            plan: &plan,
            send: &send,
            receive: &receive,
        };
        let built = draft.build(lists.as_deref_mut(), message);

        // The reply may come before this returns, and waits for the lock then.
        let mut state = call.slot().state.lock();
        state.chunked = chunked;
        if chunked {
            state.lists = lists;
        }
        let (mrs, len) = match built {
            Ok(built) => built,
            Err(error) => {
                drop(state);
                return Err(error);
            }
        };
        if !state.call.is_sendable() {
            drop(state);
            drop(mrs);
            return Err(Unsendable::Later(SendStatus::NotConnected));
        }
        if state.xid != xid {
            state.xid = xid;
            state.undecodable = 0;
        }

        let Some(buf) = buf.take() else {
            drop(state);
            drop(mrs);
            return Err(NO_BUFFER);
        };
        self.shared.stats.count_call(&plan, &send, state.chunks());
        if Trace::is_mr_map_on() {
            self.trace_chunks(xid, state.chunks());
        }
        call.stamp();
        let posted = self
            .with_qp(|qp| qp.post(mrs, buf, len, Expects::Reply))
            .unwrap_or(Err(PostError::Closed));
        match posted {
            Ok(mrs) => {
                if Trace::is_post_send_on() {
                    self.shared.trace().post_send(xid, len);
                }
                let exposed = mrs.map(|mrs| Exposed {
                    connection: self.clone(),
                    mrs,
                });
                state.call.sent(self.generation(), exposed);
                Ok(())
            }
            Err(error) => {
                state.call.send_failed();
                Err(Unsendable::Refused(error))
            }
        }
    }

    /// Traces each segment of `lists`.
    #[cold]
    fn trace_chunks(&self, xid: u32, lists: Option<&Lists>) {
        let Some(lists) = lists else {
            return;
        };
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

    /// Something could not be posted: the connection is of no further use.
    pub(super) fn post_failed(&self, error: PostError) {
        if let PostError::Device(_) = error {
            self.lost(c"the device refused a work request");
        }
    }
}
