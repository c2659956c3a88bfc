// SPDX-License-Identifier: GPL-2.0

//! The effect of received operations on an exchange.

use super::{
    super::{
        super::neutral::{
            Optional,
            Value, //
        },
        characteristics::{
            Entry,
            Found,
            Set,
            Subset,
            BKREQSUP_NONE,
            BRS,
            RBSIZ,
            REQREMINV, //
        },
        end::{
            self,
            Event, //
        },
        limits::growth::Disposition,
        operations::{
            self,
            Operation, //
        }, //
    },
    operation,
    Effect,
    Exchange,
    Response, //
};

impl Exchange {
    /// Takes an operation. `relied` is the longest reply that calls rely on.
    pub(crate) fn receive(&mut self, arrived: &Optional<'_>, relied: u32) -> Effect {
        let Optional { xid, credits, .. } = *arrived;
        let Some((operation, ignored)) = operation(arrived) else {
            return Effect::default();
        };
        let effect = match operation {
            Operation::Initxch { start, nochg } => self.announced(&start, &nochg),
            Operation::Reqxch { want } => self.requested_by_peer(xid, &want, relied),
            Operation::Respxch(response) => self.responded(xid, credits, &response),
            Operation::Updxch { now, pendclr } => self.updated(&now, pendclr),
        };
        Effect {
            odd: effect.odd.or(ignored),
            ..effect
        }
    }

    /// The peer has announced its characteristics.
    fn announced(&mut self, start: &Set<'_>, nochg: &Subset<'_>) -> Effect {
        let fixed = match start.find(RBSIZ) {
            Found::Once { at, .. } => nochg.contains(at),
            Found::Absent | Found::Repeated => false,
        };
        let size = size(start);

        self.take_others(start);
        Effect {
            odd: self.end.on(Event::Init { size, fixed }).odd,
            ..Effect::default()
        }
    }

    /// The peer requests a change of own characteristics.
    fn requested_by_peer(&mut self, xid: u32, want: &Set<'_>, relied: u32) -> Effect {
        // The subsets of a response have no place for more.
        let size = if want.len() > Response::MOST {
            end::Entry::Absent
        } else {
            size(want)
        };
        let newest = self.next_edition();
        let outcome = self.end.on(Event::Requested {
            size,
            newest,
            relied,
        });

        if let (end::Entry::Value(size), Some(Disposition::Done | Disposition::Pending)) =
            (size, outcome.respond)
        {
            self.longest_reply = self.longest_reply.max(size);
        }
        let at = match want.find(RBSIZ) {
            Found::Once { at, .. } => Some(at),
            Found::Absent | Found::Repeated => None,
        };
        Effect {
            respond: Some(Response {
                xid,
                entries: want.len(),
                size: at.zip(outcome.respond),
            }),
            odd: outcome.odd,
            ..Effect::default()
        }
    }

    /// The peer has responded to a request of this end.
    fn responded(&mut self, xid: u32, credits: u32, response: &operations::Response<'_>) -> Effect {
        let is_response = self.end.requests.open.is_some_and(|open| open.xid == xid);
        let size = Disposition::of(
            response.done.contains(0),
            response.rej.contains(0),
            response.pend.contains(0),
        );

        Effect {
            is_response,
            odd: self.end.on(Event::Responded { xid, credits, size }).odd,
            ..Effect::default()
        }
    }

    /// A characteristic of the peer has changed.
    fn updated(&mut self, now: &Entry<'_>, finished: bool) -> Effect {
        let odd = match now.value {
            Value::Word(size) if now.id == RBSIZ => {
                self.end.on(Event::Updated { size, finished }).odd
            }
            _ => None,
        };

        Effect {
            odd,
            ..Effect::default()
        }
    }

    /// Takes the characteristics besides the size.
    fn take_others(&mut self, start: &Set<'_>) {
        if let Found::Once {
            value: Value::Flag(invalidates),
            ..
        } = start.find(REQREMINV)
        {
            self.peer_invalidates = invalidates;
        }
        if let Found::Once {
            value: Value::Choice(reverse),
            ..
        } = start.find(BRS)
        {
            self.peer_reverse = reverse != BKREQSUP_NONE;
        }
    }
}

/// The size in a set.
fn size(set: &Set<'_>) -> end::Entry {
    match set.find(RBSIZ) {
        Found::Once {
            value: Value::Word(size),
            ..
        } => end::Entry::Value(size),
        Found::Repeated => end::Entry::Twice,
        Found::Absent | Found::Once { .. } => end::Entry::Absent,
    }
}
