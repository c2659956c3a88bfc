// SPDX-License-Identifier: GPL-2.0

//! The chunks of a call: their memory is registered, and they are listed.

use kernel::prelude::*;

use super::super::request::Lists;
use crate::{
    os::Runs,
    proto::{
        CallMode,
        Plan,
        ReadSegment,
        ReplyMode,
        Segment, //
    },
    sunrpc::XdrBuf,
    verbs::{
        Access,
        Mapped,
        MrList,
        Supply, //
    }, //
};

/// Registers what `plan` wants of a call, and lists it in `lists`. Process context, without a
/// spinlock: some drivers allocate memory.
///
/// # Errors
///
/// As [`MrList::register`]; `EMSGSIZE` when there are more segments than a list has room for.
pub(super) fn expose(
    plan: &Plan,
    send: &XdrBuf<'_>,
    receive: &XdrBuf<'_>,
    mut supply: Supply<'_>,
    lists: &mut Lists,
) -> Result<Option<MrList<Mapped>>> {
    let mut mrs = None;

    lists.clear();
    let chunk = Chunk::new(&mut mrs, &mut supply, Access::RemoteRead);
    expose_call(plan.call, send, chunk, lists)?;
    let mut chunk = Chunk::new(&mut mrs, &mut supply, Access::RemoteWrite);
    match plan.reply {
        ReplyMode::Inline => {}
        ReplyMode::WriteChunk => {
            chunk.add(receive.pages(), |segment| lists.write.push(segment))?;
        }
        ReplyMode::ReplyChunk => {
            // As `Call::forget_old_reply`, and for the same reason.
            let wipe = |head: &mut [u8], _: &mut [u8]| head.fill(0);
            chunk.add_all(receive, wipe, |segment| lists.reply.push(segment))?;
        }
    }
    Ok(mrs)
}

/// Registers what the server is to read.
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

    /// Registers `memory`, and tells `push` the segments.
    ///
    /// # Errors
    ///
    /// As [`MrList::register`].
    #[inline]
    fn add(&mut self, memory: impl Runs, mut push: impl FnMut(Segment) -> Result) -> Result {
        let segment = |handle, length, offset| {
            push(Segment {
                handle,
                length,
                offset,
            })
        };
        MrList::register(self.mrs, self.supply, memory, self.access, segment)
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
                buf.pages(),
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
            self.add(buf.head_runs(), &mut push)?;
            self.add(buf.pages(), &mut push)?;
            self.add(buf.tail_runs(), &mut push)?;
        }
        Ok(())
    }
}
