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
    super::negotiated::{
        Negotiated,
        PeerData, //
    },
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
            message,
            Exchange,
            Message,
            Own,
            Response,
            Setup,
            Side, //
        },
        neutral::Optional,
        Thresholds, //
    },
    trace::Trace,
    verbs::Lengths, //
};

/// An announcement that has come before the answer to the offer.
#[derive(Clone, Copy)]
pub(in crate::client) struct Early {
    xid: u32,
    credits: u32,
    len: usize,
    message: [u8; Self::MOST],
}

impl Early {
    /// Bytes of its message: an announcement of all characteristics has 76.
    const MOST: usize = 128;

    /// A copy of `arrived`; `None` if that is too long.
    fn of(arrived: &Optional<'_>) -> Option<Self> {
        let len = arrived.message.len();
        let mut message = [0; Self::MOST];

        message.get_mut(..len)?.copy_from_slice(arrived.message);
        Some(Self {
            xid: arrived.xid,
            credits: arrived.credits,
            len,
            message,
        })
    }

    /// The announcement.
    pub(in crate::client) fn arrived(&self) -> Optional<'_> {
        Optional {
            xid: self.xid,
            credits: self.credits,
            message: self.message.get(..self.len).unwrap_or(&[]),
        }
    }
}

/// The exchange of a connection.
#[pin_data]
pub(in crate::client) struct Characteristics {
    #[pin]
    pub(in crate::client) sizes: Sizes,
    /// Set while the attempt to connect waits for a response.
    is_waited_for: Atomic<bool>,
    /// Set if larger sizes of this server have cost connections.
    is_distrusted: Atomic<bool>,
    /// Set if announcements to this server have cost a connection.
    is_silent: Atomic<bool>,
    /// Set while an operation waits for a credit that calls hold.
    wants_credit: Atomic<bool>,
    /// A response that the sender is to send.
    #[pin]
    response: SpinLock<Option<Response>>,
    /// The announcement in front of the answer to the offer.
    #[pin]
    early: SpinLock<Option<Early>>,
}

impl Characteristics {
    /// Nothing is exchanged.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            sizes <- Sizes::new(),
            is_waited_for: Atomic::new(false),
            is_distrusted: Atomic::new(false),
            is_silent: Atomic::new(false),
            wants_credit: Atomic::new(false),
            response <- new_spinlock!(None, "rpcrdma_rs::Characteristics::response"),
            early <- new_spinlock!(None, "rpcrdma_rs::Characteristics::early"),
        })
    }

    /// No larger size of this server is used.
    pub(in crate::client) fn distrust(&self) {
        self.is_distrusted.store(true, Relaxed);
    }

    /// No operation is sent to this server, whatever it sends itself.
    pub(in crate::client) fn be_silent(&self) {
        self.is_silent.store(true, Relaxed);
    }

    /// Keeps an announcement until the answer to the offer has come. Returns `false` if it is
    /// dropped: it is another operation, long, or not the first.
    pub(in crate::client) fn keep_early(&self, arrived: &Optional<'_>) -> bool {
        let Some(kept) = Early::of(arrived).filter(|_| message::is_announcement(arrived)) else {
            return false;
        };
        let mut early = self.early.lock();
        let is_first = early.is_none();

        if is_first {
            *early = Some(kept);
        }
        is_first
    }

    /// Takes the announcement that was kept.
    pub(in crate::client) fn take_early(&self) -> Option<Early> {
        self.early.lock().take()
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

        if self.is_silent.load(Relaxed) {
            exchange.be_silent();
        }
        exchange.permit_sends(send, most);
        self.sizes.begin(exchange);
    }

    /// The next message to send, if the credits permit one; `newest` is the xid of the last call.
    /// A request that confirms it comes next.
    pub(in crate::client) fn next(&self, newest: u32) -> Option<Message> {
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
    pub(in crate::client) fn due(&self) -> Option<(u32, bool)> {
        let due = self.sizes.with(|exchange| {
            let takes = exchange.due()?;
            Some((exchange.held_credits(), takes))
        });

        due.flatten()
    }

    /// Takes over that the buffers have these lengths. Returns `true` if they are to have others.
    pub(in crate::client) fn have(&self, lengths: Lengths) -> bool {
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

    /// The attempt to connect waits for a response from here on.
    pub(in crate::client) fn begin_wait(&self) {
        self.is_waited_for.store(true, Relaxed);
    }

    /// Returns `true`, once, if nothing is left that the attempt to connect waits for.
    fn end_wait(&self) -> bool {
        self.is_settled() && self.is_waited_for.xchg(false, Relaxed)
    }

    /// An operation waits for a credit, or no longer.
    pub(in crate::client) fn want_credit(&self, wants: bool) {
        self.wants_credit.store(wants, Relaxed);
    }

    /// Takes the response that was left to the sender.
    pub(in crate::client) fn take_response(&self) -> Option<Response> {
        self.response.lock().take()
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
        if self.agreement.characteristics.end_wait() {
            self.attempt.end(Ok(PeerData::NONE));
        }
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[::kernel::macros::kunit_tests(rpcrdma_early)]
mod tests {
    use super::*;

    // XC-38: what is kept is what came, and longer messages are not.
    #[test]
    fn early() {
        let message = [7; Early::MOST + 1];

        for len in [0, 76, Early::MOST, Early::MOST + 1] {
            let arrived = Optional {
                xid: 1,
                credits: 2,
                message: message.get(..len).unwrap_or(&[]),
            };
            let kept = Early::of(&arrived);
            let kept = kept.as_ref().map(Early::arrived);

            assert_eq!(kept, (len <= Early::MOST).then_some(arrived));
        }
    }
}
