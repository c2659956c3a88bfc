// SPDX-License-Identifier: GPL-2.0

//! One end of a connection of version 2 that exchanges transport characteristics: the operations
//! that it sends, and the effect of operations that it receives.
//!
//! Both ends are the same type. A caller passes each event to [`End::on`], sends the response that
//! it returns, and then takes operations from [`End::next`], under the lock that orders Sends.
//! After each of both it stores [`End::limits`] in the word that planners read.
//!
//! Nothing outlives the connection: sizes, requests, evidence and credits begin again on the next
//! one, and no operation is sent twice.

mod send;

use super::{
    credits::Credits,
    limits::{
        growth::{
            Announce,
            Asked,
            Disposition,
            Size, //
        },
        usable,
        Limits,
        DEFAULT, //
    },
    pending::{
        xids::Xids,
        Requests, //
    }, //
};

/// The role of an end: the client has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Side {
    Client,
    Server,
}

/// The terms of an end when version 2 is established.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) side: Side,
    /// The credits that it requests in its own direction.
    pub(crate) requested: u32,
    /// The size that the peer's Receives have, as private data promises or version 2 requires.
    pub(crate) told: u32,
    /// The size of its Send buffers.
    pub(crate) buffers: u32,
    /// The size of its posted Receives.
    pub(crate) receive: u32,
    /// The longest reply that it plans before it knows that the peer heeds its size.
    pub(crate) reply: u32,
    /// The largest size that the peer may have by request.
    pub(crate) max: u32,
}

/// The size in a set of characteristics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Entry {
    Absent,
    Value(u32),
    /// Present twice, so that neither counts.
    Twice,
}

/// An event of an end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Version 2 is established, with this credits word.
    Established(u32),
    /// Larger Receives are wanted; `newest` is the number of the last that was posted.
    Grow { to: u32, newest: u32 },
    /// The Receive of this number, and all before it, have completed.
    Completed(u32),
    /// No memory for larger Receives than this.
    NoMemory(u32),
    /// The Send buffers have this size now.
    Buffers(u32),
    /// The two-way message of this number was answered, by an error if without a credits word.
    Answered { number: u32, credits: Option<u32> },
    /// A one-way message waits to be confirmed, and no call comes along.
    Confirm,
    /// `INITXCH` was received; `fixed` if it declares the size to be final.
    Init { size: Entry, fixed: bool },
    /// `REQXCH` was received.
    Requested {
        size: Entry,
        newest: u32,
        relied: u32,
    },
    /// `RESPXCH` was received.
    Responded {
        xid: u32,
        credits: u32,
        size: Disposition,
    },
    /// `UPDXCH` for the size was received.
    Updated { size: u32, finished: bool },
    /// An error was received; `unsupported` if it is `INVAL_OPTION`.
    Refused { xid: u32, unsupported: bool },
}

/// A reason to count an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    /// A second `INITXCH`.
    SecondInit,
    /// A characteristic twice in one set.
    Twice,
    /// A size below the smallest that is possible.
    TooSmall,
    /// The peer's size falls, and nothing was requested.
    Shrinks,
    /// The peer's size changes, which it has excluded.
    Fixed,
    /// An update outside the change that is requested.
    Outside,
    /// An update finishes what is not pending.
    NothingPending,
    /// A response or error without a message of ours.
    Unmatched,
    /// A response with an entry in no subset, or rejected and in another subset.
    Unclear,
    /// A one-way operation with the direction of a reply.
    Direction,
    /// Bytes behind an operation, or bits of a subset beyond its entries.
    Leftover,
}

/// The outcome of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The response to send: the disposition of the entry for the size, if present. All other
    /// entries are rejected.
    pub(crate) respond: Option<Disposition>,
    /// Set if the event is to be counted.
    pub(crate) odd: Option<Odd>,
}

impl Outcome {
    fn odd(odd: Odd) -> Self {
        Self {
            odd: Some(odd),
            ..Self::default()
        }
    }
}

/// An operation to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `INITXCH`, with the size in force.
    Init { size: u32 },
    /// `REQXCH`: for this size, or without entries.
    Request { want: Option<u32> },
    /// `UPDXCH`.
    Update { size: u32, finished: bool },
}

/// The reason why no other size is requested from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAsked {
    /// The peer does not support requests.
    Unsupported,
    /// It has declared its size to be final.
    Fixed,
    /// The size is below the default.
    TooSmall,
    /// Replies to calls that rely on the present size could not be sent.
    ServerShrinks,
}

/// The progress of an operation that is sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Once {
    Not,
    Due,
    Sent,
}

/// The operations that the peer does not support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Unsupported {
    /// `INITXCH`, and so all.
    pub(crate) all: bool,
    pub(crate) request: bool,
    pub(crate) update: bool,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct End {
    pub(crate) side: Side,
    /// The credits of its own direction.
    pub(crate) credits: Credits,
    pub(crate) requests: Requests,
    xids: Xids,
    /// The size of its Receives.
    pub(crate) size: Size,
    /// The size that was announced to the peer last.
    pub(crate) announced: u32,
    /// The size that the peer has taken, if it heeds sizes.
    taken: u32,
    /// The peer has shown that it takes updates.
    takes_updates: bool,
    reply: u32,
    max: u32,
    /// The size that the peer has announced last.
    pub(crate) told: u32,
    buffers: u32,
    /// The peer's `INITXCH` was received.
    pub(crate) knows: bool,
    /// The peer has shown that it uses the size of this end.
    pub(crate) heeds: bool,
    is_fixed: bool,
    unsupported: Unsupported,
    pub(crate) init: Once,
    /// The last one-way message was `UPDXCH`.
    last_was_update: bool,
    /// The update to send.
    pub(crate) update: Option<Announce>,
    /// The size to request.
    pub(crate) wanted: Option<u32>,
    /// The request without entries that confirms the one-way message.
    pub(crate) confirm: Once,
}

impl End {
    /// An end on a new connection.
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            side: setup.side,
            credits: Credits::new(setup.requested),
            requests: Requests::default(),
            xids: Xids::default(),
            size: Size::Steady(setup.receive),
            announced: setup.reply,
            taken: setup.reply,
            takes_updates: false,
            reply: setup.reply,
            max: setup.max,
            told: setup.told,
            buffers: setup.buffers,
            knows: false,
            heeds: false,
            is_fixed: false,
            unsupported: Unsupported::default(),
            init: Once::Not,
            last_was_update: false,
            update: None,
            wanted: None,
            confirm: Once::Not,
        }
    }

    /// The limits in force.
    pub(crate) fn limits(&self) -> Limits {
        let cap = self.requests.cap().unwrap_or(u32::MAX);
        Limits {
            send: self.told.min(self.buffers).min(cap),
            reply: if self.heeds { self.taken } else { self.reply },
        }
    }

    /// Requests another size of the peer's Receives, when a credit and earlier requests permit.
    ///
    /// # Errors
    ///
    /// The reason why it is never requested.
    pub(crate) fn ask(&mut self, want: u32) -> Result<(), NotAsked> {
        self.wanted = Some(self.may_ask(want)?);
        Ok(())
    }

    /// The size to request for `want`.
    ///
    /// # Errors
    ///
    /// As [`Self::ask`].
    pub(crate) fn may_ask(&self, want: u32) -> Result<u32, NotAsked> {
        let want = want & !3;
        if self.unsupported.all || self.unsupported.request {
            return Err(NotAsked::Unsupported);
        }
        if self.is_fixed {
            return Err(NotAsked::Fixed);
        }
        if want < DEFAULT {
            return Err(NotAsked::TooSmall);
        }
        if self.side == Side::Server && want < self.told {
            return Err(NotAsked::ServerShrinks);
        }
        Ok(want)
    }

    /// Takes an event.
    pub(crate) fn on(&mut self, event: Event) -> Outcome {
        match event {
            Event::Established(credits) => self.established(credits),
            Event::Grow { to, newest } => {
                self.size.grow(to, newest, false);
            }
            Event::Completed(number) => self.announce(Size::completed, number),
            Event::NoMemory(reach) => self.announce(Size::no_memory, reach),
            Event::Buffers(size) => self.buffers = size,
            Event::Answered { number, credits } => self.answered(number, credits),
            Event::Confirm => self.wants_confirmation(),
            Event::Init { size, fixed } => return self.initialized(size, fixed),
            Event::Requested {
                size,
                newest,
                relied,
            } => return self.requested(size, newest, relied),
            Event::Responded { xid, credits, size } => {
                return self.responded(xid, Some(credits), size)
            }
            Event::Updated { size, finished } => return self.updated(size, finished),
            Event::Refused { xid, unsupported } => return self.refused(xid, unsupported),
        }
        Outcome::default()
    }

    /// Sends no operation.
    pub(crate) fn be_silent(&mut self) {
        self.unsupported.all = true;
    }

    fn established(&mut self, credits: u32) {
        self.credits.granted(credits);
        // The server's `INITXCH` answers the client's.
        if self.side == Side::Client {
            self.init = Once::Due;
        }
    }

    /// Changes the size, and notes the update that this calls for.
    fn announce(&mut self, change: impl Fn(&mut Size, u32) -> Option<Announce>, number: u32) {
        if let Some(Announce { finished }) = change(&mut self.size, number) {
            let finished = finished || self.update.is_some_and(|update| update.finished);
            self.update = Some(Announce { finished });
        }
    }

    fn answered(&mut self, number: u32, credits: Option<u32>) {
        let waited = self.credits.unconfirmed.is_some();
        self.credits.answered(number, credits);
        if waited && self.credits.unconfirmed.is_none() {
            // No error has come before it, so the peer has taken the size.
            self.taken = self.announced;
        }
    }

    fn wants_confirmation(&mut self) {
        if self.credits.unconfirmed.is_some() && self.confirm == Once::Not {
            self.confirm = Once::Due;
        }
    }

    /// Takes the size that the peer announces.
    fn take(&mut self, size: u32) -> Option<Odd> {
        let Some(size) = usable(size) else {
            return Some(Odd::TooSmall);
        };
        let odd = if self.is_fixed && size != self.told {
            Some(Odd::Fixed)
        } else if self.requests.is_outside(size) {
            Some(Odd::Outside)
        } else if size < self.told && self.requests.wanted().is_none() && self.heeds {
            Some(Odd::Shrinks)
        } else {
            None
        };
        self.told = size;
        odd
    }

    fn initialized(&mut self, size: Entry, fixed: bool) -> Outcome {
        let first = !core::mem::replace(&mut self.knows, true);
        self.credits.peer_has_extra();
        if self.side == Side::Server && self.init == Once::Not {
            self.init = Once::Due;
        }
        let odd = match size {
            Entry::Absent => None,
            Entry::Twice => Some(Odd::Twice),
            Entry::Value(size) => {
                let odd = self.take(size);
                self.heeds = true;
                self.is_fixed |= fixed;
                odd
            }
        };
        let second = (!first).then_some(Odd::SecondInit);
        Outcome {
            odd: second.or(odd),
            ..Outcome::default()
        }
    }

    fn requested(&mut self, size: Entry, newest: u32, relied: u32) -> Outcome {
        // An end that sends requests supports updates.
        self.takes_updates = true;
        let (respond, odd) = match size {
            Entry::Absent => (Disposition::Rejected, None),
            Entry::Twice => (Disposition::Rejected, Some(Odd::Twice)),
            Entry::Value(size) => {
                self.heeds = true;
                (self.asked(size, newest, relied), None)
            }
        };
        Outcome {
            respond: Some(respond),
            odd,
        }
    }

    fn asked(&mut self, size: u32, newest: u32, relied: u32) -> Disposition {
        let asked = Asked {
            size,
            newest,
            relied,
        };
        let (disposition, announce) = self.size.asked(asked, self.max);
        // A response that is sent later must not raise what replies are planned by.
        if disposition == Disposition::Done && size <= self.announced {
            self.announced = size;
            self.taken = self.taken.min(size);
            self.update = self.update.filter(|update| update.finished);
        }
        if announce.is_some() {
            self.update = announce;
        }
        disposition
    }

    fn responded(&mut self, xid: u32, credits: Option<u32>, size: Disposition) -> Outcome {
        let Some(settled) = self.requests.responded(xid, self.told, size) else {
            return Outcome::odd(Odd::Unmatched);
        };
        self.told = settled.told;
        self.answered(settled.number, credits);
        if !settled.changes {
            return Outcome::default();
        }
        match size {
            Disposition::Done | Disposition::Pending => self.heeds = true,
            Disposition::Rejected => {}
            Disposition::Unclear => return Outcome::odd(Odd::Unclear),
        }
        Outcome::default()
    }

    fn updated(&mut self, size: u32, finished: bool) -> Outcome {
        self.heeds = true;
        self.takes_updates = true;
        let odd = self.take(size);
        let nothing = (finished && !self.requests.finished()).then_some(Odd::NothingPending);
        Outcome {
            odd: odd.or(nothing),
            ..Outcome::default()
        }
    }

    fn refused(&mut self, xid: u32, unsupported: bool) -> Outcome {
        if self.credits.refused(xid) {
            if self.last_was_update {
                self.unsupported.update |= unsupported;
            } else {
                self.unsupported.all |= unsupported;
            }
            return Outcome::default();
        }
        let outcome = self.responded(xid, None, Disposition::Rejected);
        if outcome.odd.is_none() {
            self.unsupported.request |= unsupported;
        }
        outcome
    }
}
