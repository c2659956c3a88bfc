// SPDX-License-Identifier: GPL-2.0

//! The search through all choices: of the thread that runs next, and of the value that a load
//! returns.

use std::collections::{BTreeSet, HashMap};

use super::run::Site;
use crate::figures::Figures;

#[derive(Default)]
pub(super) struct Search {
    /// The choices of this run: the number taken, of how many.
    path: Vec<(usize, usize)>,
    /// The number of them that were taken so far.
    at: usize,
    /// The states, each with its number.
    seen: HashMap<Vec<u32>, usize>,
    after: Vec<Vec<usize>>,
    last: Option<usize>,
    /// Set if all that follows is known: the run proceeds to its end without a choice.
    pub(super) free: bool,
    /// The operations that were seen.
    pub(super) sites: BTreeSet<Site>,
}

impl Search {
    /// The run comes to a state.
    pub(super) fn visit(&mut self, key: Vec<u32>) {
        if self.free {
            return;
        }
        let known = self.seen.get(&key).copied();
        let number = known.unwrap_or(self.after.len());
        // Before that it repeats the run before.
        if self.at == self.path.len() {
            if let Some(last) = self.last {
                self.after[last].push(number);
            }
            if known.is_none() {
                self.seen.insert(key, number);
                self.after.push(Vec::new());
            } else {
                self.free = self.last.is_some();
            }
        }
        self.last = Some(number);
    }

    /// Takes one of `count` choices.
    pub(super) fn choose(&mut self, count: usize) -> usize {
        if self.free || count == 1 {
            return 0;
        }
        if self.at == self.path.len() {
            self.path.push((0, count));
        }
        let (taken, of) = self.path[self.at];
        assert_eq!(of, count, "a run repeats the one before");
        self.at += 1;
        taken
    }

    /// Prepares the next run. Returns `false` after the last.
    pub(super) fn advance(&mut self) -> bool {
        (self.at, self.last, self.free) = (0, None, false);
        while let Some((taken, of)) = self.path.pop() {
            if taken + 1 < of {
                self.path.push((taken + 1, of));
                return true;
            }
        }
        false
    }

    pub(super) fn figures(&self) -> Figures {
        Figures::of(&self.after)
    }
}
