// SPDX-License-Identifier: GPL-2.0

//! The space that a connection of a client has for more calls. `Space` is the module's own; the rest
//! stands for sunrpc, the completion handler and the threads that send.
//!
//! A call that waits is given to a thread if there is space, and a message that waits is posted if
//! there is room.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use crate::{
    explorer::{fail, remembers, Explore, Lock, Outcome, Scenario},
    module::server::connection::space::{Space, MANY},
    stand_ins::{completions::Completions, svc_xprt::SvcXprt},
};

/// A connection with one call that comes, and messages that wait.
struct World {
    space: Space,
    xprt: SvcXprt,
    is_known: AtomicBool,
    /// The lock of the outbox, and the messages that wait under it.
    outbox: Lock,
    messages: AtomicU32,
    sends: Completions,
}

impl World {
    /// A connection whose client knows that it is accepted, with `messages` that wait.
    fn with(messages: u32) -> Self {
        let world = Self::unknown();
        world.establish();
        world.space.wait(messages);
        world.messages.store(messages, SeqCst);
        world
    }

    /// A connection whose client does not know that yet.
    fn unknown() -> Self {
        let world = Self {
            space: Space::new(),
            xprt: SvcXprt::new(),
            is_known: AtomicBool::new(false),
            outbox: Lock::new(),
            messages: AtomicU32::new(0),
            sends: Completions::new(),
        };
        // Uses each word once.
        assert!(!world.space.is_there() && !world.space.is_waited_for());
        world
    }

    /// `Connection::ask`
    #[track_caller]
    fn ask(&self) {
        if remembers() {
            self.xprt.enqueue(|| self.space.is_there());
        }
    }

    /// The completion handler of Receives.
    fn receive(&self) {
        self.xprt.push(|| self.space.is_there());
    }

    /// The event `Established`.
    fn establish(&self) {
        self.is_known.store(true, SeqCst);
        self.space.establish(|| self.ask());
    }

    /// `Settled::flush`
    fn flush(&self) -> bool {
        let before = self.messages.load(SeqCst);
        let mut after = before;
        while after != 0 && self.sends.post() {
            after -= 1;
        }
        self.messages.store(after, SeqCst);
        self.space.flushed(before, after)
    }

    /// `Settled::send_or_wait`
    fn send(&self) {
        let makes_space = self.outbox.with(|| {
            let messages = self.messages.load(SeqCst) + 1;
            self.messages.store(messages, SeqCst);
            self.space.wait(messages);
            self.flush()
        });
        if makes_space {
            self.space.made(|| self.ask());
        }
    }

    /// The completion handler of Sends: `Settled::flush_waiting`.
    fn complete(&self) {
        self.sends.complete();
        if !self.space.is_waited_for() {
            return;
        }
        let makes_space = self.outbox.with(|| self.flush());
        if makes_space {
            self.space.made(|| self.ask());
        }
    }

    /// The numbers are what they were, or are to be.
    fn check(&self) {
        let messages = self.messages.load(SeqCst);
        if messages != 0 && self.sends.post() {
            fail("a message waits although there is room");
        }
        if self.space.waiting() != messages {
            fail("the number of messages that wait is wrong");
        }
        let is_known = self.is_known.load(SeqCst);
        if is_known && messages < MANY && self.xprt.has_call() {
            fail("a call waits although there is space");
        }
        if !is_known && self.xprt.is_given() {
            fail("a call is given to a thread too early");
        }
    }
}

// H-104
const ESTABLISHED: Scenario<World> = Scenario {
    name: "a call comes before the client is known to know of its connection",
    make: World::unknown,
    threads: &[("handler", World::receive), ("event", World::establish)],
    check: World::check,
};

const EARLY: Scenario<World> = Scenario {
    name: "a call comes on a connection that its client does not know of",
    make: World::unknown,
    threads: &[("handler", World::receive), ("another", World::complete)],
    check: World::check,
};

// V1-36
const MADE: Scenario<World> = Scenario {
    name: "the last message but a few is posted, and a call comes",
    make: || World::with(MANY),
    threads: &[("handler", World::complete), ("another", World::receive)],
    check: World::check,
};

// V1-121
const WAITS: Scenario<World> = Scenario {
    name: "a message waits, and room comes back",
    make: || World::with(0),
    threads: &[("thread", World::send), ("handler", World::complete)],
    check: World::check,
};

const SENDER: Scenario<World> = Scenario {
    name: "a thread posts a message of others, and a call comes",
    make: || {
        let world = World::with(MANY - 1);
        world.sends.complete();
        world.sends.complete();
        world
    },
    threads: &[("thread", World::send), ("handler", World::receive)],
    check: World::check,
};

const MANY_SENDERS: Scenario<World> = Scenario {
    name: "two threads send, and room comes back for one",
    make: || World::with(0),
    threads: &[
        ("thread", World::send),
        ("another", World::send),
        ("handler", World::complete),
    ],
    check: World::check,
};

#[test]
fn space() {
    let scenarios: [&dyn Explore; 6] =
        [&ESTABLISHED, &EARLY, &MADE, &WAITS, &SENDER, &MANY_SENDERS];
    Outcome::of(&scenarios)
        .mistakes("words/space.rs", &scenarios, &[])
        .mistakes("connection/space.rs", &scenarios, &[])
        .omissions("connection/space.rs", &scenarios, &[])
        .report("space for calls");
}
