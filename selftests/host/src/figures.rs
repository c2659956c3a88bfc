// SPDX-License-Identifier: GPL-2.0

//! The figures of an explorer, for the log of the run.

use std::{env, fmt, fs::OpenOptions, io::Write};

/// The extent of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) states: usize,
    /// Steps from one state to the next.
    pub(crate) steps: usize,
    /// Ways from the first state to an end.
    pub(crate) interleavings: u128,
}

impl Figures {
    /// The figures of a graph without circles. `next[at]` are the states after state `at`; the
    /// first state is 0.
    pub(crate) fn of(next: &[Vec<usize>]) -> Self {
        let mut before = vec![0_usize; next.len()];
        for &to in next.iter().flatten() {
            before[to] += 1;
        }
        let (mut order, mut ready) = (Vec::new(), vec![0]);
        while let Some(at) = ready.pop() {
            order.push(at);
            for &to in &next[at] {
                before[to] -= 1;
                if before[to] == 0 {
                    ready.push(to);
                }
            }
        }
        assert_eq!(order.len(), next.len(), "states in a circle");

        let mut ways = vec![0_u128; next.len()];
        for &at in order.iter().rev() {
            ways[at] = if next[at].is_empty() {
                1
            } else {
                next[at].iter().map(|&to| ways[to]).sum()
            };
        }
        Self {
            states: next.len(),
            steps: next.iter().map(Vec::len).sum(),
            interleavings: ways[0],
        }
    }

    /// Adds one line to the log of the run: these figures, and the seeded mistakes that were found.
    pub(crate) fn report(self, explored: &str, found: usize, seeded: usize) {
        let line =
            format!("explored {explored}: {self}; {found} of {seeded} seeded mistakes found");
        println!("{line}");
        // The script that runs the tests prints this file: the harness keeps the output of a test.
        if let Some(file) = env::var_os("FIGURES") {
            let mut file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(file)
                .unwrap();
            file.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
    }
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.states += other.states;
        self.steps += other.steps;
        self.interleavings += other.interleavings;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            states,
            steps,
            interleavings,
        } = self;
        write!(
            f,
            "{states} states, {steps} steps, {interleavings} interleavings"
        )
    }
}

#[test]
fn figures() {
    let figures = Figures::of(&[vec![1, 2], vec![3], vec![3], vec![4, 5], vec![], vec![]]);
    let (states, steps, interleavings) = (6, 6, 4);
    assert_eq!(
        figures,
        Figures {
            states,
            steps,
            interleavings
        }
    );
}
