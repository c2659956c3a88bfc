// SPDX-License-Identifier: GPL-2.0

//! The window of a connection, the deadline of its invalidations, and its limits.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::{
    explorer::{
        atomic::{Atomic, Relaxed},
        fail, Explore, How, Lock, Outcome, Scenario,
    },
    module::{
        client::{
            connection::{
                deadline::{Expiry, InvalidationDeadline},
                window::{Change, Window},
            },
            limits::Limits,
        },
        proto::{PlanLimits, Thresholds},
    },
    stand_ins::work::DelayedWork,
};

/// A window of 8 credits, one of which an abandoned call holds, and sunrpc's.
struct Credits {
    window: Window,
    /// `transport_lock`, and the number of calls that sunrpc lets out under it.
    lock: Lock,
    calls: Atomic<u32>,
}

impl Credits {
    fn new() -> Self {
        let (window, calls) = (Window::new(), Atomic::new(7));
        assert!(window.size() == 1 && !window.is_settled(8));
        assert_eq!(window.granted(8, || 16), Some(Change::Raised));
        assert!(window.confirm() && !window.confirm() && window.is_settled(8));
        assert_eq!(window.granted(8, || 16), None);
        window.abandon();
        assert_eq!((window.size(), calls.load(Relaxed)), (7, 7));
        assert!(!window.replied_unknown());
        Self {
            window,
            lock: Lock::new(),
            calls,
        }
    }

    /// `Connection::open_window`.
    fn open(&self) {
        self.lock
            .with(|| self.calls.store(self.window.size(), Relaxed));
    }

    /// `Connection::abandon`, from `Transport::released`.
    fn abandon(&self) {
        self.lock.with(|| {
            self.window.abandon();
            self.calls.store(self.window.size(), Relaxed);
        });
    }

    /// sunrpc lets out as many calls as the grant allows, less the abandoned ones.
    fn check(&self, granted: u32, abandoned: u32) {
        if (self.window.last_grant(), self.window.abandoned_calls()) != (granted, abandoned) {
            fail("a grant or an abandoned call is lost");
        }
        if self.calls.load(Relaxed) != granted - abandoned {
            fail("sunrpc has another window");
        }
    }
}

// V1-30, V1-41
const GRANTED: Scenario<Credits> = Scenario {
    name: "the grant falls while a call is abandoned",
    make: Credits::new,
    threads: &[
        ("task", Credits::abandon),
        ("handler", |world| {
            if world.window.granted(6, || 16) == Some(Change::NotRaised) {
                world.open();
            }
        }),
    ],
    check: |world| world.check(6, 2),
};

// V1-39, V1-41
const LATE: Scenario<Credits> = Scenario {
    name: "a late reply comes while another call is abandoned",
    make: Credits::new,
    threads: &[
        ("task", Credits::abandon),
        ("handler", |world| {
            world.window.replied_late();
            world.open();
        }),
    ],
    check: |world| world.check(8, 1),
};

// V1-41, V1-113
const ALONE: Scenario<Credits> = Scenario {
    name: "replies to calls that are waiting, abandoned and unknown",
    make: || {
        let world = Credits::new();
        // One more before.
        let accepted = (0..2000).take_while(|_| !world.window.replied_unknown());
        assert_eq!(accepted.count(), 1023);
        world
    },
    threads: &[("handler", |world| {
        world.window.replied_late();
        // A grant of 0 is one credit, and never settled.
        for (wire, change) in [
            (3, Change::NotRaised),
            (9, Change::Raised),
            (0, Change::NotRaised),
        ] {
            if world.window.granted(wire, || 16) != Some(change) {
                fail("a grant is not taken");
            }
            if world.window.is_settled(wire) == (wire == 0) {
                fail("a grant counts as taken, and is not");
            }
        }
        world.open();
        if !world.window.replied_unknown() {
            fail("more replies to unknown calls are accepted");
        }
    })],
    check: |world| world.check(1, 0),
};

#[test]
fn window() {
    let scenarios: [&dyn Explore; 3] = [&GRANTED, &LATE, &ALONE];
    let harmless = [
        // The next grant is another's.
        (How::Late, "self.wire_grant.store("),
        // It stays 0.
        (How::Late, "self.unknown_left.store("),
    ];
    Outcome::of(&scenarios)
        .mistakes("connection/window.rs", &scenarios, &harmless)
        .omissions(
            "connection/window.rs",
            &scenarios,
            &[(How::Forgotten, "self.unknown_left.store(")],
        )
        .report("window");
}

/// A connection with invalidations.
struct Invalidations {
    deadline: InvalidationDeadline,
    /// The lock of the queue pair.
    gate: Lock,
    work: DelayedWork,
    /// Set when the connection ends.
    is_ended: AtomicBool,
}

impl Invalidations {
    fn new() -> Self {
        let deadline = InvalidationDeadline::new();
        // Uses each word once: one is in time, and one is not.
        assert!(deadline.posted());
        deadline.completed();
        assert!(!deadline.posted());
        assert_eq!(deadline.expired(), Expiry::Rearm);
        assert_eq!(deadline.expired(), Expiry::Overdue);
        deadline.completed();
        assert_eq!(deadline.expired(), Expiry::Done);
        Self {
            deadline,
            gate: Lock::new(),
            work: DelayedWork::new(),
            is_ended: AtomicBool::new(false),
        }
    }

    /// `Connection::invalidate`.
    fn post(&self) {
        if self.gate.with(|| self.deadline.posted()) {
            self.work.enqueue();
        }
    }

    /// The work item, if it is queued.
    fn run(&self) {
        if self.work.dequeue() {
            match self.gate.with(|| self.deadline.expired()) {
                Expiry::Done => (),
                Expiry::Rearm => self.work.enqueue(),
                Expiry::Overdue => self.is_ended.store(true, SeqCst),
            }
        }
    }

    /// One invalidation does not complete: the connection ends.
    fn check(&self) {
        for _ in 0..3 {
            self.run();
        }
        if !self.is_ended.load(SeqCst) {
            fail("a reply waits for ever for its invalidation");
        }
    }
}

// V1-128
const STUCK: Scenario<Invalidations> = Scenario {
    name: "the second invalidation does not complete",
    make: Invalidations::new,
    threads: &[
        ("handler", |world| {
            world.post();
            world.deadline.completed();
            world.post();
        }),
        ("worker", |world| {
            world.run();
            world.run();
        }),
    ],
    check: Invalidations::check,
};

const LIMIT: Scenario<Invalidations> = Scenario {
    name: "some invalidations are complete when the limit is over",
    make: Invalidations::new,
    threads: &[("handler", |world| {
        world.post();
        world.deadline.completed();
        if world.deadline.expired() != Expiry::Done {
            fail("an invalidation that is complete counts as overdue");
        }
        world.post();
        if world.deadline.expired() != Expiry::Overdue {
            fail("an invalidation has more time than the limit");
        }
        world.deadline.completed();
        if world.deadline.expired() != Expiry::Done {
            fail("an invalidation that is complete counts as overdue");
        }
        world.post();
        world.deadline.completed();
        // Posted after the work item was queued: it has up to twice the time.
        world.post();
        if [world.deadline.expired(), world.deadline.expired()] != [Expiry::Rearm, Expiry::Overdue]
        {
            fail("an invalidation has more time than twice the limit");
        }
    })],
    check: |_| (),
};

#[test]
fn deadline() {
    let scenarios: [&dyn Explore; 2] = [&STUCK, &LIMIT];
    // Both come before the end of the section.
    let late = (How::Late, "self.due.store(posted, Relaxed)");
    // The work item cannot run before it is queued.
    let armed = (How::Late, "self.armed.store(true, Relaxed)");
    let harmless = [late, late, armed];
    Outcome::of(&scenarios)
        .mistakes("connection/deadline.rs", &scenarios, &harmless)
        .omissions("connection/deadline.rs", &scenarios, &[])
        .report("deadline");
}

/// Thresholds that belong together.
fn version(number: u32) -> Thresholds {
    Thresholds {
        call: number,
        reply: 2 * number,
    }
}

/// Limits after any number of changes.
fn changed(changes: u32) -> Limits {
    let limits = Limits::new(PlanLimits {
        thresholds: version(0),
        page_size: 4096,
        pages_per_segment: 16,
        max_segments: 4,
    });
    for number in 1..=changes {
        limits.change(version(number));
        assert_eq!(limits.get().thresholds, version(number));
    }
    assert_eq!(limits.get().page_size, 4096);
    limits
}

// XC-96, XC-101: no mix, no step back, and no limit on the number of changes.
const LIMITS: Scenario<Limits> = Scenario {
    name: "the limits change while calls are built",
    make: || changed(1000),
    threads: &[
        ("handler", |limits| {
            limits.change(version(1001));
            limits.change(version(2000));
        }),
        ("sender", |limits| {
            let mut last = 1000;
            for _ in 0..3 {
                let Thresholds { call, reply } = limits.get().thresholds;
                if reply != 2 * call || call < last {
                    fail("a call is built with limits that never held");
                }
                last = call;
            }
        }),
    ],
    check: |limits| {
        if limits.get().thresholds != version(2000) {
            fail("a change is lost");
        }
    },
};

#[test]
fn limits() {
    Outcome::of(&[&LIMITS])
        .omissions("client/limits.rs", &[&LIMITS], &[])
        .report("limits");
}
