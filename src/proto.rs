// SPDX-License-Identifier: GPL-2.0

//! The protocol, decided purely: bytes in, typed values out.
//!
//! Nothing here allocates, reads a clock or knows the kernel, so the same files are compiled into
//! the module and into the host crate that tests and fuzzes them. All that comes from the wire is
//! hostile; every count is checked against the bytes left before anything loops over it, and no
//! input makes these functions panic.
//!
//! | module | decides |
//! |---|---|
//! | [`private_data`] | the sizes that both ends announce, and the inline thresholds |
//! | [`credits`] | the calls that may be outstanding |
//! | [`plan`] | the question and the answer before a call is sent |
//! | [`call_header`] | the header of a call, before it is written |
//! | [`incoming`] | the kind of a message that a client received |
//! | [`reply`], [`returned`] | whether a reply keeps to the chunks that its call offered |
//! | [`responder`] | the arguments of a call that a server has received, and the plan of its reply |
//! | [`wire`] | all of these in the version that a connection speaks: **the door for other rooms** |
//! | [`prefix`], [`error`] | the first words of a message and `RDMA_ERROR`, alike in all versions |
//! | [`chunk`], [`segments`] | segments and their lists, and how many a transfer takes |
//! | [`rpc`] | the few RPC messages that a transport writes itself |
//! | [`v1`] | the bytes of version 1, and the plans, which count with the lengths of its headers |
//! | [`neutral`] | what a message means, in types of no version |
//! | [`v2`] | the bytes and the meaning of messages in version 2 |
//!
//! # Examples
//!
//! A client's read of 64 KiB, from the private data to the reply; the test below is the same.
//!
//! ```ignore
//! # use crate::proto::*;
//! # fn example(
//! #     own: &PrivateData,
//! #     accepted: &[u8],
//! #     shape: &impl Shape,
//! #     segment: Segment,
//! #     xid: u32,
//! #     buffer: &mut [u8],
//! #     message: &[u8],
//! # ) -> Option<()> {
//! let peer = PrivateData::find(accepted).unwrap_or_default();
//! let limits = PlanLimits {
//!     thresholds: Thresholds::for_client(own, &peer),
//!     page_size: 4096,
//!     pages_per_segment: 256,
//!     max_segments: 8,
//! };
//! let wire = Wire::V1;
//! let plan = wire.plan(shape, &limits).ok()?; // Inline, with a Write chunk for the reply.
//!
//! let write = [segment]; // The memory is registered as planned.
//! let chunks = Chunks { write: &write, ..Chunks::default() };
//! let header = CallHeader { xid, credits: 32, long: false, chunks };
//! let len = wire.encode(&header, buffer).ok()?; // The RPC call follows.
//!
//! let Incoming::Reply(reply) = wire.receive(message) else { return None };
//! let offered = Offered { write: &write, reply: &[] };
//! match reply::check(&reply, &offered).ok()?.placed {
//!     Placed::WriteChunk { length } => (), // `length` bytes are in memory, the rest inline.
//!     Placed::Inline | Placed::ReplyChunk { .. } => (),
//! }
//! # Some(())
//! # }
//! ```
//!
//! Source: RFC 8166 (the protocol), RFC 8167 (both directions on one connection) and RFC 8797
//! (private data); `Documentation/requirements.rst` lists their requirements.

#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

pub(crate) mod call_header;
pub(crate) mod chunk;
pub(crate) mod credits;
pub(crate) mod defect;
pub(crate) mod error;
pub(crate) mod incoming;
#[allow(dead_code, reason = "the tests alone use some of it")]
pub(crate) mod neutral;
pub(crate) mod plan;
pub(crate) mod prefix;
pub(crate) mod private_data;
pub(crate) mod reply;
pub(crate) mod responder;
pub(crate) mod returned;
pub(crate) mod rpc;
pub(crate) mod segments;
pub(crate) mod v1;
#[allow(
    dead_code,
    reason = "tests use what the ends do not: other codes, and words for defects"
)]
pub(crate) mod v2;
#[cfg(any(test, CONFIG_KUNIT = "y"))]
pub(crate) mod vectors;
pub(crate) mod wire;
pub(crate) mod xdr;

// The names that other rooms and the tests use, so that they need not know the files.
#[allow(
    unused_imports,
    reason = "some are used by the properties and fuzz targets alone"
)]
pub(crate) use self::{
    call_header::{
        CallHeader,
        Chunks,
        EncodeError, //
    },
    chunk::{
        ChunkLists,
        ReadList,
        ReadSegment,
        Segment,
        WriteChunk,
        WriteList, //
    },
    defect::Defect,
    error::RdmaError,
    incoming::{
        Incoming,
        Reason,
        Reply,
        Returned, //
    },
    plan::{
        CallMode,
        Plan,
        PlanError,
        PlanLimits,
        ReplyMode,
        Shape,
        Sole, //
    },
    private_data::{
        InlineSize,
        PrivateData,
        Thresholds, //
    },
    reply::{
        Checked,
        Placed, //
    },
    returned::{
        Malformed,
        Offered, //
    },
    rpc::Program,
    v2::{
        exchange,
        negotiate::{
            self,
            Versions, //
        },
        peers, //
    },
    wire::Wire, //
};

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_proto))]
mod tests {
    use super::{
        vectors::CallShape,
        *, //
    };

    // The example of the room.
    #[test]
    fn a_read_of_64_kib() {
        let own = PrivateData::default();
        let peer = PrivateData::find(&[]).unwrap_or_default();
        let limits = PlanLimits {
            thresholds: Thresholds::for_client(&own, &peer),
            page_size: 4096,
            pages_per_segment: 256,
            max_segments: 8,
        };
        let shape = CallShape {
            send_len: 132,
            recv_max: 65_536 + 132,
            recv_pages: 65_536,
            recv_eligible: true,
            ..CallShape::default()
        };
        let expected = Plan {
            call: CallMode::Inline,
            reply: ReplyMode::WriteChunk,
            call_segments: 0,
            reply_segments: 1,
        };
        let wire = Wire::V1;
        assert_eq!(wire.plan(&shape, &limits), Ok(expected));

        let write = [Segment {
            handle: 0x2101,
            length: 65_536,
            offset: 0x10000,
        }];
        let header = CallHeader {
            xid: 7,
            credits: 32,
            long: false,
            chunks: Chunks {
                write: &write,
                ..Chunks::default()
            },
        };
        let mut buffer = [0; 60];
        assert_eq!(wire.encode(&header, &mut buffer), Ok(52));

        // The reply has the same header, with xid and direction behind it.
        if let Some(payload) = buffer.last_chunk_mut() {
            *payload = [0, 0, 0, 7, 0, 0, 0, 1];
        }
        let offered = Offered {
            write: &write,
            reply: &[],
        };
        let placed = Placed::WriteChunk { length: 65_536 };
        assert!(matches!(
            wire.receive(&buffer),
            Incoming::Reply(reply)
                if reply::check(&reply, &offered).is_ok_and(|checked| checked.placed == placed)
        ));
    }
}
