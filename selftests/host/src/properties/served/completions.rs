// SPDX-License-Identifier: GPL-2.0

//! The device, the completion handler and the teardown.

use super::{Access, Call, Completion, Handler, Mistake, Model, Next, Thread, World, READS};
use crate::module::proto::responder::life::CallLife;

impl Model {
    /// The client sends its calls.
    pub(super) fn arrivals(&self, world: &World, next: &mut Next) {
        for call in [READS, 1] {
            if !world.arrived[call] && !world.lost && !world.drained {
                let mut new = world.clone();
                new.arrived[call] = true;
                new.completions.push(Completion::Receive(call));
                next.push(("a call arrives", new));
            }
        }
    }

    /// The device completes its work, or flushes it.
    pub(super) fn device(&self, world: &World, next: &mut Next) {
        if let Some(&call) = world.reading.first() {
            let mut new = world.clone();
            new.reading.remove(0);
            new.incomplete[call] = world.lost;
            new.completions.push(Completion::Read(call, !world.lost));
            next.push(("an RDMA Read completes", new));
        }
        if let Some(&chain) = world.chains.first() {
            let mut new = world.clone();
            new.chains.remove(0);
            new.completions.push(Completion::Send(chain));
            next.push(("a Send completes", new));
        }
        if self.fragile && !world.lost {
            let mut new = world.clone();
            new.lost = true;
            next.push(("the connection is lost", new));
        }
        if world.lost && !world.close {
            let mut new = world.clone();
            new.close = true;
            new.enqueue();
            next.push(("the loss is found", new));
        }
    }

    pub(super) fn handler(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        match world.handler {
            Handler::Idle if world.completions.is_empty() => return Ok(()),
            Handler::Idle => {
                let completion = new.completions.remove(0);
                new.handler = self.completed(&mut new, completion)?;
            }
            Handler::Push(call) => {
                new.inbox.push(call);
                new.data = true;
                new.handler = if self.is(Mistake::PushesSilently) {
                    Handler::Idle
                } else {
                    Handler::Enqueue
                };
            }
            Handler::Enqueue => {
                new.enqueue();
                new.handler = Handler::Idle;
            }
            Handler::Sent(call, access) => {
                let moved = |life: CallLife| self.sent(life);
                let released =
                    self.is(Mistake::LosesRoomOfReleased) && world.life(call).released().is_none();
                new.handler = match self.access(&mut new, call, access, Mistake::ForgetsSent, moved)
                {
                    Ok(access) => Handler::Sent(call, access),
                    Err(Some(action)) => {
                        new.act(call, action)?;
                        if !released {
                            new.room.returned(1);
                        }
                        Handler::Next
                    }
                    Err(None) => return Err("a Send completes for a call without a reply".into()),
                };
            }
            Handler::Next => new.handler = self.next(&mut new)?,
        }
        next.push(("the handler goes on", new));
        Ok(())
    }

    fn completed(&self, world: &mut World, completion: Completion) -> Result<Handler, String> {
        Ok(match completion {
            // The record is new: no other party knows it.
            Completion::Receive(READS) => {
                world.words[READS] = CallLife::READING.word();
                if world.deleted {
                    // The gate is shut: no RDMA Read is posted.
                    let moved = world.life(READS).read(false);
                    self.step(world, READS, Mistake::ForgetsRead, moved)?;
                } else {
                    world.reading.push(READS);
                }
                Handler::Idle
            }
            Completion::Receive(call) => {
                world.words[call] = CallLife::READY.word();
                Handler::Push(call)
            }
            Completion::Read(call, done) => {
                let done = done || self.is(Mistake::FlushIsData);
                let moved = world.life(call).read(done);
                self.step(world, call, Mistake::ForgetsRead, moved)?;
                if done {
                    Handler::Push(call)
                } else {
                    Handler::Idle
                }
            }
            Completion::Send(Some(call)) => Handler::Sent(call, Access::Load),
            Completion::Send(None) => {
                world.room.returned(1);
                Handler::Next
            }
        })
    }

    /// Posts the reply that has waited longest, if it has the room now.
    fn next(&self, world: &mut World) -> Result<Handler, String> {
        if self.is(Mistake::LeavesLine) || world.fifo.is_empty() || !world.room.admit_next(1) {
            return Ok(Handler::Idle);
        }
        let call = world.fifo.remove(0);
        let moved = world.life(call).posted();
        self.step(world, call, Mistake::ForgetsPosted, moved)?;
        if !world.post(call) {
            world.completions.push(Completion::Send(Some(call)));
        }
        Ok(if self.is(Mistake::LeavesLong) {
            Handler::Idle
        } else {
            Handler::Enqueue
        })
    }

    /// The last reference to a deleted connection is gone: drains it, and frees it.
    pub(super) fn teardown(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let is_referenced = world.threads.iter().any(|&thread| thread != Thread::Idle)
            || !world.deferred.is_empty();
        if !world.deleted || is_referenced || world.freed {
            return Ok(());
        }
        let mut new = world.clone();
        if !world.drained {
            new.drained = true;
            new.lost = true;
            next.push(("the drain begins", new));
            return Ok(());
        }
        let reads_are_over = world.reading.is_empty() || self.is(Mistake::DrainsSendsOnly);
        let is_over = world.chains.is_empty() && world.completions.is_empty() && reads_are_over;
        if is_over && world.handler == Handler::Idle {
            if !self.is(Mistake::FreesWithInbox) {
                for call in std::mem::take(&mut new.inbox) {
                    self.drop_call(&mut new, call)?;
                }
            }
            new.freed = true;
            let is_at_device = |call: Call| new.arrived[call] && new.life(call).is_at_device();
            if is_at_device(READS) || is_at_device(1) || !new.reading.is_empty() {
                return Err("a connection is freed with memory at the device".into());
            }
            next.push(("the connection is freed", new));
        }
        Ok(())
    }

    /// Drops a call from the inbox, or its reply from the line.
    pub(super) fn drop_call(&self, world: &mut World, call: Call) -> Result<(), String> {
        if self.is(Mistake::DropsUnmarked) {
            return Ok(());
        }
        let moved = world.life(call).dropped();
        self.step(world, call, Mistake::ForgetsDropped, moved)
    }
}
