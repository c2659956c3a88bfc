// SPDX-License-Identifier: GPL-2.0

//! The decisions of a responder, from a received call to its reply (RFC 8166, sections 3.4, 3.5 and
//! 4.3 to 4.5).
//!
//! | module | decides |
//! |---|---|
//! | [`received`] | the kinds of received messages, and the error in reply to a bad call |
//! | [`check`] | whether the header of a call is one |
//! | [`rebuild`] | the order of inline bytes and RDMA Reads in the arguments |
//! | [`offer`] | the chunks that a call offers for its reply, kept until that is sent |
//! | [`reply`] | the place of each part of a reply, the RDMA Writes, and what the header says of it |
//! | [`invalidation`] | the handle that the Send of a reply invalidates |
//! | [`grant`] | the credits that a reply grants |
//! | [`last_words`] | whether a call has ended a connection before, so that it is rejected |
//!
//! No message ends the connection: it is dropped, or rejected, or it is a call. A reply or an error
//! that cannot be encoded or posted does (V1-121), which is up to the caller.

pub(crate) mod check;
pub(crate) mod grant;
pub(crate) mod invalidation;
pub(crate) mod last_words;
pub(crate) mod offer;
pub(crate) mod rebuild;
pub(crate) mod received;
pub(crate) mod reply;
