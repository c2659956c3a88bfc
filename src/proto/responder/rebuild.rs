// SPDX-License-Identifier: GPL-2.0

//! The arguments of a call, made up of its inline part and its Read chunks (RFC 8166, section
//! 3.4.5).
//!
//! All segments with one position are one chunk, in the order of the list. Positions count in the
//! arguments as they were before anything was taken out, and may come in any order. The rest of the
//! arguments is the body: the inline part or, for a Long call, the chunk at position 0. The other
//! chunks are inserted into it:
//!
//! ```text
//!     body   0....8.......p        p.......q         q....
//!     chunks              [ p zeros]       [ q zeros]
//! ```
//!
//! A chunk ends at a multiple of 4: zeros are supplied where the client has sent no padding, so
//! that nothing of the server's memory shows through.

pub(crate) mod pieces;

use super::super::{
    chunk::{
        ChunkLists,
        ReadList, //
    },
    defect::Defect, //
};

/// The most Read chunks of a call besides that at position 0. An NFS client sends one.
pub(crate) const MAX_CHUNKS: usize = 16;

/// Bytes of the xid and the message type of a call, which no chunk is inserted into.
const START: u64 = 8;

/// The most that a server takes as arguments of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentLimits {
    /// Bytes of the arguments.
    pub(crate) len: u32,
    /// Segments of the Read list, without segments of length 0.
    pub(crate) segments: u32,
}

/// A Read chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Chunk {
    position: u32,
    /// Bytes of its segments.
    len: u32,
}

/// The Read chunks of a call besides that at position 0.
///
/// # Invariants
///
/// The first `count` of `chunks` are in rising order of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunks {
    chunks: [Chunk; MAX_CHUNKS],
    count: usize,
}

impl Chunks {
    const fn new() -> Self {
        // INVARIANT: It has no chunks.
        Self {
            chunks: [Chunk {
                position: 0,
                len: 0,
            }; MAX_CHUNKS],
            count: 0,
        }
    }

    /// The length of the chunk at `position`, or of a new chunk.
    ///
    /// # Errors
    ///
    /// [`Defect::TooManySegments`] if another chunk would be one too many.
    fn at(&mut self, position: u32) -> Result<&mut u32, Defect> {
        // From the end: clients send the chunks in rising order.
        let mut index = self.count;
        let mut is_known = false;
        while let Some(before) = index.checked_sub(1).filter(|_| !is_known) {
            match self.chunks.get(before) {
                Some(chunk) if chunk.position >= position => {
                    is_known = chunk.position == position;
                    index = before;
                }
                _ => break,
            }
        }
        if !is_known {
            let mut moved = Chunk { position, len: 0 };
            let rest = self.chunks.get_mut(index..=self.count);
            // INVARIANT: The chunks at higher positions move up by one place.
            for chunk in rest.ok_or(Defect::TooManySegments)? {
                core::mem::swap(chunk, &mut moved);
            }
            // NO-OVERFLOW: There was a place.
            self.count = self.count.wrapping_add(1);
        }
        self.chunks
            .get_mut(index)
            .map(|chunk| &mut chunk.len)
            .ok_or(Defect::TooManySegments)
    }

    /// The chunk of that number.
    fn get(&self, index: usize) -> Option<Chunk> {
        self.chunks.get(..self.count)?.get(index).copied()
    }

    /// The chunks in rising order of positions.
    fn rising(&self) -> impl Iterator<Item = Chunk> + '_ {
        self.chunks.iter().take(self.count).copied()
    }
}

/// The plan that rebuilds the arguments of a call. It refers to the received Read list.
///
/// # Invariants
///
/// In rising order of positions, the gaps between `chunks` add up to no more than the body; the
/// lengths of all parts, with their padding, add up to `len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rebuild<'a> {
    read: ReadList<'a>,
    /// The inline part of a call, or the sum of the segments at position 0.
    body: u32,
    /// The body is the chunk at position 0.
    long: bool,
    chunks: Chunks,
    /// Segments that are not empty.
    segments: u32,
    len: u32,
}

impl<'a> Rebuild<'a> {
    /// Plans the arguments of a call with these lists, which have passed the
    /// [checks](super::check::check) of a received call; `payload` is its inline part.
    ///
    /// # Errors
    ///
    /// The [`Defect`]; the call is rejected with `ERR_CHUNK`.
    pub(crate) fn plan(
        lists: &ChunkLists<'a>,
        payload: Option<&[u8]>,
        limits: &ArgumentLimits,
    ) -> Result<Self, Defect> {
        let mut plan = Self {
            read: lists.read,
            body: 0,
            long: payload.is_none(),
            chunks: Chunks::new(),
            segments: 0,
            len: 0,
        };
        for read in plan.read.segments() {
            let len = read.segment.length;
            if len == 0 {
                continue;
            }
            if plan.segments >= limits.segments {
                return Err(Defect::TooManySegments);
            }
            // NO-OVERFLOW: It was below a limit.
            plan.segments = plan.segments.wrapping_add(1);
            let sum = if plan.long && read.position == 0 {
                &mut plan.body
            } else {
                plan.chunks.at(read.position)?
            };
            *sum = sum.checked_add(len).ok_or(Defect::TooLong)?;
        }
        if let Some(payload) = payload {
            plan.body = u32::try_from(payload.len()).map_err(|_| Defect::TooLong)?;
        }
        // INVARIANT: `measure` checks the gaps, and adds up the lengths.
        plan.len = plan.measure(limits.len)?;
        Ok(plan)
    }

    /// The bytes of the arguments, if the chunks fit into the body and the bytes are no more than
    /// `most`.
    fn measure(&self, most: u32) -> Result<u32, Defect> {
        let mut end = 0_u64;
        let mut left = u64::from(self.body);
        for chunk in self.chunks.rising() {
            let position = u64::from(chunk.position);
            // A chunk before the end of another overlaps it.
            let gap = position.checked_sub(end).ok_or(Defect::Position)?;
            left = left.checked_sub(gap).ok_or(Defect::Position)?;
            if position < START {
                return Err(Defect::Position);
            }
            end = position.saturating_add(padded(chunk.len));
        }
        let rest = if self.long {
            left.checked_next_multiple_of(4).ok_or(Defect::TooLong)?
        } else {
            left
        };
        let len = end.saturating_add(rest);
        if self.long && u64::from(self.body) < START {
            return Err(Defect::ShortPayload);
        }
        match u32::try_from(len) {
            Ok(len) if len <= most => Ok(len),
            _ => Err(Defect::TooLong),
        }
    }

    /// Bytes of the arguments.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// The most RDMA Reads, one for each segment, and more where a chunk interrupts the one at
    /// position 0.
    pub(crate) fn most_reads(&self) -> usize {
        let borders = if self.long { self.chunks.count } else { 0 };
        let segments = usize::try_from(self.segments).unwrap_or(usize::MAX);
        borders.saturating_add(segments)
    }
}

/// Zeros behind a chunk of `len` bytes.
fn padding(len: u32) -> u32 {
    len.wrapping_neg() % 4
}

/// Bytes that a chunk of `len` bytes takes in the arguments.
fn padded(len: u32) -> u64 {
    u64::from(len).saturating_add(u64::from(padding(len)))
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_rebuild))]
mod tests {
    use super::{
        super::{
            super::{
                vectors::*,
                wire::Wire, //
            },
            received::Received, //
        },
        *, //
    };

    const LIMITS: ArgumentLimits = ArgumentLimits {
        len: 1 << 20,
        segments: 8,
    };

    // V1-72, V1-78, V1-79: positions in the payload, past it, and inside another chunk.
    #[test]
    fn positions() {
        let read = Message::new(&TV_V1_3);
        for (first, second, defect) in [
            (8, 8, None),
            (4, 4, Some(Defect::Position)),
            (132, 132, None),
            (136, 136, Some(Defect::Position)),
            // The first chunk has 4096 bytes, the second 905, which count as 908.
            (128, 4224, None),
            (128, 4220, Some(Defect::Position)),
            (128, 4228, None),
            (128, 4232, Some(Defect::Position)),
            (1040, 132, None),
            (1036, 132, Some(Defect::Position)),
            (1044, 132, Some(Defect::Position)),
            (u32::MAX - 3, 132, Some(Defect::Position)),
        ] {
            let found = plan(&read.put(20, first).put(44, second), &LIMITS);
            assert_eq!(found.map(|plan| plan.err()), Some(defect));
        }
    }

    // V1-79, V1-19: no more bytes and segments than the limits.
    #[test]
    fn limits() {
        let read = Message::new(&TV_V1_3);
        for (len, segments, defect) in [
            (5136, 2, None),
            (5135, 2, Some(Defect::TooLong)),
            (5136, 1, Some(Defect::TooManySegments)),
            (0, 2, Some(Defect::TooLong)),
        ] {
            let found = plan(&read, &ArgumentLimits { len, segments });
            assert_eq!(found.map(|plan| plan.err()), Some(defect));
        }
        // Lengths whose sum does not fit into 32 bits, and one that does not with its padding.
        let no_limit = ArgumentLimits {
            len: u32::MAX,
            segments: 2,
        };
        for (first, second) in [(0x8000_0000, 0x8000_0000), (u32::MAX, 0)] {
            let found = plan(&read.put(28, first).put(52, second), &no_limit);
            assert_eq!(found, Some(Err(Defect::TooLong)));
        }
    }

    // V1-80, V1-107: segments of length 0 count for nothing, wherever they are.
    #[test]
    fn empty_segments() {
        let read = Message::new(&TV_V1_3);
        let one = ArgumentLimits {
            segments: 1,
            ..LIMITS
        };
        let inline = Some(Ok(132));
        assert_eq!(plan(&read.put(28, 0).put(52, 0), &LIMITS), inline);
        let anywhere = read.put(28, 0).put(20, 0xffff_fffc);
        assert_eq!(plan(&anywhere, &one), Some(Ok(1040)));
        let long = Message::new(&TV_V1_7);
        for (first, second, defect) in [
            (0, 0, Some(Defect::ShortPayload)),
            (0, 7, Some(Defect::ShortPayload)),
            (0, 8, None),
            (5, 0, Some(Defect::ShortPayload)),
        ] {
            let found = plan(&long.put(28, first).put(52, second), &LIMITS);
            assert_eq!(found.map(|plan| plan.err()), Some(defect));
        }
    }

    fn plan(message: &Message, limits: &ArgumentLimits) -> Option<Result<u32, Defect>> {
        let Received::Call(call) = Wire::V1.receive_call(message.bytes()) else {
            return None;
        };
        let plan = Rebuild::plan(&call.chunks, call.payload, limits);
        Some(plan.map(|plan| plan.len()))
    }
}
