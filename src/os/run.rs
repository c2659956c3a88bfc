// SPDX-License-Identifier: GPL-2.0

//! Bytes in physically consecutive pages.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use super::{
    PageSpan,
    PAGE_SIZE, //
};
use crate::bindings;

mod linear;

pub(crate) use linear::LinearRuns;

/// The most bytes of a run, from the start of its first page: as many as the DMA API maps in one
/// piece for a device without a limit of its own. One page where the `struct page` of the next page
/// need not be the next one, and with memory tags, since a run is accessed with the tag of its
/// first page.
const MOST_BYTES: u32 = if cfg!(any(CONFIG_SPARSEMEM_VMEMMAP, CONFIG_FLATMEM))
    && !cfg!(any(CONFIG_KASAN_SW_TAGS, CONFIG_KASAN_HW_TAGS))
    && PAGE_SIZE < 65536
{
    65536
} else {
    PAGE_SIZE
};

/// A run ends at each multiple of this number of pages: the DMA API's boundary, 4 GiB.
const BOUNDARY: usize = ((1u64 << 32) / PAGE_SIZE as u64) as usize;

/// A run of bytes in physically consecutive pages of kernel memory, borrowed for `'a`.
///
/// # Invariants
///
/// `offset` is less than `PAGE_SIZE`, and the pages that the `len` bytes from there on reach into
/// are consecutive, of the linear map or of the page cache, and valid during `'a`.
pub(crate) struct PageRun<'a> {
    page: NonNull<bindings::page>,
    offset: u32,
    len: u32,
    _memory: PhantomData<&'a [u8]>,
}

impl<'a> PageRun<'a> {
    /// The bytes of `span`.
    pub(super) fn of(span: &PageSpan<'a>) -> Self {
        // INVARIANT: A span is in one page, which is valid during `'a`.
        Self {
            page: span.page(),
            offset: span.offset(),
            len: span.len(),
            _memory: PhantomData,
        }
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

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

/// Memory that is visited once, run by run.
pub(crate) trait Runs {
    /// The place of the next byte in its page; `None` if none is left.
    fn offset(&self) -> Option<u32>;

    /// The next bytes, at most `most` of them; none if that is 0. The run is used before the next
    /// one is taken.
    fn next_run(&mut self, most: u32) -> Option<PageRun<'_>>;
}

/// An iterator over memory in an array of pages, page by page or run by run.
///
/// # Invariants
///
/// `offset` is less than `PAGE_SIZE`, and `pages` points to a page for each of the `left` bytes
/// from there on. During `'a` the array stays unchanged, and the pages are of the linear map or of
/// the page cache, and valid.
pub(crate) struct Pages<'a> {
    pages: *const *mut bindings::page,
    offset: u32,
    left: u32,
    _memory: PhantomData<&'a [*mut bindings::page]>,
}

impl Pages<'_> {
    /// Iterates over `len` bytes of `pages` from byte `at` on.
    ///
    /// # Safety
    ///
    /// `pages` must have a page for each of these bytes, and stay unchanged during `'a`. The pages
    /// must be of the linear map or of the page cache, and valid during `'a`. `pages` may be
    /// anything if `len` is 0.
    #[inline(always)]
    pub(crate) unsafe fn new(pages: *const *mut bindings::page, at: u32, len: u32) -> Self {
        // INVARIANT: By the safety requirements of this function each byte from `at` on has a valid
        // page; byte `at` is byte `offset` of the page where the array now begins.
        Self {
            pages: pages.wrapping_add((at / PAGE_SIZE) as usize),
            offset: at % PAGE_SIZE,
            left: len,
            _memory: PhantomData,
        }
    }

    /// The page of the next byte, which must exist.
    #[inline(always)]
    fn page(&self) -> Option<NonNull<bindings::page>> {
        // SAFETY: By the type invariants the next byte has a page.
        NonNull::new(unsafe { *self.pages })
    }

    /// Moves on by `bytes`, at most as many as are left.
    #[inline(always)]
    fn pass(&mut self, bytes: u32) {
        // No sum wraps around: a length is far below 4 GiB.
        let end = self.offset.wrapping_add(bytes);

        // INVARIANT: The bytes left are the last ones of the same memory.
        self.pages = self.pages.wrapping_add((end / PAGE_SIZE) as usize);
        self.offset = end % PAGE_SIZE;
        self.left = self.left.wrapping_sub(bytes);
    }

    /// Leaves the next `bytes` out.
    pub(crate) fn leave_out(&mut self, bytes: u32) {
        self.pass(bytes.min(self.left));
    }
}

impl<'a> Iterator for Pages<'a> {
    type Item = PageSpan<'a>;

    #[inline]
    fn next(&mut self) -> Option<PageSpan<'a>> {
        if self.left == 0 {
            return None;
        }
        // SAFETY: By the type invariants the page is valid during `'a`, and of the linear map or of
        // the page cache.
        let span = unsafe { PageSpan::new(self.page()?, self.offset, self.left) };

        self.pass(span.len());
        Some(span)
    }
}

impl Runs for Pages<'_> {
    #[inline(always)]
    fn offset(&self) -> Option<u32> {
        (self.left != 0).then_some(self.offset)
    }

    #[inline(always)]
    fn next_run(&mut self, most: u32) -> Option<PageRun<'_>> {
        let most = if self.left < most { self.left } else { most };
        if most == 0 {
            return None;
        }
        let (page, offset) = (self.page()?, self.offset);
        // No difference wraps around: an offset is in a page.
        let single = PAGE_SIZE.wrapping_sub(offset);
        let len = if single >= most {
            most
        } else {
            // SAFETY: By the type invariants the bytes behind the first page have a page.
            let is_run = unsafe { is_followed(self.pages, 1) };
            if is_run {
                // SAFETY: By the type invariants each of the `left` bytes from `offset` on has a
                // valid page, and `most` is not more.
                unsafe { run_len(self.pages, offset, most) }
            } else {
                single
            }
        };

        self.pass(len);
        // INVARIANT: The `struct page` of consecutive pages are consecutive, and no others. By the
        // type invariants of `Pages` they are valid during `'a`, which this borrow does not
        // outlive.
        Some(PageRun {
            page,
            offset,
            len,
            _memory: PhantomData,
        })
    }
}

/// Returns `true` if the page at `by` of `pages` is as far behind the first one in memory.
///
/// # Safety
///
/// `pages` must have more entries than `by`.
#[inline(always)]
unsafe fn is_followed(pages: *const *mut bindings::page, by: usize) -> bool {
    // SAFETY: By the safety requirements of this function `pages` has entries 0 and `by`.
    let (first, page) = unsafe { (*pages, *pages.add(by)) };

    page == first.wrapping_add(by)
}

/// Bytes of the run that begins at `offset` in the first of `pages`: at most `most`, which are more
/// than are left in that page.
///
/// In a Xen PV domain consecutive pages need not be consecutive for the device, and swiotlb-xen
/// bounces a run of them: a run ends with its page there.
///
/// # Safety
///
/// `offset` must be less than `PAGE_SIZE`, and there must be a valid page for each of the bytes.
// By value, and not inlined: the loop over scattered pages has its variables in registers then,
// which the jump label of xen_pv_domain() would spill.
#[inline(never)]
unsafe fn run_len(pages: *const *mut bindings::page, offset: u32, most: u32) -> u32 {
    // SAFETY: xen_pv_domain() has no requirement.
    if unsafe { bindings::xen_pv_domain() } {
        return PAGE_SIZE.wrapping_sub(offset);
    }
    // No sum or difference wraps around: an offset is in a page, a run is short.
    let longest = most.min(MOST_BYTES.wrapping_sub(offset));
    let mut len = PAGE_SIZE.wrapping_sub(offset);
    let mut count = 1;

    // SAFETY: By the safety requirements of this function each of the `most` bytes has a page; the
    // first `len`, which are fewer, reach into `count` pages.
    while len < longest && unsafe { is_followed(pages, count) } {
        len = len.wrapping_add(PAGE_SIZE);
        count = count.wrapping_add(1);
    }
    // SAFETY: By the safety requirements of this function the first page is valid.
    let number = unsafe { bindings::page_number(*pages) };
    let whole = before_boundary(number, count);
    if whole < count {
        // CAST: Less than the pages of a run.
        len = (whole as u32).wrapping_mul(PAGE_SIZE).wrapping_sub(offset);
    }
    len.min(longest)
}

/// The number of the `count` pages from page `number` of memory on that come before the next
/// boundary, at least one.
#[inline(always)]
fn before_boundary(number: usize, count: usize) -> usize {
    // No difference wraps around: a remainder is less.
    count.min(BOUNDARY.wrapping_sub(number % BOUNDARY))
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_run)]
// Small numbers.
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use kernel::prelude::*;

    /// Consecutive pages, and pointers to them.
    fn pages<const COUNT: usize>() -> Result<(KVec<u8>, [*mut bindings::page; COUNT])> {
        // kmalloc aligns memory of a power of two bytes to that power.
        let len = COUNT.next_power_of_two() * PAGE_SIZE as usize;
        let mut memory = KVec::<u8>::with_capacity(len, GFP_KERNEL)?;
        let start = memory.as_mut_ptr();
        let page = |at: usize| {
            // SAFETY: The address is one of the allocation, which is of the linear map.
            unsafe { bindings::virt_to_page(start.wrapping_add(at * PAGE_SIZE as usize).cast()) }
        };
        Ok((memory, core::array::from_fn(page)))
    }

    /// The offset and length of each run over `len` bytes of `pages` from byte `at` on, with at
    /// most `most` bytes.
    fn runs(
        pages: &[*mut bindings::page],
        at: u32,
        len: u32,
        most: u32,
    ) -> Result<KVec<(u32, u32)>> {
        let mut runs = KVec::new();
        // SAFETY: Each test has pages for its bytes.
        let mut memory = unsafe { Pages::new(pages.as_ptr(), at, len) };
        let mut place = at;

        while let Some(run) = memory.next_run(most) {
            assert_eq!(run.page().as_ptr(), pages[(place / PAGE_SIZE) as usize]);
            assert_eq!(run.offset(), place % PAGE_SIZE);
            runs.push((run.offset(), run.len()), GFP_KERNEL)?;
            place += run.len();
        }
        Ok(runs)
    }

    /// Consecutive pages are one run with the requested bytes.
    #[test]
    fn consecutive() -> Result {
        let (_memory, pages) = pages::<4>()?;
        let page = PAGE_SIZE;

        for (at, len) in [
            (0, 4 * page),
            (0, 1),
            (0, page + 1),
            (100, 4 * page - 100),
            (page - 1, 2),
            (page + 5, 7),
        ] {
            assert_eq!(runs(&pages, at, len, u32::MAX)?[..], [(at % page, len)]);
        }
        assert!(runs(&pages, page, 0, u32::MAX)?.is_empty());
        Ok(())
    }

    /// A run has no more bytes than it may.
    #[test]
    fn limits() -> Result {
        let (_memory, pages) = pages::<4>()?;
        let page = PAGE_SIZE;

        assert!(runs(&pages, 0, page, 0)?.is_empty());
        assert_eq!(runs(&pages, 0, 2 * page, page)?[..], [(0, page), (0, page)]);
        assert_eq!(
            runs(&pages, 100, 4 * page - 100, 2 * page - 100)?[..],
            [
                (100, 2 * page - 100),
                (0, 2 * page - 100),
                (page - 100, 100)
            ]
        );
        Ok(())
    }

    /// A run has no more bytes than the DMA API maps in one piece, counted from the start of its
    /// first page.
    #[test]
    fn longest() -> Result {
        let (mut memory, pages) = pages::<40>()?;
        let (all, longest) = (2 * MOST_BYTES + 200, MOST_BYTES);

        if longest == PAGE_SIZE {
            return Ok(());
        }
        assert_eq!(
            runs(&pages, 100, all - 100, u32::MAX)?[..],
            [(100, longest - 100), (0, longest), (0, 200)]
        );
        // SAFETY: Bytes of the allocation.
        let mut runs =
            unsafe { LinearRuns::new(memory.as_mut_ptr().wrapping_add(100), 2 * longest as usize) };
        for expected in [(100, longest - 100), (0, longest), (0, 100)] {
            assert_eq!(
                runs.next_run(u32::MAX).map(|run| (run.offset(), run.len())),
                Some(expected)
            );
        }
        Ok(())
    }

    /// A run does not cross a multiple of 4 GiB of physical memory.
    #[test]
    fn boundary() {
        for start in [0, BOUNDARY, 3 * BOUNDARY] {
            assert_eq!(before_boundary(start, 16), 16);
            assert_eq!(before_boundary(start + 1, 16), 16);
            assert_eq!(before_boundary(start + BOUNDARY - 16, 16), 16);
            assert_eq!(before_boundary(start + BOUNDARY - 15, 16), 15);
            assert_eq!(before_boundary(start + BOUNDARY - 1, 16), 1);
        }
    }

    /// A run ends before a page that does not follow.
    #[test]
    fn breaks() -> Result {
        let (_memory, [a, b, c, d]) = pages()?;
        let (page, all) = (PAGE_SIZE, 4 * PAGE_SIZE);

        assert_eq!(
            runs(&[b, a, c, d], 0, all, u32::MAX)?[..],
            [(0, page), (0, page), (0, 2 * page)]
        );
        assert_eq!(
            runs(&[a, b, d, c], 1, all - 1, u32::MAX)?[..],
            [(1, 2 * page - 1), (0, page), (0, page)]
        );
        assert_eq!(
            runs(&[a, a, b, c], 0, all, u32::MAX)?[..],
            [(0, page), (0, 3 * page)]
        );
        assert!(runs(&[core::ptr::null_mut(), b], 0, page, u32::MAX)?.is_empty());
        Ok(())
    }

    /// Bytes that are left out are not part of a run; page by page the memory is the same.
    #[test]
    fn spans() -> Result {
        let (_memory, [a, b, c, _]) = pages()?;
        let array = [c, a, b];
        // SAFETY: All bytes have pages.
        let mut memory = unsafe { Pages::new(array.as_ptr(), 100, 2 * PAGE_SIZE) };

        memory.leave_out(PAGE_SIZE - 50);
        assert_eq!(memory.offset(), Some(50));
        assert_eq!(memory.next().map(|span| span.len()), Some(PAGE_SIZE - 50));
        assert_eq!(memory.next().map(|span| span.len()), Some(100));
        assert!(memory.next().is_none() && memory.offset().is_none());
        Ok(())
    }

    /// Linear memory is visited in runs of as many bytes as there may be.
    #[test]
    fn linear() -> Result {
        let (mut memory, [a, b, _, _]) = pages()?;
        let at = memory.as_mut_ptr().wrapping_add(100);
        let len = 2 * PAGE_SIZE - 150;
        // SAFETY: Bytes of the allocation.
        let mut runs = unsafe { LinearRuns::new(at, len as usize) };

        assert_eq!(runs.offset(), Some(100));
        assert!(runs.next_run(0).is_none());
        let run = runs.next_run(PAGE_SIZE - 100);
        assert!(run
            .is_some_and(|run| run.page().as_ptr() == a
                && (run.offset(), run.len()) == (100, PAGE_SIZE - 100)));
        assert_eq!(runs.offset(), Some(0));
        let run = runs.next_run(u32::MAX);
        assert!(run.is_some_and(
            |run| run.page().as_ptr() == b && (run.offset(), run.len()) == (0, PAGE_SIZE - 50)
        ));
        assert!(runs.offset().is_none() && runs.next_run(9).is_none());
        // SAFETY: `at` points to `len` bytes of the allocation.
        let mut runs = unsafe { LinearRuns::new(at, len as usize) };
        assert!(runs.next_run(u32::MAX).is_some_and(|run| run.len() == len));
        Ok(())
    }
}
