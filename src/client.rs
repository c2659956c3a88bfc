// SPDX-License-Identifier: GPL-2.0

//! The client transport: RPC calls out, replies in, over connections that come and go.
//!
//! - [`transport`]: what sunrpc sees, and which connection is the current one.
//! - [`shared`]: the part of a transport that its connections use, too.
//! - [`connection`]: one connection, from its first event to its teardown. All that belongs to it
//!   is born and dies with it.
//! - [`negotiated`]: its terms.
//! - [`connect`]: how a connection is made; [`probe`], a call of our own that may be part of that.
//! - [`request`]: what is kept with a call; in it, how far that has come, a pure state machine.
//! - [`list`]: all transports.
//! - [`send`], [`reply`]: the two hot paths; [`reverse`]: calls from the server.
//! - [`stats`]: what is counted; [`history`]: how connections have ended; [`sight`]: what is shown.
//!
//! The order of locks is in `Documentation/architecture.rst`, section "Locks".

#![forbid(unsafe_code)]

mod connect;
mod connection;
mod history;
mod list;
mod negotiated;
mod probe;
mod reply;
mod request;
mod reverse;
mod send;
mod shared;
mod sight;
mod stats;
mod transport;

pub(crate) use list::{
    init,
    reconnect, //
};
pub(crate) use sight::Table;
pub(crate) use transport::{
    CLASS,
    DEBUGFS, //
};
