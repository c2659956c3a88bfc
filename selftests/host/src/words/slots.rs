// SPDX-License-Identifier: GPL-2.0

//! The numbers of free requests, and a task that waits for one.

use super::free::FreeNumbers;
use crate::explorer::{
    atomic::{smp_mb, Atomic, Full, Relaxed},
    explore, fail, Explore, How, Plain, Scenario,
};

struct Slots {
    free: FreeNumbers,
    slots: [Plain; 2],
    /// Set while a task is queued for a request.
    backlog: Atomic<bool>,
}

impl Slots {
    fn new() -> Self {
        let (free, backlog) = (FreeNumbers::new(2).unwrap(), Atomic::new(false));
        assert!(free.take() == Some(0) && !backlog.load(Relaxed));
        free.put(0);
        let slots = [Plain::new("a request"), Plain::new("a request")];
        Self {
            free,
            slots,
            backlog,
        }
    }

    /// One of two requests that is in use.
    fn one_in_use() -> Self {
        let slots = Self::new();
        assert!(slots.free.take_this(0) && slots.free.take_this(1));
        slots
    }

    /// Takes a request, uses it and puts it back.
    fn use_one(&self) {
        if let Some(number) = self.free.take() {
            self.slots[number as usize].write();
            self.free.put(number);
        }
    }

    fn use_the_first(&self) {
        if self.free.take_this(0) {
            self.slots[0].write();
            self.free.put(0);
        }
    }

    /// `Slots::alloc`, after a first try without success.
    fn alloc(&self) {
        // xprt_add_backlog(), in queue()
        self.backlog.store(true, Relaxed);
        smp_mb();
        if let Some(number) = self.free.take() {
            self.offer(number);
        }
    }

    /// `Slots::free`.
    fn free(&self) {
        self.slots[0].write();
        if self.backlog.load(Relaxed) {
            return self.offer(0);
        }
        self.free.put(0);
        if self.backlog.load(Relaxed) {
            if let Some(number) = self.free.take() {
                self.offer(number);
            }
        }
    }

    /// `Slots::offer`.
    fn offer(&self, mut number: u32) {
        // xprt_wake_up_backlog()
        while !(self.backlog.load(Relaxed) && self.backlog.xchg(false, Full)) {
            self.free.put(number);
            if !self.backlog.load(Relaxed) {
                return;
            }
            let Some(again) = self.free.take() else {
                return;
            };
            number = again;
        }
        self.slots[number as usize].write();
    }
}

const USED: Scenario<Slots> = Scenario {
    name: "three tasks use two requests",
    make: Slots::new,
    threads: &[
        ("task", Slots::use_one),
        ("task", Slots::use_one),
        ("reverse call", Slots::use_the_first),
    ],
    check: |world| {
        if (world.free.take(), world.free.take()) != (Some(0), Some(1)) {
            fail("a request is lost");
        }
    },
};

const AWAITED: Scenario<Slots> = Scenario {
    name: "a task waits for a request",
    make: Slots::one_in_use,
    threads: &[("task that waits", Slots::alloc), ("task", Slots::free)],
    check: |world| {
        if world.backlog.load(Relaxed) {
            fail("a task waits although a request is free");
        }
    },
};

#[test]
fn free_requests() {
    let scenarios: [&dyn Explore; 2] = [&USED, &AWAITED];
    explore("free requests", "sunrpc/xprt/slot/free.rs", &scenarios, &[]);
}

#[test]
fn backlog() {
    let harmless = [
        // sunrpc's own.
        (How::Relaxed, "self.backlog.xchg(false, Full)"),
        (How::NoBarrier, "self.backlog.xchg(false, Full)"),
        (How::Torn, "self.backlog.xchg(false, Full)"),
    ];
    explore("task that waits", "words/slots.rs", &[&AWAITED], &harmless);
}
