// SPDX-License-Identifier: GPL-2.0

//! Counters.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// A number that only grows.
pub(crate) struct Counter(Atomic<u64>);

impl Counter {
    /// Zero.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Counts one.
    #[inline]
    pub(crate) fn inc(&self) {
        self.add(1);
    }

    /// Counts `n`.
    #[inline]
    pub(crate) fn add(&self, n: u32) {
        // Counters that lose an increment to a race would still be wrong: tests compare them.
        self.0.add(u64::from(n), Relaxed);
    }

    /// The number now.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
