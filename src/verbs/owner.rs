// SPDX-License-Identifier: GPL-2.0

//! Owners of queue pairs, and the proof that all posted requests have completed.

use core::ptr::NonNull;

use kernel::error::{
    code::ENODEV,
    Error, //
};

use super::CompletionHandler;
use crate::bindings;

/// The reason why a request could not be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostError {
    /// The queue pair takes no more requests: its connection is being torn down.
    Closed,
    /// The device refused. It may have taken part of the requests, so the connection has to end.
    Device(Error),
}

impl From<PostError> for Error {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Closed => ENODEV,
            PostError::Device(error) => error,
        }
    }
}

/// An owner of a queue pair, which keeps it alive and can drain it.
///
/// # Safety
///
/// The completions of the queue pair must go to a [`super::Cq`] of [`Self::Handler`].
///
/// After [`Self::destroy`] has returned `true`, the device must use no request that was posted to
/// the queue pair, and no completion of one must come.
pub(crate) unsafe trait QpOwner: Clone + Send + Sync {
    /// The handler of the completions.
    type Handler: CompletionHandler;

    /// Moves the queue pair to the error state and waits until every posted request has completed.
    /// If the device refuses, as one whose firmware does not answer, some may not have. Process
    /// context, and neither from a completion nor under a lock that completions take.
    fn drain(&self);

    /// Destroys the queue pair and its completion queue. Requests that are still posted do not
    /// complete. Returns `false` if the device refuses. As [`Self::drain`].
    fn destroy(&self) -> bool;
}

/// A proof that the device uses no request of a queue pair, and that no completion comes. It keeps
/// the owner.
pub(crate) struct Drained<O> {
    raw: NonNull<bindings::ib_qp>,
    _owner: O,
}

impl<O: QpOwner> Drained<O> {
    /// Waits until every request that was posted to `raw`, the queue pair of `owner`, has
    /// completed, and destroys the queue pair: a drain may fail without a word. `None` if the
    /// device refuses: what it may still use must not be freed then. As [`QpOwner::drain`].
    pub(super) fn wait(raw: NonNull<bindings::ib_qp>, owner: O) -> Option<Self> {
        owner.drain();
        owner.destroy().then_some(Self { raw, _owner: owner })
    }

    /// Returns `true` if `raw` is the queue pair.
    pub(super) fn is_of(&self, raw: NonNull<bindings::ib_qp>) -> bool {
        self.raw == raw
    }
}
