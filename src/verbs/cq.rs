// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use core::ptr::NonNull;

use kernel::{
    error::from_err_ptr,
    ffi::c_int,
    prelude::*,
    str::CStr,
    sync::Arc, //
};

use super::{
    mr,
    Device,
    Invalidated,
    MrList,
    RecvBuffer, //
};
use crate::{
    bindings,
    os::text, //
};

/// Names a posted work request: the address of its completion entry. Compared, never followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrId(usize);

impl WrId {
    /// The name of the work request whose completion entry is `cqe`.
    #[inline]
    pub(super) fn of(cqe: *const bindings::ib_cqe) -> Self {
        Self(cqe.addr())
    }
}

/// What a successful Receive says.
#[derive(Clone, Copy)]
pub(crate) struct Received {
    /// Bytes that arrived.
    pub(crate) len: u32,
    /// The handle that the peer's Send invalidated, if it was a Send With Invalidate.
    pub(crate) invalidated: Option<u32>,
}

/// Why a work request failed. Apart from the status nothing of a failed completion is valid, so
/// nothing else is kept.
#[derive(Clone, Copy)]
pub(crate) struct Failure(bindings::ib_wc_status);

impl Failure {
    /// The cause in words.
    pub(crate) fn as_str(&self) -> &'static CStr {
        // SAFETY: The function accepts any value and returns a string constant.
        unsafe { text(bindings::ib_wc_status_msg(self.0)) }
    }
}

/// What the owner of a completion queue does with completions.
///
/// The methods of one queue never run at the same time. They run on a workqueue, in process
/// context, but a drain waits for them: they may not wait for the connection's teardown, nor drop
/// the last reference to anything that does.
pub(crate) trait CompletionHandler: Send + Sync + 'static {
    /// A Send and all those before it are done with their buffers.
    fn sent(&self, id: WrId, result: Result<(), Failure>);

    /// A Receive has completed; what arrived is in its buffer.
    fn received(&self, buf: RecvBuffer, result: Result<Received, Failure>);

    /// The invalidation posted with `context` has completed, and these are its registrations. On
    /// failure they are set aside until the drain.
    fn invalidated(&self, context: usize, result: Result<MrList<Invalidated>, Failure>);

    /// A registration request failed. Its connection is of no further use.
    fn registration_failed(&self, failure: Failure);
}

/// A completion queue, polled from a workqueue: sunrpc's locks are not safe in softirq.
///
/// # Invariants
///
/// `raw` is a valid queue whose context points to `handler`.
pub(crate) struct Cq<H: CompletionHandler> {
    raw: NonNull<bindings::ib_cq>,
    _handler: Arc<H>,
    _device: Arc<Device>,
}

// SAFETY: The queue has no thread affinity, and `H` is `Send` and `Sync`.
unsafe impl<H: CompletionHandler> Send for Cq<H> {}
// SAFETY: As above.
unsafe impl<H: CompletionHandler> Sync for Cq<H> {}

impl<H: CompletionHandler> Cq<H> {
    /// Makes a queue of `entries` entries whose completions go to `handler`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more entries than the device has, else what the driver returns.
    pub(crate) fn new(device: Arc<Device>, handler: Arc<H>, entries: u32) -> Result<Arc<Self>> {
        let context = Arc::as_ptr(&handler).cast_mut().cast();
        let entries = c_int::try_from(entries)?;

        // SAFETY: `device` is registered; `context` stays valid until the queue is freed, since
        // `handler` is kept.
        let raw = from_err_ptr(unsafe {
            bindings::ib_alloc_cq_any(
                device.as_ptr(),
                context,
                entries,
                bindings::ib_poll_context_IB_POLL_WORKQUEUE,
            )
        })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;

        // INVARIANT: Just made with `context`.
        let cq = Self {
            raw,
            _handler: handler,
            _device: device,
        };
        Ok(Arc::new(cq, GFP_KERNEL)?)
    }

    /// The C object.
    pub(crate) fn as_ptr(&self) -> *mut bindings::ib_cq {
        self.raw.as_ptr()
    }
}

impl<H: CompletionHandler> Drop for Cq<H> {
    fn drop(&mut self) {
        // SAFETY: The queue is valid.
        if unsafe { bindings::ib_cq_users(self.as_ptr()) } != 0 {
            // A queue pair could not be destroyed, so that the queue cannot be freed either: its
            // completions may still come, and need their handler.
            core::mem::forget(self._handler.clone());
        }
        // SAFETY: Queue pairs that use the queue hold a reference to this value, so none is left.
        // The call waits for a running poll; after it no completion is delivered, so that the
        // handler may go. If there are users all the same it warns and does nothing.
        unsafe { bindings::ib_free_cq(self.as_ptr()) }
    }
}

/// The handler of a queue.
///
/// # Safety
///
/// `cq` must be the queue of a live `Cq<H>`.
unsafe fn handler<'a, H: CompletionHandler>(cq: *mut bindings::ib_cq) -> &'a H {
    // SAFETY: By the invariants of `Cq<H>` the context is the handler, kept at least as long as
    // completions come.
    unsafe { &*(*cq).cq_context.cast::<H>() }
}

/// The completion entry of a work completion.
///
/// # Safety
///
/// `wc` must be valid and of a work request that was posted with a completion entry.
unsafe fn cqe(wc: *mut bindings::ib_wc) -> *mut bindings::ib_cqe {
    // SAFETY: Promised by the caller; the entry is one of the fields valid in any completion.
    unsafe { *(*wc).__bindgen_anon_1.wr_cqe.as_ref() }
}

/// The status of a work completion.
///
/// # Safety
///
/// `wc` must be valid.
unsafe fn outcome(wc: *mut bindings::ib_wc) -> Result<(), Failure> {
    // SAFETY: Promised by the caller.
    match unsafe { (*wc).status } {
        bindings::ib_wc_status_IB_WC_SUCCESS => Ok(()),
        status => Err(Failure(status)),
    }
}

/// Completion of a Send.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a `Cq<H>`, with a valid `wc`.
pub(super) unsafe extern "C" fn send_done<H: CompletionHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: As this function's.
    let (handler, id, result) = unsafe { (handler::<H>(cq), WrId::of(cqe(wc)), outcome(wc)) };
    handler.sent(id, result);
}

/// Completion of a Receive.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a `Cq<H>`, with a valid `wc`.
pub(super) unsafe extern "C" fn recv_done<H: CompletionHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: As this function's.
    let (handler, cqe, result) = unsafe { (handler::<H>(cq), cqe(wc), outcome(wc)) };
    let result = result.map(|()| {
        // SAFETY: `wc` is valid and successful, so that all its fields are.
        let (len, flags) = unsafe { ((*wc).byte_len, (*wc).wc_flags) };
        let with_invalidate =
            flags.unsigned_abs() & bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE != 0;

        Received {
            len,
            invalidated: with_invalidate.then(|| {
                // SAFETY: The flag says that this is the field in use.
                unsafe { *(*wc).ex.invalidate_rkey.as_ref() }
            }),
        }
    });
    let len = result.map_or(0, |received| received.len);
    // SAFETY: Every completion of this kind is of a Receive buffer's request, and the first and
    // only one.
    let buf = unsafe { RecvBuffer::from_completion(cqe, len) };
    handler.received(buf, result);
}

/// Completion of the last request of an invalidation.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a `Cq<H>`, with a valid `wc` of a request posted by
/// [`super::Qp::invalidate`].
pub(super) unsafe extern "C" fn invalidate_done<H: CompletionHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: As this function's.
    let (handler, cqe, result) = unsafe { (handler::<H>(cq), cqe(wc), outcome(wc)) };
    // SAFETY: The entry is that of an invalidation, whose registrations the device holds until this
    // completion.
    if let Some((context, result)) = unsafe { mr::invalidation_completed(cqe, result) } {
        handler.invalidated(context, result);
    }
}

/// Completion of a registration, which is posted unsignalled: comes only when it fails.
///
/// # Safety
///
/// Called by the RDMA core for a queue of a `Cq<H>`, with a valid `wc`.
pub(super) unsafe extern "C" fn reg_done<H: CompletionHandler>(
    cq: *mut bindings::ib_cq,
    wc: *mut bindings::ib_wc,
) {
    // SAFETY: As this function's.
    let (handler, result) = unsafe { (handler::<H>(cq), outcome(wc)) };
    if let Err(failure) = result {
        handler.registration_failed(failure);
    }
}
