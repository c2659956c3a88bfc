// SPDX-License-Identifier: GPL-2.0

//! Any bytes as a message to a server, and any reply to it (V1-14, V1-15..V1-20, V1-79, V1-80, V1-114, V1-130): the
//! server reads and writes no memory but what the message offers, and sends no more than the client takes.
//!
//! The first bytes say how long the reply is, where its results are, and what the client takes; then comes the message.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../../src"]
mod module {
    #[allow(dead_code, unused_imports, reason = "a target uses a part of it")]
    pub(crate) mod proto;
}

#[path = "../../src/served_call.rs"]
#[allow(dead_code, reason = "properties use the rest")]
mod served_call;

use module::proto::{
    exchange,
    neutral::Optional,
    responder::{
        received::{Call, Received},
        reply::{Part, ReplyLimits, ReplyShape},
    },
    v1::header::Header,
    RdmaError, Wire,
};

/// Bytes of the reply before each message.
const SHAPE_LEN: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((shape, message)) = bytes.split_first_chunk::<SHAPE_LEN>() else {
        return;
    };
    match Wire::V1.receive_call(message) {
        Received::Call(call) => {
            assert!(message.starts_with(&call.xid.to_be_bytes()));
            served_call::rebuild(&call);
            serve(Wire::V1, &call, shape);
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
        Received::Operation(_) | Received::BadResponse { .. } => {
            panic!("an operation in version 1")
        }
    }
    second(message, shape);
});

/// The message in version 2: a call is one in version 1 without the direction.
fn second(message: &[u8], shape: &[u8; SHAPE_LEN]) {
    match Wire::V2.receive_call(message) {
        Received::Call(call) => {
            let first = [
                &message[..4],
                &[0, 0, 0, 1],
                &message[8..16],
                &message[20..],
            ]
            .concat();
            assert_eq!(message[16..20], [0; 4]);
            assert_eq!(Wire::V1.receive_call(&first), Received::Call(call));
            serve(Wire::V2, &call, shape);
        }
        Received::ReverseReply { payload, .. } => {
            assert!(message.ends_with(payload) && message.len() - payload.len() == 32);
        }
        Received::Reject {
            xid,
            version,
            error,
            ..
        } => {
            let mut out = [0; RdmaError::LONGEST];
            error.encode(xid, version, 1, &mut out).unwrap();
            assert_eq!(message[..8], out[..8]);
            assert_ne!(message[12..16], [0, 0, 0, 4]);
        }
        Received::Operation(arrived) => {
            assert!(message.starts_with(&arrived.xid.to_be_bytes()));
            operate(&arrived);
        }
        Received::BadResponse { xid } => assert!(message.starts_with(&xid.to_be_bytes())),
        Received::ReverseError { .. } | Received::Drop(_) => (),
    }
}

/// Takes an operation at either end: all responses can be written.
fn operate(arrived: &Optional<'_>) {
    for side in [exchange::Side::Client, exchange::Side::Server] {
        let setup = exchange::Setup {
            side,
            requested: 32,
            told: 4096,
            buffers: 16384,
            receive: 8192,
            reply: 4096,
            max: 65536,
        };
        let own = exchange::Own {
            invalidation: true,
            reverse: true,
        };
        let mut end = exchange::Exchange::new(&setup, own, 32);
        let mut messages = vec![end.next(7)];
        let effect = end.receive(arrived, 4096);
        messages.extend([effect.respond.map(exchange::Message::Response), end.next(7)]);
        for message in messages.into_iter().flatten() {
            assert!(message.write(1, &mut [0; 256]).is_ok());
        }
        let limits = end.limits();
        assert!((1024..=16384).contains(&limits.send) && limits.reply <= 8192);
    }
}

/// Serves a call with a reply and with limits that these bytes say.
fn serve(wire: Wire, call: &Call<'_>, shape: &[u8; SHAPE_LEN]) {
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
    served_call::serve(wire, call, &shape, &limits);
}
