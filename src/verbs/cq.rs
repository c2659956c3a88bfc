// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! C source: [`drivers/infiniband/core/cq.c`](srctree/drivers/infiniband/core/cq.c)

use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};

use kernel::{
    error::from_err_ptr,
    ffi::c_int,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use super::{
    completion::{
        cqe,
        outcome,
        Callbacks,
        InvalidatedHandle, //
    },
    counters::{
        Counters,
        QpCounters, //
    },
    recv_queue::TakesBack,
    Device,
    Failure,
    Pd,
    QpSize,
    Received,
    RecvBuffer,
    SendBuffer, //
};
use crate::bindings;

/// A handler of the completions of one queue.
///
/// The methods of one queue never run at the same time. They run on a workqueue, in process
/// context, but a drain waits for them: they may not wait for the connection's teardown, nor drop
/// the last reference to anything that does.
pub(crate) trait CompletionHandler: Send + Sync + 'static {
    /// The half of the queue pair that takes Receives back: a [`super::RecvQueue`], or, if threads
    /// besides the handler do that, a [`super::SharedRecvQueue`].
    type Queue: TakesBack;

    /// A Send and all its predecessors are complete: their buffers can be used again.
    fn sent(&self, result: Result<(), Failure>);

    /// A Receive has completed; the message is in its buffer. `queue` takes the buffer back.
    fn received(
        &self,
        queue: &mut Self::Queue,
        buf: RecvBuffer,
        result: Result<Received<'_>, Failure>,
    );
}

/// A completion queue, polled from a workqueue: sunrpc's locks are not safe in softirq.
///
/// # Invariants
///
/// `raw` is a valid queue whose context is `context`, until `freed` is set.
pub(crate) struct Cq<H: CompletionHandler> {
    raw: NonNull<bindings::ib_cq>,
    context: NonNull<Context<H>>,
    counters: Arc<Counters>,
    /// Set if a queue pair uses the counters.
    used: Atomic<bool>,
    freed: Atomic<bool>,
    device: Arc<Device>,
}

/// The context of a queue. The callbacks of one queue never run at the same time: the RDMA core
/// polls a queue from one work item.
pub(super) struct Context<H: CompletionHandler> {
    pub(super) handler: Arc<H>,
    /// The numbers that free the buffers of Sends. Not reached by way of `queue`, which a handler
    /// gets a mutable reference to.
    counters: Arc<Counters>,
    queue: UnsafeCell<H::Queue>,
}

impl<H: CompletionHandler> Context<H> {
    fn new(handler: Arc<H>, counters: Arc<Counters>) -> Result<KBox<Self>> {
        let queue = H::Queue::new(&QpCounters(counters.clone()));
        let context = Self {
            handler,
            counters,
            queue: UnsafeCell::new(queue),
        };

        Ok(KBox::new(context, GFP_KERNEL)?)
    }
}

// SAFETY: The queue has no thread affinity, and `H` is `Send` and `Sync`.
unsafe impl<H: CompletionHandler> Send for Cq<H> {}
// SAFETY: Shared references reach the handler, which is `Sync`, and atomic counters; the receive
// queue is left to the callbacks.
unsafe impl<H: CompletionHandler> Sync for Cq<H> {}

impl<H: CompletionHandler> Cq<H> {
    /// Makes a queue for one queue pair of `size`, with `handler` for the completions.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more entries than the device has, else the driver's error.
    pub(crate) fn new(device: Arc<Device>, handler: Arc<H>, size: &QpSize) -> Result<Arc<Self>> {
        let entries = c_int::try_from(size.completions())?;
        let counters = Arc::new(Counters::new(), GFP_KERNEL)?;
        let context = Context::new(handler, counters.clone())?;
        let context = NonNull::from(KBox::leak(context));

        // SAFETY: `device` is registered; `context` stays valid until the queue is freed.
        let raw = from_err_ptr(unsafe {
            bindings::ib_alloc_cq_any(
                device.as_ptr(),
                context.as_ptr().cast(),
                entries,
                bindings::ib_poll_context_IB_POLL_WORKQUEUE,
            )
        });
        let raw = match raw.and_then(|raw| NonNull::new(raw).ok_or(ENOMEM)) {
            Ok(raw) => raw,
            Err(error) => {
                // SAFETY: From a box, and no queue refers to it.
                drop(unsafe { KBox::from_raw(context.as_ptr()) });
                return Err(error);
            }
        };
        // INVARIANT: The queue was made above with `context`.
        let cq = Self {
            raw,
            context,
            counters,
            used: Atomic::new(false),
            freed: Atomic::new(false),
            device,
        };
        Ok(Arc::new(cq, GFP_KERNEL)?)
    }

    /// Reserves the queue and the domain `pd` for one queue pair, and returns the counters for it.
    ///
    /// # Errors
    ///
    /// `EBUSY` when another has the queue or the domain already, `EINVAL` if the domain is one of
    /// another device.
    pub(crate) fn counters_for(&self, pd: &Pd) -> Result<QpCounters> {
        if !core::ptr::eq(pd.device(), &*self.device) {
            return Err(EINVAL);
        }
        if self.used.xchg(true, Relaxed) {
            return Err(EBUSY);
        }
        pd.reserve()?;
        Ok(QpCounters(self.counters.clone()))
    }

    /// The C object, for a queue pair that is yet to be made.
    pub(crate) fn as_ptr(&self) -> *mut bindings::ib_cq {
        self.raw.as_ptr()
    }

    /// Frees the queue after its queue pair, unless that is done. Returns `true` if no completion
    /// can come after this: not if the device has refused to destroy the queue pair. Process
    /// context, not from a completion.
    pub(crate) fn free(&self) -> bool {
        if self.freed.xchg(true, Relaxed) {
            return true;
        }
        // SAFETY: By the type invariants the queue is valid.
        let is_free = unsafe { bindings::ib_cq_users(self.raw.as_ptr()) } == 0;
        // A queue whose queue pair could not be destroyed stays, and its completions, which may
        // still come, need their context.
        if is_free {
            // SAFETY: No queue pair uses the queue. The call waits for a running poll; after it no
            // completion is delivered.
            unsafe { bindings::ib_free_cq(self.raw.as_ptr()) }
            // SAFETY: From a box; by the type invariants only the queue has referred to it.
            drop(unsafe { KBox::from_raw(self.context.as_ptr()) });
        }
        is_free
    }
}

impl<H: CompletionHandler> Drop for Cq<H> {
    fn drop(&mut self) {
        self.free();
    }
}

/// The context of a queue.
///
/// # Safety
///
/// `cq` must be the queue of a `Cq<H>` that is not dropped yet.
#[inline]
pub(super) unsafe fn context<'a, H: CompletionHandler>(cq: *mut bindings::ib_cq) -> &'a Context<H> {
    // SAFETY: By the safety requirements of this function and the type invariants of `Cq<H>` the
    // context of the queue is a `Context<H>`, which is kept at least as long as completions come.
    unsafe { &*(*cq).cq_context.cast::<Context<H>>() }
}

impl<H: CompletionHandler> Context<H> {
    /// Notes that the Send with this number, and all before it, are complete.
    pub(super) fn set_sent(&self, number: u32) {
        self.counters.set_completed(number);
    }

    /// The receive queue.
    ///
    /// # Safety
    ///
    /// Called by a callback of the queue, once, which uses the result no longer than it runs.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn queue(&self) -> &mut H::Queue {
        // SAFETY: The callbacks of one queue run one at a time, and nothing else refers to the
        // value, so that the caller's is the only reference.
        unsafe { &mut *self.queue.get() }
    }
}

/// The callbacks of the queues with a handler of type `H`.
pub(super) fn callbacks<H: CompletionHandler>() -> &'static Callbacks {
    const {
        &Callbacks {
            send: send_done::<H>,
            spare: spare_done::<H>,
            recv: recv_done::<H>,
        }
    }
}

/// Completion of a Send.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a `Cq<H>`, with a valid `wc` of a posted [`SendBuffer`].
unsafe extern "C" fn send_done<H: CompletionHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: The RDMA core passes a queue of a `Cq<H>` and a valid completion of it. The buffer is
    // the send queue's, but stays posted until its number is stored below.
    let (context, number, result) = unsafe {
        (
            context::<H>(cq),
            SendBuffer::number_of(cqe(wc)),
            outcome(wc),
        )
    };
    context.set_sent(number);
    context.handler.sent(result);
}

/// Completion of a message that has no place in the send queue.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a `Cq<H>`, with a valid `wc`.
unsafe extern "C" fn spare_done<H: CompletionHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: The RDMA core passes a queue of a `Cq<H>` and a valid completion of it.
    let (context, result) = unsafe { (context::<H>(cq), outcome(wc)) };
    context.counters.set_spare_posted(false);
    context.handler.sent(result);
}

/// Completion of a Receive.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a `Cq<H>`, with a valid `wc` of a posted [`RecvBuffer`].
unsafe extern "C" fn recv_done<H: CompletionHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: The RDMA core passes a queue of a `Cq<H>` and a valid completion of it.
    let (context, cqe, result) = unsafe { (context::<H>(cq), cqe(wc), outcome(wc)) };
    let result = result.and_then(|()| {
        // SAFETY: `wc` is valid and successful, so that all its fields are.
        let (opcode, len, flags) = unsafe { ((*wc).opcode, (*wc).byte_len, (*wc).wc_flags) };
        if opcode != bindings::ib_wc_opcode_IB_WC_RECV {
            return Err(Failure::WITH_IMMEDIATE);
        }
        let with_invalidate =
            flags.unsigned_abs() & bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE != 0;

        Ok(Received {
            len,
            invalidated: with_invalidate.then(|| {
                // SAFETY: The completion is one of a Receive and successful, with this flag; it is
                // handled until this function returns.
                unsafe { InvalidatedHandle::of(wc) }
            }),
        })
    });
    let len = result.map_or(0, |received| received.len);
    // SAFETY: Every completion of this kind is of a Receive buffer's request, and the first and
    // only one. If a message has come, the device has written that many bytes.
    let buf = unsafe { RecvBuffer::from_completion(cqe, len) };
    // SAFETY: This is a callback of the queue, which calls this once.
    let queue = unsafe { context.queue() };
    context.handler.received(queue, buf, result);
}
