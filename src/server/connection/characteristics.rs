// SPDX-License-Identifier: GPL-2.0

//! The exchange of characteristics with a client of version 2. The client begins it.
//!
//! Changes of the buffers, and the messages about them, are left to the worker that allocates
//! buffers, which the next call of the client queues.

use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
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
        memory,
        size::MOST_CALLBACKS, //
    },
    version::DEFAULT,
    Settled, //
};
use crate::{
    link::sizes::Sizes,
    proto::{
        exchange::{
            message,
            Exchange,
            Message,
            Own,
            Refused,
            Setup,
            Side, //
        },
        neutral::{
            Invalidation,
            Optional, //
        },
        RdmaError, //
    },
    trace::ServerTrace,
    verbs::Lengths, //
};

/// Bytes of the longest operation of ours.
const LONGEST: usize = 256;

/// The exchange of a connection.
#[pin_data]
pub(super) struct Characteristics {
    /// The first operation of the client begins the exchange.
    #[pin]
    pub(super) sizes: Sizes,
    /// The longest message to the client, in bytes; 0 before that.
    longest: Atomic<u32>,
    /// Set if the client takes Send With Invalidate.
    invalidates: Atomic<bool>,
    /// Set if the client takes no calls.
    is_deaf: Atomic<bool>,
    /// The xid of the last call to the client.
    newest: Atomic<u32>,
    /// Held from the choice of a message until it is posted, or waits: the client gets them in the
    /// order in which they were decided. Before the lock of the exchange, and that of the outbox.
    #[pin]
    pub(super) order: SpinLock<()>,
}

impl Characteristics {
    /// Nothing is exchanged.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            sizes <- Sizes::new(),
            longest: Atomic::new(0),
            invalidates: Atomic::new(false),
            is_deaf: Atomic::new(false),
            newest: Atomic::new(0),
            order <- new_spinlock!((), "rpcrdma_rs::Characteristics::order"),
        })
    }

    /// Takes a response to an operation of ours that cannot be decoded. Returns the next message.
    fn bad_response(&self, xid: u32) -> Option<Message> {
        let newest = self.newest.load(Relaxed);
        let next = self.sizes.with(|exchange| {
            if !exchange.undecoded(xid) {
                return None;
            }
            self.apply(exchange);
            exchange.next(newest)
        });

        self.sizes.stir();
        next.flatten()
    }

    /// The longest message to the client, in bytes, if the client has announced its size.
    pub(super) fn longest(&self) -> Option<u32> {
        match self.longest.load(Relaxed) {
            0 => None,
            longest => Some(longest),
        }
    }

    /// The longest call to the client, in bytes behind a header of `header` bytes, of the `most`
    /// that its first size permits: none, if the client takes none (XC-83).
    pub(super) fn longest_call(&self, most: u32, header: u32) -> u32 {
        let longest = self.longest().unwrap_or(u32::MAX);

        if self.is_deaf() {
            return 0;
        }
        most.min(longest.saturating_sub(header))
    }

    /// Returns `true` if the client takes Send With Invalidate.
    pub(super) fn permit_invalidation(&self) -> bool {
        self.invalidates.load(Relaxed)
    }

    /// Returns `true` if the client takes no calls (XC-83).
    pub(super) fn is_deaf(&self) -> bool {
        self.is_deaf.load(Relaxed)
    }

    /// The client is called with this xid.
    pub(super) fn called(&self, xid: u32) {
        self.newest.store(xid, Relaxed);
    }

    /// Takes over what follows from the exchange for messages to the client.
    fn apply(&self, exchange: &Exchange) {
        self.longest.store(exchange.limits().send, Relaxed);
        self.invalidates.store(exchange.peer_invalidates, Relaxed);
        self.is_deaf.store(!exchange.peer_reverse, Relaxed);
    }
}

impl Settled<'_> {
    /// The handles that this end can invalidate.
    pub(super) fn own_invalidation(&self) -> Invalidation {
        if self.terms.own.remote_invalidation {
            Invalidation::Any
        } else {
            Invalidation::None
        }
    }

    /// The exchange of a new connection. The server has no calls with chunks, and takes none.
    fn new_exchange(&self) -> Exchange {
        let (terms, receive) = (self.terms, self.terms.own.receive.bytes());
        let setup = Setup {
            side: Side::Server,
            requested: MOST_CALLBACKS,
            told: match self.admission.data {
                Some(_) => terms.thresholds.reply,
                None => DEFAULT,
            },
            // CAST: A buffer is shorter than 4 GiB.
            buffers: terms.send_len as u32,
            receive,
            reply: receive,
            max: self.admission.policy.most(receive),
        };
        let own = Own {
            invalidation: false,
            reverse: false,
        };

        let mut exchange = Exchange::new(&setup, own, 1);

        exchange.permit_sends(0, self.admission.policy.most(setup.buffers));
        // For a message of the client without a response, and for its response to a request.
        self.receives.spare(1);
        exchange
    }

    /// Takes an operation of the client. Returns the messages to send, in the same section of
    /// [`Characteristics::order`].
    pub(super) fn take_operation(
        &self,
        arrived: Result<Optional<'_>, u32>,
    ) -> [Option<Message>; 2] {
        let characteristics = &self.characteristics;
        let arrived = match &arrived {
            Ok(arrived) => arrived,
            Err(xid) => return [characteristics.bad_response(*xid), None],
        };
        let newest = characteristics.newest.load(Relaxed);
        let (effect, next) = characteristics.sizes.begin_with(
            || self.new_exchange(),
            |exchange| {
                // No reply to a call of ours is longer.
                let effect = exchange.receive(arrived, self.terms.own.receive.bytes());
                characteristics.apply(exchange);
                (effect, exchange.next(newest))
            },
        );

        characteristics.sizes.stir();
        if ServerTrace::is_operation_on() {
            self.trace_operation(arrived.xid, message::name(arrived), false);
        }
        if effect.odd.is_some() {
            self.stats.odd_operations.inc();
        }
        [next, effect.respond.map(Message::Response)]
    }

    /// Gives the buffers the lengths that both ends have agreed on, and sends the messages about
    /// that. Process context, for the worker alone.
    pub(super) fn follow(&self) {
        let characteristics = &self.characteristics;
        let memory = u64::from(self.admission.policy.memory).saturating_mul(1024);

        if !characteristics.sizes.take_stirred() {
            return;
        }
        memory::refresh();
        characteristics.sizes.adapt(&self.link, memory);
        let lengths = self.fetch_sends();
        loop {
            let _order = characteristics.order.lock();
            let newest = characteristics.newest.load(Relaxed);
            let message = characteristics.sizes.with(|exchange| {
                if let Some(lengths) = lengths {
                    exchange.buffers(lengths.send);
                }
                characteristics.sizes.settle(exchange);
                characteristics.apply(exchange);
                let message = exchange.next(newest)?;
                exchange.confirm();
                Some(message)
            });
            let Some(message) = message.flatten() else {
                break;
            };
            self.send_operations([Some(message), None]);
        }
    }

    /// Hands new Send buffers to the outbox. Returns the lengths of all.
    pub(super) fn fetch_sends(&self) -> Option<Lengths> {
        let mut lengths = None;

        self.outbox.with_sends(|sends| {
            lengths = self.link.with_qp(|qp| {
                qp.fetch_sends(sends);
                qp.lengths()
            });
        });
        lengths
    }

    /// Sends these messages.
    pub(super) fn send_operations(&self, messages: [Option<Message>; 2]) {
        for message in messages.into_iter().flatten() {
            let most = self.terms.credits;
            let credits = match message {
                Message::Operation(..) => MOST_CALLBACKS,
                Message::Response(_) => self.receives.grant(most, most),
            };
            let sent = self.send_message(LONGEST, None, GFP_NOWAIT | __GFP_NOWARN, |out| {
                let len = message.write(credits, out).ok()?;
                u32::try_from(len).ok()
            });
            if self.check_sent(sent).is_ok() && ServerTrace::is_operation_on() {
                self.trace_operation(message.xid(), message.name(), true);
            }
        }
    }

    /// Traces an operation that was sent, or received.
    #[cold]
    fn trace_operation(&self, xid: u32, name: &str, is_sent: bool) {
        let sizes = self.characteristics.sizes.with(|it| it.in_force());
        let trace = self.trace();

        trace.operation(xid, name, is_sent, sizes.unwrap_or_default());
    }

    /// Takes an error about an operation of ours. Returns `false` if it is about none.
    pub(super) fn operation_refused(&self, xid: u32, error: &RdmaError) -> bool {
        let sizes = &self.characteristics.sizes;
        let refused = sizes.with(|exchange| exchange.refused(xid, error));

        refused.is_some_and(|refused| refused != Refused::Nothing)
    }
}
