// SPDX-License-Identifier: GPL-2.0

//! A first-in first-out queue of fixed capacity.

use kernel::prelude::*;

/// A queue that never allocates after it was made.
pub(crate) struct Ring<T> {
    slots: KVec<Option<T>>,
    head: usize,
    len: usize,
}

impl<T> Ring<T> {
    /// A queue for at most `capacity` items.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(capacity: usize) -> Result<Self> {
        let mut slots = KVec::with_capacity(capacity, GFP_KERNEL)?;
        for _ in 0..capacity {
            slots.push_within_capacity(None)?;
        }
        Ok(Self {
            slots,
            head: 0,
            len: 0,
        })
    }

    /// Queues `item`; gives it back when the queue is full.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        let capacity = self.slots.len();
        if self.len >= capacity {
            return Err(item);
        }
        // Both are below the capacity, so neither wraps around.
        let at = self.head.wrapping_add(self.len);
        let at = at.checked_sub(capacity).unwrap_or(at);
        match self.slots.get_mut(at) {
            Some(slot) => *slot = Some(item),
            None => return Err(item),
        }
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Takes the oldest item out if it `matches`.
    #[inline]
    pub(crate) fn pop_if(&mut self, matches: impl FnOnce(&T) -> bool) -> Option<T> {
        let slot = self.slots.get_mut(self.head)?;
        if !slot.as_ref().is_some_and(matches) {
            return None;
        }
        let item = slot.take();
        self.head = self.head.wrapping_add(1);
        if self.head >= self.slots.len() {
            self.head = 0;
        }
        self.len = self.len.saturating_sub(1);
        item
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_ring)]
// Small numbers, told apart by their tens.
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    /// First in, first out, also when the queue wraps around; full is full.
    #[test]
    fn order() -> Result {
        let mut ring = Ring::new(3)?;
        let any = |_: &i32| true;

        assert!(ring.pop_if(any).is_none());
        for turn in 0..5 {
            assert_eq!(ring.push(turn), Ok(()));
            assert_eq!(ring.push(turn + 10), Ok(()));
            assert_eq!(ring.push(turn + 20), Ok(()));
            assert_eq!(ring.push(turn + 30), Err(turn + 30));
            assert_eq!(ring.pop_if(|&x| x == turn + 10), None);
            assert_eq!(ring.pop_if(|&x| x == turn), Some(turn));
            assert_eq!(ring.push(turn + 40), Ok(()));
            assert_eq!(ring.pop_if(any), Some(turn + 10));
            assert_eq!(ring.pop_if(any), Some(turn + 20));
            assert_eq!(ring.pop_if(any), Some(turn + 40));
            assert!(ring.pop_if(any).is_none());
        }
        Ok(())
    }

    /// A queue of no items has no room.
    #[test]
    fn none() -> Result {
        let mut ring = Ring::new(0)?;

        assert_eq!(ring.push(1), Err(1));
        assert!(ring.pop_if(|_| true).is_none());
        Ok(())
    }
}
