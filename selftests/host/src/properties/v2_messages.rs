// SPDX-License-Identifier: GPL-2.0

//! Properties of messages in version 2, both ways.

use proptest::{collection::vec, prelude::*};

use super::{lists, word};
use crate::module::proto::{
    neutral::{Direction, Incoming, Kind, Rejection, Side, Value},
    v2::{
        characteristics::{known, Entry, Set, Subset},
        encode::{encode_error, EncodeError, RpcHeader},
        header::{Body, DecodeError, Header},
        later::Later,
        operations::{Code, Operation},
        optional::Outgoing,
        receive::{receive, Received, Stage},
        vectors::*,
    },
    ReadSegment, Segment,
};

pub(super) const VECTORS: [&[u32]; 18] = [
    &TV_V2_1, &TV_V2_2, &TV_V2_3, &TV_V2_4, &TV_V2_5, &TV_V2_6, &TV_V2_7, &TV_XC_1, &TV_XC_2,
    &TV_XC_3, &TV_XC_4, &TV_XC_5, &TV_XC_6, &TV_XC_8, &TV_XC_9, &TV_XC_10, &TV_XC_11, &TV_XC_12,
];

/// An operation, owned: its code, entries as id and data, subsets, boolean.
#[derive(Clone, Debug, PartialEq)]
struct Owned {
    code: Code,
    entries: Vec<(u32, Vec<u8>)>,
    subsets: Vec<Vec<u32>>,
    flag: bool,
}

/// The data of a value on the wire.
fn data(value: Value<'_>) -> Vec<u8> {
    match value {
        Value::Word(word) | Value::Choice(word) => word.to_be_bytes().to_vec(),
        Value::Flag(flag) => u32::from(flag).to_be_bytes().to_vec(),
        Value::Opaque(data) => data.to_vec(),
    }
}

fn entries(set: Set<'_>) -> Vec<(u32, Vec<u8>)> {
    assert_eq!(set.entries().count(), set.len());
    set.entries().map(|e| (e.id, data(e.value))).collect()
}

/// The words of a subset without zeros at the end.
fn words(subset: Subset<'_>) -> Vec<u32> {
    let mut words: Vec<u32> = subset.words().collect();
    for at in 0..words.len() * 32 + 40 {
        let bit = words
            .get(at / 32)
            .is_some_and(|word| word & (1 << (at % 32)) != 0);
        assert_eq!(subset.contains(at), bit);
    }
    while words.last() == Some(&0) {
        words.pop();
    }
    let bits = words
        .last()
        .map_or(0, |last| words.len() * 32 - last.leading_zeros() as usize);
    assert!(!subset.exceeds(bits) && (bits == 0 || subset.exceeds(bits - 1)));
    words
}

fn owned(operation: &Operation<'_>) -> Owned {
    let (code, entries, subsets, flag) = match *operation {
        Operation::Initxch { start, nochg } => {
            (Code::Initxch, entries(start), vec![words(nochg)], false)
        }
        Operation::Reqxch { want } => (Code::Reqxch, entries(want), vec![], false),
        Operation::Respxch(response) => {
            let subsets = [response.done, response.rej, response.pend];
            (Code::Respxch, vec![], subsets.map(words).to_vec(), false)
        }
        Operation::Updxch { now, pendclr } => (
            Code::Updxch,
            vec![(now.id, data(now.value))],
            vec![],
            pendclr,
        ),
    };
    Owned {
        code,
        entries,
        subsets,
        flag,
    }
}

/// Encodes an operation; its known entries are typed.
fn encode(operation: &Owned, xid: u32, credits: u32) -> Vec<u8> {
    let entries: Vec<Entry<'_>> = operation
        .entries
        .iter()
        .map(|(id, data)| {
            let kind = known(*id).map_or(Kind::Opaque, |row| row.kind);
            let value = kind.decode(data).expect("the data is of its type");
            Entry { id: *id, value }
        })
        .collect();
    let subset = |at: usize| operation.subsets[at].as_slice();
    let outgoing = match operation.code {
        Code::Initxch => Outgoing::Initxch {
            start: &entries,
            nochg: subset(0),
        },
        Code::Reqxch => Outgoing::Reqxch { want: &entries },
        Code::Respxch => Outgoing::Respxch {
            done: subset(0),
            rej: subset(1),
            pend: subset(2),
        },
        Code::Updxch => Outgoing::Updxch {
            now: entries[0],
            pendclr: operation.flag,
        },
    };
    let mut out = vec![0xee; 8192];
    let len = outgoing
        .encode(xid, credits, &mut out)
        .expect("8192 bytes are enough");
    let mut short = vec![0; len - 1];
    assert_eq!(
        outgoing.encode(xid, credits, &mut short),
        Err(EncodeError::NoRoom)
    );
    out.truncate(len);
    out
}

fn entry() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let word = |values: u32| (0..values).prop_map(|word| word.to_be_bytes().to_vec());
    prop_oneof![
        any::<u32>().prop_map(|size| (1, size.to_be_bytes().to_vec())),
        word(2).prop_map(|data| (2, data)),
        word(3).prop_map(|data| (3, data)),
        (4..=u32::MAX, vec(any::<u8>(), 0..40)),
    ]
}

fn operation() -> impl Strategy<Value = Owned> {
    let subset = || vec(prop_oneof![Just(0), any::<u32>()], 0..5);
    let parts = (
        vec(entry(), 1..40),
        subset(),
        subset(),
        subset(),
        any::<bool>(),
    );
    (0..4_usize, parts).prop_map(|(code, (entries, a, b, c, flag))| {
        let code = Code::ALL[code];
        let subsets = match code {
            Code::Initxch => vec![a],
            Code::Respxch => vec![a, b, c],
            Code::Reqxch | Code::Updxch => vec![],
        };
        let entries = match code {
            Code::Respxch => vec![],
            Code::Updxch => entries[..1].to_vec(),
            Code::Initxch | Code::Reqxch => entries,
        };
        Owned {
            code,
            entries,
            subsets,
            flag: flag && code == Code::Updxch,
        }
    })
}

/// Encodes what decoded. Apart from padding and ignored bytes it has one encoding.
fn again(header: &Header<'_>) -> Vec<u8> {
    let Header {
        xid,
        version,
        credits,
        body,
    } = *header;
    let (direction, chunks, long) = match body {
        Body::Msg {
            direction, chunks, ..
        } => (direction, chunks, false),
        Body::NoMsg { direction, chunks } => (direction, chunks, true),
        Body::Error(rejection) => {
            let mut out = vec![0; 28];
            let len = encode_error(xid, version, credits, rejection, &mut out).unwrap();
            out.truncate(len);
            return out;
        }
        Body::Optional { .. } => return vec![],
    };
    let read: Vec<ReadSegment> = chunks.read.segments().collect();
    let write: Vec<Vec<Segment>> = chunks
        .write
        .chunks()
        .map(|c| c.segments().collect())
        .collect();
    let write: Vec<&[Segment]> = write.iter().map(Vec::as_slice).collect();
    let reply: Option<Vec<Segment>> = chunks.reply.map(|chunk| chunk.segments().collect());
    let reply = reply.as_deref();
    let header = RpcHeader {
        xid,
        credits,
        direction,
        long,
        read: &read,
        write: &write,
        reply,
    };
    let mut out = vec![0; 8192];
    let len = header.encode(&mut out).unwrap();
    out.truncate(len);
    out
}

/// Properties of any bytes that come from the wire.
fn survives(bytes: &[u8]) -> Result<(), TestCaseError> {
    let decoded = Header::decode(bytes);
    prop_assert_eq!(decoded == Err(DecodeError::NoPrefix), bytes.len() < 16);
    if let Ok(header) = &decoded {
        prop_assert!(bytes.starts_with(&again(header)));
    }
    let is_error = bytes.get(12..16) == Some(&[0, 0, 0, 4]);
    for side in [Side::Client, Side::Server] {
        for stage in [Stage::Open, Stage::Fixed] {
            match receive(side, stage, bytes) {
                Received::Message(Incoming::Control {
                    xid,
                    credits,
                    message,
                    ..
                }) => {
                    let operation = owned(&message.operation);
                    let bytes = encode(&operation, xid, credits);
                    let Ok(Body::Optional { info, .. }) = Header::decode(&bytes).map(|h| h.body)
                    else {
                        return Err(TestCaseError::fail("no operation"));
                    };
                    let found = Operation::decode(operation.code, info).map(|o| owned(&o));
                    prop_assert_eq!(found, Ok(operation));
                }
                Received::Message(message) => {
                    let error = matches!(message, Incoming::Error { .. });
                    prop_assert_eq!(error, is_error);
                    prop_assert!(!error || message.direction() == Direction::Reply);
                }
                // V1-114: no reply to an error, nor to a message marked as a reply.
                Received::Reject { xid, .. } => {
                    prop_assert!(!is_error && bytes.starts_with(&xid.to_be_bytes()));
                    let has_direction = matches!(bytes[12..16], [0, 0, 0, 0 | 1 | 5]);
                    let is_reply = bytes.get(16..20) == Some(&[0, 0, 0, 1]);
                    prop_assert!(!(has_direction && is_reply));
                }
                Received::Malformed { xid, .. } => {
                    prop_assert!(bytes.starts_with(&xid.to_be_bytes()));
                    prop_assert_eq!(&bytes[16..20], &[0, 0, 0, 1]);
                }
                Received::Discard(why) => prop_assert!(!why.as_str().is_empty()),
                Received::Version { version, .. } => prop_assert!(version != 2 && !is_error),
                Received::Later(later) => {
                    prop_assert_eq!(stage, Stage::Open);
                    prop_assert_eq!(matches!(later, Later::Error { .. }), is_error);
                }
            }
        }
    }
    Ok(())
}

proptest! {
    // V2-31, V2-32, V2-37, V2-54: an encoded header decodes to the same.
    #[test]
    fn headers_round_trip(lists in lists(), reply: bool, payload in vec(any::<u8>(), 0..100)) {
        let direction = if reply { Direction::Reply } else { Direction::Call };
        let write: Vec<&[Segment]> = lists.write.iter().map(Vec::as_slice).collect();
        let header = RpcHeader {
            xid: lists.xid,
            credits: lists.credits,
            direction,
            long: lists.long,
            read: &lists.read,
            write: &write,
            reply: lists.reply.as_deref(),
        };
        let mut bytes = vec![0xee; 8192];
        let len = header.encode(&mut bytes).unwrap();
        // The header of version 1 and a direction word.
        let first = lists.bytes();
        prop_assert_eq!(len, first.len() + 4);
        prop_assert_eq!(&bytes[20..len], &first[16..]);
        bytes.truncate(len);
        bytes.extend(&payload);
        let found = Header::decode(&bytes).unwrap();
        prop_assert_eq!((found.xid, found.version, found.credits), (lists.xid, 2, lists.credits));
        prop_assert_eq!(again(&found), &bytes[..len]);
        match found.body {
            Body::Msg { direction: found, payload: rest, .. } => {
                prop_assert_eq!((found, rest, lists.long), (direction, &payload[..], false));
            }
            Body::NoMsg { direction: found, .. } => {
                prop_assert_eq!((found, lists.long), (direction, true));
            }
            _ => return Err(TestCaseError::fail("not an RPC message")),
        }
    }

    // V2-13, V2-40, V2-49: errors of any version.
    #[test]
    fn errors_round_trip(xid: u32, version: u32, credits: u32, low: u32, high: u32, kind in 0..3) {
        let rejection = match kind {
            0 => Rejection::Version { low, high },
            1 => Rejection::BadHeader,
            _ => Rejection::InvalidOption,
        };
        let mut out = [0xee; 40];
        let len = encode_error(xid, version, credits, rejection, &mut out).unwrap();
        prop_assert!(out[len..].iter().all(|&byte| byte == 0xee));
        let expected = Header { xid, version, credits, body: Body::Error(rejection) };
        prop_assert_eq!(Header::decode(&out[..len]), Ok(expected));
    }

    // XC-2, XC-3, XC-9, XC-15, XC-16, XC-19: an encoded operation decodes to the same.
    #[test]
    fn operations_round_trip(operation in operation(), xid: u32, credits in word(), tail: bool) {
        let mut bytes = encode(&operation, xid, credits);
        bytes.extend(vec![0; usize::from(tail) * 4]);
        for side in [Side::Client, Side::Server] {
            match receive(side, Stage::Fixed, &bytes) {
                Received::Message(Incoming::Control { xid: x, credits: c, message, direction }) => {
                    prop_assert_eq!((x, c, message.trailing), (xid, credits, tail));
                    prop_assert_eq!(direction, operation.code.direction());
                    let mut expected = operation.clone();
                    for subset in &mut expected.subsets {
                        while subset.last() == Some(&0) {
                            subset.pop();
                        }
                    }
                    prop_assert_eq!(owned(&message.operation), expected);
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    // XC-10, XC-20, XC-28: an operation cut anywhere, or with a word too many, gives nothing.
    #[test]
    fn cut_operations(operation in operation(), at: prop::sample::Index) {
        let bytes = encode(&operation, 1, 1);
        let info = &bytes[28..];
        let cut = &info[..at.index(info.len())];
        prop_assert!(Operation::decode(operation.code, cut).is_err());
        let longer = [info, &[0; 4]].concat();
        prop_assert!(Operation::decode(operation.code, &longer).is_err());
    }

    // V2-47, V2-58: bytes without any sense.
    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..256)) {
        survives(&bytes)?;
    }

    // V2-47, V2-58, XC-4, XC-20, XC-28: vectors with a few words replaced, cut at any length.
    #[test]
    fn spoiled_vectors(
        vector in 0..VECTORS.len(),
        spoils in vec((any::<prop::sample::Index>(), word()), 0..4),
        len: prop::sample::Index,
        cut: bool,
    ) {
        let mut bytes: Vec<u8> = VECTORS[vector].iter().flat_map(|w| w.to_be_bytes()).collect();
        for (at, word) in spoils {
            let at = at.index(bytes.len() / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        if cut {
            bytes.truncate(len.index(bytes.len()));
        }
        survives(&bytes)?;
    }
}
