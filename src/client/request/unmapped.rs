// SPDX-License-Identifier: GPL-2.0

//! The attempts to map the memory of a call that have failed. Pure.
//!
//! The reason may pass, as when other drivers use up all bounce buffers, or not, as when the device
//! can never map this memory. The call is tried again for some seconds, behind all others, and then
//! fails.

/// Seconds from the first failure after which a call fails.
const LIMIT_SECS: usize = 5;

/// The failures of one call, without a success in between.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct Unmapped {
    /// The call, by its transaction identifier, and the time of the first failure, in ticks.
    first: Option<(u32, usize)>,
}

impl Unmapped {
    /// None.
    pub(crate) const fn new() -> Self {
        Self { first: None }
    }

    /// The memory of the call `xid` could not be mapped at the time `now`; a second has `second`
    /// ticks of it. Returns `true` if this has lasted for too long.
    pub(crate) fn failed(&mut self, xid: u32, now: usize, second: usize) -> bool {
        match self.first {
            Some((of, first)) if of == xid => {
                now.wrapping_sub(first) >= second.saturating_mul(LIMIT_SECS)
            }
            _ => {
                self.first = Some((xid, now));
                false
            }
        }
    }

    /// The memory of a call was mapped.
    #[inline]
    pub(crate) fn mapped(&mut self) {
        self.first = None;
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_unmapped))]
mod tests {
    use super::*;

    const SECOND: usize = 256;
    /// Shortly before the ticks start again.
    const START: usize = usize::MAX - SECOND;

    #[test]
    fn it_ends() {
        let mut unmapped = Unmapped::new();
        let tries = (0..1000).map(|n: usize| START.wrapping_add(n.wrapping_mul(SECOND / 4)));
        let before = tries.take_while(|&now| !unmapped.failed(7, now, SECOND));
        assert!(before.count() == 4 * LIMIT_SECS);
    }

    #[test]
    fn each_call_has_its_own_time() {
        let mut unmapped = Unmapped::new();

        assert!(!unmapped.failed(7, 0, SECOND));
        assert!(!unmapped.failed(8, LIMIT_SECS * SECOND, SECOND));
        assert!(!unmapped.failed(8, (2 * LIMIT_SECS - 1) * SECOND, SECOND));
        assert!(unmapped.failed(8, 2 * LIMIT_SECS * SECOND, SECOND));
    }

    #[test]
    fn a_success_counts() {
        let mut unmapped = Unmapped::new();

        assert!(!unmapped.failed(7, 0, SECOND));
        unmapped.mapped();
        assert!(!unmapped.failed(7, LIMIT_SECS * SECOND, SECOND));
    }
}
