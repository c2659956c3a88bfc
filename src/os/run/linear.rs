// SPDX-License-Identifier: GPL-2.0

//! Runs of memory of the linear map.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use super::{
    PageRun,
    Runs,
    MOST_BYTES, //
};
use crate::bindings;

/// An iterator over memory of the linear map, which has the order of physical memory.
///
/// # Invariants
///
/// `at` points to `left` bytes of the linear map, which are valid during `'a`.
pub(crate) struct LinearRuns<'a> {
    at: *mut u8,
    left: usize,
    _memory: PhantomData<&'a [u8]>,
}

impl LinearRuns<'_> {
    /// Iterates over `len` bytes from `at` on.
    ///
    /// # Safety
    ///
    /// They must be memory of the linear map (never vmalloc memory nor a stack), allocated as one,
    /// and valid during `'a`. `at` may be anything if `len` is 0.
    pub(crate) unsafe fn new(at: *mut u8, len: usize) -> Self {
        // INVARIANT: By the safety requirements of this function `at` points to `len` bytes of the
        // linear map, valid during `'a`.
        Self {
            at,
            left: len,
            _memory: PhantomData,
        }
    }
}

impl Runs for LinearRuns<'_> {
    fn offset(&self) -> Option<u32> {
        // CAST: Less than a page.
        let offset = (self.at.addr() & !kernel::page::PAGE_MASK) as u32;
        (self.left != 0).then_some(offset)
    }

    fn next_run(&mut self, most: u32) -> Option<PageRun<'_>> {
        let offset = self.offset()?;
        let most = most.min(MOST_BYTES.saturating_sub(offset));
        let len = u32::try_from(self.left).map_or(most, |left| left.min(most));
        if len == 0 {
            return None;
        }
        // SAFETY: By the type invariants the memory is of the linear map.
        let page = NonNull::new(unsafe { bindings::virt_to_page(self.at.cast()) })?;

        // INVARIANT: The bytes left are the last ones of the same memory.
        self.at = self.at.wrapping_add(len as usize);
        self.left = self.left.saturating_sub(len as usize);
        // INVARIANT: The linear map has the order of the pages. By the type invariants of
        // `LinearRuns` they are valid during `'a`, which this borrow does not outlive.
        Some(PageRun {
            page,
            offset,
            len,
            _memory: PhantomData,
        })
    }
}
