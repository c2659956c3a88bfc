// SPDX-License-Identifier: GPL-2.0

//! The arrival of messages.

use super::*;
use crate::module::proto::v2::{
    end::{Entry, Event},
    limits::growth::Size,
};

impl Model {
    /// The first message on a link arrives, its Receive completes, and another is posted.
    pub(super) fn deliver(&self, world: &World, at: usize, next: &mut Next) -> Result<(), String> {
        let Some((&message, rest)) = world.links[at].split_first() else {
            return Ok(());
        };
        let mut new = world.clone();
        new.links[at] = rest.to_vec();
        let size = new.receives[at].remove(0);
        if message.len() > size {
            return Err(format!(
                "I1 a message of {} units meets a Receive of {}",
                message.len() / UNIT,
                size / UNIT
            ));
        }
        new.completed[at] += 1;
        if self.is_ours(at) {
            self.handle(&mut new, at, message);
            new.ends[at].on(Event::Completed(new.completed[at]));
            let to_post = new.ends[at].size.to_post();
            new.receives[at].push(if self.is(Mistake::PostsReturned) {
                size
            } else {
                to_post
            });
        } else {
            self.handle_foreign(&mut new, at, message);
            new.receives[at].push(size);
        }
        next.push((["to the client", "to the server"][at], new));
        Ok(())
    }

    /// An end of the module takes a message.
    fn handle(&self, new: &mut World, at: usize, message: Message) {
        match message {
            Message::Call { xid, .. } => Self::serve(new, xid),
            Message::Reply { xid, .. } => {
                let number = Self::replied(new, xid);
                self.answered(&mut new.ends[at], number);
            }
            Message::Init { size, .. } => {
                let size = size.map_or(Entry::Absent, Entry::Value);
                new.ends[at].on(Event::Init { size, fixed: false });
                if self.is(Mistake::InitIsEvidence) {
                    new.ends[at].heeds = true;
                }
            }
            Message::Request { xid, want } => self.requested(new, at, xid, want),
            Message::Response { xid, size } => {
                let credits = self.grant_of(at);
                self.confirm_early(&mut new.ends[at], None);
                new.ends[at].on(Event::Responded { xid, credits, size });
            }
            Message::Update { size, finished, .. } => {
                self.updated(&mut new.ends[at], size, finished)
            }
            Message::Error { xid } => {
                let unsupported = true;
                new.ends[at].on(Event::Refused { xid, unsupported });
            }
        }
    }

    /// The grant in the peer's messages to an end.
    fn grant_of(&self, at: usize) -> u32 {
        if at == CLIENT && !self.falls {
            self.grant
        } else {
            1
        }
    }

    fn serve(new: &mut World, xid: u32) {
        let call = new.calls.iter_mut().find(|call| call.xid == xid);
        call.expect("a call of the client").is_served = true;
    }

    /// Ends a call, and returns its number.
    fn replied(new: &mut World, xid: u32) -> u32 {
        let place = new.calls.iter().position(|call| call.xid == xid);
        new.calls
            .remove(place.expect("a call without a reply"))
            .number
    }

    fn answered(&self, end: &mut End, number: u32) {
        self.confirm_early(end, Some(number));
        let credits = Some(self.grant_of(CLIENT));
        end.on(Event::Answered { number, credits });
        if self.is(Mistake::GrantFallsBelow) {
            end.credits.grant = self.grant_of(CLIENT);
        }
    }

    /// Seeds the mistake that the answer to any message confirms.
    fn confirm_early(&self, end: &mut End, number: Option<u32>) {
        let number = number.or(end.requests.open.map(|open| open.number));
        if let (Some(message), Some(number), true) = (
            &mut end.credits.unconfirmed,
            number,
            self.is(Mistake::ConfirmsByEarlier),
        ) {
            message.mark = number - 1;
        }
    }

    fn requested(&self, new: &mut World, at: usize, xid: u32, want: Option<u32>) {
        let newest = new.completed[at] + new.receives[at].len() as u32;
        let calls = new.calls.iter().chain(&new.planned);
        let relied = match at {
            CLIENT => calls.map(|call| call.reply).max().unwrap_or(0),
            _ => 0,
        };
        let end = &mut new.ends[at];
        let outcome = end.on(Event::Requested {
            size: want.map_or(Entry::Absent, Entry::Value),
            newest,
            relied,
        });
        let mut size = outcome.respond.expect("a response to each request");
        if size == Disposition::Pending && self.is(Mistake::DoneWhenBegun) {
            size = Disposition::Done;
            end.size = Size::Steady(end.size.to_post());
        }
        let response = Message::Response { xid, size };
        if self.delays {
            new.delayed[at].push(response);
        } else {
            new.links[1 - at].push(response);
        }
    }

    fn updated(&self, end: &mut End, size: u32, finished: bool) {
        end.on(Event::Updated { size, finished });
        if let Some(open) = &mut end.requests.open {
            if self.is(Mistake::ForgetsFinished) {
                open.is_finished = false;
            }
            let grows = open.change.is_some_and(|change| change.want > change.old);
            if self.is(Mistake::UpdateLiftsCap) || grows && self.is(Mistake::NoCapOnGrowth) {
                open.change = None;
            }
        }
    }

    /// Another end takes a message.
    fn handle_foreign(&self, new: &mut World, at: usize, message: Message) {
        let answer = match (message, self.peer) {
            (Message::Call { xid, .. }, _) => {
                Self::serve(new, xid);
                None
            }
            (Message::Reply { xid, .. }, _) => {
                Self::replied(new, xid);
                None
            }
            // A client without the extension answers nothing here.
            _ if at == CLIENT => None,
            (Message::Init { .. }, Peer::Mute) => None,
            (Message::Init { size, .. }, Peer::NoSize | Peer::InitAlone) => {
                if let (Some(size), Peer::InitAlone) = (size, self.peer) {
                    new.ends[at].told = size;
                }
                let size = (self.peer == Peer::InitAlone).then_some(UNIT);
                let first = !std::mem::replace(&mut new.stub_init, true);
                first.then_some(Message::Init { xid: 1, size })
            }
            (Message::Request { xid, want }, Peer::NoSize) => {
                let size = match want {
                    Some(_) => Disposition::Rejected,
                    None => Disposition::Unclear,
                };
                Some(Message::Response { xid, size })
            }
            (Message::Update { .. }, Peer::NoSize) => None,
            (
                Message::Init { xid, .. }
                | Message::Request { xid, .. }
                | Message::Update { xid, .. },
                _,
            ) => Some(Message::Error { xid }),
            (Message::Response { .. } | Message::Error { .. }, _) => None,
        };
        new.links[1 - at].extend(answer);
    }
}
