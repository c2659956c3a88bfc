// SPDX-License-Identifier: GPL-2.0

//! Any bytes as a message of version 2, at both ends (V2-47, V2-50, V2-58, V2-64, XC-4, XC-20): what
//! decodes encodes to the same bytes again, and nothing gets a reply that must not.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../../src"]
mod module {
    #[allow(dead_code, unused_imports, reason = "a target uses a part of it")]
    pub(crate) mod proto;
}

use module::proto::{
    neutral::{Incoming, Side},
    v2::{
        characteristics::{Entry, Set},
        encode::{encode_error, RpcHeader},
        header::{Body, Header},
        operations::Operation,
        optional::Outgoing,
        receive::{receive, Received, Stage},
    },
    ReadSegment, Segment,
};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = Header::decode(bytes) {
        check(&header, bytes);
    }
    for side in [Side::Client, Side::Server] {
        for stage in [Stage::Open, Stage::Fixed] {
            match receive(side, stage, bytes) {
                Received::Message(Incoming::Control {
                    xid,
                    credits,
                    message,
                    ..
                }) => {
                    operation(xid, credits, &message.operation, bytes.len());
                }
                Received::Message(_) | Received::Version { .. } => {}
                Received::Reject { xid, .. } => {
                    assert!(bytes.starts_with(&xid.to_be_bytes()));
                    assert_ne!(bytes[12..16], [0, 0, 0, 4]);
                }
                Received::Malformed { xid, .. } => {
                    assert!(bytes.starts_with(&xid.to_be_bytes()));
                    assert_eq!(bytes[16..20], [0, 0, 0, 1]);
                }
                Received::Discard(why) => assert!(!why.as_str().is_empty()),
                Received::Later(_) => assert_eq!(stage, Stage::Open),
            }
        }
    }
});

fn check(header: &Header<'_>, bytes: &[u8]) {
    let Header {
        xid,
        version,
        credits,
        body,
    } = *header;
    let mut out = vec![0xee; bytes.len()];
    let (direction, chunks, long) = match body {
        Body::Msg {
            direction, chunks, ..
        } => (direction, chunks, false),
        Body::NoMsg { direction, chunks } => (direction, chunks, true),
        Body::Error(rejection) => {
            let len = encode_error(xid, version, credits, rejection, &mut out).unwrap();
            assert_eq!(out[..len], bytes[..len]);
            return;
        }
        Body::Optional { info, payload, .. } => {
            assert_eq!(bytes[28..28 + info.len()], *info);
            assert!(bytes.ends_with(payload));
            return;
        }
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
    let len = header.encode(&mut out).unwrap();
    assert_eq!(out[..len], bytes[..len]);
}

fn entries(set: Set<'_>) -> Vec<Entry<'_>> {
    let entries: Vec<Entry<'_>> = set.entries().collect();
    assert_eq!(entries.len(), set.len());
    entries
}

/// Encodes an operation again; it is no longer, and decodes to the same.
fn operation(xid: u32, credits: u32, operation: &Operation<'_>, room: usize) {
    let mut out = vec![0xee; room];
    let mut subsets: Vec<Vec<u32>> = Vec::new();
    let mut set = Vec::new();
    match *operation {
        Operation::Initxch { start, nochg } => {
            set = entries(start);
            subsets.push(nochg.words().collect());
            nochg.exceeds(set.len());
        }
        Operation::Reqxch { want } => set = entries(want),
        Operation::Respxch(response) => {
            let all = [response.done, response.rej, response.pend];
            subsets.extend(all.map(|subset| subset.words().collect::<Vec<u32>>()));
            for at in 0..100 {
                let (_, one) = response.outcome(at);
                let named = all.iter().filter(|subset| subset.contains(at)).count();
                assert_eq!(one, named == 1);
            }
        }
        Operation::Updxch { now, .. } => set = vec![now],
    }
    let outgoing = match *operation {
        Operation::Initxch { .. } => Outgoing::Initxch {
            start: &set,
            nochg: &subsets[0],
        },
        Operation::Reqxch { .. } => Outgoing::Reqxch { want: &set },
        Operation::Respxch(_) => Outgoing::Respxch {
            done: &subsets[0],
            rej: &subsets[1],
            pend: &subsets[2],
        },
        Operation::Updxch { now, pendclr } => Outgoing::Updxch { now, pendclr },
    };
    let len = outgoing.encode(xid, credits, &mut out).unwrap();
    let found = Operation::decode(outgoing.code(), &out[28..len]).unwrap();
    match (found, *operation) {
        (Operation::Initxch { start, .. }, _) => assert_eq!(entries(start), set),
        (Operation::Reqxch { want }, _) => assert_eq!(entries(want), set),
        (Operation::Respxch(found), Operation::Respxch(given)) => {
            for at in 0..1000 {
                assert_eq!(found.outcome(at), given.outcome(at));
            }
        }
        (found, given) => assert_eq!(found, given),
    }
}
