// SPDX-License-Identifier: GPL-2.0

//! Weakly ordered memory.
//!
//! Each word keeps all values that were stored into it, in their order. A load may return any of
//! them that is not older than one that the thread has seen. An acquire operation adds the view of
//! the writer at its release to the view of the thread, a full barrier adds the views of all full
//! barriers before it. A read-modify-write operation acts on the newest value. Two plain accesses
//! to the same memory, one of them a write, must be ordered by release and acquire.
//!
//! Two reorderings are left out: no store passes an earlier load of its thread, and stores reach a
//! word in the order of their execution.

/// The values that a thread has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// Of each word, the number of the oldest value that it may still load.
    words: Vec<usize>,
    /// Of each thread, the number of the steps whose plain accesses come before.
    steps: Vec<usize>,
}

/// Raises the numbers in `to` to the numbers in `from`.
fn raise(to: &mut Vec<usize>, from: &[usize]) {
    to.resize(to.len().max(from.len()), 0);
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from.max(*to);
    }
}

fn at(numbers: &[usize], index: usize) -> usize {
    numbers.get(index).copied().unwrap_or(0)
}

fn set(numbers: &mut Vec<usize>, index: usize, number: usize) {
    numbers.resize(numbers.len().max(index + 1), 0);
    numbers[index] = number;
}

impl View {
    fn join(&mut self, other: &Self) {
        raise(&mut self.words, &other.words);
        raise(&mut self.steps, &other.steps);
    }
}

/// The views of a thread.
#[derive(Clone, Debug, Default)]
struct Views {
    now: View,
    /// The view after a barrier: with all that it has loaded without one.
    loaded: View,
    /// The view at its last barrier, which its relaxed stores release.
    stored: View,
}

#[derive(Clone, Debug)]
struct Message {
    value: u64,
    view: View,
}

/// Memory that is accessed without atomics.
#[derive(Clone, Debug, Default)]
struct Plain {
    written: Option<(usize, usize)>,
    read: Vec<usize>,
}

/// The ordering of an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Order {
    Relaxed,
    Acquire,
    Release,
    /// Acquire and release, and no barrier.
    Both,
    Full,
}

impl Order {
    fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::Both | Self::Full)
    }

    fn releases(self) -> bool {
        matches!(self, Self::Release | Self::Both | Self::Full)
    }
}

/// The words, and the views of the threads.
#[derive(Default)]
pub(super) struct Memory {
    words: Vec<Vec<Message>>,
    plain: Vec<Plain>,
    threads: Vec<Views>,
    /// The words that were seen before full barriers.
    barriers: Vec<usize>,
    /// The numbers of the values that each thread has loaded and stored.
    history: Vec<Vec<u32>>,
}

impl Memory {
    pub(super) fn new(threads: usize) -> Self {
        let views = |thread| {
            let mut views = Views::default();
            set(&mut views.now.steps, thread, 1);
            views
        };
        Self {
            threads: (0..threads).map(views).collect(),
            history: vec![Vec::new(); threads],
            ..Self::default()
        }
    }

    pub(super) fn add_word(&mut self, value: u64) -> usize {
        let view = View::default();
        self.words.push(vec![Message { value, view }]);
        self.words.len() - 1
    }

    pub(super) fn add_plain(&mut self) -> usize {
        self.plain.push(Plain::default());
        self.plain.len() - 1
    }

    /// The newest value of a word.
    pub(super) fn newest(&mut self, word: usize) -> &mut u64 {
        &mut self.words[word]
            .last_mut()
            .expect("has a first value")
            .value
    }

    /// The state. The loads and stores of all threads settle the rest of it, but for the barriers.
    pub(super) fn key(&self) -> Vec<u32> {
        let mut key = Vec::new();
        for history in &self.history {
            key.push(history.len() as u32);
            key.extend(history);
        }
        key.extend(self.barriers.iter().map(|&number| number as u32));
        key
    }

    fn record(&mut self, thread: usize, number: usize) {
        self.history[thread].push(number as u32);
        let steps = &mut self.threads[thread].now.steps;
        let step = at(steps, thread) + 1;
        set(steps, thread, step);
    }

    /// The values that a load may return, the newest first.
    pub(super) fn visible(&self, thread: usize, word: usize) -> Vec<(usize, u64)> {
        let oldest = at(&self.threads[thread].now.words, word);
        let messages = self.words[word].iter().enumerate().skip(oldest);
        messages
            .rev()
            .map(|(n, message)| (n, message.value))
            .collect()
    }

    fn see(&mut self, thread: usize, word: usize, number: usize, order: Order) {
        let views = &mut self.threads[thread];
        let view = &self.words[word][number].view;
        if order.acquires() {
            views.now.join(view);
        }
        views.loaded.join(view);
        let oldest = number.max(at(&views.now.words, word));
        set(&mut views.now.words, word, oldest);
    }

    /// Loads the value with this number.
    pub(super) fn load(&mut self, thread: usize, word: usize, number: usize, order: Order) {
        self.see(thread, word, number, order);
        self.record(thread, number);
    }

    pub(super) fn store(&mut self, thread: usize, word: usize, value: u64, order: Order) {
        self.append(thread, word, value, order, View::default());
    }

    fn append(&mut self, thread: usize, word: usize, value: u64, order: Order, mut view: View) {
        let number = self.words[word].len();
        let views = &mut self.threads[thread];
        set(&mut views.now.words, word, number);
        view.join(if order.releases() {
            &views.now
        } else {
            &views.stored
        });
        set(&mut view.words, word, number);
        self.words[word].push(Message { value, view });
        self.record(thread, number);
    }

    /// Reads the newest value and stores another, as one.
    pub(super) fn exchange(&mut self, thread: usize, word: usize, value: u64, order: Order) {
        let newest = self.words[word].len() - 1;
        if order == Order::Full {
            self.fence(thread);
        }
        self.see(thread, word, newest, order);
        // An acquire of this value also acquires the values before it.
        let view = self.words[word][newest].view.clone();
        self.append(thread, word, value, order, view);
        if order == Order::Full {
            self.fence(thread);
        }
    }

    fn fence(&mut self, thread: usize) {
        let views = &mut self.threads[thread];
        let loaded = views.loaded.clone();
        views.now.join(&loaded);
        raise(&mut views.now.words, &self.barriers);
        self.barriers = views.now.words.clone();
        views.stored = views.now.clone();
    }

    /// A full barrier.
    pub(super) fn barrier(&mut self, thread: usize) {
        self.fence(thread);
        self.record(thread, 0);
    }

    /// Accesses memory without atomics. Returns `true` if that is ordered with all that it has to
    /// be.
    pub(super) fn access(&mut self, thread: usize, plain: usize, writes: bool) -> bool {
        let seen = &self.threads[thread].now.steps;
        let Plain { written, read } = &mut self.plain[plain];
        let comes_before = |of: usize, step: usize| of == thread || step <= at(seen, of);
        let mut ordered = written.is_none_or(|(of, step)| comes_before(of, step));
        let step = at(seen, thread);
        if writes {
            ordered &= read
                .iter()
                .enumerate()
                .all(|(of, &step)| comes_before(of, step));
            *written = Some((thread, step));
            read.clear();
        } else {
            set(read, thread, step);
        }
        ordered
    }
}
