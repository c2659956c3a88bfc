// SPDX-License-Identifier: GPL-2.0

//! The chunk lists of a reply: those of the call, with the lengths that were written (RFC 8166,
//! sections 3.4.6 and 4.3).

use super::{
    super::{
        super::{
            chunk::{
                reply_chunk_len,
                write_list_len, //
            },
            xdr::{
                NoRoom,
                Writer, //
            }, //
        },
        offer::{
            filled,
            put_segments,
            Offer, //
        }, //
    },
    ReplyPlan,
    WriteChunk, //
};

/// Bytes that the chunks of `offer` add to a header without chunks.
pub(crate) fn lists_len(offer: &Offer<'_>) -> u64 {
    let segments = |chunk: WriteChunk<'_>| u64::try_from(chunk.len()).unwrap_or(u64::MAX);
    let mut len = 0_u64;

    for chunk in offer.write.chunks() {
        let chunk = match segments(chunk) {
            // The words for its presence and the count of its segments.
            0 => 8,
            segments => write_list_len(segments),
        };
        len = len.saturating_add(chunk);
    }
    if let Some(chunk) = offer.reply {
        let chunk = match segments(chunk) {
            0 => 4,
            segments => reply_chunk_len(segments),
        };
        len = len.saturating_add(chunk);
    }
    len
}

impl ReplyPlan<'_, '_> {
    /// Writes the three lists of the reply's header.
    ///
    /// # Errors
    ///
    /// [`NoRoom`].
    pub(crate) fn put_lists(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        let offer = self.offer();
        // A Read list of no segments.
        out.words([0])?;
        // `enumerate` has a call to panic.
        let mut index = 0_usize;
        for chunk in offer.write.chunks() {
            let segments = filled(chunk, self.written(index, chunk));
            put_segments(out, chunk.len(), segments)?;
            index = index.saturating_add(1);
        }
        out.words([0])?;
        match offer.reply {
            Some(chunk) => {
                let segments = filled(chunk, self.in_reply_chunk());
                put_segments(out, chunk.len(), segments)
            }
            None => out.words([0]),
        }
    }
}
