// SPDX-License-Identifier: GPL-2.0

//! Headers: encoding and decoding are inverse, and no bytes confuse the decoders.

use proptest::{collection::vec, prelude::*};

use super::{lists, read_segment, segment, wire, word, Lists};
use crate::module::proto::{
    chunk::{read_list_len, reply_chunk_len, write_list_len},
    neutral::Direction,
    responder::received::{Reason, Received},
    v1::{
        header::{Body, DecodeError, Header},
        lists::ListsHeader,
    },
    xdr, CallHeader, ChunkLists, Chunks, EncodeError, Incoming, RdmaError, Returned, Wire,
};

/// The decoded lists, owned.
fn owned(header: &Header<'_>, chunks: &ChunkLists<'_>, long: bool) -> Lists {
    Lists {
        xid: header.xid,
        credits: header.credits,
        long,
        read: chunks.read.segments().collect(),
        write: chunks
            .write
            .chunks()
            .map(|chunk| chunk.segments().collect())
            .collect(),
        reply: chunks.reply.map(|chunk| chunk.segments().collect()),
    }
}

/// Words, many of which look like part of a header, cut at any byte.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    (any::<u32>(), vec(word(), 0..40), 0..4_usize, any::<bool>()).prop_map(
        |(xid, words, cut, plausible)| {
            let mut bytes = Vec::new();
            if plausible {
                bytes.extend([xid, 1, 32].iter().flat_map(|word| word.to_be_bytes()));
            }
            bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            bytes.truncate(bytes.len().saturating_sub(cut));
            bytes
        },
    )
}

/// Properties of any bytes that come from the wire.
fn survives(bytes: &[u8]) -> Result<(), TestCaseError> {
    match Wire::V1.receive(bytes) {
        Incoming::Reply(reply) => {
            // It is the one that the header decodes to.
            let header = Header::decode(bytes).unwrap();
            prop_assert_eq!((reply.xid, reply.credits), (header.xid, header.credits));
            match header.body {
                Body::Msg { payload, .. } => {
                    prop_assert!(payload.len() >= 8);
                    prop_assert_eq!(reply.payload, payload);
                }
                Body::NoMsg { .. } => prop_assert!(reply.payload.is_empty()),
                Body::Error(_) => return Err(TestCaseError::fail("an error")),
            }
        }
        Incoming::ReverseCall { payload, .. } => {
            prop_assert_eq!(bytes.len() - payload.len(), 28)
        }
        Incoming::BadReverseCall { version, .. } => prop_assert_eq!(version, 1),
        Incoming::Operation(_) => return Err(TestCaseError::fail("an operation")),
        Incoming::Error { .. } | Incoming::Unusable { .. } | Incoming::Discard(_) => {}
        Incoming::BadResponse { .. } => prop_assert!(false, "operations are of version 2"),
    }
    match Wire::V1.receive_call(bytes) {
        // V1-114: no reply to an error, valid or not.
        Received::Reject { .. } => prop_assert_ne!(bytes.get(12..16), Some(&[0, 0, 0, 4][..])),
        Received::Drop(reason) => prop_assert_eq!(reason == Reason::Short, bytes.len() < 16),
        _ => {}
    }
    let header = match Header::decode(bytes) {
        Ok(header) => header,
        Err(error) => {
            prop_assert_eq!(error == DecodeError::NoPrefix, bytes.len() < 16);
            return Ok(());
        }
    };
    // A header has one encoding, so writing it again gives the bytes it came from.
    match &header.body {
        Body::Msg { chunks, payload } => {
            let again = [owned(&header, chunks, false).bytes(), payload.to_vec()].concat();
            prop_assert_eq!(again, bytes);
        }
        Body::NoMsg { chunks } => {
            let again = owned(&header, chunks, true).bytes();
            prop_assert!(bytes.starts_with(&again));
        }
        Body::Error(_) => prop_assert!(bytes.len() >= 20),
    }
    Ok(())
}

proptest! {
    // V1-1, V1-10, V1-11: an encoded header decodes to the same.
    #[test]
    fn lists_round_trip(lists in lists(), payload in vec(any::<u8>(), 0..100)) {
        let mut bytes = lists.bytes();
        bytes.extend(&payload);
        let header = Header::decode(&bytes).unwrap();
        prop_assert_eq!(header.version, 1);
        prop_assert_eq!((header.xid, header.credits), (lists.xid, lists.credits));
        let (chunks, long) = match header.body {
            Body::Msg { chunks, payload: found } => {
                prop_assert_eq!(found, &payload[..]);
                (chunks, false)
            }
            Body::NoMsg { chunks } => (chunks, true),
            Body::Error(_) => return Err(TestCaseError::fail("an error")),
        };
        prop_assert_eq!(chunks.is_empty(), lists.is_empty());
        prop_assert_eq!(chunks.read.len(), lists.read.len());
        prop_assert_eq!(chunks.write.len(), lists.write.len());
        prop_assert_eq!(format!("{:?}", owned(&header, &chunks, long)), format!("{lists:?}"));
    }

    // V1-14, V1-54: the two encoders agree, and take the room that plans count with, no less and no
    // more.
    #[test]
    fn calls_round_trip(
        xid: u32,
        credits: u32,
        long: bool,
        read in vec(read_segment(), 0..8),
        write in vec(segment(), 0..8),
        reply in vec(segment(), 0..8),
        room in 0..600_usize,
    ) {
        let lists = Chunks { read: &read, write: &write, reply: &reply };
        let call = CallHeader { xid, credits, long, chunks: lists };
        let chunks = [write.as_slice()];
        let general = ListsHeader {
            xid,
            credits,
            long,
            read: &read,
            write: if write.is_empty() { &[] } else { &chunks },
            reply: (!reply.is_empty()).then_some(&reply),
        };
        let mut out = vec![0xee; room];
        let mut expected = vec![0xee; room];
        let [reads, writes, replies] = [read.len(), write.len(), reply.len()].map(|n| n as u64);
        let len =
            28 + read_list_len(reads) + write_list_len(writes) + reply_chunk_len(replies);
        let len = usize::try_from(len).unwrap();
        let result = Wire::V1.encode(&call, &mut out);
        prop_assert_eq!(general.encode(&mut expected), result);
        if long && read.is_empty() && write.is_empty() && reply.is_empty() {
            prop_assert_eq!(result, Err(EncodeError::NoLists));
        } else if room < len {
            prop_assert_eq!(result, Err(EncodeError::NoRoom));
        } else {
            prop_assert_eq!(result, Ok(len));
            prop_assert_eq!(&out, &expected);
            prop_assert!(out[len..].iter().all(|&byte| byte == 0xee));
        }
    }

    // V1-104..V1-106, V1-149: errors of any version.
    #[test]
    fn errors_round_trip(xid: u32, version: u32, credits: u32, low: u32, high: u32, bad: bool) {
        let error = if bad { RdmaError::BadHeader } else { RdmaError::Version { low, high } };
        let mut out = [0xee; 40];
        let len = Wire::V1.encode_error(xid, version, credits, &error, &mut out).unwrap();
        prop_assert_eq!(len, if bad { 20 } else { 28 });
        prop_assert!(out[len..].iter().all(|&byte| byte == 0xee));
        let expected = Header { xid, version, credits, body: Body::Error(error) };
        prop_assert_eq!(Header::decode(&out[..len]), Ok(expected));
        prop_assert_eq!(Header::decode(&out), Ok(expected));
    }

    // BI-22..BI-26: a reverse reply, read as the other end does.
    #[test]
    fn reverse_reply(
        wire in wire(),
        xid: u32,
        credits: u32,
        payload in vec(any::<u8>(), 0..100),
    ) {
        let header = wire.header_len();
        let mut out = vec![0; header];
        let len = wire.encode_reverse(xid, credits, Direction::Reply, &mut out);
        prop_assert_eq!(len, Ok(header));
        let message = [&out[..], &xid.to_be_bytes(), &[0, 0, 0, 1], &payload].concat();
        match wire.receive(&message) {
            Incoming::Reply(reply) => {
                prop_assert_eq!((reply.xid, reply.credits), (xid, credits));
                prop_assert_eq!(reply.chunks, Returned::None);
                prop_assert_eq!(reply.payload, &message[header..]);
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    // V1-15..V1-20: bytes without any sense.
    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..256)) {
        survives(&bytes)?;
    }

    // V1-15..V1-20: bytes with a little sense.
    #[test]
    fn plausible_bytes(bytes in noise()) {
        survives(&bytes)?;
    }

    // V1-15..V1-20: good messages with a few words replaced, cut at any length.
    #[test]
    fn spoiled_messages(
        lists in lists(),
        tail in vec(word(), 0..8),
        spoils in vec((any::<prop::sample::Index>(), word()), 0..4),
        len: prop::sample::Index,
        cut: bool,
    ) {
        let mut bytes = lists.bytes();
        bytes.extend(lists.xid.to_be_bytes());
        bytes.extend(tail.iter().flat_map(|word| word.to_be_bytes()));
        for (at, word) in spoils {
            let at = at.index(bytes.len() / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        if cut {
            bytes.truncate(len.index(bytes.len()));
        }
        survives(&bytes)?;
    }

    // V1-1: the cursors.
    #[test]
    fn cursors(words: [u32; 7], room in 0..40_usize) {
        let mut bytes = vec![0xee; room];
        let mut writer = xdr::Writer::new(&mut bytes);
        let result = writer.words(words);
        prop_assert_eq!(result.is_ok(), room >= 28);
        prop_assert_eq!(writer.written(), if room >= 28 { 28 } else { 0 });
        let mut reader = xdr::Reader::new(&bytes);
        prop_assert_eq!(reader.words(), (room >= 28).then_some(words));
        prop_assert!(reader.rest().iter().all(|&byte| byte == 0xee));
    }
}
