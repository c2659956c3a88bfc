// SPDX-License-Identifier: GPL-2.0

//! Replies: all bytes that were placed lie within the offered segments, without a hole.

use proptest::{collection::vec, prelude::*};

use super::Lists;
use crate::module::proto::{
    reply,
    v1::header::{Body, Header},
    Checked, ChunkLists, Incoming, Malformed, Offered, Placed, Reply, Returned, Segment, Wire,
    WriteChunk,
};

/// Lengths as a responder fills segments with `bytes` bytes, one after the other.
fn filled(offered: &[Segment], mut bytes: u64) -> Vec<u32> {
    let fill = |segment: &Segment| {
        let length = bytes.min(u64::from(segment.length));
        bytes -= length;
        u32::try_from(length).unwrap()
    };
    offered.iter().map(fill).collect()
}

/// A chunk: the offered segments and the returned ones, mostly filled as they should be.
fn chunk() -> impl Strategy<Value = (Vec<Segment>, Vec<Segment>)> {
    let length = prop_oneof![0..4_u32, 0..5000_u32, Just(u32::MAX)];
    let spoil = proptest::option::weighted(0.3, (any::<prop::sample::Index>(), 0..5000_u32));
    (
        vec(length, 0..6),
        any::<prop::sample::Index>(),
        spoil,
        0..12_u8,
    )
        .prop_map(|(lengths, bytes, spoil, cut)| {
            let segment = |length| Segment {
                handle: 7,
                length,
                offset: 0x1_0000_0001,
            };
            let offered: Vec<Segment> = lengths.into_iter().map(segment).collect();
            let total: u64 = offered
                .iter()
                .map(|segment| u64::from(segment.length))
                .sum();
            let bytes = bytes.index(usize::try_from(total).unwrap() + 1);
            let mut lengths = filled(&offered, u64::try_from(bytes).unwrap());
            if let (Some((at, length)), false) = (spoil, lengths.is_empty()) {
                let at = at.index(lengths.len());
                lengths[at] = length;
            }
            if cut == 0 {
                lengths.pop();
            }
            (offered, lengths.into_iter().map(segment).collect())
        })
}

fn sum(segments: &[Segment]) -> u64 {
    segments
        .iter()
        .map(|segment| u64::from(segment.length))
        .sum()
}

/// The bytes that were placed according to `returned`, if a correct responder can return that.
fn model(offered: &[Segment], returned: &[Segment]) -> Option<u64> {
    let lengths: Vec<u32> = returned.iter().map(|segment| segment.length).collect();
    let bytes = sum(returned);
    (lengths == filled(offered, bytes)).then_some(bytes)
}

/// The message with these chunks; an empty one is not there.
fn message(write: &[Segment], reply: &[Segment], inline: bool) -> Option<Vec<u8>> {
    let lists = Lists {
        xid: 9,
        credits: 1,
        long: !inline,
        read: Vec::new(),
        write: if write.is_empty() {
            Vec::new()
        } else {
            vec![write.to_vec()]
        },
        reply: (!reply.is_empty()).then(|| reply.to_vec()),
    };
    if lists.long && lists.is_empty() {
        return None;
    }
    let mut bytes = lists.bytes();
    if inline {
        bytes.extend([0, 0, 0, 9, 0, 0, 0, 1]);
    }
    Some(bytes)
}

fn check(bytes: &[u8], offered: &Offered<'_>) -> Result<Placed, Malformed> {
    match Wire::V1.receive(bytes) {
        Incoming::Reply(reply) => {
            let checked = reply::check(&reply, offered);
            assert_eq!(checked, walked(bytes, &reply, offered));
            checked.map(|checked| checked.placed)
        }
        other => panic!("{other:?}"),
    }
}

/// The check of a reply whose lists were walked, whatever they are. Only replies with more than one
/// segment are received so.
fn walked(bytes: &[u8], reply: &Reply<'_>, offered: &Offered<'_>) -> Result<Checked, Malformed> {
    let (lists, _) = ChunkLists::decode(&bytes[16..]).unwrap();
    let segments = |chunk: WriteChunk<'_>| chunk.segments().collect::<Vec<_>>();
    let write: Vec<_> = lists.write.chunks().map(segments).collect();
    let chunk = lists.reply.map(segments);
    let long = reply.payload.is_empty();
    let is_one = match (long, write.as_slice(), &chunk) {
        (false, [], None) => true,
        (false, [chunk], None) | (true, [], Some(chunk)) => chunk.len() == 1,
        _ => false,
    };
    let chunks = Returned::Lists { lists, long };
    assert_eq!(reply.chunks == chunks, !is_one);
    reply::check(&Reply { chunks, ..*reply }, offered)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    // V1-89..V1-92, V1-101: an inline reply with a Write chunk.
    #[test]
    fn write_chunk((offered, returned) in chunk()) {
        let bytes = message(&returned, &[], true).unwrap();
        let result = check(&bytes, &Offered { write: &offered, reply: &[] });
        if returned.is_empty() {
            prop_assert_eq!(result, Ok(Placed::Inline));
        } else {
            let placed = model(&offered, &returned).and_then(|bytes| u32::try_from(bytes).ok());
            prop_assert_eq!(result.ok(), placed.map(|length| Placed::WriteChunk { length }));
        }
    }

    // V1-89, V1-91, V1-92, V1-102: a reply in the Reply chunk.
    #[test]
    fn reply_chunk((offered, returned) in chunk()) {
        if let Some(bytes) = message(&[], &returned, false) {
            let result = check(&bytes, &Offered { write: &[], reply: &offered });
            let placed = model(&offered, &returned)
                .filter(|&bytes| bytes >= 20)
                .and_then(|bytes| u32::try_from(bytes).ok());
            prop_assert_eq!(result.ok(), placed.map(|length| Placed::ReplyChunk { length }));
        }
    }

    // V1-82, V1-89..V1-102: any chunks against any offer.
    #[test]
    fn any_chunks((write, written) in chunk(), (chunk, replied) in chunk(), inline: bool) {
        let offered = Offered { write: &write, reply: &chunk };
        if let Some(bytes) = message(&written, &replied, inline) {
            match check(&bytes, &offered) {
                Ok(Placed::Inline) => prop_assert!(inline && written.is_empty()),
                Ok(Placed::WriteChunk { length }) => {
                    prop_assert!(inline && sum(&replied) == 0);
                    prop_assert_eq!(model(&write, &written), Some(u64::from(length)));
                }
                Ok(Placed::ReplyChunk { length }) => {
                    prop_assert!(!inline && sum(&written) == 0);
                    prop_assert_eq!(model(&chunk, &replied), Some(u64::from(length)));
                }
                Err(_) => {
                    let good = |offered: &[Segment], returned: &[Segment]| {
                        returned.is_empty() || model(offered, returned).is_some()
                    };
                    let used = (sum(&written), sum(&replied));
                    let form = if inline { used.1 == 0 } else { used.0 == 0 && used.1 >= 20 };
                    let fits = used.0.max(used.1) <= u64::from(u32::MAX);
                    let chunks = good(&write, &written) && good(&chunk, &replied);
                    prop_assert!(!(chunks && form && fits));
                }
            }
        }
    }

    // V1-19, V1-82, V1-90: lists of any kind, and the accepted part of them.
    #[test]
    fn any_lists(
        lists in super::lists(),
        write in vec(super::segment(), 0..4),
        chunk in vec(super::segment(), 0..4),
    ) {
        let bytes = lists.bytes();
        let header = Header::decode(&bytes).unwrap();
        let (chunks, payload) = match header.body {
            Body::Msg { chunks, payload } => (chunks, Some(payload)),
            Body::NoMsg { chunks } => (chunks, None),
            Body::Error(_) => return Err(TestCaseError::fail("an error")),
        };
        let chunks = Returned::Lists { lists: chunks, long: payload.is_none() };
        let payload = payload.unwrap_or_default();
        let reply = Reply { xid: header.xid, credits: header.credits, chunks, payload };
        let offered = Offered { write: &write, reply: &chunk };
        if reply::check(&reply, &offered).is_ok() {
            prop_assert!(lists.read.is_empty());
            prop_assert!(lists.write.len() <= 1);
        }
    }
}
