// SPDX-License-Identifier: GPL-2.0

//! The chunks of a call: registers their memory, and lists them.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::super::request::{
    chunks::{
        CallChunks,
        Lists, //
    },
    Request, //
};
use crate::{
    os::Runs,
    proto::{
        CallMode,
        Plan,
        ReadSegment,
        ReplyMode,
        Segment,
        Sole, //
    },
    sunrpc::{
        Call,
        XdrBuf, //
    },
    verbs::{
        Access,
        HeadTail,
        Invalidated,
        Mapped,
        MrBatch,
        MrList,
        MrPool,
        Region, //
    }, //
};

/// Registers the memory of the chunks that `plan` has, and lists them in `lists`. Process context,
/// without a spinlock: some drivers allocate memory.
///
/// # Errors
///
/// As [`MrBatch::register`] and [`MrBatch::finish`]; `EMSGSIZE` when a list has no room for the
/// segments.
pub(super) fn expose(
    plan: &Plan,
    send: &XdrBuf<'_>,
    receive: &XdrBuf<'_>,
    mut batch: MrBatch<'_>,
    lists: &mut Lists,
) -> Result<Option<MrList<Mapped>>> {
    lists.clear();
    let chunk = Chunk::new(&mut batch, Access::RemoteRead);
    expose_call(plan.call, send, chunk, lists)?;
    let mut chunk = Chunk::new(&mut batch, Access::RemoteWrite);
    match plan.reply {
        ReplyMode::Inline => {}
        ReplyMode::WriteChunk => {
            chunk.add(receive.pages(), |segment| lists.write.push(segment))?;
        }
        ReplyMode::ReplyChunk => {
            // The bounce page must not show the server an old reply, as `Call::forget_old_reply`.
            let wipe = |head: &mut [u8], tail: &mut [u8]| {
                head.fill(0);
                tail.fill(0);
            };
            chunk.add_all(receive, wipe, |segment| lists.reply.push(segment))?;
        }
    }
    batch.finish()
}

/// Registers the memory of `sole`, the only chunk of `call`, with the registration that the last
/// call has left. Returns the chunk.
///
/// # Errors
///
/// The registration, if more is necessary.
#[inline(always)]
pub(super) fn reuse(
    pool: &Arc<MrPool>,
    call: &Call<'_, Request>,
    sole: Sole,
    mrs: MrList<Invalidated>,
) -> Result<(CallChunks, MrList<Mapped>), MrList<Invalidated>> {
    let (send, receive) = (call.send_buf(), call.receive_buf());
    // The server can reach no memory of a request that has registrations (`Request::keep`).
    match sole {
        Sole::Read => {
            let (mrs, region) = mrs.reuse(pool, send.pages(), Access::RemoteRead)?;
            // CAST: A head that is sent inline is short.
            let position = send.head_len() as u32;
            let segment = segment(region);
            Ok((CallChunks::Read(ReadSegment { position, segment }), mrs))
        }
        Sole::Write => {
            let (mrs, region) = mrs.reuse(pool, receive.pages(), Access::RemoteWrite)?;
            Ok((CallChunks::Write(segment(region)), mrs))
        }
        // The only part may be the tail.
        Sole::Reply if receive.head_len() == 0 => Err(mrs),
        Sole::Reply => {
            call.forget_old_reply();
            let (mrs, region) = mrs.reuse(pool, receive.head_runs(), Access::RemoteWrite)?;
            Ok((CallChunks::Reply(segment(region)), mrs))
        }
    }
}

/// The segment that gives the server access to `region`.
#[inline(always)]
fn segment(region: Region) -> Segment {
    let Region {
        handle,
        length,
        offset,
    } = region;

    Segment {
        handle,
        length,
        offset,
    }
}

/// Registers the memory that the server is to read.
#[inline]
fn expose_call(
    mode: CallMode,
    send: &XdrBuf<'_>,
    mut chunk: Chunk<'_, '_>,
    lists: &mut Lists,
) -> Result {
    match mode {
        CallMode::Inline => Ok(()),
        CallMode::ReadChunk => {
            let position = u32::try_from(send.head().len())?;
            chunk.add(send.pages(), |segment| {
                lists.read.push(ReadSegment { position, segment })
            })
        }
        CallMode::Long => {
            let fill = |head: &mut [u8], tail: &mut [u8]| {
                copy(head, send.head());
                copy(tail, send.tail());
            };
            chunk.add_all(send, fill, |segment| {
                let position = 0;
                lists.read.push(ReadSegment { position, segment })
            })
        }
    }
}

/// Copies to a place of the same length. Unlike this, an equality that is only known leaves a panic
/// behind.
fn copy(to: &mut [u8], from: &[u8]) {
    if let Some(to) = to.get_mut(..from.len()) {
        to.copy_from_slice(from);
    }
}

/// A chunk in the making.
struct Chunk<'a, 'p> {
    batch: &'a mut MrBatch<'p>,
    access: Access,
}

impl<'a, 'p> Chunk<'a, 'p> {
    /// A chunk without segments, with the registrations of `batch`.
    #[inline]
    fn new(batch: &'a mut MrBatch<'p>, access: Access) -> Self {
        Self { batch, access }
    }

    /// Registers `memory`, and passes the segments to `push`.
    ///
    /// # Errors
    ///
    /// As [`MrBatch::register`].
    #[inline]
    fn add(&mut self, memory: impl Runs, mut push: impl FnMut(Segment) -> Result) -> Result {
        self.batch
            .register(memory, self.access, |region| push(segment(region)))
    }

    /// Registers all of `buf`: as one if possible, with head and tail copied or wiped by `prepare`,
    /// else part by part.
    ///
    /// # Errors
    ///
    /// As [`MrBatch::register`].
    fn add_all(
        &mut self,
        buf: &XdrBuf<'_>,
        prepare: impl FnOnce(&mut [u8], &mut [u8]),
        mut push: impl FnMut(Segment) -> Result,
    ) -> Result {
        if buf.can_coalesce() {
            let head_tail = HeadTail {
                head: buf.head_len(),
                tail: buf.tail_len(),
            };
            let coalesced =
                self.batch
                    .register_coalesced(head_tail, buf.pages(), self.access, prepare)?;
            if let Some(region) = coalesced {
                return push(segment(region));
            }
        }
        self.add(buf.head_runs(), &mut push)?;
        self.add(buf.pages(), &mut push)?;
        self.add(buf.tail_runs(), &mut push)
    }
}
