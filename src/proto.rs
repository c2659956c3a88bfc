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
//! | [`private_data`] | what both ends say about themselves, and the inline thresholds |
//! | [`credits`] | how many calls may be unanswered |
//! | [`chunk`], [`segments`] | segments and their lists, and how many a transfer takes |
//! | [`rpc`] | the few RPC messages that a transport writes itself |
//! | [`v1::plan`] | which transfer mode a call and its reply use |
//! | [`v1::page_chunk`] | both for the usual call with a chunk |
//! | [`v1::encode`], [`v1::message`] | the bytes of a transport header, or a whole message, we send |
//! | [`v1::header`] | what a received transport header says |
//! | [`v1::incoming`] | what a client makes of a received message |
//! | [`v1::reply`] | whether a reply keeps to what its call offered |
//! | [`v1::usual`] | both in one look, for the usual replies |
//! | [`v1::call`] | what a responder makes of a received message |
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
// The codec is symmetric and the module's two ends use one half each; the tests use both.
#![allow(dead_code)]

pub(crate) mod chunk;
pub(crate) mod credits;
pub(crate) mod defect;
pub(crate) mod private_data;
pub(crate) mod rpc;
pub(crate) mod segments;
pub(crate) mod v1;
#[cfg(any(test, CONFIG_KUNIT = "y"))]
pub(crate) mod vectors;
pub(crate) mod xdr;

// A room that needs one name of a file should not depend on which file it is in.
#[allow(unused_imports)]
pub(crate) use self::{
    chunk::{
        ChunkLists,
        ReadList,
        ReadSegment,
        Segment,
        WriteChunk,
        WriteList, //
    },
    defect::Defect,
    private_data::{
        InlineSize,
        PrivateData,
        Thresholds, //
    },
    rpc::Program,
    v1::{
        encode::{
            encode_bare_header,
            encode_error,
            CallHeader,
            EncodeError, //
        },
        header::{
            Body,
            DecodeError,
            Header,
            RdmaError, //
        },
        incoming::{
            classify,
            Discard,
            Incoming,
            Reply, //
        },
        message::{
            encode_null_call,
            encode_system_error, //
        },
        page_chunk::PageChunk,
        plan::{
            is_inline,
            plan,
            CallMode,
            CallShape,
            Limits,
            Plan,
            PlanError,
            ReplyMode, //
        },
        reply::{
            Malformed,
            Offered,
            Placed, //
        },
        usual::{
            usual,
            UsualReply, //
        }, //
    }, //
};
