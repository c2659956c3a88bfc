// SPDX-License-Identifier: GPL-2.0

//! Version 1 of the protocol (RFC 8166): its headers, both ways, and what depends on their length.
//!
//! What every version has in common is beside this: segments and their lists, credits, and the
//! private data by which two ends find out what they can do.

pub(crate) mod call;
pub(crate) mod encode;
pub(crate) mod header;
pub(crate) mod incoming;
pub(crate) mod message;
pub(crate) mod page_chunk;
pub(crate) mod plan;
pub(crate) mod reply;
pub(crate) mod usual;
