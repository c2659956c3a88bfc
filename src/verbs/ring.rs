// SPDX-License-Identifier: GPL-2.0

//! Items that are used in turn.

use core::mem::{
    forget,
    swap, //
};

use kernel::prelude::*;

/// Items that are lent one after the other and come back in the same order.
///
/// A lent item stays in its place, so that nothing moves when it comes back: the number of items
/// that are still lent is enough.
///
/// # Invariants
///
/// `next` is the index of a place, or 0 without places. `free` is at most the number of places.
pub(crate) struct Ring<T> {
    /// From `next` on, around the end: the free items, then the lent ones, the oldest first. A
    /// place is empty while its item is [taken](Self::take).
    places: KVec<Option<T>>,
    next: usize,
    free: usize,
}

impl<T> Ring<T> {
    /// Room for `capacity` items.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(capacity: usize) -> Result<Self> {
        // INVARIANT: The ring has no places.
        Ok(Self {
            places: KVec::with_capacity(capacity, GFP_KERNEL)?,
            next: 0,
            free: 0,
        })
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The number of items that fit.
    pub(crate) fn capacity(&self) -> usize {
        self.places.capacity()
    }

    /// The number of items that are not lent.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.free
    }

    /// All items, lent or not, but one that is taken.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// Takes the next free item out, to be [lent](Self::lend) or [put back](Self::put) before the
    /// next one is taken.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.free == 0 {
            return None;
        }
        self.places.get_mut(self.next)?.take()
    }

    /// Puts back the item that was taken. Drops any other: a place that is not empty is not its
    /// own.
    #[cold]
    pub(crate) fn put(&mut self, item: T) {
        if let Some(place @ None) = self.places.get_mut(self.next) {
            *place = Some(item);
        }
    }

    /// Lends the item that was taken: it comes back after all that are lent already.
    #[inline(always)]
    pub(crate) fn lend(&mut self, item: T) {
        if let Some(place) = self.places.get_mut(self.next) {
            // The place is empty, which the compiler cannot know: nothing has to be dropped.
            forget(place.replace(item));
        }
        // INVARIANT: Neither wraps around: the index was in range, and its item was free.
        self.next = self.next.wrapping_add(1);
        if self.next >= self.places.len() {
            self.next = 0;
        }
        self.free = self.free.saturating_sub(1);
    }

    /// The lent items that come back when no more than `lent` stay lent, the oldest first.
    pub(crate) fn coming_back(&self, lent: usize) -> impl Iterator<Item = &T> {
        let first = self.next.saturating_add(self.free);
        let count = self.len().saturating_sub(self.free).saturating_sub(lent);

        self.places.iter().cycle().skip(first).take(count).flatten()
    }

    /// All but the last `lent` items have come back.
    #[inline]
    pub(crate) fn keep_lent(&mut self, lent: usize) {
        // INVARIANT: `free` is at most the number of places.
        self.free = self.places.len().saturating_sub(lent);
    }

    /// Adds a free item, the next one. Drops it if the ring is full, or while another is taken.
    pub(crate) fn add(&mut self, item: T) {
        let taken = self.free != 0 && self.places.get(self.next).is_some_and(Option::is_none);

        if !taken && self.places.len() < self.places.capacity() {
            let mut item = Some(item);
            // All from the next one on move up by one place.
            for place in self.places.get_mut(self.next..).unwrap_or(&mut []) {
                swap(place, &mut item);
            }
            let _ = self.places.push_within_capacity(item);
            // INVARIANT: The ring has a place more.
            self.free = self.free.saturating_add(1);
        }
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_ring)]
mod tests {
    use super::*;

    fn of(items: &[u32]) -> Result<Ring<u32>> {
        let mut ring = Ring::new(4)?;
        for &item in items {
            ring.add(item);
        }
        Ok(ring)
    }

    /// Takes an item and lends it.
    fn turn(ring: &mut Ring<u32>) -> Option<u32> {
        let item = ring.take()?;
        ring.lend(item);
        Some(item)
    }

    /// Items come back in the order of their lending, around the end, too.
    #[test]
    fn order() -> Result {
        let mut ring = of(&[3, 2, 1])?;

        assert_eq!(turn(&mut ring), Some(1));
        assert_eq!(turn(&mut ring), Some(2));
        for (last, oldest) in [(3, 1), (1, 2), (2, 3), (3, 1), (1, 2)] {
            assert_eq!(turn(&mut ring), Some(last));
            assert!(turn(&mut ring).is_none());
            assert!(ring.coming_back(2).eq(&[oldest]));
            ring.keep_lent(2);
        }
        Ok(())
    }

    /// An item that was put back is the next again; none is taken twice.
    #[test]
    fn put() -> Result {
        let mut ring = of(&[2, 1])?;

        assert_eq!(ring.take(), Some(1));
        assert!(ring.take().is_none());
        // None is added while an item is taken.
        ring.add(3);
        assert_eq!(ring.len(), 2);
        ring.put(1);
        assert_eq!(ring.free(), 2);
        assert_eq!(turn(&mut ring), Some(1));
        assert_eq!(turn(&mut ring), Some(2));
        assert!(ring.take().is_none());
        // An item that was not taken has no place while all are lent.
        ring.put(4);
        assert!(ring.coming_back(0).eq(&[1, 2]));
        Ok(())
    }

    /// A new item is the next one, and lent items come back in their order after it.
    #[test]
    fn growth() -> Result {
        let mut ring = of(&[2, 1])?;

        assert_eq!(turn(&mut ring), Some(1));
        ring.add(3);
        assert_eq!(turn(&mut ring), Some(3));
        assert_eq!(turn(&mut ring), Some(2));
        ring.add(4);
        assert_eq!(turn(&mut ring), Some(4));
        assert!(ring.coming_back(0).eq(&[1, 3, 2, 4]));
        ring.keep_lent(0);
        assert!([1, 3, 2, 4].map(Some) == [0; 4].map(|_| turn(&mut ring)));
        // The capacity is four.
        ring.keep_lent(0);
        ring.add(5);
        assert_eq!((ring.len(), ring.free()), (4, 4));
        Ok(())
    }

    /// Without items nothing can be taken.
    #[test]
    fn none() -> Result {
        let mut ring = of(&[])?;

        assert!(ring.take().is_none() && ring.coming_back(0).next().is_none());
        ring.put(1);
        ring.keep_lent(0);
        assert!(ring.take().is_none());
        Ok(())
    }
}
