// SPDX-License-Identifier: GPL-2.0

//! Comparison of returned chunks with the offered ones.
//!
//! A responder returns the chunks of a call with the lengths rewritten to the bytes it placed. The
//! lengths are the only words of a returned segment that are used, and only after it is certain
//! that they lie within the offered ones and that the bytes placed have no hole in them. Handles
//! and offsets are always ours.

use core::{
    iter,
    slice, //
};

use super::chunk::{
    ChunkLists,
    Segment,
    WriteChunk,
    WriteList, //
};

/// The chunks for the reply that a call offered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offered<'a> {
    /// The segments of the Write chunk; empty when none was offered.
    pub(crate) write: &'a [Segment],
    /// The segments of the Reply chunk; empty when none was offered.
    pub(crate) reply: &'a [Segment],
}

/// Bytes that a responder has placed in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Their number.
    pub(crate) bytes: u64,
    /// Their handles or offsets are not as offered.
    pub(crate) renamed: bool,
}

/// A defect of a reply; its call fails, the connection stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// It has a Read list, but responders expose no memory.
    ReadList,
    /// It has another number of Write chunks than offered.
    WriteChunkCount,
    /// A chunk has another number of segments than offered.
    SegmentCount,
    /// A segment is longer than offered.
    TooLong,
    /// Bytes were placed behind a segment that is not full.
    Hole,
    /// It is inline, and yet the Reply chunk contains bytes.
    ReplyChunkUsed,
    /// Nothing is inline, and no Reply chunk came back.
    NoReplyChunk,
    /// Nothing is inline, and the Reply chunk holds less than the smallest reply.
    ShortReply,
    /// Both the Write chunk and the Reply chunk were used; no call of ours offers both.
    BothUsed,
}

impl Malformed {
    /// The reason in words, for a trace or a log line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::ReadList => "reply with a Read list",
            Self::WriteChunkCount => "number of Write chunks changed",
            Self::SegmentCount => "number of segments changed",
            Self::TooLong => "segment longer than offered",
            Self::Hole => "segment after one that is not full",
            Self::ReplyChunkUsed => "inline reply with a used Reply chunk",
            Self::NoReplyChunk => "RDMA_NOMSG without a Reply chunk",
            Self::ShortReply => "Reply chunk shorter than an RPC reply",
            Self::BothUsed => "both Write chunk and Reply chunk used",
        }
    }
}

/// Compares any lists with the chunks that a call `offered`. Returns the bytes in a Write chunk and
/// in a Reply chunk, each `None` if not returned.
///
/// # Errors
///
/// [`Malformed::ReadList`], and the errors of [`check_write_list`] and [`check_chunk`].
pub(super) fn check_lists(
    lists: &ChunkLists<'_>,
    offered: &Offered<'_>,
) -> Result<(Option<Part>, Option<Part>), Malformed> {
    if !lists.read.is_empty() {
        return Err(Malformed::ReadList);
    }
    let chunks = match offered.write {
        [] => &[],
        _ => slice::from_ref(&offered.write),
    };
    let written = check_write_list(&lists.write, chunks)?;
    let replied = match &lists.reply {
        Some(chunk) => Some(check_chunk(chunk, offered.reply)?),
        None => None,
    };
    Ok((written, replied))
}

/// Compares a returned Write list with the `offered` one and returns the bytes placed in all its
/// chunks; `None` if it is empty, which means that no chunk was used.
///
/// # Errors
///
/// [`Malformed::WriteChunkCount`], and the errors of [`check_chunk`].
#[inline]
pub(crate) fn check_write_list(
    returned: &WriteList<'_>,
    offered: &[&[Segment]],
) -> Result<Option<Part>, Malformed> {
    if returned.is_empty() {
        return Ok(None);
    }
    if returned.len() != offered.len() {
        return Err(Malformed::WriteChunkCount);
    }
    let mut all = Part::default();
    for (returned, offered) in returned.chunks().zip(offered) {
        let Part { bytes, renamed } = check_chunk(&returned, offered)?;
        all.bytes = all.bytes.saturating_add(bytes);
        all.renamed |= renamed;
    }
    Ok(Some(all))
}

/// Compares a returned chunk with the `offered` one and returns the bytes placed in it.
///
/// # Errors
///
/// [`Malformed::SegmentCount`], [`Malformed::TooLong`] or [`Malformed::Hole`].
#[inline]
pub(crate) fn check_chunk(
    returned: &WriteChunk<'_>,
    offered: &[Segment],
) -> Result<Part, Malformed> {
    check_segments(returned.len(), returned.segments(), offered)
}

/// [`check_chunk`] for a chunk of one segment.
#[inline(always)]
pub(super) fn check_segment(returned: Segment, offered: &[Segment]) -> Result<Part, Malformed> {
    check_segments(1, iter::once(returned), offered)
}

/// [`check_chunk`] for a chunk of `count` segments.
#[inline(always)]
fn check_segments(
    count: usize,
    returned: impl Iterator<Item = Segment>,
    offered: &[Segment],
) -> Result<Part, Malformed> {
    if count != offered.len() {
        return Err(Malformed::SegmentCount);
    }
    let mut placed = Part::default();
    let mut full = true;
    for (returned, offered) in returned.zip(offered) {
        if returned.length > offered.length {
            return Err(Malformed::TooLong);
        }
        if returned.length != 0 && !full {
            return Err(Malformed::Hole);
        }
        full &= returned.length == offered.length;
        placed.renamed |= returned.handle != offered.handle || returned.offset != offered.offset;
        // NO-OVERFLOW: fewer than 2^32 lengths of 32 bits.
        placed.bytes = placed.bytes.wrapping_add(u64::from(returned.length));
    }
    Ok(placed)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_returned))]
mod tests {
    use super::{
        super::vectors::*,
        *, //
    };

    // TV-V1-4, 5, TV-M-12..15: a list of two chunks.
    #[test]
    fn write_list() {
        let reply = Message::new(&TV_V1_5);
        assert_eq!(two_chunks(&reply), Some(Ok(4196)));
        let result = two_chunks(&reply.put(32, 4097));
        assert_eq!(result, Some(Err(Malformed::TooLong)));
        let result = two_chunks(&reply.put(64, 8));
        assert_eq!(result, Some(Err(Malformed::Hole)));
        let result = two_chunks(&Message::without(&TV_V1_5, 15, 19).put(24, 2));
        assert_eq!(result, Some(Err(Malformed::SegmentCount)));
        assert_eq!(two_chunks(&Message::without(&TV_V1_5, 5, 29)), Some(Ok(0)));
        let result = two_chunks(&Message::without(&TV_V1_5, 19, 29));
        assert_eq!(result, Some(Err(Malformed::WriteChunkCount)));
    }

    // The first chunk of TV-V1-4.
    const FIRST: [Segment; 3] = [
        segment(0x2101, 4096, 0x10000),
        segment(0x2102, 4096, 0x20000),
        segment(0x2103, 4096, 0x30000),
    ];

    // The check of `message` against the two chunks of TV-V1-4.
    fn two_chunks(message: &Message) -> Option<Result<u64, Malformed>> {
        let second = [
            segment(0x2201, 2048, 0x10_0004_0000),
            segment(0x2202, 512, 0x10_0005_0000),
        ];
        let (lists, _) = ChunkLists::decode(message.bytes().get(16..)?).ok()?;
        let placed = check_write_list(&lists.write, &[&FIRST, &second]);
        Some(placed.map(|part| part.map_or(0, |part| part.bytes)))
    }
}
