// SPDX-License-Identifier: GPL-2.0

//! Buffers whose lengths follow the characteristics that both ends of a connection of version 2
//! exchange.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        SpinLock, //
    }, //
};

use super::Link;
use crate::{
    cm::EventHandler,
    os,
    proto::exchange::Exchange,
    verbs::{
        CompletionHandler,
        Lengths, //
    }, //
};

/// The exchange of characteristics of a connection, and the buffers that follow it.
///
/// [`Exchange`] decides. Its lock comes before the lock of the queue pair.
#[pin_data]
pub(crate) struct Sizes {
    /// None in version 1, and before the exchange begins.
    #[pin]
    exchange: SpinLock<Option<Exchange>>,
    /// Set if buffers or messages may have to follow the exchange.
    is_stirred: Atomic<bool>,
    /// The number of the last edition of Receives that all are of.
    edition: Atomic<u32>,
    /// The time of the last exchange of buffers, in jiffies: a peer that changes its mind with each
    /// message has memory allocated ten times a second.
    last: Atomic<usize>,
}

impl Sizes {
    /// Jiffies between two exchanges of buffers.
    const LEAST: usize = os::secs_to_jiffies(1) / 10;

    /// Nothing is exchanged.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            exchange <- new_spinlock!(None, "rpcrdma_rs::Sizes::exchange"),
            is_stirred: Atomic::new(false),
            edition: Atomic::new(0),
            last: Atomic::new(os::jiffies().wrapping_sub(Self::LEAST)),
        })
    }

    /// The exchange begins.
    pub(crate) fn begin(&self, exchange: Exchange) {
        *self.exchange.lock() = Some(exchange);
    }

    /// Calls `act` with the exchange, if it has begun.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Exchange) -> R) -> Option<R> {
        let mut guard = self.exchange.lock();
        let exchange: &mut Option<Exchange> = &mut guard;

        exchange.as_mut().map(act)
    }

    /// Calls `act` with the exchange. `make` begins it, if nothing has.
    pub(crate) fn begin_with<R>(
        &self,
        make: impl FnOnce() -> Exchange,
        act: impl FnOnce(&mut Exchange) -> R,
    ) -> R {
        act(self.exchange.lock().get_or_insert_with(make))
    }

    /// A copy of the exchange, to be shown.
    pub(crate) fn copy(&self) -> Option<Exchange> {
        *self.exchange.lock()
    }

    /// Returns `true` if buffers or messages may have to follow the exchange.
    #[inline]
    pub(crate) fn is_stirred(&self) -> bool {
        self.is_stirred.load(Relaxed)
    }

    /// Buffers or messages may have to follow the exchange.
    pub(crate) fn stir(&self) {
        self.is_stirred.store(true, Release);
    }

    /// Returns `true` if buffers or messages had to follow the exchange. The caller sees to that.
    pub(crate) fn take_stirred(&self) -> bool {
        // Acquire: the reason for the flag is there.
        self.is_stirred.xchg(false, Acquire)
    }

    /// All Receives are of this edition, or a later one. Under the lock of the queue pair.
    pub(crate) fn exchanged(&self, edition: u32) {
        self.edition.store(edition, Relaxed);
        self.stir();
    }

    /// Has `exchange` end the changes that waited for Receives of earlier editions.
    pub(crate) fn settle(&self, exchange: &mut Exchange) {
        exchange.exchanged(self.edition.load(Relaxed));
    }

    /// Jiffies until the next exchange of buffers may begin.
    pub(crate) fn pause(&self) -> usize {
        let passed = os::jiffies().wrapping_sub(self.last.load(Relaxed));

        Self::LEAST.saturating_sub(passed)
    }

    /// Exchanges the buffers of `link` for others of the lengths that the exchange wants, as far as
    /// `memory` bytes permit, unless the last exchange was just before: the next call looks again
    /// then. Process context. One thread calls it at a time, and orders no other
    /// buffers while it runs.
    pub(crate) fn adapt<H>(&self, link: &Link<H>, memory: u64)
    where
        H: EventHandler + CompletionHandler,
    {
        let mut before = None;

        if self.pause() != 0 {
            return self.stir();
        }
        // Each round ends with the wanted lengths, or wants less.
        while let Some(want) = self.wanted(link).filter(|want| before != Some(*want)) {
            before = Some(want);
            self.last.store(os::jiffies(), Relaxed);
            let Some(can) = link.affordable(want, memory) else {
                return;
            };
            if can != want {
                self.lower(want, can);
                continue;
            }
            let Some(order) = link.with_qp(|qp| qp.order_exchange(want)).flatten() else {
                return;
            };
            let (mut buffers, made) = order.make();
            if made.is_err() {
                self.lower(want, less(want, buffers.lacks_receives()));
                continue;
            }
            // The peer may have requested another size. What follows from that waits for a pause.
            self.with(|exchange| {
                if lengths(exchange) == want {
                    if let Some(edition) = link.with_qp(|qp| qp.exchange(&mut buffers)).flatten() {
                        exchange.begin_edition(edition, want.receive);
                    }
                }
            });
            return self.stir();
        }
    }

    /// The lengths that the exchange wants, if the buffers have others.
    fn wanted<H>(&self, link: &Link<H>) -> Option<Lengths>
    where
        H: EventHandler + CompletionHandler,
    {
        let want = self.with(|exchange| lengths(exchange))?;

        (link.with_qp(|qp| qp.lengths())? != want).then_some(want)
    }

    /// Lowers what the exchange wants to what can be had of it.
    fn lower(&self, want: Lengths, can: Lengths) {
        self.with(|exchange| {
            if can.receive < want.receive {
                exchange.no_memory(can.receive);
            }
            if can.send < want.send {
                exchange.cut_sends(can.send);
            }
        });
    }
}

/// The lengths that `exchange` wants.
pub(crate) fn lengths(exchange: &Exchange) -> Lengths {
    Lengths {
        send: exchange.sends(),
        receive: exchange.posts(),
    }
}

/// The lengths to try after there was no memory for `want`: half of those that it lacked for.
fn less(want: Lengths, lacks_receives: bool) -> Lengths {
    let half = |len: u32| len / 2 & !3;

    if lacks_receives {
        Lengths {
            receive: half(want.receive),
            ..want
        }
    } else {
        Lengths {
            send: half(want.send),
            ..want
        }
    }
}
