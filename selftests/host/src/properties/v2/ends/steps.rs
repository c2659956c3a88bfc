// SPDX-License-Identifier: GPL-2.0

//! The steps of both ends: calls, replies, operations, changes of size, and the loss of the
//! connection.

use super::*;
use crate::module::proto::v2::{
    end::{Event, Once, Operation},
    limits::{growth::Announce, growth::Size, Limits},
};

impl Model {
    /// The limits of an end.
    pub(super) fn limits(&self, world: &World, at: usize) -> Limits {
        let end = &world.ends[at];
        if !self.is_ours(at) {
            let (send, reply) = (UNIT, UNIT);
            let heeded = match self.peer {
                Peer::InitAlone if at == SERVER => end.told,
                _ => send,
            };
            return Limits {
                send: heeded,
                reply,
            };
        }
        let mut limits = end.limits();
        let shrinks = |end: &End| {
            let change = end.requests.open.and_then(|open| open.change);
            change.is_some_and(|change| change.want < change.old)
        };
        if self.is(Mistake::LowersAtResponse) && shrinks(end) {
            limits.send = end.told;
        }
        if self.is(Mistake::PlansByUnconfirmed) && end.heeds {
            limits.reply = end.announced;
        }
        limits
    }

    /// Makes a new connection, which gets all calls without a reply.
    pub(super) fn connect(&self, world: &mut World) {
        for at in [CLIENT, SERVER] {
            let before = world.ends[at];
            let mut end = self.end(at);
            if self.is_ours(at) {
                if at == CLIENT {
                    end.on(Event::Established(self.grant));
                }
                self.seed(&mut end, at);
                if self.is(Mistake::KeepsLimit) {
                    end.told = before.told;
                }
            }
            world.ends[at] = end;
            world.links[at].clear();
            world.delayed[at].clear();
            world.receives[at] = vec![self.start[at] * UNIT; self.pool(at)];
            world.completed[at] = 0;
        }
        world.stub_init = false;
        world.fresh += world.calls.len() as u8 + world.planned.len() as u8;
        world.calls.clear();
        world.planned.clear();
    }

    /// Seeds the mistakes that an end has from its start.
    fn seed(&self, end: &mut End, at: usize) {
        match self.mistake {
            Some(Mistake::NeedsNoEvidence) => end.heeds = true,
            Some(Mistake::NeedsNoCredit) => end.credits.has_extra = true,
            Some(Mistake::Unprompted) if at == SERVER => {
                end.knows = true;
                end.credits.has_extra = true;
                end.init = Once::Due;
            }
            _ => {}
        }
    }

    /// The possible steps that lead on without a change or a loss.
    pub(super) fn progress(&self, world: &World) -> Result<Next, String> {
        let mut next = Next::new();
        self.plan(world, &mut next);
        self.post(world, &mut next)?;
        self.reply(world, &mut next)?;
        for at in [CLIENT, SERVER] {
            self.operation(world, at, &mut next)?;
            self.deliver(world, at, &mut next)?;
            if let Some((first, rest)) = world.delayed[at].split_first() {
                let mut new = world.clone();
                new.delayed[at] = rest.to_vec();
                new.links[1 - at].push(*first);
                next.push((["client's response", "server's response"][at], new));
            }
        }
        Ok(next)
    }

    fn plan(&self, world: &World, next: &mut Next) {
        let may = self.bare_client && world.calls.len() < self.grant as usize
            || !self.bare_client && world.ends[CLIENT].credits.may_call();
        if world.fresh == 0 || world.planned.len() == self.plans || !may {
            return;
        }
        let Limits { send, reply } = self.limits(world, CLIENT);
        let mut lens = vec![UNIT];
        if send > UNIT {
            lens.push(send);
            lens.drain(..usize::from(self.terse));
        }
        for len in lens {
            let mut new = world.clone();
            new.fresh -= 1;
            new.planned.push(Call {
                xid: 0,
                number: 0,
                len,
                reply,
                is_served: false,
            });
            next.push((["plan", "plan long"][usize::from(len > UNIT)], new));
        }
    }

    fn post(&self, world: &World, next: &mut Next) -> Result<(), String> {
        for place in 0..world.planned.len() {
            self.post_one(world, place, next)?;
        }
        Ok(())
    }

    fn post_one(&self, world: &World, place: usize, next: &mut Next) -> Result<(), String> {
        let call = world.planned[place];
        let mut new = world.clone();
        let limits = self.limits(world, CLIENT);
        if !limits.may_post(call.len) && !self.is(Mistake::ChecksWhenPlanned) {
            let len = limits.send;
            new.planned[place] = Call { len, ..call };
            next.push(("plan again", new));
            return Ok(());
        }
        let number = if self.bare_client {
            (world.calls.len() < self.grant as usize).then_some(0)
        } else {
            new.ends[CLIENT].credits.call()
        };
        let Some(number) = number else {
            return Ok(());
        };
        new.newest += 1;
        let xid = new.newest;
        self.take_xid(world, CLIENT, xid)?;
        new.planned.remove(place);
        new.calls.push(Call {
            xid,
            number,
            ..call
        });
        let (len, reply) = (call.len, call.reply);
        new.links[SERVER].push(Message::Call { xid, len, reply });
        next.push(("post", new));
        Ok(())
    }

    fn reply(&self, world: &World, next: &mut Next) -> Result<(), String> {
        for (place, call) in world.calls.iter().enumerate() {
            if !call.is_served || self.terse && place > 0 {
                continue;
            }
            let mut lens = vec![UNIT];
            lens.extend((call.reply > UNIT && !self.terse).then_some(call.reply));
            for len in lens {
                if len > self.limits(world, SERVER).send {
                    return Err("I5 a reply cannot be delivered".into());
                }
                let mut new = world.clone();
                new.calls[place].is_served = false;
                let xid = call.xid;
                new.links[CLIENT].push(Message::Reply { xid, len });
                next.push((["reply", "reply long"][usize::from(len > UNIT)], new));
            }
        }
        Ok(())
    }

    /// Sends the next operation of an end.
    fn operation(&self, world: &World, at: usize, next: &mut Next) -> Result<(), String> {
        if !self.is_ours(at) {
            return Ok(());
        }
        let mut new = world.clone();
        let newest = if at == CLIENT { world.newest } else { 0 };
        let newest = newest ^ u32::from(self.is(Mistake::XidsOfCalls)) << 31;
        let live = |xid| at == CLIENT && world.calls.iter().any(|call| call.xid == xid);
        let end = &mut new.ends[at];
        let grant = end.credits.grant;
        if self.is(Mistake::TakesLastCredit) {
            end.credits.grant += 1;
        }
        let sent = end.next(newest, live);
        end.credits.grant = grant;
        let Some((xid, operation)) = sent else {
            self.confirm(world, at, next);
            return Ok(());
        };
        self.seed_sent(end, operation);
        self.take_xid(world, at, xid)?;
        let (name, message) = match operation {
            Operation::Init { size } => {
                let size = Some(size);
                ("INITXCH", Message::Init { xid, size })
            }
            Operation::Request { want } => ("REQXCH", Message::Request { xid, want }),
            Operation::Update { size, finished } => (
                "UPDXCH",
                Message::Update {
                    xid,
                    size,
                    finished,
                },
            ),
        };
        if self.is(Mistake::LateUpdate) && matches!(operation, Operation::Update { .. }) {
            new.delayed[at].push(message);
        } else {
            new.links[1 - at].push(message);
        }
        next.push((name, new));
        Ok(())
    }

    /// Seeds the mistakes at an operation that was sent.
    fn seed_sent(&self, end: &mut End, operation: Operation) {
        match (self.mistake, operation) {
            (Some(Mistake::UsesRequested), Operation::Request { want: Some(want) }) => {
                end.told = want;
            }
            (Some(Mistake::SeveralUnconfirmed), _) => end.credits.unconfirmed = None,
            (Some(Mistake::CountsExtra), Operation::Init { .. } | Operation::Update { .. }) => {
                if let Some(message) = &mut end.credits.unconfirmed {
                    message.holds_credit = true;
                }
            }
            _ => {}
        }
    }

    /// Requests a confirmation, if the waiting update needs one.
    fn confirm(&self, world: &World, at: usize, next: &mut Next) {
        let end = &world.ends[at];
        let waits = end.update.is_some() && end.credits.unconfirmed.is_some();
        if waits && end.confirm == Once::Not {
            let mut new = world.clone();
            new.ends[at].on(Event::Confirm);
            next.push(("confirm", new));
        }
    }

    /// The changes of size, and the loss of the connection.
    pub(super) fn changes(&self, world: &World, next: &mut Next) {
        if world.losses > 0 {
            let mut new = world.clone();
            new.losses -= 1;
            self.connect(&mut new);
            next.push(("loss", new));
        }
        for at in [CLIENT, SERVER] {
            if !self.is_ours(at) {
                continue;
            }
            let size = world.ends[at].size;
            if self.short && matches!(size, Size::Growing { .. }) {
                let mut new = world.clone();
                new.ends[at].on(Event::NoMemory(size.in_force()));
                next.push(("no memory", new));
            }
            if world.changes == 0 {
                continue;
            }
            for units in 1..=self.sizes {
                self.grow(world, at, units * UNIT, next);
                self.ask(world, at, units * UNIT, next);
            }
        }
    }

    fn grow(&self, world: &World, at: usize, to: u32, next: &mut Next) {
        let mut new = world.clone();
        new.changes -= 1;
        let newest = world.completed[at] + world.receives[at].len() as u32;
        let end = &mut new.ends[at];
        if self.is(Mistake::ShrinksUnasked) && to < end.size.in_force() {
            end.size = Size::Steady(to);
            end.update = Some(Announce { finished: false });
            next.push(("shrink", new));
        } else if self.grows[at] && end.size == Size::Steady(end.size.in_force()) {
            end.on(Event::Grow { to, newest });
            let began = end.size != world.ends[at].size;
            if began && self.is(Mistake::AnnouncesAtOnce) {
                end.size = Size::Steady(to);
                end.update = Some(Announce { finished: false });
            }
            if began {
                next.push((["client grows", "server grows"][at], new));
            }
        }
    }

    fn ask(&self, world: &World, at: usize, want: u32, next: &mut Next) {
        let end = &world.ends[at];
        if !self.asks[at] || want == end.told || end.wanted.is_some() {
            return;
        }
        let mut new = world.clone();
        new.changes -= 1;
        let end = &mut new.ends[at];
        if self.is(Mistake::AsksWhilePending) {
            end.requests.pending = None;
        }
        if self.is(Mistake::ServerAsksToShrink) {
            end.wanted = Some(want);
        } else if end.ask(want).is_err() {
            return;
        }
        let names = [
            ["ask to shrink", "ask to grow"],
            ["server asks to shrink", "server asks"],
        ];
        next.push((names[at][usize::from(want > world.ends[at].told)], new));
    }
}
