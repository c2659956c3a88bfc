// SPDX-License-Identifier: GPL-2.0

//! A queue of fixed capacity.

use kernel::prelude::*;

/// A queue of fixed capacity, whose items leave in the order in which they came, but for those that
/// are added in front.
///
/// # Invariants
///
/// `first` is the index of a place, or 0 without places. `len` is at most the number of places; the
/// places of the items begin with `first`, around the end.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct Fifo<T> {
    places: KVec<Option<T>>,
    first: usize,
    len: usize,
}

impl<T> Fifo<T> {
    /// A queue without places.
    pub(crate) const fn none() -> Self {
        // INVARIANT: The queue has no places and no items.
        Self {
            places: KVec::new(),
            first: 0,
            len: 0,
        }
    }

    /// An empty queue for up to `capacity` items.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(capacity: usize) -> Result<Self> {
        let mut places = KVec::with_capacity(capacity, GFP_KERNEL)?;

        for _ in 0..capacity {
            places.push_within_capacity(None)?;
        }
        // INVARIANT: The queue has no items.
        Ok(Self {
            places,
            first: 0,
            len: 0,
        })
    }

    /// The number of items.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if it has no items.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The index of the place that is `by` places behind the first one.
    #[inline]
    fn index(&self, by: usize) -> usize {
        // No sum wraps around: both are at most the number of places.
        let index = self.first.wrapping_add(by);
        if index < self.places.len() {
            index
        } else {
            index.wrapping_sub(self.places.len())
        }
    }

    /// Adds an item.
    ///
    /// # Errors
    ///
    /// The item, if the queue is full.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        let last = self.index(self.len);

        match self.places.get_mut(last) {
            Some(place @ None) => {
                *place = Some(item);
                // INVARIANT: The place behind the last item has one now.
                self.len = self.len.saturating_add(1);
                Ok(())
            }
            _ => Err(item),
        }
    }

    /// Adds an item in front of all others.
    ///
    /// # Errors
    ///
    /// The item, if the queue is full.
    pub(crate) fn push_first(&mut self, item: T) -> Result<(), T> {
        let before = self.index(self.places.len().saturating_sub(1));

        match self.places.get_mut(before) {
            Some(place @ None) => {
                *place = Some(item);
                // INVARIANT: The place in front of the first item has one now.
                self.first = before;
                self.len = self.len.saturating_add(1);
                Ok(())
            }
            _ => Err(item),
        }
    }

    /// The first item.
    pub(crate) fn first(&self) -> Option<&T> {
        self.places.get(self.first)?.as_ref()
    }

    /// Takes the first item.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.places.get_mut(self.first)?.take()?;

        // INVARIANT: The first item is gone.
        self.first = self.index(1);
        self.len = self.len.saturating_sub(1);
        Some(item)
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_fifo)]
mod tests {
    use super::*;

    /// Items leave in their order, around the end, and none is lost when the queue is full.
    #[test]
    fn order() -> Result {
        let mut queue = Fifo::new(3)?;

        for round in 0..5_u32 {
            let first = round.wrapping_mul(10);
            assert!(queue.is_empty() && queue.pop().is_none());
            for item in first..first.wrapping_add(3) {
                assert_eq!(queue.push(item), Ok(()));
            }
            assert_eq!(queue.push(99), Err(99));
            assert_eq!((queue.len(), queue.first()), (3, Some(&first)));
            assert_eq!(queue.pop(), Some(first));
            assert_eq!(queue.push(first), Ok(()));
            assert_eq!(queue.pop(), Some(first.wrapping_add(1)));
            assert_eq!(queue.pop(), Some(first.wrapping_add(2)));
            assert_eq!(queue.pop(), Some(first));
            // The next round begins at another place.
            assert_eq!(queue.push(1), Ok(()));
            assert_eq!(queue.pop(), Some(1));
        }
        Ok(())
    }

    /// Items that are added in front leave first.
    #[test]
    fn first() -> Result {
        let mut queue = Fifo::new(3)?;

        for _ in 0..5 {
            assert_eq!(queue.push(2), Ok(()));
            assert_eq!(queue.push_first(1), Ok(()));
            assert_eq!(queue.push(3), Ok(()));
            assert_eq!(queue.push_first(0), Err(0));
            assert_eq!(
                [queue.pop(), queue.pop(), queue.pop()],
                [Some(1), Some(2), Some(3)]
            );
            // The next round begins at another place.
            assert_eq!((queue.push_first(4), queue.pop()), (Ok(()), Some(4)));
            assert_eq!((queue.push(5), queue.pop()), (Ok(()), Some(5)));
        }
        assert_eq!(Fifo::new(0)?.push_first(1), Err(1));
        Ok(())
    }

    /// Without places nothing can be added.
    #[test]
    fn none() -> Result {
        let mut queue = Fifo::new(0)?;

        assert_eq!(queue.push(1), Err(1));
        assert!(queue.first().is_none() && queue.pop().is_none() && queue.is_empty());
        Ok(())
    }
}
