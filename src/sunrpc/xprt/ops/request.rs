// SPDX-License-Identifier: GPL-2.0

//! Methods that sunrpc calls with a task or a request.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::{
    ffi::c_int,
    prelude::*,
    sync::ArcBorrow,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use super::{
    super::{
        slot::Slot,
        window,
        Backchannel,
        Call,
        ReverseReply,
        SlotData,
        Transport, //
    },
    Object, //
};
use crate::{
    bindings,
    os::PAGE_SIZE,
    sunrpc::SendStatus, //
};

/// A task with its request, during a call of sunrpc.
///
/// # Invariants
///
/// `task` is valid, and `rqst` its request, of an object that satisfies the invariants of
/// [`Object`].
pub(super) struct Task<'a, T> {
    task: *mut bindings::rpc_task,
    rqst: *mut bindings::rpc_rqst,
    _object: PhantomData<Object<'a, T>>,
}

impl<'a, T: Transport> Task<'a, T> {
    /// Views `task`.
    ///
    /// # Safety
    ///
    /// `task` must be valid, with a request of an object that satisfies the invariants of
    /// [`Object`].
    #[inline]
    pub(super) unsafe fn new(task: *mut bindings::rpc_task) -> Self {
        // INVARIANT: By the safety requirements of this function `task` has such a request.
        Self {
            task,
            // SAFETY: By the safety requirements of this function `task` is valid.
            rqst: unsafe { (*task).tk_rqstp },
            _object: PhantomData,
        }
    }

    /// The object of the request.
    #[inline]
    fn object(&self) -> Object<'a, T> {
        // SAFETY: By the type invariants the request has such an object.
        unsafe { Object::new((*self.rqst).rq_xprt) }
    }

    /// Sets up the buffers of the request.
    ///
    /// # Safety
    ///
    /// The task itself must call this, with a request of [`Slots`](super::Slots).
    #[inline(always)]
    pub(super) unsafe fn buf_alloc(self) -> c_int {
        // SAFETY: By the type invariants the request is one of the object; the rest are the safety
        // requirements of this function.
        if unsafe { self.object().slots().alloc_buffers(self.rqst) } {
            0
        } else {
            ENOMEM.to_errno()
        }
    }

    /// Releases the buffers of the request.
    ///
    /// # Safety
    ///
    /// The request must be one of [`Slots`](super::Slots), and not be pinned. No task may use its
    /// buffers.
    #[inline(always)]
    pub(super) unsafe fn buf_free(self) {
        // SAFETY: By the type invariants and the safety requirements of this function the request
        // is one of the object's table, which has data of this type.
        let slot = unsafe { Slot::<T::Slot>::of(self.rqst) };
        if !slot.is_completed() {
            release(self.object().transport(), &slot.data);
        }
    }

    /// The task has waited for a reply for too long.
    ///
    /// # Safety
    ///
    /// The running task must be this one.
    pub(super) unsafe fn timed_out(self) {
        // SAFETY: By the type invariants the request is valid. Only requests of slots are calls;
        // the holder of the write lock changes their cookie, while their tasks wait for it.
        unsafe {
            if bindings::bc_prealloc(self.rqst) == 0 {
                let cookie = (*self.rqst).rq_connect_cookie;
                self.object().transport().timed_out(cookie);
            }
        }
    }

    /// The task is done with its request: takes the credit back.
    ///
    /// # Safety
    ///
    /// The caller must hold `transport_lock`, and the request have left the queues of sunrpc.
    #[inline(always)]
    pub(super) unsafe fn release_request(self) {
        let rqst = self.rqst;

        // SAFETY: By the type invariants all three are valid. The fields of a request that has left
        // the queues are final, except for fields that change under the lock, like the window of
        // the transport; the lock is held. Requests that are not reverse calls belong to slots.
        unsafe {
            if bindings::bc_prealloc(rqst) != 0 {
                // A reverse reply has only looked as if it had a credit (`Backchannel::deliver`).
                (*rqst).rq_cong = 0;
                return;
            }
            if (*rqst).rq_reply_bytes_recvd == 0 {
                let slot = Slot::<T::Slot>::of(rqst);
                let object = self.object();
                if let Some(credits) = object.transport().released(&slot.data) {
                    (*object.raw).cwnd = window(credits);
                }
            }
            bindings::xprt_release_rqst_cong(self.task);
        }
    }
}

/// Makes the transport release the buffers of a call that was not completed, and checks that it
/// does.
#[cold]
#[inline(never)]
fn release<T: Transport>(transport: ArcBorrow<'_, T>, slot: &T::Slot) {
    transport.release_buffers(slot);
    if slot.is_reachable() {
        // A fault of the transport. A task that stays here, with its memory, is the lesser evil.
        // SAFETY: Has no preconditions.
        unsafe { bindings::warn_on(true) };
    }
    while slot.is_reachable() {
        fsleep(Delta::from_secs(1));
    }
}

/// A request, during a call of sunrpc.
///
/// # Invariants
///
/// `raw` is a valid request of an object that satisfies the invariants of [`Object`].
pub(super) struct Rqst<'a, T> {
    raw: NonNull<bindings::rpc_rqst>,
    _object: PhantomData<Object<'a, T>>,
}

impl<T: Transport> Rqst<'_, T> {
    /// Views `raw`.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    #[inline]
    pub(super) unsafe fn new(raw: *mut bindings::rpc_rqst) -> Self {
        // INVARIANT: The safety requirements of this function are the invariants.
        Self {
            // SAFETY: A valid request is not at address 0.
            raw: unsafe { NonNull::new_unchecked(raw) },
            _object: PhantomData,
        }
    }

    /// Fills in the pages that the upper layer has left to the transport.
    ///
    /// # Safety
    ///
    /// `buf` must be a buffer of the request, which must be being encoded.
    pub(super) unsafe fn prepare_request(self, buf: *mut bindings::xdr_buf) -> c_int {
        // SAFETY: By the safety requirements of this function only the task of the request uses the
        // buffer, which calls this.
        unsafe { fill_sparse_pages(buf) }
    }

    /// Sends the request.
    ///
    /// # Safety
    ///
    /// The running task must hold the write lock, and the request be encoded and pinned.
    #[inline(always)]
    pub(super) unsafe fn send_request(self) -> c_int {
        // SAFETY: By the type invariants the request is valid, and its object satisfies the
        // invariants of `Object`. By the safety requirements of this function the lock is held,
        // during this call, which makes one value for it.
        let (transport, mut lock, reverse) = unsafe {
            let xprt = Object::<T>::new((*self.raw.as_ptr()).rq_xprt);
            (
                xprt.transport(),
                xprt.write_lock(),
                bindings::bc_prealloc(self.raw.as_ptr()) != 0,
            )
        };

        let result = if reverse {
            // SAFETY: Preallocated requests come from `Backchannel::deliver`, and sunrpc has this
            // one until it is sent.
            transport.send_reverse(&mut lock, &unsafe { ReverseReply::new(self.raw) })
        } else {
            // SAFETY: All others belong to the slot table. By the safety requirements of this
            // function it is pinned, and the lock held.
            transport.send(&mut lock, unsafe { Call::new(self.raw) })
        };
        result.map_or_else(SendStatus::to_errno, |()| 0)
    }

    /// Takes back a request of the reverse direction.
    ///
    /// # Safety
    ///
    /// As [`Backchannel::free`].
    pub(super) unsafe fn bc_free_rqst(self) {
        // SAFETY: By the safety requirements of this function the request came from
        // `Backchannel::deliver`, and sunrpc gives it back, once.
        unsafe { Backchannel::free(self.raw) };
    }
}

/// Allocates the pages that a receive buffer lacks. Returns 0, or an errno after which sunrpc tries
/// again.
///
/// # Safety
///
/// `buf` must be a buffer of a request that is being prepared.
unsafe fn fill_sparse_pages(buf: *mut bindings::xdr_buf) -> c_int {
    // SAFETY: By the safety requirements of this function `buf` is valid, and only the caller uses
    // it.
    let buf = unsafe { &mut *buf };
    if buf.flags & bindings::XDRBUF_SPARSE_PAGES == 0 || buf.page_len == 0 {
        return 0;
    }
    let pages = buf
        .page_base
        .saturating_add(buf.page_len)
        .div_ceil(PAGE_SIZE);
    for i in (buf.page_base / PAGE_SIZE)..pages {
        // SAFETY: The array has an element for each page of the buffer. CAST: Widening.
        let page = unsafe { &mut *buf.pages.add(i as usize) };
        if page.is_null() {
            // SAFETY: Called in process context; any flags will do.
            *page = unsafe {
                bindings::alloc_pages(bindings::rpc_task_gfp_mask() | bindings::__GFP_NOWARN, 0)
            };
            if page.is_null() {
                return ENOMEM.to_errno();
            }
        }
    }
    0
}
