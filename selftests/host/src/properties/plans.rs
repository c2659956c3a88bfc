// SPDX-License-Identifier: GPL-2.0

//! Plans: their promises hold for the headers that are really sent and returned.

use proptest::prelude::*;

use super::wire;
use crate::module::proto::{
    segments::most_segments, vectors::CallShape, CallHeader, CallMode, Chunks, Plan, PlanError,
    PlanLimits, ReadSegment, ReplyMode, Segment, Sole, Thresholds, Wire,
};

/// The segments that a piece really takes which starts at byte `start` of a page.
fn really(limits: &PlanLimits, bytes: u32, start: u32) -> usize {
    if bytes == 0 {
        return 0;
    }
    let start = u64::from(start % limits.page_size);
    let pages = (start + u64::from(bytes)).div_ceil(u64::from(limits.page_size));
    usize::try_from(pages.div_ceil(u64::from(limits.pages_per_segment))).unwrap()
}

fn bytes() -> impl Strategy<Value = u32> {
    prop_oneof![0..64_u32, 0..5000_u32, 0..2_000_000_u32]
}

pub(super) fn shape() -> impl Strategy<Value = CallShape> {
    let side = || (bytes(), bytes(), any::<bool>(), any::<bool>());
    let kvecs = || 0..3_u32;
    (side(), side(), kvecs(), kvecs(), any::<bool>()).prop_map(
        |(send, recv, send_kvecs, recv_kvecs, opaque)| {
            // Page list and rest; a call without head and tail has no rest.
            let pages = |paged: bool, bytes: u32| if paged { bytes } else { 0 };
            let send_pages = pages(send.2, send.1);
            let recv_pages = pages(recv.2, recv.1);
            let rest = if send_kvecs == 0 {
                0
            } else {
                send.0.max(send_kvecs)
            };
            let recv_rest = if recv_kvecs == 0 {
                0
            } else {
                recv.0.max(recv_kvecs)
            };
            CallShape {
                send_len: send_pages + rest,
                send_pages,
                send_kvecs,
                send_eligible: send.3,
                recv_max: recv_pages + recv_rest,
                recv_pages,
                recv_kvecs,
                recv_eligible: recv.3,
                opaque,
            }
        },
    )
}

pub(super) fn limits() -> impl Strategy<Value = PlanLimits> {
    let threshold = || prop_oneof![0..600_u32, Just(1024), Just(4096), 1024..262_144_u32];
    let page = prop_oneof![
        Just(4096_u32),
        Just(65536),
        (0..10_u32).prop_map(|shift| 1 << shift)
    ];
    (threshold(), threshold(), page, 1..300_u32, 0..40_u32).prop_map(
        |(call, reply, page_size, pages_per_segment, max_segments)| PlanLimits {
            thresholds: Thresholds { call, reply },
            page_size,
            pages_per_segment,
            max_segments,
        },
    )
}

/// The lengths of the call's and the returned header when memory is registered as it happens to
/// lie.
fn headers(
    call: &CallShape,
    limits: &PlanLimits,
    plan: &Plan,
    starts: [u32; 6],
    split: u32,
    wire: Wire,
) -> (usize, usize) {
    let [s0, s1, s2, r0, r1, r2] = starts;
    let halves = |rest: u32, kvecs: u32| {
        let first = if kvecs == 2 && rest > 1 {
            1 + split % (rest - 1)
        } else {
            rest
        };
        (first, rest - first)
    };
    let (head, tail) = halves(call.send_len - call.send_pages, call.send_kvecs);
    let pages = really(limits, call.send_pages, s0);
    let read = match plan.call {
        CallMode::Inline => 0,
        CallMode::ReadChunk => pages,
        CallMode::Long => really(limits, head, s1) + pages + really(limits, tail, s2),
    };
    let (head, tail) = halves(call.recv_max - call.recv_pages, call.recv_kvecs);
    let pages = really(limits, call.recv_pages, r0);
    let whole = really(limits, head, r1) + pages + really(limits, tail, r2);
    let (write, reply) = match plan.reply {
        ReplyMode::Inline => (0, 0),
        ReplyMode::WriteChunk => (pages, 0),
        ReplyMode::ReplyChunk => (0, whole),
    };
    assert!(read <= usize::try_from(plan.call_segments).unwrap());
    assert!(write + reply <= usize::try_from(plan.reply_segments).unwrap());
    let (read, write, reply) = (
        vec![ReadSegment::default(); read],
        vec![Segment::default(); write],
        vec![Segment::default(); reply],
    );
    let sent = CallHeader {
        xid: 1,
        credits: 1,
        long: plan.call == CallMode::Long,
        chunks: Chunks {
            read: &read,
            write: &write,
            reply: &reply,
        },
    };
    // The reply has the same chunks, but for the Read list.
    let returned = CallHeader {
        long: false,
        chunks: Chunks {
            read: &[],
            ..sent.chunks
        },
        ..sent
    };
    let mut out = vec![0; 65536];
    (
        wire.encode(&sent, &mut out).unwrap(),
        wire.encode(&returned, &mut out).unwrap(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    // V1-14, V1-45..V1-55, V1-99, V1-136..V1-138, V1-153.
    #[test]
    fn promises(
        wire in wire(),
        call in shape(),
        limits in limits(),
        starts: [u32; 6],
        split: u32,
    ) {
        let bare = u32::try_from(wire.header_len()).unwrap();
        let Thresholds { call: to_server, reply: to_client } = limits.thresholds;
        let send_rest = call.send_len - call.send_pages;
        let recv_rest = call.recv_max - call.recv_pages;
        let call_fits = call.send_len.saturating_add(bare) <= to_server;
        let reply_fits = call.recv_max.saturating_add(bare) <= to_client;
        let found = match wire.plan(&call, &limits) {
            Ok(found) => found,
            Err(error) => {
                // Two bare headers with everything inline are possible within any limits.
                prop_assert!(!(call_fits && reply_fits), "{error:?}");
                prop_assert!(error != PlanError::Shape && error != PlanError::Limits);
                return Ok(());
            }
        };
        let inline_both = found.call == CallMode::Inline && found.reply == ReplyMode::Inline;
        prop_assert_eq!(inline_both, call_fits && reply_fits);
        let (sent, returned) = headers(&call, &limits, &found, starts, split, wire);
        let inline = |header: usize, payload: u32| {
            u64::try_from(header).unwrap() + u64::from(payload)
        };
        let sent = match found.call {
            CallMode::Inline => inline(sent, call.send_len),
            CallMode::ReadChunk => inline(sent, send_rest),
            CallMode::Long => inline(sent, 0),
        };
        prop_assert!(sent <= u64::from(to_server));
        let replied = match found.reply {
            ReplyMode::Inline => inline(returned, call.recv_max),
            ReplyMode::WriteChunk => inline(returned, recv_rest),
            ReplyMode::ReplyChunk => inline(returned, 0),
        };
        prop_assert!(replied <= u64::from(to_client));
        prop_assert!(found.call_segments.max(found.reply_segments) <= limits.max_segments);

        // No chunk without need, and none where none may be.
        prop_assert_eq!(found.reply == ReplyMode::Inline, reply_fits);
        if found.reply == ReplyMode::Inline {
            prop_assert_eq!(found.call == CallMode::Inline, call_fits);
        }
        if found.call == CallMode::ReadChunk {
            prop_assert!(call.send_eligible && !call.opaque && call.send_pages > 0);
        }
        if found.reply == ReplyMode::WriteChunk {
            prop_assert!(call.recv_eligible && !call.opaque && call.recv_pages > 0);
        }
    }

    // V1-45, V1-53, V1-55, V1-83, V1-99: the usual plans are found before the planner is asked.
    #[test]
    fn usual(wire in wire(), call in shape(), limits in limits()) {
        let found = wire.plan(&call, &limits);
        let is_inline = wire.is_inline(&call, &limits);
        prop_assert_eq!(is_inline, found == Ok(Plan::INLINE));
        let one = [Sole::Read, Sole::Write, Sole::Reply]
            .into_iter()
            .find(|sole| found == Ok(sole.plan()))
            .filter(|&sole| sole != Sole::Reply || call.recv_pages == 0);
        prop_assert_eq!(wire.sole(&call, &limits), one);
    }

    // V1-153: no numbers make the planner panic.
    #[test]
    fn any_numbers(wire in wire(), send: [u32; 3], recv: [u32; 3], flags: [bool; 3], limits: [u32; 5]) {
        let call = CallShape {
            send_len: send[0],
            send_pages: send[1],
            send_kvecs: send[2],
            send_eligible: flags[0],
            recv_max: recv[0],
            recv_pages: recv[1],
            recv_kvecs: recv[2],
            recv_eligible: flags[1],
            opaque: flags[2],
        };
        let limits = PlanLimits {
            thresholds: Thresholds { call: limits[0], reply: limits[1] },
            page_size: limits[2],
            pages_per_segment: limits[3],
            max_segments: limits[4],
        };
        if let Ok(found) = wire.plan(&call, &limits) {
            prop_assert!(found.call_segments.max(found.reply_segments) <= limits.max_segments);
        }
        let _ = wire.sole(&call, &limits);
    }
}

// V1-153: with small pages every case can be tried: the count is enough, and at most one too many.
#[test]
fn segment_counts() {
    for (page_size, pages_per_segment) in [(1, 1), (2, 1), (4, 1), (4, 2), (4, 3), (8, 2)] {
        let limits = PlanLimits {
            thresholds: Thresholds { call: 0, reply: 0 },
            page_size,
            pages_per_segment,
            max_segments: 0,
        };
        let most = |bytes, pieces| most_segments(bytes, pieces, page_size, pages_per_segment);
        let one = |bytes| {
            let starts = (0..page_size).map(|start| really(&limits, bytes, start));
            u32::try_from(starts.max().unwrap()).unwrap()
        };
        let slack = u32::from(page_size == 1);
        for bytes in 1..100 {
            let (exact, found) = (one(bytes), most(bytes, 1).unwrap());
            assert!((exact..=exact + slack).contains(&found));
            let split = (1..bytes).map(|first| one(first) + one(bytes - first));
            let exact = exact.max(split.max().unwrap_or_default());
            let found = most(bytes, 2).unwrap();
            assert!((exact..=exact + 1 + slack).contains(&found));
        }
    }
}
