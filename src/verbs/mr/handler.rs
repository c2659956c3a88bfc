// SPDX-License-Identifier: GPL-2.0

//! Completions of registrations and invalidations.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    invalidate::invalidation_completed,
    Invalidated,
    MrList,
    MrPool, //
};
use crate::{
    bindings,
    verbs::{
        completion::{
            cqe,
            outcome,
            MrCallbacks, //
        },
        cq::context,
        CompletionHandler,
        Failure,
        MrSize,
        Poster,
        QpOwner, //
    }, //
};

/// A handler of the completions of a queue pair with registrations.
pub(crate) trait InvalidationHandler: CompletionHandler {
    /// The invalidation posted with `context` has completed, and these are its registrations. On
    /// failure they wait for the drain.
    fn invalidated(
        &self,
        queue: &mut Self::Queue,
        context: usize,
        result: Result<MrList<Invalidated>, Failure>,
    );

    /// A registration request failed: the connection has to end.
    fn registration_failed(&self, failure: Failure);
}

impl MrPool {
    /// Makes a pool of registrations for the queue pair of `poster`, the only one that they are
    /// posted to.
    ///
    /// # Errors
    ///
    /// `EBUSY` when the queue pair has a pool, `EINVAL` if the send queue has no room for the
    /// invalidation of all registrations, `ENOMEM`, or the driver's error.
    pub(crate) fn new<O>(poster: Poster<'_, O>, size: &MrSize) -> Result<Arc<Self>>
    where
        O: QpOwner,
        O::Handler: InvalidationHandler,
    {
        Self::with_callbacks(poster, callbacks::<O::Handler>(), size)
    }
}

/// The callbacks of a queue pair with a handler of type `H`.
fn callbacks<H: InvalidationHandler>() -> &'static MrCallbacks {
    const {
        &MrCallbacks {
            reg: reg_done::<H>,
            invalidate: invalidate_done::<H>,
        }
    }
}

/// Completion of the last request of an invalidation.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a [`Cq<H>`](crate::verbs::Cq), with a valid `wc` of a
/// request posted by [`super::MrPool::invalidate`].
unsafe extern "C" fn invalidate_done<H: InvalidationHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: The RDMA core passes a queue of a `Cq<H>` and a valid completion of it.
    let (context, cqe, result) = unsafe { (context::<H>(cq), cqe(wc), outcome(wc)) };
    // SAFETY: The entry is that of an invalidation, whose registrations the device holds until this
    // completion.
    if let Some((index, result)) = unsafe { invalidation_completed(cqe, result) } {
        // SAFETY: This is a callback of the queue, which calls this once.
        let queue = unsafe { context.queue() };
        context.handler.invalidated(queue, index, result);
    }
}

/// Completion of a registration, which is posted unsignalled: comes only when it fails.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a [`Cq<H>`](crate::verbs::Cq), with a valid `wc`.
unsafe extern "C" fn reg_done<H: InvalidationHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: The RDMA core passes a queue of a `Cq<H>` and a valid completion of it.
    let (context, result) = unsafe { (context::<H>(cq), outcome(wc)) };
    if let Err(failure) = result {
        context.handler.registration_failed(failure);
    }
}
