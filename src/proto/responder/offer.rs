// SPDX-License-Identifier: GPL-2.0

//! The chunks that a call offers for its reply, from its arrival until the reply is sent.
//!
//! The server copies an inline call and immediately posts the Receive again, so the offer must not
//! refer to the received header. The offers that clients send fit into a [`Kept`]; a call with a
//! larger one keeps its Receive.

use super::super::{
    chunk::{
        ChunkLists,
        Segment,
        WriteChunk,
        WriteList, //
    },
    defect::Defect,
    xdr::{
        pair,
        NoRoom,
        Reader,
        Writer, //
    }, //
};

/// The chunks that a call offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer<'a> {
    /// A chunk for each of the first results that may be placed directly.
    pub(crate) write: WriteList<'a>,
    /// A chunk for the whole reply.
    pub(crate) reply: Option<WriteChunk<'a>>,
}

/// The most that a server takes as the offer of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OfferLimits {
    /// Write chunks.
    pub(crate) chunks: usize,
    /// Segments of all chunks.
    pub(crate) segments: usize,
}

impl<'a> Offer<'a> {
    /// The offer in the lists of a received call.
    ///
    /// # Errors
    ///
    /// [`Defect::TooManySegments`]; the call is rejected with `ERR_CHUNK`.
    pub(crate) fn of(lists: &ChunkLists<'a>, limits: &OfferLimits) -> Result<Self, Defect> {
        let offer = Self {
            write: lists.write,
            reply: lists.reply,
        };
        let segments = offer
            .chunks()
            .fold(0_usize, |sum, chunk| sum.saturating_add(chunk.len()));
        if offer.write.len() > limits.chunks || segments > limits.segments {
            return Err(Defect::TooManySegments);
        }
        Ok(offer)
    }

    /// Returns `true` if it has no chunk.
    pub(crate) const fn is_empty(&self) -> bool {
        self.write.is_empty() && self.reply.is_none()
    }

    /// All chunks, the Reply chunk last.
    fn chunks(&self) -> impl Iterator<Item = WriteChunk<'a>> + 'a {
        self.write.chunks().chain(self.reply)
    }
}

/// Bytes that fit into `chunk`.
pub(crate) fn room(chunk: WriteChunk<'_>) -> u64 {
    chunk
        .segments()
        .fold(0, |sum, segment| sum.saturating_add(segment.length.into()))
}

/// The segments of `chunk` with the lengths that a responder returns after it has written `len`
/// bytes to it, in order (RFC 8166, section 3.4.6).
pub(crate) fn filled(chunk: WriteChunk<'_>, len: u32) -> impl Iterator<Item = Segment> + '_ {
    let mut left = len;
    chunk.segments().map(move |segment| {
        let length = segment.length.min(left);
        left = left.saturating_sub(length);
        Segment { length, ..segment }
    })
}

/// Bytes of a [`Kept`]: two Write chunks of 2 segments each, the end of their list, and a Reply
/// chunk of 4 segments.
const KEPT_LEN: usize = 156;

/// An offer that does not refer to the received header.
///
/// # Invariants
///
/// `bytes` begins with a Write list and the optional Reply chunk, as a header has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    bytes: [u8; KEPT_LEN],
}

impl Kept {
    /// No offer: both lists are empty.
    pub(crate) const NONE: Self = Self {
        bytes: [0; KEPT_LEN],
    };

    /// Copies `offer`. Returns `false` if it is too large, and then has none.
    pub(crate) fn keep(&mut self, offer: &Offer<'_>) -> bool {
        // INVARIANT: the lists, with their ends.
        let is_kept = put(&mut Writer::new(&mut self.bytes), offer).is_ok();
        if !is_kept {
            *self = Self::NONE;
        }
        is_kept
    }

    /// The offer.
    pub(crate) fn offer(&self) -> Offer<'_> {
        // By the type invariant both lists are here.
        let mut bytes = Reader::new(&self.bytes);
        let write = WriteList::decode(&mut bytes).unwrap_or_default();
        let reply = match bytes.word() {
            Some(1) => WriteChunk::decode(&mut bytes).ok(),
            _ => None,
        };
        Offer { write, reply }
    }
}

/// Writes the lists of `offer` as a header has them.
fn put(out: &mut Writer<'_>, offer: &Offer<'_>) -> Result<(), NoRoom> {
    for chunk in offer.write.chunks() {
        put_segments(out, chunk.len(), chunk.segments())?;
    }
    out.words([0])?;
    match offer.reply {
        Some(chunk) => put_segments(out, chunk.len(), chunk.segments()),
        None => out.words([0]),
    }
}

/// Writes a chunk of `count` segments behind the word for its presence.
pub(crate) fn put_segments(
    out: &mut Writer<'_>,
    count: usize,
    segments: impl Iterator<Item = Segment>,
) -> Result<(), NoRoom> {
    out.words([1, u32::try_from(count).map_err(|_| NoRoom)?])?;
    for segment in segments {
        out.pairs([pair(segment.handle, segment.length), segment.offset])?;
    }
    Ok(())
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_offer))]
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

    const LIMITS: OfferLimits = OfferLimits {
        chunks: 2,
        segments: 5,
    };

    // V1-19, V1-98: no more chunks and segments than the limits, and chunks of no segments.
    #[test]
    fn limits() {
        let message = Message::new(&TV_V1_4);
        for (chunks, segments, taken) in [(2, 5, true), (1, 5, false), (2, 4, false)] {
            let limits = OfferLimits { chunks, segments };
            assert_eq!(of(&message, &limits, |_| ()).is_some(), taken);
        }
        let message = Message::new(&TV_V1_6);
        for (segments, taken) in [(2, true), (1, false)] {
            let limits = OfferLimits {
                chunks: 0,
                segments,
            };
            assert_eq!(of(&message, &limits, |_| ()).is_some(), taken);
        }
        let empty = Message::without(&TV_V1_6, 8, 16).put(28, 0);
        let found = of(&empty, &LIMITS, |offer| {
            offer.reply.map(|chunk| chunk.len())
        });
        assert_eq!(found, Some(Some(0)));
    }

    // V1-87, V1-88: lengths as they are returned.
    #[test]
    fn lengths() {
        let message = Message::new(&TV_V1_4);
        for (len, expected) in [
            (0, [0, 0, 0]),
            (1, [1, 0, 0]),
            (4096, [4096, 0, 0]),
            (4196, [4096, 100, 0]),
            (u32::MAX, [4096; 3]),
        ] {
            let found = of(&message, &LIMITS, |offer| {
                let chunk = offer.write.chunks().next().unwrap_or_default();
                filled(chunk, len)
                    .map(|segment| segment.length)
                    .eq(expected)
            });
            assert_eq!(found, Some(true));
        }
    }

    // TV-V1-1, 4, 6, 7: an offer is the same when it is kept in place of another, unless it is too
    // large.
    #[test]
    fn kept() {
        let mut kept = Kept {
            bytes: [0xff; KEPT_LEN],
        };
        for words in [
            TV_V1_1.as_slice(),
            TV_V1_3.as_slice(),
            TV_V1_6.as_slice(),
            TV_V1_7.as_slice(),
            TV_V1_4.as_slice(),
        ] {
            let message = Message::new(words);
            let same = of(&message, &LIMITS, |offer| {
                kept.keep(offer) && kept.offer() == *offer
            });
            assert_eq!(same, Some(true));
        }
        // Reply chunks of 9 and 10 segments: 156 and 172 bytes with the end of the Write list.
        for (segments, words, fits) in [(9, 36, true), (10, 40, false)] {
            let chunk = [0; 40];
            let large = Message::new(
                TV_V1_6
                    .iter()
                    .take(6)
                    .chain(&[1, segments])
                    .chain(chunk.iter().take(words))
                    .chain(&[0xa1b2_c304, 0]),
            );
            let all = OfferLimits {
                chunks: 0,
                segments: 10,
            };
            let found = of(&large, &all, |offer| kept.keep(offer));
            assert_eq!((found, kept == Kept::NONE), (Some(fits), !fits));
        }
    }

    // The result of `look` at the offer of a call, if that is one.
    fn of<T>(
        message: &Message,
        limits: &OfferLimits,
        look: impl FnOnce(&Offer<'_>) -> T,
    ) -> Option<T> {
        let Received::Call(call) = Wire::V1.receive_call(message.bytes()) else {
            return None;
        };
        Offer::of(&call.chunks, limits)
            .ok()
            .map(|offer| look(&offer))
    }
}
