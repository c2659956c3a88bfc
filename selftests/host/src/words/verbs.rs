// SPDX-License-Identifier: GPL-2.0

//! The words that the two halves of a queue pair share, and the sender that waits for room.

use std::sync::{
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    Mutex,
};

use super::{
    buffer::{RecvBuffer, RecvStack},
    counters::Counters,
    mr::kept::Kept,
};
use crate::{
    explorer::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        explore, fail, remembers, Explore, How, Lock, Outcome, Plain, Scenario,
    },
    module::client::connection::{
        receives::Receives as Allowed,
        waiters::{Returned, Shortage, Waiters},
    },
    stand_ins::{
        chain::Invalidated, list::MrList, pool::MrPool, stock::Stock, sync::Arc, xprt::Xprt,
    },
};

/// Values that the threads of a scenario take, each once. They are alike: it does not matter which
/// thread takes which.
struct Given<T>(Mutex<Vec<T>>);

impl<T> Given<T> {
    fn new<const N: usize>(given: [T; N]) -> Self {
        Self(Mutex::new(given.into()))
    }

    fn take(&self) -> T {
        self.0
            .lock()
            .unwrap()
            .pop()
            .expect("one for each that takes")
    }
}

// Registrations that a call leaves for the next one.

struct Registrations {
    kept: Kept,
    lists: Given<MrList<Invalidated>>,
    pool: Arc<MrPool>,
    taken: AtomicUsize,
}

impl Registrations {
    fn new() -> Self {
        let kept = Kept::new();
        assert!(kept.take().is_none() && kept.count() == 0);
        let pool = Arc::new(MrPool::default());
        let lists = Given::new([MrList::of(&pool), MrList::of(&pool)]);
        Self {
            kept,
            lists,
            pool,
            taken: AtomicUsize::new(0),
        }
    }

    fn put(&self) {
        self.kept.put(self.lists.take());
    }

    fn take(&self) {
        if let Some(list) = self.kept.take() {
            // Uses them.
            let _ = list.into_chain();
            self.taken.fetch_add(1, SeqCst);
        }
    }

    fn check(&self) {
        let kept = usize::from(self.kept.take().is_some_and(|list| {
            std::mem::forget(list);
            true
        }));
        if self.pool.reclaimed() + self.taken.load(SeqCst) + kept != 2 {
            fail("registrations are lost, or have two owners");
        }
    }
}

const REGISTRATIONS: Scenario<Registrations> = Scenario {
    name: "two calls leave registrations, and two take them",
    make: Registrations::new,
    threads: &[
        ("replied", Registrations::put),
        ("replied", Registrations::put),
        ("sender", Registrations::take),
        ("teardown", Registrations::take),
    ],
    check: Registrations::check,
};

// Receives that come back.

struct Receives {
    stack: RecvStack,
    bufs: Given<RecvBuffer>,
    taken: AtomicUsize,
}

impl Receives {
    fn new() -> Self {
        let stack = RecvStack::new();
        assert_eq!(stack.take().count(), 0);
        Self {
            stack,
            bufs: Given::new([RecvBuffer::new(), RecvBuffer::new(), RecvBuffer::new()]),
            taken: AtomicUsize::new(0),
        }
    }

    fn push(&self) {
        self.stack.push(self.bufs.take());
    }

    fn take(&self) {
        let count = self.stack.take().count() as usize;
        self.taken.fetch_add(count, SeqCst);
    }

    fn check(&self) {
        if self.taken.load(SeqCst) + self.stack.take().count() as usize != 3 {
            fail("Receives are lost, or have two owners");
        }
    }
}

const RECEIVES: Scenario<Receives> = Scenario {
    name: "Receives come back, and are taken twice",
    make: Receives::new,
    threads: &[
        ("handler", |world| {
            world.push();
            world.push();
        }),
        ("another", Receives::push),
        ("poster", Receives::take),
        ("sender", Receives::take),
    ],
    check: Receives::check,
};

// Numbers.

struct Numbers {
    counters: Counters,
    allowed: Allowed,
    bufs: Given<RecvBuffer>,
    gate: Lock,
    /// The device's way from the poster to the handler.
    device: Atomic<u32>,
    /// The buffer of a Send, or the Receives that are posted.
    memory: Plain,
    /// Spare messages less their completions.
    spares: AtomicUsize,
}

impl Numbers {
    fn new() -> Self {
        let counters = Counters::new();
        counters.set_batch(2);
        counters.set_posted(0);
        let untouched = [
            counters.completed(),
            counters.held(),
            counters.take_held().count(),
            counters.is_batch_held().into(),
            counters.is_spare_posted().into(),
            counters.is_drained().into(),
        ];
        assert_eq!(untouched, [0; 6]);
        let allowed = Allowed::new();
        assert!(!allowed.allow(0));
        let device = Atomic::new(0);
        device.load(Relaxed);
        Self {
            counters,
            allowed,
            bufs: Given::new([RecvBuffer::new(), RecvBuffer::new()]),
            gate: Lock::new(),
            device,
            memory: Plain::new("the buffer"),
            spares: AtomicUsize::new(0),
        }
    }

    fn hold(&self) {
        self.counters.hold(self.bufs.take());
    }

    /// `SharedRecvQueue::recycle`, and what its caller does.
    fn take_back(&self) {
        self.counters.hold_shared(self.bufs.take());
        if self.counters.is_batch_held() {
            self.post_held();
        }
    }

    /// `Connection::post_held`. Returns the number of Receives.
    fn post_held(&self) -> u32 {
        self.gate.with(|| {
            let count = self.counters.take_held().count();
            if self.counters.held() > 2 {
                fail("more Receives are posted than came back");
            }
            if count != 0 {
                self.memory.write();
                self.allowed.add(count);
            }
            count
        })
    }

    /// `SendQueue::post`, and the next `SendQueue::reclaim`.
    fn send(&self) {
        self.memory.write();
        self.counters.set_posted(1);
        self.device.store(1, Release);
        if self.counters.completed() == 1 {
            self.memory.write();
        }
    }

    /// The completion of that Send.
    fn sent(&self) {
        if self.device.load(Acquire) == 1 {
            self.memory.read();
            self.counters.set_completed(1);
        }
    }

    /// `Qp::send_spare`.
    fn send_spare(&self) {
        if !self.counters.is_spare_posted() {
            self.memory.write();
            self.spares.fetch_add(1, SeqCst);
            self.counters.set_spare_posted(true);
            self.device.store(1, Release);
        }
    }
}

const REPOSTED: Scenario<Numbers> = Scenario {
    name: "Receives are posted again, for a call",
    make: Numbers::new,
    threads: &[
        ("handler", |world| {
            world.hold();
            world.hold();
        }),
        ("poster", |world| {
            world.post_held();
        }),
        ("sender", |world| {
            if world.allowed.allow(0) {
                world.memory.read();
            }
        }),
    ],
    check: |world| {
        world.post_held();
        let counts_both = world.allowed.allow(1) && !world.allowed.allow(2);
        if !counts_both || world.counters.held() != 0 {
            fail("Receives are lost");
        }
        // A message that is no reply.
        world.allowed.remove(1);
        if world.allowed.allow(1) || !world.allowed.allow(0) {
            fail("a Receive that is used up counts");
        }
    },
};

/// A queue pair whose Receives any thread takes back.
const SHARED: Scenario<Numbers> = Scenario {
    name: "two threads take Receives back",
    make: Numbers::new,
    threads: &[
        ("thread", Numbers::take_back),
        ("thread", Numbers::take_back),
    ],
    check: |world| {
        if world.counters.take_held().count() > 1 {
            fail("a batch of Receives came back, and none is posted");
        }
    },
};

const DRAINED: Scenario<Numbers> = Scenario {
    name: "a Receive comes back when the queue pair is drained",
    make: Numbers::new,
    threads: &[
        ("thread", |world| {
            world.counters.hold_shared(world.bufs.take());
        }),
        ("teardown", |world| world.counters.set_drained()),
    ],
    check: |world| {
        if world.counters.take_held().count() != 0 {
            fail("a Receive keeps the device");
        }
    },
};

const SENDS: Scenario<Numbers> = Scenario {
    name: "a buffer is used again when its Send is complete",
    make: Numbers::new,
    threads: &[
        ("sender", Numbers::send),
        ("handler", Numbers::sent),
        ("reader", |world| {
            if world.counters.outstanding_sends() > 1 {
                fail("more Sends are complete than were posted");
            }
        }),
    ],
    check: |_| (),
};

const SPARE: Scenario<Numbers> = Scenario {
    name: "the spare message is sent twice",
    make: Numbers::new,
    threads: &[
        ("gate", |world| {
            world.send_spare();
            world.send_spare();
        }),
        ("handler", |world| {
            if world.device.load(Acquire) == 1 {
                world.memory.read();
                world.spares.fetch_sub(1, SeqCst);
                world.counters.set_spare_posted(false);
            }
        }),
    ],
    check: |world| {
        let is_posted = world.spares.load(SeqCst) != 0;
        if world.counters.is_spare_posted() != is_posted {
            fail("the spare message counts as posted, and is not");
        }
    },
};

// A sender that waits for room.

struct Space {
    waiters: Waiters,
    xprt: Xprt,
    numbers: Numbers,
    registrations: Registrations,
    pool: Stock,
    /// Set while the sender has nothing for its call.
    sleeps: AtomicBool,
}

impl Space {
    fn new() -> Self {
        let waiters = Waiters::new();
        assert!(!waiters.is_short());
        Self {
            waiters,
            xprt: Xprt::new(),
            numbers: Numbers::new(),
            registrations: Registrations::new(),
            pool: Stock::new(),
            sleeps: AtomicBool::new(false),
        }
    }

    /// `Sender::wait_for`, `Sender::build_again`; `Sender::not_sent`. One mistake does not look at
    /// the mark again.
    fn wait_unless(&self, shortage: Shortage, retry: impl FnOnce() -> bool) {
        let found = self.waiters.wait(&self.xprt, shortage, || (), retry);
        self.sleeps.store(!found, SeqCst);
        if found {
            self.waiters.end(&self.xprt, shortage);
        } else if shortage != Shortage::Sends {
            let looks = remembers();
            self.xprt
                .give_credit_back(|| !looks || self.waiters.is_short());
        }
    }

    /// `Connection::sent`, after the queue has counted it.
    fn sent(&self) {
        self.numbers.counters.set_completed(1);
        self.waiters.wake(&self.xprt, Returned::Sends);
    }

    /// `Connection::recycle`, `Connection::post_receives`.
    fn recycle(&self) {
        self.numbers.hold();
        if self.numbers.counters.is_batch_held() || self.waiters.is_short() {
            self.numbers.post_held();
            self.waiters.wake(&self.xprt, Returned::Receives);
        }
    }

    /// `Connection::handle_invalidated`, when a task waits for it.
    fn invalidated(&self) {
        self.pool.add();
        self.waiters.replied(&self.xprt);
    }

    fn check(&self) {
        self.xprt.check(self.sleeps.load(SeqCst));
    }
}

const SEND_SPACE: Scenario<Space> = Scenario {
    name: "a sender waits for a Send",
    make: Space::new,
    threads: &[
        ("sender", |world| {
            world.wait_unless(Shortage::Sends, || world.numbers.counters.completed() == 1);
        }),
        ("handler", Space::sent),
    ],
    check: Space::check,
};

const RECEIVE_SPACE: Scenario<Space> = Scenario {
    name: "a sender waits for a Receive",
    make: Space::new,
    threads: &[
        ("sender", |world| {
            world.wait_unless(Shortage::Receives, || {
                world.numbers.post_held();
                world.numbers.allowed.allow(0)
            });
        }),
        ("handler", Space::recycle),
    ],
    check: Space::check,
};

const REGISTRATION_SPACE: Scenario<Space> = Scenario {
    name: "a sender waits for registrations",
    make: Space::new,
    threads: &[
        ("sender", |world| {
            world.wait_unless(Shortage::Registrations, || {
                world.registrations.kept.take().is_some()
            });
        }),
        ("handler", |world| {
            // `Connection::reply`.
            world.registrations.put();
            world.recycle();
        }),
    ],
    check: Space::check,
};

const INVALIDATED_SPACE: Scenario<Space> = Scenario {
    name: "a sender waits for a registration that is invalidated",
    make: Space::new,
    threads: &[
        ("sender", |world| {
            world.wait_unless(Shortage::Registrations, || world.pool.take());
        }),
        ("handler", Space::invalidated),
    ],
    check: Space::check,
};

/// A sender that waits for a Receive, when Receives are posted one at a time.
const RECEIVE_POSTED: Scenario<Space> = Scenario {
    name: "a sender waits for a Receive that is posted",
    make: || {
        let world = Space::new();
        world.numbers.counters.set_batch(1);
        world
    },
    ..RECEIVE_SPACE
};

#[test]
fn kept_registrations() {
    let scenarios: [&dyn Explore; 2] = [&REGISTRATIONS, &REGISTRATION_SPACE];
    let harmless = [
        // Only about right.
        (How::Late, "self.count.store(mrs.count(), Relaxed)"),
        (How::Late, "self.count.store(0, Relaxed)"),
        // The Receive of the reply is recycled next, which is a barrier, too.
        (How::NoBarrier, "self.head.xchg(head.as_ptr(), Full)"),
        // A sender that waits has had its barrier.
        (How::NoBarrier, "self.head.xchg(null_mut(), Full)"),
    ];
    explore(
        "kept registrations",
        "verbs/mr/kept.rs",
        &scenarios,
        &harmless,
    );
}

#[test]
fn stack() {
    let scenarios: [&dyn Explore; 2] = [&RECEIVES, &RECEIVE_SPACE];
    let harmless = [
        // A sender that waits takes all, whose place in the order of exchanges is before or after.
        (How::NoBarrier, "self.0.cmpxchg(first, node, Full)"),
    ];
    explore("stack of Receives", "verbs/stack.rs", &scenarios, &harmless);
}

#[test]
fn counters() {
    let scenarios: [&dyn Explore; 7] = [
        &REPOSTED,
        &SHARED,
        &DRAINED,
        &SENDS,
        &SPARE,
        &SEND_SPACE,
        &RECEIVE_SPACE,
    ];
    let harmless = [
        // Nothing but the holder of the gate's lock needs the exact number.
        (How::Late, "reposted.store("),
        // One thread sets it.
        (How::Torn, "drained.xchg(true, Full)"),
    ];
    explore("counters", "verbs/counters.rs", &scenarios, &harmless);
}

// V1-27
#[test]
fn allowed() {
    let scenarios: [&dyn Explore; 2] = [&REPOSTED, &RECEIVE_SPACE];
    explore(
        "Receives for replies",
        "connection/receives.rs",
        &scenarios,
        &[],
    );
}

#[test]
fn space() {
    let scenarios: [&dyn Explore; 5] = [
        &SEND_SPACE,
        &RECEIVE_SPACE,
        &RECEIVE_POSTED,
        &REGISTRATION_SPACE,
        &INVALIDATED_SPACE,
    ];
    Outcome::of(&scenarios)
        .mistakes("words/verbs.rs", &scenarios, &[])
        .mistakes(
            "connection/waiters.rs",
            &scenarios,
            // It still comes before the end of the section that ends the wait.
            &[(How::Late, "self.short.store(0, Relaxed)")],
        )
        .omissions("connection/waiters.rs", &scenarios, &[])
        .everywhere(How::NoBarrier, &scenarios)
        .report("sender that waits");
}
