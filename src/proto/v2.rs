// SPDX-License-Identifier: GPL-2.0

//! Version 2 of the protocol (draft-cel-nfsv4-rpcrdma-version-two-01), with transport
//! characteristics (draft-dnoveck-nfsv4-rpcrdma-xcharext-02).
//!
//! | module | decides |
//! |---|---|
//! | [`credits`] | the messages that may be sent, some of which have no answer |
//! | [`end`] | the operations of one end, and the effect of its peer's |
//! | [`limits`] | their length, which changes while the connection is in use |
//! | [`negotiate`] | the version of a connection |
//! | [`peers`] | the memory of peers that have version 1 alone |
//! | [`pending`] | requests for a change, until they are settled |

pub(crate) mod credits;
pub(crate) mod end;
pub(crate) mod limits;
pub(crate) mod negotiate;
pub(crate) mod peers;
pub(crate) mod pending;
