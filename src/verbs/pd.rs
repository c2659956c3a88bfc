// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use core::ptr::NonNull;

use kernel::{
    error::from_err_ptr,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    }, //
};

use super::{
    account::Account,
    posted::PostedList,
    Device,
    RecvBuffer, //
};
use crate::bindings;

/// A protection domain of one queue pair, so that a handle is useless on any other connection
/// (V1-132), and a buffer of the domain is one of that queue pair.
///
/// # Invariants
///
/// `raw` is a valid protection domain of `device`, owned by this value.
#[pin_data(PinnedDrop)]
pub(crate) struct Pd {
    raw: NonNull<bindings::ib_pd>,
    device: Arc<Device>,
    /// The account that its buffers are on, if any.
    account: Option<&'static Account>,
    /// Set once a queue pair uses it.
    used: Atomic<bool>,
    /// The Receive buffers of the domain.
    #[pin]
    receives: SpinLock<PostedList>,
}

// SAFETY: A protection domain has no thread affinity.
unsafe impl Send for Pd {}
// SAFETY: A protection domain has no thread affinity, and the fields read here do not change, but
// for an atomic one.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates a protection domain. Its buffers are on `account`, if given.
    ///
    /// # Errors
    ///
    /// The error that the device's driver returns; `ENOMEM`.
    pub(crate) fn new(device: Arc<Device>, account: Option<&'static Account>) -> Result<Arc<Self>> {
        // SAFETY: `device` is registered as long as the reference is held.
        let raw = from_err_ptr(unsafe { bindings::ib_alloc_pd(device.as_ptr()) })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;

        // SAFETY: Just allocated for `device`.
        unsafe { Self::from_raw(raw, device, account) }
    }

    /// Takes over the domain `raw`.
    ///
    /// # Safety
    ///
    /// It must be a domain of `device` that nothing else owns.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the domain is freed.
    pub(super) unsafe fn from_raw(
        raw: NonNull<bindings::ib_pd>,
        device: Arc<Device>,
        account: Option<&'static Account>,
    ) -> Result<Arc<Self>> {
        // INVARIANT: By the safety requirements of this function.
        let pd = Arc::pin_init(
            pin_init!(Self {
                raw,
                device,
                account,
                used: Atomic::new(false),
                receives <- new_spinlock!(PostedList::new(), "rpcrdma_rs::Pd"),
            }),
            GFP_KERNEL,
        );
        pd.inspect_err(|_| {
            // SAFETY: By the safety requirements of this function no other value owns it.
            unsafe { bindings::ib_dealloc_pd(raw.as_ptr()) }
        })
    }

    /// The Receive buffers of the domain.
    pub(super) fn receives(&self) -> &SpinLock<PostedList> {
        &self.receives
    }

    /// Frees the Receive buffers that are posted.
    ///
    /// # Safety
    ///
    /// The queue pair of the domain must be destroyed and its completion queue freed: no completion
    /// gives the buffers back.
    pub(crate) unsafe fn free_posted_receives(&self) {
        loop {
            // SAFETY: By the safety requirements of this function the device uses no request.
            let buf = unsafe { RecvBuffer::take_posted(&self.receives.lock()) };
            // Dropping a buffer takes the lock.
            if buf.is_none() {
                break;
            }
        }
    }

    /// The account that its buffers are on.
    pub(super) fn account(&self) -> Option<&'static Account> {
        self.account
    }

    /// Reserves the domain for its only queue pair.
    ///
    /// # Errors
    ///
    /// `EBUSY` when another has it already.
    pub(super) fn reserve(&self) -> Result {
        if self.used.xchg(true, Relaxed) {
            return Err(EBUSY);
        }
        Ok(())
    }

    /// The C object.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::ib_pd {
        self.raw.as_ptr()
    }

    /// The device.
    #[inline]
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The reference to the device.
    pub(super) fn device_ref(&self) -> &Arc<Device> {
        &self.device
    }

    /// The key for the device's access to DMA-mapped memory of ours.
    #[inline]
    pub(crate) fn local_dma_lkey(&self) -> u32 {
        // SAFETY: By the type invariants `raw` is valid.
        unsafe { (*self.as_ptr()).local_dma_lkey }
    }
}

#[pinned_drop]
impl PinnedDrop for Pd {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants the domain is owned by this value; everything allocated in
        // it holds an `Arc<Pd>`, so nothing is left.
        unsafe { bindings::ib_dealloc_pd(self.as_ptr()) }
    }
}
