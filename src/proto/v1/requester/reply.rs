// SPDX-License-Identifier: GPL-2.0

//! Comparison of a reply with the chunks that its call offered (RFC 8166, sections 3.4.6, 4.3.2 and
//! 4.3.3).
//!
//! A responder returns the chunks of a call with the lengths rewritten to the bytes it placed. The
//! lengths are the only words of a returned segment that are used, and only after it is certain
//! that they lie within the offered ones and that the bytes placed have no hole in them. Handles
//! and offsets are always ours.

use super::{
    super::super::chunk::{
        Segment,
        WriteChunk,
        WriteList, //
    },
    incoming::Reply, //
};

/// Bytes of the smallest RPC reply: xid, REPLY, MSG_DENIED, AUTH_ERROR and a reason.
pub(super) const MIN_RPC_REPLY: u64 = 20;

/// The chunks for the reply that a call offered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offered<'a> {
    /// The segments of the Write chunk; empty when none was offered.
    pub(crate) write: &'a [Segment],
    /// The segments of the Reply chunk; empty when none was offered.
    pub(crate) reply: &'a [Segment],
}

/// The place of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// All of it is inline; no Write chunk was offered, or the reply has an empty Write list.
    Inline,
    /// The Write chunk came back; the rest of the reply is inline.
    WriteChunk {
        /// Bytes placed in the Write chunk, 0 when the responder did not use it.
        length: u32,
    },
    /// All of it is in the Reply chunk.
    ReplyChunk {
        /// Bytes of the reply.
        length: u32,
    },
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

/// Compares `reply` with the chunks that its call `offered` and finds the place of its bytes.
///
/// # Errors
///
/// See [`Malformed`].
#[inline(always)]
pub(crate) fn check(reply: &Reply<'_>, offered: &Offered<'_>) -> Result<Placed, Malformed> {
    // Most replies have no chunks at all.
    if reply.payload.is_some() && reply.chunks.is_empty() {
        return Ok(Placed::Inline);
    }
    check_chunks(reply, offered)
}

fn check_chunks(reply: &Reply<'_>, offered: &Offered<'_>) -> Result<Placed, Malformed> {
    let chunks = &reply.chunks;
    if !chunks.read.is_empty() {
        return Err(Malformed::ReadList);
    }
    let offered_chunks = if offered.write.is_empty() {
        &[]
    } else {
        core::slice::from_ref(&offered.write)
    };
    let written = check_write_list(&chunks.write, offered_chunks)?;
    let replied = match &chunks.reply {
        Some(chunk) => Some(check_chunk(chunk, offered.reply)?),
        None => None,
    };
    match (reply.payload, replied) {
        (Some(_), Some(1..)) => Err(Malformed::ReplyChunkUsed),
        (Some(_), _) if chunks.write.is_empty() => Ok(Placed::Inline),
        (Some(_), _) => Ok(Placed::WriteChunk {
            length: total(written)?,
        }),
        (None, None) => Err(Malformed::NoReplyChunk),
        (None, Some(_)) if written != 0 => Err(Malformed::BothUsed),
        (None, Some(length)) if length < MIN_RPC_REPLY => Err(Malformed::ShortReply),
        (None, Some(length)) => Ok(Placed::ReplyChunk {
            length: total(length)?,
        }),
    }
}

/// Compares a returned Write list with the `offered` one and returns the bytes placed in all its
/// chunks.
///
/// An empty list means that no chunk was used.
///
/// # Errors
///
/// [`Malformed::WriteChunkCount`], and the errors of [`check_chunk`].
#[inline]
pub(crate) fn check_write_list(
    returned: &WriteList<'_>,
    offered: &[&[Segment]],
) -> Result<u64, Malformed> {
    if returned.is_empty() {
        return Ok(0);
    }
    if returned.len() != offered.len() {
        return Err(Malformed::WriteChunkCount);
    }
    let mut placed = 0_u64;
    for (returned, offered) in returned.chunks().zip(offered) {
        placed = placed.saturating_add(check_chunk(&returned, offered)?);
    }
    Ok(placed)
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
) -> Result<u64, Malformed> {
    if returned.len() != offered.len() {
        return Err(Malformed::SegmentCount);
    }
    let mut placed = 0_u64;
    let mut full = true;
    for (returned, offered) in returned.segments().zip(offered) {
        if returned.length > offered.length {
            return Err(Malformed::TooLong);
        }
        if returned.length != 0 && !full {
            return Err(Malformed::Hole);
        }
        full &= returned.length == offered.length;
        // NO-OVERFLOW: fewer than 2^32 lengths of 32 bits.
        placed = placed.wrapping_add(u64::from(returned.length));
    }
    Ok(placed)
}

/// Returns `true` if a returned chunk repeats other handles or offsets than were `offered`.
///
/// They are never used, so this is worth a counter and no more. The lists must have passed
/// [`check`].
pub(crate) fn renamed(reply: &Reply<'_>, offered: &Offered<'_>) -> bool {
    let differs = |returned: WriteChunk<'_>, offered: &[Segment]| {
        returned.segments().zip(offered).any(|(returned, offered)| {
            returned.handle != offered.handle || returned.offset != offered.offset
        })
    };
    let chunks = &reply.chunks;
    chunks
        .write
        .chunks()
        .any(|chunk| differs(chunk, offered.write))
        || chunks
            .reply
            .is_some_and(|chunk| differs(chunk, offered.reply))
}

/// The length of an RPC message; an error if more bytes than one can have were offered, and used.
#[inline]
fn total(bytes: u64) -> Result<u32, Malformed> {
    u32::try_from(bytes).map_err(|_| Malformed::TooLong)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_reply))]
mod tests {
    use super::{
        super::{
            super::super::vectors::*,
            incoming::{
                classify,
                Incoming, //
            }, //
        },
        *, //
    };

    // V1-100, V1-101, TV-M-15: without chunks a reply is inline, with any offer.
    #[test]
    fn inline() {
        let message = Message::new(&TV_V1_2);
        for (write, reply) in [(0, 0), (3, 0), (0, 2), (3, 2)] {
            assert_eq!(outcome(&message, write, reply), Some(Ok(Placed::Inline)));
        }
        let empty_list = Message::without(&TV_V1_5, 5, 29);
        assert_eq!(outcome(&empty_list, 3, 0), Some(Ok(Placed::Inline)));
    }

    // TV-V1-5, TV-M-12, 13, V1-66, V1-91, V1-92: the lengths of a Write chunk.
    #[test]
    fn write_chunk_lengths() {
        let placed = |length| Ok(Placed::WriteChunk { length });
        for (lengths, expected) in [
            ([0, 0, 0], placed(0)),
            ([1, 0, 0], placed(1)),
            ([4095, 0, 0], placed(4095)),
            ([4096, 0, 0], placed(4096)),
            ([4096, 100, 0], placed(4196)),
            ([4096, 4096, 1], placed(8193)),
            ([4096, 4096, 4096], placed(12288)),
            ([4097, 0, 0], Err(Malformed::TooLong)),
            ([4096, 4096, 4097], Err(Malformed::TooLong)),
            ([4096, u32::MAX, 0], Err(Malformed::TooLong)),
            ([0, 1, 0], Err(Malformed::Hole)),
            ([4095, 1, 0], Err(Malformed::Hole)),
            ([4096, 100, 8], Err(Malformed::Hole)),
            ([4096, 0, 4096], Err(Malformed::Hole)),
        ] {
            let [first, second, third] = lengths;
            let message = one_chunk().put(32, first).put(48, second).put(64, third);
            assert_eq!(outcome(&message, 3, 0), Some(expected));
        }
    }

    // V1-92: a segment that was offered empty does not close the hole in front of it.
    #[test]
    fn empty_segments() {
        let segments = [segment(0, 8, 0), segment(0, 0, 0), segment(0, 8, 0)];
        let offered = Offered {
            write: &segments,
            reply: &[],
        };
        for (first, expected) in [
            (8, Ok(Placed::WriteChunk { length: 9 })),
            (7, Err(Malformed::Hole)),
        ] {
            let message = one_chunk().put(32, first).put(48, 0).put(64, 1);
            let result = reply(&message).map(|reply| check(&reply, &offered));
            assert_eq!(result, Some(expected));
        }
    }

    // V1-89, V1-90: the number of Write chunks and of segments.
    #[test]
    fn write_chunk_counts() {
        for segments in [1, 2, 4] {
            let result = outcome(&one_chunk(), segments, 0);
            assert_eq!(result, Some(Err(Malformed::SegmentCount)));
        }
        let result = outcome(&one_chunk(), 0, 0);
        assert_eq!(result, Some(Err(Malformed::WriteChunkCount)));
        let two_chunks = Message::new(&TV_V1_5);
        let result = outcome(&two_chunks, 3, 0);
        assert_eq!(result, Some(Err(Malformed::WriteChunkCount)));
    }

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
        let result = two_chunks(&one_chunk());
        assert_eq!(result, Some(Err(Malformed::WriteChunkCount)));
    }

    // V1-82: responders expose no memory.
    #[test]
    fn read_list() {
        let message = Message::new(&TV_V1_3).put(80, 1);
        assert_eq!(outcome(&message, 0, 0), Some(Err(Malformed::ReadList)));
    }

    // TV-V1-8, V1-102: the whole reply in the Reply chunk.
    #[test]
    fn reply_chunk() {
        let placed = |length| Ok(Placed::ReplyChunk { length });
        for (length, expected) in [
            (0, Err(Malformed::ShortReply)),
            (19, Err(Malformed::ShortReply)),
            (20, placed(20)),
            (4096, placed(4096)),
            (4097, Err(Malformed::TooLong)),
        ] {
            let message = Message::new(&TV_V1_8).put(36, length);
            assert_eq!(outcome(&message, 0, 1), Some(expected));
        }
        let message = Message::new(&TV_V1_8);
        for offered in [0, 2] {
            let result = outcome(&message, 0, offered);
            assert_eq!(result, Some(Err(Malformed::SegmentCount)));
        }
        // The list that makes this RDMA_NOMSG decodable is an unused Write chunk.
        let message = Message::new(&[7, 1, 1, 1, 0, 1, 1, 9, 0, 0, 9, 0, 0]);
        assert_eq!(outcome(&message, 1, 1), Some(Err(Malformed::NoReplyChunk)));
    }

    // V1-101: an inline reply leaves the Reply chunk empty.
    #[test]
    fn inline_with_reply_chunk() {
        let message = Message::new(&TV_V1_6).put(68, 1).put(36, 0).put(52, 0);
        assert_eq!(outcome(&message, 0, 2), Some(Ok(Placed::Inline)));
        assert_eq!(outcome(&message, 0, 1), Some(Err(Malformed::SegmentCount)));
        let message = message.put(36, 1);
        assert_eq!(
            outcome(&message, 0, 2),
            Some(Err(Malformed::ReplyChunkUsed))
        );
    }

    // V1-50: Write chunk and Reply chunk in one reply.
    #[test]
    fn both_chunks() {
        let words = [7, 1, 1, 1, 0, 1, 1, 9, 0, 0, 9, 0, 1, 1, 8, 20, 0, 8];
        let message = Message::new(&words);
        let expected = Placed::ReplyChunk { length: 20 };
        assert_eq!(outcome(&message, 1, 1), Some(Ok(expected)));
        let message = message.put(32, 1);
        assert_eq!(outcome(&message, 1, 1), Some(Err(Malformed::BothUsed)));
    }

    // V1-91: sums beyond 32 bits.
    #[test]
    fn long_sums() {
        let full = [segment(9, u32::MAX, 9); 2];
        let words = [7, 1, 1, 1, 0, 0, 1, 2, 9, u32::MAX, 0, 9, 9, 1, 0, 9];
        let offered = Offered {
            write: &[],
            reply: &full,
        };
        let message = Message::new(&words);
        let result = reply(&message).map(|reply| check(&reply, &offered));
        assert_eq!(result, Some(Err(Malformed::TooLong)));
        let message = message.put(52, 0);
        let result = reply(&message).map(|reply| check(&reply, &offered));
        let expected = Placed::ReplyChunk { length: u32::MAX };
        assert_eq!(result, Some(Ok(expected)));
    }

    // V1-93: other handles and offsets are no error, but are reported.
    #[test]
    fn renamed_segments() {
        let expected = Placed::WriteChunk { length: 4196 };
        for (at, word, differs) in [
            (28, 0x2101, false),
            (28, 0x2109, true),
            (44, 0, true),
            (72, 1, true),
            (56, 0x30000, true),
        ] {
            let message = one_chunk().put(at, word);
            assert_eq!(outcome(&message, 3, 0), Some(Ok(expected)));
            let offered = Offered {
                write: &FIRST,
                reply: &[],
            };
            let result = reply(&message).map(|reply| renamed(&reply, &offered));
            assert_eq!(result, Some(differs));
        }
    }

    // The first chunk of TV-V1-4.
    const FIRST: [Segment; 3] = [
        segment(0x2101, 4096, 0x10000),
        segment(0x2102, 4096, 0x20000),
        segment(0x2103, 4096, 0x30000),
    ];

    // TV-V1-5 with its first chunk alone.
    fn one_chunk() -> Message {
        Message::without(&TV_V1_5, 19, 29)
    }

    fn reply(message: &Message) -> Option<Reply<'_>> {
        match classify(message.bytes()) {
            Incoming::Reply(reply) => Some(reply),
            _ => None,
        }
    }

    // The check of `message` against a Write chunk and a Reply chunk of that number of segments of
    // 4096 bytes.
    fn outcome(message: &Message, write: usize, reply: usize) -> Option<Result<Placed, Malformed>> {
        let segments = [segment(0, 4096, 0); 4];
        let offered = Offered {
            write: segments.get(..write)?,
            reply: segments.get(..reply)?,
        };
        Some(check(&self::reply(message)?, &offered))
    }

    // The check of `message` against the two chunks of TV-V1-4.
    fn two_chunks(message: &Message) -> Option<Result<u64, Malformed>> {
        let second = [
            segment(0x2201, 2048, 0x10_0004_0000),
            segment(0x2202, 512, 0x10_0005_0000),
        ];
        let list = reply(message)?.chunks.write;
        Some(check_write_list(&list, &[&FIRST, &second]))
    }
}
