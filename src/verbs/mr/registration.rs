// SPDX-License-Identifier: GPL-2.0

//! One registration: a table of memory, its mapping for the device, and the requests for both.

use core::ptr::{
    null_mut,
    NonNull, //
};

use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    error::from_err_ptr,
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

use super::table::{
    Extent,
    Table, //
};
use crate::{
    bindings,
    os::{
        series::zeroes,
        HeldPages,
        LinearRuns,
        Runs,
        PAGE_SIZE, //
    },
    verbs::Pd, //
};

/// The peer's access to the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// RDMA Read only: the memory of a Read chunk.
    RemoteRead,
    /// RDMA Write: memory for the peer to fill.
    RemoteWrite,
}

impl Access {
    fn flags(self) -> c_int {
        let flags = match self {
            Access::RemoteRead => bindings::ib_access_flags_IB_ACCESS_REMOTE_READ,
            Access::RemoteWrite => {
                bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
                    | bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            }
        };
        // CAST: A few low bits.
        flags as c_int
    }

    fn direction(self) -> c_int {
        match self {
            Access::RemoteRead => bindings::RPCRDMA_RS_DMA_TO_DEVICE,
            Access::RemoteWrite => bindings::RPCRDMA_RS_DMA_FROM_DEVICE,
        }
    }
}

/// A registered piece of memory, as the peer addresses it.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    /// The handle of the registration for the peer and the device.
    pub(crate) handle: u32,
    /// Length in bytes.
    pub(crate) length: u32,
    /// The address of the first byte under that handle.
    pub(crate) offset: u64,
}

/// The reason why memory was not mapped.
#[derive(Clone, Copy)]
pub(super) enum NotMapped {
    /// The device or the DMA layer has no room for it now.
    Refused,
    /// No bytes, or no page for them.
    Empty,
    /// The device's addresses have a gap after this number of entries, at least one, although the
    /// memory has none: the DMA layer puts it elsewhere, and not at the same place within a page.
    Gap(usize),
}

impl From<NotMapped> for Error {
    fn from(why: NotMapped) -> Self {
        match why {
            NotMapped::Refused | NotMapped::Gap(_) => EIO,
            NotMapped::Empty => EINVAL,
        }
    }
}

/// Bytes of a head and of a tail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadTail {
    /// Bytes in front of the pages.
    pub(crate) head: usize,
    /// Bytes behind them.
    pub(crate) tail: usize,
}

impl HeadTail {
    /// Neither.
    pub(super) const NONE: Self = Self { head: 0, tail: 0 };
}

/// One registration.
///
/// # Invariants
///
/// `raw` is a valid registration that belongs to this value. The first `nents` entries of `sg` are
/// mapped for its device, in the direction of `access`.
pub(crate) struct Registration {
    raw: NonNull<bindings::ib_mr>,
    /// The bounce page for head and tail of a coalesced registration, once allocated: the head at
    /// its end, the tail at its beginning, so that neither leaves a gap to the pages between them.
    bounce: KVec<u8>,
    /// The lengths of these two; none unless it is a coalesced registration.
    pub(super) head_tail: HeadTail,
    sg: KVec<bindings::scatterlist>,
    nents: c_int,
    /// References to pages, as long as it is mapped.
    pub(super) held: Option<Arc<HeldPages>>,
    pub(super) access: Access,
    pub(super) reg: bindings::ib_reg_wr,
    pub(super) inv: bindings::ib_send_wr,
}

// SAFETY: A registration has no thread affinity.
unsafe impl Send for Registration {}

/// A list of `pages` entries, at least one.
///
/// # Errors
///
/// `ENOMEM`.
fn entries(pages: u32) -> Result<KVec<bindings::scatterlist>> {
    // CAST: Widening.
    let len = pages as usize;
    let mut sg = KVec::with_capacity(len, GFP_KERNEL)?;

    // SAFETY: The capacity is `pages` entries, at least one: a pool has no registrations of none.
    // The call initialises them all.
    unsafe {
        bindings::sg_init_table(sg.as_mut_ptr(), pages);
        sg.inc_len(len);
    }
    Ok(sg)
}

impl Registration {
    /// A registration in the domain `pd` for up to `pages` pages, at least one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the driver's error.
    pub(super) fn new(pd: &Pd, pages: u32) -> Result<Self> {
        let sg = entries(pages)?;
        // SAFETY: By its type invariants the domain is valid.
        let raw = from_err_ptr(unsafe {
            bindings::ib_alloc_mr(pd.as_ptr(), bindings::ib_mr_type_IB_MR_TYPE_MEM_REG, pages)
        })?;

        // INVARIANT: Allocated above; nothing is mapped.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            bounce: KVec::new(),
            head_tail: HeadTail::NONE,
            sg,
            nents: 0,
            held: None,
            access: Access::RemoteRead,
            reg: pin_init::zeroed(),
            inv: pin_init::zeroed(),
        })
    }

    /// Fills in the words of both work requests that never change; they complete to these entries.
    ///
    /// # Safety
    ///
    /// The entries must be there as long as a request may be posted.
    pub(super) unsafe fn fill_requests(
        &mut self,
        reg_cqe: *mut bindings::ib_cqe,
        inv_cqe: *mut bindings::ib_cqe,
    ) {
        self.reg.mr = self.raw.as_ptr();
        self.reg.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        self.inv.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        // SAFETY: Both write the union field that kernel consumers use.
        unsafe {
            *self.reg.wr.__bindgen_anon_1.wr_cqe.as_mut() = reg_cqe;
            *self.inv.__bindgen_anon_1.wr_cqe.as_mut() = inv_cqe;
        }
    }

    /// Covers a head, `pages` and a tail. Head and tail, of the lengths `head_tail`, are in the
    /// bounce page, where `prepare` fills them in. `None` without enough room, without memory for
    /// it, or with a gap.
    pub(super) fn coalesce(
        &mut self,
        head_tail: HeadTail,
        mut pages: impl Runs,
        prepare: impl FnOnce(&mut [u8], &mut [u8]),
    ) -> Option<Extent> {
        if self.bounce.is_empty() {
            // A sender must not wait for memory that it can do without. kmalloc aligns memory of
            // the size of a page to that size.
            self.bounce = zeroes(PAGE_SIZE as usize, GFP_NOWAIT | __GFP_NOWARN).ok()?;
        }
        let (tail, rest) = self.bounce.split_at_mut_checked(head_tail.tail)?;
        let gap = rest.len().checked_sub(head_tail.head)?;
        let (_, head) = rest.split_at_mut_checked(gap)?;
        prepare(head, tail);
        let (mut head, mut tail) = (bounce_runs(head), bounce_runs(tail));
        let mut table = Table::new(&mut self.sg);

        self.head_tail = head_tail;
        let is_all = table.add(&mut head) && table.add(&mut pages) && table.add(&mut tail);
        let extent = table.extent();
        (is_all && extent.entries != 0).then_some(extent)
    }

    /// The head and the tail of a coalesced registration, which is not mapped.
    pub(super) fn head_and_tail(&self) -> Option<(&[u8], &[u8])> {
        let HeadTail { head, tail } = self.head_tail;
        let start = self.bounce.len().checked_sub(head)?;

        Some((self.bounce.get(start..)?, self.bounce.get(..tail)?))
    }

    /// Covers the front of `memory`, as much as fits without a gap. Returns `true` if nothing is
    /// left.
    #[inline(always)]
    pub(super) fn cover(&mut self, memory: &mut impl Runs) -> (Extent, bool) {
        let mut table = Table::new(&mut self.sg);

        self.head_tail = HeadTail::NONE;
        let is_all = table.add(memory);
        (table.extent(), is_all)
    }

    /// Makes `rest`, which is not in use, cover the entries of `extent` from number `at` on.
    /// Returns the extents of both parts. The entries stay in the table of this one, too.
    pub(super) fn split(&self, extent: &Extent, at: usize, rest: &mut Self) -> (Extent, Extent) {
        let entries = self.sg.get(..extent.entries).unwrap_or(&[]);
        let (first, others) = entries.split_at(at.min(entries.len()));
        let bytes = first
            .iter()
            .fold(0u32, |sum, entry| sum.wrapping_add(entry.length));

        rest.head_tail = HeadTail::NONE;
        for (to, from) in rest.sg.iter_mut().zip(others) {
            // SAFETY: Both are entries of initialised tables; `from` describes valid pages.
            unsafe { bindings::sg_copy_page(to, from) };
        }
        (
            Extent {
                entries: first.len(),
                bytes,
            },
            Extent {
                entries: others.len(),
                bytes: extent.bytes.wrapping_sub(bytes),
            },
        )
    }

    /// Maps the entries of `extent`. Returns the region, for a request yet to be
    /// posted.
    ///
    /// # Errors
    ///
    /// The reason why it is not mapped.
    #[inline(always)]
    pub(super) fn map(
        &mut self,
        device: *mut bindings::ib_device,
        extent: &Extent,
        access: Access,
    ) -> Result<Region, NotMapped> {
        // CAST: A table is short.
        let nents = extent.entries as c_int;

        // The DMA layer warns about an empty list.
        if nents == 0 {
            return Err(NotMapped::Empty);
        }

        // The DMA layer marks a list whose memory it has bounced, and never takes the mark off. A
        // list that keeps it is unmapped as if it had been bounced this time, too.
        #[cfg(CONFIG_NEED_SG_DMA_FLAGS)]
        if let Some(first) = self.sg.first_mut() {
            first.dma_flags = 0;
        }
        // SAFETY: The first `nents` entries describe valid pages.
        let mapped = unsafe {
            bindings::ib_dma_map_sg(device, self.sg.as_mut_ptr(), nents, access.direction())
        };
        if mapped <= 0 {
            return Err(NotMapped::Refused);
        }
        // INVARIANT: `ib_dma_map_sg` has mapped the first `nents` entries in the direction of
        // `access`.
        self.nents = nents;
        self.access = access;
        self.describe(mapped).inspect_err(|_| self.unmap())?;
        Ok(Region {
            handle: self.handle(),
            length: extent.bytes,
            // SAFETY: By the type invariants the registration is valid.
            offset: unsafe { self.raw.as_ref() }.iova,
        })
    }

    /// Fills in the registration request for the mapped entries.
    #[inline(always)]
    fn describe(&mut self, mapped: c_int) -> Result<(), NotMapped> {
        let mr = self.raw.as_ptr();

        // SAFETY: `mapped` entries of the table are DMA-mapped; the registration is not in use.
        let n = unsafe {
            bindings::ib_map_mr_sg(mr, self.sg.as_mut_ptr(), mapped, null_mut(), PAGE_SIZE)
        };
        if n != mapped {
            return Err(match usize::try_from(n) {
                Ok(0) | Err(_) => NotMapped::Refused,
                // Where the DMA layer has joined entries, it is not known which these are.
                Ok(n) => NotMapped::Gap(if mapped == self.nents { n } else { 1 }),
            });
        }
        // SAFETY: `mr` is ours and not posted. A new key makes a late access with the old one fail;
        // only the place within the page of the address is kept, so that no kernel address is sent
        // to the peer.
        unsafe {
            bindings::ib_update_fast_reg_key(mr, ((*mr).rkey as u8).wrapping_add(1));
            (*mr).iova &= u64::from(PAGE_SIZE - 1);
            self.reg.key = (*mr).rkey;
            *self.inv.ex.invalidate_rkey.as_mut() = (*mr).rkey;
        }
        self.reg.access = self.access.flags();
        Ok(())
    }

    /// Unmaps the memory, unless that is done. The peer must have lost access to it.
    pub(super) fn unmap(&mut self) {
        if self.nents != 0 {
            // SAFETY: By the type invariants the registration is valid, and its device outlives it.
            let device = unsafe { (*self.raw.as_ptr()).device };
            // SAFETY: By the type invariants these are the entries, the count and the direction of
            // the mapping.
            unsafe {
                bindings::ib_dma_unmap_sg(
                    device,
                    self.sg.as_mut_ptr(),
                    self.nents,
                    self.access.direction(),
                )
            };
            self.nents = 0;
            self.held = None;
        }
    }

    /// The handle of the last mapping.
    pub(super) fn handle(&self) -> u32 {
        self.reg.key
    }
}

/// Part of a registration's bounce page, to be mapped.
fn bounce_runs(part: &mut [u8]) -> LinearRuns<'_> {
    // SAFETY: The page comes from kmalloc, and is freed with its registration, which is unmapped by
    // then.
    unsafe { LinearRuns::new(part.as_mut_ptr(), part.len()) }
}

impl Drop for Registration {
    /// Process context. No posted request refers to the registration: one that may be posted is
    /// in a chain, and is dropped only after the drain.
    fn drop(&mut self) {
        // First the end of all access, then of the mapping.
        // SAFETY: By the type invariants the registration belongs to this value. No posted request
        // refers to it, and nothing uses it after this.
        let ended = unsafe { bindings::ib_dereg_mr(self.raw.as_ptr()) };
        if ended == 0 {
            return self.unmap();
        }
        // The device may still use what is ours: it is lost.
        pr_err!("cannot destroy a registration ({ended}): the device may still use its memory\n");
        core::mem::forget(self.held.take());
        core::mem::forget(core::mem::replace(&mut self.bounce, KVec::new()));
        core::mem::forget(core::mem::replace(&mut self.sg, KVec::new()));
    }
}
