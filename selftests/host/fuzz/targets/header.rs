// SPDX-License-Identifier: GPL-2.0

//! Any bytes as a message: a decoded header encodes to the same bytes again (V1-1, V1-15..V1-20,
//! V1-105).

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../../src"]
mod module {
    #[allow(dead_code, unused_imports, reason = "a target uses a part of it")]
    pub(crate) mod proto;
}

use module::proto::{
    v1::{
        header::{Body, Header},
        lists::ListsHeader,
    },
    ChunkLists, ReadSegment, Segment, Wire,
};

fuzz_target!(|bytes: &[u8]| {
    let header = match Header::decode(bytes) {
        Ok(header) => header,
        Err(_) => return,
    };
    let mut out = vec![0xee; bytes.len()];
    let len = match &header.body {
        Body::Msg { chunks, payload } => {
            let len = encode(&header, chunks, false, &mut out);
            assert_eq!(bytes[len..], **payload);
            len
        }
        Body::NoMsg { chunks } => encode(&header, chunks, true, &mut out),
        Body::Error(error) => {
            let Header {
                xid,
                version,
                credits,
                ..
            } = header;
            let result = Wire::V1.encode_error(xid, version, credits, error, &mut out);
            result.unwrap()
        }
    };
    assert_eq!(out[..len], bytes[..len]);
});

fn encode(header: &Header<'_>, chunks: &ChunkLists<'_>, long: bool, out: &mut [u8]) -> usize {
    let read: Vec<ReadSegment> = chunks.read.segments().collect();
    assert_eq!(read.len(), chunks.read.len());
    let write: Vec<Vec<Segment>> = chunks
        .write
        .chunks()
        .map(|chunk| chunk.segments().collect())
        .collect();
    assert_eq!(write.len(), chunks.write.len());
    let write: Vec<&[Segment]> = write.iter().map(Vec::as_slice).collect();
    let reply: Option<Vec<Segment>> = chunks.reply.map(|chunk| chunk.segments().collect());
    let header = ListsHeader {
        xid: header.xid,
        credits: header.credits,
        long,
        read: &read,
        write: &write,
        reply: reply.as_deref(),
    };
    header.encode(out).unwrap()
}
