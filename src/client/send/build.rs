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
        negotiated::Terms,
        request::{
            chunks::{
                CallChunks,
                Lists, //
            },
            CallData,
            Request, //
        },
        stats::Stats, //
    },
    chunks::{
        expose,
        reuse, //
    },
    draft::Draft, //
};
use crate::os::series::{
    EMSGSIZE,
    ENOBUFS, //
};
use crate::{
    proto::{
        CallHeader,
        CallMode,
        Chunks,
        Plan,
        PlanError,
        ReplyMode,
        Sole, //
    },
    sunrpc::{
        Call,
        SendStatus, //
    },
    verbs::{
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

impl From<PlanError> for Unsendable {
    #[cold]
    fn from(error: PlanError) -> Self {
        Self::Never(error.as_str())
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
    /// The transfer modes of the call and its reply.
    pub(super) modes: (CallMode, ReplyMode),
    /// The registrations that the server is to use.
    pub(super) mrs: Option<MrList<Mapped>>,
    /// Bytes.
    pub(super) len: u32,
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

/// Builds the message for `call` over `connection`.
///
/// # Errors
///
/// The reason why it cannot be built.
#[inline(always)]
pub(super) fn build<'c>(
    connection: &Connection,
    call: &Call<'c, Request>,
    message: &mut [u8],
) -> Result<Built<'c>, Unsendable> {
    let negotiated = &connection
        .negotiated()
        .map(|negotiated| negotiated.for_buffer(message.len()))
        .ok_or(Unsendable::Later(SendStatus::NotConnected))?;
    let builder = Builder {
        negotiated,
        stats: &connection.shared.stats,
        call,
    };

    if !negotiated.wire().is_inline(call, &negotiated.limits) {
        return builder.with_chunks(message);
    }
    let draft = Draft::new(negotiated, call, Plan::INLINE);
    let len = draft.write(builder.stats, Chunks::default(), message)?;
    draft.built(CallChunks::None, None, len)
}

/// A call, and what its message depends on.
#[derive(Clone, Copy)]
struct Builder<'a, 'c> {
    negotiated: &'a Terms<'a>,
    stats: &'a Stats,
    call: &'a Call<'c, Request>,
}

impl<'c> Builder<'_, 'c> {
    /// Builds the message for a call that has chunks.
    #[inline(never)]
    fn with_chunks(self, message: &mut [u8]) -> Result<Built<'c>, Unsendable> {
        let Self {
            negotiated, call, ..
        } = self;
        let sole = negotiated.wire().sole(call, &negotiated.limits);

        // Each kind by itself: the compiler leaves out the differences, 30 instructions of a call.
        match (sole, call.slot().take_kept()) {
            (Some(Sole::Read), Some(kept)) => self.with_sole(Sole::Read, kept, message),
            (Some(Sole::Write), Some(kept)) => self.with_sole(Sole::Write, kept, message),
            (Some(Sole::Reply), Some(kept)) => self.with_sole(Sole::Reply, kept, message),
            (_, kept) => self.with_lists(kept, message),
        }
    }

    /// Builds the message for a call whose only chunk is `sole`, with the registration that the
    /// last call has left, if that is enough.
    #[inline(always)]
    fn with_sole(
        self,
        sole: Sole,
        kept: MrList<Invalidated>,
        message: &mut [u8],
    ) -> Result<Built<'c>, Unsendable> {
        let Self {
            negotiated,
            stats,
            call,
        } = self;

        match reuse(&negotiated.pool, call, sole, kept) {
            Ok((chunk, mrs)) => {
                let draft = Draft::new(negotiated, call, sole.plan());
                let len = draft.write(stats, chunk.get(None), message)?;
                draft.built(chunk, Some(mrs), len)
            }
            Err(kept) => self.with_lists(Some(kept), message),
        }
    }

    /// Builds the message for a call that has any chunks. `kept` are the registrations that the
    /// last call has left.
    #[inline(never)]
    fn with_lists(
        self,
        kept: Option<MrList<Invalidated>>,
        message: &mut [u8],
    ) -> Result<Built<'c>, Unsendable> {
        let Self {
            negotiated, call, ..
        } = self;
        let plan = negotiated.wire().plan(call, &negotiated.limits)?;
        let draft = &Draft::new(negotiated, call, plan);
        if plan.reply == ReplyMode::ReplyChunk {
            // Before the memory is the device's, and not while it may still be.
            drop(draft.sendable()?);
            call.forget_old_reply();
        }
        let mut lists = take_lists(call)?;
        let built = self
            .expose_lists(draft, kept, &mut lists, message)
            .and_then(|(mrs, len)| draft.built(CallChunks::Lists, mrs, len));
        match built {
            Ok(mut built) => {
                built.state.lists = Some(lists);
                built.state.unmapped.mapped();
                Ok(built)
            }
            Err(error) => {
                call.slot().state.lock().lists = Some(lists);
                Err(error)
            }
        }
    }

    /// Registers the memory of the chunks, lists them in `lists`, and writes the message. Returns
    /// the registrations and the length of the message in bytes.
    fn expose_lists(
        self,
        draft: &Draft<'_, '_>,
        kept: Option<MrList<Invalidated>>,
        lists: &mut Lists,
        message: &mut [u8],
    ) -> Result<(Option<MrList<Mapped>>, u32), Unsendable> {
        let Self {
            negotiated, call, ..
        } = self;
        let plan = &draft.plan;
        let batch = MrBatch::new(&negotiated.pool, kept);
        let mut mrs = expose(plan, &call.send_buf(), &call.receive_buf(), batch, lists)?;
        // CAST: A list is short.
        let write_segments = lists.get().write.len() as u32;
        let (wire, limits) = (negotiated.wire(), &negotiated.limits);
        if write_segments > plan.reply_segments && !wire.reply_fits(call, limits, write_segments) {
            return Err(Unsendable::Never(REPLY_TOO_LONG));
        }
        if let Some(mrs) = mrs.as_mut().filter(|_| plan.call == CallMode::Long) {
            // When sunrpc encodes the call again, it frees the encrypted pages, which the server
            // may still reach: only sending the call again waits until it cannot.
            if let Some(pages) = call.hold_encrypted(sender_flags())? {
                mrs.hold(&pages);
            }
        }
        let len = draft.write(self.stats, lists.get(), message)?;
        Ok((mrs, len))
    }
}

impl<'c> Draft<'_, 'c> {
    /// Writes the message for a call with these chunks: its header, and its inline part. Returns
    /// its length in bytes.
    ///
    /// # Errors
    ///
    /// [`Unsendable::Never`] if it is too long.
    #[inline(always)]
    fn write(
        &self,
        stats: &Stats,
        chunks: Chunks<'_>,
        message: &mut [u8],
    ) -> Result<u32, Unsendable> {
        let Draft {
            negotiated,
            call,
            xid,
            plan,
        } = self;
        let send = call.send_buf();
        let header = CallHeader {
            xid: *xid,
            credits: negotiated.credits,
            long: plan.call == CallMode::Long,
            chunks,
        };
        let header_len = negotiated
            .wire()
            .encode(&header, message)
            .map_err(|_| Unsendable::Never(TOO_LONG))?;
        let room = message.get_mut(header_len..).unwrap_or(&mut []);
        let payload_len = match plan.call {
            CallMode::Long => Some(0),
            mode => send.copy_to(room, mode == CallMode::ReadChunk),
        };
        // CAST: A header is short. No sum wraps around: all of it is in `message`.
        let len = payload_len.map(|len| len.wrapping_add(header_len as u32));

        match len {
            // PD-18: a longer message would cost the connection.
            Some(len) if len <= negotiated.limits.thresholds.call => {
                stats.count_call(plan, &send, &chunks);
                Ok(len)
            }
            _ => Err(Unsendable::Never(TOO_LONG)),
        }
    }

    /// The message of `len` bytes for a call with these chunks.
    ///
    /// # Errors
    ///
    /// As [`Self::sendable`].
    #[inline(always)]
    fn built(
        &self,
        chunks: CallChunks,
        mrs: Option<MrList<Mapped>>,
        len: u32,
    ) -> Result<Built<'c>, Unsendable> {
        let mut state = self.sendable()?;

        state.chunks = chunks;
        Ok(Built {
            state,
            modes: (self.plan.call, self.plan.reply),
            mrs,
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
    fn sendable(&self) -> Result<Guard<'c, CallData, SpinLockBackend>, Unsendable> {
        let mut state = self.call.slot().state.lock();

        if !state.call.is_sendable() {
            return Err(Unsendable::Later(SendStatus::NotConnected));
        }
        if state.xid != self.xid {
            state.xid = self.xid;
            state.undecodable = 0;
        }
        state.gss_sequence = self.call.gss_sequence();
        state.chunks = CallChunks::None;
        Ok(state)
    }
}
