// SPDX-License-Identifier: GPL-2.0

//! The parties on a connection: the peer and the device, the completion handler, the teardown.

use super::*;

impl Model {
    pub(super) fn peer(&self, world: &World, generation: u64, next: &mut Next) {
        let conn = &world.conns[generation as usize - 1];
        if conn.teardown > Teardown::Closed {
            return;
        }
        let tame = self.is_tame(generation);
        if conn.replies > 0 && conn.queue.len() < 2 {
            for handle in [Handle::None, Handle::Own, Handle::Part, Handle::Foreign] {
                if tame && (handle != Handle::None || conn.replies < 2) {
                    continue;
                }
                let mut new = world.clone();
                let conn = new.conn(generation);
                conn.replies -= 1;
                conn.queue.push(Completion::Reply(handle));
                if handle == Handle::Own {
                    conn.reachable = false;
                }
                next.push(("the peer replies", new));
            }
        }
        if conn.invalidating {
            for done in [true, false] {
                if tame && !done {
                    continue;
                }
                let mut new = world.clone();
                let conn = new.conn(generation);
                conn.invalidating = false;
                conn.queue.push(Completion::Invalidation(done));
                if done {
                    conn.reachable = false;
                } else {
                    conn.close();
                }
                next.push(("the device has invalidated", new));
            }
        }
        if conn.teardown == OPEN && world.current == generation && !tame && !self.lasting {
            let mut new = world.clone();
            new.conn(generation).close();
            next.push(("the link is lost", new));
        }
    }

    pub(super) fn handler(
        &self,
        world: &World,
        generation: u64,
        next: &mut Next,
    ) -> Result<(), String> {
        let mut new = world.clone();
        let conn = new.conn(generation);
        let open = conn.teardown == OPEN;
        match conn.handler.clone() {
            Handler::Idle => {
                if conn.queue.is_empty() {
                    return Ok(());
                }
                match conn.queue.remove(0) {
                    Completion::Reply(handle) if world.waiting => {
                        conn.handler = Handler::Replied(handle);
                        new.pins += 1;
                    }
                    Completion::Reply(handle) => conn.handler = Handler::Late(handle),
                    Completion::Invalidation(done) => conn.handler = Handler::Invalidated(done),
                }
            }
            Handler::Replied(handle) => {
                let replied = self.step(Op::Replied, &mut new.request, |r| r.replied(generation));
                match replied {
                    Some(exposed) => new.conn(generation).handler = Handler::Judge(handle, exposed),
                    None => {
                        // A second reply ends the connection.
                        new.unpin();
                        let conn = new.conn(generation);
                        conn.handler = Handler::Idle;
                        conn.close();
                    }
                }
            }
            Handler::Judge(handle, exposed) => {
                if handle.is_foreign(&exposed) {
                    self.step(Op::ReplyRejected, &mut new.request, |r| {
                        r.reply_rejected(generation, exposed)
                    });
                    new.unpin();
                    let conn = new.conn(generation);
                    conn.handler = Handler::Idle;
                    conn.close();
                } else if handle == Handle::Own {
                    conn.handler = Handler::Keep;
                } else if exposed.is_some() {
                    conn.handler = Handler::Wait;
                    if handle == Handle::Part && self.is(Mistake::KeepsPart) {
                        new.kept = generation;
                    }
                } else {
                    conn.handler = Handler::Finish;
                }
            }
            Handler::Keep => {
                conn.handler = Handler::Finish;
                new.kept = generation;
            }
            Handler::Wait => {
                conn.handler = Handler::Post;
                if self.is(Mistake::KeepsValid) {
                    new.kept = generation;
                }
                self.step(Op::InvalidateFor, &mut new.request, |r| {
                    r.invalidate_for(generation, Reply)
                });
            }
            Handler::Post if open => {
                conn.handler = Handler::Idle;
                conn.invalidating = true;
            }
            Handler::Post => conn.handler = Handler::PostFailed,
            Handler::PostFailed => {
                conn.handler = Handler::Idle;
                self.not_invalidated(&mut new, generation)?;
            }
            Handler::Invalidated(done) => {
                conn.handler = Handler::Idle;
                if done || self.is(Mistake::FailedIsDone) {
                    match self.step(Op::Invalidated, &mut new.request, |r| r.invalidated(true)) {
                        InvalidationOutcome::Deliver(Reply) => {
                            new.conn(generation).handler = Handler::Finish
                        }
                        InvalidationOutcome::Released => new.signal = true,
                        InvalidationOutcome::Drop(Reply) => {
                            return Err("a reply is dropped for nothing".into())
                        }
                        InvalidationOutcome::Nothing => {}
                    }
                } else {
                    self.not_invalidated(&mut new, generation)?;
                }
            }
            Handler::Late(handle) => {
                conn.handler = Handler::Idle;
                self.late(&mut new, generation, handle)?;
            }
            Handler::Finish => {
                if world.reachable() {
                    return Err("a reply is delivered while memory is reachable".into());
                }
                if world.replied || world.pins == 0 || world.task == Task::Done {
                    return Err("a second reply is delivered, or one that no task waits for".into());
                }
                conn.handler = Handler::Idle;
                new.replied = true;
                new.waiting = false;
                // sunrpc does not send a call that has its reply.
                new.to_send = false;
                new.unpin();
            }
        }
        next.push(("the handler goes on", new));
        Ok(())
    }

    fn not_invalidated(&self, new: &mut World, generation: u64) -> Result<(), String> {
        match self.step(Op::Invalidated, &mut new.request, |r| r.invalidated(false)) {
            InvalidationOutcome::Deliver(Reply) => {
                return Err("delivered without an invalidation".into())
            }
            InvalidationOutcome::Drop(Reply) => {
                if new.pins == 0 {
                    return Err("a reply is dropped twice".into());
                }
                new.unpin();
            }
            InvalidationOutcome::Released => new.signal = true,
            InvalidationOutcome::Nothing => {}
        }
        new.conn(generation).close();
        Ok(())
    }

    /// A reply to a call that is not among the calls that wait for a reply.
    fn late(&self, new: &mut World, generation: u64, handle: Handle) -> Result<(), String> {
        if new.request.has_replied_late(generation) && !self.is(Mistake::LateTwice) {
            // A second reply ends the connection.
            new.conn(generation).close();
            return Ok(());
        }
        let safe = self.is(Mistake::LateIsSafe);
        let seen = self.step(Op::ReplyLate, &mut new.request, |r| {
            r.reply_late(generation, |exposed| {
                let foreign = handle.is_foreign(exposed);
                if handle == Handle::Own || safe {
                    *exposed = None;
                }
                foreign
            })
        });
        let conn = new.conn(generation);
        let foreign = match seen {
            Some((foreign, abandoned)) => {
                conn.abandoned -= i8::from(abandoned);
                foreign
            }
            None if conn.record => {
                conn.record = false;
                conn.abandoned -= 1;
                handle == Handle::Foreign
            }
            None => handle != Handle::None,
        };
        if foreign {
            conn.close();
        }
        if conn.abandoned < 0 {
            return Err("more abandoned calls are counted down than up".into());
        }
        Ok(())
    }

    pub(super) fn teardown(&self, world: &World, generation: u64, next: &mut Next) {
        let mut new = world.clone();
        let conn = new.conn(generation);
        match conn.teardown {
            Teardown::No | Teardown::Over => return,
            Teardown::Closed => {
                // All that is posted completes, or is flushed.
                conn.teardown = Teardown::Flushed;
                conn.replies = 0;
                if conn.invalidating {
                    conn.invalidating = false;
                    let mut failed = new.clone();
                    // The drain fails: nothing completes from now on.
                    if failed.conn(generation).handler == Handler::Idle {
                        failed.conn(generation).queue.clear();
                        next.push(("the drain fails", failed));
                    }
                    new.conn(generation)
                        .queue
                        .push(Completion::Invalidation(false));
                }
            }
            Teardown::Flushed => {
                if conn.handler != Handler::Idle || !conn.queue.is_empty() {
                    return;
                }
                conn.teardown = Teardown::Severed;
                if !self.is(Mistake::KeepsForEver) {
                    new.kept = 0;
                }
                let stays = match world.request.clone().torn_down(generation) {
                    TornDown::Reply(_) => self.is(Mistake::ReplyStays),
                    TornDown::Registrations(_) => {
                        self.is(Mistake::LateStays)
                            && matches!(
                                world.request.clone().release(),
                                ReleaseAction::Invalidate { replied: true, .. }
                            )
                    }
                    TornDown::Nothing => false,
                };
                if !stays {
                    match self.step(Op::TornDown, &mut new.request, |r| r.torn_down(generation)) {
                        TornDown::Reply(Reply) => new.unpin(),
                        TornDown::Registrations(Mrs) | TornDown::Nothing => {}
                    }
                }
            }
            Teardown::Severed => {
                conn.teardown = Teardown::Destroyed;
                conn.reachable = false;
            }
            Teardown::Destroyed => {
                conn.teardown = Teardown::Over;
                self.step(Op::Drained, &mut new.request, |r| r.drained(generation));
            }
        }
        next.push(("the teardown goes on", new));
    }
}
