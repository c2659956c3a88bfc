// SPDX-License-Identifier: GPL-2.0

//! Bytes inside one page.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use crate::bindings;

/// Bytes in a page.
// CAST: A power of two that fits every integer type used here.
pub(crate) const PAGE_SIZE: u32 = kernel::page::PAGE_SIZE as u32;

/// A run of bytes inside one page of kernel memory, borrowed for `'a`.
///
/// # Invariants
///
/// `offset + len <= PAGE_SIZE`, and `page` is a page of the linear map or of the page cache that is
/// valid during `'a`.
pub(crate) struct PageSpan<'a> {
    page: NonNull<bindings::page>,
    offset: u32,
    len: u32,
    _memory: PhantomData<&'a [u8]>,
}

impl PageSpan<'_> {
    /// Describes `len` bytes of `page`, starting at `offset`. Lengths beyond the page's end are
    /// cut.
    ///
    /// # Safety
    ///
    /// `page` must be a page of the linear map or of the page cache, and valid during the lifetime
    /// that the caller chooses.
    #[inline]
    pub(crate) unsafe fn new(page: NonNull<bindings::page>, offset: u32, len: u32) -> Self {
        let offset = offset % PAGE_SIZE;
        let room = PAGE_SIZE.saturating_sub(offset);

        // INVARIANT: Cut to the page, which is valid during `'a` by the safety requirements of this
        // function.
        Self {
            page,
            offset,
            len: if len < room { len } else { room },
            _memory: PhantomData,
        }
    }

    /// The page.
    pub(super) fn page(&self) -> NonNull<bindings::page> {
        self.page
    }

    /// The first byte of it.
    pub(super) fn offset(&self) -> u32 {
        self.offset
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Copies the start of `from` into the span; returns the number of bytes copied.
    ///
    /// # Safety
    ///
    /// Nothing else may use these bytes during the call, and `from` must be other memory.
    pub(crate) unsafe fn write(&mut self, from: &[u8]) -> usize {
        let n = from.len().min(self.len as usize);

        // SAFETY: By the type invariants the page is valid.
        let base: *mut u8 = unsafe { bindings::page_map(self.page.as_ptr()) }.cast();
        // SAFETY: By the type invariants `offset + n` is within the mapped page; by the safety
        // requirements of this function nothing else uses the bytes, and `from` is other memory.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), base.add(self.offset as usize), n) };
        // The page may be in the page cache, and mapped into processes at other addresses.
        // SAFETY: By the type invariants the page is valid.
        unsafe { bindings::page_written(self.page.as_ptr()) };
        // SAFETY: `base` is the mapping made above, the innermost of this task.
        unsafe { bindings::page_unmap(base.cast()) };
        n
    }

    /// Copies the span into the start of `to`; returns the number of bytes copied.
    pub(crate) fn read(&self, to: &mut [u8]) -> usize {
        let n = to.len().min(self.len as usize);

        // SAFETY: By the type invariants the page is valid.
        let base: *const u8 = unsafe { bindings::page_map(self.page.as_ptr()) }.cast();
        // SAFETY: By the type invariants `offset + n` is within the mapped page; `to` is borrowed
        // exclusively, so that it is other memory.
        unsafe {
            core::ptr::copy_nonoverlapping(base.add(self.offset as usize), to.as_mut_ptr(), n)
        };
        // SAFETY: `base` is the mapping made above, the innermost of this task.
        unsafe { bindings::page_unmap(base.cast()) };
        n
    }
}
