// SPDX-License-Identifier: GPL-2.0

//! Requests and calls that wait for a thread.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

use super::SvcXprt;
use crate::{
    bindings,
    os::Fifo, //
};

/// The things that wait in an [`Inbox`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Requests for connections, at a listener (`XPT_CONN`).
    Requests,
    /// Calls, at a connection (`XPT_DATA`).
    Calls,
}

impl Waiting {
    fn flag(self) -> u32 {
        match self {
            Self::Requests => bindings::XPT_CONN,
            Self::Calls => bindings::XPT_DATA,
        }
    }
}

/// Requests or calls that wait for a thread.
///
/// The flag of the object is set as long as there are some: it changes under the lock of the queue,
/// so that none is overlooked, and no thread looks into an empty inbox (H-114).
#[pin_data]
pub(crate) struct Inbox<I> {
    waiting: Waiting,
    /// Without places once it is closed.
    #[pin]
    queue: SpinLock<Fifo<I>>,
}

impl<I> Inbox<I> {
    /// An inbox without places.
    pub(crate) fn new(waiting: Waiting) -> impl PinInit<Self> {
        pin_init!(Self {
            waiting,
            queue <- new_spinlock!(Fifo::none(), "rpcrdma_rs::Inbox"),
        })
    }

    /// Makes places for `capacity` items, before the first one comes. Not after [`Self::close`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EBUSY` if it has items.
    pub(crate) fn make(&self, capacity: usize) -> Result {
        let mut items = Fifo::new(capacity)?;
        let mut queue = self.queue.lock();

        if !queue.is_empty() {
            return Err(EBUSY);
        }
        // Swapped, so that the former places are freed after the lock is released.
        core::mem::swap(&mut *queue, &mut items);
        drop(queue);
        Ok(())
    }

    /// Adds an item for a thread of the transport `xprt`. Any process context.
    ///
    /// # Errors
    ///
    /// The item, if the inbox is full or closed.
    pub(crate) fn push(&self, xprt: &SvcXprt, item: I) -> Result<(), I> {
        self.add(xprt, item, Fifo::push)
    }

    /// Adds an item in front of all others. Otherwise as [`Self::push`].
    pub(crate) fn push_first(&self, xprt: &SvcXprt, item: I) -> Result<(), I> {
        self.add(xprt, item, Fifo::push_first)
    }

    #[inline]
    fn add(
        &self,
        xprt: &SvcXprt,
        item: I,
        push: impl FnOnce(&mut Fifo<I>, I) -> Result<(), I>,
    ) -> Result<(), I> {
        let mut queue = self.queue.lock();

        push(&mut queue, item)?;
        xprt.set(self.waiting.flag());
        drop(queue);
        xprt.enqueue();
        Ok(())
    }

    /// Takes the next item, for a thread that has the transport `xprt` to itself.
    pub(crate) fn pop(&self, xprt: &SvcXprt) -> Option<I> {
        let mut queue = self.queue.lock();
        let item = queue.pop();

        if queue.is_empty() {
            xprt.clear(self.waiting.flag());
        }
        item
    }

    /// Adds nothing from now on. Takes all items, to be dropped without the lock.
    pub(crate) fn close(&self) -> Fifo<I> {
        core::mem::replace(&mut *self.queue.lock(), Fifo::none())
    }
}
