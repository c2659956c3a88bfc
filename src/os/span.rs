// SPDX-License-Identifier: GPL-2.0

//! Bytes inside one page.

use core::ptr::NonNull;

use crate::bindings;

/// Bytes in a page.
// CAST: A power of two that fits every integer type used here.
pub(crate) const PAGE_SIZE: u32 = kernel::page::PAGE_SIZE as u32;

/// A run of bytes inside one page of kernel memory.
///
/// A span says where memory is; it does not keep it. It is one of the buffers of a request
/// (`sunrpc`), which stay until the transport's `release_buffers` has returned, and the code that
/// exposes it to a device ends that exposure before.
///
/// # Invariants
///
/// `offset + len <= PAGE_SIZE`, and `page` is a page of the linear map or of the page cache that is
/// valid for the life of what it was taken from.
#[derive(Clone, Copy)]
pub(crate) struct PageSpan {
    page: NonNull<bindings::page>,
    offset: u32,
    len: u32,
}

impl PageSpan {
    /// Describes `len` bytes of `page`, starting at `offset`. Lengths beyond the page's end are
    /// cut.
    ///
    /// # Safety
    ///
    /// `page` must be valid for as long as the request is that the span belongs to.
    #[inline]
    pub(crate) unsafe fn new(page: NonNull<bindings::page>, offset: u32, len: u32) -> Self {
        let offset = offset % PAGE_SIZE;
        let room = PAGE_SIZE.saturating_sub(offset);

        // INVARIANT: Cut to the page; validity is the caller's promise.
        Self {
            page,
            offset,
            len: if len < room { len } else { room },
        }
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Copies the start of `from` into the span; returns how many bytes went in.
    pub(crate) fn write(&self, from: &[u8]) -> usize {
        let n = from.len().min(self.len as usize);

        // SAFETY: By the type invariants the page is valid.
        let base: *mut u8 = unsafe { bindings::page_map(self.page.as_ptr()) }.cast();
        // SAFETY: `offset + n` is within the mapped page, and no other owner writes to a reply
        // buffer meanwhile.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), base.add(self.offset as usize), n) };
        // The page may be in the page cache, and mapped into processes at other addresses.
        // SAFETY: By the type invariants the page is valid.
        unsafe { bindings::page_written(self.page.as_ptr()) };
        // SAFETY: `base` is the mapping made above, the innermost of this task.
        unsafe { bindings::page_unmap(base.cast()) };
        n
    }

    /// Copies the span into the start of `to`; returns how many bytes went over.
    pub(crate) fn read(&self, to: &mut [u8]) -> usize {
        let n = to.len().min(self.len as usize);

        // SAFETY: By the type invariants the page is valid.
        let base: *const u8 = unsafe { bindings::page_map(self.page.as_ptr()) }.cast();
        // SAFETY: `offset + n` is within the mapped page and `to` is distinct memory.
        unsafe {
            core::ptr::copy_nonoverlapping(base.add(self.offset as usize), to.as_mut_ptr(), n)
        };
        // SAFETY: `base` is the mapping made above, the innermost of this task.
        unsafe { bindings::page_unmap(base.cast()) };
        n
    }
}
