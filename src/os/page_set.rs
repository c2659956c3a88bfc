// SPDX-License-Identifier: GPL-2.0

//! Pages with one owner.

use core::{
    iter::from_fn,
    marker::PhantomData,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

use kernel::{
    alloc::Flags,
    ffi::c_int,
    prelude::*, //
};

use super::{
    run::PageRun,
    series::EMSGSIZE,
    PageSpan,
    Runs,
    PAGE_SIZE, //
};
use crate::bindings;

/// Pages that nothing else accesses, so that the owner, or a device for it, may write to them.
pub(crate) struct Private;

/// Pages that others may access, too, such as pages of the page cache: they are only read.
pub(crate) struct Shared;

/// Pages that are allocated, and references that are dropped, together.
const BATCH: usize = 16;

/// A page of a set.
#[derive(Clone, Copy)]
struct Slot {
    page: NonNull<bindings::page>,
    /// Its address for a device, while the set is mapped.
    addr: u64,
}

/// Pages with one owner, of the kind `K`: [`Private`] or [`Shared`]. Dropping the set drops a
/// reference to each of them.
///
/// An upper layer hands pages over to a set, which alone leads to them until it hands them back.
/// While the set is mapped for a device, nothing reaches the pages.
///
/// # Invariants
///
/// The value has one reference to each of its pages, which are of the linear map or of the page
/// cache. If `K` is [`Private`], each was allocated as a page of its own, and nothing else accesses
/// its bytes.
pub(crate) struct PageSet<K> {
    slots: KVec<Slot>,
    _kind: PhantomData<K>,
}

// SAFETY: References to pages belong to no thread.
unsafe impl<K> Send for PageSet<K> {}
// SAFETY: By shared reference the pages are only read.
unsafe impl<K> Sync for PageSet<K> {}

impl<K> PageSet<K> {
    /// A set without pages or memory for them.
    pub(crate) const fn new() -> Self {
        // INVARIANT: The set has no pages.
        Self {
            slots: KVec::new(),
            _kind: PhantomData,
        }
    }

    /// An empty set with room for `count` pages. It keeps the room when pages are taken out.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        // INVARIANT: The set has no pages.
        Ok(Self {
            slots: KVec::with_capacity(count, flags)?,
            _kind: PhantomData,
        })
    }

    /// The number of pages.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns `true` if it has no pages.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The number of pages that fit.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Adds `page`. Returns it if the set is full.
    ///
    /// # Safety
    ///
    /// `page` must be of the linear map or of the page cache, and come with a reference that the
    /// caller hands over. For a set of [`Private`] pages it must have been allocated as a page of
    /// its own, and nothing but the set may access its bytes until it is taken out.
    pub(crate) unsafe fn push(
        &mut self,
        page: NonNull<bindings::page>,
    ) -> Result<(), NonNull<bindings::page>> {
        // INVARIANT: By the safety requirements of this function the reference is the set's now.
        self.slots
            .push_within_capacity(Slot { page, addr: 0 })
            .map_err(|_| page)
    }

    /// Takes the last page out, with its reference, which the caller has to drop.
    pub(crate) fn pop(&mut self) -> Option<NonNull<bindings::page>> {
        // INVARIANT: The reference is the caller's now.
        self.slots.pop().map(|slot| slot.page)
    }

    /// The page of that number, which stays the set's.
    pub(crate) fn page(&self, index: usize) -> Option<NonNull<bindings::page>> {
        self.slots.get(index).map(|slot| slot.page)
    }

    /// The address that was noted for the page of that number.
    pub(crate) fn addr(&self, index: usize) -> Option<u64> {
        self.slots.get(index).map(|slot| slot.addr)
    }

    /// Notes the address of the page of that number for a device.
    pub(crate) fn set_addr(&mut self, index: usize, addr: u64) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.addr = addr;
        }
    }

    /// Drops the references to all pages.
    pub(crate) fn clear(&mut self) {
        let mut batch = [null_mut(); BATCH];

        while !self.slots.is_empty() {
            let mut count = 0_i32;
            for (place, page) in batch.iter_mut().zip(from_fn(|| self.pop())) {
                *place = page.as_ptr();
                // NO-OVERFLOW: No more than the size of the batch.
                count = count.wrapping_add(1);
            }
            // SAFETY: By the type invariants the set had a reference to each of the first `count`
            // pages, which is not used again. Any context but that of an NMI will do.
            unsafe { bindings::pages_put(batch.as_mut_ptr(), count) };
        }
    }

    /// Puts `page` in place of the one of this number, which is returned with its reference; `page`
    /// itself if the set has none.
    ///
    /// # Safety
    ///
    /// As for [`Self::push`].
    pub(crate) unsafe fn replace(
        &mut self,
        index: usize,
        page: NonNull<bindings::page>,
    ) -> NonNull<bindings::page> {
        match self.slots.get_mut(index) {
            // INVARIANT: By the safety requirements of this function the reference is the set's
            // now; the other one is the caller's.
            Some(slot) => core::mem::replace(&mut slot.page, page),
            None => page,
        }
    }

    /// Copies bytes from byte `at` of the pages on, which count one after the other.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the pages have fewer bytes.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) fn read(&self, at: u32, to: &mut [u8]) -> Result {
        let (mut at, mut to) = (at, to);

        while !to.is_empty() {
            let span = self.span(at, to.len())?;
            let (part, rest) = to
                .split_at_mut_checked(span.len() as usize)
                .ok_or(EMSGSIZE)?;
            span.read(part);
            at = at.checked_add(span.len()).ok_or(EMSGSIZE)?;
            to = rest;
        }
        Ok(())
    }

    /// Up to `len` bytes, from byte `at` on, in one page.
    fn span(&self, at: u32, len: usize) -> Result<PageSpan<'_>> {
        // CAST: Widening.
        let page = self.page((at / PAGE_SIZE) as usize).ok_or(EMSGSIZE)?;
        let len = u32::try_from(len).unwrap_or(u32::MAX);

        // SAFETY: By the type invariants the page is of the linear map or of the page cache, and
        // valid as long as the set, which is borrowed, has its reference.
        Ok(unsafe { PageSpan::new(page, at % PAGE_SIZE, len) })
    }
}

impl<K> PageSet<K> {
    /// Visits `len` bytes from byte `at` on, page by page. The memory ends where the set does.
    pub(crate) fn runs(&self, at: u32, len: u32) -> SetRuns<'_, K> {
        SetRuns {
            set: self,
            at,
            left: len,
        }
    }
}

/// Bytes of a set of pages, which are visited page by page.
pub(crate) struct SetRuns<'a, K> {
    set: &'a PageSet<K>,
    at: u32,
    left: u32,
}

impl<K> Runs for SetRuns<'_, K> {
    fn offset(&self) -> Option<u32> {
        // CAST: Widening.
        let is_there = self.left != 0 && self.set.page((self.at / PAGE_SIZE) as usize).is_some();
        is_there.then_some(self.at % PAGE_SIZE)
    }

    fn next_run(&mut self, most: u32) -> Option<PageRun<'_>> {
        // CAST: Widening.
        let len = self.left.min(most) as usize;
        let span = self.set.span(self.at, len).ok()?;
        if span.len() == 0 {
            return None;
        }

        // A set has less than 4 GiB.
        self.at = self.at.wrapping_add(span.len());
        self.left = self.left.wrapping_sub(span.len());
        Some(PageRun::of(&span))
    }
}

impl PageSet<Private> {
    /// Allocates pages until the set has `count`. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the pages that were allocated until then stay.
    pub(crate) fn fill(&mut self, count: usize) -> Result {
        if count > self.capacity() {
            // KVec::reserve() has calls to panic.
            let mut slots = KVec::with_capacity(count, GFP_KERNEL)?;
            for &slot in self.slots.iter() {
                slots.push_within_capacity(slot)?;
            }
            // INVARIANT: The references move with the pages.
            self.slots = slots;
        }
        while self.len() < count {
            let mut batch = [null_mut(); BATCH];
            let most = count.saturating_sub(self.len()).min(BATCH);
            // SAFETY: Process context, by the contract of this function; the batch has `most`
            // places, which are null. CAST: Few.
            let allocated = unsafe { bindings::pages_alloc(batch.as_mut_ptr(), most as c_int) };
            if allocated <= 0 {
                return Err(ENOMEM);
            }
            // An array without pages is filled from its front. CAST: Few.
            let pages = batch.into_iter().take(allocated as usize);
            for page in pages.filter_map(NonNull::new) {
                // INVARIANT: The reference comes with the allocation, and nothing else knows the
                // page.
                self.slots.push_within_capacity(Slot { page, addr: 0 })?;
            }
        }
        Ok(())
    }

    /// Copies `from` to the pages, from byte `at` on, which count one after the other.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the pages have fewer bytes; some may have been written.
    pub(crate) fn write(&mut self, at: u32, from: &[u8]) -> Result {
        let (mut at, mut from) = (at, from);

        while !from.is_empty() {
            let mut span = self.span(at, from.len())?;
            // SAFETY: By the type invariants nothing else accesses the bytes of the page, and this
            // value is borrowed exclusively; `from` is no byte of it, since nothing lends them.
            let len = unsafe { span.write(from) };
            // CAST: No more than a page.
            at = at.checked_add(len as u32).ok_or(EMSGSIZE)?;
            from = from.get(len..).ok_or(EMSGSIZE)?;
        }
        Ok(())
    }

    /// Fills `len` bytes from byte `at` on with zeroes.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub(crate) fn zero(&mut self, at: u32, len: u32) -> Result {
        const ZEROES: [u8; 64] = [0; 64];
        let end = at.checked_add(len).ok_or(EMSGSIZE)?;
        let mut at = at;

        while at < end {
            // CAST: Widening.
            let left = end.saturating_sub(at) as usize;
            let part = ZEROES.get(..left.min(ZEROES.len())).unwrap_or(&ZEROES);
            self.write(at, part)?;
            // CAST: At most 64.
            at = at.saturating_add(part.len() as u32);
        }
        Ok(())
    }

    /// Gives up the right to write to the pages.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) fn into_shared(mut self) -> PageSet<Shared> {
        // INVARIANT: The references move with the pages.
        PageSet {
            slots: core::mem::replace(&mut self.slots, KVec::new()),
            _kind: PhantomData,
        }
    }
}

impl<K> Drop for PageSet<K> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_page_set)]
mod tests {
    use super::*;

    /// The references to a page that the test has one of.
    fn refs(page: NonNull<bindings::page>) -> i32 {
        // SAFETY: Each test calls it with a page that it has a reference to.
        unsafe { bindings::page_refs(page.as_ptr()) }
    }

    /// H-121: a set has one reference to each page, and drops it once.
    #[test]
    fn references() -> Result {
        let mut set = PageSet::<Private>::with_capacity(2, GFP_KERNEL)?;
        set.fill(2)?;
        let page = set.page(0).ok_or(EINVAL)?;
        // SAFETY: The set has a reference.
        unsafe { bindings::page_get(page.as_ptr()) };
        assert_eq!((set.len(), refs(page)), (2, 2));

        let shared = set.into_shared();
        assert_eq!(refs(page), 2);
        drop(shared);
        assert_eq!(refs(page), 1);

        // The reference that is left moves in, and out again.
        let mut set = PageSet::<Shared>::with_capacity(1, GFP_KERNEL)?;
        // SAFETY: The reference of this function is handed over.
        assert!(unsafe { set.push(page) }.is_ok());
        // SAFETY: The set is full and takes nothing.
        assert!(unsafe { set.push(page) }.is_err());
        assert_eq!((set.len(), refs(page)), (1, 1));
        assert!(set.pop() == Some(page) && set.is_empty());
        assert_eq!(refs(page), 1);
        // SAFETY: The reference was the set's.
        unsafe { bindings::page_put(page.as_ptr()) };
        Ok(())
    }

    /// Bytes are written and read across the borders of pages, and not behind the last one.
    #[test]
    fn bytes() -> Result {
        let mut set = PageSet::<Private>::with_capacity(2, GFP_KERNEL)?;
        set.fill(2)?;
        // The pages stay when the set needs more room.
        let (page, more) = (set.page(1), set.capacity().saturating_add(1));
        set.fill(more)?;
        assert!(set.len() == more && set.page(1) == page);
        while set.len() > 2 {
            let page = set.pop().ok_or(EINVAL)?;
            // SAFETY: The reference was the set's.
            unsafe { bindings::page_put(page.as_ptr()) };
        }
        let (mut to, border) = ([9; 4], PAGE_SIZE);

        set.zero(border.saturating_sub(4), 8)?;
        set.write(border.saturating_sub(2), &[1, 2, 3])?;
        set.read(border.saturating_sub(3), &mut to)?;
        assert_eq!(to, [0, 1, 2, 3]);
        set.zero(border.saturating_sub(1), 1)?;
        set.read(border.saturating_sub(2), &mut to)?;
        assert_eq!(to, [1, 0, 3, 0]);
        let last = border.saturating_mul(2).saturating_sub(2);
        assert!(set.write(last, &[0; 2]).is_ok() && set.write(last, &[0; 3]).is_err());
        assert!(set.read(last, &mut to).is_err() && set.zero(last, u32::MAX).is_err());
        Ok(())
    }
}
