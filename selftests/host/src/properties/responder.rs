// SPDX-License-Identifier: GPL-2.0

//! Both ends against each other: the server rebuilds the arguments that a client has taken apart, the client finds the
//! reply that the server has placed, and no message makes the server read or write outside of what was offered.

mod arguments;
mod replies;

use proptest::{collection::vec, prelude::*};

use super::{lists, word};
use crate::{
    module::proto::{
        responder::{
            offer::{Offer, OfferLimits},
            rebuild::{pieces::Source, ArgumentLimits, Rebuild},
            received::Received,
            reply::{Part, ReplyLimits, ReplyPlan, ReplyShape},
        },
        returned::check_chunk,
        ChunkLists, Incoming, Wire, WriteChunk,
    },
    served_call::{self, segments},
};

/// The bytes that were placed in a chunk.
fn placed(returned: &WriteChunk<'_>, offered: WriteChunk<'_>) -> u64 {
    check_chunk(returned, &segments(offered)).unwrap().bytes
}

/// The chunks of a returned message as a client with this offer sees them: the bytes in each Write
/// chunk, and in the Reply chunk.
fn returned(message: &[u8], offer: &Offer<'_>) -> (Vec<u64>, u64, Option<Vec<u8>>) {
    let Incoming::Reply(found) = Wire::V1.receive(message) else {
        panic!("no reply");
    };
    let (lists, _) = ChunkLists::decode(&message[16..]).unwrap();
    assert!(lists.read.is_empty());
    assert_eq!(lists.write.len(), offer.write.len());
    let written = lists.write.chunks().zip(offer.write.chunks());
    let written = written
        .map(|(returned, offered)| placed(&returned, offered))
        .collect();
    let replied = match (lists.reply, offer.reply) {
        (Some(returned), Some(offered)) => placed(&returned, offered),
        (None, None) => 0,
        _ => panic!("a Reply chunk is lost or found"),
    };
    let inline = (!found.payload.is_empty()).then(|| found.payload.to_vec());
    (written, replied, inline)
}

/// Parts that are often in order.
fn parts() -> impl Strategy<Value = Vec<Part>> {
    vec((0..200_u32, word()), 0..4).prop_map(|gaps| {
        let mut at = 0_u32;
        let part = |(gap, len): (u32, u32)| {
            let part = Part {
                at: at.wrapping_add(gap * 4),
                len,
            };
            at = part.at.wrapping_add(len).wrapping_add(3) & !3;
            part
        };
        gaps.into_iter().map(part).collect()
    })
}

fn reply_limits() -> impl Strategy<Value = ReplyLimits> {
    let threshold = prop_oneof![0..200_u32, Just(1024), Just(4096)];
    (threshold, 0..20_u32, 0..40_u32).prop_map(|(threshold, pieces, writes)| ReplyLimits {
        threshold,
        page_size: 4096,
        pieces,
        writes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    // V1-14, V1-19, V1-79, V1-80, V1-130: any lists with a few words replaced lead the server to no memory but what
    // they offer.
    #[test]
    fn spoiled_calls(
        lists in lists(),
        tail in vec(word(), 0..40),
        spoils in vec((any::<prop::sample::Index>(), word()), 0..4),
        small: bool,
        len in word(),
        results in parts(),
        opaque: bool,
        limits in reply_limits(),
    ) {
        let mut lists = lists;
        if small {
            let all = lists.write.iter_mut().flatten();
            let all = all.chain(lists.reply.iter_mut().flatten());
            for segment in all.chain(lists.read.iter_mut().map(|read| &mut read.segment)) {
                segment.length %= 5000;
                segment.offset %= 1 << 40;
            }
            for read in &mut lists.read {
                read.position = read.position % 40 * 4;
            }
        }
        let mut bytes = lists.bytes();
        bytes.extend(lists.xid.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(tail.iter().flat_map(|word| word.to_be_bytes()));
        for (at, word) in spoils {
            let at = at.index(bytes.len() / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        let shape = ReplyShape { len, results: &results, opaque };
        if let Received::Call(call) = Wire::V1.receive_call(&bytes) {
            served_call::rebuild(&call);
            served_call::serve(Wire::V1, &call, &shape, &limits);
            served_call::serve(Wire::V2, &call, &shape, &limits);
        }
    }
}
