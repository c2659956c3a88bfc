// SPDX-License-Identifier: GPL-2.0

//! Fast memory registration.
//!
//! A registration lives in a [`MrPool`] and leaves it as part of an [`MrList`], whose type says
//! what state all of its registrations are in:
//!
//! - [`Mapped`]: DMA-mapped and described, not posted. Dropping the list undoes the mapping.
//! - [`Registered`]: posted, so that the peer may reach the memory. Only three things end that: the
//!   peer's own invalidation ([`MrList::remotely_invalidated`]), ours ([`super::Qp::invalidate`]),
//!   or the drain of the queue pair. A list in this state that is dropped waits in its pool,
//!   still mapped, until the pool goes, which is after the drain.

mod list;
mod pool;

use core::ptr::{
    null_mut,
    NonNull, //
};

use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    bindings::dma_data_direction,
    error::from_err_ptr,
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

use super::{
    completion::Callbacks,
    Pd, //
};
use crate::{
    bindings,
    os::{
        PageSpan,
        PAGE_SIZE, //
    }, //
};

use list::Invalidation;
pub(super) use list::{
    invalidation_completed,
    InvalidateChain, //
};
pub(crate) use list::{
    Invalidated,
    Kept,
    Mapped,
    MrList,
    Registered,
    Supply, //
};
pub(crate) use pool::MrPool;

/// The peer's access to the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// RDMA Read only: the memory of a Read chunk.
    RemoteRead,
    /// RDMA Write: the memory of a Write or Reply chunk.
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

    fn direction(self) -> dma_data_direction {
        match self {
            Access::RemoteRead => dma_data_direction::DMA_TO_DEVICE,
            Access::RemoteWrite => dma_data_direction::DMA_FROM_DEVICE,
        }
    }
}

/// One registration. The completion entry comes first: the completion of an invalidation leads back
/// to its registration by it.
#[repr(C)]
struct Mr {
    cqe: bindings::ib_cqe,
    raw: NonNull<bindings::ib_mr>,
    next: *mut Mr,
    /// The pool that it is from, as long as it is the first of a list.
    pool: Option<Arc<MrPool>>,
    /// A page for the two ends of a joined registration, once there was one: the head at its end,
    /// the tail at its beginning, so that neither leaves a gap to the pages between them.
    margin: KVec<u8>,
    /// Bytes of head and tail; none unless it is a joined registration.
    ends: (usize, usize),
    sg: KVec<bindings::scatterlist>,
    nents: c_int,
    access: Access,
    reg: bindings::ib_reg_wr,
    inv: bindings::ib_send_wr,
    invalidation: Option<Invalidation>,
}

impl Mr {
    fn new(
        callbacks: &Callbacks,
        pd: &Pd,
        pages: u32,
        reg_cqe: *mut bindings::ib_cqe,
    ) -> Result<NonNull<Mr>> {
        let mut sg = KVec::with_capacity(pages as usize, GFP_KERNEL)?;
        // SAFETY: There is room for `pages` entries, at least one: a pool has no registrations of
        // none. The call initialises them all.
        unsafe {
            bindings::sg_init_table(sg.as_mut_ptr(), pages);
            sg.inc_len(pages as usize);
        }

        // SAFETY: `pd` is valid.
        let raw = from_err_ptr(unsafe {
            bindings::ib_alloc_mr(pd.as_ptr(), bindings::ib_mr_type_IB_MR_TYPE_MEM_REG, pages)
        })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        let mr = KBox::new(
            Mr {
                cqe: bindings::ib_cqe {
                    done: Some(callbacks.invalidate),
                },
                raw,
                next: null_mut(),
                pool: None,
                margin: KVec::new(),
                ends: (0, 0),
                sg,
                nents: 0,
                access: Access::RemoteRead,
                reg: pin_init::zeroed(),
                inv: pin_init::zeroed(),
                invalidation: None,
            },
            GFP_KERNEL,
        );
        let mut mr = match mr {
            Ok(mr) => mr,
            Err(e) => {
                // SAFETY: Allocated above and not used yet.
                unsafe { bindings::ib_dereg_mr(raw.as_ptr()) };
                return Err(e.into());
            }
        };

        mr.reg.mr = raw.as_ptr();
        mr.reg.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        mr.inv.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        let cqe = &raw mut mr.cqe;
        // SAFETY: Both write the union field that kernel consumers use.
        unsafe {
            *mr.reg.wr.__bindgen_anon_1.wr_cqe.as_mut() = reg_cqe;
            *mr.inv.__bindgen_anon_1.wr_cqe.as_mut() = cqe;
        }
        Ok(NonNull::from(KBox::leak(mr)))
    }

    /// Covers a head of `ends.0` bytes, `pages` and a tail of `ends.1` bytes. Head and tail are
    /// in the margin, where `prepare` gets at them. `None` if there is not enough room or no memory
    /// for it, or a gap.
    fn join(
        &mut self,
        ends: (usize, usize),
        pages: impl Iterator<Item = PageSpan>,
        prepare: impl FnOnce(&mut [u8], &mut [u8]),
    ) -> Option<Extent> {
        if self.margin.is_empty() {
            // A sender is not to wait for memory that it can do without. kmalloc aligns what is as
            // large as a page to its size.
            self.margin =
                KVec::from_elem(0u8, PAGE_SIZE as usize, GFP_NOWAIT | __GFP_NOWARN).ok()?;
        }
        let (tail, rest) = self.margin.split_at_mut_checked(ends.1)?;
        let gap = rest.len().checked_sub(ends.0)?;
        let (_, head) = rest.split_at_mut_checked(gap)?;
        prepare(head, tail);
        let (head, tail) = (margin_span(head), margin_span(tail));

        let mut extent = Extent::default();
        let (mut head, mut pages, mut tail) = (
            Spans::new(head.into_iter()),
            Spans::new(pages),
            Spans::new(tail.into_iter()),
        );
        self.ends = ends;
        self.cover(&mut extent, &mut head);
        self.cover(&mut extent, &mut pages);
        self.cover(&mut extent, &mut tail);
        let left = pages.peek().or(tail.peek());
        (left.is_none() && extent.entries != 0).then_some(extent)
    }

    /// The head and the tail of a joined registration, which is not mapped.
    fn margins(&self) -> Option<(&[u8], &[u8])> {
        let (head, tail) = self.ends;
        let start = self.margin.len().checked_sub(head)?;

        Some((self.margin.get(start..)?, self.margin.get(..tail)?))
    }

    /// Adds the spans at the front of `spans` to `extent`, as many as fit without a gap.
    #[inline]
    fn cover(&mut self, extent: &mut Extent, spans: &mut Spans<impl Iterator<Item = PageSpan>>) {
        for entry in self.sg.get_mut(extent.entries..).unwrap_or(&mut []) {
            let Some(span) = spans.peek() else {
                break;
            };
            if extent.add(entry, &span).is_none() {
                break;
            }
            spans.advance();
        }
    }

    /// Covers `spans` and nothing else; `None` if there is not enough room, or a gap.
    #[inline(always)]
    fn cover_all(&mut self, spans: impl Iterator<Item = PageSpan>) -> Option<Extent> {
        let (mut spans, mut table) = (spans, self.sg.iter_mut());
        let mut extent = Extent::default();

        self.ends = (0, 0);
        extent.add(table.next()?, &spans.next()?)?;
        for span in spans {
            extent.add(table.next()?, &span)?;
        }
        Some(extent)
    }

    /// Maps what `extent` has, which may not be nothing. Returns its bytes.
    #[inline(always)]
    fn map(
        &mut self,
        device: *mut bindings::ib_device,
        extent: &Extent,
        access: Access,
    ) -> Result<u32> {
        let bytes = u32::try_from(extent.bytes)?;
        let nents = c_int::try_from(extent.entries)?;

        // SAFETY: The first `nents` entries describe valid pages.
        let mapped = unsafe {
            bindings::ib_dma_map_sg(device, self.sg.as_mut_ptr(), nents, access.direction())
        };
        if mapped <= 0 {
            return Err(EIO);
        }
        self.nents = nents;
        self.access = access;
        self.describe(mapped).inspect_err(|_| self.unmap(device))?;
        Ok(bytes)
    }

    /// Fills in the registration request for the mapped entries.
    #[inline(always)]
    fn describe(&mut self, mapped: c_int) -> Result {
        let mr = self.raw.as_ptr();

        // SAFETY: `mapped` entries of the table are DMA-mapped; the registration is not in use.
        let n = unsafe {
            bindings::ib_map_mr_sg(mr, self.sg.as_mut_ptr(), mapped, null_mut(), PAGE_SIZE)
        };
        if n != mapped {
            return Err(EIO);
        }
        // SAFETY: `mr` is ours and not posted. A new key makes a late access with the old one fail;
        // only the place within the page of the address is kept, so that no kernel address goes
        // over the wire.
        unsafe {
            bindings::ib_update_fast_reg_key(mr, ((*mr).rkey as u8).wrapping_add(1));
            (*mr).iova &= u64::from(PAGE_SIZE - 1);
            self.reg.key = (*mr).rkey;
            *self.inv.ex.invalidate_rkey.as_mut() = (*mr).rkey;
        }
        self.reg.access = self.access.flags();
        Ok(())
    }

    fn unmap(&mut self, device: *mut bindings::ib_device) {
        if self.nents != 0 {
            // SAFETY: These are the entries, the count and the direction of the mapping.
            unsafe {
                bindings::ib_dma_unmap_sg(
                    device,
                    self.sg.as_mut_ptr(),
                    self.nents,
                    self.access.direction(),
                )
            };
            self.nents = 0;
        }
    }

    fn handle(&self) -> u32 {
        self.reg.key
    }
}

/// Part of a registration's margin, to be mapped; nothing if it is empty.
fn margin_span(part: &mut [u8]) -> Option<PageSpan> {
    let len = u32::try_from(part.len()).ok().filter(|&len| len != 0)?;
    // SAFETY: The margin comes from kmalloc, and is freed with its registration, which is unmapped
    // by then.
    unsafe { PageSpan::of_linear(NonNull::from(part).cast(), len) }
}

/// The part of its table that a registration is going to cover.
#[derive(Default)]
struct Extent {
    entries: usize,
    bytes: u64,
    /// The end of the last entry in its page.
    end: u32,
}

impl Extent {
    /// Adds `span`, for which `entry` is the next one of an initialised table; `None` if that would
    /// leave a gap.
    #[inline(always)]
    fn add(&mut self, entry: &mut bindings::scatterlist, span: &PageSpan) -> Option<()> {
        // Inside a registration only the first entry may begin, and only the last may end, within a
        // page.
        if self.entries > 0 && (span.offset() != 0 || self.end != PAGE_SIZE) {
            return None;
        }
        // SAFETY: The entry is a valid one; the span's page is valid by its invariants.
        unsafe { bindings::sg_set_page(entry, span.page().as_ptr(), span.len(), span.offset()) };
        // No sum wraps around: a span ends within its page, and a table is not that long.
        self.end = span.offset().wrapping_add(span.len());
        self.bytes = self.bytes.wrapping_add(u64::from(span.len()));
        self.entries = self.entries.wrapping_add(1);
        Some(())
    }
}

/// A list of spans that is used up from the front.
struct Spans<I> {
    iter: I,
    next: Option<PageSpan>,
}

impl<I: Iterator<Item = PageSpan>> Spans<I> {
    /// Starts at the first span of `iter`.
    fn new(mut iter: I) -> Self {
        let next = iter.next();
        Self { iter, next }
    }

    #[inline]
    fn peek(&self) -> Option<PageSpan> {
        self.next
    }

    #[inline]
    fn advance(&mut self) {
        self.next = self.iter.next();
    }
}

/// Ends a registration: invalidates, unmaps and frees it.
///
/// # Safety
///
/// `mr` must be owned by the caller, made by `KBox::leak`, and no posted request may refer to it.
/// Process context.
unsafe fn destroy(mr: NonNull<Mr>) {
    // SAFETY: By the safety requirements of this function the registration is from a box and ours.
    let mut mr = unsafe { KBox::from_raw(mr.as_ptr()) };
    // SAFETY: The device is valid as long as the registration.
    let device = unsafe { (*mr.raw.as_ptr()).device };

    // First the end of all access, then of the mapping.
    // SAFETY: No request refers to it.
    unsafe { bindings::ib_dereg_mr(mr.raw.as_ptr()) };
    mr.unmap(device);
}
