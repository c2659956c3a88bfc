// SPDX-License-Identifier: GPL-2.0

//! Safe transports of RPC servers: a class from two Rust traits. It knows no RDMA.
//!
//! | Type | C | Is |
//! |---|---|---|
//! | [`Listener`], [`Connection`] | `struct svc_xprt_ops` | the traits that a transport implements |
//! | [`Class`], [`Registration`] | `struct svc_xprt_class` | the class, found by its name, and its registration |
//! | [`SvcXprt`] | `struct svc_xprt` | a handle that keeps the object's memory, also after the core is done with it |
//! | [`Inbox`] | `XPT_DATA`, `XPT_CONN` | what waits for a thread, and the flag that says so |
//! | [`Incoming`], [`Arguments`] | `struct svc_rqst` | a thread that takes a call, and the proof that it has one |
//! | [`Outgoing`], [`Layout`] | `struct svc_rqst` | a thread that sends a reply, and the places of its bytes |
//!
//! A call comes in two steps, so that no other order can be written. [`Connection::next`] takes it
//! out of the inbox while the thread has the transport to itself (`XPT_BUSY`); then this layer
//! calls `svc_xprt_received()`, once; then [`Connection::receive`] gives the arguments to the
//! thread, while others take the next calls.
//!
//! The core closes a transport with [`Connection::detach`], after which threads may still be inside
//! [`Connection::send`], and ends it with [`Connection::free`] when nothing refers to it.
//! Completions of the transport hold a [`SvcXprt`], which counts for nothing in the core: `free`
//! waits for them.

mod class;
mod inbox;
mod layout;
mod ops;
mod rqst;
mod transport;
mod xprt;

pub(crate) use super::address::{
    address_in,
    Address, //
};
pub(crate) use class::{
    Class,
    Registration, //
};
pub(crate) use inbox::{
    Inbox,
    Waiting, //
};
pub(crate) use layout::Layout;
pub(crate) use rqst::{
    Arguments,
    Incoming,
    Outgoing, //
};
pub(crate) use transport::{
    Connection,
    Listener, //
};
pub(crate) use xprt::{
    Ends,
    SvcXprt, //
};
