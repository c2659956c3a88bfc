// SPDX-License-Identifier: GPL-2.0

//! The client's side: one offer on each connection, and what follows from its answer.
//!
//! ```text
//!     Connected --- the rule or the memory requires version 1 ---> Up(1)
//!     Connected --- otherwise: NULL in version 2 ---> Offered
//!     Offered   --- answer in version 2 ---> Up(2)
//!     Offered   --- ERR_VERS with 1, BAD_HEADER, answer in version 1 ---> Up(1)
//!     Offered   --- ERR_VERS without 1 ---> Over, no retry
//!     Offered   --- another error, lost, no answer in time ---> Over, again on a new connection
//! ```
//!
//! The offer is never repeated on its connection: a late answer to the first would be taken for an
//! answer to the second. No call of the upper layer is sent before the state is `Up`.

use super::{
    super::{
        super::{
            incoming::Incoming,
            neutral::Rejection,
            prefix::{
                Prefix,
                Proc, //
            },
            wire::Wire,
            xdr::Reader, //
        },
        header::{
            Body,
            DecodeError,
            Header, //
        },
        peers::Note, //
    },
    Versions, //
};

/// The state of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum State {
    /// Nothing was sent.
    Connected,
    /// The offer of this xid has no answer.
    Offered { xid: u32 },
    /// The version holds until the connection ends.
    Up { version: u32 },
    /// The connection ends.
    Over,
}

/// The parts of a message that count here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Answer {
    /// An RPC reply with any status.
    Reply,
    /// `ERR_VERS`, by its place: its version word may be any.
    Versions { low: u32, high: u32 },
    /// The error of code 2.
    BadHeader,
    /// An error of another code.
    OtherError,
}

/// An event of a client's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The connection is made; `xid` is for an offer, and `remembered` is set if the memory of
    /// peers lists this peer as having version 1 alone.
    Connected { xid: u32, remembered: bool },
    /// A message was received, with its version word. In use only messages for live calls.
    Received {
        xid: u32,
        version: u32,
        credits: u32,
        answer: Answer,
    },
    /// The offer was not answered within the time limit of an attempt to connect.
    TimedOut,
    /// The connection is lost.
    Lost,
}

impl Event {
    /// The event that `message` is for a connection with an offer; `None` if it can be no answer to
    /// one.
    pub(crate) fn of(message: &[u8]) -> Option<Self> {
        let Prefix {
            xid,
            version,
            credits,
            code,
        } = Prefix::decode(&mut Reader::new(message))?;
        let is_reply = || match Wire::of(version).map(|wire| wire.receive(message)) {
            Some(Incoming::Reply(_)) => Some(Answer::Reply),
            _ => None,
        };
        let answer = match Proc::from_code(code) {
            // Of any version (V2-13).
            Some(Proc::Error) => match Header::decode(message) {
                Ok(Header {
                    body: Body::Error(rejection),
                    ..
                }) => match rejection {
                    Rejection::Version { low, high } => Answer::Versions { low, high },
                    Rejection::BadHeader => Answer::BadHeader,
                    _ => Answer::OtherError,
                },
                Err(DecodeError::UnknownError { .. }) => Answer::OtherError,
                _ => return None,
            },
            _ => is_reply()?,
        };

        Some(Self::Received {
            xid,
            version,
            credits,
            answer,
        })
    }
}

/// The action of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// None: the event has no meaning in this state.
    Nothing,
    /// Send the offer: procedure 0, version 2, of at most [`super::first_message`] bytes.
    Offer,
    /// Take the connection into use.
    Use { version: u32, credits: u32 },
    /// Handle the message as one of this connection's version.
    Handle,
    /// Drop and count the message.
    Drop,
    /// End the connection, and connect again. Calls are sent again on the next one.
    End,
    /// End the connection: no version in common, so another attempt fails, too.
    Fail,
}

/// The outcome of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) action: Action,
    /// The note for the memory of peers.
    pub(crate) note: Option<Note>,
}

const fn only(action: Action) -> Outcome {
    Outcome { action, note: None }
}

/// A client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Client {
    versions: Versions,
    remembered: bool,
    pub(crate) state: State,
}

impl Client {
    /// A connection that is being made.
    pub(crate) const fn new(versions: Versions) -> Self {
        Self {
            versions,
            remembered: false,
            state: State::Connected,
        }
    }

    /// Takes an event.
    pub(crate) fn on(&mut self, event: Event) -> Outcome {
        match (self.state, event) {
            (State::Connected, Event::Connected { xid, remembered }) => {
                self.connected(xid, remembered)
            }
            (
                State::Offered { xid: own },
                Event::Received {
                    xid,
                    version,
                    credits,
                    answer,
                },
            ) => {
                if xid == own {
                    self.answered(version, credits, answer)
                } else {
                    only(Action::Drop)
                }
            }
            (State::Offered { .. }, Event::TimedOut | Event::Lost) => self.over(Some(Note::Lost)),
            (
                State::Up { version: own },
                Event::Received {
                    version, answer, ..
                },
            ) => self.in_use(own, version, answer),
            (State::Connected | State::Up { .. }, Event::Lost) => self.over(None),
            _ => only(Action::Nothing),
        }
    }

    fn connected(&mut self, xid: u32, remembered: bool) -> Outcome {
        self.remembered = remembered && self.versions == Versions::Auto;
        if self.versions == Versions::One || self.remembered {
            return self.up(1, 1, None);
        }
        self.state = State::Offered { xid };
        only(Action::Offer)
    }

    fn up(&mut self, version: u32, credits: u32, note: Option<Note>) -> Outcome {
        self.state = State::Up { version };
        Outcome {
            action: Action::Use { version, credits },
            note,
        }
    }

    fn over(&mut self, note: Option<Note>) -> Outcome {
        self.state = State::Over;
        Outcome {
            action: Action::End,
            note,
        }
    }

    fn fail(&mut self, note: Option<Note>) -> Outcome {
        self.state = State::Over;
        Outcome {
            action: Action::Fail,
            note,
        }
    }

    /// The peer has version 1. An error's credits word is no grant.
    fn one(&mut self, credits: u32, note: Note) -> Outcome {
        self.remembered = true;
        match self.versions {
            Versions::Two => self.fail(Some(note)),
            Versions::One | Versions::Auto => self.up(1, credits, Some(note)),
        }
    }

    fn answered(&mut self, version: u32, credits: u32, answer: Answer) -> Outcome {
        match answer {
            Answer::Reply if version == 2 => self.up(2, credits, Some(Note::Worked)),
            Answer::Reply if version == 1 => self.one(credits, Note::Version1),
            Answer::Reply => only(Action::Drop),
            Answer::Versions { low, high } if low <= 1 && 1 <= high => self.one(1, Note::Refused),
            Answer::Versions { .. } => self.fail(None),
            Answer::BadHeader => self.one(1, Note::Refused),
            // Another document's version 2 has kept this connection for itself.
            Answer::OtherError if self.versions == Versions::Two => self.fail(Some(Note::Refused)),
            Answer::OtherError => self.over(Some(Note::Refused)),
        }
    }

    fn in_use(&mut self, own: u32, version: u32, answer: Answer) -> Outcome {
        match answer {
            // The peer has changed its mind; it would refuse all other calls, too.
            Answer::Versions { .. } if own == 2 => self.over(Some(Note::Refused)),
            Answer::Versions { low, high } if self.remembered && !(low <= 1 && 1 <= high) => {
                self.over(Some(Note::Version1Refused))
            }
            Answer::Versions { .. } => only(Action::Handle),
            _ if version != own => only(Action::Drop),
            _ => only(Action::Handle),
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_client))]
mod tests {
    use super::{
        super::super::{
            super::vectors::*,
            vectors::*, //
        },
        *, //
    };

    // V2-13, V2-50, V2-65, V2-69: the messages that answer an offer.
    #[test]
    fn answers() {
        let (bare, error) = (Message::new(&TV_V2_2), Message::new(&TV_V2_3));
        let versions = Message::new(&TV_V2_4);
        for (message, answer) in [
            (bare, Some(Answer::Reply)),
            (Message::new(&TV_V1_2), Some(Answer::Reply)),
            (versions, Some(V1)),
            (versions.put(4, 2), Some(V1)),
            (
                versions.put(24, 2),
                Some(Answer::Versions { low: 1, high: 2 }),
            ),
            (error, Some(Answer::OtherError)),
            (error.put(16, 2), Some(Answer::BadHeader)),
            (error.put(16, 4), Some(Answer::OtherError)),
            (versions.cut(24), None),
            (error.cut(16), None),
            (bare.put(4, 3), None),
            (bare.cut(15), None),
            (Message::new(&TV_V2_1), None),
        ] {
            let found = match Event::of(message.bytes()) {
                Some(Event::Received {
                    xid,
                    version,
                    answer,
                    ..
                }) => {
                    assert_eq!((xid, version), (message.word(0), message.word(4)));
                    Some(answer)
                }
                _ => None,
            };
            assert_eq!(found, answer);
        }
    }

    const V1: Answer = Answer::Versions { low: 1, high: 1 };
    const V2: Answer = Answer::Versions { low: 2, high: 2 };

    fn connected(versions: Versions, remembered: bool) -> (Client, Outcome) {
        let mut client = Client::new(versions);
        let xid = 7;
        let outcome = client.on(Event::Connected { xid, remembered });
        (client, outcome)
    }

    fn received(client: &mut Client, version: u32, answer: Answer) -> Outcome {
        client.on(Event::Received {
            xid: 7,
            version,
            credits: 128,
            answer,
        })
    }

    /// The outcome of this answer to an offer, and the state after it.
    fn after(versions: Versions, version: u32, answer: Answer) -> (Action, Option<Note>, State) {
        let (mut client, first) = connected(versions, false);
        assert_eq!(first, only(Action::Offer));
        let Outcome { action, note } = received(&mut client, version, answer);
        (action, note, client.state)
    }

    // V2-1, V2-2, V2-3, V2-62, V2-71: the offer, unless the rule or the memory requires version 1.
    #[test]
    fn offers() {
        let use_one = only(Action::Use {
            version: 1,
            credits: 1,
        });
        for (versions, remembered, outcome) in [
            (Versions::One, false, use_one),
            (Versions::One, true, use_one),
            (Versions::Auto, true, use_one),
            (Versions::Auto, false, only(Action::Offer)),
            (Versions::Two, false, only(Action::Offer)),
            (Versions::Two, true, only(Action::Offer)),
        ] {
            assert_eq!(connected(versions, remembered).1, outcome);
        }
    }

    // V2-7, V2-65: any reply in version 2.
    #[test]
    fn version_2() {
        for versions in [Versions::Two, Versions::Auto] {
            let (version, credits) = (2, 128);
            let used = Action::Use { version, credits };
            let expected = (used, Some(Note::Worked), State::Up { version });
            assert_eq!(after(versions, 2, Answer::Reply), expected);
        }
    }

    // V2-9..V2-13, V2-16, V2-66: version 1 on the same connection. An error's credits are no grant.
    #[test]
    fn version_1() {
        let range = Answer::Versions { low: 1, high: 2 };
        for (word, answer, granted, note) in [
            (1, V1, 1, Note::Refused),
            (2, V1, 1, Note::Refused),
            (2, range, 1, Note::Refused),
            (1, Answer::BadHeader, 1, Note::Refused),
            (2, Answer::BadHeader, 1, Note::Refused),
            (1, Answer::Reply, 128, Note::Version1),
        ] {
            let (version, credits) = (1, granted);
            let used = Action::Use { version, credits };
            let expected = (used, Some(note), State::Up { version });
            assert_eq!(after(Versions::Auto, word, answer), expected);
            let failed = (Action::Fail, Some(note), State::Over);
            assert_eq!(after(Versions::Two, word, answer), failed);
        }
    }

    // V2-11, V2-66: no version in common.
    #[test]
    fn nothing_in_common() {
        for (low, high) in [(3, 5), (2, 1), (2, 2), (0, 0), (u32::MAX, 0)] {
            let answer = Answer::Versions { low, high };
            for versions in [Versions::Two, Versions::Auto] {
                let expected = (Action::Fail, None, State::Over);
                assert_eq!(after(versions, 2, answer), expected);
            }
        }
    }

    // V2-69: another document's version 2.
    #[test]
    fn another_version_2() {
        for (versions, action) in [(Versions::Auto, Action::End), (Versions::Two, Action::Fail)] {
            let expected = (action, Some(Note::Refused), State::Over);
            assert_eq!(after(versions, 2, Answer::OtherError), expected);
        }
    }

    // V2-5, V2-14, V2-15, V2-16: nothing else is sent, and the time is limited.
    #[test]
    fn without_an_answer() {
        for event in [Event::TimedOut, Event::Lost] {
            let (mut client, _) = connected(Versions::Auto, false);
            let foreign = Event::Received {
                xid: 8,
                version: 2,
                credits: 1,
                answer: Answer::OtherError,
            };
            assert_eq!(client.on(foreign), only(Action::Drop));
            let (action, note) = (Action::End, Some(Note::Lost));
            assert_eq!(client.on(event), Outcome { action, note });
            // An answer that comes later belongs to a connection that is over.
            assert_eq!(
                received(&mut client, 2, Answer::Reply),
                only(Action::Nothing)
            );
        }
    }

    // V2-17, V2-18: another version is dropped.
    #[test]
    fn the_version_holds() {
        for (remembered, own, other) in [(false, 2, 1), (true, 1, 2)] {
            let (mut client, _) = connected(Versions::Auto, remembered);
            if !remembered {
                received(&mut client, 2, Answer::Reply);
            }
            let reply = received(&mut client, other, Answer::Reply);
            assert_eq!(reply, only(Action::Drop));
            let reply = received(&mut client, own, Answer::Reply);
            assert_eq!(reply, only(Action::Handle));
            let version = own;
            assert_eq!(client.state, State::Up { version });
            assert_eq!(client.on(Event::TimedOut), only(Action::Nothing));
            assert_eq!(client.on(Event::Lost), only(Action::End));
        }
    }

    // V2-67: a peer that refuses version 2 later. V2-71: one that refuses version 1.
    #[test]
    fn refused_in_use() {
        let (mut client, _) = connected(Versions::Auto, false);
        received(&mut client, 2, Answer::Reply);
        let (action, note) = (Action::End, Some(Note::Refused));
        assert_eq!(received(&mut client, 2, V1), Outcome { action, note });

        let (mut client, _) = connected(Versions::Auto, true);
        assert_eq!(received(&mut client, 1, V1), only(Action::Handle));
        let note = Some(Note::Version1Refused);
        assert_eq!(received(&mut client, 1, V2), Outcome { action, note });

        // By the rule it is an error of version 1.
        let (mut client, _) = connected(Versions::One, false);
        assert_eq!(received(&mut client, 1, V2), only(Action::Handle));
    }
}
