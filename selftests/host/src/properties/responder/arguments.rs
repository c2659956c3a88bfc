// SPDX-License-Identifier: GPL-2.0

//! Arguments that a client takes apart, and the server rebuilds.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*, sample::Index};

use super::{super::Lists, ArgumentLimits, Rebuild, Received, Source};
use crate::module::proto::{ReadSegment, Segment, Wire};

/// An item of the arguments that is in a chunk of its own.
#[derive(Clone, Debug)]
struct Item {
    /// Bytes of the inline part in front of it, in words.
    gap: usize,
    data: Vec<u8>,
    /// Bytes of padding that the client sends.
    padding: usize,
    splits: Vec<Index>,
}

fn item() -> impl Strategy<Value = Item> {
    (
        0..20_usize,
        vec(any::<u8>(), 1..200),
        0..4_usize,
        vec(any::<Index>(), 0..4),
    )
        .prop_map(|(gap, data, padding, splits)| Item {
            gap,
            padding: padding.min(data.len().wrapping_neg() % 4),
            data,
            splits,
        })
}

/// The memory of the client: bytes by handle and address.
#[derive(Default)]
struct Memory {
    regions: HashMap<u32, (u64, Vec<u8>)>,
}

impl Memory {
    /// Exposes `bytes` in segments that end at `splits`; some are empty.
    fn expose(&mut self, position: usize, bytes: &[u8], splits: &[Index]) -> Vec<ReadSegment> {
        let mut ends: Vec<usize> = splits.iter().map(|at| at.index(bytes.len() + 1)).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let mut start = 0;
        let mut segments = Vec::new();
        for end in ends {
            let handle = u32::try_from(self.regions.len()).unwrap() + 0x1000;
            let offset = u64::MAX - u64::from(handle) * 0x1000;
            self.regions
                .insert(handle, (offset, bytes[start..end].to_vec()));
            segments.push(ReadSegment {
                position: u32::try_from(position).unwrap(),
                segment: Segment {
                    handle,
                    length: u32::try_from(end - start).unwrap(),
                    offset,
                },
            });
            start = end;
        }
        segments
    }

    fn read(&self, handle: u32, offset: u64, len: usize) -> &[u8] {
        let (base, bytes) = &self.regions[&handle];
        let start = usize::try_from(offset - base).unwrap();
        &bytes[start..start + len]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    // V1-11, V1-48, V1-52, V1-68, V1-69, V1-70, V1-72, V1-73, V1-76, V1-77, V1-78, V1-80: arguments of
    // any form are rebuilt, in any order of the chunks, with their padding and without.
    #[test]
    fn arguments_round_trip(
        xid: u32,
        items in vec(item(), 0..5),
        body in vec(any::<u8>(), 0..200),
        long: bool,
        splits in vec(any::<Index>(), 0..4),
        order in vec(any::<Index>(), 5),
    ) {
        // The body begins with the words that a call has, and has room for all gaps.
        let mut whole = [xid.to_be_bytes(), [0; 4]].concat();
        let gaps: usize = items.iter().map(|item| item.gap * 4).sum();
        whole.extend(body.iter().cycle().take(if body.is_empty() { 0 } else { gaps + body.len() }));
        whole.resize(whole.len().max(8 + gaps).next_multiple_of(4), 7);

        let mut memory = Memory::default();
        let mut expected = whole[..8].to_vec();
        let mut taken = 8;
        let mut chunks: Vec<Vec<ReadSegment>> = Vec::new();
        for item in &items {
            expected.extend(&whole[taken..taken + item.gap * 4]);
            taken += item.gap * 4;
            let mut sent = item.data.clone();
            sent.resize(item.data.len() + item.padding, 0xff);
            let segments = memory.expose(expected.len(), &sent, &item.splits);
            chunks.insert(order[chunks.len()].index(chunks.len() + 1), segments);
            expected.extend(sent);
            expected.resize(expected.len().next_multiple_of(4), 0);
        }
        expected.extend(&whole[taken..]);
        if long {
            let segments = memory.expose(0, &whole, &splits);
            chunks.insert(order[0].index(chunks.len() + 1), segments);
        }

        let lists = Lists {
            xid,
            credits: 1,
            long,
            read: chunks.concat(),
            write: Vec::new(),
            reply: None,
        };
        let mut message = lists.bytes();
        if !long {
            message.extend(&whole);
        }
        let Received::Call(call) = Wire::V1.receive_call(&message) else {
            return Err(TestCaseError::fail("no call"));
        };
        let len = u32::try_from(expected.len()).unwrap();
        let limits = ArgumentLimits { len, segments: 64 };
        let plan = Rebuild::plan(&call.chunks, call.payload, &limits).unwrap();
        let mut found = Vec::new();
        for piece in plan.pieces() {
            let len = usize::try_from(piece.len).unwrap();
            match piece.source {
                Source::Inline(byte) => {
                    let byte = usize::try_from(byte).unwrap();
                    found.extend(&call.payload.unwrap()[byte..byte + len]);
                }
                Source::Read { handle, offset } => found.extend(memory.read(handle, offset, len)),
                Source::Zeros => found.extend(vec![0; len]),
            }
        }
        prop_assert_eq!(plan.len(), len);
        prop_assert_eq!(found, expected);

        let less = ArgumentLimits { len: len - 1, ..limits };
        prop_assert!(Rebuild::plan(&call.chunks, call.payload, &less).is_err());
    }
}
