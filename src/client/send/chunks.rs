// SPDX-License-Identifier: GPL-2.0

//! The chunks of a call: their memory is registered, and they are listed.

use kernel::prelude::*;

use super::super::request::Lists;
use crate::{
    os::PageSpan,
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
