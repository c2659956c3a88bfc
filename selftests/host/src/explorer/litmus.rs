// SPDX-License-Identifier: GPL-2.0

//! Outcomes that the explorer's memory allows, and that it does not.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::{
    atomic::{smp_mb, Acquire, Atomic, Full, Relaxed, Release},
    fail, Explore, Scenario,
};

/// Two words, and the values that two threads have loaded.
struct Two {
    x: Atomic<u32>,
    y: Atomic<u32>,
    loaded: [AtomicUsize; 2],
}

impl Two {
    fn new() -> Self {
        let (x, y) = (Atomic::new(0), Atomic::new(0));
        assert_eq!(x.load(Relaxed) + y.load(Relaxed), 0);
        Self {
            x,
            y,
            loaded: [AtomicUsize::new(0), AtomicUsize::new(0)],
        }
    }

    fn loads(&self, thread: usize, value: u32) {
        self.loaded[thread].store(value as usize, SeqCst);
    }

    fn loaded(&self) -> (usize, usize) {
        (self.loaded[0].load(SeqCst), self.loaded[1].load(SeqCst))
    }
}

/// Returns `true` if an interleaving fails the check.
fn can(threads: &'static [(&'static str, fn(&Two))], check: fn(&Two)) -> bool {
    let name = "litmus";
    let make = Two::new;
    let scenario = Scenario {
        name,
        make,
        threads,
        check,
    };
    scenario.explore(&[]).is_err()
}

/// Each thread stores into a word and loads the other one: without barriers it may miss the other's
/// store.
#[test]
fn store_buffering() {
    let both_old: fn(&Two) = |two| {
        if two.loaded() == (0, 0) {
            fail("both are old");
        }
    };
    assert!(can(
        &[
            ("0", |two| {
                two.x.store(1, Release);
                two.loads(0, two.y.load(Acquire));
            }),
            ("1", |two| {
                two.y.store(1, Release);
                two.loads(1, two.x.load(Acquire));
            }),
        ],
        both_old
    ));
    assert!(!can(
        &[
            ("0", |two| {
                two.x.store(1, Relaxed);
                smp_mb();
                two.loads(0, two.y.load(Relaxed));
            }),
            ("1", |two| {
                two.y.xchg(1, Full);
                two.loads(1, two.x.load(Relaxed));
            }),
        ],
        both_old
    ));
}

/// A thread that sees the second of two stores sees the first, if they are ordered at both ends.
#[test]
fn message_passing() {
    let late: fn(&Two) = |two| {
        if two.loaded() == (1, 0) {
            fail("the first store is missed");
        }
    };
    assert!(can(
        &[
            ("0", |two| {
                two.x.store(1, Relaxed);
                two.y.store(1, Relaxed);
            }),
            ("1", |two| {
                two.loads(0, two.y.load(Acquire));
                two.loads(1, two.x.load(Relaxed));
            }),
        ],
        late
    ));
    assert!(can(
        &[
            ("0", |two| {
                two.x.store(1, Relaxed);
                two.y.store(1, Release);
            }),
            ("1", |two| {
                two.loads(0, two.y.load(Relaxed));
                two.loads(1, two.x.load(Relaxed));
            }),
        ],
        late
    ));
    assert!(!can(
        &[
            ("0", |two| {
                two.x.store(1, Relaxed);
                two.y.store(1, Release);
            }),
            ("1", |two| {
                two.loads(0, two.y.load(Acquire));
                two.loads(1, two.x.load(Relaxed));
            }),
        ],
        late
    ));
}

/// No word returns to a value that a thread has seen it leave.
#[test]
fn coherence() {
    assert!(!can(
        &[
            ("0", |two| two.x.store(1, Relaxed)),
            ("1", |two| {
                two.loads(0, two.x.load(Relaxed));
                two.loads(1, two.x.load(Relaxed));
            }),
        ],
        |two| {
            if two.loaded() == (1, 0) {
                fail("older than before");
            }
        }
    ));
}
