// SPDX-License-Identifier: GPL-2.0

//! Bytes in physically consecutive pages.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use super::PAGE_SIZE;
use crate::bindings;

/// The most pages of a run: as many bytes as the DMA API maps in one piece for a device that says
/// nothing about that, 64 KiB. With memory tags a page each, since a run is reached by the tag of
/// its first page.
const MOST_PAGES: u32 =
    if cfg!(any(CONFIG_KASAN_SW_TAGS, CONFIG_KASAN_HW_TAGS)) || PAGE_SIZE > 65536 {
        1
    } else {
        65536 / PAGE_SIZE
    };

/// The number of pages at multiples of which a run ends: the DMA API's boundary, 4 GiB.
const BOUNDARY: usize = ((1u64 << 32) / PAGE_SIZE as u64) as usize;

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
    /// `most` pages. It has one page at least, so that `most` must not be 0.
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
        let mut most = reached.min(most).min(MOST_PAGES);

        let mut count = 1;
        if most > 1 {
            // SAFETY: The page is valid.
            let first = unsafe { bindings::page_number(page.as_ptr()) };
            let left = BOUNDARY.wrapping_sub(first % BOUNDARY);
            // CAST: No more than `most`.
            most = left.min(most as usize) as u32;
            let follows = |count: u32| {
                // SAFETY: There is a page for each that the bytes reach into, and it is valid.
                let number = unsafe { bindings::page_number(*pages.add(count as usize)) };
                number == first.wrapping_add(count as usize)
            };
            while count < most && follows(count) {
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
pub(crate) struct LinearRuns<'a> {
    at: *mut u8,
    left: usize,
    _memory: PhantomData<&'a [u8]>,
}

impl LinearRuns<'_> {
    /// Walks over `len` bytes from `at` on.
    ///
    /// # Safety
    ///
    /// They must be memory of the linear map (never vmalloc memory nor a stack), allocated as one,
    /// and valid during `'a` and for as long as the runs are used. `at` may be anything if `len` is
    /// 0.
    pub(crate) unsafe fn new(at: *mut u8, len: usize) -> Self {
        // INVARIANT: Promised by the caller.
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

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_run)]
// Small numbers.
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use kernel::prelude::*;

    const PAGES: usize = 4;

    /// Four consecutive pages, and pointers to them.
    fn pages() -> Result<(KVec<u8>, [*mut bindings::page; PAGES])> {
        let len = PAGES * PAGE_SIZE as usize;
        // kmalloc aligns what is a power of two to that.
        let mut memory = KVec::<u8>::with_capacity(len, GFP_KERNEL)?;
        let start = memory.as_mut_ptr();
        let page = |at: usize| {
            // SAFETY: The address is one of the allocation, which is of the linear map.
            unsafe { bindings::virt_to_page(start.wrapping_add(at * PAGE_SIZE as usize).cast()) }
        };
        Ok((memory, [page(0), page(1), page(2), page(3)]))
    }

    /// The pages, offset and length of the run.
    fn run(pages: &[*mut bindings::page], at: u32, len: u32, most: u32) -> Option<(u32, u32, u32)> {
        // SAFETY: Each test has pages for its bytes.
        let run = unsafe { PageRun::new(pages.as_ptr(), at, len, most) }?;
        assert_eq!(run.page().as_ptr(), pages[(at / PAGE_SIZE) as usize]);
        Some((run.pages(), run.offset(), run.len()))
    }

    /// Consecutive pages are one run, which has the bytes that were asked for.
    #[test]
    fn consecutive() -> Result {
        let (_memory, pages) = pages()?;
        let all = 4 * PAGE_SIZE;

        assert_eq!(run(&pages, 0, all, 9), Some((4, 0, all)));
        assert_eq!(run(&pages, 0, 1, 9), Some((1, 0, 1)));
        assert_eq!(
            run(&pages, 0, PAGE_SIZE + 1, 9),
            Some((2, 0, PAGE_SIZE + 1))
        );
        assert_eq!(run(&pages, 100, all - 100, 9), Some((4, 100, all - 100)));
        assert_eq!(
            run(&pages, PAGE_SIZE - 1, 2, 9),
            Some((2, PAGE_SIZE - 1, 2))
        );
        assert_eq!(run(&pages, PAGE_SIZE + 5, 7, 9), Some((1, 5, 7)));
        Ok(())
    }

    /// A run has no more pages than it may, and is cut at the end of the last one.
    #[test]
    fn limits() -> Result {
        let (_memory, pages) = pages()?;
        let all = 4 * PAGE_SIZE;

        assert_eq!(run(&pages, 0, all, 1), Some((1, 0, PAGE_SIZE)));
        assert_eq!(
            run(&pages, 100, all - 100, 2),
            Some((2, 100, 2 * PAGE_SIZE - 100))
        );
        Ok(())
    }

    /// It ends before a page that does not follow.
    #[test]
    fn breaks() -> Result {
        let (_memory, [a, b, c, d]) = pages()?;
        let all = 4 * PAGE_SIZE;

        assert_eq!(run(&[b, a, c, d], 0, all, 9), Some((1, 0, PAGE_SIZE)));
        assert_eq!(
            run(&[a, b, d, c], 1, all - 1, 9),
            Some((2, 1, 2 * PAGE_SIZE - 1))
        );
        assert_eq!(
            run(&[a, b, d, c], 2 * PAGE_SIZE, PAGE_SIZE, 9),
            Some((1, 0, PAGE_SIZE))
        );
        assert_eq!(run(&[a, a, b, c], 0, all, 9), Some((1, 0, PAGE_SIZE)));
        let none = [core::ptr::null_mut(), b];
        // SAFETY: A place without a page is not looked behind.
        assert!(unsafe { PageRun::new(none.as_ptr(), 0, PAGE_SIZE, 9) }.is_none());
        Ok(())
    }

    /// Linear memory is walked over in runs of as many pages as there may be.
    #[test]
    fn linear() -> Result {
        let (mut memory, [a, b, ..]) = pages()?;
        let at = memory.as_mut_ptr().wrapping_add(100);
        let len = 2 * PAGE_SIZE - 150;
        // SAFETY: Bytes of the allocation.
        let mut runs = unsafe { LinearRuns::new(at, len as usize) };

        assert_eq!(runs.offset(), Some(100));
        assert!(runs.next_run(0).is_none());
        let run = runs.next_run(1);
        assert!(run.is_some_and(|run| run.page().as_ptr() == a
            && (run.pages(), run.offset(), run.end()) == (1, 100, PAGE_SIZE)));
        assert_eq!(runs.offset(), Some(0));
        let run = runs.next_run(9);
        assert!(run.is_some_and(|run| run.page().as_ptr() == b
            && (run.pages(), run.offset(), run.len()) == (1, 0, PAGE_SIZE - 50)));
        assert!(runs.offset().is_none() && runs.next_run(9).is_none());
        // SAFETY: As above.
        let mut runs = unsafe { LinearRuns::new(at, len as usize) };
        let run = runs.next_run(9);
        assert!(run.is_some_and(|run| (run.pages(), run.len()) == (2, len)));
        Ok(())
    }
}
