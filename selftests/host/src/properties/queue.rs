// SPDX-License-Identifier: GPL-2.0

//! The requests that sunrpc has to send over one transport, in every order of their tasks: a call whose memory cannot be
//! mapped, a call that needs none, and the reply to a reverse call. A fourth call holds the only
//! credit; its reply grants a second, and its task is frozen, so that it never gives its own back.
//!
//! The time that a call may fail is the module's. sunrpc's queue, its window and its bit for
//! senders that wait for a credit, and the sender's part in them, are modelled here. In all orders:
//!
//! - no request waits behind the call that cannot be mapped: it is sent at the second attempt of its own task (H-74);
//! - that call ends, in success if its memory can be mapped soon, else in failure (V1-110);
//! - a grant that rises wakes a sender, though no task gives its credit back (H-66).

use crate::figures::{self, walk, Figures};
use crate::module::client::request::unmapped::Unmapped;

/// Calls, by their place in the world.
const UNMAPPED: usize = 0;
const INLINE: usize = 1;
const REVERSE: usize = 2;
const ALL: [usize; 3] = [UNMAPPED, INLINE, REVERSE];

/// Attempts to map the memory of a call that fail before one succeeds, where one does.
const PASSING: usize = 2;

/// Attempts, a second apart, after which a call that cannot be mapped has to have failed.
const MOST_FAILURES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    /// To be sent. Its task looks for the lock, or sleeps until a credit is free.
    Queued,
    /// To be sent. Its task sleeps for a quarter of a second.
    Delayed,
    Sent,
    Replied,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// The order of sending.
    queue: Vec<usize>,
    requests: [Request; 3],
    credits: [bool; 3],
    /// Attempts of the request's own task that have not sent it.
    attempts: [u8; 3],
    /// The window, and sunrpc's bit for senders that wait for it.
    window: usize,
    waits: bool,
    /// Set when the reply to the frozen call has come.
    granted: bool,
    unmapped: Unmapped,
    failures: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// The call that cannot be mapped stays at the head of the queue.
    StaysAtHead,
    /// It keeps its credit.
    KeepsCredit,
    /// It is tried again for ever.
    NeverFails,
    /// It fails immediately.
    FailsAtOnce,
    /// A grant that rises is stored, and nothing is woken.
    RisesQuietly,
}

const MISTAKES: [Mistake; 5] = [
    Mistake::StaysAtHead,
    Mistake::KeepsCredit,
    Mistake::NeverFails,
    Mistake::FailsAtOnce,
    Mistake::RisesQuietly,
];

struct Model {
    mistake: Option<Mistake>,
    /// The memory can be mapped after a while.
    passing: bool,
}

type Next = figures::Next<World>;

/// The result of an attempt to send one request.
enum Sent {
    Yes,
    NoCredit,
    NoMemory,
}

impl World {
    fn new() -> Self {
        Self {
            // Requests that have a credit, or look so, come first.
            queue: vec![REVERSE, UNMAPPED, INLINE],
            requests: [Request::Queued; 3],
            credits: [false, false, true],
            attempts: [0; 3],
            window: 1,
            waits: false,
            granted: false,
            unmapped: Unmapped::new(),
            failures: 0,
        }
    }

    /// Takes a credit for a request, or keeps the one it has. The frozen call has one.
    fn take_credit(&mut self, of: usize) -> bool {
        let used = 1 + usize::from(self.credits[UNMAPPED]) + usize::from(self.credits[INLINE]);
        if !self.credits[of] && used >= self.window {
            self.waits = true;
            return false;
        }
        self.credits[of] = true;
        true
    }

    fn give_credit_back(&mut self, of: usize) {
        self.credits[of] = false;
        self.waits = false;
    }

    fn leave_queue(&mut self, of: usize, then: Request) {
        self.queue.retain(|&other| other != of);
        self.requests[of] = then;
    }
}

impl Model {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Sends the first request of the queue.
    fn send(&self, world: &mut World, head: usize) -> Sent {
        if !world.take_credit(head) {
            return Sent::NoCredit;
        }
        if head != UNMAPPED || (self.passing && world.failures >= PASSING) {
            world.leave_queue(head, Request::Sent);
            return Sent::Yes;
        }
        // A second for each attempt.
        let is_over = world.unmapped.failed(7, world.failures, 1) || self.is(Mistake::FailsAtOnce);
        if is_over && !self.is(Mistake::NeverFails) {
            world.leave_queue(head, Request::Failed);
            world.give_credit_back(head);
            return Sent::Yes;
        }
        world.failures += 1;
        if self.is(Mistake::KeepsCredit) {
            world.waits = false;
        } else {
            world.give_credit_back(head);
        }
        if !self.is(Mistake::StaysAtHead) {
            world.queue.retain(|&other| other != head);
            world.queue.push(head);
        }
        Sent::NoMemory
    }

    /// The task of a request has the lock, and sends until that fails (`xprt_transmit()`).
    fn transmit(&self, world: &mut World, task: usize) {
        while let Some(&head) = world.queue.first() {
            let status = self.send(world, head);
            if matches!(status, Sent::Yes) {
                continue;
            }
            if world.queue.contains(&task) {
                if matches!(status, Sent::NoMemory) {
                    world.attempts[task] += 1;
                    world.requests[task] = Request::Delayed;
                }
            }
            return;
        }
    }

    /// The possible next steps, if the rules hold here.
    fn look(&self, world: &World) -> Result<Next, String> {
        if world.attempts[INLINE] > 1 || world.attempts[REVERSE] > 1 {
            return Err("a request waits behind one that cannot be mapped".into());
        }
        if self.passing && world.requests[UNMAPPED] == Request::Failed {
            return Err("a call fails for want of memory that passes".into());
        }
        if world.failures > MOST_FAILURES {
            return Err("a call that cannot be mapped is tried without end".into());
        }
        let mut next = Next::new();
        for task in ALL {
            let mut new = world.clone();
            match world.requests[task] {
                Request::Queued if world.waits => continue,
                Request::Queued => self.transmit(&mut new, task),
                Request::Delayed => new.requests[task] = Request::Queued,
                Request::Sent => {
                    new.requests[task] = Request::Replied;
                    // A reverse reply has none.
                    if task != REVERSE {
                        new.give_credit_back(task);
                    }
                }
                Request::Replied | Request::Failed => continue,
            }
            new.attempts[UNMAPPED] = 0;
            next.push(("a task goes on", new));
        }
        if !world.granted {
            let mut new = world.clone();
            new.granted = true;
            new.window = 2;
            new.waits &= self.is(Mistake::RisesQuietly);
            next.push(("the grant rises", new));
        }
        let ended = |request: &Request| matches!(request, Request::Replied | Request::Failed);
        let rests = next.iter().all(|(_, new)| new == world);
        if rests && !world.requests.iter().all(ended) {
            return Err("a request is never sent".into());
        }
        Ok(next)
    }

    /// Walks through all orders.
    fn explore(&self) -> Result<Figures, String> {
        walk(World::new(), |world| self.look(world))
    }
}

/// The model with `mistake`, in all circumstances.
fn all(mistake: Option<Mistake>) -> [Model; 2] {
    [true, false].map(|passing| Model { mistake, passing })
}

#[test]
fn every_order_is_right_and_every_mistake_is_found() {
    figures::explore("requests to be sent", &MISTAKES, all, Model::explore);
}
