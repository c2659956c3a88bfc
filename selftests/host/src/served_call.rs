// SPDX-License-Identifier: GPL-2.0

//! A call that a server has received, and its reply: no step of either reaches memory that the call does not offer, and
//! every byte of a reply that is placed is found.
//!
//! Properties and the fuzz target `responder` share these checks.

use std::convert::Infallible;

use crate::module::proto::{
    neutral::Invalidation,
    responder::{
        invalidation,
        offer::{Kept, Offer, OfferLimits},
        rebuild::{pieces::Source, ArgumentLimits, Rebuild},
        received::Call,
        reply::{parts::Write, ReplyLimits, ReplyPlan, ReplyShape},
    },
    returned::check_chunk,
    ChunkLists, Incoming, Segment, Wire, WriteChunk,
};

const ARGUMENTS: ArgumentLimits = ArgumentLimits {
    len: 1 << 20,
    segments: 16,
};

const OFFER: OfferLimits = OfferLimits {
    chunks: 4,
    segments: 32,
};

/// The RDMA Writes of a reply.
pub(crate) fn writes(plan: &ReplyPlan<'_, '_>) -> Vec<Write> {
    let mut writes = Vec::new();
    let all = plan.each_write(|write| {
        writes.push(write);
        Ok::<_, Infallible>(())
    });
    all.unwrap();
    writes
}

pub(crate) fn segments(chunk: WriteChunk<'_>) -> Vec<Segment> {
    chunk.segments().collect()
}

fn reads(call: &Call<'_>) -> Vec<Segment> {
    let reads = call.chunks.read.segments();
    reads.map(|read| read.segment).collect()
}

/// Returns `true` if these bytes are in one of `segments`.
fn within(segments: &[Segment], handle: u32, offset: u64, len: u32) -> bool {
    segments.iter().any(|segment| {
        let skipped = offset.wrapping_sub(segment.offset);
        segment.handle == handle && skipped.saturating_add(len.into()) <= segment.length.into()
    })
}

/// Rebuilds the arguments of a call.
pub(crate) fn rebuild(call: &Call<'_>) {
    let Ok(plan) = Rebuild::plan(&call.chunks, call.payload, &ARGUMENTS) else {
        return;
    };
    let payload = call.payload.unwrap_or_default();
    let reads = reads(call);
    let (mut end, mut inline, mut read, mut count) = (0, 0, 0, 0);
    for piece in plan.pieces() {
        assert!(piece.at == end && piece.len > 0);
        end += piece.len;
        match piece.source {
            Source::Inline(byte) => {
                assert_eq!(byte, inline);
                inline += piece.len;
            }
            Source::Read { handle, offset } => {
                assert!(within(&reads, handle, offset, piece.len));
                read += u64::from(piece.len);
                count += 1;
            }
            Source::Zeros => assert!(piece.len < 4),
        }
    }
    assert_eq!(inline as usize, payload.len());
    assert_eq!(
        read,
        reads.iter().map(|read| u64::from(read.length)).sum::<u64>()
    );
    assert!(end == plan.len() && end <= ARGUMENTS.len && end >= 8);
    assert!(plan.most_reads() >= count);
    if call.is_inline() {
        assert_eq!((count, end), (0, inline));
    }
}

/// Places a reply of this shape into what a call in version `wire` offers.
pub(crate) fn serve(wire: Wire, call: &Call<'_>, shape: &ReplyShape<'_>, limits: &ReplyLimits) {
    let Ok(offer) = Offer::of(&call.chunks, &OFFER) else {
        return;
    };
    let mut kept = Kept::NONE;
    if kept.keep(&offer) {
        assert_eq!(kept.offer(), offer);
    } else {
        assert_eq!(kept, Kept::NONE);
    }
    let all: Vec<Segment> = offer
        .write
        .chunks()
        .chain(offer.reply)
        .flat_map(segments)
        .collect();
    if let Some(handle) = invalidation::handle(&call.chunks, Invalidation::Any) {
        let mut exposed = reads(call);
        exposed.extend(&all);
        assert!(exposed.iter().all(|segment| segment.handle == handle));
    }
    let Ok(plan) = wire.plan_reply(&offer, shape, limits) else {
        return;
    };
    let mut out = vec![0; 8192];
    let len = wire.encode_reply(&plan, call.xid, 1, &mut out).unwrap();
    let inline = if plan.is_long() {
        0
    } else {
        plan.payload().map(|part| u64::from(part.len)).sum()
    };
    assert_eq!(len as u64 + inline, plan.message_len());
    assert!(plan.message_len() <= limits.threshold.into());
    let mut placed = 0_u64;
    let mut count = 0;
    for write in writes(&plan) {
        assert!(write.part.len > 0 && write.part.at + write.part.len <= shape.len);
        assert!(within(&all, write.handle, write.offset, write.part.len));
        placed += u64::from(write.part.len);
        count += 1;
    }
    assert!(count <= limits.writes);
    out.truncate(len);
    if !plan.is_long() {
        out.extend([call.xid.to_be_bytes(), [0, 0, 0, 1]].concat());
    }
    assert!(matches!(wire.receive(&out), Incoming::Reply(_)));
    let (lists, _) = ChunkLists::decode(&out[wire.header_len() - 12..]).unwrap();
    let written = lists.write.chunks().chain(lists.reply);
    let offered = offer.write.chunks().chain(offer.reply);
    let returned: u64 = written
        .zip(offered)
        .map(|(returned, offered)| check_chunk(&returned, &segments(offered)).unwrap().bytes)
        .sum();
    assert_eq!(placed, returned);
}
