// SPDX-License-Identifier: GPL-2.0

//! The memory that one registration covers, as a scatterlist.

use core::slice::IterMut;

use crate::{
    bindings,
    os::{
        PageRun,
        Runs,
        PAGE_SIZE, //
    }, //
};

/// The part of its table that a registration is going to cover.
#[derive(Default)]
pub(super) struct Extent {
    pub(super) entries: usize,
    pub(super) bytes: u64,
}

/// A scatterlist that is being filled in, with an entry for each run.
pub(super) struct Table<'t> {
    entries: IterMut<'t, bindings::scatterlist>,
    /// Pages that still may be added.
    pages: u32,
    /// The end of the last run in its last page: 0 if it is the end of the page.
    end: u32,
    extent: Extent,
}

impl<'t> Table<'t> {
    /// An empty list in `entries`, an initialised one with an entry for each page that the
    /// registration can cover.
    #[inline(always)]
    pub(super) fn new(entries: &'t mut [bindings::scatterlist]) -> Self {
        Self {
            // CAST: The table of a registration is short.
            pages: entries.len() as u32,
            entries: entries.iter_mut(),
            end: 0,
            extent: Extent::default(),
        }
    }

    /// Adds the front of `memory`, as much as there is room for without a gap: inside a
    /// registration only the first page may begin, and only the last may end, within a page.
    /// Returns whether nothing is left of `memory`.
    #[inline(always)]
    pub(super) fn add(&mut self, memory: &mut impl Runs) -> bool {
        while let Some(offset) = memory.offset() {
            if self.extent.entries != 0 && (offset | self.end) != 0 {
                return false;
            }
            let Some(run) = memory.next_run(self.pages) else {
                return false;
            };
            if self.push(&run).is_none() {
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn push(&mut self, run: &PageRun) -> Option<()> {
        let entry = self.entries.next()?;
        // SAFETY: The entry is one of an initialised table; the pages are valid by the invariants
        // of the run.
        unsafe { bindings::sg_set_page(entry, run.page().as_ptr(), run.len(), run.offset()) };
        // A run has no more pages than it was asked for.
        self.pages = self.pages.wrapping_sub(run.pages());
        self.end = run.end() % PAGE_SIZE;
        // No sum wraps around: a run is short, and a table, too.
        self.extent.bytes = self.extent.bytes.wrapping_add(u64::from(run.len()));
        self.extent.entries = self.extent.entries.wrapping_add(1);
        Some(())
    }

    /// The part of the table that is filled in.
    #[inline(always)]
    pub(super) fn extent(self) -> Extent {
        self.extent
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_table)]
// Small numbers.
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;
    use crate::os::LinearRuns;
    use kernel::prelude::*;

    const PAGES: u32 = 4;

    /// A table for that many pages.
    fn table(pages: u32) -> Result<KVec<bindings::scatterlist>> {
        let mut entries = KVec::with_capacity(pages as usize, GFP_KERNEL)?;
        // SAFETY: There is room for `pages` entries, which the call initialises.
        unsafe {
            bindings::sg_init_table(entries.as_mut_ptr(), pages);
            entries.inc_len(pages as usize);
        }
        Ok(entries)
    }

    /// Consecutive pages, beginning at the border of one.
    fn memory() -> Result<KVec<u8>> {
        Ok(KVec::with_capacity(
            (PAGES * PAGE_SIZE) as usize,
            GFP_KERNEL,
        )?)
    }

    /// A part of the memory.
    fn part(memory: &mut KVec<u8>, at: u32, len: u32) -> LinearRuns<'_> {
        // SAFETY: The tests stay within the allocation.
        unsafe { LinearRuns::new(memory.as_mut_ptr().add(at as usize), len as usize) }
    }

    /// A registration covers no more pages than it can, whatever the entries.
    #[test]
    fn pages() -> Result {
        for (pages, all) in [(1, false), (3, false), (4, true), (9, true)] {
            let (mut entries, mut memory) = (table(pages)?, memory()?);
            let mut runs = part(&mut memory, 0, PAGES * PAGE_SIZE);
            let mut table = Table::new(&mut entries);

            assert_eq!(table.add(&mut runs), all);
            assert_eq!(runs.offset().is_none(), all);
            let bytes = pages.min(PAGES) * PAGE_SIZE;
            assert_eq!(table.extent().bytes, u64::from(bytes));
        }
        Ok(())
    }

    /// What begins or ends within a page can only stand at either end.
    #[test]
    fn gaps() -> Result {
        let page = PAGE_SIZE;
        for (first, second, fits) in [
            ((100, page - 100), (page, 50), true),
            ((100, page - 100), (page + 1, 50), false),
            ((100, page - 101), (page, 50), false),
            ((0, page), (2 * page, page), true),
        ] {
            let (mut entries, mut memory) = (table(8)?, memory()?);
            let mut table = Table::new(&mut entries);

            assert!(table.add(&mut part(&mut memory, first.0, first.1)));
            let mut runs = part(&mut memory, second.0, second.1);
            assert_eq!(table.add(&mut runs), fits);
            assert_eq!(runs.offset().is_none(), fits);
            let extent = table.extent();
            let bytes = first.1 + if fits { second.1 } else { 0 };
            assert_eq!(
                (extent.bytes, extent.entries),
                (bytes.into(), 1 + usize::from(fits))
            );
        }
        Ok(())
    }
}
