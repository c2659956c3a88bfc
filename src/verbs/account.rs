// SPDX-License-Identifier: GPL-2.0

//! The memory that many connections take, and its limit.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use crate::os::series::EDQUOT;

/// Counts the bytes of the buffers of all protection domains that have it, or of other memory.
pub(crate) struct Account {
    taken: Atomic<usize>,
    most: Atomic<usize>,
}

impl Account {
    /// An account of nothing, without a limit.
    pub(crate) const fn new() -> Self {
        Self {
            taken: Atomic::new(0),
            most: Atomic::new(usize::MAX),
        }
    }

    /// Nothing is taken from now on if all would be more than `most` bytes then.
    pub(crate) fn limit(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    /// The bytes that are taken, and their limit.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.taken.load(Relaxed), self.most.load(Relaxed))
    }

    /// Takes `bytes`.
    ///
    /// # Errors
    ///
    /// `EDQUOT` beyond the limit.
    pub(crate) fn take(&self, bytes: usize) -> Result {
        let mut before = self.taken.load(Relaxed);

        loop {
            let after = before.saturating_add(bytes);
            if after > self.most.load(Relaxed) {
                return Err(EDQUOT);
            }
            match self.taken.cmpxchg(before, after, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => before = now,
            }
        }
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, bytes: usize) {
        self.taken.fetch_add(bytes.wrapping_neg(), Relaxed);
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[::kernel::macros::kunit_tests(rpcrdma_account)]
mod tests {
    use super::*;

    // H-139: what does not fit takes nothing.
    #[test]
    fn limits() {
        let account = Account::new();

        account.limit(10);
        assert!(account.take(6).is_ok());
        assert!(account.take(5) == Err(EDQUOT));
        assert!(account.take(4).is_ok());
        assert_eq!(account.usage(), (10, 10));
        account.give(6);
        account.limit(3);
        assert!(account.take(1) == Err(EDQUOT));
        account.give(4);
        assert!(account.take(3).is_ok());
    }
}
