// SPDX-License-Identifier: GPL-2.0

//! The requests that are free.

use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed, //
    }, //
};

/// Bits of a word.
const BITS: u32 = u64::BITS;

/// Numbers from 0 on that can be taken and put back, by any number of concurrent tasks, without a
/// lock. The lowest ones are taken first, so that few requests are in use, whose memory is warm.
pub(super) struct FreeNumbers {
    /// A bit for each number that is there.
    words: KVec<Atomic<u64>>,
}

impl FreeNumbers {
    /// The numbers below `count`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(count: u32) -> Result<Self> {
        // CAST: Widening.
        let mut words = KVec::with_capacity(count.div_ceil(BITS) as usize, GFP_KERNEL)?;
        let mut left = count;

        while left != 0 {
            let bits = left.min(BITS);
            let all = u64::MAX.checked_shr(BITS.saturating_sub(bits)).unwrap_or(0);
            words.push_within_capacity(Atomic::new(all))?;
            left = left.saturating_sub(bits);
        }
        Ok(Self { words })
    }

    /// Takes a number, if one is left.
    #[inline]
    pub(super) fn take(&self) -> Option<u32> {
        for (at, word) in self.words.iter().enumerate() {
            let mut now = word.load(Relaxed);
            while now != 0 {
                let rest = now & now.wrapping_sub(1);
                // Acquire: all that was done with the number before comes first.
                match word.cmpxchg(now, rest, Acquire) {
                    Ok(_) => {
                        // CAST: No sum wraps around: all numbers have 32 bits.
                        let first = (at as u32).wrapping_mul(BITS);
                        return Some(first.wrapping_add(now.trailing_zeros()));
                    }
                    Err(changed) => now = changed,
                }
            }
        }
        None
    }

    /// Takes `number`. Returns `true` if it was free.
    pub(super) fn take_this(&self, number: u32) -> bool {
        // CAST: Widening.
        let (Some(word), bit) = (
            self.words.get((number / BITS) as usize),
            1u64 << (number % BITS),
        ) else {
            return false;
        };
        let mut now = word.load(Relaxed);

        while now & bit != 0 {
            // Acquire: as in `take`.
            match word.cmpxchg(now, now & !bit, Acquire) {
                Ok(_) => return true,
                Err(changed) => now = changed,
            }
        }
        false
    }

    /// Puts back a number that was taken. A full barrier.
    #[inline]
    pub(super) fn put(&self, number: u32) {
        // Each number has a word. CAST: Widening.
        if let Some(word) = self.words.get((number / BITS) as usize) {
            let mut now = word.load(Relaxed);
            while let Err(changed) = word.cmpxchg(now, now | (1u64 << (number % BITS)), Full) {
                now = changed;
            }
        }
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_free)]
mod tests {
    use super::*;

    /// Each number is there once, and again after it was put back.
    #[test]
    fn numbers() {
        for count in [0, 1, 63, 64, 65, 128, 200] {
            let Ok(free) = FreeNumbers::new(count) else {
                assert!(false);
                continue;
            };
            for wanted in 0..count {
                assert_eq!(free.take(), Some(wanted));
            }
            assert_eq!(free.take(), None);
            for number in [count.saturating_sub(1), count / 2, 0] {
                if number < count {
                    free.put(number);
                    assert_eq!(free.take(), Some(number));
                }
            }
            assert_eq!(free.take(), None);
        }
    }

    /// A given number is taken once, and is there again after it was put back.
    #[test]
    fn given() {
        let Ok(free) = FreeNumbers::new(70) else {
            assert!(false);
            return;
        };
        assert!(free.take_this(64) && !free.take_this(64));
        assert!(!free.take_this(70) && !free.take_this(1000));
        for _ in 0..69 {
            assert!(free.take().is_some_and(|number| number != 64));
        }
        assert_eq!(free.take(), None);
        free.put(64);
        assert!(free.take_this(64));
    }

    /// The lowest one is taken first.
    #[test]
    fn order() {
        let Ok(free) = FreeNumbers::new(130) else {
            assert!(false);
            return;
        };
        while free.take().is_some() {}
        for number in [129, 64, 70, 3] {
            free.put(number);
        }
        for number in [3, 64, 70, 129] {
            assert_eq!(free.take(), Some(number));
        }
    }
}
