// SPDX-License-Identifier: GPL-2.0

//! The place of each part of a reply (RFC 8166, sections 3.4.6, 3.5.3 and 4.3).
//!
//! The results that may be placed directly are written to the Write chunks, one each, in order.
//! Then:
//!
//! 1. if the rest fits behind the header, it is inline;
//! 2. otherwise, if the whole reply fits into the Reply chunk, it is written there, and the Write
//!    chunks are returned unused: Linux clients refuse a reply that uses both;
//! 3. otherwise, if the rest fits into the Reply chunk, it is written there;
//! 4. otherwise the call is rejected with `ERR_CHUNK`.
//!
//! All chunks are returned as they were offered, with the lengths that were written. "Fits" means
//! that header and payload do not exceed what the client can receive; equal fits.

pub(crate) mod lists;
pub(crate) mod parts;
#[cfg(any(test, CONFIG_KUNIT = "y"))]
pub(crate) mod samples;

use super::{
    super::{
        chunk::WriteChunk,
        segments::most_segments, //
    },
    offer::{
        room,
        Offer, //
    }, //
};

/// Bytes of a reply, from byte `at` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// The place of its first byte.
    pub(crate) at: u32,
    /// Bytes.
    pub(crate) len: u32,
}

/// An encoded reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplyShape<'r> {
    /// Bytes of the whole reply.
    pub(crate) len: u32,
    /// The results that may be placed directly, without their padding, in rising order. One of
    /// length 0 has a Write chunk like any other.
    pub(crate) results: &'r [Part],
    /// The reply is protected by RPCSEC_GSS integrity or privacy, so that nothing may be taken out
    /// of it.
    pub(crate) opaque: bool,
}

/// The limits for one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyLimits {
    /// The longest message to the client, in bytes.
    pub(crate) threshold: u32,
    /// Bytes of a page, a power of two.
    pub(crate) page_size: u32,
    /// The most pieces of memory that one RDMA Write takes.
    pub(crate) pieces: u32,
    /// The most RDMA Writes of one reply.
    pub(crate) writes: u32,
}

/// The reason why a reply cannot be sent; the call is rejected with `ERR_CHUNK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A result is outside the reply, or overlaps another result.
    Shape,
    /// A result is longer than its Write chunk.
    Result,
    /// The rest fits neither behind the header nor into a Reply chunk.
    TooLong,
    /// The chunks have so many segments that the reply takes too many RDMA Writes.
    TooManyWrites,
}

impl Refusal {
    /// The reason in words, for a trace or a log line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Shape => "result outside the reply",
            Self::Result => "result longer than its Write chunk",
            Self::TooLong => "reply longer than the client takes",
            Self::TooManyWrites => "reply takes too many RDMA Writes",
        }
    }
}

/// The plan of a reply.
///
/// # Invariants
///
/// The results lie in the reply in rising order, and results that leave the payload fit into their
/// chunks. `rest` are the bytes that stay: they fit behind the header or, if `long`, into the Reply
/// chunk. `most_writes` is no less than the number of RDMA Writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyPlan<'a, 'r> {
    offer: Offer<'a>,
    header_len: u64,
    shape: ReplyShape<'r>,
    /// Results leave the payload.
    reduced: bool,
    /// The payload is in the Reply chunk.
    long: bool,
    rest: u32,
    most_writes: u32,
}

impl<'a, 'r> ReplyPlan<'a, 'r> {
    /// Plans the reply to a call with this offer, which makes a header of `header_len` bytes.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub(crate) fn new(
        offer: &Offer<'a>,
        header_len: u64,
        shape: &ReplyShape<'r>,
        limits: &ReplyLimits,
    ) -> Result<Self, Refusal> {
        shape.check()?;
        let mut plan = Self {
            offer: *offer,
            header_len,
            shape: *shape,
            reduced: !offer.write.is_empty(),
            long: false,
            rest: shape.len,
            most_writes: 0,
        };
        // Nothing leaves the payload of most replies.
        if offer.is_empty() && plan.message_len() <= u64::from(limits.threshold) {
            return Ok(plan);
        }
        if plan
            .reductions()
            .any(|(result, chunk)| u64::from(result.len) > room(chunk))
        {
            return Err(Refusal::Result);
        }
        plan.rest = plan
            .payload()
            .fold(0, |sum, part| part.len.saturating_add(sum));
        if plan.message_len() > u64::from(limits.threshold) {
            plan.move_to_reply_chunk(limits.threshold)?;
        }
        // INVARIANT: see above.
        plan.most_writes = plan.count_writes(limits)?;
        if plan.most_writes > limits.writes {
            return Err(Refusal::TooManyWrites);
        }
        Ok(plan)
    }

    /// Moves the payload to the Reply chunk, with all results if it has the room.
    fn move_to_reply_chunk(&mut self, threshold: u32) -> Result<(), Refusal> {
        let room = self.offer.reply.map_or(0, room);
        self.long = true;
        if u64::from(self.shape.len) <= room {
            self.reduced = false;
            self.rest = self.shape.len;
        }
        if u64::from(self.rest) > room || self.message_len() > u64::from(threshold) {
            return Err(Refusal::TooLong);
        }
        Ok(())
    }

    /// The most RDMA Writes that the reply takes, in memory of head, pages and tail wherever they
    /// begin.
    fn count_writes(&self, limits: &ReplyLimits) -> Result<u32, Refusal> {
        let most = limits.pieces.max(1);
        let mut sum = 0_u32;

        self.each_write(|write| {
            let pieces = most_segments(write.part.len, 3, limits.page_size, 1);
            // Rounded up; `div_ceil` has a call to panic.
            sum = pieces
                .and_then(|pieces| pieces.checked_add(most.wrapping_sub(1)))
                .and_then(|pieces| pieces.checked_div(most))
                .and_then(|requests| sum.checked_add(requests))
                .ok_or(Refusal::TooManyWrites)?;
            Ok(())
        })?;
        Ok(sum)
    }

    /// The most RDMA Writes that the reply takes; 0 if it takes none.
    pub(crate) const fn most_writes(&self) -> u32 {
        self.most_writes
    }

    /// Returns `true` if the payload is in the Reply chunk, so that the Send is the header alone.
    pub(crate) const fn is_long(&self) -> bool {
        self.long
    }

    /// Bytes of the Send, header and inline payload.
    pub(crate) fn message_len(&self) -> u64 {
        let inline = if self.long { 0 } else { self.rest };
        self.header_len.saturating_add(inline.into())
    }

    /// The chunks that the call offers.
    pub(crate) const fn offer(&self) -> Offer<'a> {
        self.offer
    }

    /// Bytes that are written to the Reply chunk.
    pub(crate) const fn in_reply_chunk(&self) -> u32 {
        if self.long {
            self.rest
        } else {
            0
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_reply_plan))]
mod tests {
    use super::{
        super::super::vectors::*,
        samples::*,
        *, //
    };

    // V1-14, V1-51, V1-54, V1-56, V1-100: equal fits, one byte more does not.
    #[test]
    fn forms() {
        let (bare, chunk) = (Message::new(&TV_V1_1), Message::new(&TV_V1_6));
        for (message, len, threshold, form) in [
            (bare, 996, 1024, Ok((false, 1024))),
            (bare, 997, 1024, Err(Refusal::TooLong)),
            (chunk, 960, 1024, Ok((false, 1024))),
            (chunk, 961, 1024, Ok((true, 64))),
            (chunk, 5120, 1024, Ok((true, 64))),
            (chunk, 5121, 1024, Err(Refusal::TooLong)),
            (chunk, 0, 63, Err(Refusal::TooLong)),
            (chunk, 1, 64, Ok((true, 64))),
        ] {
            let limits = ReplyLimits {
                threshold,
                ..LIMITS
            };
            let found = plan(&message, &shape(len, &[]), &limits, |plan| {
                (plan.is_long(), plan.message_len())
            });
            assert_eq!(found, Some(form));
        }
    }

    // V1-56: replies that no message can carry, and replies that take too many RDMA Writes.
    #[test]
    fn refusals() {
        let message = Message::new(&TV_V1_4);
        let limits = |pieces, writes| ReplyLimits {
            pieces,
            writes,
            ..LIMITS
        };
        let too_many = Some(Err(Refusal::TooManyWrites));
        for (results, limits, refused) in [
            ([part(24, 12_288), part(12_400, 0)], limits(6, 3), None),
            ([part(24, 12_288), part(12_400, 0)], limits(6, 2), too_many),
            ([part(24, 12_288), part(12_400, 0)], limits(1, 18), None),
            ([part(24, 12_288), part(12_400, 0)], limits(0, 17), too_many),
            (
                [part(24, 12_289), part(12_400, 0)],
                LIMITS,
                Some(Err(Refusal::Result)),
            ),
            (
                [part(24, 0), part(28, 2561)],
                LIMITS,
                Some(Err(Refusal::Result)),
            ),
            (
                [part(24, 5), part(28, 4)],
                LIMITS,
                Some(Err(Refusal::Shape)),
            ),
            (
                [part(24, 4), part(24, 4)],
                LIMITS,
                Some(Err(Refusal::Shape)),
            ),
            (
                [part(24, 4), part(12_498, 3)],
                LIMITS,
                Some(Err(Refusal::Shape)),
            ),
            (
                [part(24, 4), part(u32::MAX, 1)],
                LIMITS,
                Some(Err(Refusal::Shape)),
            ),
        ] {
            let found = plan(&message, &shape(12_500, &results), &limits, |_| ());
            assert_eq!(found, refused.or(Some(Ok(()))));
        }
        assert!(!Refusal::Shape.as_str().is_empty());
    }
}
