// SPDX-License-Identifier: GPL-2.0

//! Safe rdma_cm: finding a peer by its IP address and connecting to it. Knows nothing of RPC.
//!
//! [`Id`] is an identifier while it looks for its peer; [`Endpoint`] is one with a queue pair. Both
//! tell what happens to their [`EventHandler`], which notes it and wakes a waiter: handlers never
//! destroy anything, and the one owner of the value destroys it by dropping it, which waits for a
//! handler that runs.

mod endpoint;
mod id;
mod reject;
mod resolve;

pub(crate) use endpoint::{
    BindError,
    Bound,
    ConnectParams,
    Endpoint, //
};
pub(crate) use id::{
    Event,
    EventHandler,
    Gid,
    Id, //
};
pub(crate) use reject::Reject;
pub(crate) use resolve::Resolved;
