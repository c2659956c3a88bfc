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
pub(super) struct PosterState<O: QpOwner> {
    raw: NonNull<bindings::ib_qp>,
    owner: O,
    open: bool,
    pd: Arc<Pd>,
    kept: Option<Arc<dyn UntilDrain<O>>>,
}

// SAFETY: A queue pair has no thread affinity; all else is `Send`.
unsafe impl<O: QpOwner> Send for PosterState<O> {}

impl<O: QpOwner> PosterState<O> {
    /// The state for `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must be a queue pair in the domain `pd`, which no other has, and be valid as long as
    /// `owner`, its owner.
    pub(super) unsafe fn new(raw: NonNull<bindings::ib_qp>, owner: O, pd: Arc<Pd>) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self {
            raw,
            owner,
            open: true,
            pd,
            kept: None,
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
            if let Some(memory) = self.kept.take() {
                memory.drained(drained);
            }
        }
    }

    /// Leaks the memory that it keeps, which the device may use for ever.
    pub(super) fn leak(&mut self) {
        core::mem::forget(self.kept.take());
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

    /// Keeps memory that the device may use until the drain.
    ///
    /// # Errors
    ///
    /// `EBUSY` when it keeps some.
    pub(super) fn keep(&mut self, memory: Arc<dyn UntilDrain<O>>) -> Result {
        if self.0.kept.is_some() {
            return Err(EBUSY);
        }
        self.0.kept = Some(memory);
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
