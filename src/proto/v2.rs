// SPDX-License-Identifier: GPL-2.0

//! Version 2 of the protocol (draft-cel-nfsv4-rpcrdma-version-two-01), with transport
//! characteristics (draft-dnoveck-nfsv4-rpcrdma-xcharext-02).
//!
//! | module | decides |
//! |---|---|
//! | [`credits`] | the messages that may be sent, some of which have no answer |
//! | [`limits`] | their length, which changes while the connection is in use |
//! | [`pending`] | requests for a change, until they are settled |

pub(crate) mod credits;
pub(crate) mod limits;
pub(crate) mod pending;
