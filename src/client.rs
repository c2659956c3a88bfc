// SPDX-License-Identifier: GPL-2.0

//! The client transport: RPC calls out, replies in, over one connection after another.
//!
//! - [`transport`]: the transport as sunrpc sees it, with its current connection.
//! - [`shared`]: the part of a transport that its connections use, too; [`lessons`], which the last
//!   ones leave to the next; [`log`]: the limits of messages.
//! - [`connection`]: one connection, from its first event to its teardown. All that belongs to it
//!   is born and dies with it.
//! - [`negotiated`]: its terms; [`limits`], which may change while it lives.
//! - [`connect`]: the steps of connecting; [`probe`], a call of our own that may be one of them.
//! - [`request`]: the data of a call; in it, its progress, a pure state machine.
//! - [`transports`]: the list of all.
//! - [`send`], [`reply`]: the two hot paths; [`reverse`]: calls from the server.
//! - [`stats`]: the counters; [`history`]: the ends of connections; [`debugfs`]: files that show
//!   them.
//!
//! The order of locks is in `Documentation/architecture.rst`, section "Locks".

#![forbid(unsafe_code)]

mod connect;
mod connection;
mod debugfs;
mod history;
mod lessons;
mod limits;
mod log;
mod negotiated;
mod pauses;
mod probe;
mod reply;
mod request;
mod reverse;
mod send;
mod shared;
mod stats;
mod transport;
mod transports;

pub(crate) use debugfs::lines;
pub(crate) use transport::CLASS;
pub(crate) use transports::{
    init,
    reconnect, //
};
