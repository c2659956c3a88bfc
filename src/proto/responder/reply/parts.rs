// SPDX-License-Identifier: GPL-2.0

//! The parts of a planned reply: the payload, and the RDMA Writes.

use super::{
    super::offer::room,
    Part,
    Refusal,
    ReplyPlan,
    ReplyShape,
    WriteChunk, //
};

/// Bytes of the reply that one segment takes. They may need several RDMA Writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// The bytes.
    pub(crate) part: Part,
    /// The handle of the segment.
    pub(crate) handle: u32,
    /// The address of the first byte.
    pub(crate) offset: u64,
}

impl Part {
    /// The byte behind it, and behind the padding that follows it in a reply.
    fn padded_end(self) -> Option<u32> {
        self.at.checked_add(self.len)?.checked_next_multiple_of(4)
    }
}

impl ReplyShape<'_> {
    /// Checks that the results lie in the reply and do not overlap.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let mut end = 0;
        for result in self.results {
            let result_end = result.at.checked_add(result.len).ok_or(Refusal::Shape)?;
            if result.at < end || result_end > self.len {
                return Err(Refusal::Shape);
            }
            end = result.padded_end().ok_or(Refusal::Shape)?;
        }
        Ok(())
    }
}

impl<'a, 'r> ReplyPlan<'a, 'r> {
    /// The results that leave the payload, each with its chunk. A result of no bytes uses up a
    /// chunk all the same, and so does one whose chunk has no room, which stays.
    pub(super) fn reductions(&self) -> impl Iterator<Item = (Part, WriteChunk<'a>)> + use<'a, 'r> {
        let results = if self.reduced && !self.shape.opaque {
            self.shape.results
        } else {
            &[]
        };
        results
            .iter()
            .copied()
            .zip(self.offer.write.chunks())
            .filter(|(result, chunk)| result.len != 0 && room(*chunk) != 0)
    }

    /// Bytes that are written to Write chunk number `index`.
    pub(crate) fn written(&self, index: usize, chunk: WriteChunk<'_>) -> u32 {
        if !self.reduced || self.shape.opaque || room(chunk) == 0 {
            return 0;
        }
        self.shape.results.get(index).map_or(0, |result| result.len)
    }

    /// The payload: the parts of the reply that are inline or in the Reply chunk, in order. The
    /// padding of a result that leaves it does, too.
    pub(crate) fn payload(&self) -> impl Iterator<Item = Part> + use<'a, 'r> {
        let len = self.shape.len;
        let mut reductions = self.reductions();
        let mut at = Some(0_u32);
        core::iter::from_fn(move || {
            let start = at?;
            let (end, next) = match reductions.next() {
                // By the type invariant the result has an end, and no result begins before `start`.
                Some((result, _)) => (result.at, result.padded_end().map(|end| end.min(len))),
                None => (len, None),
            };
            at = next;
            Some(Part {
                at: start,
                len: end.saturating_sub(start),
            })
        })
        .filter(|part| part.len != 0)
    }

    /// Visits the RDMA Writes, at least one for each segment with data, in the order of the chunks.
    /// They are posted before the Send.
    ///
    /// # Errors
    ///
    /// The first one that `visit` returns.
    pub(crate) fn each_write<E>(
        &self,
        mut visit: impl FnMut(Write) -> Result<(), E>,
    ) -> Result<(), E> {
        for (result, chunk) in self.reductions() {
            each_segment(chunk, 0, result, &mut visit)?;
        }
        let Some(chunk) = self.offer.reply.filter(|_| self.long) else {
            return Ok(());
        };
        let mut before = 0_u64;
        for part in self.payload() {
            each_segment(chunk, before, part, &mut visit)?;
            before = before.saturating_add(part.len.into());
        }
        Ok(())
    }
}

/// Visits the RDMA Writes of `part` to the segments of `chunk`, behind its first `skip` bytes.
fn each_segment<E>(
    chunk: WriteChunk<'_>,
    skip: u64,
    part: Part,
    visit: &mut impl FnMut(Write) -> Result<(), E>,
) -> Result<(), E> {
    let mut skip = skip;
    let mut part = part;

    for segment in chunk.segments() {
        let room = u64::from(segment.length).saturating_sub(skip);
        let skipped = skip.min(segment.length.into());
        skip = skip.saturating_sub(skipped);
        let len = u32::try_from(room).unwrap_or(u32::MAX).min(part.len);
        if len != 0 {
            visit(Write {
                part: Part { len, ..part },
                handle: segment.handle,
                // NO-OVERFLOW: a byte of the segment, which does not wrap.
                offset: segment.offset.wrapping_add(skipped),
            })?;
        }
        part = Part {
            // NO-OVERFLOW: `len` is no more than its length.
            at: part.at.wrapping_add(len),
            len: part.len.wrapping_sub(len),
        };
    }
    Ok(())
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_reply_parts))]
mod tests {
    use super::{
        super::{
            super::super::vectors::*,
            samples::*, //
        },
        *, //
    };

    /// Returns `true` if the RDMA Writes of `plan` are `expected`.
    fn are_writes(plan: &ReplyPlan<'_, '_>, expected: &[Write]) -> bool {
        let (mut left, mut same) = (expected.iter(), true);
        let visited = plan.each_write(|write| {
            same &= left.next() == Some(&write);
            Ok::<(), Refusal>(())
        });
        same && visited.is_ok() && left.next().is_none()
    }

    /// A call with the Write list of TV-V1-4, and a Reply chunk of `room` bytes.
    fn with_reply_chunk(room: u32) -> Message {
        let reply_chunk = [1, 1, 0x3101, room, 0, 0x60000];
        let (head, tail) = (TV_V1_4.iter().take(30), TV_V1_4.iter().skip(31));
        Message::new(head.chain(&reply_chunk).chain(tail))
    }

    // V1-85, V1-86, V1-96, V1-98, V1-138: results leave the payload with their padding, each into
    // its own chunk, unless that has no room or the reply is opaque.
    #[test]
    fn results() {
        let message = Message::new(&TV_V1_4);
        let no_room = message.put(32, 0).put(48, 0).put(64, 0);
        let one = write(24, 4093, 0x2101, 0x10000);
        let second = write(28, 600, 0x2201, 0x10_0004_0000);
        let long = [part(24, 4093)];
        let two = [part(24, 0), part(28, 600)];
        let opaque = ReplyShape {
            opaque: true,
            ..shape(800, &two)
        };
        for (message, shape, payload, writes) in [
            (
                message,
                shape(4128, &long),
                [part(0, 24), part(4120, 8)].as_slice(),
                [one].as_slice(),
            ),
            // The padding of the last result may be missing.
            (message, shape(4117, &long), &[part(0, 24)], &[one]),
            (message, shape(628, &two), &[part(0, 28)], &[second]),
            (no_room, shape(628, &two), &[part(0, 28)], &[second]),
            (no_room, shape(800, &[part(24, 600)]), &[part(0, 800)], &[]),
            (message, opaque, &[part(0, 800)], &[]),
        ] {
            let same = plan(&message, &shape, &LIMITS, |plan| {
                plan.payload().eq(payload.iter().copied()) && are_writes(plan, writes)
            });
            assert_eq!(same, Some(Ok(true)));
        }
    }

    /// The first error ends the visit, in a Write chunk and in the Reply chunk.
    #[test]
    fn visit_ends() {
        let result = [part(24, 4096)];
        let shape = shape(8192, &result);
        let message = with_reply_chunk(8191);
        for last in 0..3_usize {
            let mut visits = 0_usize;
            let ended = plan(&message, &shape, &LIMITS, |plan| {
                let ended = plan.each_write(|_| {
                    visits = visits.wrapping_add(1);
                    if visits > last {
                        Err(Refusal::Shape)
                    } else {
                        Ok(())
                    }
                });
                ended == Err(Refusal::Shape)
            });
            assert_eq!((ended, visits), (Some(Ok(true)), last.wrapping_add(1)));
        }
    }

    // V1-50..V1-52: a Reply chunk takes the whole reply if it can, and what is left of it if not.
    #[test]
    fn both_chunks() {
        let result = [part(24, 4096)];
        let shape = shape(8192, &result);
        let whole = [write(0, 8192, 0x3101, 0x60000)];
        let rest = [
            write(24, 4096, 0x2101, 0x10000),
            write(0, 24, 0x3101, 0x60000),
            write(4120, 4072, 0x3101, 0x60018),
        ];
        for (room, writes) in [
            (8192, Ok(whole.as_slice())),
            (8191, Ok(rest.as_slice())),
            (4096, Ok(rest.as_slice())),
            (4095, Err(Refusal::TooLong)),
        ] {
            let message = with_reply_chunk(room);
            let found = plan(&message, &shape, &LIMITS, |plan| {
                plan.is_long() && writes.is_ok_and(|writes| are_writes(plan, writes))
            });
            assert_eq!(found, Some(writes.map(|_| true)));
        }
    }
}
