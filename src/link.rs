// SPDX-License-Identifier: GPL-2.0

//! The part of a connection that is the same at both ends: its life, the gate around its queue
//! pair, and the order of its teardown. It knows neither calls nor sunrpc.
//!
//! Three things are left to its owner, of type `H`: to act on the transitions of the [`Life`], to
//! handle events and completions, and to release in the teardown all that depends on the queue
//! pair.

#![forbid(unsafe_code)]

pub(crate) mod life;
pub(crate) mod sizes;

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        completion::Completion,
        Arc,
        SpinLock, //
    }, //
};

use self::life::Life;
use crate::{
    cm::{
        Endpoint,
        EventHandler, //
    },
    verbs::{
        Closing,
        CompletionHandler,
        Lengths,
        Qp,
        SendQueue, //
    }, //
};

/// The queue pair of a connection with the handler `H` of events and completions, without its send
/// queue.
pub(crate) type LinkQp<H> = Qp<Arc<Endpoint<H>>>;

/// The send queue of such a queue pair.
pub(crate) type LinkSends<H> = SendQueue<Arc<Endpoint<H>>>;

/// The part of a connection that is the same at both ends.
#[pin_data]
pub(crate) struct Link<H: EventHandler + CompletionHandler> {
    /// The word that stores its [`Life`].
    life: Atomic<u32>,
    /// Held from a transition until the upper layer knows of it.
    #[pin]
    telling: SpinLock<()>,
    /// The gate: all that is posted, but for the messages of the sender, is posted under this lock,
    /// and not once the teardown has begun.
    #[pin]
    qp: SpinLock<Option<LinkQp<H>>>,
    /// Signalled, once and for all, when the teardown is over.
    #[pin]
    torn_down: Completion,
}

impl<H: EventHandler + CompletionHandler> Link<H> {
    /// A link in its first state, without a queue pair.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            life: Atomic::new(Life::FORMING.word()),
            telling <- new_spinlock!((), "rpcrdma_rs::Link::telling"),
            qp <- new_spinlock!(None, "rpcrdma_rs::Link::qp"),
            torn_down <- Completion::new(),
        })
    }

    /// Its life now.
    #[inline]
    pub(crate) fn life(&self) -> Life {
        Life::from_word(self.life.load(Relaxed))
    }

    /// Moves the life on by `transition`, and returns its action; `None` if the life does not
    /// change.
    fn advance<A>(&self, transition: impl Fn(Life) -> Option<(Life, A)>) -> Option<A> {
        // Relaxed: the word decides which party acts, and nothing else is read because of it.
        loop {
            let was = self.life.load(Relaxed);
            let (next, action) = transition(Life::from_word(was))?;
            if self.life.cmpxchg(was, next.word(), Relaxed).is_ok() {
                return Some(action);
            }
        }
    }

    /// Moves the life on by `transition`, and calls `tell` with its action if the life changes.
    /// `tell` reports a loss to the upper layer without naming a connection: the
    /// [teardown](Self::tear_down) waits for it, so that the next connection cannot be meant.
    pub(crate) fn advance_and_tell<A: Copy>(
        &self,
        transition: impl Fn(Life) -> Option<(Life, A)>,
        tell: impl FnOnce(A),
    ) -> Option<A> {
        let _telling = self.telling.lock();
        let action = self.advance(transition)?;

        tell(action);
        Some(action)
    }

    /// Calls `tell` unless the teardown, which waits for it, has begun.
    pub(crate) fn tell_if_in_use(&self, tell: impl FnOnce()) {
        let _telling = self.telling.lock();

        if !self.life().is_closed() {
            tell();
        }
    }

    /// Opens the gate: `qp` is the queue pair from here on. Called once.
    pub(crate) fn set_qp(&self, qp: LinkQp<H>) {
        *self.qp.lock() = Some(qp);
    }

    /// Calls `act` with the queue pair, if the teardown has not taken it.
    #[inline]
    pub(crate) fn with_qp<R>(&self, act: impl FnOnce(&mut LinkQp<H>) -> R) -> Option<R> {
        let mut guard = self.qp.lock();
        let qp: &mut Option<LinkQp<H>> = &mut guard;

        if let Some(qp) = qp {
            return Some(act(qp));
        }
        // Dropping the captures of `act` may sleep.
        drop(guard);
        drop(act);
        None
    }

    /// The lengths up to `want` that `memory` bytes permit. If they permit less, the Receives
    /// become shorter, and then the Send buffers, but no buffer shorter than it is. `None` without
    /// a queue pair.
    pub(crate) fn affordable(&self, want: Lengths, memory: u64) -> Option<Lengths> {
        self.with_qp(|qp| {
            let (now, mut cut) = (qp.lengths(), want);
            // The present buffers stay until the last of them has come back.
            let present = qp.usage().bytes;
            while qp.most_bytes(cut).saturating_add(present) > memory {
                let longest = if cut.receive > now.receive {
                    &mut cut.receive
                } else if cut.send > now.send {
                    &mut cut.send
                } else {
                    break;
                };
                *longest = (*longest / 2) & !3;
            }
            Lengths {
                send: cut.send.max(now.send.min(want.send)),
                receive: cut.receive.max(now.receive.min(want.receive)),
            }
        })
    }

    /// Takes the connection down: afterwards the device has no request of ours, and the peer can
    /// reach none of our memory. The memory that is left is freed with the connection.
    ///
    /// `sever` is called when all completions have come, and takes back all that depends on the
    /// queue pair; `free` when the queue pair is gone, after which memory that the peer could reach
    /// may be used again.
    ///
    /// Called once, by the owner of the send queue, or without one if the connection was never
    /// made. Process context.
    pub(crate) fn tear_down(
        &self,
        sends: Option<LinkSends<H>>,
        sever: impl FnOnce(),
        free: impl FnOnce(),
    ) {
        self.advance(|life| Some((life.torn_down(), ())));
        // Code that found the loss before notifies the upper layer under this lock; code that finds
        // it from here on does not.
        drop(self.telling.lock());
        let closing = sends.and_then(|sends| self.with_qp(|qp| qp.close(sends)));
        if let Some(Ok(closing)) = closing {
            self.drain(closing, sever);
            free();
        }
        self.torn_down.complete_all();
    }

    /// Waits for all completions, calls `sever`, and frees the queue pair.
    fn drain(&self, closing: Closing<Arc<Endpoint<H>>>, sever: impl FnOnce()) {
        closing.owner().disconnect();
        let drained = closing.drain();
        let qp = self.qp.lock().take();

        sever();
        match (qp, &drained) {
            (Some(qp), Some(drained)) => qp.finish(drained),
            // The device may still use what it has.
            (qp, _) => core::mem::forget(qp),
        }
        // `drained` is dropped last: it keeps the queue pair.
    }

    /// Waits until the [teardown](Self::tear_down) is over. Process context.
    pub(crate) fn wait_torn_down(&self) {
        self.torn_down.wait_for_completion();
    }
}
