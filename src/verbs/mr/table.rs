// SPDX-License-Identifier: GPL-2.0

//! The memory that one registration covers, as a scatterlist.

use core::slice::IterMut;

use crate::{
    bindings,
    os::{
        Runs,
        PAGE_SIZE, //
    }, //
};

/// The part of its table for a registration to cover.
pub(super) struct Extent {
    pub(super) entries: usize,
    pub(super) bytes: u32,
}

/// A scatterlist that is being filled in, with an entry for each run.
pub(super) struct Table<'t> {
    entries: IterMut<'t, bindings::scatterlist>,
    /// Entries in all.
    all: usize,
    /// Bytes of the pages from the first covered byte on.
    size: u32,
    /// Bytes of these that are not covered. A whole number of pages if the last run ends at the
    /// border of one.
    room: u32,
}

impl<'t> Table<'t> {
    /// An empty list in `entries`, an initialised one with an entry for each page that the
    /// registration can cover.
    #[inline(always)]
    pub(super) fn new(entries: &'t mut [bindings::scatterlist]) -> Self {
        // CAST: The table of a registration is short. Hence the product does not wrap around.
        let size = (entries.len() as u32).wrapping_mul(PAGE_SIZE);

        Self {
            all: entries.len(),
            entries: entries.iter_mut(),
            size,
            room: size,
        }
    }

    /// Adds the front of `memory`, as much as fits without a gap: inside a registration only the
    /// first page may begin, and only the last may end, within a page. Returns `true` if nothing is
    /// left of `memory`.
    #[inline(always)]
    pub(super) fn add(&mut self, memory: &mut impl Runs) -> bool {
        let Some(offset) = memory.offset() else {
            return true;
        };
        if self.entries.len() == self.all {
            self.size = self.size.saturating_sub(offset);
            self.room = self.size;
        } else if offset != 0 || self.room % PAGE_SIZE != 0 {
            return false;
        }
        // The runs of one piece of memory leave no gap.
        while let Some(run) = memory.next_run(self.room) {
            let Some(entry) = self.entries.next() else {
                return false;
            };
            // SAFETY: The entry is one of an initialised table; by the invariants of the run its
            // pages are valid.
            unsafe { bindings::sg_set_page(entry, run.page().as_ptr(), run.len(), run.offset()) };
            // No run is longer than requested.
            self.room = self.room.wrapping_sub(run.len());
        }
        memory.offset().is_none()
    }

    /// The part of the table that is filled in.
    #[inline(always)]
    pub(super) fn extent(self) -> Extent {
        Extent {
            entries: self.all.saturating_sub(self.entries.len()),
            bytes: self.size.wrapping_sub(self.room),
        }
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
        // SAFETY: The capacity is `pages` entries, which the call initialises.
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

    /// A registration covers no more pages than it can, for any entries.
    #[test]
    fn pages() -> Result {
        for (pages, all) in [(1, false), (3, false), (4, true), (9, true)] {
            let (mut entries, mut memory) = (table(pages)?, memory()?);
            let mut runs = part(&mut memory, 0, PAGES * PAGE_SIZE);
            let mut table = Table::new(&mut entries);

            assert_eq!(table.add(&mut runs), all);
            assert_eq!(runs.offset().is_none(), all);
            let bytes = pages.min(PAGES) * PAGE_SIZE;
            assert_eq!(table.extent().bytes, bytes);
        }
        Ok(())
    }

    /// Memory that begins or ends within a page can only be at either end.
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
                (bytes, 1 + usize::from(fits))
            );
        }
        Ok(())
    }
}
