// SPDX-License-Identifier: GPL-2.0

//! An explorer of words that threads share without a lock. It runs the module's own sources, built
//! upon atomics whose operations are steps, in all interleavings and with all values that weakly
//! ordered memory may return. Two runs that reach the same state continue as one.
//!
//! It then makes each mistake in each operation in turn: without its ordering or its barrier, not
//! atomic, or later than it should be; and forgets each step of a model. Each has to be found.

pub(crate) mod atomic;
#[cfg(test)]
mod litmus;
mod memory;
mod run;
mod search;

use std::{collections::BTreeSet, panic::Location, thread};

use crate::figures::Figures;
pub(crate) use run::{fail, How};
use run::{Run, Site};
use search::Search;

/// Threads, and the words that they share.
pub(crate) struct Scenario<W: 'static> {
    pub(crate) name: &'static str,
    /// Makes the words, and uses each of them once, which gives it its number.
    pub(crate) make: fn() -> W,
    pub(crate) threads: &'static [(&'static str, fn(&W))],
    /// Looks at the end of a run.
    pub(crate) check: fn(&W),
}

/// The result of an exploration: the figures and the operations, or the story of a failure.
type Explored = Result<(Figures, BTreeSet<Site>), String>;

pub(crate) trait Explore {
    fn name(&self) -> &'static str;
    fn explore(&self, mistakes: &[(Site, How)]) -> Explored;
}

impl<W: Sync + 'static> Explore for Scenario<W> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn explore(&self, mistakes: &[(Site, How)]) -> Explored {
        let names: Vec<&str> = self.threads.iter().map(|(name, _)| *name).collect();
        let mut search = Search::default();
        loop {
            let run = Run::new(names.len(), search, mistakes);
            let words = run.alone(self.make);
            thread::scope(|scope| {
                for (number, (_, act)) in self.threads.iter().enumerate() {
                    let (run, words) = (&run, &words);
                    scope.spawn(move || run.thread(number, || act(words)));
                }
            });
            run.alone(|| {
                (self.check)(&words);
                drop(words);
            });
            let failed;
            (search, failed) = run.end(&names);
            if let Some(story) = failed {
                return Err(story);
            }
            if !search.advance() {
                return Ok((search.figures(), search.sites));
            }
        }
    }
}

/// Memory that one thread at a time may use.
pub(crate) struct Plain {
    name: &'static str,
    number: usize,
}

impl Plain {
    pub(crate) fn new(name: &'static str) -> Self {
        let number = run::add_plain();
        Self { name, number }
    }

    pub(crate) fn read(&self) {
        run::access(self.number, false, self.name);
    }

    pub(crate) fn write(&self) {
        run::access(self.number, true, self.name);
    }
}

/// A lock. Its owner takes no other.
pub(crate) struct Lock(usize);

impl Lock {
    pub(crate) fn new() -> Self {
        Self(run::add_lock())
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce() -> T) -> T {
        run::lock(self.0);
        let done = act();
        run::unlock(self.0);
        done
    }
}

/// Returns `true` if the step at this place of a model is taken: one mistake forgets it.
#[track_caller]
pub(crate) fn remembers() -> bool {
    run::remembers(Location::caller())
}

/// The outcome of an exploration.
#[derive(Default)]
pub(crate) struct Outcome {
    figures: Figures,
    sites: BTreeSet<Site>,
    seeded: usize,
    missed: Vec<String>,
}

impl Outcome {
    /// Explores the scenarios, which must be right.
    pub(crate) fn of(scenarios: &[&dyn Explore]) -> Self {
        let mut outcome = Self::default();
        for scenario in scenarios {
            match scenario.explore(&[]) {
                Ok((figures, sites)) => {
                    println!("{}: {figures}", scenario.name());
                    outcome.figures += figures;
                    outcome.sites.extend(sites);
                }
                Err(story) => panic!("{}:\n{story}", scenario.name()),
            }
        }
        outcome
    }

    /// Makes mistakes together. Returns `true` if one of the scenarios finds them.
    fn finds(scenarios: &[&dyn Explore], mistakes: &[(Site, How)]) -> bool {
        let mut found = scenarios
            .iter()
            .filter_map(|scenario| scenario.explore(mistakes).err());
        let found = found.next();
        let why = found.as_ref().and_then(|story| story.lines().last());
        for (site, how) in mistakes {
            println!("{how:?}: {site}: {}", why.unwrap_or("not found"));
        }
        found.is_some()
    }

    /// Makes each mistake in `file` in turn, which one of the scenarios must find unless it is
    /// `harmless`: of a kind, and in a line with this part.
    pub(crate) fn mistakes(
        self,
        file: &str,
        scenarios: &[&dyn Explore],
        harmless: &[(How, &str)],
    ) -> Self {
        let mistakes = self.all(file, |site| site.mistakes().collect());
        self.each(file, mistakes, scenarios, harmless)
    }

    /// Leaves out and delays each operation of `file` that stores, as [`Self::mistakes`].
    pub(crate) fn omissions(
        self,
        file: &str,
        scenarios: &[&dyn Explore],
        harmless: &[(How, &str)],
    ) -> Self {
        let mistakes = self.all(file, Site::omissions);
        self.each(file, mistakes, scenarios, harmless)
    }

    /// The mistakes that `of` has for the operations of `file`.
    fn all(&self, file: &str, of: impl Fn(Site) -> Vec<How>) -> Vec<(Site, How)> {
        let sites = self.sites.iter().filter(|site| site.file.ends_with(file));
        sites
            .flat_map(|&site| of(site).into_iter().map(move |how| (site, how)))
            .collect()
    }

    fn each(
        mut self,
        file: &str,
        mistakes: Vec<(Site, How)>,
        scenarios: &[&dyn Explore],
        harmless: &[(How, &str)],
    ) -> Self {
        let mut harmless: Vec<_> = harmless.to_vec();
        for (site, how) in mistakes {
            let line = site.to_string();
            let found = Self::finds(scenarios, &[(site, how)]);
            let listed = harmless
                .iter()
                .position(|(of, part)| *of == how && line.contains(part));
            if let Some(listed) = listed {
                assert!(!found, "is harmful: {how:?}: {line}");
                harmless.remove(listed);
                continue;
            }
            self.seeded += 1;
            if !found {
                self.missed.push(format!("{how:?}: {line}"));
            }
        }
        assert_eq!(harmless, []);
        assert_ne!(self.seeded, 0, "no mistake could be made in {file}");
        self
    }

    /// Makes the same mistake wherever it can be made, which one of the scenarios must find.
    pub(crate) fn everywhere(mut self, how: How, scenarios: &[&dyn Explore]) -> Self {
        let sites = self
            .sites
            .iter()
            .filter(|site| site.mistakes().any(|of| of == how));
        let mistakes: Vec<_> = sites.map(|&site| (site, how)).collect();
        self.seeded += 1;
        if !Self::finds(scenarios, &mistakes) {
            self.missed.push(format!("{how:?} everywhere"));
        }
        self
    }

    /// Makes several mistakes together, each of a kind and in the lines with this part; one of the
    /// scenarios must find them.
    pub(crate) fn together(mut self, parts: &[(How, &str)], scenarios: &[&dyn Explore]) -> Self {
        let mut mistakes = Vec::new();
        for (how, part) in parts {
            let before = mistakes.len();
            let sites = self.sites.iter().filter(|site| {
                site.mistakes().any(|of| of == *how) && site.to_string().contains(part)
            });
            mistakes.extend(sites.map(|&site| (site, *how)));
            assert_ne!(mistakes.len(), before, "no line with {part}");
        }
        self.seeded += 1;
        if !Self::finds(scenarios, &mistakes) {
            self.missed.push(format!("{parts:?} together"));
        }
        self
    }

    /// Reports the figures. All mistakes must have been found.
    pub(crate) fn report(self, name: &str) {
        let found = self.seeded - self.missed.len();
        self.figures.report(name, found, self.seeded);
        assert_eq!(self.missed, [""; 0]);
    }
}

/// Explores the scenarios, and makes each mistake in `file` but for those that are `harmless`.
pub(crate) fn explore(
    name: &str,
    file: &str,
    scenarios: &[&dyn Explore],
    harmless: &[(How, &str)],
) {
    let outcome = Outcome::of(scenarios);
    outcome.mistakes(file, scenarios, harmless).report(name);
}
