// SPDX-License-Identifier: GPL-2.0

//! Owners of queue pairs, and the proof that all posted requests have completed.

use core::ptr::NonNull;

use kernel::error::Error;

use crate::bindings;

/// The reason why a request could not be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostError {
    /// The queue pair takes no more requests: its connection is being torn down.
    Closed,
    /// The device refused. It may have taken part of the requests, so the connection has to end.
    Device(Error),
}

/// An owner of a queue pair, which keeps it alive and can drain it.
///
/// # Safety
///
/// [`Self::drain`] must return only after every request that was posted has completed.
pub(crate) unsafe trait QpOwner: Clone + Send + Sync {
    /// Moves the queue pair to the error state and waits until every posted request has completed.
    /// Process context, and neither from a completion nor under a lock that completions take.
    fn drain(&self);
}

/// A proof that a queue pair is drained. It keeps the queue pair.
pub(crate) struct Drained<O> {
    raw: NonNull<bindings::ib_qp>,
    _owner: O,
}

impl<O: QpOwner> Drained<O> {
    /// Waits until every request that was posted to `raw`, the queue pair of `owner`, has
    /// completed. As [`QpOwner::drain`].
    pub(super) fn wait(raw: NonNull<bindings::ib_qp>, owner: O) -> Self {
        owner.drain();
        Self { raw, _owner: owner }
    }

    /// Tells whether `raw` is the queue pair.
    pub(super) fn is_of(&self, raw: NonNull<bindings::ib_qp>) -> bool {
        self.raw == raw
    }
}
