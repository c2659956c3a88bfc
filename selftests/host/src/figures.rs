// SPDX-License-Identifier: GPL-2.0

//! A walk through all states of a model, and the figures of an explorer for the log of the run.

use std::{
    collections::{BTreeMap, HashMap},
    env, fmt,
    fs::OpenOptions,
    hash::Hash,
    io::Write,
};

/// The steps from a state, each with its name and the state after it.
pub(crate) type Next<W> = Vec<(&'static str, W)>;

/// Walks through all states that can be reached from `first`. `look` returns the steps from a
/// state, or its defect; steps that change nothing are left out.
///
/// # Errors
///
/// The names of the steps to the first wrong state, and what is wrong with it.
pub(crate) fn walk<W: Clone + Eq + Hash + fmt::Debug>(
    first: W,
    look: impl Fn(&W) -> Result<Next<W>, String>,
) -> Result<Figures, String> {
    let mut places = HashMap::from([(first.clone(), 0)]);
    let mut came: BTreeMap<usize, (usize, &'static str)> = BTreeMap::new();
    let mut worlds = vec![first];
    let mut after: Vec<Vec<usize>> = Vec::new();
    while let Some(world) = worlds.get(after.len()).cloned() {
        let mut at = after.len();
        let next = match look(&world) {
            Ok(next) => next,
            Err(why) => {
                let mut told = vec![format!("{why}: {world:?}")];
                while let Some((before, step)) = came.get(&at) {
                    told.push((*step).into());
                    at = *before;
                }
                told.reverse();
                return Err(told.join("\n"));
            }
        };
        let mut reached = Vec::new();
        for (step, new) in next.into_iter().filter(|(_, new)| *new != world) {
            let place = *places.entry(new.clone()).or_insert(worlds.len());
            if place == worlds.len() {
                came.insert(place, (at, step));
                worlds.push(new);
            }
            reached.push(place);
        }
        after.push(reached);
    }
    Ok(Figures::of(&after))
}

/// Explores `models`: their orders are right without a mistake, and each seeded mistake makes an
/// order wrong in one of them. Reports the figures of the former under `name`. `STORIES` in the
/// environment has the steps to each mistake printed.
///
/// # Panics
///
/// If an order is wrong, or a mistake is not found.
pub(crate) fn explore<K: Copy + fmt::Debug, I: IntoIterator>(
    name: &str,
    mistakes: &[K],
    models: impl Fn(Option<K>) -> I,
    explore: impl Fn(&I::Item) -> Result<Figures, String>,
) {
    let mut figures = Figures::default();
    for model in models(None) {
        match explore(&model) {
            Ok(more) => figures += more,
            Err(story) => panic!("{story}"),
        }
    }
    let mut missed = Vec::new();
    for &mistake in mistakes {
        let story = models(Some(mistake))
            .into_iter()
            .find_map(|model| explore(&model).err());
        match story {
            Some(story) if env::var_os("STORIES").is_some() => println!("{mistake:?}:\n{story}"),
            Some(story) => println!("{mistake:?}: {}", summary(&story)),
            None => missed.push(mistake),
        }
    }
    figures.report(name, mistakes.len() - missed.len(), mistakes.len());
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// What is wrong at the end of a story, and the number of steps to it.
fn summary(story: &str) -> String {
    let last = story.lines().last().unwrap_or_default();
    let why = last.split(": ").next().unwrap_or_default();
    format!("{why}, {} steps", story.lines().count() - 1)
}

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
