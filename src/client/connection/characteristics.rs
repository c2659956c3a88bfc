// SPDX-License-Identifier: GPL-2.0

//! The exchange of characteristics with a server of version 2.
//!
//! The client announces its own when the connection is made, before sunrpc learns of it, and waits
//! for the response to a request behind that: the server has both then, and its own announcement is
//! here. The decisions are those of [`exchange`](crate::proto::exchange).
//!
//! Later changes are left to the sender of calls: it sends the operations that are due before its
//! next call, so that no call is longer than what the server was told or has told. A connection
//! without calls changes nothing.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SpinLock, //
    }, //
};

use super::{
    super::{
        negotiated::{
            Negotiated,
            PeerData, //
        },
        reverse,
        send::{
            Expects,
            Sender, //
        }, //
    },
    grower,
    Connection, //
};
use crate::{
    link::sizes::{
        self,
        Sizes, //
    },
    policy::RemoteInvalidation,
    proto::{
        exchange::{
            Exchange,
            Message,
            Own,
            Response,
            Setup,
            Side, //
        },
        Thresholds, //
    },
    trace::Trace,
    verbs::{
        Lengths,
        PostError, //
    }, //
};

/// The exchange of a connection.
#[pin_data]
pub(in crate::client) struct Characteristics {
    #[pin]
    pub(in crate::client) sizes: Sizes,
    /// Set while the attempt to connect waits for a response.
    is_waited_for: Atomic<bool>,
    /// Set if larger sizes of this server have cost connections.
    is_distrusted: Atomic<bool>,
    /// Set while an operation waits for a credit that calls hold.
    wants_credit: Atomic<bool>,
    /// A response that the sender is to send.
    #[pin]
    response: SpinLock<Option<Response>>,
}

impl Characteristics {
    /// Nothing is exchanged.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            sizes <- Sizes::new(),
            is_waited_for: Atomic::new(false),
            is_distrusted: Atomic::new(false),
            wants_credit: Atomic::new(false),
            response <- new_spinlock!(None, "rpcrdma_rs::Characteristics::response"),
        })
    }

    /// No larger size of this server is used.
    pub(in crate::client) fn distrust(&self) {
        self.is_distrusted.store(true, Relaxed);
    }

    /// The connection speaks version 2, with this first grant.
    pub(super) fn begin(&self, negotiated: &Negotiated, credits: u32) {
        let (own, policy) = (&negotiated.facts.own, &negotiated.facts.policy);
        let Thresholds { call, reply } = negotiated.limits.get().thresholds;
        let (send, receive) = (own.send.bytes(), own.receive.bytes());
        // A server that has announced more than it has keeps to the first size.
        let is_distrusted = self.is_distrusted.load(Relaxed);
        let setup = Setup {
            side: Side::Client,
            requested: negotiated.credits,
            told: call,
            buffers: if is_distrusted { call } else { send },
            receive,
            reply,
            max: policy.most(receive),
        };
        let said = Own {
            invalidation: negotiated.remote_invalidation == RemoteInvalidation::On,
            reverse: policy.reverse,
        };
        let most = if is_distrusted {
            send
        } else {
            policy.most(send)
        };
        let mut exchange = Exchange::new(&setup, said, credits);

        exchange.permit_sends(send, most);
        self.sizes.begin(exchange);
    }

    /// The next message to send, if the credits permit one; `newest` is the xid of the last call.
    /// A request that confirms it comes next.
    fn next(&self, newest: u32) -> Option<Message> {
        let message = self.sizes.with(|exchange| {
            let message = exchange.next(newest);

            exchange.confirm();
            message
        });

        message.flatten()
    }

    /// Returns `true` if nothing is to be waited for.
    pub(in crate::client) fn is_settled(&self) -> bool {
        self.sizes.with(|exchange| exchange.is_settled()) != Some(false)
    }

    /// The credits that operations hold, if another one is due, and `true` if that takes a credit.
    fn due(&self) -> Option<(u32, bool)> {
        let due = self.sizes.with(|exchange| {
            let takes = exchange.due()?;
            Some((exchange.held_credits(), takes))
        });

        due.flatten()
    }

    /// Takes over that the buffers have these lengths. Returns `true` if they are to have others.
    fn have(&self, lengths: Lengths) -> bool {
        let is_distrusted = self.is_distrusted.load(Relaxed);
        let wants = self.sizes.with(|exchange| {
            if !is_distrusted {
                exchange.buffers(lengths.send);
            }
            self.sizes.settle(exchange);
            sizes::lengths(exchange)
        });

        wants.is_some_and(|wants| wants != lengths)
    }

    /// Returns `true` if the sender has yet to send a response.
    pub(in crate::client) fn has_response(&self) -> bool {
        self.response.lock().is_some()
    }

    /// Traces an operation that was sent, or received.
    pub(in crate::client) fn trace(&self, trace: Trace, xid: u32, name: &str, is_sent: bool) {
        if Trace::is_operation_on() {
            let sizes = self.sizes.with(|exchange| exchange.in_force());

            trace.operation(xid, name, is_sent, sizes.unwrap_or_default());
        }
    }

    /// Traces a message about characteristics that was sent.
    pub(in crate::client) fn trace_sent(&self, trace: Trace, message: &Message) {
        self.trace(trace, message.xid(), message.name(), true);
    }

    /// Leaves a response to the sender. Returns `false` if it has one already.
    pub(in crate::client) fn keep(&self, response: Response) -> bool {
        let is_first = self.response.lock().replace(response).is_none();

        self.sizes.stir();
        is_first
    }
}

impl Connection {
    /// Brings the limits and the window in line with the exchange.
    pub(in crate::client) fn apply_characteristics(&self) {
        let Some(negotiated) = self.negotiated() else {
            return;
        };
        let held = self.agreement.characteristics.sizes.with(|exchange| {
            let limits = exchange.limits();
            // No longer reply than the server has shown to be able to send.
            let sendable = negotiated.server_sends().max(exchange.longest_reply());
            negotiated.limits.change(Thresholds {
                call: limits.send,
                reply: limits.reply.min(sendable),
            });
            exchange.held_credits()
        });

        let wanted = u32::from(self.agreement.characteristics.wants_credit.load(Relaxed));
        let held = held.unwrap_or(0).saturating_add(wanted);
        // sunrpc gets the first window when it learns of the connection.
        if self.window.hold(held) && !self.link.life().is_forming() {
            self.reopen_window();
        }
    }

    /// Ends the wait of the attempt to connect, if nothing is left to wait for.
    pub(in crate::client) fn exchanged(&self) {
        let characteristics = &self.agreement.characteristics;

        if characteristics.is_settled() && characteristics.is_waited_for.xchg(false, Relaxed) {
            self.attempt.end(Ok(PeerData::NONE));
        }
    }
}

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
            characteristics.is_waited_for.store(true, Relaxed);
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
        let response = characteristics.response.lock().take();
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

        agreement.characteristics.wants_credit.store(true, Relaxed);
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
            if takes_credit && !connection.window.spares_another(held) {
                // A larger grant stirs.
                break;
            }
            if (takes_credit && !self.claim_credit(held)) || !self.send_operation(newest)? {
                // The next call looks again.
                characteristics.sizes.stir();
                break;
            }
            // It counts as held by the operation from here on.
            characteristics.wants_credit.store(false, Relaxed);
        }
        if characteristics.due().is_none() {
            characteristics.wants_credit.store(false, Relaxed);
        }
        connection.apply_characteristics();
        Ok(())
    }
}
