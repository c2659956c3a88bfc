// SPDX-License-Identifier: GPL-2.0

//! The slots that reverse calls of the newest connection use. Pure.
//!
//! One service takes the reverse calls of all transports. While it waits for another server, calls
//! of ended connections keep their slots, and the server of a live connection must not be accused
//! of them.

/// The number of slots in use by one connection.
pub(super) struct Usage {
    /// The newest connection, by its number.
    generation: u64,
    slots: usize,
}

impl Usage {
    /// No slot is in use.
    pub(super) const fn new() -> Self {
        Self {
            generation: 0,
            slots: 0,
        }
    }

    /// A call of the connection with number `generation` gets a slot. Calls of earlier connections
    /// do not count from then on.
    pub(super) fn taken(&mut self, generation: u64) {
        if self.generation != generation {
            *self = Self {
                generation,
                slots: 0,
            };
        }
        self.slots = self.slots.saturating_add(1);
    }

    /// The slot of a call of the connection with number `generation` comes back.
    pub(super) fn returned(&mut self, generation: u64) {
        if self.generation == generation {
            self.slots = self.slots.saturating_sub(1);
        }
    }

    /// Returns `true` if all of `slots` slots are in use by the connection with number
    /// `generation`.
    pub(super) fn is_all(&self, generation: u64, slots: usize) -> bool {
        self.generation == generation && self.slots >= slots
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_usage))]
mod tests {
    use super::*;

    const SLOTS: usize = 4;

    /// Takes all slots that are free, for calls of `generation`.
    fn fill(usage: &mut Usage, free: usize, generation: u64) {
        for _ in 0..free {
            usage.taken(generation);
        }
    }

    // BI-34: a connection that uses all slots has more calls outstanding than it was granted.
    #[test]
    fn a_connection_may_use_all() {
        let mut usage = Usage::new();

        fill(&mut usage, SLOTS - 1, 1);
        assert!(!usage.is_all(1, SLOTS));
        usage.taken(1);
        assert!(usage.is_all(1, SLOTS));
        usage.returned(1);
        assert!(!usage.is_all(1, SLOTS));
    }

    // BI-36: calls of ended connections are not held against the next one.
    #[test]
    fn a_new_connection_is_not_accused_of_the_calls_before() {
        let mut usage = Usage::new();

        fill(&mut usage, SLOTS / 2, 1);
        fill(&mut usage, SLOTS / 2, 2);
        assert!(!usage.is_all(2, SLOTS) && !usage.is_all(3, SLOTS));
        // The second connection gets a slot of the first.
        usage.returned(1);
        usage.taken(2);
        assert!(!usage.is_all(2, SLOTS));
        usage.returned(1);
        usage.taken(2);
        assert!(usage.is_all(2, SLOTS));
    }
}
