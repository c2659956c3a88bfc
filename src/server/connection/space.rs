// SPDX-License-Identifier: GPL-2.0

//! The space that a connection has for more calls. Pure, and explored by the host tests.
//!
//! sunrpc gives a call to a thread if there is space (`svc_xprt_ready()`), and looks again only if
//! it is asked to. Messages to the client wait if the send queue has no room. Two store-buffer
//! patterns see to it that neither waits for ever:
//!
//! - Code that finds no space: note that calls wait, smp_mb(), test for space. Code that makes
//!   some: make it, smp_mb(), ask sunrpc, which tests whether calls wait.
//! - Thread whose message waits: note that, smp_mb(), look for room. Completion handler: give room
//!   back, smp_mb(), test whether messages wait.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use crate::os::series::smp_mb;

/// Messages that wait before the connection takes no more calls.
pub(crate) const MANY: u32 = 16;

/// The space that a connection has.
pub(crate) struct Space {
    /// Messages that wait for room in the send queue.
    waiting: Atomic<u32>,
    /// Set once the client knows that its request is accepted. Calls that come before wait
    /// (H-104).
    established: Atomic<bool>,
}

impl Space {
    /// None, before the client knows that its request is accepted.
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Atomic::new(0),
            established: Atomic::new(false),
        }
    }

    /// The client knows that its request is accepted. `ask` asks sunrpc to look for calls.
    pub(crate) fn establish(&self, ask: impl FnOnce()) {
        self.established.store(true, Relaxed);
        self.made(ask);
    }

    /// Returns `true` once the client knows that.
    pub(crate) fn is_established(&self) -> bool {
        self.established.load(Relaxed)
    }

    /// Returns `true` if more calls may be given to threads.
    pub(crate) fn is_there(&self) -> bool {
        smp_mb(); // of code that finds no space
        self.is_established() && self.waiting() < MANY
    }

    /// The caller has made space. `ask` asks sunrpc to look for calls.
    pub(crate) fn made(&self, ask: impl FnOnce()) {
        smp_mb(); // of code that makes space
        ask();
    }

    /// One more message waits, `waiting` in all. The caller looks for room after this.
    pub(crate) fn wait(&self, waiting: u32) {
        self.waiting.store(waiting, Relaxed);
        smp_mb(); // of a thread whose message waits
    }

    /// Returns `true` if messages wait for the room that the caller has given back.
    pub(crate) fn is_waited_for(&self) -> bool {
        smp_mb(); // of a completion handler
        self.waiting() != 0
    }

    /// Of `before` messages `after` still wait. Returns `true` if that has [made](Self::made)
    /// space.
    pub(crate) fn flushed(&self, before: u32, after: u32) -> bool {
        self.waiting.store(after, Relaxed);
        before >= MANY && after < MANY
    }

    /// The number of messages that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }
}
