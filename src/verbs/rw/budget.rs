// SPDX-License-Identifier: GPL-2.0

//! The entries of a send queue that chains of requests share. The host tests explore it.

use kernel::sync::{
    atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    Arc, //
};

/// The entries of a send queue for chains of requests. No thread waits for it: a chain that finds
/// no room is posted later, by code that runs after another has completed.
pub(crate) struct Budget {
    entries: u32,
    left: Atomic<u32>,
}

impl Budget {
    /// A budget of `entries`.
    pub(crate) const fn new(entries: u32) -> Self {
        Self {
            entries,
            left: Atomic::new(entries),
        }
    }

    /// All entries, taken or not. No chain can have more.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// The entries that are not taken, which other threads may take.
    #[cfg(any(test, CONFIG_KUNIT = "y"))]
    pub(crate) fn left(&self) -> u32 {
        self.left.load(Relaxed)
    }

    /// Takes `count` entries; `None` if fewer are left.
    pub(crate) fn take(self: &Arc<Self>, count: u32) -> Option<Permit> {
        let mut left = self.left.load(Relaxed);

        loop {
            let rest = left.checked_sub(count)?;
            // Acquire: the driver has noted the completions of the requests that returned them.
            match self.left.cmpxchg(left, rest, Acquire) {
                Ok(_) => break,
                Err(now) => left = now,
            }
        }
        Some(Permit {
            budget: self.clone(),
            count,
        })
    }
}

/// Entries of a send queue, which dropping it returns: part of a chain until that has completed.
#[must_use = "dropping it returns the entries"]
pub(crate) struct Permit {
    budget: Arc<Budget>,
    count: u32,
}

impl Permit {
    /// The number of entries.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Release: after the completion of the requests. The sum is no more than all entries.
        self.budget.left.fetch_add(self.count, Release);
    }
}
