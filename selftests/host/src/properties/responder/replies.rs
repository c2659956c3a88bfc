// SPDX-License-Identifier: GPL-2.0

//! Replies that the server places, and the client finds.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*};

use super::{
    super::{plans, wire, Lists},
    returned, segments, ArgumentLimits, Offer, OfferLimits, Part, Rebuild, Received, ReplyLimits,
    ReplyPlan, ReplyShape,
};
use crate::{
    module::proto::{
        reply, responder::reply::Refusal, CallHeader, CallMode, Checked, Chunks, Incoming, Offered,
        Placed, ReadSegment, ReplyMode, Segment, Wire,
    },
    served_call::writes,
};

const ANY: OfferLimits = OfferLimits {
    chunks: 64,
    segments: 4096,
};

/// The address of each segment.
const BASE: u64 = u64::MAX - 0x1000_0000;

/// A chunk of segments with these lengths, each with a handle of its own.
fn chunk(handle: u32, lengths: &[u32]) -> Vec<Segment> {
    let segment = |(at, &length): (usize, &u32)| Segment {
        handle: handle + u32::try_from(at).unwrap(),
        length,
        offset: BASE,
    };
    lengths.iter().enumerate().map(segment).collect()
}

/// The bytes that a client finds in this chunk after `len` were written.
fn bytes_in(memory: &HashMap<u32, Vec<u8>>, chunk: &[Segment], len: u64) -> Vec<u8> {
    let all = chunk
        .iter()
        .flat_map(|s| memory.get(&s.handle).cloned().unwrap_or_default());
    let all: Vec<u8> = all.collect();
    assert_eq!(u64::try_from(all.len()).unwrap(), len);
    all
}

/// The memory of the client after the RDMA Writes, which fill each segment from its start.
fn write(plan: &ReplyPlan<'_, '_>, reply: &[u8]) -> HashMap<u32, Vec<u8>> {
    let mut memory: HashMap<u32, Vec<u8>> = HashMap::new();
    for write in writes(plan) {
        let start = usize::try_from(write.part.at).unwrap();
        let data = &reply[start..start + usize::try_from(write.part.len).unwrap()];
        let place = memory.entry(write.handle).or_default();
        let offset = usize::try_from(write.offset - BASE).unwrap();
        assert_eq!(place.len(), offset);
        place.extend(data);
    }
    memory
}

/// The payload of `reply` once the results that are `reduced` have left it.
fn without(reply: &[u8], results: &[Part], reduced: &[bool]) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut at = 0;
    for (result, _) in results.iter().zip(reduced).filter(|(_, reduced)| **reduced) {
        let start = usize::try_from(result.at).unwrap();
        payload.extend(&reply[at..start]);
        at = (start + usize::try_from(result.len).unwrap()).next_multiple_of(4);
    }
    payload.extend(&reply[at.min(reply.len())..]);
    payload
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    // V1-14, V1-50, V1-51, V1-56, V1-85..V1-101, V1-138: the client finds every byte of the reply where the lengths say,
    // and a reply is refused if it fits nowhere.
    #[test]
    fn replies_round_trip(
        gaps in vec((0..40_u32, 0..3000_u32), 0..4),
        rest in 0..2000_u32,
        write_chunks in vec(vec(prop_oneof![Just(0), 0..2000_u32], 0..4), 0..4),
        reply_chunk in proptest::option::of(vec(prop_oneof![Just(0), 0..4000_u32], 0..4)),
        opaque: bool,
        threshold in prop_oneof![Just(1024), 0..3000_u32],
    ) {
        let mut len = 24;
        let mut results = Vec::new();
        for (gap, bytes) in gaps {
            len += gap * 4;
            results.push(Part { at: len, len: bytes });
            len = (len + bytes).next_multiple_of(4);
        }
        len = (len + rest).next_multiple_of(4);
        let mut bytes: Vec<u8> = (0..len).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
        bytes[..8].copy_from_slice(&[0, 0, 0, 9, 0, 0, 0, 1]);

        let write_chunks: Vec<Vec<Segment>> = (1..)
            .zip(&write_chunks)
            .map(|(n, lengths)| chunk(n * 0x100, lengths))
            .collect();
        let reply_segments = reply_chunk.as_ref().map(|lengths| chunk(0x1000, lengths));
        let mut call = Lists {
            xid: 9,
            credits: 1,
            long: false,
            read: Vec::new(),
            write: write_chunks.clone(),
            reply: reply_segments.clone(),
        }
        .bytes();
        call.extend([0, 0, 0, 9, 0, 0, 0, 0]);
        let Received::Call(call) = Wire::V1.receive_call(&call) else {
            return Err(TestCaseError::fail("no call"));
        };
        let offer = Offer::of(&call.chunks, &ANY).unwrap();

        let room = |chunk: &Vec<Segment>| chunk.iter().map(|s| u64::from(s.length)).sum::<u64>();
        let reduced: Vec<bool> = results
            .iter()
            .zip(&write_chunks)
            .map(|(result, chunk)| !opaque && result.len != 0 && room(chunk) != 0)
            .collect();
        let fits = results
            .iter()
            .zip(&write_chunks)
            .all(|(result, chunk)| room(chunk) == 0 || u64::from(result.len) <= room(chunk));
        let payload = without(&bytes, &results, &reduced);

        let shape = ReplyShape { len, results: &results, opaque };
        let limits = ReplyLimits { threshold, page_size: 4096, pieces: 16, writes: u32::MAX };
        let plan = match Wire::V1.plan_reply(&offer, &shape, &limits) {
            Ok(plan) => plan,
            Err(Refusal::Result) => {
                prop_assert!(!fits && !opaque);
                return Ok(());
            }
            Err(refusal) => {
                prop_assert_eq!(refusal, Refusal::TooLong);
                // Even the smaller payload fits neither behind the header nor into the Reply chunk.
                let header = 28
                    + write_chunks.iter().map(|chunk| 8 + 16 * chunk.len()).sum::<usize>()
                    + reply_segments.as_ref().map_or(0, |chunk| 4 + 16 * chunk.len());
                let threshold = usize::try_from(threshold).unwrap();
                prop_assert!(header + payload.len() > threshold);
                let room = reply_segments.as_ref().map_or(0, room);
                prop_assert!(header > threshold || u64::try_from(payload.len()).unwrap() > room);
                return Ok(());
            }
        };
        prop_assert!(fits || opaque);

        let memory = write(&plan, &bytes);
        let mut message = vec![0; 8192];
        let header = Wire::V1.encode_reply(&plan, 9, 1, &mut message).unwrap();
        message.truncate(header);
        if !plan.is_long() {
            for part in plan.payload() {
                let start = usize::try_from(part.at).unwrap();
                message.extend(&bytes[start..start + usize::try_from(part.len).unwrap()]);
            }
        }
        prop_assert_eq!(u64::try_from(message.len()).unwrap(), plan.message_len());
        prop_assert!(plan.message_len() <= threshold.into());

        let (written, replied, inline) = returned(&message, &offer);
        prop_assert_eq!(inline.is_none(), plan.is_long());
        let uses_chunks = written.iter().any(|&bytes| bytes != 0);
        for (at, chunk) in write_chunks.iter().enumerate() {
            let data = bytes_in(&memory, chunk, written[at]);
            let result = reduced.get(at).is_some_and(|reduced| *reduced && (uses_chunks || !plan.is_long()));
            let expected = match result {
                true => {
                    let start = usize::try_from(results[at].at).unwrap();
                    &bytes[start..start + usize::try_from(results[at].len).unwrap()]
                }
                false => &[],
            };
            prop_assert_eq!(&data[..], expected);
        }
        let found = match inline {
            Some(inline) => inline,
            None => bytes_in(&memory, reply_segments.as_ref().unwrap(), replied),
        };
        let whole = plan.is_long() && !uses_chunks;
        prop_assert_eq!(found, if whole { bytes } else { payload });
    }

    // V1-45..V1-56, V1-83, V1-99, V1-153: the server takes all that a client plans; and it finds
    // room for the largest reply that was planned, which the client accepts.
    #[test]
    fn planned_calls(
        wire in wire(),
        shape in plans::shape(),
        limits in plans::limits(),
        splits in vec(1..10_000_u32, 1..4),
        less in (0..2000_u32, 0..2000_u32),
    ) {
        let Ok(planned) = wire.plan(&shape, &limits) else {
            return Ok(());
        };
        if shape.send_len < 8 {
            return Ok(());
        }
        // As many segments as the plan allows, or fewer.
        let split = |handle: u32, bytes: u32, most: u32| {
            let mut lengths = Vec::new();
            let mut left = bytes;
            for length in splits.iter().take(usize::try_from(most.saturating_sub(1)).unwrap()) {
                lengths.push((*length).min(left));
                left -= (*length).min(left);
            }
            lengths.push(left);
            lengths.retain(|&length| length != 0);
            chunk(handle, &lengths)
        };
        let (read_bytes, position) = match planned.call {
            CallMode::Inline => (0, 0),
            CallMode::ReadChunk => (shape.send_pages, 8),
            CallMode::Long => (shape.send_len, 0),
        };
        let inline = shape.send_len - read_bytes;
        if planned.call == CallMode::ReadChunk && inline < 8 {
            return Ok(());
        }
        let read: Vec<ReadSegment> = split(0x1000, read_bytes, planned.call_segments)
            .into_iter()
            .map(|segment| ReadSegment { position, segment })
            .collect();
        let (write_bytes, reply_bytes) = match planned.reply {
            ReplyMode::Inline => (0, 0),
            ReplyMode::WriteChunk => (shape.recv_pages, 0),
            ReplyMode::ReplyChunk => (0, shape.recv_max),
        };
        let write_chunk = split(0x100, write_bytes, planned.reply_segments);
        let reply_chunk = split(0x200, reply_bytes, planned.reply_segments);
        let header = CallHeader {
            xid: 9,
            credits: 1,
            long: planned.call == CallMode::Long,
            chunks: Chunks {
                read: &read,
                write: &write_chunk,
                reply: &reply_chunk,
            },
        };
        let mut message = vec![0; 65536];
        let len = wire.encode(&header, &mut message).unwrap();
        message.truncate(len);
        if planned.call != CallMode::Long {
            message.extend([0, 0, 0, 9, 0, 0, 0, 0]);
            message.resize(len + usize::try_from(inline).unwrap(), 0);
        }
        prop_assert!(message.len() <= usize::try_from(limits.thresholds.call).unwrap());
        let Received::Call(call) = wire.receive_call(&message) else {
            return Err(TestCaseError::fail("no call"));
        };
        let most = ArgumentLimits { len: shape.send_len + 3, segments: 64 };
        let arguments = Rebuild::plan(&call.chunks, call.payload, &most).unwrap();
        // Without the padding that the server supplies, they are as long as the call.
        prop_assert!(arguments.len().wrapping_sub(shape.send_len) < 4);

        // The largest reply, or one with shorter data and a shorter rest.
        let data = shape.recv_pages.saturating_sub(less.0);
        let rest = (shape.recv_max - shape.recv_pages).saturating_sub(less.1);
        let (data, rest) = if shape.recv_max < 20 || rest < 20 { (0, 0) } else { (data, rest) };
        if rest == 0 {
            return Ok(());
        }
        let result = [Part { at: rest / 8 * 4, len: data }];
        let reply_shape = ReplyShape {
            len: data + rest,
            results: if shape.recv_eligible { &result } else { &[] },
            opaque: shape.opaque,
        };
        let offer = Offer::of(&call.chunks, &ANY).unwrap();
        let reply_limits = ReplyLimits {
            threshold: limits.thresholds.reply,
            page_size: 4096,
            pieces: 16,
            writes: u32::MAX,
        };
        let plan = wire.plan_reply(&offer, &reply_shape, &reply_limits).unwrap();
        let mut message = vec![0; 65536];
        let header = wire.encode_reply(&plan, 9, 1, &mut message).unwrap();
        message.truncate(header);
        if !plan.is_long() {
            message.extend([0, 0, 0, 9, 0, 0, 0, 1]);
            message.resize(usize::try_from(plan.message_len()).unwrap(), 0);
        }
        prop_assert!(message.len() <= usize::try_from(limits.thresholds.reply).unwrap());
        let Incoming::Reply(found) = wire.receive(&message) else {
            return Err(TestCaseError::fail("no reply"));
        };
        let offered = Offered { write: &write_chunk, reply: &reply_chunk };
        let expected = match planned.reply {
            _ if plan.is_long() => Placed::ReplyChunk { length: data + rest },
            ReplyMode::WriteChunk if !write_chunk.is_empty() => Placed::WriteChunk { length: data },
            _ => Placed::Inline,
        };
        let expected = Checked { placed: expected, renamed: false };
        prop_assert_eq!(reply::check(&found, &offered), Ok(expected));
        prop_assert_eq!(offer.write.chunks().map(segments).collect::<Vec<_>>().concat(), write_chunk);
    }
}
