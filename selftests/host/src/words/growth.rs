// SPDX-License-Identifier: GPL-2.0

//! The growth of a connection while a sender waits. `Growth` and `Waiters` are the module's own; the
//! rest stands for the sender, the allocations and sunrpc.
//!
//! A sender that waits is woken when buffers or registrations were added, or another attempt to
//! allocate them is queued; no request for more is lost; and no attempt is made again and again
//! while no sender waits.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};

use crate::{
    explorer::{fail, remembers, Explore, How, Outcome, Scenario},
    module::client::connection::{
        growth::{Grow, Growth, Kind, Made, Pause},
        waiters::{Returned, Shortage, Waiters},
    },
    stand_ins::{stock::Stock, work::DelayedWork, xprt::Xprt},
};

/// The outcome of an attempt to allocate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Nothing,
    /// For some only.
    Some,
    All,
}

/// Buffers, under the lock of the queue pair, or registrations, under the lock of their pool.
struct Resource {
    kind: Kind,
    shortage: Shortage,
    stock: Stock,
    /// The number that may still be allocated. Only the work item and the end of a run use it.
    unallocated: AtomicU32,
    is_made: AtomicBool,
    is_asked_for: AtomicBool,
}

impl Resource {
    fn new(kind: Kind, unallocated: u32, shortage: Shortage) -> Self {
        Self {
            kind,
            shortage,
            stock: Stock::new(),
            unallocated: AtomicU32::new(unallocated),
            is_made: AtomicBool::new(false),
            is_asked_for: AtomicBool::new(false),
        }
    }
}

/// A connection that grows.
struct World {
    growth: Growth,
    waiters: Waiters,
    xprt: Xprt,
    work: DelayedWork,
    buffers: Resource,
    mrs: Resource,
    /// The outcomes of the first attempts to allocate. Later ones succeed.
    memory: &'static [Memory],
    attempts: AtomicUsize,
    /// Set while a run of the work item has added something.
    has_grown: AtomicBool,
    is_swapping: bool,
    /// Set while the sender has no resources for its call: sunrpc waits.
    sleeps: AtomicBool,
}

impl Grow for World {
    #[track_caller]
    fn queue(&self, _pause: Pause) {
        if remembers() {
            self.work.enqueue();
        }
    }

    fn is_swapping(&self) -> bool {
        self.has_grown.store(false, SeqCst);
        self.is_swapping
    }

    /// Two mistakes do not look.
    fn has_waiter(&self) -> bool {
        let (assumes_none, assumes_one) = (!remembers(), !remembers());
        assumes_one || (!assumes_none && self.waiters.is_any(&self.xprt))
    }

    /// `Qp::order`, `Qp::add`; `MrPool::grow`. One mistake makes no registrations after buffers,
    /// another takes a failure for a success.
    fn make(&self, kind: Kind) -> (bool, Made) {
        let of = self.resource(kind);
        let makes_both = remembers();
        if of.unallocated.load(SeqCst) == 0 || (self.has_grown.load(SeqCst) && !makes_both) {
            return (false, Made::Limit);
        }
        let attempt = self.attempts.fetch_add(1, SeqCst);
        let memory = self.memory.get(attempt).copied().unwrap_or(Memory::All);
        if memory != Memory::Nothing {
            of.unallocated.fetch_sub(1, SeqCst);
            of.is_made.store(true, SeqCst);
            self.has_grown.store(true, SeqCst);
            of.stock.add();
        }
        let notices = remembers();
        let made = match memory {
            Memory::Nothing | Memory::Some if notices => Made::NoMemory,
            _ => Made::All,
        };
        (memory != Memory::Nothing, made)
    }

    #[track_caller]
    fn wake(&self) {
        if remembers() {
            self.waiters.wake(&self.xprt, Returned::Growth);
        }
    }
}

impl World {
    /// A connection that may allocate `most` buffers and as many registrations. Senders lack
    /// `shortage` without buffers.
    fn of(most: u32, memory: &'static [Memory], shortage: Shortage) -> Self {
        let world = Self {
            growth: Growth::new(0),
            waiters: Waiters::new(),
            xprt: Xprt::new(),
            work: DelayedWork::new(),
            buffers: Resource::new(Kind::Buffers, most, shortage),
            mrs: Resource::new(Kind::Registrations, most, Shortage::Registrations),
            memory,
            attempts: AtomicUsize::new(0),
            has_grown: AtomicBool::new(false),
            is_swapping: false,
            sleeps: AtomicBool::new(false),
        };
        // Uses each word once.
        world.growth.run(&world, 0);
        assert!(world.growth.may_ask(0, 0) && !world.waiters.is_short());
        world
    }

    fn new(most: u32, memory: &'static [Memory]) -> Self {
        Self::of(most, memory, Shortage::Sends)
    }

    fn resource(&self, kind: Kind) -> &Resource {
        match kind {
            Kind::Buffers => &self.buffers,
            Kind::Registrations => &self.mrs,
        }
    }

    fn ask(&self, of: &Resource) {
        of.is_asked_for.store(true, SeqCst);
        self.growth.ask(self, of.kind);
    }

    fn grow_buffers(&self) {
        self.ask(&self.buffers);
    }

    /// `Sender::wait_for`, `Sender::build_again`; `Sender::not_sent`.
    fn find(&self, of: &Resource) -> bool {
        let found = of.stock.take() || {
            let retry = || remembers() && of.stock.take();
            let found = (self.waiters).wait(&self.xprt, of.shortage, || self.ask(of), retry);
            if found {
                self.waiters.end(&self.xprt, of.shortage);
            } else if of.shortage != Shortage::Sends {
                self.xprt.give_credit_back(|| self.waiters.is_short());
            }
            found
        };
        self.sleeps.store(!found, SeqCst);
        found
    }

    fn find_buffer(&self) {
        self.find(&self.buffers);
    }

    /// For two calls: the second one looks only if the first has found a buffer or was woken.
    fn find_two_buffers(&self) {
        if self.find(&self.buffers) || !self.xprt.has_senders_wait() {
            self.find(&self.buffers);
        }
    }

    fn find_mrs(&self) {
        self.find(&self.mrs);
    }

    /// Runs the work item if it is queued.
    fn run(&self) {
        if self.work.dequeue() {
            self.growth.run(self, 0);
        }
    }

    /// Runs the item, as often as it is queued by then, at most twice: the end of a run does the
    /// rest.
    fn worker(&self) {
        self.run();
        self.run();
    }

    /// Runs the attempts that are queued. Then no sender waits, and no request was lost.
    fn check(&self) {
        for _ in 0..3 {
            self.run();
        }
        if self.work.dequeue() {
            fail("attempts are made again and again although no sender waits");
        }
        self.xprt.check(self.sleeps.load(SeqCst));
        // A request for the sake of speed alone is tried once.
        let lasts = self.memory.is_empty() && !self.is_swapping;
        for of in [&self.buffers, &self.mrs] {
            if lasts && of.is_asked_for.load(SeqCst) && !of.is_made.load(SeqCst) {
                fail("a request for more is lost");
            }
        }
    }
}

/// A sender that requests a buffer for the sake of speed, and then has to wait for it.
const SENDER: (&str, fn(&World)) = ("sender", |world| {
    world.grow_buffers();
    world.find_buffer();
});

const WORKER: (&str, fn(&World)) = ("worker", World::worker);

const BUFFER: Scenario<World> = Scenario {
    name: "a sender waits for a buffer that is allocated",
    make: || World::new(1, &[]),
    threads: &[SENDER, WORKER],
    check: World::check,
};

const NO_MEMORY: Scenario<World> = Scenario {
    name: "a sender waits for a buffer, and there is no memory at first",
    make: || World::new(1, &[Memory::Nothing, Memory::Nothing]),
    threads: &[SENDER, WORKER],
    check: World::check,
};

const TWO_BUFFERS: Scenario<World> = Scenario {
    name: "a sender uses the buffer that was allocated, and waits for another",
    make: || World::new(2, &[]),
    threads: &[("sender", World::find_two_buffers), WORKER],
    check: World::check,
};

/// As in the next scenario, `retry` may meet a sender that waits for the second time, and sets the
/// flag behind it. Were that a plain store, it would end the release by the sender, and the next
/// attempt might miss that the sender waits.
const SOME_MEMORY: Scenario<World> = Scenario {
    name: "a sender waits for two buffers, and there is memory for one",
    make: || World::new(2, &[Memory::Some, Memory::Nothing]),
    threads: &[("sender", World::find_two_buffers), WORKER],
    check: World::check,
};

const WOKEN: Scenario<World> = Scenario {
    name: "a completion wakes a sender while there is no memory",
    make: || World::new(1, &[Memory::Nothing, Memory::Nothing]),
    threads: &[
        ("sender", |world| {
            if !world.find(&world.buffers) && !world.xprt.has_senders_wait() {
                world.find(&world.buffers);
            }
        }),
        // `Connection::sent`
        ("handler", |world| {
            world.waiters.wake(&world.xprt, Returned::Sends)
        }),
        WORKER,
    ],
    check: World::check,
};

const SPEED: Scenario<World> = Scenario {
    name: "buffers for the sake of speed, and there is no memory",
    make: || World::new(1, &[Memory::Nothing; 9]),
    threads: &[("sender", World::grow_buffers), WORKER],
    check: World::check,
};

const SWAPPING: Scenario<World> = Scenario {
    name: "a sender waits for a buffer while memory is short",
    make: || World {
        is_swapping: true,
        ..World::new(1, &[])
    },
    threads: &[SENDER, WORKER],
    check: World::check,
};

const REGISTRATIONS: Scenario<World> = Scenario {
    name: "a sender waits for registrations, and the reverse direction for buffers",
    make: || World::new(1, &[]),
    threads: &[
        ("sender", World::find_mrs),
        ("reverse direction", World::grow_buffers),
        WORKER,
    ],
    check: World::check,
};

const NO_REGISTRATIONS: Scenario<World> = Scenario {
    name: "a sender waits for registrations, and there is no memory at first",
    make: || World::new(1, &[Memory::Nothing, Memory::Nothing]),
    ..REGISTRATIONS
};

/// A connection that may allocate `most` Receives.
fn receives(most: u32, memory: &'static [Memory]) -> World {
    World::of(most, memory, Shortage::Receives)
}

const SOME_RECEIVES: Scenario<World> = Scenario {
    name: "a sender waits for two Receives, and there is memory for one",
    make: || receives(2, &[Memory::Some, Memory::Nothing]),
    ..SOME_MEMORY
};

const WOKEN_BY_REPLY: Scenario<World> = Scenario {
    name: "a reply wakes a sender while there is no memory",
    make: || receives(1, &[Memory::Nothing]),
    threads: &[
        ("sender", World::find_buffer),
        // `Connection::post_receives`
        ("handler", |world| {
            world.waiters.wake(&world.xprt, Returned::Receives)
        }),
        WORKER,
    ],
    check: World::check,
};

#[test]
fn growth() {
    let scenarios: [&dyn Explore; 11] = [
        &BUFFER,
        &NO_MEMORY,
        &TWO_BUFFERS,
        &SOME_MEMORY,
        &WOKEN,
        &SPEED,
        &SWAPPING,
        &REGISTRATIONS,
        &NO_REGISTRATIONS,
        &SOME_RECEIVES,
        &WOKEN_BY_REPLY,
    ];
    let after_buffers = (How::Relaxed, "// after the buffers");
    let growth = [
        // Either of the two orders what follows, with the lock of the buffers: see below.
        after_buffers,
        // No sender here requests buffers for the sake of speed after a failure.
        (How::Late, "self.refused.store(now, Relaxed)"),
    ];
    let left_out = [
        (How::Forgotten, "self.refused.store(now, Relaxed)"),
        // A flag that stays set: the next attempt makes more than was requested.
        (How::Forgotten, "if self.wants(kind).xchg(false, Acquire) {"),
        (How::Forgotten, "// after the buffers"),
    ];
    Outcome::of(&scenarios)
        .mistakes("words/growth.rs", &scenarios, &[])
        .mistakes("connection/growth.rs", &scenarios, &growth)
        .omissions("connection/growth.rs", &scenarios, &left_out)
        .together(
            &[after_buffers, (How::Relaxed, "// of a waker")],
            &scenarios,
        )
        .report("growth");
}
