// SPDX-License-Identifier: GPL-2.0

//! Completions of transfers.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    pool::{
        Memory,
        Sinks,
        TransferSize,
        Transfers, //
    },
    post::{
        completed,
        Done, //
    }, //
};
use crate::{
    bindings,
    os::{
        PageSet,
        Private,
        Shared, //
    },
    verbs::{
        completion::{
            cqe,
            outcome,
            TransferCallbacks, //
        },
        cq::context,
        CompletionHandler,
        Failure,
        MrPool,
        Poster,
        QpOwner, //
    }, //
};

/// A handler of the completions of a queue pair with transfers.
///
/// When a method is called, the room of the transfer in the send queue and its blocks are free.
pub(crate) trait TransferHandler: CompletionHandler {
    /// The RDMA Writes that were posted with `context` have completed, and so has the message
    /// behind them. The device no longer reads `pages`. If a message was behind them,
    /// [`CompletionHandler::sent`] is called next.
    fn written(&self, context: usize, pages: PageSet<Shared>, result: Result<(), Failure>);

    /// The RDMA Reads that were posted with `context` have completed. On failure the pages, which
    /// may have been written to, are freed.
    fn read(&self, context: usize, result: Result<PageSet<Private>, Failure>);

    /// A request that is not the last of its transfer failed: the connection has to end. The
    /// transfer completes later.
    fn transfer_failed(&self, failure: Failure);
}

impl Transfers {
    /// Makes a pool for the transfers of the queue pair of `poster`. RDMA Reads land in
    /// registrations of `sinks`, if the device needs that
    /// ([`crate::verbs::Device::reads_register`]).
    ///
    /// # Errors
    ///
    /// `EBUSY` when the queue pair has one, `EINVAL` if `sinks` is of another queue pair or the
    /// send queue has fewer entries left for others than its sender, `ENOMEM`.
    pub(crate) fn new<O>(
        mut poster: Poster<'_, O>,
        size: &TransferSize,
        sinks: Option<Arc<MrPool>>,
    ) -> Result<Arc<Self>>
    where
        O: QpOwner,
        O::Handler: TransferHandler,
    {
        Self::with_callbacks(&mut poster, callbacks::<O::Handler>(), size, sinks)
    }
}

/// The callbacks of a queue pair with a handler of type `H`.
fn callbacks<H: TransferHandler>() -> &'static TransferCallbacks {
    const {
        &TransferCallbacks {
            last: last_done::<H>,
            inner: inner_done::<H>,
        }
    }
}

/// Takes the `memory` of the transfer with this `number` back from the device, and hands it to
/// `handler`.
///
/// # Safety
///
/// `memory` must be that of the transfer, and all requests of the transfer complete, with `result`.
unsafe fn report<H: TransferHandler>(
    handler: &H,
    number: usize,
    memory: Memory,
    result: Result<(), Failure>,
) {
    match memory {
        Memory::Source(pages) => handler.written(number, pages.unmap(), result),
        Memory::Sink(pages) => {
            let pages = pages.unmap();
            handler.read(number, result.map(|()| pages));
        }
        Memory::Registered(sinks, pages) => {
            if let (Ok(()), Sinks::Posted(mrs)) = (result, sinks) {
                // SAFETY: By the safety requirements of this function all requests have completed:
                // the last one that reads into each registration has invalidated it, and the
                // registration requests were in front.
                drop(unsafe { mrs.into_invalidated() });
            }
            handler.read(number, result.map(|()| pages));
        }
    }
}

/// Completion of the last request of a transfer, or of the message behind it.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a [`Cq<H>`](crate::verbs::Cq), with a valid `wc` of a
/// transfer that was left to the device.
unsafe extern "C" fn last_done<H: TransferHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: The RDMA core passes a queue of a `Cq<H>` and a valid completion of it.
    let (context, cqe, result) = unsafe { (context::<H>(cq), cqe(wc), outcome(wc)) };
    // SAFETY: The entry is that of a transfer, which completes once; the requests of one queue
    // complete in order.
    let Some(done) = (unsafe { completed(cqe) }) else {
        return;
    };
    let Done {
        context: number,
        memory,
        send,
    } = done;
    let has_send = send.is_some();

    if let Some(send) = send {
        // SAFETY: The message has completed, and stays lent until its number is noted.
        context.set_sent(unsafe { send.give_back() });
    }
    // SAFETY: The memory came with the transfer, whose last request has completed, with this
    // result.
    unsafe { report(&*context.handler, number, memory, result) };
    if has_send {
        context.handler.sent(result);
    }
}

/// Completion of another request of a transfer, which is posted unsignalled: comes only when it
/// fails, or is flushed.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a [`Cq<H>`](crate::verbs::Cq), with a valid `wc`.
unsafe extern "C" fn inner_done<H: TransferHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: The RDMA core passes a queue of a `Cq<H>` and a valid completion of it.
    let (context, result) = unsafe { (context::<H>(cq), outcome(wc)) };
    if let Err(failure) = result {
        context.handler.transfer_failed(failure);
    }
}
