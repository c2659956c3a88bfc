// SPDX-License-Identifier: GPL-2.0

//! Properties of all inputs, tried on random ones.

mod connection;
mod dissection;
mod lives;
mod messages;
mod plans;
mod queue;
mod received;
mod replies;
mod requests;
mod responder;
mod rules;
mod sizes;
mod v2;
mod v2_messages;
mod words;

use proptest::{collection::vec, prelude::*};

use crate::module::proto::{v1::lists::ListsHeader, ReadSegment, Segment, Wire};

/// A version of the protocol.
fn wire() -> impl Strategy<Value = Wire> {
    prop_oneof![Just(Wire::V1), Just(Wire::V2)]
}

/// A word that is often small, as counts, lengths and flags are.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![0..4_u32, 0..5000_u32, any::<u32>()]
}

fn segment() -> impl Strategy<Value = Segment> {
    (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(handle, length, offset)| Segment {
        handle,
        length,
        offset,
    })
}

fn read_segment() -> impl Strategy<Value = ReadSegment> {
    (any::<u32>(), segment()).prop_map(|(position, segment)| ReadSegment { position, segment })
}

/// The fields of a header with chunk lists, owned.
#[derive(Clone, Debug)]
struct Lists {
    xid: u32,
    credits: u32,
    long: bool,
    read: Vec<ReadSegment>,
    write: Vec<Vec<Segment>>,
    reply: Option<Vec<Segment>>,
}

impl Lists {
    /// The bytes of the header.
    fn bytes(&self) -> Vec<u8> {
        let write: Vec<&[Segment]> = self.write.iter().map(Vec::as_slice).collect();
        let header = ListsHeader {
            xid: self.xid,
            credits: self.credits,
            long: self.long,
            read: &self.read,
            write: &write,
            reply: self.reply.as_deref(),
        };
        let mut out = vec![0xee; 8192];
        let len = header.encode(&mut out).expect("8192 bytes are enough");
        assert!(out[len..].iter().all(|&byte| byte == 0xee));
        out.truncate(len);
        out
    }

    fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty() && self.reply.is_none()
    }
}

/// Any lists; the lists of a Long message are never all empty.
fn lists() -> impl Strategy<Value = Lists> {
    (
        any::<u32>(),
        word(),
        any::<bool>(),
        vec(read_segment(), 0..20),
        vec(vec(segment(), 0..8), 0..6),
        proptest::option::of(vec(segment(), 0..20)),
    )
        .prop_map(|(xid, credits, long, read, write, reply)| {
            let lists = Lists {
                xid,
                credits,
                long,
                read,
                write,
                reply,
            };
            let long = long && !lists.is_empty();
            Lists { long, ..lists }
        })
}
