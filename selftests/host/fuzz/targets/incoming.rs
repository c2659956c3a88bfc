// SPDX-License-Identifier: GPL-2.0

//! Any bytes as a message to a client with a call without a reply (V1-82, V1-89..V1-102, BI-28).
//!
//! The first two bytes say how many segments the call offered in a Write chunk and in a Reply
//! chunk; then comes the length of each, then the message.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../../src"]
mod module {
    #[allow(dead_code, unused_imports, reason = "a target uses a part of it")]
    pub(crate) mod proto;
}

use module::proto::{reply, ChunkLists, Incoming, Offered, Placed, Returned, Segment, Wire};

fuzz_target!(|bytes: &[u8]| {
    let Some((&[writes, replies], rest)) = bytes.split_first_chunk() else {
        return;
    };
    let Some((write, rest)) = segments(writes, rest) else {
        return;
    };
    let Some((reply_chunk, message)) = segments(replies, rest) else {
        return;
    };
    let offered = Offered {
        write: &write,
        reply: &reply_chunk,
    };
    match Wire::V1.receive(message) {
        Incoming::Reply(reply) => {
            check(&reply, &offered);
            // The same as by a walk over its lists.
            let (lists, _) = ChunkLists::decode(&message[16..]).unwrap();
            let long = reply.payload.is_empty();
            let chunks = Returned::Lists { lists, long };
            let walked = module::proto::Reply { chunks, ..reply };
            let checked = reply::check(&reply, &offered);
            assert_eq!(checked, reply::check(&walked, &offered));
        }
        Incoming::ReverseCall { xid, payload, .. } => {
            assert!(message.ends_with(payload));
            assert_eq!(message.len() - payload.len(), 28);
            assert_eq!(payload[..8], [xid.to_be_bytes(), [0; 4]].concat());
        }
        Incoming::BadReverseCall { version, .. } => assert_eq!(version, 1),
        Incoming::Operation(_) | Incoming::BadResponse { .. } => {
            panic!("an operation in version 1")
        }
        Incoming::Error { .. } => assert!(message.len() >= 20),
        Incoming::Unusable { xid, why } => {
            assert!(message.starts_with(&xid.to_be_bytes()) && !why.as_str().is_empty());
        }
        Incoming::Discard(reason) => {
            assert!(message.len() < 16 && !reason.as_str().is_empty());
        }
    }
    second(message, &offered);
});

/// The message in version 2: a reply is one in version 1 without the direction.
fn second(message: &[u8], offered: &Offered<'_>) {
    match Wire::V2.receive(message) {
        Incoming::Reply(reply) => {
            let first = [
                &message[..4],
                &[0, 0, 0, 1],
                &message[8..16],
                &message[20..],
            ]
            .concat();
            assert_eq!(message[16..20], [0, 0, 0, 1]);
            let Incoming::Reply(same) = Wire::V1.receive(&first) else {
                panic!("no reply in version 1");
            };
            assert_eq!((same.credits, same.payload), (reply.credits, reply.payload));
            assert_eq!(reply::check(&same, offered), reply::check(&reply, offered));
            check(&reply, offered);
        }
        Incoming::ReverseCall { payload, .. } => {
            assert!(message.ends_with(payload) && message.len() - payload.len() == 32);
        }
        Incoming::BadReverseCall { version, .. } => assert_eq!(version, 2),
        Incoming::Unusable { xid, .. } => assert!(message.starts_with(&xid.to_be_bytes())),
        Incoming::Operation(_) | Incoming::BadResponse { .. } => (),
        Incoming::Error { .. } | Incoming::Discard(_) => (),
    }
}

fn check(reply: &module::proto::Reply<'_>, offered: &Offered<'_>) {
    let total = |segments: &[Segment]| segments.iter().map(|s| u64::from(s.length)).sum::<u64>();
    match reply::check(reply, offered).map(|checked| checked.placed) {
        Ok(Placed::Inline) => assert!(!reply.payload.is_empty()),
        Ok(Placed::WriteChunk { length }) => {
            assert!(!reply.payload.is_empty() && !offered.write.is_empty());
            assert!(u64::from(length) <= total(offered.write));
        }
        Ok(Placed::ReplyChunk { length }) => {
            assert!(reply.payload.is_empty() && !offered.reply.is_empty());
            assert!(length >= 20 && u64::from(length) <= total(offered.reply));
        }
        Err(reason) => assert!(!reason.as_str().is_empty()),
    }
}

/// Up to 15 segments with lengths from the front of `bytes`, and the bytes after them.
fn segments(count: u8, bytes: &[u8]) -> Option<(Vec<Segment>, &[u8])> {
    let (lengths, rest) = bytes.split_at_checked(usize::from(count % 16) * 4)?;
    let segments = lengths.chunks_exact(4).map(|length| Segment {
        handle: 1,
        length: u32::from_be_bytes(length.try_into().unwrap()),
        offset: 0,
    });
    Some((segments.collect(), rest))
}
