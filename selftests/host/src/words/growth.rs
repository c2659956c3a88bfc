// SPDX-License-Identifier: GPL-2.0

//! The growth of a connection while a sender waits, modelled after `client/connection/growth.rs`
//! and `client/send.rs`. Each function names its original.
//!
//! A sender that waits is woken when buffers or registrations were added, or another attempt to
//! allocate them is queued; no request for more is lost; and no attempt is made again and again
//! while no sender waits.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};

use crate::{
    explorer::{
        atomic::{smp_mb, Acquire, Atomic, Relaxed, Release},
        fail, remembers, Explore, How, Outcome, Scenario,
    },
    module::client::connection::shortage::Shortage,
    stand_ins::{connection::Connection, stock::Stock, work::DelayedWork, xprt::Xprt},
};

/// The outcome of an attempt to allocate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// No memory.
    Nothing,
    /// Memory for some only.
    Some,
    All,
}

/// Buffers, under the lock of the queue pair, or registrations, under the lock of their pool; and
/// the flag that requests more.
struct Kind {
    wants: Atomic<bool>,
    /// The note of a sender that waits for replies. Without one it waits for Sends.
    shortage: Option<Shortage>,
    stock: Stock,
    /// The number that may still be allocated. Only the work item and the end of a run use it.
    unallocated: AtomicU32,
    is_made: AtomicBool,
    is_asked_for: AtomicBool,
}

impl Kind {
    fn new(unallocated: u32, shortage: Option<Shortage>) -> Self {
        let wants = Atomic::new(false);
        wants.load(Relaxed);
        Self {
            wants,
            shortage,
            stock: Stock::new(),
            unallocated: AtomicU32::new(unallocated),
            is_made: AtomicBool::new(false),
            is_asked_for: AtomicBool::new(false),
        }
    }

    /// `Qp::add`, `MrPool::give_back`.
    fn add(&self) {
        self.unallocated.fetch_sub(1, SeqCst);
        self.is_made.store(true, SeqCst);
        self.stock.add();
    }

    /// `Sender::look_again`, `MrPool::take`.
    fn take(&self) -> bool {
        self.stock.take()
    }

    fn may_have_more(&self) -> bool {
        self.unallocated.load(SeqCst) != 0
    }
}

/// A connection that grows.
struct Growth {
    connection: Connection,
    work: DelayedWork,
    buffers: Kind,
    mrs: Kind,
    /// The outcomes of the first attempts to allocate. Later ones succeed.
    memory: &'static [Made],
    attempts: AtomicUsize,
    is_swapping: bool,
    /// Set while the sender has no resources for its call: sunrpc waits.
    sleeps: AtomicBool,
}

impl Growth {
    /// A connection that may allocate `most` buffers and as many registrations.
    fn new(most: u32, memory: &'static [Made]) -> Self {
        Self {
            connection: Connection::new(),
            work: DelayedWork::new(),
            buffers: Kind::new(most, None),
            mrs: Kind::new(most, Some(Shortage::Registrations)),
            memory,
            attempts: AtomicUsize::new(0),
            is_swapping: false,
            sleeps: AtomicBool::new(false),
        }
    }

    // The sender.

    /// `Connection::grow_buffers`, `Connection::grow_pool`.
    fn ask(&self, kind: &Kind) {
        kind.is_asked_for.store(true, SeqCst);
        kind.wants.store(true, Release);
        if remembers() {
            // `Connection::grow`
            self.work.enqueue();
        }
    }

    fn grow_buffers(&self) {
        self.ask(&self.buffers);
    }

    fn xprt(&self) -> &Xprt {
        &self.connection.shared.xprt
    }

    /// `Connection::has_waiter`
    fn has_waiter(&self) -> bool {
        self.xprt().is_space_wanted() || self.connection.is_short()
    }

    /// The end of `Connection::run`.
    fn wake(&self) {
        self.xprt().space_available();
        self.connection.resources_available();
    }

    /// `Sender::wait_for`, `Sender::build_again`.
    fn find(&self, kind: &Kind) -> bool {
        let found = kind.take() || {
            if remembers() {
                match kind.shortage {
                    Some(shortage) => self.connection.note_shortage(shortage),
                    None => self.xprt().wait_for_buffer_space(),
                }
            }
            if remembers() {
                self.ask(kind);
            }
            smp_mb(); // of a sender that waits
            let looks = remembers();
            let found = looks && kind.take();
            if found && remembers() {
                match kind.shortage {
                    Some(_) => self.connection.resources_available(),
                    None => self.xprt().space_available(),
                }
            }
            if !found && kind.shortage.is_some() {
                // `Connection::not_sent`
                self.xprt().give_credit_back(|| self.connection.is_short());
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
        if self.find(&self.buffers) || !self.xprt().has_senders_wait() {
            self.find(&self.buffers);
        }
    }

    /// `Sender::build_again`.
    fn find_mrs(&self) {
        self.find(&self.mrs);
    }

    // The work item.

    /// `Connection::retry`. One mistake does not look if a sender waits.
    fn retry(&self, kind: &Kind) {
        let looks = remembers();
        if !looks || self.has_waiter() {
            if remembers() {
                kind.wants.xchg(true, Relaxed);
            }
            if remembers() {
                self.work.enqueue();
            }
        }
    }

    /// An attempt to allocate one more.
    fn allocate(&self, kind: &Kind) -> Made {
        let attempt = self.attempts.fetch_add(1, SeqCst);
        let made = self.memory.get(attempt).copied().unwrap_or(Made::All);
        if made != Made::Nothing {
            kind.add();
        }
        made
    }

    /// `Connection::make_mrs`.
    fn make_mrs(&self) -> bool {
        // `MrPool::grow` makes none then.
        if !self.mrs.may_have_more() {
            return false;
        }
        let made = self.allocate(&self.mrs);
        if made != Made::All && remembers() {
            self.retry(&self.mrs);
        }
        made != Made::Nothing
    }

    /// `Connection::make_buffers`. One mistake clears the flag without memory as well.
    fn make_buffers(&self) -> bool {
        // `Qp::order` returns `None` then.
        if !self.buffers.may_have_more() {
            return false;
        }
        let made = self.allocate(&self.buffers);
        if made != Made::All {
            if remembers() {
                self.retry(&self.buffers);
            }
            let leaves_it = remembers();
            if !leaves_it {
                self.buffers.wants.xchg(false, Acquire);
            }
        } else {
            self.buffers.wants.xchg(false, Acquire); // after the buffers
        }
        made != Made::Nothing
    }

    /// `Connection::run`. One mistake clears the flag of the buffers late, another makes no
    /// registrations if it has made buffers.
    fn run(&self) {
        let looks = remembers();
        if self.is_swapping && !(looks && self.has_waiter()) {
            return;
        }
        let clears_first = remembers();
        let wants_buffers = if clears_first {
            self.buffers.wants.xchg(false, Acquire)
        } else {
            self.buffers.wants.load(Acquire)
        };
        let mut grown = wants_buffers && self.make_buffers();
        let makes_both = remembers();
        if self.mrs.wants.xchg(false, Acquire) && (makes_both || !grown) {
            grown |= self.make_mrs();
        }
        if grown {
            smp_mb(); // of the worker
            if remembers() {
                self.wake();
            }
        }
        if wants_buffers && !clears_first {
            self.buffers.wants.store(false, Relaxed);
        }
    }

    /// Runs the item, as often as it is queued by then, at most twice: the end of a run does the
    /// rest.
    fn worker(&self) {
        for _ in 0..2 {
            if self.work.dequeue() {
                self.run();
            }
        }
    }

    /// Runs the attempts that are queued. Then no sender waits, and no request was lost.
    fn check(&self) {
        for _ in 0..3 {
            if self.work.dequeue() {
                self.run();
            }
        }
        if self.work.dequeue() {
            fail("attempts are made again and again although no sender waits");
        }
        if self.xprt().has_senders_wait() {
            fail("sunrpc waits, and no attempt is queued");
        }
        if self.sleeps.load(SeqCst) && !self.xprt().has_woken() {
            fail("a sender waits without sunrpc");
        }
        // A request for the sake of speed alone is tried once.
        let lasts = self.memory.is_empty() && !self.is_swapping;
        for kind in [&self.buffers, &self.mrs] {
            if lasts && kind.is_asked_for.load(SeqCst) && !kind.is_made.load(SeqCst) {
                fail("a request for more is lost");
            }
        }
    }
}

/// A sender that requests a buffer for the sake of speed, and then has to wait for it.
const SENDER: (&str, fn(&Growth)) = ("sender", |world| {
    world.grow_buffers();
    world.find_buffer();
});

const WORKER: (&str, fn(&Growth)) = ("worker", Growth::worker);

const BUFFER: Scenario<Growth> = Scenario {
    name: "a sender waits for a buffer that is allocated",
    make: || Growth::new(1, &[]),
    threads: &[SENDER, WORKER],
    check: Growth::check,
};

const NO_MEMORY: Scenario<Growth> = Scenario {
    name: "a sender waits for a buffer, and there is no memory at first",
    make: || Growth::new(1, &[Made::Nothing, Made::Nothing]),
    threads: &[SENDER, WORKER],
    check: Growth::check,
};

const TWO_BUFFERS: Scenario<Growth> = Scenario {
    name: "a sender uses the buffer that was allocated, and waits for another",
    make: || Growth::new(2, &[]),
    threads: &[("sender", Growth::find_two_buffers), WORKER],
    check: Growth::check,
};

/// As in the next scenario, `retry` may meet a sender that waits for the second time, and sets the
/// flag behind it. Were that a plain store, it would end the release by the sender, and the next
/// attempt might miss that the sender waits.
const SOME_MEMORY: Scenario<Growth> = Scenario {
    name: "a sender waits for two buffers, and there is memory for one",
    make: || Growth::new(2, &[Made::Some, Made::Nothing]),
    threads: &[("sender", Growth::find_two_buffers), WORKER],
    check: Growth::check,
};

const WOKEN: Scenario<Growth> = Scenario {
    name: "a completion wakes a sender while there is no memory",
    make: || Growth::new(1, &[Made::Nothing, Made::Nothing]),
    threads: &[
        ("sender", |world| {
            if !world.find(&world.buffers) && !world.xprt().has_senders_wait() {
                world.find(&world.buffers);
            }
        }),
        // `Connection::sent`
        ("handler", |world| world.xprt().space_available()),
        WORKER,
    ],
    check: Growth::check,
};

const SPEED: Scenario<Growth> = Scenario {
    name: "buffers for the sake of speed, and there is no memory",
    make: || Growth::new(1, &[Made::Nothing; 9]),
    threads: &[("sender", Growth::grow_buffers), WORKER],
    check: Growth::check,
};

const SWAPPING: Scenario<Growth> = Scenario {
    name: "a sender waits for a buffer while memory is short",
    make: || Growth {
        is_swapping: true,
        ..Growth::new(1, &[])
    },
    threads: &[SENDER, WORKER],
    check: Growth::check,
};

const REGISTRATIONS: Scenario<Growth> = Scenario {
    name: "a sender waits for registrations, and the reverse direction for buffers",
    make: || Growth::new(1, &[]),
    threads: &[
        ("sender", Growth::find_mrs),
        ("reverse direction", Growth::grow_buffers),
        WORKER,
    ],
    check: Growth::check,
};

const NO_REGISTRATIONS: Scenario<Growth> = Scenario {
    name: "a sender waits for registrations, and there is no memory at first",
    make: || Growth::new(1, &[Made::Nothing, Made::Nothing]),
    ..REGISTRATIONS
};

/// A connection that may allocate `most` Receives.
fn receives(most: u32, memory: &'static [Made]) -> Growth {
    Growth {
        buffers: Kind::new(most, Some(Shortage::Receives)),
        ..Growth::new(most, memory)
    }
}

const SOME_RECEIVES: Scenario<Growth> = Scenario {
    name: "a sender waits for two Receives, and there is memory for one",
    make: || receives(2, &[Made::Some, Made::Nothing]),
    ..SOME_MEMORY
};

const WOKEN_BY_REPLY: Scenario<Growth> = Scenario {
    name: "a reply wakes a sender while there is no memory",
    make: || receives(1, &[Made::Nothing]),
    threads: &[
        ("sender", Growth::find_buffer),
        // `Connection::post_receives`
        ("handler", |world| world.connection.resources_available()),
        WORKER,
    ],
    check: Growth::check,
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
    let harmless = [
        // The sender has queued the work item before, which is a barrier, too.
        (How::Relaxed, "// of a sender that waits"),
        // Either of the two orders what follows, with the lock of the buffers: see below.
        (How::Relaxed, "// after the buffers"),
        (How::Relaxed, "// of the worker"),
    ];
    Outcome::of(&scenarios)
        .mistakes("words/growth.rs", &scenarios, &harmless)
        .together(
            &[
                (How::Relaxed, "// after the buffers"),
                (How::Relaxed, "// of the worker"),
            ],
            &scenarios,
        )
        .report("growth");
}
