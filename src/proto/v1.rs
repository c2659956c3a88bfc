// SPDX-License-Identifier: GPL-2.0

//! Version 1 of the protocol (RFC 8166): its headers, both ways, and the decisions that depend on
//! their length.
//!
//! The parts that every version has in common are beside this: the first four words, errors,
//! segments and their lists, credits, and the private data that announces each end's limits to the
//! other. [`plan`] stands here, since it counts with the lengths of this version's headers.

pub(crate) mod encode;
pub(crate) mod header;
pub(crate) mod lists;
pub(crate) mod message;
pub(crate) mod plan;
pub(crate) mod reply_header;
pub(crate) mod requester;
pub(crate) mod responder;
pub(crate) mod usual;
