// SPDX-License-Identifier: GPL-2.0

//! A device that is memory only, for the tests of lives that need none: it maps memory at its own
//! addresses, as rxe and siw do.

use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};

use kernel::{
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

use super::{
    Device,
    Pd, //
};
use crate::bindings;

/// The key of its domains.
pub(super) const LKEY: u32 = 7;

/// A device without a driver. It outlives all that the test makes of it.
pub(super) struct Fake {
    device: ManuallyDrop<Arc<Device>>,
    memory: *mut bindings::ib_device,
}

impl Fake {
    /// Such a device.
    pub(super) fn new() -> Result<Self> {
        let size = size_of::<bindings::ib_device>();
        // SAFETY: Called in process context.
        let memory = unsafe { bindings::kmalloc(size, bindings::GFP_KERNEL) };
        let memory = NonNull::new(memory.cast::<bindings::ib_device>()).ok_or(ENOMEM)?;
        let memory = memory.as_ptr();
        // SAFETY: The allocation is as large as a device; zeroes are valid for what the functions
        // that these tests reach read of it: one without a DMA device has no mappings.
        unsafe {
            core::ptr::write_bytes(memory, 0, 1);
            (&raw mut (*memory).refcount).cast::<c_int>().write(1);
            (*memory).ops.dealloc_pd = Some(dealloc_pd);
        }
        // SAFETY: The memory is valid, and has a reference count.
        let device = unsafe { Device::get(memory) }?;
        Ok(Self {
            device: ManuallyDrop::new(device),
            memory,
        })
    }

    /// A domain of it.
    pub(super) fn pd(&self) -> Result<Arc<Pd>> {
        // SAFETY: Called in process context.
        let raw = unsafe { bindings::kmalloc(size_of::<bindings::ib_pd>(), bindings::GFP_KERNEL) };
        let raw = NonNull::new(raw.cast::<bindings::ib_pd>()).ok_or(ENOMEM)?;
        // SAFETY: The allocation is as large as a domain; zeroes are valid for one that is in no
        // table of the RDMA core.
        unsafe {
            core::ptr::write_bytes(raw.as_ptr(), 0, 1);
            (*raw.as_ptr()).device = self.memory;
            (*raw.as_ptr()).local_dma_lkey = LKEY;
        }
        // SAFETY: The domain is one of this device, and nothing else owns it.
        unsafe { Pd::from_raw(raw, Arc::clone(&self.device), None) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // SAFETY: Dropped once.
        unsafe { ManuallyDrop::drop(&mut self.device) };
        // SAFETY: Each test drops all that it has made of the device before this value.
        unsafe { bindings::kfree(self.memory.cast()) };
    }
}

/// Frees nothing: the RDMA core frees the domain.
///
/// # Safety
///
/// None.
unsafe extern "C" fn dealloc_pd(_: *mut bindings::ib_pd, _: *mut bindings::ib_udata) -> c_int {
    0
}
