// SPDX-License-Identifier: GPL-2.0

//! One run of a scenario's threads: one at a time, each up to its next atomic operation.

use std::{
    cell::RefCell,
    fmt,
    panic::{catch_unwind, AssertUnwindSafe, Location},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
};

use super::{
    memory::{Memory, Order},
    search::Search,
};

/// An atomic operation.
#[derive(Clone, Copy)]
pub(super) enum Op {
    Load(Order),
    Store(u64, Order),
    /// Only if the word has the first value, if given.
    Exchange(Option<u64>, u64, Order),
    Barrier,
}

/// The place of an atomic operation in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site {
    pub(super) file: &'static str,
    pub(super) line: u32,
    column: u32,
    pub(super) kind: Kind,
    pub(super) order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Load,
    Store,
    Exchange,
    Barrier,
    /// A step of a model.
    Step,
}

/// A mistake in one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It orders nothing.
    Relaxed,
    /// It is no barrier.
    NoBarrier,
    /// It reads, and writes later.
    Torn,
    /// It comes after the next operation that is not a load.
    Late,
    /// It is left out.
    Forgotten,
}

impl Site {
    fn new(op: Op, at: &'static Location<'static>) -> Self {
        let (kind, order) = match op {
            Op::Load(order) => (Kind::Load, order),
            Op::Store(_, order) => (Kind::Store, order),
            Op::Exchange(_, _, order) => (Kind::Exchange, order),
            Op::Barrier => (Kind::Barrier, Order::Full),
        };
        Self::at(at, kind, order)
    }

    fn at(at: &'static Location<'static>, kind: Kind, order: Order) -> Self {
        Self {
            file: at.file(),
            line: at.line(),
            column: at.column(),
            kind,
            order,
        }
    }

    /// The mistakes that can be made here.
    pub(super) fn mistakes(self) -> impl Iterator<Item = How> {
        let relaxed = (self.order != Order::Relaxed).then_some(How::Relaxed);
        let full = self.order == Order::Full && self.kind == Kind::Exchange;
        let other = match self.kind {
            Kind::Store => Some(How::Late),
            Kind::Exchange => Some(How::Torn),
            Kind::Step => Some(How::Forgotten),
            Kind::Load | Kind::Barrier => None,
        };
        let no_barrier = full.then_some(How::NoBarrier);
        relaxed.into_iter().chain(no_barrier).chain(other)
    }

    /// The ways to leave it out, or to delay it, that [`Self::mistakes`] lacks.
    pub(super) fn omissions(self) -> Vec<How> {
        match self.kind {
            Kind::Store => vec![How::Forgotten],
            Kind::Exchange => vec![How::Forgotten, How::Late],
            Kind::Load | Kind::Barrier | Kind::Step => Vec::new(),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::fs::read_to_string(self.file).unwrap_or_default();
        let line = text.lines().nth(self.line as usize - 1).unwrap_or_default();
        let file = self.file.rsplit("../").next().unwrap_or_default();
        write!(f, "{file}:{}: {}", self.line, line.trim())
    }
}

/// The thread that runs before all others, and after them. Its operations are no steps.
const ALONE: usize = usize::MAX;

struct State {
    memory: Memory,
    search: Search,
    mistakes: Vec<(Site, How)>,
    /// The thread that runs.
    turn: usize,
    /// The threads that have come to their first operation.
    started: usize,
    alive: Vec<bool>,
    /// The lock that each thread waits for.
    wanted: Vec<Option<usize>>,
    /// The locks that are held.
    held: Vec<usize>,
    /// The store of each thread that comes later.
    late: Vec<Option<(usize, u64, Order)>>,
    story: Vec<(usize, Option<Site>, String)>,
    failed: Option<String>,
}

/// One run.
pub(super) struct Run {
    state: Mutex<State>,
    turns: Vec<Condvar>,
}

thread_local! {
    static CURRENT: RefCell<Option<(Arc<Run>, usize)>> = const { RefCell::new(None) };
}

fn current() -> (Arc<Run>, usize) {
    CURRENT.with_borrow(|current| current.clone().expect("is explored"))
}

/// The word with this number, or a new one.
pub(super) fn word(number: &OnceLock<usize>, first: u64) -> usize {
    *number.get_or_init(|| {
        let (run, thread) = current();
        assert_eq!(
            thread, ALONE,
            "a word has to be used before the threads start"
        );
        let mut state = run.lock();
        state.memory.add_word(first)
    })
}

pub(super) fn barrier(at: &'static Location<'static>) {
    let _ = step(0, Op::Barrier, at);
}

/// An operation on a word: the value before, as an error if it is not exchanged.
pub(super) fn step(word: usize, op: Op, at: &'static Location<'static>) -> Result<u64, u64> {
    let (run, thread) = current();
    if thread == ALONE {
        return run.lock().alone(word, op);
    }
    let site = Site::new(op, at);
    let how = {
        let mut state = run.lock();
        state.search.sites.insert(site);
        let mut mistakes = state.mistakes.iter();
        mistakes.find(|(bad, _)| *bad == site).map(|(_, how)| *how)
    };
    match (how, op) {
        (Some(How::Relaxed), Op::Barrier) => return Ok(0),
        (Some(How::Late), Op::Store(value, order)) => {
            run.lock().late[thread] = Some((word, value, order));
            return Ok(0);
        }
        (Some(How::Forgotten), Op::Store(..)) => return Ok(0),
        (Some(How::Forgotten | How::Late), Op::Exchange(_, value, order)) => {
            let loaded = run.turn(thread).load(thread, word, |_| true, order, site);
            if how == Some(How::Late) {
                run.lock().late[thread] = Some((word, value, order));
            }
            return Ok(loaded);
        }
        _ => (),
    }
    let done = match (how, op) {
        (Some(How::Torn), Op::Exchange(wanted, value, order)) => {
            let loaded = run.turn(thread).load(thread, word, |_| true, order, site);
            if wanted.is_some_and(|wanted| wanted != loaded) {
                Err(loaded)
            } else {
                let mut state = run.turn(thread);
                state.store(thread, word, value, order, Some(site));
                if order == Order::Full {
                    state.memory.barrier(thread);
                }
                Ok(loaded)
            }
        }
        (how, op) => {
            let weaker = match how {
                Some(How::Relaxed) => Some(Order::Relaxed),
                Some(How::NoBarrier) => Some(Order::Both),
                _ => None,
            };
            run.turn(thread).perform(thread, word, op, weaker, site)
        }
    };
    if !matches!(op, Op::Load(_)) {
        run.late(thread);
    }
    done
}

/// Returns `true` if the step of a model at this place is taken.
pub(super) fn remembers(at: &'static Location<'static>) -> bool {
    let (run, thread) = current();
    let site = Site::at(at, Kind::Step, Order::Relaxed);
    let mut state = run.lock();
    if thread != ALONE {
        state.search.sites.insert(site);
    }
    !state.mistakes.contains(&(site, How::Forgotten))
}

/// Takes a lock.
pub(super) fn lock(lock: usize) {
    let (run, thread) = current();
    if thread != ALONE {
        run.lock().wanted[thread] = Some(lock);
        let mut state = run.turn(thread);
        state.wanted[thread] = None;
        state.held.push(lock);
        state.memory.exchange(thread, lock, 1, Order::Acquire);
    }
}

pub(super) fn unlock(lock: usize) {
    let (run, thread) = current();
    if thread != ALONE {
        let mut state = run.turn(thread);
        state.held.retain(|&held| held != lock);
        state.memory.store(thread, lock, 0, Order::Release);
    }
}

pub(super) fn add_lock() -> usize {
    let (run, _) = current();
    let mut state = run.lock();
    state.memory.add_word(0)
}

/// Accesses plain memory with this number.
pub(super) fn access(number: usize, writes: bool, name: &str) {
    let (run, thread) = current();
    if thread != ALONE && !run.lock().memory.access(thread, number, writes) {
        let act = if writes { "written" } else { "read" };
        fail(&format!("{name} is {act} while another thread may use it"));
    }
}

pub(super) fn add_plain() -> usize {
    let (run, _) = current();
    let mut state = run.lock();
    state.memory.add_plain()
}

/// Ends the exploration: the run has broken a rule.
pub(crate) fn fail(why: &str) {
    let (run, _) = current();
    let mut state = run.lock();
    state.search.free = true;
    state.failed.get_or_insert_with(|| why.into());
}

impl State {
    fn alone(&mut self, word: usize, op: Op) -> Result<u64, u64> {
        if matches!(op, Op::Barrier) {
            return Ok(0);
        }
        let newest = self.memory.newest(word);
        let before = *newest;
        match op {
            Op::Exchange(Some(wanted), ..) if wanted != before => return Err(before),
            Op::Store(value, _) | Op::Exchange(_, value, _) => *newest = value,
            Op::Load(_) | Op::Barrier => (),
        }
        Ok(before)
    }

    /// Chooses the thread that runs next.
    fn pick(&mut self) {
        let can_run = |&thread: &usize| {
            let wanted = self.wanted[thread];
            self.alive[thread] && wanted.is_none_or(|lock| !self.held.contains(&lock))
        };
        let ready: Vec<usize> = (0..self.alive.len()).filter(can_run).collect();
        self.search.visit(self.memory.key());
        if self.search.free {
            let first = ready.first().copied().unwrap_or(ALONE);
            self.turn = if ready.contains(&self.turn) {
                self.turn
            } else {
                first
            };
        } else if ready.is_empty() {
            self.turn = ALONE;
        } else {
            self.turn = ready[self.search.choose(ready.len())];
        }
    }

    fn tell(&mut self, thread: usize, site: Option<Site>, what: String) {
        self.story.push((thread, site, what));
    }

    fn load(
        &mut self,
        thread: usize,
        word: usize,
        may_be: impl Fn(u64) -> bool,
        order: Order,
        site: Site,
    ) -> u64 {
        let mut values = self.memory.visible(thread, word);
        values.retain(|&(_, value)| may_be(value));
        let (number, value) = values[self.search.choose(values.len())];
        self.memory.load(thread, word, number, order);
        self.tell(
            thread,
            Some(site),
            format!("loads {value:#x} (number {number}) of {word}"),
        );
        value
    }

    fn store(&mut self, thread: usize, word: usize, value: u64, order: Order, site: Option<Site>) {
        self.memory.store(thread, word, value, order);
        self.tell(thread, site, format!("stores {value:#x} in {word}"));
    }

    fn perform(
        &mut self,
        thread: usize,
        word: usize,
        op: Op,
        weaker: Option<Order>,
        site: Site,
    ) -> Result<u64, u64> {
        let ordered = |order| weaker.unwrap_or(order);
        match op {
            Op::Load(order) => return Ok(self.load(thread, word, |_| true, ordered(order), site)),
            Op::Store(value, order) => self.store(thread, word, value, ordered(order), Some(site)),
            Op::Barrier => {
                self.memory.barrier(thread);
                self.tell(thread, Some(site), "full barrier".into());
            }
            Op::Exchange(wanted, value, order) => {
                let newest = *self.memory.newest(word);
                let fits = wanted.is_none_or(|wanted| wanted == newest);
                let others = wanted.map_or(0, |wanted| {
                    let values = self.memory.visible(thread, word);
                    values.iter().filter(|(_, value)| *value != wanted).count()
                });
                // An operation that fails orders nothing, and may see an older value.
                let exchanges = fits && (others == 0 || self.search.choose(2) == 0);
                if !exchanges {
                    let wanted = wanted.expect("an exchange without a condition succeeds");
                    let differs = |value| value != wanted;
                    return Err(self.load(thread, word, differs, Order::Relaxed, site));
                }
                self.memory.exchange(thread, word, value, ordered(order));
                self.tell(
                    thread,
                    Some(site),
                    format!("{newest:#x} becomes {value:#x} in {word}"),
                );
                return Ok(newest);
            }
        }
        Ok(0)
    }
}

impl Run {
    pub(super) fn new(threads: usize, search: Search, mistakes: &[(Site, How)]) -> Arc<Self> {
        let state = Mutex::new(State {
            memory: Memory::new(threads),
            search,
            mistakes: mistakes.to_vec(),
            turn: 0,
            started: 0,
            alive: vec![true; threads],
            wanted: vec![None; threads],
            held: Vec::new(),
            late: vec![None; threads],
            story: Vec::new(),
            failed: None,
        });
        let turns = (0..threads).map(|_| Condvar::new()).collect();
        Arc::new(Self { state, turns })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` alone.
    pub(super) fn alone<T>(self: &Arc<Self>, act: impl FnOnce() -> T) -> T {
        CURRENT.set(Some((self.clone(), ALONE)));
        let result = act();
        CURRENT.set(None);
        result
    }

    /// Runs `act` as this thread.
    pub(super) fn thread(self: &Arc<Self>, thread: usize, act: impl FnOnce()) {
        drop(self.wait(self.lock(), thread));
        CURRENT.set(Some((self.clone(), thread)));
        if catch_unwind(AssertUnwindSafe(act)).is_err() {
            fail("a thread panics");
        }
        self.late(thread);
        CURRENT.set(None);
        let mut state = self.lock();
        state.alive[thread] = false;
        self.pass(&mut state, thread);
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>, thread: usize) -> MutexGuard<'a, State> {
        while state.turn != thread {
            let woken = self.turns[thread].wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Lets the thread run that is next.
    fn pass(&self, state: &mut State, thread: usize) {
        if state.started == thread && thread + 1 < self.turns.len() {
            state.started += 1;
            state.turn = state.started;
        } else {
            state.started = usize::MAX;
            state.pick();
        }
        if let Some(turn) = self.turns.get(state.turn).filter(|_| state.turn != thread) {
            turn.notify_one();
        }
    }

    /// Waits for the turn of a thread that has come to an operation.
    fn turn(&self, thread: usize) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        self.pass(&mut state, thread);
        self.wait(state, thread)
    }

    /// Makes up for a store that comes late.
    fn late(&self, thread: usize) {
        let late = self.lock().late[thread].take();
        if let Some((word, value, order)) = late {
            self.turn(thread).store(thread, word, value, order, None);
        }
    }

    /// The search, and the story of the run if it has failed.
    pub(super) fn end(&self, names: &[&str]) -> (Search, Option<String>) {
        let mut state = self.lock();
        let search = std::mem::take(&mut state.search);
        let told = state.failed.take().map(|why| {
            let mut told: Vec<String> = Vec::new();
            for (thread, site, what) in &state.story {
                let site = site.map_or("late".into(), |site| site.to_string());
                told.push(format!("{}: {what}: {site}", names[*thread]));
            }
            told.push(why);
            told.join("\n")
        });
        (search, told)
    }
}
