// SPDX-License-Identifier: GPL-2.0

//! The registrations of one message.

use core::{
    mem::ManuallyDrop,
    ptr::read, //
};

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    chain::{
        Invalidated,
        Mapped,
        Registered, //
    },
    pool::{
        Mr,
        MrChain,
        MrPool, //
    },
    registration::{
        Access,
        HeadTail,
        Region, //
    }, //
};
use crate::{
    bindings,
    os::{
        HeldPages,
        Runs, //
    },
    verbs::{
        InvalidatedHandle,
        Pd, //
    }, //
};

/// The state that all registrations of a list have in common.
pub(crate) trait MrState: Sized {
    /// Gives registrations in this state back to their pool.
    fn give_back(chain: MrChain<Self>, pool: &MrPool);
}

impl MrState for Mapped {
    fn give_back(chain: MrChain<Self>, pool: &MrPool) {
        pool.reclaim(chain);
    }
}

impl MrState for Registered {
    fn give_back(chain: MrChain<Self>, pool: &MrPool) {
        pool.orphan(chain);
    }
}

impl MrState for Invalidated {
    fn give_back(chain: MrChain<Self>, pool: &MrPool) {
        pool.reclaim(chain);
    }
}

/// Registrations in the same state, for one message: at least one.
///
/// A single pointer, from which the pool is found, too: a place for kept registrations exchanges
/// lists atomically, and a posted invalidation leaves its list to the device, whose completion
/// leads to a registration alone.
///
/// # Invariants
///
/// The first registration holds a reference to the pool that all of them are from.
pub(crate) struct MrList<S: MrState> {
    chain: MrChain<S>,
}

impl<S: MrState> MrList<S> {
    /// Number of registrations.
    pub(crate) fn count(&self) -> u32 {
        self.chain
            .iter()
            .fold(0, |count: u32, _| count.saturating_add(1))
    }

    /// Returns `true` if its registrations are from `pool`.
    #[inline]
    pub(crate) fn is_of(&self, pool: &Arc<MrPool>) -> bool {
        let own = &self.chain.head().pool;
        own.as_ref().is_some_and(|own| Arc::ptr_eq(own, pool))
    }

    /// Returns `true` if its registrations are from the pool of the domain `pd`.
    #[inline]
    pub(in crate::verbs) fn is_of_domain(&self, pd: &Arc<Pd>) -> bool {
        let own = &self.chain.head().pool;
        own.as_ref().is_some_and(|own| Arc::ptr_eq(own.pd(), pd))
    }

    /// The list of these registrations; the first one holds a reference to their pool.
    #[inline]
    pub(super) fn new(chain: MrChain<S>) -> Self {
        // INVARIANT: Each caller passes the chain of an earlier list, or a first registration that
        // has just got the reference; `MrBatch` takes all from one pool. A list without a reference
        // would leak its registrations.
        Self { chain }
    }

    /// The registrations; the first one holds a reference to their pool.
    #[inline]
    pub(super) fn into_chain(self) -> MrChain<S> {
        let this = ManuallyDrop::new(self);
        // SAFETY: The value is neither used nor dropped after this, so that the chain has one
        // owner.
        unsafe { read(&this.chain) }
    }
}

impl<S: MrState> Drop for MrList<S> {
    // Most lists are consumed.
    #[inline(never)]
    fn drop(&mut self) {
        if let Some(pool) = self.chain.head_mut().pool.take() {
            // SAFETY: The chain has no drop glue, and the value is not used after this, so that the
            // chain has one owner.
            S::give_back(unsafe { read(&self.chain) }, &pool);
        }
    }
}

impl MrList<Mapped> {
    /// Adds a mapped registration to `list`. The first one gets a `reference` to the pool.
    #[inline]
    pub(super) fn push(
        list: &mut Option<Self>,
        mut mr: KBox<Mr>,
        reference: impl FnOnce() -> Arc<MrPool>,
    ) {
        // In front of the others: their order does not matter.
        let mut others = list.take().map(Self::into_chain);
        mr.pool = match &mut others {
            Some(others) => others.head_mut().pool.take(),
            None => Some(reference()),
        };
        *list = Some(Self::new(MrChain::push(others, mr)));
    }

    /// Holds `pages` until each of the registrations is unmapped.
    pub(crate) fn hold(&mut self, pages: &Arc<HeldPages>) {
        for mr in self.chain.iter_mut() {
            mr.held = Some(pages.clone());
        }
    }

    /// Chains the registration requests in front of `send`; returns the first request of the chain.
    #[inline]
    pub(crate) fn chain(&mut self, send: *mut bindings::ib_send_wr) -> *mut bindings::ib_send_wr {
        let mut first = send;

        for mr in self.chain.iter_mut() {
            mr.reg.wr.next = first;
            first = &raw mut mr.reg.wr;
        }
        first
    }

    /// Notes that the requests made by `chain` were handed to the device.
    #[inline]
    pub(crate) fn posted(self) -> MrList<Registered> {
        // SAFETY: Any registration may be taken for one that the peer may use: it waits for its
        // invalidation, or for the drain.
        MrList::new(unsafe { self.into_chain().assume() })
    }
}

impl MrList<Registered> {
    /// Takes out the registration whose handle the peer has invalidated, if it is one of the list's
    /// and was invalidated on their queue pair. Returns it and the others, or the list as it was.
    #[inline(always)]
    pub(crate) fn remotely_invalidated(
        self,
        handle: InvalidatedHandle<'_>,
    ) -> Result<(MrList<Invalidated>, Option<Self>), Self> {
        let pool = &self.chain.head().pool;
        if !pool
            .as_ref()
            .is_some_and(|pool| pool.shares_queue_pair(handle))
        {
            return Err(self);
        }
        let handle = handle.get();

        // Nearly always the chain has one item.
        if self.chain.is_single() && self.chain.head().handle() == handle {
            // SAFETY: By the type invariants of `InvalidatedHandle` the peer can no longer use the
            // only registration; the request for it was carried out, or its handle would not have
            // been valid.
            return Ok((unsafe { self.into_invalidated() }, None));
        }
        // SAFETY: By the type invariants of `InvalidatedHandle` the peer cannot use the handle.
        unsafe { self.take_out(handle) }
    }

    /// Takes out the registration with this handle, as [`Self::remotely_invalidated`].
    ///
    /// # Safety
    ///
    /// The peer must be unable to use the handle.
    #[cold]
    unsafe fn take_out(self, handle: u32) -> Result<(MrList<Invalidated>, Option<Self>), Self> {
        let (mut taken, mut others) = self
            .into_chain()
            .take_out(|mr| mr.handle() == handle)
            .map_err(Self::new)?;

        // One of them is the first of the old list, and has its reference.
        if let Some(others) = &mut others {
            let (taken, others) = (taken.head_mut(), others.head_mut());
            if taken.pool.is_none() {
                taken.pool = others.pool.clone();
            } else {
                others.pool = taken.pool.clone();
            }
        }
        // SAFETY: By the safety requirements of this function the peer cannot use the registration
        // that was taken out; the request for it was carried out, or its handle would not have been
        // valid.
        let taken = unsafe { Self::new(taken).into_invalidated() };
        Ok((taken, others.map(Self::new)))
    }

    /// Unmaps the registrations.
    ///
    /// # Safety
    ///
    /// The peer must be unable to use any of them, and no posted request may refer to them.
    #[inline]
    pub(in crate::verbs) unsafe fn into_invalidated(self) -> MrList<Invalidated> {
        let mut chain = self.into_chain();

        for mr in chain.iter_mut() {
            mr.unmap();
        }
        // SAFETY: By the safety requirements of this function the peer cannot use them, and they
        // are not mapped.
        MrList::new(unsafe { chain.assume() })
    }
}

impl MrList<Invalidated> {
    /// Registers `memory` with the registration of this list. Returns the new list and its region;
    /// or this list, if it is not of `pool`, has more registrations than one or not enough for
    /// `memory`, or if memory cannot be mapped.
    ///
    /// # Errors
    ///
    /// This list.
    #[inline(always)]
    pub(crate) fn reuse(
        mut self,
        pool: &Arc<MrPool>,
        mut memory: impl Runs,
        access: Access,
    ) -> Result<(MrList<Mapped>, Region), Self> {
        if !self.is_of(pool) || !self.chain.is_single() {
            return Err(self);
        }
        let mr = self.chain.head_mut();
        let (extent, is_all) = mr.cover(&mut memory);
        if !is_all {
            return Err(self);
        }
        let Ok(region) = mr.map(pool.device(), &extent, access) else {
            return Err(self);
        };
        // SAFETY: The only registration of the list was mapped above, and is not posted.
        let chain = unsafe { self.into_chain().assume() };
        Ok((MrList::new(chain), region))
    }

    /// The bytes that the peer has written to the head and the tail of a coalesced registration, if
    /// the list has one ([`super::MrBatch::register_coalesced`]).
    #[inline]
    pub(crate) fn written(&self) -> Option<(&[u8], &[u8])> {
        self.chain
            .iter()
            .find(|mr| mr.head_tail != HeadTail::NONE && mr.access == Access::RemoteWrite)?
            .head_and_tail()
    }
}
