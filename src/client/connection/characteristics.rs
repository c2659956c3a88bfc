// SPDX-License-Identifier: GPL-2.0

//! The exchange of characteristics with a server of version 2.
//!
//! The client announces its own when the connection is made, before sunrpc learns of it, and waits
//! for the response to a request behind that: the server has both then, and its own announcement is
//! here. The decisions are those of [`exchange`](crate::proto::exchange).

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
        reverse, //
    },
    Connection, //
};
use crate::{
    policy::RemoteInvalidation,
    proto::{
        exchange::{
            Exchange,
            Message,
            Own,
            Refused,
            Setup,
            Side, //
        },
        neutral::Optional,
        RdmaError,
        Thresholds, //
    }, //
};

/// The exchange of a connection.
#[pin_data]
pub(in crate::client) struct Characteristics {
    /// None in version 1.
    #[pin]
    exchange: SpinLock<Option<Exchange>>,
    /// Set while the attempt to connect waits for a response.
    is_waited_for: Atomic<bool>,
    /// Set if larger sizes of this server have cost connections.
    is_distrusted: Atomic<bool>,
}

impl Characteristics {
    /// Nothing is exchanged.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            exchange <- new_spinlock!(None, "rpcrdma_rs::Characteristics::exchange"),
            is_waited_for: Atomic::new(false),
            is_distrusted: Atomic::new(false),
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
        let setup = Setup {
            side: Side::Client,
            requested: negotiated.credits,
            told: call,
            // A server that has announced more than it has keeps to the first size.
            buffers: if self.is_distrusted.load(Relaxed) {
                call
            } else {
                own.send.bytes()
            },
            receive: own.receive.bytes(),
            reply,
            max: own.receive.bytes(),
        };
        let said = Own {
            invalidation: negotiated.remote_invalidation == RemoteInvalidation::On,
            reverse: policy.reverse,
        };

        *self.exchange.lock() = Some(Exchange::new(&setup, said, credits));
    }

    /// The next message to send, if the credits permit one; `newest` is the xid of the last call.
    /// A request that confirms it comes next.
    pub(in crate::client) fn next(&self, newest: u32) -> Option<Message> {
        let exchange = &mut *self.exchange.lock();
        let exchange = exchange.as_mut()?;
        let message = exchange.next(newest);

        exchange.confirm();
        if message.is_some() {
            self.is_waited_for.store(true, Relaxed);
        }
        message
    }

    /// Returns `true` if nothing is to be waited for.
    pub(in crate::client) fn is_settled(&self) -> bool {
        self.exchange
            .lock()
            .as_ref()
            .is_none_or(Exchange::is_settled)
    }
}

impl Connection {
    /// Takes an operation of the server. Returns `true` if it is the response to a request.
    pub(in crate::client) fn take_operation(&self, arrived: &Optional<'_>) -> bool {
        let Some(negotiated) = self.negotiated() else {
            return false;
        };
        let effect = {
            let exchange = &mut *self.characteristics.exchange.lock();
            let Some(exchange) = exchange.as_mut() else {
                return false;
            };
            // Calls may have been planned for as much.
            let relied = negotiated.facts.own.receive.bytes();
            let effect = exchange.receive(arrived, relied);
            let limits = exchange.limits();
            negotiated.limits.change(Thresholds {
                call: limits.send,
                reply: limits.reply.min(negotiated.told().reply),
            });
            effect
        };

        if effect.odd.is_some() {
            self.shared.stats.odd_operations.inc();
        }
        if let Some(response) = effect.respond {
            reverse::respond(self, &Message::Response(response));
        }
        if effect.is_response {
            self.granted(arrived.credits);
            self.exchanged();
        }
        effect.is_response
    }

    /// Takes an error about an operation of this end. [`Refused::Nothing`] if it is about a call.
    pub(in crate::client) fn operation_refused(&self, xid: u32, error: &RdmaError) -> Refused {
        let refused = match &mut *self.characteristics.exchange.lock() {
            Some(exchange) => exchange.refused(xid, error),
            None => Refused::Nothing,
        };

        if refused != Refused::Nothing {
            self.exchanged();
        }
        refused
    }

    /// Ends the wait of the attempt to connect, if nothing is left to wait for.
    fn exchanged(&self) {
        let characteristics = &self.characteristics;

        if characteristics.is_settled() && characteristics.is_waited_for.xchg(false, Relaxed) {
            self.attempt.end(Ok(PeerData::NONE));
        }
    }
}
