// SPDX-License-Identifier: GPL-2.0

//! The operations of version 2 that the sender of calls sends: in front of the next call, so that
//! no call is longer than what the server was told or has told.

use super::{
    super::{
        connection::{
            grower,
            Connection, //
        },
        reverse, //
    },
    Expects,
    Sender, //
};
use crate::{
    proto::exchange::Message,
    verbs::PostError, //
};

impl Sender {
    /// Announces our characteristics, and asks for a response, over a connection of version 2 that
    /// sunrpc does not know of yet. Sends nothing where the server's credits do not permit it.
    /// `newest` is the xid of the last call.
    ///
    /// # Errors
    ///
    /// [`PostError`]; the connection has to end then.
    pub(in crate::client) fn announce(&mut self, newest: u32) -> Result<(), PostError> {
        let connection = self.connection.clone();
        let characteristics = &connection.agreement.characteristics;

        while characteristics.due().is_some() {
            characteristics.begin_wait();
            if !self.send_operation(newest)? {
                return Err(PostError::Closed);
            }
        }
        Ok(())
    }

    /// Sends the operation that is due. Returns `false` if none is, or no buffer is free for it.
    fn send_operation(&mut self, newest: u32) -> Result<bool, PostError> {
        let credits = self.connection.negotiated().map_or(1, |it| it.credits);
        let Ok(mut buf) = self.take_any(Expects::Reply) else {
            return Ok(false);
        };
        let Some(message) = self.connection.agreement.characteristics.next(newest) else {
            self.queue.put(buf);
            return Ok(false);
        };
        let expects = if message.is_request() {
            Expects::Reply
        } else {
            Expects::Nothing
        };
        let written = message.write(credits, buf.as_mut_slice()).ok();
        let len = written.and_then(|len| u32::try_from(len).ok());

        // A buffer has room for each of them.
        self.post_buffer(None, buf, len.ok_or(PostError::Closed)?, expects)?;
        let connection = &self.connection;
        let trace = connection.shared.trace();
        connection
            .agreement
            .characteristics
            .trace_sent(trace, &message);
        Ok(true)
    }

    /// Sends the response that was left to the sender, if any.
    fn send_response(&mut self) -> Result<(), PostError> {
        let connection = self.connection.clone();
        let characteristics = &connection.agreement.characteristics;

        if !characteristics.has_response() {
            return Ok(());
        }
        let Ok(mut buf) = self.take_any(Expects::Nothing) else {
            characteristics.sizes.stir();
            return Ok(());
        };
        let response = characteristics.take_response();
        let message = Message::Response(response.ok_or(PostError::Closed)?);
        let grant = reverse::grant(&connection);
        let written = message.write(grant, buf.as_mut_slice()).ok();
        let len = written.and_then(|len| u32::try_from(len).ok());

        self.post_buffer(None, buf, len.ok_or(PostError::Closed)?, Expects::Nothing)?;
        characteristics.trace_sent(connection.shared.trace(), &message);
        Ok(())
    }

    /// Takes a credit from the window for an operation, besides `held` ones. Returns `false` while
    /// calls hold it; it leaves the window nevertheless.
    fn claim_credit(&self, held: u32) -> bool {
        let Connection {
            window,
            shared,
            agreement,
            ..
        } = &*self.connection;
        let wanted = held.saturating_add(1);

        agreement.characteristics.want_credit(true);
        if window.hold(wanted) {
            self.connection.open_window();
        }
        // CAST: Widening. Added up here, since a window is never below one call.
        let others = wanted.saturating_add(window.abandoned_calls()) as usize;
        // CAST: Widening.
        shared.xprt.load().used.saturating_add(others) <= window.last_grant() as usize
    }

    /// Follows the characteristics, where they have changed: takes new buffers over, queues the
    /// allocation of others, and sends the operations that are due. `newest` is the xid of the next
    /// call.
    ///
    /// # Errors
    ///
    /// [`PostError`]; the connection has to end then.
    #[cold]
    pub(in crate::client) fn follow(&mut self, newest: u32) -> Result<(), PostError> {
        let connection = self.connection.clone();
        let characteristics = &connection.agreement.characteristics;

        let _ = characteristics.sizes.take_stirred();
        let lengths = connection.link.with_qp(|qp| {
            qp.fetch_sends(&mut self.queue);
            qp.lengths()
        });
        if lengths.is_some_and(|lengths| characteristics.have(lengths)) {
            grower::adapt_later(&connection);
        }
        self.send_response()?;
        while let Some((held, takes_credit)) = characteristics.due() {
            let has_credit = !takes_credit
                || (connection.window.spares_another(held) && self.claim_credit(held));
            if !has_credit || !self.send_operation(newest)? {
                // The next call looks again.
                characteristics.sizes.stir();
                break;
            }
            // It counts as held by the operation from here on.
            characteristics.want_credit(false);
        }
        if characteristics.due().is_none() {
            characteristics.want_credit(false);
        }
        connection.apply_characteristics();
        Ok(())
    }
}
