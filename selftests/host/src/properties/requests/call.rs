// SPDX-License-Identifier: GPL-2.0

//! The two ends of a call: its sender and its task.

use super::*;

impl Model {
    pub(super) fn sender(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        let current = world.current;
        let open = world.conns[current as usize - 1].teardown == OPEN;
        let again = world.sent_on != 0;
        let sendable = world.request.is_sendable() && !(again && self.is(Mistake::SendableOnce));
        match world.sender {
            Sender::Idle => {
                if !(open && world.to_send && world.task == Task::Waits) {
                    return Ok(());
                }
                new.pins += 1;
                let here = world.sent_on == current;
                new.sender = if here { Sender::Close } else { Sender::Build };
                next.push(("sender begins", new));
            }
            // The sender has waited for the teardown of the connection before, so that the module's check holds.
            Sender::Build | Sender::Post(_) if !sendable => {
                return Err("to be sent, and cannot be".into())
            }
            Sender::Build => {
                // With registrations, its kept ones first, and without any.
                for exposes in [true, false] {
                    let mut new = new.clone();
                    new.sender = Sender::Post(exposes);
                    if exposes && !self.is(Mistake::TakesOthers) {
                        new.kept = 0;
                    }
                    next.push(("sender builds", new));
                }
            }
            Sender::Post(exposes) => {
                if world.reachable() {
                    return Err("sent while memory was reachable".into());
                }
                if open {
                    if !self.is_tame(current) {
                        let mut refused = new.clone();
                        refused.conn(current).reachable = exposes;
                        self.send_failed(&mut refused)?;
                        next.push(("the device refuses the Send", refused));
                    }

                    new.conn(current).reachable = exposes;
                    new.conn(current).replies = 2;
                    new.to_send = false;
                    new.sent_on = current;
                    new.sender = Sender::Idle;
                    new.unpin();
                    let exposed = (exposes && !self.is(Mistake::ExposesNothing)).then_some(Mrs);
                    self.step(Op::Sent, &mut new.request, |r| r.sent(current, exposed));
                    next.push(("sent", new));
                } else {
                    self.send_failed(&mut new)?;
                    next.push(("connection is closed", new));
                }
            }
            Sender::Close => {
                new.conn(current).close();
                if world.conns[current as usize - 1].teardown == Teardown::Over {
                    new.sender = Sender::Idle;
                    new.unpin();
                }
                next.push(("sender closes", new));
            }
        }
        Ok(())
    }

    fn send_failed(&self, new: &mut World) -> Result<(), String> {
        new.sender = Sender::Close;
        self.step(Op::SendFailed, &mut new.request, Request::send_failed);
        if !new.request.is_idle() {
            return Err("counts as sent on a connection before, although its Send failed".into());
        }
        Ok(())
    }

    pub(super) fn task(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        let current = world.current;
        match world.task {
            Task::Waits => {
                if self.killable {
                    let mut killed = world.clone();
                    killed.waiting = false;
                    killed.to_send = false;
                    killed.task = Task::Killed;
                    next.push(("the task is killed", killed));
                }
                self.timer(world, next)?;
                if world.replied && !world.waits_again && !self.is_tame(world.sent_on) {
                    // By now the pin is gone. The task does not release its call.
                    let mut again = world.clone();
                    again.replied = false;
                    again.waiting = true;
                    again.waits_again = true;
                    next.push(("sunrpc does not accept the reply", again));
                }
                let lost = world.conns[world.sent_on.max(1) as usize - 1].teardown != OPEN;
                if world.replied {
                    new.task = Task::Killed;
                } else if lost && world.sent_on != 0 && !world.to_send {
                    // It is to be sent again.
                    new.waiting = false;
                    new.task = Task::Encodes;
                } else {
                    return Ok(());
                }
            }
            Task::Encodes if world.pins == 0 => {
                new.task = Task::Waits;
                if !world.replied {
                    new.waiting = true;
                    new.to_send = true;
                }
            }
            Task::Killed if world.pins == 0 => new.task = Task::Abandons,
            Task::Abandons => {
                new.task = Task::Records;
                if self.step(Op::Abandon, &mut new.request, |r| r.abandon(current)) {
                    if world.replied {
                        return Err("a call counts as abandoned although it has its reply".into());
                    }
                    new.conn(current).abandoned += 1;
                }
            }
            Task::Records => {
                new.task = Task::Releases;
                if world.request.abandoned_on() == Some(current) {
                    new.recorded = true;
                    new.conn(current).record = true;
                }
            }
            Task::Releases => self.release(&mut new),
            Task::Forgets => {
                new.conn(current).record = false;
                new.task = Task::Done;
            }
            Task::WaitsFor(generation) => {
                let mut tired = world.clone();
                tired.task = Task::Ends(generation, true);
                next.push(("the task has waited long enough", tired));
                if !world.signal {
                    return Ok(());
                }
                new.task = if world.request.is_releasing() {
                    Task::Ends(generation, true)
                } else {
                    self.step(Op::Released, &mut new.request, Request::released);
                    Task::Done
                };
            }
            Task::Ends(generation, tell) => {
                let teardown = world.conns[generation as usize - 1].teardown;
                let is_found = teardown == OPEN || !self.is(Mistake::FindsOnlyOpen);
                new.conn(generation).close();
                if teardown == Teardown::Over || !is_found {
                    if tell {
                        self.step(Op::Released, &mut new.request, Request::released);
                    }
                    new.task = Task::Done;
                }
            }
            Task::Encodes | Task::Killed | Task::Done => return Ok(()),
        }
        if new.task == Task::Done {
            self.check_released(&new)?;
        }
        next.push(("the task goes on", new));
        Ok(())
    }

    /// The call has waited for its reply for too long.
    fn timer(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let (sent_on, current) = (world.sent_on, world.current);
        let is_sent = sent_on == current || (sent_on != 0 && self.is(Mistake::TimesOutAny));
        let by_state = self.is(Mistake::TimesOutByState);
        if !(world.waiting && is_sent) || (by_state && world.request.is_idle()) {
            return Ok(());
        }
        // A server that is right replies in time.
        if self.is_tame(sent_on) {
            return Ok(());
        }
        if sent_on != current {
            return Err("the timer ends a connection that the call was not sent on".into());
        }
        let mut new = world.clone();
        new.conn(current).close();
        next.push(("the call times out", new));
        Ok(())
    }

    fn release(&self, new: &mut World) {
        let exposed = |world: &World| match world.request.clone().release() {
            ReleaseAction::Invalidate { .. } => Some(Mistake::ReleasesExposed),
            ReleaseAction::EndConnection(_) => Some(Mistake::ReleasesUndrained),
            ReleaseAction::Done { .. } => None,
        };
        if self.mistake.is_some() && exposed(new) == self.mistake {
            new.request = Request::new();
        }
        let (replied, then) = match self.step(Op::Release, &mut new.request, Request::release) {
            ReleaseAction::Done { replied } => (replied, Task::Done),
            ReleaseAction::EndConnection(generation) => (false, Task::Ends(generation, false)),
            ReleaseAction::Invalidate {
                generation,
                exposed: Mrs,
                replied,
            } => {
                new.signal = false;
                let conn = new.conn(generation);
                conn.invalidating = conn.teardown == OPEN;
                let posted = conn.invalidating;
                let then = if posted {
                    Task::WaitsFor(generation)
                } else {
                    Task::Ends(generation, true)
                };
                (replied, then)
            }
        };
        new.task = then;
        if replied && new.recorded {
            if then == Task::Done && self.is(Mistake::ForgetsLater) {
                new.task = Task::Forgets;
            } else {
                let current = new.current;
                new.conn(current).record = false;
            }
        }
    }

    fn check_released(&self, world: &World) -> Result<(), String> {
        if world.reachable() {
            return Err("memory is released while it is reachable".into());
        }
        if !world.request.is_idle() {
            return Err("the next call finds the state of this one".into());
        }
        Ok(())
    }
}
