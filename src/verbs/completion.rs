// SPDX-License-Identifier: GPL-2.0

//! Completions of work requests.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::str::CStr;

use crate::{
    bindings,
    os::text, //
};

/// The result of a successful Receive, valid for `'c`, while its completion is handled.
#[derive(Clone, Copy)]
pub(crate) struct Received<'c> {
    /// Bytes that arrived.
    pub(crate) len: u32,
    /// The handle that the peer's Send invalidated, if it was a Send With Invalidate.
    pub(crate) invalidated: Option<InvalidatedHandle<'c>>,
}

/// A handle that the peer has invalidated, from the completion of a Receive. It cannot be kept
/// beyond `'c`, while that completion is handled, since the handle may be valid again later.
///
/// # Invariants
///
/// Since the Receive of the queue pair `qp` completed, the peer can no longer use the handle there.
#[derive(Clone, Copy)]
pub(crate) struct InvalidatedHandle<'c> {
    handle: u32,
    qp: *mut bindings::ib_qp,
    _completion: PhantomData<&'c ()>,
}

impl InvalidatedHandle<'_> {
    /// The handle of a completion.
    ///
    /// # Safety
    ///
    /// `wc` must be a valid and successful completion of a Receive with the flag for an invalidated
    /// handle, and be handled during the lifetime that the caller chooses.
    #[inline(always)]
    pub(super) unsafe fn of(wc: *mut bindings::ib_wc) -> Self {
        // INVARIANT: The device has invalidated the handle before it completed the Receive.
        Self {
            // SAFETY: By the safety requirements of this function this is the field in use.
            handle: unsafe { *(*wc).ex.invalidate_rkey.as_ref() },
            // SAFETY: The completion is valid; of a successful one all fields are.
            qp: unsafe { (*wc).qp },
            _completion: PhantomData,
        }
    }

    /// The number that the peer knows it by.
    #[inline(always)]
    pub(crate) fn get(self) -> u32 {
        self.handle
    }

    /// Returns `true` if it belongs to the queue pair `qp`. Handles of other devices may have the
    /// same number.
    #[inline(always)]
    pub(super) fn is_of(self, qp: NonNull<bindings::ib_qp>) -> bool {
        self.qp == qp.as_ptr()
    }
}

/// The cause of a failure, in words. Apart from the status nothing of a failed completion is valid,
/// so nothing else is kept.
#[derive(Clone, Copy)]
pub(crate) struct Failure {
    text: &'static CStr,
    is_refused: bool,
}

impl Failure {
    /// A Receive has completed without a message: its length counts the memory that was written.
    pub(super) const WITH_IMMEDIATE: Self = Self {
        text: c"an RDMA Write with immediate data has come",
        is_refused: false,
    };

    /// The failure of a work request with this status.
    #[cold]
    fn of(status: bindings::ib_wc_status) -> Self {
        Self {
            // SAFETY: The function accepts any value and returns a string constant.
            text: unsafe { text(bindings::ib_wc_status_msg(status)) },
            is_refused: matches!(
                status,
                bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR
                    | bindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR
                    | bindings::ib_wc_status_IB_WC_REM_OP_ERR
            ),
        }
    }

    /// Returns `true` if the peer's device has refused the request. The requests behind it fail
    /// without that.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// The cause in words.
    pub(crate) fn as_str(&self) -> &'static CStr {
        self.text
    }
}

/// A function that the RDMA core calls for a completion.
pub(super) type Callback = unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc);

/// The functions that the RDMA core calls for the completions of one queue, for the completion
/// entries of the requests of its queue pair.
pub(super) struct Callbacks {
    /// For a message of the send queue.
    pub(super) send: Callback,
    /// For a message that has no place in it.
    pub(super) spare: Callback,
    /// For a Receive.
    pub(super) recv: Callback,
}

/// The functions that the RDMA core calls for the completions of registrations and invalidations.
pub(super) struct MrCallbacks {
    pub(super) reg: Callback,
    pub(super) invalidate: Callback,
}

/// The functions that the RDMA core calls for the completions of transfers.
pub(super) struct TransferCallbacks {
    /// For the last request of one, or the message behind it.
    pub(super) last: Callback,
    /// For another request.
    pub(super) inner: Callback,
}

/// The completion entry of a work completion.
///
/// # Safety
///
/// `wc` must be valid and of a work request that was posted with a completion entry.
pub(super) unsafe fn cqe(wc: *mut bindings::ib_wc) -> *mut bindings::ib_cqe {
    // SAFETY: By the safety requirements of this function `wc` is valid and has an entry, which is
    // one of the fields valid in any completion.
    unsafe { *(*wc).__bindgen_anon_1.wr_cqe.as_ref() }
}

/// The status of a work completion.
///
/// # Safety
///
/// `wc` must be valid.
pub(super) unsafe fn outcome(wc: *mut bindings::ib_wc) -> Result<(), Failure> {
    // SAFETY: By the safety requirements of this function `wc` is valid.
    match unsafe { (*wc).status } {
        bindings::ib_wc_status_IB_WC_SUCCESS => Ok(()),
        status => Err(Failure::of(status)),
    }
}
