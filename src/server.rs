// SPDX-License-Identifier: GPL-2.0

//! The server transport: RPC calls in, replies out, for the kernel's NFS server.
//!
//! - [`listener`]: a listener as sunrpc sees it, with the requests that it has not accepted.
//! - [`admission`]: who may connect, and on which terms.
//! - [`accept`]: the steps of accepting a request; [`size`], the size of a connection.
//! - [`refused`]: the calls that have ended connections, which are rejected when they come again.
//! - [`connection`]: one connection of a client, from its request to its end. In it
//!   - `open`: the terms; `close_reason`: its end;
//!   - `call`: the data of a call, from its arrival until the core releases it; `calls`: all of
//!     them; `refusals`: calls that have ended connections;
//!   - `receive`, `reply`: the two hot paths; `read`, the arguments that are in the client's
//!     memory; `reading`, the calls that wait for them; `allowance`, memory for them; `outbox`,
//!     the messages that wait for room; `space`, the space for more calls;
//!   - `callback`: calls to the client;
//!   - `receives`: the Receives, and the credits that they are good for; `growth`;
//!   - `show`: its file; `list`: all connections.
//! - [`memory`]: what connections share of it; [`room`], what is free for the arguments of one.
//! - [`stats`]: their counters; [`sysctl`]: sums of some.
//!
//! A thread of the server is never put to sleep for the sake of another reply: one that finds no
//! room in the send queue waits as bytes of its own, and the completion handler posts it.
//!
//! Locks: the lock of the outbox before the lock of the queue pair; architecture.rst has the
//! others. None of ours is held when sunrpc is called, but those of a loss when sunrpc is asked to
//! close the transport, and none is taken inside a spinlock of sunrpc.

#![forbid(unsafe_code)]

mod accept;
mod admission;
mod connection;
mod listener;
mod memory;
mod refused;
mod room;
mod size;
mod stats;
mod sysctl;

use kernel::{
    prelude::*,
    seq_file::SeqFile, //
};

use crate::{
    os::sysctl::Sysctl,
    sunrpc, //
};

pub(crate) use connection::list::{
    end,
    init, //
};

/// The registrations of the server's classes. Dropping them takes the classes out again.
pub(crate) struct Registrations {
    _listeners: sunrpc::svc::Registration,
    _callbacks: sunrpc::Registration,
    _sysctl: Sysctl,
}

impl Registrations {
    /// Registers the classes of listeners, and of calls to clients.
    ///
    /// # Errors
    ///
    /// `EEXIST` when another module has registered them.
    pub(crate) fn new() -> Result<Self> {
        // Listeners last: their connections call back.
        let callbacks = sunrpc::Registration::new(&listener::CALLBACKS)?;

        Ok(Self {
            _listeners: sunrpc::svc::Registration::new(&listener::CLASS)?,
            _callbacks: callbacks,
            // Not before it is known that no other module has them.
            _sysctl: Sysctl::new(c"sunrpc/svc_rdma", &sysctl::NUMBERS),
        })
    }
}

/// Prints the lines of all connections.
pub(crate) fn lines(seq: &SeqFile) {
    connection::list::for_each(|connection| connection.line(seq));
}
