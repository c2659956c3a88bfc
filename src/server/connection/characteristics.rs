// SPDX-License-Identifier: GPL-2.0

//! The exchange of characteristics with a client of version 2. The client begins it.

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
    super::size::MOST_CALLBACKS,
    version::DEFAULT,
    Settled, //
};
use crate::proto::{
    exchange::{
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
};

/// Bytes of the longest operation of ours.
const LONGEST: usize = 256;

/// The exchange of a connection.
#[pin_data]
pub(super) struct Characteristics {
    /// None before the first operation of the client.
    #[pin]
    exchange: SpinLock<Option<Exchange>>,
    /// The longest message to the client, in bytes; 0 before that.
    longest: Atomic<u32>,
    /// Set if the client takes Send With Invalidate.
    invalidates: Atomic<bool>,
    /// Set if the client takes no calls.
    is_deaf: Atomic<bool>,
    /// The xid of the last call to the client.
    newest: Atomic<u32>,
}

impl Characteristics {
    /// Nothing is exchanged.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            exchange <- new_spinlock!(None, "rpcrdma_rs::Characteristics::exchange"),
            longest: Atomic::new(0),
            invalidates: Atomic::new(false),
            is_deaf: Atomic::new(false),
            newest: Atomic::new(0),
        })
    }

    /// The longest message to the client, in bytes, if the client has announced its size.
    pub(super) fn longest(&self) -> Option<u32> {
        match self.longest.load(Relaxed) {
            0 => None,
            longest => Some(longest),
        }
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
            max: receive,
        };
        let own = Own {
            invalidation: false,
            reverse: false,
        };

        Exchange::new(&setup, own, 1)
    }

    /// Takes an operation of the client. Returns the messages to send.
    pub(super) fn take_operation(&self, arrived: &Optional<'_>) -> [Option<Message>; 2] {
        let characteristics = &self.characteristics;
        let newest = characteristics.newest.load(Relaxed);
        let mut exchange = characteristics.exchange.lock();
        let exchange = exchange.get_or_insert_with(|| self.new_exchange());
        let effect = exchange.receive(arrived, self.terms.own.receive.bytes());

        characteristics
            .longest
            .store(exchange.limits().send, Relaxed);
        characteristics
            .invalidates
            .store(exchange.peer_invalidates, Relaxed);
        characteristics
            .is_deaf
            .store(!exchange.peer_reverse, Relaxed);
        if effect.odd.is_some() {
            self.stats.odd_operations.inc();
        }
        [exchange.next(newest), effect.respond.map(Message::Response)]
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
            let _ = self.check_sent(sent);
        }
    }

    /// Takes an error about an operation of ours. Returns `false` if it is about none.
    pub(super) fn operation_refused(&self, xid: u32, error: &RdmaError) -> bool {
        let refused = match &mut *self.characteristics.exchange.lock() {
            Some(exchange) => exchange.refused(xid, error),
            None => Refused::Nothing,
        };

        refused != Refused::Nothing
    }
}
