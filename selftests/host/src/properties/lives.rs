// SPDX-License-Identifier: GPL-2.0

//! Everything that may happen to the life of one connection, in every order: the attempt that makes and publishes it,
//! a handler of events and completions and a task, which both may find it lost, sunrpc, and the teardown.
//!
//! The life is the module's; the loop that stores it, the lock for the call of sunrpc, and the
//! callers around it are modelled here, one step for each access to the word. In all orders:
//!
//! - a connection that is lost is closed, or the attempt to make it fails, and no party waits without end;
//! - sunrpc is asked once at most, when it knows of the connection, and by no party after the teardown, when it would
//!   close the next connection;
//! - a connection that is not lost is not closed, and once closed it stays so.
//!
//! Each mistake that is seeded into the transitions breaks one of these.

use crate::figures::{self, walk, Figures};
use crate::module::link::life::{Life, LossAction, PublishAction};

/// A party that loads the word, and stores the next life if the word is the same then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step<A> {
    Load,
    Store(Life),
    Act(A),
    Done,
}

/// The parties that may tell sunrpc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Party {
    Attempt,
    Handler,
    Task,
}

/// The attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Attempt {
    /// Waits for a step, with the write lock.
    Waits,
    /// All steps are over.
    Made,
    /// sunrpc knows of the connection, and the write lock is free.
    Publishes(Step<PublishAction>),
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Teardown {
    No,
    /// Takes the life.
    Load,
    Store(u32),
    /// Waits for the party that calls sunrpc.
    Passes,
    /// Waits for the handler, which is not called afterwards.
    Drains,
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    word: u32,
    /// The party that has the lock under which sunrpc is told.
    telling: Option<Party>,
    /// Set when the connection is no longer usable.
    broken: bool,
    attempt: Attempt,
    /// Set when the step that the attempt waits for has failed.
    step_failed: bool,
    /// The progress of the handler and of the task after the loss; `None` before they find it.
    handler: Option<Step<LossAction>>,
    task: Option<Step<LossAction>>,
    /// The number of times that sunrpc was asked to close the connection.
    asked: u8,
    teardown: Teardown,
    /// Set if an attempt runs the teardown.
    of_attempt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// The transition returns its action, and changes nothing.
    ForgetsPublished,
    ForgetsLost,
    ForgetsTornDown,
    /// A connection that was lost before it is published is taken into use.
    PublishesLost,
    /// One that sunrpc has closed is taken into use.
    PublishesClosed,
    /// A loss before the publication fails no attempt, and calls sunrpc immediately.
    AsksEarly,
    /// A loss of a connection in use is taken for the loss of an attempt.
    NeverAsks,
    /// The second loss counts as the first.
    CountsTwice,
    /// A loss before the publication closes the life immediately, so that the publisher finds
    /// nothing to do.
    ClosesEarly,
    /// The next life overwrites a life that was stored in between.
    StoresBlindly,
    /// The teardown does not wait for a party that is telling sunrpc.
    TearsDownRegardless,
    /// A party calls sunrpc after it has released the lock.
    TellsWithoutLock,
}

const MISTAKES: [Mistake; 12] = [
    Mistake::ForgetsPublished,
    Mistake::ForgetsLost,
    Mistake::ForgetsTornDown,
    Mistake::PublishesLost,
    Mistake::PublishesClosed,
    Mistake::AsksEarly,
    Mistake::NeverAsks,
    Mistake::CountsTwice,
    Mistake::ClosesEarly,
    Mistake::StoresBlindly,
    Mistake::TearsDownRegardless,
    Mistake::TellsWithoutLock,
];

struct Model {
    mistake: Option<Mistake>,
    /// The connection may be lost.
    fragile: bool,
    /// sunrpc may close it by itself.
    impatient: bool,
}

type Next = figures::Next<World>;

impl World {
    fn new() -> Self {
        Self {
            word: Life::FORMING.word(),
            telling: None,
            broken: false,
            attempt: Attempt::Waits,
            step_failed: false,
            handler: None,
            task: None,
            asked: 0,
            teardown: Teardown::No,
            of_attempt: false,
        }
    }

    fn life(&self) -> Life {
        Life::from_word(self.word)
    }

    /// Returns `true` if sunrpc knows of the connection.
    fn is_known(&self) -> bool {
        matches!(self.attempt, Attempt::Publishes(_))
    }

    /// Takes the lock under which sunrpc is told. Returns `true` if `party` has it then.
    fn take(&mut self, party: Party) -> bool {
        *self.telling.get_or_insert(party) == party
    }

    /// Releases the lock, if `party` has it.
    fn release(&mut self, party: Party) {
        self.telling = self.telling.filter(|&of| of != party);
    }

    /// Asks sunrpc to close the connection.
    fn ask(&mut self) -> Result<(), String> {
        if !self.is_known() {
            return Err("sunrpc is asked before it knows of the connection".into());
        }
        if self.teardown == Teardown::Over {
            return Err("sunrpc is asked after the teardown".into());
        }
        if !self.broken {
            return Err("sunrpc is asked to close a connection that works".into());
        }
        self.asked += 1;
        if self.asked > 1 {
            return Err("sunrpc is asked twice".into());
        }
        Ok(())
    }
}

/// The closed life, for the mistakes.
fn closed() -> Life {
    Life::FORMING.torn_down()
}

impl Model {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn published(&self, life: Life) -> Option<(Life, PublishAction)> {
        let (open, _) = Life::FORMING.published()?;
        match life.published() {
            Some((_, action)) if self.is(Mistake::ForgetsPublished) => Some((life, action)),
            Some((_, PublishAction::Disconnect)) if self.is(Mistake::PublishesLost) => {
                Some((open, PublishAction::Nothing))
            }
            None if self.is(Mistake::PublishesClosed) => Some((open, PublishAction::Nothing)),
            next => next,
        }
    }

    fn lost(&self, life: Life) -> Option<(Life, LossAction)> {
        match life.lost() {
            Some((_, action)) if self.is(Mistake::ForgetsLost) => Some((life, action)),
            Some((next, LossAction::FailAttempt)) if self.is(Mistake::AsksEarly) => {
                Some((next, LossAction::Disconnect))
            }
            Some((_, LossAction::FailAttempt)) if self.is(Mistake::ClosesEarly) => {
                Some((closed(), LossAction::FailAttempt))
            }
            Some((next, LossAction::Disconnect)) if self.is(Mistake::NeverAsks) => {
                Some((next, LossAction::FailAttempt))
            }
            None if self.is(Mistake::CountsTwice) => Some((life, LossAction::Disconnect)),
            next => next,
        }
    }

    /// An access to the word by a party that moves it on by `transition`.
    fn access<A: Copy>(
        &self,
        word: &mut u32,
        step: Step<A>,
        transition: impl Fn(Life) -> Option<(Life, A)>,
    ) -> Step<A> {
        match step {
            Step::Load => match transition(Life::from_word(*word)) {
                Some(_) => Step::Store(Life::from_word(*word)),
                None => Step::Done,
            },
            Step::Store(was) => match transition(was) {
                Some((next, action)) if *word == was.word() || self.is(Mistake::StoresBlindly) => {
                    *word = next.word();
                    Step::Act(action)
                }
                // Another party was faster.
                _ => Step::Load,
            },
            Step::Act(_) | Step::Done => Step::Done,
        }
    }

    fn attempt(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        match world.attempt {
            Attempt::Waits if world.step_failed => {
                new.attempt = Attempt::Failed;
                new.teardown = Teardown::Load;
                new.of_attempt = true;
            }
            // The last step may be over, and the connection lost then.
            Attempt::Waits if !world.broken => new.attempt = Attempt::Made,
            Attempt::Made => new.attempt = Attempt::Publishes(Step::Load),
            Attempt::Publishes(Step::Act(action)) => {
                if action == PublishAction::Disconnect {
                    new.ask()?;
                }
                new.attempt = Attempt::Publishes(Step::Done);
                new.release(Party::Attempt);
            }
            Attempt::Publishes(step) if step != Step::Done => {
                if !new.take(Party::Attempt) {
                    return Ok(());
                }
                let step = self.access(&mut new.word, step, |life| self.published(life));
                new.attempt = Attempt::Publishes(step);
                self.after_access(&mut new, Party::Attempt, step);
            }
            Attempt::Waits | Attempt::Publishes(_) | Attempt::Failed => return Ok(()),
        }
        next.push(("the attempt goes on", new));
        Ok(())
    }

    /// A party has accessed the word: releases the lock if it has nothing to tell.
    fn after_access<A>(&self, world: &mut World, party: Party, step: Step<A>) {
        match step {
            Step::Done => world.release(party),
            Step::Act(_) if self.is(Mistake::TellsWithoutLock) => world.release(party),
            _ => {}
        }
    }

    /// A step of the handler, or of the task, which no drain waits for.
    fn loser(&self, world: &World, party: Party, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        let is_handler = party == Party::Handler;
        let found = if is_handler {
            world.handler
        } else {
            world.task
        };
        let step = match found {
            // Nothing comes to the handler after the drain. A task has a call, so it has seen the connection in use.
            None => {
                let may_find = match is_handler {
                    true => world.teardown != Teardown::Over,
                    false => world.is_known(),
                };
                if !(self.fragile && may_find) {
                    return Ok(());
                }
                new.broken = true;
                Step::Load
            }
            Some(Step::Act(action)) => {
                match action {
                    LossAction::FailAttempt => new.step_failed = true,
                    LossAction::Disconnect => new.ask()?,
                }
                new.release(party);
                Step::Done
            }
            Some(Step::Done) => return Ok(()),
            Some(step) => {
                if !new.take(party) {
                    return Ok(());
                }
                let step = self.access(&mut new.word, step, |life| self.lost(life));
                self.after_access(&mut new, party, step);
                step
            }
        };
        if is_handler {
            new.handler = Some(step);
            next.push(("the handler goes on", new));
        } else {
            new.task = Some(step);
            next.push(("the task goes on", new));
        }
        Ok(())
    }

    fn teardown(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        match world.teardown {
            Teardown::No => {
                // Only with the write lock.
                if !(world.is_known() && (world.asked != 0 || self.impatient)) {
                    return Ok(());
                }
                new.teardown = Teardown::Load;
            }
            Teardown::Load => new.teardown = Teardown::Store(world.word),
            Teardown::Store(was) if world.word == was || self.is(Mistake::StoresBlindly) => {
                if !self.is(Mistake::ForgetsTornDown) {
                    new.word = Life::from_word(was).torn_down().word();
                }
                new.teardown = Teardown::Passes;
            }
            Teardown::Passes => {
                if world.telling.is_some() && !self.is(Mistake::TearsDownRegardless) {
                    return Ok(());
                }
                new.teardown = Teardown::Drains;
            }
            Teardown::Store(_) => new.teardown = Teardown::Load,
            Teardown::Drains => {
                if !matches!(world.handler, None | Some(Step::Done)) {
                    return Ok(());
                }
                new.teardown = Teardown::Over;
            }
            Teardown::Over => return Ok(()),
        }
        next.push(("the teardown goes on", new));
        Ok(())
    }

    /// All that can happen next, if the world is a right one.
    fn look(&self, world: &World) -> Result<Next, String> {
        if world.teardown >= Teardown::Passes && world.life() != closed() {
            return Err("a life goes on after the teardown".into());
        }
        let mut next = Next::new();
        self.attempt(world, &mut next)?;
        self.loser(world, Party::Handler, &mut next)?;
        self.loser(world, Party::Task, &mut next)?;
        self.teardown(world, &mut next)?;
        if !self.may_rest(world) && next.iter().all(|(_, new)| new == world) {
            return Err("a lost connection stays as it is".into());
        }
        Ok(next)
    }

    /// Returns `true` if all steps may end here.
    fn may_rest(&self, world: &World) -> bool {
        let is_over = world.teardown == Teardown::Over;
        match world.attempt {
            Attempt::Waits | Attempt::Made => false,
            Attempt::Publishes(_) if world.broken => is_over,
            Attempt::Publishes(_) => self.impatient || world.life() != closed(),
            Attempt::Failed => is_over && world.of_attempt,
        }
    }

    /// Walks through all orders.
    fn explore(&self) -> Result<Figures, String> {
        walk(World::new(), |world| self.look(world))
    }
}

/// The model with `mistake`, in all circumstances.
fn all(mistake: Option<Mistake>) -> [Model; 4] {
    [(true, true), (true, false), (false, true), (false, false)].map(|(fragile, impatient)| Model {
        mistake,
        fragile,
        impatient,
    })
}

#[test]
fn every_order_is_right_and_every_mistake_is_found() {
    figures::explore("lives of a connection", &MISTAKES, all, Model::explore);
}
