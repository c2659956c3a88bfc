// SPDX-License-Identifier: GPL-2.0

//! Comparison of a reply with its call, over any version (RFC 8166, sections 3.4.6, 4.3.2 and
//! 4.3.3).
//!
//! [`super::returned`] compares the chunks; this finds the place of the reply's bytes.

use super::{
    chunk::ChunkLists,
    incoming::{
        Reply,
        Returned, //
    },
    returned::{
        check_lists,
        check_segment,
        Malformed,
        Offered,
        Part, //
    }, //
};

/// Bytes of the smallest RPC reply: xid, REPLY, MSG_DENIED, AUTH_ERROR and a reason.
const MIN_RPC_REPLY: u64 = 20;

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

/// A reply that keeps to the chunks that its call offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Its place.
    pub(crate) placed: Placed,
    /// Its chunks repeat other handles or offsets than were offered. They are never used, so this
    /// is worth a counter and no more.
    pub(crate) renamed: bool,
}

/// Compares `reply` with the chunks that its call `offered` and finds the place of its bytes.
///
/// # Errors
///
/// See [`Malformed`].
#[inline(always)]
pub(crate) fn check(reply: &Reply<'_>, offered: &Offered<'_>) -> Result<Checked, Malformed> {
    match &reply.chunks {
        Returned::None => Ok(Checked {
            placed: Placed::Inline,
            renamed: false,
        }),
        Returned::Write(_) if offered.write.is_empty() => Err(Malformed::WriteChunkCount),
        Returned::Write(segment) => {
            let written = check_segment(*segment, offered.write)?;
            checked(true, Some(written), None)
        }
        Returned::Reply(segment) => {
            let replied = check_segment(*segment, offered.reply)?;
            checked(false, None, Some(replied))
        }
        Returned::Lists { lists, long } => check_any(!*long, lists, offered),
    }
}

/// [`check`] for a reply with any lists.
#[inline(never)]
fn check_any(
    inline: bool,
    lists: &ChunkLists<'_>,
    offered: &Offered<'_>,
) -> Result<Checked, Malformed> {
    let (written, replied) = check_lists(lists, offered)?;
    checked(inline, written, replied)
}

/// A reply with these parts in a Write chunk and in a Reply chunk, each `None` if not returned.
/// `inline`: it has a payload.
#[inline(always)]
fn checked(
    inline: bool,
    written: Option<Part>,
    replied: Option<Part>,
) -> Result<Checked, Malformed> {
    let renamed = |part: Option<Part>| part.is_some_and(|part| part.renamed);
    let bytes = |part: Option<Part>| part.map(|part| part.bytes);

    Ok(Checked {
        placed: place(inline, bytes(written), bytes(replied))?,
        renamed: renamed(written) || renamed(replied),
    })
}

/// The place of a reply with these bytes in a Write chunk and in a Reply chunk, each `None` if not
/// returned. `inline`: it has a payload.
#[inline(always)]
fn place(inline: bool, written: Option<u64>, replied: Option<u64>) -> Result<Placed, Malformed> {
    match (inline, written, replied) {
        (true, _, Some(1..)) => Err(Malformed::ReplyChunkUsed),
        (true, None, _) => Ok(Placed::Inline),
        (true, Some(length), _) => Ok(Placed::WriteChunk {
            length: total(length)?,
        }),
        (false, _, None) => Err(Malformed::NoReplyChunk),
        (false, Some(1..), Some(_)) => Err(Malformed::BothUsed),
        (false, _, Some(length)) if length < MIN_RPC_REPLY => Err(Malformed::ShortReply),
        (false, _, Some(length)) => Ok(Placed::ReplyChunk {
            length: total(length)?,
        }),
    }
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
            chunk::Segment,
            incoming::Incoming,
            vectors::*,
            wire::Wire, //
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
            assert_eq!(placed(&message, &offered), Some(expected));
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
        assert_eq!(placed(&message, &offered), Some(Err(Malformed::TooLong)));
        let expected = Placed::ReplyChunk { length: u32::MAX };
        assert_eq!(placed(&message.put(52, 0), &offered), Some(Ok(expected)));
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
            let result = reply(&message).and_then(|reply| check(&reply, &offered).ok());
            assert_eq!(result.map(|checked| checked.renamed), Some(differs));
        }
        // And of one segment.
        for (handle, offset, differs) in [(7, 9, false), (8, 9, true), (7, 8, true)] {
            let one = [segment(handle, 100, offset)];
            let offered = Offered {
                write: &one,
                reply: &one,
            };
            let returned = segment(7, 100, 9);
            for chunks in [Returned::Write(returned), Returned::Reply(returned)] {
                let reply = Reply {
                    xid: 1,
                    credits: 1,
                    chunks,
                    payload: &[],
                };
                let result = check(&reply, &offered).map(|checked| checked.renamed);
                assert_eq!(result, Ok(differs));
            }
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
        match Wire::V1.receive(message.bytes()) {
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
        placed(message, &offered)
    }

    // The check of `message` against any offer.
    fn placed(message: &Message, offered: &Offered<'_>) -> Option<Result<Placed, Malformed>> {
        let checked = check(&reply(message)?, offered);
        Some(checked.map(|checked| checked.placed))
    }
}
