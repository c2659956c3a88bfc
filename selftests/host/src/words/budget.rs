// SPDX-License-Identifier: GPL-2.0

//! The entries of a send queue that chains share.

use super::budget::Budget;
use crate::{
    explorer::{explore, fail, Explore, Plain, Scenario},
    stand_ins::sync::Arc,
};

/// A send queue with three entries.
struct Queue {
    budget: Arc<Budget>,
    /// Most of the entries: no two threads have as many together.
    most: Plain,
}

impl Queue {
    fn new() -> Self {
        let budget = Arc::new(Budget::new(3));
        assert_eq!((budget.left(), budget.entries()), (3, 3));
        Self {
            budget,
            most: Plain::new("the send queue"),
        }
    }

    /// Posts a chain of two requests, which completes.
    fn two(&self) {
        if let Some(permit) = self.budget.take(2) {
            assert_eq!(permit.count(), 2);
            self.most.write();
        }
    }

    /// Posts a chain of one request, which completes.
    fn one(&self) {
        drop(self.budget.take(1));
    }

    fn check(&self) {
        if self.budget.left() != 3 || self.budget.take(4).is_some() {
            fail("entries are lost, or counted twice");
        }
    }
}

const CHAINS: Scenario<Queue> = Scenario {
    name: "chains share the entries of a send queue",
    make: Queue::new,
    threads: &[
        ("sender", Queue::two),
        ("another", Queue::two),
        ("handler", Queue::one),
    ],
    check: Queue::check,
};

// H-109, H-125
#[test]
fn budget() {
    let scenarios: [&dyn Explore; 1] = [&CHAINS];
    explore("room for transfers", "verbs/rw/budget.rs", &scenarios, &[]);
}
