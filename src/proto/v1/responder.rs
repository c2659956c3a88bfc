// SPDX-License-Identifier: GPL-2.0

//! The decisions of a responder, from a received call to its reply (RFC 8166, sections 3.4, 3.5 and
//! 4.3 to 4.5).
//!
//! | module | decides |
//! |---|---|
//! | [`call`], [`received`] | the kind of a received message, and the error in reply to a bad call |
//! | [`rebuild`] | the order in which inline bytes and RDMA Reads make up the arguments |
//!
//! No message ends the connection: it is dropped, or rejected, or it is a call. A reply or an error
//! that cannot be encoded or posted does (V1-121), which is up to the caller.

pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod rebuild;
pub(crate) mod received;
