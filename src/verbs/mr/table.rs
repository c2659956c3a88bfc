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
