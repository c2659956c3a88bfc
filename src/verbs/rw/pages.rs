// SPDX-License-Identifier: GPL-2.0

//! Sets of pages that are mapped for a device.

use kernel::{
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

use crate::{
    bindings,
    os::{
        PageSet,
        Private,
        Shared,
        PAGE_SIZE, //
    },
    verbs::Device, //
};

/// The direction of a transfer, which decides the kind of its pages: no page that others may
/// access, such as one of the page cache, is ever written to.
pub(crate) trait Direction {
    /// The kind of the pages.
    type Kind;

    /// The direction of the DMA API.
    const DIR: c_int;
}

/// From our memory to the peer's: RDMA Write.
pub(crate) struct ToPeer;

/// From the peer's memory to ours: RDMA Read.
pub(crate) struct FromPeer;

impl Direction for ToPeer {
    type Kind = Shared;

    const DIR: c_int = bindings::RPCRDMA_RS_DMA_TO_DEVICE;
}

impl Direction for FromPeer {
    type Kind = Private;

    const DIR: c_int = bindings::RPCRDMA_RS_DMA_FROM_DEVICE;
}

/// The pages of a transfer in direction `D`.
pub(crate) type PagesOf<D> = PageSet<<D as Direction>::Kind>;

/// A set of pages that is mapped for a device, whole pages each. The pages are out of reach until
/// they are unmapped, by [`Self::unmap`] or by dropping the value.
///
/// # Invariants
///
/// The first `count` pages of `set` are mapped for `device` in the direction of `D`, at the
/// addresses that the set has noted.
pub(super) struct MappedPages<D: Direction> {
    set: PagesOf<D>,
    count: usize,
    device: Arc<Device>,
}

impl<D: Direction> MappedPages<D> {
    /// Maps all pages of `set`.
    ///
    /// # Errors
    ///
    /// The set, if a page cannot be mapped for now.
    pub(super) fn new(set: PagesOf<D>, device: &Arc<Device>) -> Result<Self, PagesOf<D>> {
        // INVARIANT: No page is mapped.
        let mut mapped = Self {
            set,
            count: 0,
            device: device.clone(),
        };

        while let Some(page) = mapped.set.page(mapped.count) {
            // CAST: The size of a page.
            let size = PAGE_SIZE as usize;
            let device = mapped.device.as_ptr();
            // SAFETY: The set has a reference to the page, which it keeps while it is mapped; the
            // device is registered as long as the reference to it is held.
            let addr = unsafe { bindings::ib_dma_map_page(device, page.as_ptr(), 0, size, D::DIR) };
            // SAFETY: `addr` came from the mapping call for this device.
            if unsafe { bindings::ib_dma_mapping_error(device, addr) } != 0 {
                return Err(mapped.unmap());
            }
            mapped.set.set_addr(mapped.count, addr);
            // INVARIANT: The page was mapped above, and its address noted. No sum wraps around:
            // each page is memory.
            mapped.count = mapped.count.wrapping_add(1);
        }
        Ok(mapped)
    }

    /// The address of the page of that number for the device; `None` if the set lacks it.
    pub(super) fn addr(&self, page: u32) -> Option<u64> {
        // CAST: Widening.
        self.set.addr(page as usize)
    }

    /// The number of pages.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Unmaps the pages, which the device must no longer use, and returns them.
    pub(super) fn unmap(mut self) -> PagesOf<D> {
        self.unmap_all();
        core::mem::replace(&mut self.set, PageSet::new())
    }

    fn unmap_all(&mut self) {
        while let Some(last) = self.count.checked_sub(1) {
            // INVARIANT: The page is unmapped below.
            self.count = last;
            if let Some(addr) = self.set.addr(last) {
                // CAST: The size of a page.
                let size = PAGE_SIZE as usize;
                // SAFETY: By the type invariants the page is mapped for this device, whole, at this
                // address and in this direction.
                unsafe {
                    bindings::ib_dma_unmap_page(self.device.as_ptr(), addr, size, D::DIR);
                }
            }
        }
    }
}

impl<D: Direction> Drop for MappedPages<D> {
    fn drop(&mut self) {
        self.unmap_all();
    }
}
