// SPDX-License-Identifier: GPL-2.0

//! Version 2 of the protocol, with transport characteristics: two drafts of 2016 that have expired,
//! `draft-cel-nfsv4-rpcrdma-version-two-01` ("v2-01") and
//! `draft-dnoveck-nfsv4-rpcrdma-xcharext-02` ("xchar").
//!
//! Chunk lists, segments, credits and `RDMA_ERROR` are as in version 1. Version 2 adds a direction
//! word in front of the lists, and `RDMA2_OPTIONAL`, whose operations exchange the characteristics
//! of the two ends.
//!
//! | module | decides |
//! |---|---|
//! | [`header`] | the parts of a received transport header |
//! | [`operations`], [`characteristics`] | the meaning of an `RDMA2_OPTIONAL` |
//! | [`receive`], [`check`] | the kind of a received message, and who is to hear of its defect |
//! | [`later`] | whether the peer speaks another text with this version number |
//! | [`encode`], [`optional`] | the bytes of a message |
//! | [`defect`] | the defects of a message |
//! | [`requester`], [`responder`] | the same in the terms of no version |
//! | [`negotiate`] | the version of a connection |
//! | [`peers`] | the memory of peers that have version 1 alone |
//! | [`credits`] | the messages that may be sent, some of them without an answer |
//! | [`end`] | the operations of one end, and the effect of its peer's |
//! | [`exchange`] | the messages of one end |
//! | [`pending`] | requests for a change, until they are settled |
//! | [`limits`] | the length of messages, which changes while the connection is in use |
//!
//! `Documentation/version-2.rst` lists the gaps and contradictions of the texts;
//! `Documentation/requirements.rst` has their requirements (V2, XC).

pub(crate) mod characteristics;
pub(crate) mod check;
pub(crate) mod credits;
pub(crate) mod defect;
pub(crate) mod encode;
pub(crate) mod end;
pub(crate) mod exchange;
pub(crate) mod header;
pub(crate) mod later;
pub(crate) mod limits;
pub(crate) mod negotiate;
pub(crate) mod operations;
pub(crate) mod optional;
pub(crate) mod peers;
pub(crate) mod pending;
pub(crate) mod receive;
pub(crate) mod requester;
pub(crate) mod responder;
#[cfg(any(test, CONFIG_KUNIT = "y"))]
pub(crate) mod vectors;
