// SPDX-License-Identifier: GPL-2.0

//! The first call on a connection, made if calls without a reply ended the previous one.
//!
//! A new connection has one credit until the first reply (V1-32). If the server never replies to
//! the call that takes it, all others wait for that call; and after a reconnect the first call is
//! the longest waiting, most likely such a call. So the transport then makes the first call itself:
//! procedure 0 of the program that it serves, which does nothing. Its reply brings the server's
//! grant, before sunrpc learns of the connection.

use kernel::prelude::*;

use super::{
    connection::Connection,
    send::{
        Expects,
        Sender, //
    }, //
};
use crate::{
    os::series::ENOTCONN,
    proto::{
        Program,
        Wire, //
    }, //
};

/// The xid of the call, which differs between connections. sunrpc's calls are not sent before it is
/// over.
pub(super) fn probe_xid(connection: &Connection) -> u32 {
    // CAST: The lower half differs, too.
    (connection.generation() as u32) ^ 0x5052_4f42
}

impl Sender {
    /// Makes a call in version `wire` that does nothing of `program`, on a connection that sunrpc
    /// does not know of yet. The reply is a step of connecting.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` when it cannot be sent.
    pub(super) fn probe(&mut self, wire: Wire, program: Program, credits: u32) -> Result {
        let connection = self.connection.clone();
        let mut buf = self.take_any(Expects::Reply).map_err(|_| ENOTCONN)?;
        let xid = probe_xid(&connection);
        let len = wire
            .encode_null_call(xid, credits, program, buf.as_mut_slice())
            .ok()
            .and_then(|len| u32::try_from(len).ok())
            .ok_or(ENOTCONN)?;

        connection.attempt.begin_probe();
        match self.post_buffer(None, buf, len, Expects::Reply) {
            Ok(_) => Ok(()),
            Err(_) => Err(ENOTCONN),
        }
    }
}
