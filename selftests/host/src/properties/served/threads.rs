// SPDX-License-Identifier: GPL-2.0

//! The threads of the upper layer, and its cache.

use super::{Access, Call, CallAction, CallLife, Mistake, Model, Next, Thread, World, READS};
use crate::module::proto::responder::room::Admission;

impl Model {
    pub(super) fn thread(&self, world: &World, at: usize, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        new.threads[at] = match world.threads[at] {
            Thread::Idle if world.queued => {
                new.queued = false;
                Thread::Dispatched
            }
            Thread::Idle => return Ok(()),
            Thread::Dispatched => self.dispatched(&mut new)?,
            Thread::ClearsData(call) => {
                new.data = false;
                Thread::Received(call)
            }
            Thread::Received(call) => {
                new.busy = false;
                if !self.is(Mistake::ReceivesOnce) {
                    new.enqueue();
                }
                call.map_or(Thread::Idle, Thread::Serves)
            }
            Thread::Serves(call) => return self.serves(world, at, call, next),
            Thread::Plans(call) => self.plans(&mut new, call)?,
            Thread::Posts(call) => self.posts(&mut new, call)?,
            Thread::MarksLate(call) => {
                let moved = world.life(call).posted();
                self.step(&mut new, call, Mistake::ForgetsPosted, moved)?;
                Thread::Releases(call, Access::Load)
            }
            Thread::Releases(call, access) => {
                let moved = |life: CallLife| self.released(life);
                match self.access(&mut new, call, access, Mistake::ForgetsReleased, moved) {
                    Ok(access) => Thread::Releases(call, access),
                    Err(Some(action)) => {
                        new.act(call, action)?;
                        Thread::Idle
                    }
                    Err(None) => return Err("a call is released that is not held".into()),
                }
            }
            Thread::Deletes => {
                self.deletes(&mut new)?;
                Thread::Idle
            }
        };
        next.push(("a thread goes on", new));
        Ok(())
    }

    fn dispatched(&self, world: &mut World) -> Result<Thread, String> {
        if world.close {
            // Shuts the gate; the connection stays busy for ever.
            world.deleted = true;
            return Ok(Thread::Deletes);
        }
        if !world.revisits.is_empty() {
            return Ok(Thread::Received(Some(world.revisits.remove(0))));
        }
        if world.inbox.is_empty() {
            world.data = false;
            return Ok(Thread::Received(None));
        }
        let call = world.inbox.remove(0);
        if world.incomplete[call] {
            return Err("a call is served with incomplete arguments".into());
        }
        let moved = world.life(call).taken();
        self.step(world, call, Mistake::ForgetsTaken, moved)?;
        if world.inbox.is_empty() {
            if self.is(Mistake::ClearsLate) {
                return Ok(Thread::ClearsData(Some(call)));
            }
            world.data = false;
        }
        Ok(Thread::Received(Some(call)))
    }

    /// The upper layer replies to a call, drops it, or defers it.
    fn serves(&self, world: &World, at: usize, call: Call, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        new.threads[at] = Thread::Plans(call);
        next.push(("the upper layer replies", new));

        let mut new = world.clone();
        new.threads[at] = Thread::Releases(call, Access::Load);
        next.push(("the upper layer drops a call", new));

        if call == READS && !world.was_deferred {
            let mut new = world.clone();
            new.was_deferred = true;
            new.deferred.push(call);
            new.threads[at] = if self.is(Mistake::ReleasesDeferred) {
                Thread::Releases(call, Access::Load)
            } else {
                Thread::Idle
            };
            next.push(("the upper layer defers a call", new));
        }
        Ok(())
    }

    fn plans(&self, world: &mut World, call: Call) -> Result<Thread, String> {
        let admitted = match world.room.admit(1) {
            Admission::Wait if self.is(Mistake::PostsWithoutRoom) => Admission::Post,
            Admission::Drop if self.is(Mistake::AdmitsClosed) => Admission::Wait,
            admitted => admitted,
        };
        match admitted {
            Admission::Post => Ok(Thread::Posts(call)),
            Admission::Wait => {
                let moved = world.life(call).waits();
                self.step(world, call, Mistake::ForgetsWaits, moved)?;
                world.fifo.push(call);
                Ok(Thread::Releases(call, Access::Load))
            }
            Admission::Drop => Ok(Thread::Releases(call, Access::Load)),
            Admission::TooLarge => Err("a reply is too large".into()),
        }
    }

    fn posts(&self, world: &mut World, call: Call) -> Result<Thread, String> {
        if self.is(Mistake::MarksLate) && world.post(call) {
            return Ok(Thread::MarksLate(call));
        }
        let moved = world.life(call).posted();
        self.step(world, call, Mistake::ForgetsPosted, moved)?;
        if !world.post(call) {
            // The gate is shut: the reply is dropped, with the room it had.
            if !self.is(Mistake::LosesRoom) {
                world.room.returned(1);
            }
            let moved = world.life(call).sent();
            self.step(world, call, Mistake::ForgetsSent, moved)?;
        }
        Ok(Thread::Releases(call, Access::Load))
    }

    /// Deletes the connection: drops what waits, and releases the calls that were to be served
    /// again.
    fn deletes(&self, world: &mut World) -> Result<(), String> {
        world.room.close();
        if !self.is(Mistake::DeletesWithLine) {
            for call in std::mem::take(&mut world.fifo) {
                self.drop_call(world, call)?;
            }
        }
        if !self.is(Mistake::DeletesWithRevisits) {
            for call in std::mem::take(&mut world.revisits) {
                self.release(world, call)?;
            }
        }
        Ok(())
    }

    /// svc_xprt_close(): the upper layer closes the connection without a thread, if none has it.
    pub(super) fn closer(&self, world: &World, next: &mut Next) -> Result<(), String> {
        if !self.fragile || world.busy || world.close {
            return Ok(());
        }
        let mut new = world.clone();
        new.busy = true;
        new.close = true;
        new.deleted = true;
        self.deletes(&mut new)?;
        next.push(("the upper layer closes the connection", new));
        Ok(())
    }

    /// The cache has an answer for a call that was deferred.
    pub(super) fn cache(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let Some(&call) = world.deferred.first() else {
            return Ok(());
        };
        let mut new = world.clone();
        new.deferred.remove(0);
        if world.deleted {
            self.release(&mut new, call)?;
        } else {
            new.revisits.push(call);
            new.enqueue();
        }
        next.push(("the cache returns a call", new));
        Ok(())
    }

    fn release(&self, world: &mut World, call: Call) -> Result<(), String> {
        let (life, action): (CallLife, CallAction) = self
            .released(world.life(call))
            .ok_or("a call is released that is not held")?;
        world.words[call] = life.word();
        world.act(call, action)
    }
}
