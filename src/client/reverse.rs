// SPDX-License-Identifier: GPL-2.0

//! The reverse direction: calls from the server, and the replies to them (RFC 8167).

use super::{
    connection::{
        close_reason::{
            CloseReason,
            Violation, //
        },
        Connection, //
    },
    send::{
        Expects,
        Sender, //
    }, //
};
use crate::{
    proto::{
        credits,
        exchange::{
            Message,
            Response, //
        },
        neutral::Direction,
        EncodeError,
        RdmaError,
        Wire, //
    },
    sunrpc::{
        DeliverError,
        ReverseReply,
        SendStatus, //
    },
};

/// The grant for the server's calls: at most the number of Receives reserved for them.
pub(super) fn grant(connection: &Connection) -> u32 {
    match connection.negotiated() {
        Some(negotiated) if connection.shared.xprt.backchannel().is_set_up() => {
            negotiated.reverse_slots
        }
        _ => 1,
    }
}

/// The server calls us; `credits` is the credits word of its message.
pub(super) fn deliver(connection: &Connection, xid: u32, credits: u32, payload: &[u8]) {
    let stats = &connection.shared.stats;
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);

    if credits::is_zero(credits) {
        stats.reverse_zero_grants.inc();
    }

    connection.shared.trace().cb_call(xid, len);
    match connection
        .shared
        .xprt
        .backchannel()
        .deliver(xid, payload, connection.generation())
    {
        Ok(()) => stats.reverse_calls.inc(),
        // The server repeats a call without a reply.
        Err(DeliverError::NotSetUp | DeliverError::Busy) => stats.reverse_unserved.inc(),
        Err(DeliverError::TooLong) => {
            stats.reverse_unserved.inc();
            let (wire, grant) = (connection.wire(), grant(connection));
            let _ = reply_at_once(connection, |out| wire.encode_system_error(xid, grant, out));
        }
        Err(DeliverError::NoSlot) => {
            stats.reverse_overflows.inc();
            connection.violated(Violation::ReverseOverflow);
        }
    }
}

/// Refuses a reverse call that cannot be served, such as one with chunks (BI-30), with `error`.
pub(super) fn refuse(connection: &Connection, xid: u32, version: u32, error: &RdmaError) {
    let (wire, grant) = (connection.wire(), grant(connection));
    // Of a flood of operations that are not supported each but one is dropped (V2-75).
    if *error == RdmaError::InvalidOption
        && connection.link.with_qp(|qp| qp.is_spare_free()) != Some(true)
    {
        return connection.shared.stats.odd_operations.inc();
    }
    let _ = reply_at_once(connection, |out| {
        wire.encode_error(xid, version, grant, error, out)
    });
}

/// Sends the response to a request about our characteristics. If the buffer for it is in use, the
/// sender of calls does so.
pub(super) fn respond(connection: &Connection, response: Response) {
    let is_free = connection.link.with_qp(|qp| qp.is_spare_free()) != Some(false);
    let (message, grant) = (Message::Response(response), grant(connection));
    let characteristics = &connection.agreement.characteristics;

    if is_free && !characteristics.has_response() {
        if reply_at_once(connection, |out| message.write(grant, out)) {
            characteristics.trace_sent(connection.shared.trace(), &message);
        }
    } else if !characteristics.keep(response) {
        // A third request: a server has one at a time.
        connection.lost(CloseReason::NotRefused);
    }
}

/// Sends the message that `encode` writes in return to a reverse call that is not served. One
/// buffer is reserved for it. If the server sends another such call before the buffer comes
/// back, the connection ends, so that the server does not wait for a reply in vain (V1-121).
/// Returns `true` if it was posted.
fn reply_at_once(
    connection: &Connection,
    encode: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
) -> bool {
    let posted = connection.link.with_qp(|qp| {
        qp.post_spare(|out| encode(out).ok().and_then(|len| u32::try_from(len).ok()))
    });
    match posted {
        Some(Ok(true)) | None => {}
        Some(Ok(false)) => connection.lost(CloseReason::NotRefused),
        Some(Err(error)) => connection.post_failed(error),
    }
    posted == Some(Ok(true))
}

/// Writes the message with `reply`. Returns its length, or `None` if it does not fit.
fn encode_reply(
    wire: Wire,
    reply: &ReverseReply<'_>,
    grant: u32,
    message: &mut [u8],
) -> Option<u32> {
    let header = wire
        .encode_reverse(reply.xid(), grant, Direction::Reply, message)
        .ok()?;
    let room = message.get_mut(header..)?;
    let payload = reply.send_buf().copy_to(room, false)?;

    u32::try_from(header).ok()?.checked_add(payload)
}

impl Sender {
    /// Sends a reply to a reverse call. It takes no credit: the calls that hold them all may be
    /// waiting for this very reply (H-74).
    ///
    /// # Errors
    ///
    /// The reason why it was not sent; [`SendStatus::NotConnected`] wants the connection closed.
    pub(super) fn send_reverse(&mut self, reply: &ReverseReply<'_>) -> Result<(), SendStatus> {
        // The connection that the call came on has ended; the server will call again (BI-36).
        if self.connection.generation() != reply.generation() {
            return Ok(());
        }
        // Nor does it wait for a Receive, which may come free only with the reply to such a call.
        let mut buf = self.take_buffer(Expects::Nothing)?;
        let connection = self.connection.clone();
        let negotiated = connection.negotiated().ok_or(SendStatus::NotConnected)?;
        let (wire, grant) = (negotiated.wire(), negotiated.reverse_slots);
        let message = buf.as_mut_slice();

        let len = encode_reply(wire, reply, grant, message)
            .filter(|&len| len <= negotiated.limits.get().thresholds.call);
        // The upper layer knows the limit. No chunk can move a longer reply; the server gets an
        // error, so that it does not wait for a reply that never comes (BI-32).
        let len = len.or_else(|| {
            connection.shared.stats.reverse_too_long.inc();
            wire.encode_system_error(reply.xid(), grant, message)
                .ok()
                .and_then(|len| u32::try_from(len).ok())
        });
        let Some(len) = len else {
            // V1-121: a reply that cannot be built ends the connection.
            self.queue.put(buf);
            return Err(SendStatus::NotConnected);
        };

        connection.shared.trace().cb_reply(reply.xid(), len);
        let posted = self.post_buffer(None, buf, len, Expects::Nothing);
        posted.map(drop).map_err(|error| {
            connection.post_failed(error);
            SendStatus::NotConnected
        })
    }
}
