// SPDX-License-Identifier: GPL-2.0

//! Chains of RDMA Reads or Writes with the pages that they use.

use core::marker::PhantomData;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    pages::{
        Direction,
        PagesOf,
        ToPeer, //
    },
    pool::{
        Block,
        Load,
        Memory,
        Transfers, //
    }, //
};
use crate::{
    bindings,
    verbs::{
        buffer::LentSend,
        Pd, //
    }, //
};

/// Blocks that form a chain, which is not posted, with its [`Load`]. Dropping it frees all.
///
/// # Invariants
///
/// The first block has a load, and no posted request is one of the chain's.
pub(super) struct Chain {
    head: Option<KBox<Block>>,
    /// Entries of the send queue that it takes, without a message behind it.
    entries: u32,
}

impl Chain {
    /// The chain of `head`, which takes `entries` of the send queue.
    pub(super) fn new(
        mut head: KBox<Block>,
        entries: u32,
        memory: Memory,
        pool: Arc<Transfers>,
    ) -> Self {
        head.load = Some(Load {
            memory,
            permit: None,
            context: 0,
            send: None,
            pool,
        });
        // INVARIANT: The load was set above; a block that is not on the free list was taken by the
        // caller, and is not posted.
        Self {
            head: Some(head),
            entries,
        }
    }

    fn load(&mut self) -> Option<&mut Load> {
        self.head.as_mut()?.load.as_mut()
    }

    /// The pool of its blocks.
    fn pool(&self) -> Option<&Arc<Transfers>> {
        Some(&self.head.as_ref()?.load.as_ref()?.pool)
    }

    /// The blocks.
    #[cfg(CONFIG_KUNIT = "y")]
    fn blocks(&self) -> impl Iterator<Item = &Block> {
        core::iter::successors(self.head.as_deref(), |block| block.next.as_deref())
    }

    /// Leaves the chain to the device, in front of `behind`, a message or null. Returns the first
    /// request; the completion of the last one has to be passed to [`super::post::completed`].
    fn leave(
        mut self,
        context: usize,
        behind: *mut bindings::ib_send_wr,
        send: impl FnOnce(*mut bindings::ib_cqe) -> Option<LentSend>,
    ) -> *mut bindings::ib_send_wr {
        let Some(mut head) = self.head.take() else {
            return behind;
        };
        let mut first = head.link(behind);
        let send = send(head.entry());
        if let Some(load) = head.load.as_mut() {
            load.context = context;
            load.send = send;
            first = load.memory.register(first);
        }
        head.member.set_posted(true);
        // The completion leads back to the block, or the list of its pool does.
        KBox::leak(head);
        first
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if let Some(head) = self.head.take() {
            // By the type invariants no request of it is posted.
            drop(Transfers::take_back(head));
        }
    }
}

/// RDMA Reads or Writes with the pages that they use, in direction `D`, which wait for room in the
/// send queue. Dropping it frees the pages.
pub(crate) struct Transfer<D: Direction> {
    chain: Chain,
    _direction: PhantomData<D>,
}

/// RDMA Reads or Writes that have room in the send queue. Posting consumes it; then the completion
/// of the last request returns the pages, or the drain frees them.
pub(crate) struct Admitted<D: Direction>(Transfer<D>);

impl<D: Direction> Transfer<D> {
    pub(super) fn new(chain: Chain) -> Self {
        Self {
            chain,
            _direction: PhantomData,
        }
    }

    /// Entries of the send queue that it takes.
    pub(crate) fn entries(&self) -> u32 {
        self.chain.entries
    }

    /// Takes the room in the send queue.
    ///
    /// # Errors
    ///
    /// Itself, if the room is too short now. More is returned whenever a transfer has completed.
    pub(crate) fn admit(mut self) -> Result<Admitted<D>, Self> {
        let entries = self.entries();
        let permit = self
            .chain
            .pool()
            .and_then(|pool| pool.budget().take(entries));
        let (Some(permit), Some(load)) = (permit, self.chain.load()) else {
            return Err(self);
        };
        load.permit = Some(permit);
        Ok(Admitted(self))
    }

    /// The blocks of the chain.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.chain.blocks()
    }
}

impl<D: Direction> Admitted<D> {
    /// Returns `true` if it is of `pool`.
    pub(super) fn is_of(&self, pool: &Arc<Transfers>) -> bool {
        let own = self.0.chain.pool();
        own.is_some_and(|own| Arc::ptr_eq(own, pool))
    }

    /// Leaves it to the device. Returns the first request, to be posted to the queue pair of its
    /// pool.
    pub(super) fn leave(self, context: usize) -> *mut bindings::ib_send_wr {
        let nothing = core::ptr::null_mut();
        self.0.chain.leave(context, nothing, |_| None)
    }
}

impl Admitted<ToPeer> {
    /// Returns `true` if it is to be posted to the queue pair of the domain `pd`.
    pub(in crate::verbs) fn is_of_domain(&self, pd: &Arc<Pd>) -> bool {
        let pool = self.0.chain.pool();
        pool.is_some_and(|pool| pool.is_of_domain(pd))
    }

    /// Leaves it to the device, in front of the message `behind`, whose completion becomes that of
    /// the whole: `lend` makes it complete to the entry that it is given. Returns the first
    /// request.
    pub(in crate::verbs) fn leave_before(
        self,
        context: usize,
        behind: *mut bindings::ib_send_wr,
        lend: impl FnOnce(*mut bindings::ib_cqe) -> LentSend,
    ) -> *mut bindings::ib_send_wr {
        self.0.chain.leave(context, behind, |cqe| Some(lend(cqe)))
    }
}

/// The reason why a transfer was not made, with its pages.
pub(crate) struct NotMade<D: Direction> {
    /// The pages, unchanged.
    pub(crate) pages: PagesOf<D>,
    /// The reason.
    pub(crate) error: Error,
}
