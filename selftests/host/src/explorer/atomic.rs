// SPDX-License-Identifier: GPL-2.0

//! The kernel's atomics, each operation a step of the explorer.

use std::{panic::Location, sync::OnceLock};

use super::run::{self, Op};

pub(crate) mod ordering {
    //! The orderings, as types.

    use crate::explorer::memory::Order;

    pub(crate) trait Ordering {
        const ORDER: Order;
    }

    macro_rules! orderings {
        ($($name:ident)*) => {$(
            pub(crate) struct $name;

            impl Ordering for $name {
                const ORDER: Order = Order::$name;
            }
        )*};
    }

    orderings!(Relaxed Acquire Release Full);

    pub(crate) trait AcquireOrRelaxed: Ordering {}
    impl AcquireOrRelaxed for Acquire {}
    impl AcquireOrRelaxed for Relaxed {}
}

pub(crate) use ordering::{Acquire, Full, Ordering, Relaxed, Release};

/// A value that fits into a word.
pub(crate) trait Value: Copy {
    fn to_word(self) -> u64;
    fn of_word(word: u64) -> Self;
}

macro_rules! values {
    ($($name:ty)*) => {$(
        impl Value for $name {
            fn to_word(self) -> u64 {
                self.into()
            }

            fn of_word(word: u64) -> Self {
                word as Self
            }
        }
    )*};
}

values!(u32 u64);

impl Value for usize {
    fn to_word(self) -> u64 {
        self as u64
    }

    fn of_word(word: u64) -> Self {
        word as Self
    }
}

impl Value for bool {
    fn to_word(self) -> u64 {
        self.into()
    }

    fn of_word(word: u64) -> Self {
        word != 0
    }
}

impl<T> Value for *mut T {
    fn to_word(self) -> u64 {
        self.expose_provenance() as u64
    }

    fn of_word(word: u64) -> Self {
        std::ptr::with_exposed_provenance_mut(word as usize)
    }
}

/// A word of the explorer's memory.
pub(crate) struct Atomic<T> {
    number: OnceLock<usize>,
    first: T,
}

// SAFETY: The first value is only ever copied.
unsafe impl<T: Copy> Sync for Atomic<T> {}
// SAFETY: As a word, a pointer is a number.
unsafe impl<T: Copy> Send for Atomic<T> {}

impl<T: Value> Atomic<T> {
    pub(crate) const fn new(first: T) -> Self {
        Self {
            number: OnceLock::new(),
            first,
        }
    }

    #[track_caller]
    fn step(&self, op: Op) -> Result<T, T> {
        let word = run::word(&self.number, self.first.to_word());
        let done = run::step(word, op, Location::caller());
        done.map(T::of_word).map_err(T::of_word)
    }

    #[track_caller]
    pub(crate) fn load<O: Ordering>(&self, _: O) -> T {
        let (Ok(value) | Err(value)) = self.step(Op::Load(O::ORDER));
        value
    }

    #[track_caller]
    pub(crate) fn store<O: Ordering>(&self, value: T, _: O) {
        let _ = self.step(Op::Store(value.to_word(), O::ORDER));
    }

    #[track_caller]
    pub(crate) fn xchg<O: Ordering>(&self, value: T, _: O) -> T {
        let (Ok(old) | Err(old)) = self.step(Op::Exchange(None, value.to_word(), O::ORDER));
        old
    }

    #[track_caller]
    pub(crate) fn cmpxchg<O: Ordering>(&self, old: T, new: T, _: O) -> Result<T, T> {
        self.step(Op::Exchange(Some(old.to_word()), new.to_word(), O::ORDER))
    }

    /// Adds `value`, as a load and an exchange that is repeated until no other comes in between.
    #[track_caller]
    pub(crate) fn fetch_add<O: Ordering>(&self, value: T, _: O) -> T {
        let mut old = self.load(Relaxed);
        loop {
            let sum = old.to_word().wrapping_add(value.to_word());
            let op = Op::Exchange(Some(old.to_word()), T::of_word(sum).to_word(), O::ORDER);
            match self.step(op) {
                Ok(old) => return old,
                Err(now) => old = now,
            }
        }
    }
}

/// `os::series::fetch_sub`.
#[track_caller]
pub(crate) fn fetch_sub<O: Ordering>(atomic: &Atomic<u32>, value: u32, order: O) -> u32 {
    atomic.fetch_add(value.wrapping_neg(), order)
}

/// A full barrier.
#[track_caller]
pub(crate) fn smp_mb() {
    run::barrier(Location::caller());
}
