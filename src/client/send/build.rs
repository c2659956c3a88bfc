// SPDX-License-Identifier: GPL-2.0

//! The message for a call.

use kernel::{
    alloc::{
        flags::{
            GFP_ATOMIC,
            __GFP_NOWARN, //
        },
        AllocError,
        Flags, //
    },
    prelude::*,
    sync::lock::{
        spinlock::SpinLockBackend,
        Guard, //
    }, //
};

use super::{
    super::{
        connection::Connection,
        negotiated::Negotiated,
        request::{
            CallData,
            Lists,
            Request, //
        }, //
    },
    chunks::{
        expose,
        segment, //
    }, //
};
use crate::os::series::{
    EMSGSIZE,
    ENOBUFS, //
};
use crate::{
    proto::{
        encode_bare_header,
        is_inline,
        plan,
        reply_fits,
        CallHeader,
        CallMode,
        CallShape,
        Plan,
        ReplyMode,
        Segment,
        SoleChunk, //
    },
    sunrpc::{
        Call,
        SendStatus,
        XdrBuf, //
    },
    verbs::{
        Access,
        Invalidated,
        Mapped,
        MrBatch,
        MrList, //
    }, //
};

/// Not GFP_KERNEL: reclaim might wait for a page that this connection has to write back. A sender
/// without memory holds up all calls behind it, so it may use more of the reserves than other code.
fn sender_flags() -> Flags {
    GFP_ATOMIC | __GFP_NOWARN
}

/// A message is longer than the plan for it.
const TOO_LONG: &str = "its message exceeds the inline threshold";

/// A reply would exceed it, since its memory is in more pieces than planned.
const REPLY_TOO_LONG: &str = "its reply would exceed the inline threshold";

/// The reason why a call could not be built.
pub(super) enum Unsendable {
    /// Try again later.
    Later(SendStatus),
    /// Its memory could not be mapped: try again for some time.
    Unmapped,
    /// Never: the call itself is the reason, in words.
    Never(&'static str),
}

impl From<Error> for Unsendable {
    fn from(error: Error) -> Self {
        match error {
            e if e == ENOBUFS => Self::Later(SendStatus::NoResources),
            e if e == ENOMEM => Self::Later(SendStatus::NoMemory),
            e if e == EIO => Self::Unmapped,
            e if e == EMSGSIZE => Self::Never("its memory is in more pieces than a call may have"),
            _ => Self::Never("its memory cannot be registered"),
        }
    }
}

impl From<AllocError> for Unsendable {
    fn from(_: AllocError) -> Self {
        Self::Later(SendStatus::NoMemory)
    }
}

/// A message that has been built.
pub(super) struct Built<'c> {
    /// The state of its call. Locked, since the reply may come before it is known that the message
    /// was posted.
    pub(super) state: Guard<'c, CallData, SpinLockBackend>,
    /// The registrations that the server is to use.
    pub(super) mrs: Option<MrList<Mapped>>,
    /// Bytes.
    pub(super) len: u32,
}

/// A call, and the parts that its message is built of.
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
        batch: MrBatch<'_>,
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
        let mut mrs = expose(plan, send, receive, batch, lists)?;
        // CAST: A list is short.
        let write_segments = lists.write.as_slice().len() as u32;
        if write_segments > plan.reply_segments {
            let shape = shape_of(call, send, receive);
            if !reply_fits(&shape, &negotiated.limits, write_segments) {
                return Err(Unsendable::Never(REPLY_TOO_LONG));
            }
        }
        if let Some(mrs) = mrs.as_mut().filter(|_| plan.call == CallMode::Long) {
            // When sunrpc encodes the call again, it frees the encrypted pages, which the server
            // may still reach: only sending the call again waits until it cannot.
            if let Some(pages) = call.hold_encrypted(sender_flags())? {
                mrs.hold(&pages);
            }
        }
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
        let inline = (plan.call != CallMode::Long).then_some(send);
        let without_pages = plan.call == CallMode::ReadChunk;
        let len = append(inline, header_len, without_pages, negotiated, message)?;
        Ok((mrs, len))
    }
}

/// The sizes and properties of `call` that its plan depends on.
#[inline(always)]
fn shape_of(call: &Call<'_, Request>, send: &XdrBuf<'_>, receive: &XdrBuf<'_>) -> CallShape {
    CallShape {
        send_len: send.len(),
        send_pages: send.page_len(),
        send_kvecs: send.kvecs(),
        send_eligible: send.may_be_read_chunk(),
        recv_max: receive.capacity(),
        recv_pages: receive.page_len(),
        recv_kvecs: receive.kvecs(),
        recv_eligible: receive.may_be_write_chunk(),
        opaque: call.is_opaque(),
    }
}

/// Takes the lists that a request has for the chunks of its calls; the first such call makes them.
/// Nothing but its sender uses them until it is posted, so that it is built without a lock.
///
/// # Errors
///
/// [`SendStatus::NotConnected`] if the call may not be sent, [`SendStatus::NoMemory`].
#[inline]
fn take_lists(call: &Call<'_, Request>) -> Result<KBox<Lists>, Unsendable> {
    let mut state = call.slot().state.lock();
    if !state.call.is_sendable() {
        return Err(Unsendable::Later(SendStatus::NotConnected));
    }
    let lists = state.lists.take();

    drop(state);
    lists.map_or_else(make_lists, Ok)
}

#[cold]
fn make_lists() -> Result<KBox<Lists>, Unsendable> {
    KBox::new(Lists::new(), sender_flags()).map_err(Unsendable::from)
}

/// Copies the `inline` part of a call behind the header of `header_len` bytes in `message`. Returns
/// the length of the message in bytes.
///
/// # Errors
///
/// [`Unsendable::Never`] if it is too long.
#[inline(always)]
fn append(
    inline: Option<&XdrBuf<'_>>,
    header_len: usize,
    without_pages: bool,
    negotiated: &Negotiated,
    message: &mut [u8],
) -> Result<u32, Unsendable> {
    let room = message.get_mut(header_len..).unwrap_or(&mut []);
    let payload_len = match inline {
        Some(send) => send.copy_to(room, without_pages),
        None => Some(0),
    };
    // CAST: A header is short. No sum wraps around: all of it is in `message`.
    let len = payload_len.map(|len| len.wrapping_add(header_len as u32));

    match len {
        // PD-18: a longer message would cost the connection.
        Some(len) if len <= negotiated.limits.thresholds.call => Ok(len),
        _ => Err(Unsendable::Never(TOO_LONG)),
    }
}

/// Writes the message for a call that has no chunks. Returns its length in bytes.
///
/// # Errors
///
/// [`Unsendable::Never`] if it is too long.
#[inline(always)]
fn encode_inline(
    xid: u32,
    negotiated: &Negotiated,
    send: &XdrBuf<'_>,
    message: &mut [u8],
) -> Result<u32, Unsendable> {
    let header_len = encode_bare_header(xid, negotiated.credits, message)
        .map_err(|_| Unsendable::Never(TOO_LONG))?;
    append(Some(send), header_len, false, negotiated, message)
}

impl Connection {
    /// Builds the message for `call`.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be built.
    #[inline(always)]
    pub(super) fn build<'c>(
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
        let len = encode_inline(xid, negotiated, &send, message)?;
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
    #[inline(always)]
    fn sendable<'c>(
        &self,
        call: &Call<'c, Request>,
        xid: u32,
    ) -> Result<Guard<'c, CallData, SpinLockBackend>, Unsendable> {
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
        let chunk = SoleChunk::of(&shape_of(call, &send, &receive), &negotiated.limits);

        // Each kind by itself, so that none pays for the differences.
        match (chunk, call.slot().take_kept()) {
            (Some(SoleChunk::Read), Some(kept)) => {
                self.build_sole_chunk(negotiated, call, SoleChunk::Read, kept, message)
            }
            (Some(SoleChunk::Write), Some(kept)) => {
                self.build_sole_chunk(negotiated, call, SoleChunk::Write, kept, message)
            }
            (Some(SoleChunk::Reply), Some(kept)) => {
                self.build_sole_chunk(negotiated, call, SoleChunk::Reply, kept, message)
            }
            (_, kept) => self.build_any(negotiated, call, kept, message),
        }
    }

    /// Registers the memory of `chunk`, the only one of `call`, with the registration that the last
    /// call has left.
    ///
    /// # Errors
    ///
    /// The registration, if more is necessary.
    #[inline(always)]
    fn expose_sole_chunk(
        &self,
        negotiated: &Negotiated,
        call: &Call<'_, Request>,
        chunk: SoleChunk,
        mrs: MrList<Invalidated>,
    ) -> Result<(MrList<Mapped>, Segment), MrList<Invalidated>> {
        let (pool, receive) = (&negotiated.pool, call.receive_buf());
        // The server can reach no memory of a request that has registrations (`Request::keep`).
        let (mrs, region) = match chunk {
            SoleChunk::Read => mrs.reuse(pool, call.send_buf().pages(), Access::RemoteRead)?,
            SoleChunk::Write => mrs.reuse(pool, receive.pages(), Access::RemoteWrite)?,
            // The only part may be the tail.
            SoleChunk::Reply if receive.head_len() == 0 => return Err(mrs),
            SoleChunk::Reply => {
                call.forget_old_reply();
                mrs.reuse(pool, receive.head_runs(), Access::RemoteWrite)?
            }
        };
        Ok((mrs, segment(region)))
    }

    /// Builds the message for a call whose only chunk is `chunk`, with the registration that the
    /// last call has left, if that is enough.
    ///
    /// # Errors
    ///
    /// As [`Self::build`].
    #[inline(always)]
    fn build_sole_chunk<'c>(
        &self,
        negotiated: &Negotiated,
        call: &Call<'c, Request>,
        chunk: SoleChunk,
        kept: MrList<Invalidated>,
        message: &mut [u8],
    ) -> Result<Built<'c>, Unsendable> {
        let (mrs, segment) = match self.expose_sole_chunk(negotiated, call, chunk, kept) {
            Ok(exposed) => exposed,
            Err(kept) => return self.build_any(negotiated, call, Some(kept), message),
        };
        let (send, xid) = (call.send_buf(), call.xid());
        // CAST: A head that is sent inline is short.
        let position = send.head_len() as u32;
        let header_len = chunk
            .encode_header(xid, negotiated.credits, position, &segment, message)
            .map_err(|_| Unsendable::Never(TOO_LONG))?;
        let without_pages = chunk == SoleChunk::Read;
        let len = append(Some(&send), header_len, without_pages, negotiated, message)?;
        self.shared
            .stats
            .count_sole_chunk(chunk, segment.length, &send);

        let mut state = self.sendable(call, xid)?;
        // The call that has left the registrations has made the lists.
        let lists = state
            .lists
            .as_mut()
            .ok_or(Unsendable::Later(SendStatus::NoMemory))?;
        lists.set(chunk, position, segment);
        state.chunked = true;
        Ok(Built {
            state,
            mrs: Some(mrs),
            len,
        })
    }

    /// Builds the message for any call that has chunks. `kept` are the registrations that the last
    /// call has left.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be built.
    #[inline(never)]
    fn build_any<'c>(
        &self,
        negotiated: &Negotiated,
        call: &Call<'c, Request>,
        kept: Option<MrList<Invalidated>>,
        message: &mut [u8],
    ) -> Result<Built<'c>, Unsendable> {
        let (send, receive) = (call.send_buf(), call.receive_buf());
        let xid = call.xid();
        let plan = plan(&shape_of(call, &send, &receive), &negotiated.limits)
            .map_err(|why| Unsendable::Never(why.as_str()))?;
        if plan.reply == ReplyMode::ReplyChunk {
            // Before the memory is the device's, and not while it may still be.
            drop(self.sendable(call, xid)?);
            call.forget_old_reply();
        }
        let mut lists = take_lists(call)?;
        let draft = Draft {
            negotiated,
            call,
            plan: &plan,
            send: &send,
            receive: &receive,
        };
        let batch = MrBatch::new(&negotiated.pool, kept);
        let built = draft.build(batch, &mut lists, message).and_then(|built| {
            self.shared.stats.count_call(&plan, &send, &lists);
            Ok((built, self.sendable(call, xid)?))
        });
        match built {
            Ok(((mrs, len), mut state)) => {
                state.lists = Some(lists);
                state.chunked = true;
                state.unmapped.mapped();
                Ok(Built { state, mrs, len })
            }
            Err(error) => {
                call.slot().state.lock().lists = Some(lists);
                Err(error)
            }
        }
    }
}
