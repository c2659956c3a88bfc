// SPDX-License-Identifier: GPL-2.0

//! From a call to its Send.

use kernel::{
    prelude::*,
    sync::{
        Arc,
        SpinLockGuard, //
    }, //
};

use super::{
    connection::Connection,
    flight::{
        Exposed,
        Flight,
        Phase,
        State, //
    },
    stats::Stats,
    transport::BACKWARD_SLOTS, //
};
use crate::{
    os::PageSpan,
    proto::{
        encode_backward_reply_header,
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
        BackwardReply,
        Call,
        SendStatus,
        XdrBuf, //
    },
    verbs::{
        Access,
        Expects,
        Mapped,
        MrList,
        MrPool,
        PostError,
        Posted,
        SendBuffer, //
    }, //
};

/// Why a call could not be built.
enum Unsendable {
    /// Try again later.
    Later(SendStatus),
    /// Never: the call itself is the reason.
    Never,
}

impl From<Error> for Unsendable {
    fn from(error: Error) -> Self {
        match error {
            e if e == ENOBUFS => Self::Later(SendStatus::NoSpace),
            // Memory could not be mapped for the device: that passes.
            e if e == EIO => Self::Later(SendStatus::NoMemory),
            _ => Self::Never,
        }
    }
}

/// Registers what `plan` wants of a call, and lists it in `state`.
///
/// # Errors
///
/// As [`MrList::register`]; `EMSGSIZE` when there are more segments than a list has room for.
fn expose(
    plan: &Plan,
    send: &XdrBuf<'_>,
    receive: &XdrBuf<'_>,
    pool: &Arc<MrPool>,
    state: &mut State,
) -> Result<Option<MrList<Mapped>>> {
    state.read.clear();
    state.write.clear();
    state.reply.clear();
    if plan.call == CallMode::Inline && plan.reply == ReplyMode::Inline {
        return Ok(None);
    }

    let mut mrs = None;
    let mut to_read = Chunk::new(&mut mrs, pool, Access::RemoteRead);
    match plan.call {
        CallMode::Inline => {}
        CallMode::ReadChunk => {
            let position = u32::try_from(send.head().len())?;
            to_read.add(send.page_spans(), |segment| {
                state.read.push(ReadSegment { position, segment })
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
                state.read.push(ReadSegment { position, segment })
            })?;
        }
    }
    let mut to_write = Chunk::new(&mut mrs, pool, Access::RemoteWrite);
    match plan.reply {
        ReplyMode::Inline => {}
        ReplyMode::WriteChunk => {
            to_write.add(receive.page_spans(), |segment| state.write.push(segment))?;
        }
        ReplyMode::ReplyChunk => {
            // As `Call::forget_old_reply`, and for the same reason.
            let wipe = |head: &mut [u8], _: &mut [u8]| head.fill(0);
            to_write.add_all(receive, wipe, |segment| state.reply.push(segment))?;
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
                (buf.head().len(), buf.tail().len()),
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

/// What whoever holds the write lock sends with.
pub(super) struct Sender {
    connection: Arc<Connection>,
    /// The buffer for the next call, for whose answer there is a Receive: both were at hand when
    /// the last one was posted, so that the queue pair is asked once for each call, not twice.
    next: Option<SendBuffer>,
}

/// A message that has been built.
struct Built<'c> {
    /// Its call. Locked, since the reply may come before it is known that the message was sent.
    state: SpinLockGuard<'c, State>,
    /// What the server is to reach.
    mrs: Option<MrList<Mapped>>,
    /// Octets.
    len: u32,
}

impl Sender {
    /// Sends on `connection`.
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self {
            connection,
            next: None,
        }
    }

    /// Sends `call`, or ends it when it can never be sent.
    ///
    /// # Errors
    ///
    /// Why it was not sent; [`SendStatus::NotConnected`] wants the connection closed.
    #[inline(always)]
    pub(super) fn send(&mut self, call: &Call<'_, Flight>) -> Result<(), SendStatus> {
        let connection = &self.connection;
        let mut buf = match self.next.take() {
            Some(buf) => buf,
            None => connection.take_send_buffer(Expects::Answer)?,
        };

        let mut built = connection.build(call, buf.as_mut_slice());
        if matches!(built, Err(Unsendable::Later(SendStatus::NoSpace))) {
            built = connection.build_again(call, buf.as_mut_slice());
        }
        match built {
            Ok(built) => self.post(call, built, buf),
            Err(why) => {
                self.next = Some(buf);
                self.connection.not_sent(call, why)
            }
        }
    }

    /// Posts a message for `call`.
    ///
    /// # Errors
    ///
    /// [`SendStatus::NotConnected`].
    #[inline(always)]
    fn post(
        &mut self,
        call: &Call<'_, Flight>,
        built: Built<'_>,
        buf: SendBuffer,
    ) -> Result<(), SendStatus> {
        let Built {
            mut state,
            mrs,
            len,
        } = built;
        let connection = &self.connection;

        call.stamp();
        let posted = connection
            .with_qp(|qp| qp.post(mrs, buf, len))
            .unwrap_or(Err(PostError::Closed));
        let Posted { mrs, next } = match posted {
            Ok(posted) => posted,
            Err(error) => {
                drop(state);
                connection.post_failed(error);
                return Err(SendStatus::NotConnected);
            }
        };
        let exposed = mrs.map(|mrs| Exposed {
            connection: connection.clone(),
            mrs,
        });
        state.sent(connection.generation(), exposed);
        drop(state);
        self.next = next;
        call.count_sent();
        Ok(())
    }

    /// Sends a call that nobody waits for the reply to, as [`Self::send`].
    ///
    /// The server may reply all the same, before the task of the call is done. So the call counts
    /// as given up from the start, and takes a credit until a reply comes or the connection ends
    /// (H-12).
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    #[cold]
    pub(super) fn send_and_forget(&mut self, call: &Call<'_, Flight>) -> Result<(), SendStatus> {
        self.connection.abandon();
        let sent = self.send(call);
        if sent.is_err() {
            self.connection.answered_late();
            return sent;
        }

        let mut state = call.slot().state.lock();
        // Otherwise the server may reach memory of the call, which ends with its task.
        if matches!(state.phase, Phase::Sent { exposed: None, .. }) {
            state.phase = Phase::Idle;
        }
        Ok(())
    }

    /// Sends a reply to a backward call. It takes no credit: the calls that hold them all may be
    /// waiting for this very reply (H-74).
    ///
    /// # Errors
    ///
    /// Why it was not sent; [`SendStatus::NotConnected`] wants the connection closed.
    pub(super) fn send_backward(&mut self, reply: &BackwardReply<'_>) -> Result<(), SendStatus> {
        let connection = &self.connection;
        // The server that asked is gone with its connection; it will ask again (BI-36).
        if connection.generation() != reply.generation() {
            return Ok(());
        }
        let terms = connection.terms().ok_or(SendStatus::NotConnected)?;
        // Nor does it wait for a Receive, which may come free only with the answer to such a call.
        let mut buf = match self.next.take() {
            Some(buf) => buf,
            None => connection.take_send_buffer(Expects::Nothing)?,
        };
        let message = buf.as_mut_slice();

        let len = encode_backward_reply_header(reply.xid(), BACKWARD_SLOTS, message)
            .ok()
            .and_then(|header| {
                let payload = reply
                    .send_buf()
                    .copy_to(message.get_mut(header..)?, false)?;
                u32::try_from(header).ok()?.checked_add(payload)
            })
            .filter(|&len| len <= terms.limits.thresholds.call);
        let Some(len) = len else {
            // The upper layer was told how long it may be. There are no chunks to move it by; the
            // server asks again.
            connection.with_qp(|qp| qp.put_send(buf));
            connection.shared.stats.failed_marshal.inc();
            return Ok(());
        };

        let posted = connection
            .with_qp(|qp| qp.post_unanswered(buf, len))
            .unwrap_or(Err(PostError::Closed));
        posted.map_err(|error| {
            connection.post_failed(error);
            SendStatus::NotConnected
        })
    }
}

impl Connection {
    /// Builds the message for `call` in `message`.
    fn build<'c>(
        &self,
        call: &Call<'c, Flight>,
        message: &mut [u8],
    ) -> Result<Built<'c>, Unsendable> {
        let terms = self
            .terms()
            .ok_or(Unsendable::Later(SendStatus::NotConnected))?;
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
        let plan = plan(&shape, &terms.limits).map_err(|_| Unsendable::Never)?;
        if plan.reply == ReplyMode::ReplyChunk {
            // Before the memory is the device's.
            call.forget_old_reply();
        }

        let mut state = call.slot().idle();
        let mrs = expose(&plan, &send, &receive, &terms.pool, &mut state)?;
        let header = CallHeader {
            xid: call.xid(),
            credits: terms.credits,
            long: plan.call == CallMode::Long,
            read: state.read.as_slice(),
            write: state.write.as_slice(),
            reply: state.reply.as_slice(),
        };
        let header_len = header.encode(message).map_err(|_| Unsendable::Never)?;
        let payload_len = if plan.call == CallMode::Long {
            0
        } else {
            let room = message.get_mut(header_len..).ok_or(Unsendable::Never)?;
            send.copy_to(room, plan.call == CallMode::ReadChunk)
                .ok_or(Unsendable::Never)?
        };
        // CAST: A header is shorter than any threshold.
        let len = payload_len.saturating_add(header_len as u32);
        // PD-18: a longer message would cost the connection.
        if len > terms.limits.thresholds.call {
            return Err(Unsendable::Never);
        }
        self.shared.stats.count_call(&plan, &send);
        Ok(Built { state, mrs, len })
    }

    /// There were not enough registrations for `call`.
    #[cold]
    fn build_again<'c>(
        self: &Arc<Self>,
        call: &Call<'c, Flight>,
        message: &mut [u8],
    ) -> Result<Built<'c>, Unsendable> {
        // The calls that hold the other registrations will give them back, and tell.
        self.shared.stats.no_registration.inc();
        self.grow_pool();
        self.shared.xprt.wait_for_buffer_space();
        // Those that came back in between told nobody.
        let built = self.build(call, message);
        if !matches!(built, Err(Unsendable::Later(SendStatus::NoSpace))) {
            self.shared.xprt.space_available();
        }
        built
    }

    /// What to tell sunrpc of a `call` of which no message could be built.
    #[cold]
    fn not_sent(&self, call: &Call<'_, Flight>, why: Unsendable) -> Result<(), SendStatus> {
        match why {
            Unsendable::Later(status) => Err(status),
            Unsendable::Never => {
                self.shared.stats.failed_marshal.inc();
                // The error must not go back through the sender, who may be another task (H-15).
                if let Some(pinned) = self.shared.xprt.lookup(call.xid()) {
                    pinned.fail();
                }
                Ok(())
            }
        }
    }

    fn take_send_buffer(self: &Arc<Self>, expects: Expects) -> Result<SendBuffer, SendStatus> {
        match self.try_send_buffer(expects)? {
            Some(buf) => Ok(buf),
            None => self.wait_for_send_buffer(expects),
        }
    }

    #[cold]
    fn wait_for_send_buffer(self: &Arc<Self>, expects: Expects) -> Result<SendBuffer, SendStatus> {
        // All buffers are with the device, and enough of them signalled: a completion will tell.
        // Or all Receives wait for answers: one of those will.
        self.shared.stats.no_send_buffer.inc();
        self.shared.xprt.wait_for_buffer_space();
        // One that came in between told nobody.
        let buf = self.try_send_buffer(expects)?.ok_or(SendStatus::NoSpace)?;
        self.shared.xprt.space_available();
        Ok(buf)
    }

    fn try_send_buffer(
        self: &Arc<Self>,
        expects: Expects,
    ) -> Result<Option<SendBuffer>, SendStatus> {
        let (buf, short) = self
            .with_qp(|qp| (qp.take_send(expects), qp.is_short()))
            .ok_or(SendStatus::NotConnected)?;

        if short {
            self.grow();
        }
        Ok(buf)
    }

    /// Something could not be posted: the connection is of no further use.
    pub(super) fn post_failed(&self, error: PostError) {
        if let PostError::Device(_) = error {
            self.lost(c"the device refused a work request");
        }
    }
}

impl Stats {
    /// Counts the transfer modes of a call that is about to go out.
    #[inline(always)]
    fn count_call(&self, plan: &Plan, send: &XdrBuf<'_>) {
        match plan.call {
            CallMode::Inline => {
                if send.page_len() != 0 {
                    self.pullup_octets.add(send.page_len());
                }
            }
            CallMode::ReadChunk => {
                self.read_chunks.inc();
                self.rdma_request_octets.add(send.page_len());
            }
            CallMode::Long => {
                self.long_calls.inc();
                self.rdma_request_octets.add(send.len());
            }
        }
        match plan.reply {
            ReplyMode::Inline => {}
            ReplyMode::WriteChunk => self.write_chunks.inc(),
            ReplyMode::ReplyChunk => self.reply_chunks.inc(),
        }
    }
}
