// SPDX-License-Identifier: GPL-2.0

//! The steps of client, server and time.

use super::*;
use crate::module::proto::v2::negotiate::{
    client::{self, Action},
    server,
};

/// The credits words of a reply and of an error; the latter is no grant.
const GRANT: u32 = 2;
const NO_GRANT: u32 = 16;

const ONE: Answer = Answer::Versions { low: 1, high: 1 };
const TWO: Answer = Answer::Versions { low: 2, high: 2 };

impl Model {
    /// The steps of client and server.
    pub(super) fn progress(&self, world: &World) -> Result<Next, String> {
        let mut next = Next::new();
        if world.failed {
            return Ok(next);
        }
        match world.client.state {
            State::Connected => self.connected(world, &mut next)?,
            State::Offered { .. } => {
                let quiet = world.to_server.is_empty() && world.to_client.is_empty();
                // The limit is longer than any answer takes that comes.
                if world.waits && quiet && !self.is(Mistake::NoTimeLimit) {
                    let mut new = world.clone();
                    self.event(&mut new, Event::TimedOut, None)?;
                    next.push(("time limit", new));
                }
                if self.is(Mistake::SecondMessage) {
                    self.call(world, 2, &mut next)?;
                }
            }
            State::Up { version } => self.call(world, version, &mut next)?,
            State::Over => {
                let mut new = world.clone();
                self.reconnect(&mut new);
                next.push(("connect again", new));
            }
        }
        self.to_server(world, &mut next)?;
        self.to_client(world, &mut next)?;
        Ok(next)
    }

    fn connected(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        let now = if self.is(Mistake::RemembersForEver) {
            0
        } else {
            world.now
        };
        let remembered = world.memory.version_1(&PEER, now).is_some();
        self.check_memory(world, remembered)?;
        let xid = 7;
        self.event(&mut new, Event::Connected { xid, remembered }, None)?;
        next.push(("connected", new));
        Ok(())
    }

    /// Sends the first waiting call, if a credit is free.
    fn call(&self, world: &World, version: u32, next: &mut Next) -> Result<(), String> {
        let sent = world.calls.iter().filter(|&&call| call == Call::Sent);
        if sent.count() >= world.credits as usize {
            return Ok(());
        }
        let Some(call) = world.calls.iter().position(|&call| call == Call::Waits) else {
            return Ok(());
        };
        if !matches!(world.client.state, State::Up { .. }) {
            return Err("I10 a call is sent before the version is known".into());
        }
        if world.sent[call] {
            return Err("I10 a call is sent twice on one connection".into());
        }
        let mut new = world.clone();
        new.calls[call] = Call::Sent;
        new.sent[call] = true;
        new.to_server.push(Message::Call { call, version });
        next.push(("call", new));
        Ok(())
    }

    fn reconnect(&self, new: &mut World) {
        new.client = Client::new(self.versions);
        new.server = Server::new(self.own_versions());
        new.other = None;
        new.sent = [false; 2];
        (new.credits, new.granted) = (1, 1);
        new.connections += 1;
    }

    /// The steps of all else: the connection is lost, the server changes, time passes.
    pub(super) fn surroundings(&self, world: &World, next: &mut Next) {
        if world.failed {
            return;
        }
        if world.losses > 0 && world.client.state != State::Over {
            let mut new = world.clone();
            new.losses -= 1;
            new.lost += 1;
            // No part of a loss is an error.
            if self.event(&mut new, Event::Lost, None).is_ok() {
                next.push(("loss", new));
            }
        }
        if matches!(self.kind, Kind::Turns | Kind::Upgrades) && !world.turned {
            let mut new = world.clone();
            new.turned = true;
            next.push(("the server changes", new));
        }
        if world.client.state == State::Over && world.whiles > 0 {
            for (name, seconds) in [("ten minutes", 600), ("an hour", 3600)] {
                let mut new = world.clone();
                new.whiles -= 1;
                new.now += seconds;
                (new.connections, new.lost) = (1, 0);
                next.push((name, new));
            }
        }
    }

    /// The client takes an event, which may be the answer to a call.
    fn event(&self, new: &mut World, event: Event, call: Option<usize>) -> Result<(), String> {
        let client::Outcome { action, note } = new.client.on(event);
        if let Some(note) = note {
            self.note(new, note);
        }
        match self.instead(new, event, action, call) {
            Action::Offer => {
                new.waits = true;
                new.to_server.push(Message::Offer);
            }
            Action::Use { credits, .. } => new.credits = credits,
            Action::Fail if self.has_common(new) => {
                return Err("I9 no version, although there is one".into())
            }
            Action::Fail => {
                new.failed = true;
                self.end(new);
            }
            Action::End if self.is(Mistake::SendsAgain) && call.is_some() => {
                new.client.state = State::Up { version: 1 };
                self.end(new);
            }
            Action::End => self.end(new),
            Action::Handle => self.handled(new, event, call)?,
            Action::Nothing | Action::Drop => {}
        }
        Ok(())
    }

    /// Seeds the mistakes at an answer: the action that is taken instead.
    fn instead(
        &self,
        new: &mut World,
        event: Event,
        action: Action,
        call: Option<usize>,
    ) -> Action {
        let Event::Received {
            version,
            credits,
            answer,
            ..
        } = event
        else {
            return action;
        };
        match (self.mistake, action) {
            (Some(Mistake::GoesOnAfterOther), Action::End)
                if answer == Answer::OtherError && version == 2 =>
            {
                let (version, credits) = (1, 1);
                new.client.state = State::Up { version };
                Action::Use { version, credits }
            }
            (Some(Mistake::EndsCall), Action::End) if call.is_some() => Action::Handle,
            (Some(Mistake::TakesGrantOfError), Action::Use { version, .. }) => {
                Action::Use { version, credits }
            }
            _ => action,
        }
    }

    /// Messages on their way are dropped, and all calls without a reply wait for another connection.
    fn end(&self, new: &mut World) {
        new.to_server.clear();
        new.to_client.clear();
        for call in &mut new.calls {
            if *call == Call::Sent && !self.is(Mistake::LosesCalls) {
                *call = Call::Waits;
            }
        }
    }

    fn note(&self, new: &mut World, note: Note) {
        let was_lost = new.heard.lost > 0 && !new.heard.worked;
        new.heard.note(note, new.now);
        let notes: &[Note] = match (self.mistake, note) {
            (Some(Mistake::NoMemory), Note::Lost) => &[],
            (Some(Mistake::ForgetsRefusals), Note::Refused) => &[],
            (Some(Mistake::RemembersOneLoss), Note::Lost) => &[Note::Lost, Note::Lost],
            (Some(Mistake::KeepsSuspicion), Note::Version1Refused) => &[],
            (Some(Mistake::SuspectsForAnHour), Note::Lost) if was_lost => &[Note::Refused],
            (Some(Mistake::ForgetsThatItWorked), Note::Lost) => {
                new.memory.forget(|_| true);
                &[Note::Lost, Note::Lost]
            }
            _ => &[note],
        };
        for &note in notes {
            new.memory.note(&PEER, note, new.now);
        }
    }

    /// The client handles a message as one of its version.
    fn handled(&self, new: &mut World, event: Event, call: Option<usize>) -> Result<(), String> {
        let (
            Event::Received {
                answer, credits, ..
            },
            Some(call),
        ) = (event, call)
        else {
            return Ok(());
        };
        // With nothing in common, version 1 by the rule ends as it always has.
        let is_rule = self.versions == Versions::One && !self.has_common(new);
        match answer {
            Answer::Reply => {
                new.calls[call] = Call::Done;
                (new.credits, new.granted) = (credits, credits);
            }
            _ if is_rule => new.failed = true,
            _ => return Err("I10 a call ends by an error of negotiation".into()),
        }
        Ok(())
    }

    fn to_client(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let Some((message, rest)) = world.to_client.split_first() else {
            return Ok(());
        };
        let Message::Answer {
            call,
            version,
            answer,
        } = *message
        else {
            return Ok(());
        };
        let mut new = world.clone();
        new.to_client = rest.to_vec();
        let is_reply = answer == Answer::Reply;
        let credits = if is_reply { GRANT } else { NO_GRANT };
        if is_reply {
            new.granted = credits;
        }
        let event = Event::Received {
            xid: if call.is_some() { 8 } else { 7 },
            version,
            credits,
            answer,
        };
        self.event(&mut new, event, call)?;
        next.push(("to the client", new));
        Ok(())
    }

    fn to_server(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let Some((&message, rest)) = world.to_server.split_first() else {
            return Ok(());
        };
        let mut new = world.clone();
        new.to_server = rest.to_vec();
        let (call, word) = match message {
            Message::Call { call, version } => (Some(call), version),
            Message::Offer | Message::Answer { .. } => (None, 2),
        };
        if let Some((version, answer)) = self.answer(&mut new, call.is_some(), word) {
            let served = answer == Answer::Reply && call.is_some();
            if served && world.client.state != (State::Up { version: word }) {
                return Err("I9 a call is served in another version than used".into());
            }
            new.to_client.push(Message::Answer {
                call,
                version,
                answer,
            });
        }
        next.push(("to the server", new));
        Ok(())
    }

    /// The answer of the server: its version word, and its kind.
    fn answer(&self, new: &mut World, to_call: bool, word: u32) -> Option<(u32, Answer)> {
        let one = word == 1;
        Some(match self.kind {
            Kind::Ours(versions) => return self.own_answer(new, versions, word),
            Kind::One { own_word: true } if !one => (1, ONE),
            Kind::One { own_word: false } if !one => (word, ONE),
            Kind::Silent if !one => return None,
            Kind::BadHeader if !one => (1, Answer::BadHeader),
            Kind::Later => {
                // The first message fixes the version.
                let fixed = *new.other.get_or_insert(word);
                match (fixed, one) {
                    (1, true) => (1, Answer::Reply),
                    (_, false) => (2, Answer::OtherError),
                    _ => (2, TWO),
                }
            }
            Kind::Turns if !one && !new.turned => (2, Answer::Reply),
            Kind::Turns if !one => (2, ONE),
            Kind::Upgrades if one && new.turned => (1, TWO),
            Kind::Upgrades if !one && new.turned => (2, Answer::Reply),
            Kind::Upgrades if !one => (2, ONE),
            Kind::Fickle if !one && to_call => (2, ONE),
            Kind::Fickle if !one => (2, Answer::Reply),
            _ => (1, Answer::Reply),
        })
    }

    fn own_answer(&self, new: &mut World, versions: Versions, word: u32) -> Option<(u32, Answer)> {
        let version = if self.is(Mistake::AnswersInOwnVersion) {
            versions.range().1
        } else {
            word
        };
        Some(match new.server.received(word, server::Kind::Good) {
            server::Action::Serve => (version, Answer::Reply),
            server::Action::Versions { low, high } => (word, Answer::Versions { low, high }),
            server::Action::BadHeader => (version, Answer::BadHeader),
            server::Action::Drop => return None,
        })
    }
}
