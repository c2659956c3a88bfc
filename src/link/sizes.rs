// SPDX-License-Identifier: GPL-2.0

//! Buffers whose lengths follow the characteristics that both ends of a connection of version 2
//! exchange.
//!
//! [`Exchange`] decides. Its lock comes before the lock of the queue pair.

use kernel::sync::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    SpinLock, //
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

/// The exchange of a connection; none in version 1.
pub(crate) type Shared = SpinLock<Option<Exchange>>;

/// The times of exchanges of buffers: a peer that changes its mind with each message has memory
/// allocated ten times a second.
pub(crate) struct Pace {
    /// The last one, in jiffies.
    last: Atomic<usize>,
}

impl Pace {
    /// Jiffies between two exchanges.
    const LEAST: usize = os::secs_to_jiffies(1) / 10;

    /// No exchange yet.
    pub(crate) fn new() -> Self {
        Self {
            last: Atomic::new(os::jiffies().wrapping_sub(Self::LEAST)),
        }
    }

    /// Jiffies until the next exchange may begin.
    pub(crate) fn pause(&self) -> usize {
        let passed = os::jiffies().wrapping_sub(self.last.load(Relaxed));

        Self::LEAST.saturating_sub(passed)
    }

    /// An exchange begins, or fails to.
    fn begin(&self) {
        self.last.store(os::jiffies(), Relaxed);
    }
}

/// Calls `act` with the exchange, if the connection has one.
pub(crate) fn with<R>(shared: &Shared, act: impl FnOnce(&mut Exchange) -> R) -> Option<R> {
    let mut guard = shared.lock();
    let exchange: &mut Option<Exchange> = &mut guard;

    exchange.as_mut().map(act)
}

/// Exchanges the buffers of `link` for others of the lengths that the exchange wants, as far as
/// `memory` bytes permit. Process context. One thread calls it at a time, and orders no other
/// buffers while it runs.
pub(crate) fn adapt<H>(link: &Link<H>, shared: &Shared, pace: &Pace, memory: u64)
where
    H: EventHandler + CompletionHandler,
{
    let mut before = None;

    // Each round ends with the wanted lengths, or wants less.
    while let Some(want) = wanted(link, shared).filter(|want| before != Some(*want)) {
        before = Some(want);
        pace.begin();
        let Some(can) = link.affordable(want, memory) else {
            return;
        };
        if can != want {
            lower(shared, want, can);
            continue;
        }
        let Some(order) = link.with_qp(|qp| qp.order_exchange(want)).flatten() else {
            return;
        };
        let (mut buffers, made) = order.make();
        if made.is_err() {
            let half = |len: u32| len / 2 & !3;
            let mut less = want;
            if buffers.lacks_receives() {
                less.receive = half(want.receive);
            } else {
                less.send = half(want.send);
            }
            lower(shared, want, less);
            continue;
        }
        // The peer may have requested another size: another round follows then.
        with(shared, |exchange| {
            if exchange.posts() == want.receive && exchange.sends() == want.send {
                if let Some(edition) = link.with_qp(|qp| qp.exchange(&mut buffers)).flatten() {
                    exchange.begin_edition(edition, want.receive);
                }
            }
        });
    }
}

/// The lengths that the exchange wants, if the buffers have others.
fn wanted<H>(link: &Link<H>, shared: &Shared) -> Option<Lengths>
where
    H: EventHandler + CompletionHandler,
{
    let want = with(shared, |exchange| Lengths {
        send: exchange.sends(),
        receive: exchange.posts(),
    })?;

    (link.with_qp(|qp| qp.lengths())? != want).then_some(want)
}

/// Lowers what the exchange wants to what can be had of it.
fn lower(shared: &Shared, want: Lengths, can: Lengths) {
    with(shared, |exchange| {
        if can.receive < want.receive {
            exchange.no_memory(can.receive);
        }
        if can.send < want.send {
            exchange.cut_sends(can.send);
        }
    });
}
