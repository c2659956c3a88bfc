// SPDX-License-Identifier: GPL-2.0

//! The plans of the usual calls: nearly all are inline both ways, and nearly all others have one
//! chunk, of one segment.
//!
//! A few comparisons come to the same result as [`plan`](super::plan::plan), which takes any call.

use super::{
    super::{
        chunk::{
            read_list_len,
            reply_chunk_len, //
        },
        plan::{
            PlanLimits,
            Shape,
            Sole, //
        },
        segments::is_one_segment, //
    },
    plan::{
        fits,
        BARE_HEADER, //
    }, //
};

/// Bytes of a header with a Read list or a Write list of one segment.
const LIST_HEADER: u64 = BARE_HEADER.saturating_add(read_list_len(1));

/// Bytes of a header with a Reply chunk of one segment.
const REPLY_HEADER: u64 = BARE_HEADER.saturating_add(reply_chunk_len(1));

/// Returns `true` if `call` needs no chunk in either direction, as nearly all calls.
#[inline(always)]
pub(crate) fn is_inline(call: &impl Shape, limits: &PlanLimits) -> bool {
    let (to, from) = thresholds(limits);

    fits(BARE_HEADER, call.send_len(), to) && fits(BARE_HEADER, call.recv_max(), from)
}

/// The only chunk of `call`, if it has one, of one segment, as nearly all calls with chunks;
/// `None` if it may need no chunk, another, or more segments.
#[inline(always)]
pub(crate) fn sole(call: &impl Shape, limits: &PlanLimits) -> Option<Sole> {
    let (to, from) = thresholds(limits);
    let small_call = fits(BARE_HEADER, call.send_len(), to);
    let small_reply = fits(BARE_HEADER, call.recv_max(), from);
    if small_call == small_reply || limits.max_segments == 0 {
        return None;
    }
    let is_one = |bytes| is_one_segment(bytes, limits.page_size, limits.pages_per_segment);

    if small_call && call.recv_pages() == 0 {
        (call.recv_kvecs() <= 1
            && is_one(call.recv_max())
            && fits(REPLY_HEADER, call.send_len(), to)
            && fits(REPLY_HEADER, 0, from))
        .then_some(Sole::Reply)
    } else if call.is_opaque() {
        None
    } else if small_call {
        let rest = call.recv_max().checked_sub(call.recv_pages())?;
        (call.recv_eligible()
            && is_one(call.recv_pages())
            && fits(LIST_HEADER, call.send_len(), to)
            && fits(LIST_HEADER, rest, from))
        .then_some(Sole::Write)
    } else {
        let rest = call.send_len().checked_sub(call.send_pages())?;
        (call.send_eligible() && is_one(call.send_pages()) && fits(LIST_HEADER, rest, to))
            .then_some(Sole::Read)
    }
}

/// The thresholds of calls and of replies.
#[inline(always)]
fn thresholds(limits: &PlanLimits) -> (u64, u64) {
    let thresholds = &limits.thresholds;
    (u64::from(thresholds.call), u64::from(thresholds.reply))
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_usual))]
mod tests {
    use super::{
        super::super::{
            private_data::Thresholds,
            vectors::CallShape, //
        },
        *, //
    };

    // V1-53, V1-55: equal fits, one byte more does not.
    #[test]
    fn thresholds() {
        let mut call = write();
        (call.send_len, call.recv_max) = (972, 4096 + 972);
        assert_eq!(sole(&call, &LIMITS), Some(Sole::Write));
        call.send_len = 973;
        assert_eq!(sole(&call, &LIMITS), None);
        (call.send_len, call.recv_max) = (972, 4096 + 973);
        assert_eq!(sole(&call, &LIMITS), None);

        let mut call = read();
        call.send_len = 4096 + 972;
        assert_eq!(sole(&call, &LIMITS), Some(Sole::Read));
        call.send_len = 4096 + 973;
        assert_eq!(sole(&call, &LIMITS), None);
        // A call that is inline both ways has no chunk, and one that is in neither has two.
        (call.send_len, call.send_pages) = (996, 900);
        assert_eq!(sole(&call, &LIMITS), None);
        (call.send_len, call.recv_max) = (4096, 4096);
        assert_eq!(sole(&call, &LIMITS), None);

        let mut call = reply();
        (call.send_len, call.recv_max) = (976, 997);
        assert_eq!(sole(&call, &LIMITS), Some(Sole::Reply));
        call.send_len = 977;
        assert_eq!(sole(&call, &LIMITS), None);
        (call.send_len, call.recv_max) = (976, 996);
        assert_eq!(sole(&call, &LIMITS), None);
        let header = |reply| PlanLimits {
            thresholds: Thresholds { call: 1024, reply },
            ..LIMITS
        };
        let call = self::reply();
        assert_eq!(sole(&call, &header(48)), Some(Sole::Reply));
        assert_eq!(sole(&call, &header(47)), None);
    }

    // V1-46, V1-83, V1-136, V1-153: one segment, of data that may be taken out.
    #[test]
    fn conditions() {
        // 15 pages, wherever they begin, and one byte more than that, but for the last.
        for (pages, chunk) in [(61_442, None), (61_441, Some(Sole::Write)), (0, None)] {
            let call = CallShape {
                recv_pages: pages,
                recv_max: 100_u32.wrapping_add(pages).max(2000),
                ..write()
            };
            assert_eq!(sole(&call, &LIMITS), chunk);
        }
        // The same for a whole reply, which may be opaque.
        for (bytes, chunk) in [(61_442, None), (61_441, Some(Sole::Reply))] {
            let call = CallShape {
                recv_max: bytes,
                opaque: true,
                ..reply()
            };
            assert_eq!(sole(&call, &LIMITS), chunk);
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
            assert_eq!(sole(&call, &LIMITS), None);
        }
        let none = PlanLimits {
            max_segments: 0,
            ..LIMITS
        };
        assert_eq!(sole(&write, &none), None);
        let no_pages = PlanLimits {
            page_size: 0,
            ..LIMITS
        };
        assert_eq!(sole(&write, &no_pages), None);
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
