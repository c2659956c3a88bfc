// SPDX-License-Identifier: GPL-2.0

//! The memory of the buffers of many connections, and its limit.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// Counts the bytes of the buffers of all protection domains that have it.
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

    /// No buffer is made from now on if all would take more than `most` bytes then.
    pub(crate) fn limit(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    /// The bytes of all buffers, and their limit.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.taken.load(Relaxed), self.most.load(Relaxed))
    }

    /// Takes `bytes` for a buffer.
    ///
    /// # Errors
    ///
    /// `ENOSPC` beyond the limit.
    pub(super) fn take(&self, bytes: usize) -> Result {
        let before = self.taken.fetch_add(bytes, Relaxed);

        if before.saturating_add(bytes) > self.most.load(Relaxed) {
            self.give(bytes);
            return Err(ENOSPC);
        }
        Ok(())
    }

    /// Gives back what a buffer took.
    pub(super) fn give(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Relaxed);
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
        assert!(account.take(5) == Err(ENOSPC));
        assert!(account.take(4).is_ok());
        assert_eq!(account.usage(), (10, 10));
        account.give(6);
        account.limit(3);
        assert!(account.take(1) == Err(ENOSPC));
        account.give(4);
        assert!(account.take(3).is_ok());
    }
}
