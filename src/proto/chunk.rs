// SPDX-License-Identifier: GPL-2.0

//! Segments, chunks and chunk lists (RFC 8166, sections 3.4 and 4.3).
//!
//! The views here borrow bytes of a received message, which their constructors check, so that
//! walking them cannot fail.
//!
//! | view | bytes |
//! |---|---|
//! | [`ReadList`] | for each segment: 1, position, handle, length, offset (two words); then 0 |
//! | [`WriteList`] | for each chunk: 1, [`WriteChunk`]; then 0 |
//! | [`WriteChunk`] | number of segments, then for each: handle, length, offset (two words) |
//! | Reply chunk | 0; or 1, [`WriteChunk`] |

use super::{
    defect::Defect,
    xdr::{
        pair,
        Reader, //
    }, //
};

/// Bytes of a segment in a Write chunk or Reply chunk.
pub(crate) const SEGMENT_LEN: usize = 16;

/// Bytes of a segment in a Read list, with the word for its presence in front.
pub(crate) const READ_ENTRY_LEN: usize = 24;

/// Bytes that a Read list of `segments` segments adds to the smallest header.
#[inline]
pub(crate) const fn read_list_len(segments: u64) -> u64 {
    segments.saturating_mul(24)
}

/// Bytes that a Write list of one chunk of `segments` segments adds to the smallest header; 0
/// without segments.
#[inline]
pub(crate) const fn write_list_len(segments: u64) -> u64 {
    match segments {
        0 => 0,
        _ => segments.saturating_mul(16).saturating_add(8),
    }
}

/// Bytes that a Reply chunk of `segments` segments adds to the smallest header; none without
/// segments.
#[inline]
pub(crate) const fn reply_chunk_len(segments: u64) -> u64 {
    match segments {
        0 => 0,
        _ => segments.saturating_mul(16).saturating_add(4),
    }
}

/// A piece of the requester's memory that the responder may reach by RDMA (RFC 8166, section
/// 3.4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The steering tag of the registration.
    pub(crate) handle: u32,
    /// Bytes.
    pub(crate) length: u32,
    /// The address of its first byte, as the registration counts.
    pub(crate) offset: u64,
}

impl Segment {
    /// Returns `true` if its last byte would lie beyond the 64-bit address space.
    pub(crate) fn wraps(&self) -> bool {
        self.length
            .checked_sub(1)
            .is_some_and(|last| self.offset.checked_add(u64::from(last)).is_none())
    }

    /// The segment of these words.
    #[inline(always)]
    pub(super) fn of_words(handle: u32, length: u32, high: u32, low: u32) -> Self {
        Self {
            handle,
            length,
            offset: pair(high, low),
        }
    }

    #[inline]
    fn decode(bytes: &[u8; SEGMENT_LEN]) -> Self {
        let [h0, h1, h2, h3, l0, l1, l2, l3, offset @ ..] = bytes;
        Self {
            handle: u32::from_be_bytes([*h0, *h1, *h2, *h3]),
            length: u32::from_be_bytes([*l0, *l1, *l2, *l3]),
            offset: u64::from_be_bytes(*offset),
        }
    }
}

/// A segment of a Read chunk (RFC 8166, section 3.4.5). Segments of one position are one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadSegment {
    /// The place of the chunk in the payload, in bytes from the RPC xid.
    pub(crate) position: u32,
    /// The memory to read.
    pub(crate) segment: Segment,
}

impl ReadSegment {
    #[inline]
    fn decode(bytes: &[u8; READ_ENTRY_LEN]) -> Self {
        let [_, _, _, _, p0, p1, p2, p3, segment @ ..] = bytes;
        Self {
            position: u32::from_be_bytes([*p0, *p1, *p2, *p3]),
            segment: Segment::decode(segment),
        }
    }
}

/// A received Read list.
///
/// # Invariants
///
/// `entries` is a multiple of [`READ_ENTRY_LEN`] bytes long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadList<'a> {
    entries: &'a [u8],
}

impl<'a> ReadList<'a> {
    /// Takes a Read list from the front of `message`.
    #[inline]
    pub(crate) fn decode(message: &mut Reader<'a>) -> Result<Self, Defect> {
        let all = message.rest();
        let mut len = 0_usize;
        while present(message)? {
            message.take(20).ok_or(Defect::Truncated)?;
            len = len.saturating_add(READ_ENTRY_LEN);
        }
        // INVARIANT: the loop added whole entries.
        Ok(Self {
            entries: all.get(..len).ok_or(Defect::Truncated)?,
        })
    }

    /// The number of segments.
    #[cfg(any(not(MODULE), CONFIG_KUNIT = "y"))]
    pub(crate) const fn len(&self) -> usize {
        self.entries.len() / READ_ENTRY_LEN
    }

    /// Returns `true` if the list has no segments.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The segments in the order of the list.
    #[inline]
    pub(crate) fn segments(&self) -> impl Iterator<Item = ReadSegment> + 'a {
        self.entries
            .chunks_exact(READ_ENTRY_LEN)
            .filter_map(|entry| entry.first_chunk().map(ReadSegment::decode))
    }
}

/// A received Write chunk or Reply chunk.
///
/// # Invariants
///
/// `segments` is a multiple of [`SEGMENT_LEN`] bytes long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteChunk<'a> {
    segments: &'a [u8],
}

impl<'a> WriteChunk<'a> {
    /// Takes a chunk, its count first, from the front of `message`.
    #[inline]
    pub(crate) fn decode(message: &mut Reader<'a>) -> Result<Self, Defect> {
        let count = message.word().ok_or(Defect::Truncated)?;
        // INVARIANT: a multiple of the segment's length; a count beyond the message fails in
        // `take`.
        let segments = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(SEGMENT_LEN))
            .and_then(|bytes| message.take(bytes))
            .ok_or(Defect::Truncated)?;
        Ok(Self { segments })
    }

    /// The number of segments; 0 is possible.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.segments.len() / SEGMENT_LEN
    }

    /// The segments in the order of the chunk.
    #[inline]
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + 'a {
        self.segments
            .chunks_exact(SEGMENT_LEN)
            .filter_map(|segment| segment.first_chunk().map(Segment::decode))
    }
}

/// A received Write list.
///
/// # Invariants
///
/// `entries` is exactly `count` times the word 1 and a Write chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteList<'a> {
    entries: Reader<'a>,
    count: usize,
}

impl<'a> WriteList<'a> {
    /// Takes a Write list from the front of `message`.
    #[inline]
    pub(crate) fn decode(message: &mut Reader<'a>) -> Result<Self, Defect> {
        let all = message.rest();
        let mut end = all.len();
        let mut count = 0_usize;
        while present(message)? {
            WriteChunk::decode(message)?;
            end = message.rest().len();
            count = count.saturating_add(1);
        }
        // INVARIANT: the loop walked `count` chunks up to `end`, the end of the last one.
        let len = all.len().saturating_sub(end);
        let entries = all.get(..len).ok_or(Defect::Truncated)?;
        Ok(Self {
            entries: Reader::new(entries),
            count,
        })
    }

    /// The number of chunks.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if the list has no chunks.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The chunks in the order of the list.
    #[inline]
    pub(crate) fn chunks(&self) -> impl Iterator<Item = WriteChunk<'a>> + 'a {
        let mut entries = self.entries;
        // By the type invariant this ends only at the end of the entries.
        core::iter::from_fn(move || {
            entries.word()?;
            WriteChunk::decode(&mut entries).ok()
        })
    }
}

/// The three chunk lists of a received message (RFC 8166, section 4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkLists<'a> {
    /// The memory that the responder is to read.
    pub(crate) read: ReadList<'a>,
    /// The places where the responder may put, or has put, single results.
    pub(crate) write: WriteList<'a>,
    /// The place where the responder may put, or has put, a whole reply.
    pub(crate) reply: Option<WriteChunk<'a>>,
}

impl<'a> ChunkLists<'a> {
    /// Splits the bytes behind the prefix of a message into the lists and the payload.
    #[inline(always)]
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Defect> {
        // Most messages have no chunks at all.
        match bytes.split_first_chunk::<12>() {
            Some((lists, payload)) if *lists == [0; 12] => Ok((Self::default(), payload)),
            _ => Self::walk(Reader::new(bytes)),
        }
    }

    fn walk(mut message: Reader<'a>) -> Result<(Self, &'a [u8]), Defect> {
        let read = ReadList::decode(&mut message)?;
        let write = WriteList::decode(&mut message)?;
        let reply = if present(&mut message)? {
            Some(WriteChunk::decode(&mut message)?)
        } else {
            None
        };
        Ok((Self { read, write, reply }, message.rest()))
    }

    /// Returns `true` if all three lists are empty.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty() && self.reply.is_none()
    }
}

/// Takes the word for the presence of an item of optional data.
#[inline]
fn present(message: &mut Reader<'_>) -> Result<bool, Defect> {
    match message.word() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(_) => Err(Defect::OptionalData),
        None => Err(Defect::Truncated),
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_chunk))]
mod tests {
    use super::super::vectors::*;
    use super::*;

    // TV-V1-3: a Read list, and its segments in order.
    #[test]
    fn read_list() {
        let message = Message::new(&TV_V1_3);
        let lists = lists(&message);
        assert_eq!(lists.read.len(), 2);
        assert!(lists.write.is_empty() && lists.reply.is_none() && !lists.is_empty());
        let mut segments = lists.read.segments();
        let first = segment(0x1701, 4096, 0xfff0_e000);
        let second = segment(0x1702, 905, 0xffe0_7000);
        assert_eq!(
            segments.next(),
            Some(ReadSegment {
                position: 132,
                segment: first
            })
        );
        assert_eq!(
            segments.next(),
            Some(ReadSegment {
                position: 132,
                segment: second
            })
        );
        assert_eq!(segments.next(), None);
    }

    // TV-V1-4: a Write list of two chunks; offsets of more than 32 bits.
    #[test]
    fn write_list() {
        let message = Message::new(&TV_V1_4);
        let lists = lists(&message);
        assert!(lists.read.is_empty() && lists.reply.is_none() && !lists.is_empty());
        assert_eq!(lists.write.len(), 2);
        let mut chunks = lists.write.chunks();
        let first = chunks.next().unwrap_or_default();
        assert_eq!(first.len(), 3);
        assert_eq!(bytes(&first), 12288);
        assert_eq!(
            first.segments().nth(2),
            Some(segment(0x2103, 4096, 0x30000))
        );
        let second = chunks.next().unwrap_or_default();
        assert_eq!(second.len(), 2);
        assert_eq!(
            second.segments().nth(1),
            Some(segment(0x2202, 512, 0x10_0005_0000))
        );
        assert_eq!(chunks.next(), None);
    }

    // TV-V1-6: a Reply chunk.
    #[test]
    fn reply_chunk() {
        let message = Message::new(&TV_V1_6);
        let lists = lists(&message);
        assert!(lists.read.is_empty() && lists.write.is_empty() && !lists.is_empty());
        let chunk = lists.reply.unwrap_or_default();
        assert_eq!(chunk.len(), 2);
        assert_eq!(
            chunk.segments().next(),
            Some(segment(0x3101, 4096, 0x60000))
        );
        assert_eq!(bytes(&chunk), 5120);
    }

    // V1-98: chunks without segments are there, and empty.
    #[test]
    fn chunks_without_segments() {
        let message = Message::new(&[0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0]);
        let lists = lists(&message);
        assert_eq!(lists.write.len(), 2);
        assert!(lists.write.chunks().all(|chunk| chunk.len() == 0));
        assert_eq!(lists.write.chunks().count(), 2);
        assert_eq!(lists.reply, Some(WriteChunk::default()));
        assert!(!lists.is_empty());
    }

    // V1-15, V1-19: truncated at every length, the lists have no meaning.
    #[test]
    fn truncated() {
        let vectors = [
            (TV_V1_3.as_slice(), 76),
            (TV_V1_4.as_slice(), 124),
            (TV_V1_6.as_slice(), 64),
        ];
        for (words, end) in vectors {
            let message = Message::new(words);
            for len in 16..end {
                assert_eq!(decode(message.cut(len)), Err(Defect::Truncated));
            }
            assert_eq!(decode(message.cut(end)), Ok(0));
        }
    }

    // TV-M-7, V1-18: every word for the presence of an item is 0 or 1.
    #[test]
    fn optional_data() {
        let read = Message::new(&TV_V1_3);
        for at in [16, 40, 64, 68, 72] {
            for word in [2, 0x100, 0x0100_0000, u32::MAX] {
                assert_eq!(decode(read.put(at, word)), Err(Defect::OptionalData));
            }
        }
        let write = Message::new(&TV_V1_4);
        for at in [20, 76, 116, 120] {
            assert_eq!(decode(write.put(at, 2)), Err(Defect::OptionalData));
        }
    }

    // TV-M-11, V1-19: a count that runs past the message, up to counts whose bytes overflow 32
    // bits.
    #[test]
    fn counts() {
        for count in [9, 0x0fff_ffff, 0x1000_0000, 0x1000_0001, u32::MAX] {
            assert_eq!(
                decode(Message::new(&TV_V1_4).put(24, count)),
                Err(Defect::Truncated)
            );
            assert_eq!(
                decode(Message::new(&TV_V1_6).put(28, count)),
                Err(Defect::Truncated)
            );
        }
    }

    // V1-79: the last byte of the address space belongs to a segment, the next one does not exist.
    #[test]
    fn segments_at_the_end_of_the_address_space() {
        let last = u64::MAX;
        assert!(!segment(1, 0, last).wraps());
        assert!(!segment(1, 1, last).wraps());
        assert!(segment(1, 2, last).wraps());
        let first = last.wrapping_sub(u64::from(u32::MAX)).wrapping_add(1);
        assert!(!segment(1, u32::MAX, first).wraps());
        assert!(segment(1, u32::MAX, first.wrapping_add(1)).wraps());
    }

    // Bytes of the payload behind the lists.
    fn decode(message: Message) -> Result<usize, Defect> {
        let bytes = message.bytes().get(16..).ok_or(Defect::Type)?;
        ChunkLists::decode(bytes).map(|(_, payload)| payload.len())
    }

    // The sum of the lengths of the segments.
    fn bytes(chunk: &WriteChunk<'_>) -> u64 {
        chunk
            .segments()
            .map(|segment| u64::from(segment.length))
            .sum()
    }

    fn lists(message: &Message) -> ChunkLists<'_> {
        let bytes = message.bytes().get(16..).unwrap_or_default();
        ChunkLists::decode(bytes).map_or_else(|_| ChunkLists::default(), |(lists, _)| lists)
    }
}
