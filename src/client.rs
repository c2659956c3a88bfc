// SPDX-License-Identifier: GPL-2.0

//! The client transport: RPC calls out, replies in, over connections that come and go.
//!
//! - [`transport`]: what sunrpc sees, and which connection is the current one.
//! - [`connection`]: one connection, from its first event to its teardown. All that belongs to it
//!   is born and dies with it.
//! - [`connect`]: how a connection is made.
//! - [`flight`]: where a call is between its Send and its completion.
//! - [`send`], [`reply`]: the two hot paths.
//! - [`stats`]: what is counted.
//!
//! Lock order: a flight's lock, then the connection's queue-pair lock, then the pool of
//! registrations. sunrpc's locks are never taken under any of them.

#![forbid(unsafe_code)]

mod connect;
mod connection;
mod flight;
mod reply;
mod send;
mod stats;
mod transport;

pub(crate) use transport::CLASS;
