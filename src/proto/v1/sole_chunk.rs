// SPDX-License-Identifier: GPL-2.0

//! Calls with one chunk, of one segment: nearly all that have any.
//!
//! A few comparisons come to the same result as [`plan`](super::plan::plan) and
//! [`CallHeader`](super::encode::CallHeader), which take any call. Calls of another form are left
//! to them.

use super::{
    super::{
        chunk::Segment,
        prefix::Proc,
        xdr::Writer, //
    },
    encode::EncodeError,
    header::{
        MIN_LEN,
        VERSION, //
    },
    plan::{
        CallShape,
        PlanLimits, //
    }, //
};

/// Bytes of a header with a Read list or a Write list of one segment.
const LEN: usize = MIN_LEN.wrapping_add(24);

/// Bytes of a header with a Reply chunk of one segment.
const REPLY_LEN: usize = MIN_LEN.wrapping_add(20);

/// The only chunk of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoleChunk {
    /// The page data of the call, in a Read chunk.
    Read,
    /// The page data of the reply, offered a Write chunk.
    Write,
    /// The whole reply, which has no page data, offered a Reply chunk.
    Reply,
}

impl SoleChunk {
    /// The chunk of `call` under `limits`; `None` if it may need no chunk, another, or more than
    /// one segment.
    #[inline(always)]
    pub(crate) fn of(call: &CallShape, limits: &PlanLimits) -> Option<Self> {
        let thresholds = &limits.thresholds;
        let (small_call, small_reply) = (
            fits(MIN_LEN, call.send_len, thresholds.call),
            fits(MIN_LEN, call.recv_max, thresholds.reply),
        );
        if small_call == small_reply || limits.max_segments == 0 {
            return None;
        }
        if small_call && call.recv_pages == 0 {
            (call.recv_kvecs <= 1
                && limits.are_one_segment(call.recv_max)
                && fits(REPLY_LEN, call.send_len, thresholds.call)
                && fits(REPLY_LEN, 0, thresholds.reply))
            .then_some(Self::Reply)
        } else if call.opaque {
            None
        } else if small_call {
            let rest = call.recv_max.checked_sub(call.recv_pages)?;
            (call.recv_eligible
                && limits.are_one_segment(call.recv_pages)
                && fits(LEN, call.send_len, thresholds.call)
                && fits(LEN, rest, thresholds.reply))
            .then_some(Self::Write)
        } else {
            let rest = call.send_len.checked_sub(call.send_pages)?;
            (call.send_eligible
                && limits.are_one_segment(call.send_pages)
                && fits(LEN, rest, thresholds.call))
            .then_some(Self::Read)
        }
    }

    /// Writes the header of a call with this chunk, which is `segment`, to the front of `out`, and
    /// returns its length in bytes. The data of a Read chunk belongs at `position` in the call.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoRoom`].
    #[inline(always)]
    pub(crate) fn encode_header(
        self,
        xid: u32,
        credits: u32,
        position: u32,
        segment: &Segment,
        out: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let Segment {
            handle,
            length,
            offset,
        } = *segment;
        let [high, low] = halves(offset);
        let mut out = Writer::new(out);

        // The prefix, and the three lists, a line each. An item of a list is preceded by a 1, and
        // the end of one is a 0; a chunk begins with its count of segments, a Read segment with its
        // position.
        match self {
            #[rustfmt::skip]
            Self::Read => out.words([
                xid, VERSION, credits, Proc::Msg.code(),
                1, position, handle, length, high, low, 0,
                0,
                0,
            ])?,
            #[rustfmt::skip]
            Self::Write => out.words([
                xid, VERSION, credits, Proc::Msg.code(),
                0,
                1, 1, handle, length, high, low, 0,
                0,
            ])?,
            #[rustfmt::skip]
            Self::Reply => out.words([
                xid, VERSION, credits, Proc::Msg.code(),
                0,
                0,
                1, 1, handle, length, high, low,
            ])?,
        }
        Ok(out.written())
    }
}

impl PlanLimits {
    /// Returns `true` if `bytes` bytes, more than none, take one segment wherever in a page they
    /// begin.
    #[inline(always)]
    fn are_one_segment(&self, bytes: u32) -> bool {
        let most = u64::from(self.page_size).saturating_mul(u64::from(self.pages_per_segment));

        // As `most_segments` counts.
        bytes != 0
            && u64::from(bytes).saturating_add(u64::from(self.page_size.saturating_sub(2))) < most
    }
}

/// Returns `true` if `payload` bytes behind a header of `header` bytes do not exceed `threshold`.
#[inline(always)]
fn fits(header: usize, payload: u32, threshold: u32) -> bool {
    usize::try_from(payload)
        .unwrap_or(usize::MAX)
        .saturating_add(header)
        <= usize::try_from(threshold).unwrap_or(0)
}

/// The upper and the lower word of `offset`.
#[inline(always)]
fn halves(offset: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = offset.to_be_bytes();
    [
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    ]
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_sole_chunk))]
mod tests {
    use super::{
        super::{
            super::{
                chunk::ReadSegment,
                private_data::Thresholds, //
            },
            encode::CallHeader, //
        },
        *,
    };

    // V1-53, V1-55: equal fits, one byte more does not.
    #[test]
    fn thresholds() {
        let mut call = write();
        (call.send_len, call.recv_max) = (972, 4096 + 972);
        assert_eq!(SoleChunk::of(&call, &LIMITS), Some(SoleChunk::Write));
        call.send_len = 973;
        assert_eq!(SoleChunk::of(&call, &LIMITS), None);
        (call.send_len, call.recv_max) = (972, 4096 + 973);
        assert_eq!(SoleChunk::of(&call, &LIMITS), None);

        let mut call = read();
        call.send_len = 4096 + 972;
        assert_eq!(SoleChunk::of(&call, &LIMITS), Some(SoleChunk::Read));
        call.send_len = 4096 + 973;
        assert_eq!(SoleChunk::of(&call, &LIMITS), None);
        // A call that is inline both ways has no chunk, and one that is in neither has two.
        (call.send_len, call.send_pages) = (996, 900);
        assert_eq!(SoleChunk::of(&call, &LIMITS), None);
        (call.send_len, call.recv_max) = (4096, 4096);
        assert_eq!(SoleChunk::of(&call, &LIMITS), None);

        let mut call = reply();
        (call.send_len, call.recv_max) = (976, 997);
        assert_eq!(SoleChunk::of(&call, &LIMITS), Some(SoleChunk::Reply));
        call.send_len = 977;
        assert_eq!(SoleChunk::of(&call, &LIMITS), None);
        (call.send_len, call.recv_max) = (976, 996);
        assert_eq!(SoleChunk::of(&call, &LIMITS), None);
        let header = |reply| PlanLimits {
            thresholds: Thresholds { call: 1024, reply },
            ..LIMITS
        };
        let call = self::reply();
        assert_eq!(SoleChunk::of(&call, &header(48)), Some(SoleChunk::Reply));
        assert_eq!(SoleChunk::of(&call, &header(47)), None);
    }

    // V1-46, V1-83, V1-136, V1-153: one segment, of data that may be taken out.
    #[test]
    fn conditions() {
        // 15 pages, wherever they begin, and one byte more than that, but for the last.
        for (pages, chunk) in [(61_442, None), (61_441, Some(SoleChunk::Write)), (0, None)] {
            let call = CallShape {
                recv_pages: pages,
                recv_max: 100_u32.wrapping_add(pages).max(2000),
                ..write()
            };
            assert_eq!(SoleChunk::of(&call, &LIMITS), chunk);
        }
        // The same for a whole reply, which may be opaque.
        for (bytes, chunk) in [(61_442, None), (61_441, Some(SoleChunk::Reply))] {
            let call = CallShape {
                recv_max: bytes,
                opaque: true,
                ..reply()
            };
            assert_eq!(SoleChunk::of(&call, &LIMITS), chunk);
        }
        let (write, read, reply) = (write(), read(), reply());
        for call in [
            // A tail as well.
            CallShape {
                recv_kvecs: 2,
                ..reply
            },
            // Pages, which are not eligible, as well.
            CallShape {
                recv_pages: 1,
                ..reply
            },
            CallShape {
                recv_eligible: false,
                ..write
            },
            CallShape {
                send_eligible: false,
                ..read
            },
            CallShape {
                opaque: true,
                ..write
            },
            CallShape {
                opaque: true,
                ..read
            },
            // Pages that are longer than the message.
            CallShape {
                recv_pages: 5001,
                ..write
            },
            CallShape {
                send_pages: 5001,
                ..read
            },
        ] {
            assert_eq!(SoleChunk::of(&call, &LIMITS), None);
        }
        let none = PlanLimits {
            max_segments: 0,
            ..LIMITS
        };
        assert_eq!(SoleChunk::of(&write, &none), None);
        let no_pages = PlanLimits {
            page_size: 0,
            ..LIMITS
        };
        assert_eq!(SoleChunk::of(&write, &no_pages), None);
    }

    // V1-14, V1-48, V1-83: the header is the same as any call gets.
    #[test]
    fn header() {
        let segment = Segment {
            handle: 0x0102_0304,
            length: 0x0506_0708,
            offset: 0x090a_0b0c_0d0e_0f10,
        };
        let call = CallHeader {
            xid: 0x1112_1314,
            credits: 0x1516_1718,
            long: false,
            read: &[],
            write: &[],
            reply: &[],
        };
        let read = CallHeader {
            read: &[ReadSegment {
                position: 0x191a_1b1c,
                segment,
            }],
            ..call
        };
        let write = CallHeader {
            write: &[segment],
            ..call
        };
        let reply = CallHeader {
            reply: &[segment],
            ..call
        };
        for (chunk, header, header_len) in [
            (SoleChunk::Read, read, 52),
            (SoleChunk::Write, write, 52),
            (SoleChunk::Reply, reply, 48),
        ] {
            let (mut out, mut expected) = ([0xee; 60], [0xee; 60]);
            let encode = |out: &mut [u8]| {
                chunk.encode_header(call.xid, call.credits, 0x191a_1b1c, &segment, out)
            };

            assert_eq!(encode(&mut out), Ok(header_len));
            assert_eq!(header.encode(&mut expected), Ok(header_len));
            assert_eq!(out, expected);
            for len in 0..header_len {
                let out = out.get_mut(..len).unwrap_or_default();
                assert_eq!(encode(out), Err(EncodeError::NoRoom));
            }
        }
    }

    const LIMITS: PlanLimits = PlanLimits {
        thresholds: Thresholds {
            call: 1024,
            reply: 1024,
        },
        page_size: 4096,
        pages_per_segment: 16,
        max_segments: 16,
    };

    // A call that reads 4096 bytes.
    fn write() -> CallShape {
        CallShape {
            send_len: 100,
            recv_max: 4296,
            recv_pages: 4096,
            recv_kvecs: 2,
            recv_eligible: true,
            ..CallShape::default()
        }
    }

    // A call with a long reply.
    fn reply() -> CallShape {
        CallShape {
            send_len: 100,
            recv_max: 7792,
            recv_kvecs: 1,
            ..CallShape::default()
        }
    }

    // A call that writes 4096 bytes.
    fn read() -> CallShape {
        CallShape {
            send_len: 4296,
            send_pages: 4096,
            send_kvecs: 2,
            send_eligible: true,
            recv_max: 100,
            ..CallShape::default()
        }
    }
}
