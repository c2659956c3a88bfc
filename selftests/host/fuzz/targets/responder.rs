// SPDX-License-Identifier: GPL-2.0

//! Any bytes as a message to a server, and any reply to it (V1-14, V1-15..V1-20, V1-79, V1-80, V1-114, V1-130): the
//! server reads and writes no memory but what the message offers, and sends no more than the client takes.
//!
//! The first bytes say how long the reply is, where its results are, and what the client takes; then comes the message.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../../src"]
mod module {
    #[allow(dead_code, reason = "a target uses a part of it")]
    pub(crate) mod proto;
}

use module::proto::{
    classify,
    neutral::Invalidation,
    v1::{
        reply,
        responder::{
            call::receive,
            invalidation,
            offer::{Kept, Offer, OfferLimits},
            rebuild::{form::Form, pieces::Source, ArgumentLimits, Rebuild},
            received::{Call, Received},
            reply::{Part, ReplyLimits, ReplyPlan, ReplyShape},
        },
    },
    Header, Incoming, Segment, WriteChunk,
};

const ARGUMENTS: ArgumentLimits = ArgumentLimits {
    len: 1 << 20,
    segments: 16,
};

const OFFER: OfferLimits = OfferLimits {
    chunks: 4,
    segments: 32,
};

/// Bytes of the reply before each message.
const SHAPE_LEN: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((shape, message)) = bytes.split_first_chunk::<SHAPE_LEN>() else {
        return;
    };
    match receive(message) {
        Received::Call(call) => {
            assert!(message.starts_with(&call.xid.to_be_bytes()));
            rebuild(&call);
            serve(&call, shape);
        }
        Received::ReverseReply { xid, payload, .. } => {
            assert!(message.ends_with(payload) && message.len() - payload.len() == 28);
            assert_eq!(payload[..8], [xid.to_be_bytes(), [0, 0, 0, 1]].concat());
        }
        Received::ReverseError { .. } => assert_eq!(message[12..16], [0, 0, 0, 4]),
        Received::Reject {
            xid,
            version,
            error,
            why,
        } => {
            let mut out = [0; 28];
            let len = error.encode(xid, version, 1, &mut out).unwrap();
            assert_eq!(message[..8], out[..8]);
            assert_ne!(message[12..16], [0, 0, 0, 4]);
            assert!(Header::decode(&out[..len]).is_ok() && !why.as_str().is_empty());
        }
        Received::Drop(why) => assert!(!why.as_str().is_empty()),
    }
});

/// Returns `true` if these bytes are in one of `segments`.
fn within(segments: &[Segment], handle: u32, offset: u64, len: u32) -> bool {
    segments.iter().any(|segment| {
        let skipped = offset.wrapping_sub(segment.offset);
        segment.handle == handle && skipped.saturating_add(len.into()) <= segment.length.into()
    })
}

fn rebuild(call: &Call<'_>) {
    let Ok(plan) = Rebuild::plan(&call.chunks, call.payload, &ARGUMENTS) else {
        return;
    };
    let payload = call.payload.unwrap_or_default();
    let reads: Vec<Segment> = call
        .chunks
        .read
        .segments()
        .map(|read| read.segment)
        .collect();
    let (mut end, mut inline, mut read) = (0, 0, 0);
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
    match plan.form() {
        Form::Inline => assert_eq!((read, end), (0, inline)),
        Form::Chunk { len, padding, .. } => {
            assert_eq!((read, end), (len.into(), inline + len + padding));
        }
        Form::Pieces => assert!(read > 0),
    }
}

fn serve(call: &Call<'_>, shape: &[u8; SHAPE_LEN]) {
    let Ok(offer) = Offer::of(&call.chunks, &OFFER) else {
        return;
    };
    if let Some(kept) = Kept::new(&offer) {
        assert_eq!(kept.offer(), offer);
    }
    let segments = |chunk: WriteChunk<'_>| chunk.segments().collect::<Vec<Segment>>();
    let all: Vec<Segment> = offer
        .write
        .chunks()
        .chain(offer.reply)
        .flat_map(segments)
        .collect();
    if let Some(handle) = invalidation::handle(&call.chunks, Invalidation::Any) {
        assert!(all.iter().all(|segment| segment.handle == handle));
    }

    let [a, b, c, d, e, f, g, h, i, j, k, l, threshold @ .., writes, opaque] = *shape;
    let word = |high: u8, low: u8| u32::from(high) << 8 | u32::from(low);
    let first = word(c, d) * 4;
    let second = first + word(e, f) + word(g, h) * 4;
    let results = [
        Part {
            at: first,
            len: word(e, f),
        },
        Part {
            at: second.next_multiple_of(4),
            len: word(i, j),
        },
    ];
    let shape = ReplyShape {
        len: word(a, b) * 16 + word(k, l),
        results: &results[..usize::from(opaque) % 3],
        opaque: opaque & 128 != 0,
    };
    let limits = ReplyLimits {
        threshold: word(threshold[0], threshold[1]),
        page_size: 4096,
        pieces: (writes % 16).into(),
        writes: (writes / 2).into(),
    };
    let Ok(plan) = ReplyPlan::new(&offer, &shape, &limits) else {
        return;
    };
    let mut out = vec![0; 4096];
    let len = plan.encode_header(call.xid, 1, &mut out).unwrap();
    assert_eq!(len as u64, plan.header_len());
    assert!(plan.message_len() <= limits.threshold.into());
    let mut placed = 0_u64;
    let mut count = 0;
    for write in plan.writes() {
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
    let Incoming::Reply(found) = classify(&out) else {
        panic!("no reply");
    };
    let written = found.chunks.write.chunks().chain(found.chunks.reply);
    let offered = offer.write.chunks().chain(offer.reply);
    let returned: u64 = written
        .zip(offered)
        .map(|(returned, offered)| reply::check_chunk(&returned, &segments(offered)).unwrap())
        .sum();
    assert_eq!(placed, returned);
}
