// SPDX-License-Identifier: GPL-2.0

//! Requests on a queue pair besides the messages of its sender.

use core::ptr::NonNull;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    owner::Drained,
    Pd,
    PostError,
    QpOwner, //
};
use crate::bindings;

/// Memory that the device may use until the queue pair is drained.
pub(super) trait UntilDrain<O: QpOwner>: Send + Sync {
    /// Frees the memory. Process context.
    fn drained(&self, proof: &Drained<O>);
}

/// The kinds of memory that a queue pair keeps until the drain, one value of each. They are freed
/// in this order.
#[derive(Clone, Copy)]
pub(super) enum Keeps {
    /// Registrations.
    Registrations = 0,
    /// Transfers, some of which use registrations.
    Transfers = 1,
}

/// The right to post requests to a queue pair besides the messages of its sender, lent by the
/// [`super::Qp`].
///
/// Only this room reaches the [`PosterState`] behind it, which belongs to one queue pair: code
/// that could move it could exchange it with the state of another one.
pub(crate) struct Poster<'q, O: QpOwner>(&'q mut PosterState<O>);

/// The part of a queue pair that posts requests besides the messages of its sender.
///
/// # Invariants
///
/// - `raw` is a valid queue pair, kept by `owner`, and `pd` its domain, which no other queue pair
///   has.
/// - Once `open` is false nothing is posted by this value.
/// - `kept` is dropped after the drain.
/// - The send queue has room for `entries` requests more than were promised to the sender and to
///   `kept`, and for the marker of the drain.
pub(super) struct PosterState<O: QpOwner> {
    raw: NonNull<bindings::ib_qp>,
    owner: O,
    open: bool,
    pd: Arc<Pd>,
    /// By the number of [`Keeps`].
    kept: [Option<Arc<dyn UntilDrain<O>>>; 2],
    entries: u32,
}

// SAFETY: A queue pair has no thread affinity; all else is `Send`.
unsafe impl<O: QpOwner> Send for PosterState<O> {}

impl<O: QpOwner> PosterState<O> {
    /// The state for `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must be a queue pair in the domain `pd`, which no other has, and be valid as long as
    /// `owner`, its owner. Its send queue must have room for `entries` requests besides those of
    /// the sender and the marker of the drain.
    pub(super) unsafe fn new(
        raw: NonNull<bindings::ib_qp>,
        owner: O,
        pd: Arc<Pd>,
        entries: u32,
    ) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self {
            raw,
            owner,
            open: true,
            pd,
            kept: [const { None }; 2],
            entries,
        }
    }

    /// Lends the right to post.
    pub(super) fn lend(&mut self) -> Poster<'_, O> {
        Poster(self)
    }

    /// The C object.
    pub(super) fn as_raw(&self) -> NonNull<bindings::ib_qp> {
        self.raw
    }

    /// The owner of the queue pair.
    pub(super) fn owner(&self) -> &O {
        &self.owner
    }

    /// The domain of the queue pair.
    pub(super) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns `true` if anything may still be posted.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Posts nothing from here on.
    pub(super) fn close(&mut self) {
        self.open = false;
    }

    /// Frees the memory that it keeps, unless `drained` proves the drain of another queue pair.
    pub(super) fn drained(&mut self, drained: &Drained<O>) {
        if drained.is_of(self.raw) {
            for memory in self.kept.iter_mut().filter_map(Option::take) {
                memory.drained(drained);
            }
        }
    }

    /// Leaks the memory that it keeps, which the device may use for ever.
    pub(super) fn leak(&mut self) {
        for memory in self.kept.iter_mut().filter_map(Option::take) {
            core::mem::forget(memory);
        }
    }

    /// Hands a chain of requests to the device. On failure closes the queue pair.
    ///
    /// # Errors
    ///
    /// [`PostError`]; the connection has to end then.
    ///
    /// # Safety
    ///
    /// `first` must be the first of a chain of valid requests, whose memory stays until they have
    /// completed or the queue pair is drained, and whose completion entries are for its queue.
    #[inline]
    pub(super) unsafe fn post(
        &mut self,
        first: *mut bindings::ib_send_wr,
    ) -> Result<(), PostError> {
        if !self.open {
            return Err(PostError::Closed);
        }
        let mut bad = core::ptr::null();
        // SAFETY: `raw` is valid by the type invariants, and the chain by the safety requirements
        // of this function.
        let ret = unsafe { bindings::ib_post_send(self.raw.as_ptr(), first, &mut bad) };
        kernel::error::to_result(ret).map_err(|e| {
            self.open = false;
            PostError::Device(e)
        })
    }
}

impl<O: QpOwner> Poster<'_, O> {
    /// The C object.
    pub(super) fn as_raw(&self) -> NonNull<bindings::ib_qp> {
        self.0.as_raw()
    }

    /// The domain of the queue pair.
    pub(super) fn pd(&self) -> &Arc<Pd> {
        self.0.pd()
    }

    /// Returns `true` if anything may still be posted.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_open()
    }

    /// Keeps memory that the device may use until the drain, with up to `entries` requests on the
    /// send queue together.
    ///
    /// # Errors
    ///
    /// `EBUSY` when it keeps some of that kind, `EINVAL` if the send queue has not so much room.
    pub(super) fn keep(
        &mut self,
        kind: Keeps,
        memory: Arc<dyn UntilDrain<O>>,
        entries: u32,
    ) -> Result {
        let left = self.0.entries.checked_sub(entries).ok_or(EINVAL)?;
        // CAST: The numbers of the kinds.
        let Some(place @ None) = self.0.kept.get_mut(kind as usize) else {
            return Err(EBUSY);
        };
        *place = Some(memory);
        // INVARIANT: They are promised to `memory` now.
        self.0.entries = left;
        Ok(())
    }

    /// Hands a chain of requests to the device. On failure closes the queue pair.
    ///
    /// # Errors
    ///
    /// [`PostError`]; the connection has to end then.
    ///
    /// # Safety
    ///
    /// `first` must be as for [`PosterState::post`].
    #[inline]
    pub(super) unsafe fn post(
        &mut self,
        first: *mut bindings::ib_send_wr,
    ) -> Result<(), PostError> {
        // SAFETY: By the safety requirements of this function the chain is valid and stays so, and
        // its completions are for the queue of this queue pair.
        unsafe { self.0.post(first) }
    }
}
