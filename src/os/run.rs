// SPDX-License-Identifier: GPL-2.0

//! Bytes in physically consecutive pages.

use core::ptr::NonNull;

use super::PAGE_SIZE;
use crate::bindings;

/// The most pages of a run: what the DMA API promises to map in one piece for a device that says
/// nothing about that, 64 KiB.
const MOST_PAGES: u32 = match 65536 / PAGE_SIZE {
    0 => 1,
    pages => pages,
};

/// A run of bytes in physically consecutive pages of kernel memory.
///
/// It says where memory is and does not keep it, as [`super::PageSpan`].
///
/// # Invariants
///
/// `offset` is less than `PAGE_SIZE`, and `offset + len` bytes reach into `pages` pages: those from
/// `page` on, which are consecutive, of the linear map or of the page cache, and valid for the life
/// of what the run was taken from.
pub(crate) struct PageRun {
    page: NonNull<bindings::page>,
    /// The number of pages.
    pages: u32,
    offset: u32,
    len: u32,
}

impl PageRun {
    /// The run that begins at byte `at` of the memory in `pages`, over at most `len` bytes and
    /// `most` pages, and at least one.
    ///
    /// # Safety
    ///
    /// `pages` must have a valid page for each of the `len` bytes from `at` on, more than none.
    #[inline(always)]
    pub(crate) unsafe fn new(
        pages: *const *mut bindings::page,
        at: u32,
        len: u32,
        most: u32,
    ) -> Option<Self> {
        let offset = at % PAGE_SIZE;
        // SAFETY: By the safety requirements of this function there is a page for this byte.
        let pages = unsafe { pages.add((at / PAGE_SIZE) as usize) };
        // SAFETY: The array has a page there.
        let page = NonNull::new(unsafe { *pages })?;
        // No sum wraps around: a length is far below 4 GiB.
        let reached = offset.wrapping_add(len).div_ceil(PAGE_SIZE);
        let most = reached.min(most).min(MOST_PAGES);

        let mut count = 1;
        if most > 1 {
            // SAFETY: The page is valid.
            let first = unsafe { bindings::page_number(page.as_ptr()) };
            // SAFETY: There is a page for each that the bytes reach into, and it is valid.
            while count < most
                && unsafe { bindings::page_number(*pages.add(count as usize)) }
                    == first.wrapping_add(count as usize)
            {
                count = count.wrapping_add(1);
            }
        }
        let room = count.wrapping_mul(PAGE_SIZE).wrapping_sub(offset);
        // INVARIANT: The pages are consecutive, and valid as long as the caller promises.
        Some(Self {
            page,
            pages: count,
            offset,
            len: if len < room { len } else { room },
        })
    }

    /// The first page.
    #[inline]
    pub(crate) fn page(&self) -> NonNull<bindings::page> {
        self.page
    }

    /// Bytes from the start of that page.
    #[inline]
    pub(crate) fn offset(&self) -> u32 {
        self.offset
    }

    /// The number of pages.
    #[inline]
    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Bytes from the start of the first page to the end of the run.
    #[inline]
    pub(crate) fn end(&self) -> u32 {
        // No sum wraps around: a run is short.
        self.offset.wrapping_add(self.len)
    }
}

/// Memory that is walked over once, run by run.
pub(crate) trait Runs {
    /// The place of the next byte in its page; `None` if there is none left.
    fn offset(&self) -> Option<u32>;

    /// The next bytes, in at most `most` pages; none if `most` is 0.
    fn next_run(&mut self, most: u32) -> Option<PageRun>;
}

/// Walks over memory of the linear map, which has the order of physical memory.
///
/// # Invariants
///
/// `at` points to `left` bytes of the linear map, which stay as long as the runs are used.
pub(crate) struct LinearRuns {
    at: *mut u8,
    left: usize,
}

impl LinearRuns {
    /// Walks over `len` bytes from `at` on.
    ///
    /// # Safety
    ///
    /// They must be memory of the linear map (never vmalloc memory nor a stack), valid for as long
    /// as the runs are used. `at` may be anything if `len` is 0.
    pub(crate) unsafe fn new(at: *mut u8, len: usize) -> Self {
        // INVARIANT: Promised by the caller.
        Self { at, left: len }
    }
}

impl Runs for LinearRuns {
    fn offset(&self) -> Option<u32> {
        // CAST: Less than a page.
        let offset = (self.at.addr() & !kernel::page::PAGE_MASK) as u32;
        (self.left != 0).then_some(offset)
    }

    fn next_run(&mut self, most: u32) -> Option<PageRun> {
        let offset = self.offset()?;
        // No product or sum wraps around: a run is short.
        let room = most.min(MOST_PAGES).wrapping_mul(PAGE_SIZE);
        let room = room.checked_sub(offset).filter(|&room| room != 0)?;
        let len = u32::try_from(self.left).map_or(room, |left| left.min(room));
        // SAFETY: By the type invariants the memory is of the linear map.
        let page = NonNull::new(unsafe { bindings::virt_to_page(self.at.cast()) })?;

        // INVARIANT: What is left are the last bytes of the same memory.
        self.at = self.at.wrapping_add(len as usize);
        self.left = self.left.saturating_sub(len as usize);
        // INVARIANT: The linear map has the order of the pages.
        Some(PageRun {
            page,
            pages: offset.wrapping_add(len).div_ceil(PAGE_SIZE),
            offset,
            len,
        })
    }
}
