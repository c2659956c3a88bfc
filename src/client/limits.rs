// SPDX-License-Identifier: GPL-2.0

//! The limits of a live connection, which may change at any time. Pure, and explored by the host
//! tests.
//!
//! Over version 1 the inline thresholds are settled when the connection is made, and fixed for its
//! life (PD-19). Version 2 lets either end announce another size on a live connection, any number
//! of times. The thresholds are one word, which a change overwrites: it keeps no memory, and
//! readers need neither a lock nor a grace period. A call is built with the limits of one
//! [`load`](Limits::get), so that it sees a change as a whole, or not at all.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use super::super::proto::{
    PlanLimits,
    Thresholds, //
};

/// The limits for the plans of calls and replies.
pub(crate) struct Limits {
    /// The threshold for calls in the upper half, for replies in the lower half.
    thresholds: Atomic<u64>,
    /// The rest, which does not change, beside the first thresholds.
    first: PlanLimits,
}

/// The word that stores `thresholds`.
const fn word(thresholds: Thresholds) -> u64 {
    let Thresholds { call, reply } = thresholds;

    // CAST: Widening.
    (call as u64) << 32 | reply as u64
}

impl Limits {
    /// The limits of a new connection.
    pub(crate) const fn new(first: PlanLimits) -> Self {
        Self {
            thresholds: Atomic::new(word(first.thresholds)),
            first,
        }
    }

    /// The limits that hold now.
    #[inline(always)]
    pub(crate) fn get(&self) -> PlanLimits {
        // Relaxed: a limit says nothing about other memory.
        let word = self.thresholds.load(Relaxed);

        PlanLimits {
            thresholds: Thresholds {
                // CAST: The upper half.
                call: (word >> 32) as u32,
                // CAST: The lower half.
                reply: word as u32,
            },
            ..self.first
        }
    }

    /// Changes the thresholds. Calls that are being built keep to the limits that they began with.
    pub(crate) fn change(&self, thresholds: Thresholds) {
        self.thresholds.store(word(thresholds), Relaxed);
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_limits)]
mod tests {
    use super::*;
    use crate::os::{
        secs_to_jiffies,
        Completion, //
    };
    use kernel::{
        prelude::*,
        sync::Arc,
        workqueue, //
    };

    const CHANGES: u32 = 1000;

    /// Limits that are read while they change.
    #[pin_data]
    struct Changing {
        limits: Limits,
        /// Loads with a threshold of one version and a threshold of another.
        mixed: Atomic<u32>,
        #[pin]
        is_read: Completion,
    }

    impl Changing {
        fn read(&self) {
            for _ in 0..20 * CHANGES {
                let Thresholds { call, reply } = self.limits.get().thresholds;
                if reply != call.wrapping_mul(2) {
                    self.mixed.fetch_add(1, Relaxed);
                }
            }
            self.is_read.signal();
        }
    }

    fn version(number: u32) -> Thresholds {
        Thresholds {
            call: number,
            reply: number.wrapping_mul(2),
        }
    }

    /// No number of changes is too many, and no reader sees a mix.
    #[test]
    fn a_thousand_changes_under_readers() -> Result {
        const READERS: usize = 2;
        let first = PlanLimits {
            thresholds: version(0),
            page_size: 4096,
            pages_per_segment: 16,
            max_segments: 4,
        };
        let changing = Arc::pin_init(
            pin_init!(Changing {
                limits: Limits::new(first),
                mixed: Atomic::new(0),
                is_read <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;

        for _ in 0..READERS {
            let reader = changing.clone();
            workqueue::system().try_spawn(GFP_KERNEL, move || reader.read())?;
        }
        for number in 1..=CHANGES {
            changing.limits.change(version(number));
        }
        for _ in 0..READERS {
            assert!(changing.is_read.wait(secs_to_jiffies(60)));
        }
        assert_eq!(changing.mixed.load(Relaxed), 0);
        let last = changing.limits.get();
        assert_eq!(last.thresholds, version(CHANGES));
        assert_eq!(last.page_size, first.page_size);
        Ok(())
    }
}
