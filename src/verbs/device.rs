// SPDX-License-Identifier: GPL-2.0

//! An RDMA device and its limits.

use core::ptr::NonNull;

use kernel::{
    fmt,
    prelude::*,
    sync::Arc, //
};

use super::DeviceLimits;
use crate::bindings;

/// A reference to an RDMA device.
///
/// # Invariants
///
/// Holds one registration reference of the device: its removal waits until this value is dropped.
pub(crate) struct Device(NonNull<bindings::ib_device>);

// SAFETY: The reference count and all methods used are safe from any thread.
unsafe impl Send for Device {}
// SAFETY: A device may be used from any thread, and the fields read here do not change.
unsafe impl Sync for Device {}

impl Device {
    /// Takes a reference to `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must be a device whose memory is valid, such as the device of a bound cm id.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device is being removed, `ENOMEM`.
    pub(crate) unsafe fn get(raw: *mut bindings::ib_device) -> Result<Arc<Self>> {
        let raw = NonNull::new(raw).ok_or(ENODEV)?;

        // SAFETY: By the safety requirements of this function the memory of the device is valid,
        // which is all that trying to get a reference needs.
        if !unsafe { bindings::ib_device_try_get(raw.as_ptr()) } {
            return Err(ENODEV);
        }
        // INVARIANT: The reference was taken above.
        Ok(Arc::new(Self(raw), GFP_KERNEL)?)
    }

    /// The C object.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::ib_device {
        self.0.as_ptr()
    }

    /// The device's name now, such as `rxe0`.
    pub(crate) fn name(&self) -> NameText {
        // SAFETY: By the type invariants the device is valid.
        unsafe { Self::name_of(self.as_ptr()) }
    }

    /// The name of `raw` now.
    ///
    /// # Safety
    ///
    /// `raw` must be a device whose memory is valid.
    pub(crate) unsafe fn name_of(raw: *mut bindings::ib_device) -> NameText {
        // SAFETY: By the safety requirements of this function. `ib_device_rename()` may rewrite the
        // array concurrently: each byte is read once, and none is assumed to stay.
        unsafe { (&raw const (*raw).name).cast::<NameText>().read_volatile() }
    }

    /// The device's limits.
    pub(crate) fn limits(&self) -> DeviceLimits {
        // SAFETY: By the type invariants the device is valid; its attributes do not change while it
        // is registered.
        let attrs = unsafe { &(*self.as_ptr()).attrs };

        DeviceLimits {
            max_wr: limit(attrs.max_qp_wr),
            max_cqe: limit(attrs.max_cqe),
            fast_reg_pages: attrs.max_fast_reg_page_list_len,
            max_rd_atom: u8::try_from(limit(attrs.max_qp_rd_atom)).unwrap_or(u8::MAX),
            mem_mgt_extensions: attrs.device_cap_flags
                & bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64
                != 0
                && !self.lacks_invalidation(),
        }
    }

    /// The elements that an RDMA Write may have, and an RDMA Read.
    pub(crate) fn elements(&self) -> (u32, u32) {
        // SAFETY: By the type invariants the device is valid; its attributes do not change while it
        // is registered.
        let attrs = unsafe { &(*self.as_ptr()).attrs };
        let write = limit(attrs.max_send_sge);

        (write, write.min(limit(attrs.max_sge_rd)))
    }

    /// Returns `true` if the peer's device, beyond `port`, needs a registration for memory that an
    /// RDMA Read fills in: on iWARP. The last RDMA Read may invalidate it.
    pub(crate) fn reads_register(&self, port: u32) -> bool {
        // SAFETY: By the type invariants the device is valid.
        unsafe { bindings::rdma_cap_read_inv(self.as_ptr(), port) }
    }

    /// RDMA Reads of ours that may be outstanding on one connection.
    pub(crate) fn max_reads(&self) -> u8 {
        // SAFETY: By the type invariants the device is valid; its attributes do not change while it
        // is registered.
        let most = unsafe { (*self.as_ptr()).attrs.max_qp_init_rd_atom };

        u8::try_from(limit(most)).unwrap_or(u8::MAX)
    }

    /// Returns `true` if the driver sets the flag of the memory management extensions and yet
    /// refuses `IB_WR_LOCAL_INV`: hns_roce alone, in Linux 7.3.
    fn lacks_invalidation(&self) -> bool {
        // SAFETY: By the type invariants the device is valid; its driver does not change.
        let driver = unsafe { (*self.as_ptr()).ops.driver_id };
        driver == bindings::rdma_driver_id_RDMA_DRIVER_HNS
    }
}

/// A copy of a device's name.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct NameText([u8; bindings::IB_DEVICE_NAME_MAX as usize]);

impl NameText {
    /// The name; an empty one if it is not UTF-8.
    pub(crate) fn as_str(&self) -> &str {
        let len = self.0.iter().position(|&byte| byte == 0);
        let name = self.0.get(..len.unwrap_or(self.0.len()));
        name.and_then(|name| core::str::from_utf8(name).ok())
            .unwrap_or("")
    }
}

impl fmt::Display for NameText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A device attribute as a count: some kernels hold them as `int`, where a negative one means none.
fn limit(value: impl TryInto<u32>) -> u32 {
    value.try_into().unwrap_or(0)
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this value owns one reference.
        unsafe { bindings::ib_device_put(self.as_ptr()) }
    }
}
