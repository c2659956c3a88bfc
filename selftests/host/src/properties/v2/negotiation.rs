// SPDX-License-Identifier: GPL-2.0

//! The negotiation of a version, with every kind of server, in every order.
//!
//! Client, server and memory are the module's. Modelled here are the servers that exist, the
//! upper layer with its calls, lost messages and connections, and the time. In all orders:
//!
//! - I3: the calls without an answer do not exceed the grant of the last reply;
//! - I9: negotiation ends within four connections, besides connections that are lost on the way,
//!   and the server serves the version that the client uses;
//! - I10: no call is sent before the version is known, none ends by an error of negotiation, none
//!   is sent twice on one connection, and none is lost;
//! - I11: the memory lowers no peer that has worked with version 2, except by an error; it lowers
//!   one for an hour after an error, for ten minutes after two lost offers, and no longer;
//! - I12: a client of one version never sends the other one.
//!
//! Each mistake that is seeded around the machines breaks one of these.

mod checks;
mod steps;

use crate::{
    figures::{self, walk, Figures},
    module::proto::v2::{
        negotiate::{
            client::{Answer, Client, Event, State},
            server::Server,
            Versions,
        },
        peers::{Note, Peer, Peers},
    },
};

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The module's.
    Ours(Versions),
    /// Version 1 alone: `ERR_VERS` with its own version word or the copied one.
    One { own_word: bool },
    /// Version 1 alone, without an answer to another version.
    Silent,
    /// Version 1, for any version word.
    Ignores,
    /// Version 1, which takes all else for a defect.
    BadHeader,
    /// Another document's version 2, and version 1: it answers the offer with an error, and the
    /// connection has its version then.
    Later,
    /// Both versions, and from one moment on version 1 alone.
    Turns,
    /// Version 1 alone, and from one moment on version 2 alone.
    Upgrades,
    /// Accepts the offer, and refuses every call in version 2.
    Fickle,
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Message {
    Offer,
    Call {
        call: usize,
        version: u32,
    },
    Answer {
        /// The call; `None` if it is that to the offer.
        call: Option<usize>,
        version: u32,
        answer: Answer,
    },
}

/// The progress of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    Waits,
    Sent,
    Done,
}

/// The last notes of the memory, to judge its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Heard {
    /// The time of an error or an answer in version 1, unless version 2 has worked since.
    certain: Option<u64>,
    /// Offers without an answer, in a row, and the time of the last one.
    lost: u8,
    lost_at: u64,
    /// Version 2 has worked, and no error has come since.
    worked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    client: Client,
    /// The state of a server of the module, or the version of another server.
    server: Server,
    other: Option<u32>,
    /// The server has changed its versions.
    turned: bool,
    memory: Peers<1>,
    heard: Heard,
    now: u64,
    to_server: Vec<Message>,
    to_client: Vec<Message>,
    calls: [Call; 2],
    /// The calls that were sent on this connection.
    sent: [bool; 2],
    /// The credits of the client, and the credits that a reply has granted.
    credits: u32,
    granted: u32,
    /// The offer's time limit has not run yet.
    waits: bool,
    connections: u8,
    losses: u8,
    /// Connections that were lost.
    lost: u8,
    /// The times that a while passes.
    whiles: u8,
    /// The attempt has failed: no version in common.
    failed: bool,
}

/// A mistake, by its number in the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    SecondMessage = 21,
    EndsCall = 22,
    NoMemory = 23,
    NoTimeLimit = 24,
    GoesOnAfterOther = 25,
    AnswersInOwnVersion = 26,
    RemembersOneLoss = 27,
    /// The other half of 27, under a number of its own: the memory stays when version 1 is refused.
    KeepsSuspicion = 127,
    /// Not of the design, as all that follow: a loss lowers a peer that has worked with version 2.
    ForgetsThatItWorked = 101,
    SuspectsForAnHour = 102,
    RemembersForEver = 103,
    ForgetsRefusals = 104,
    TakesGrantOfError = 105,
    SendsAgain = 106,
    LosesCalls = 107,
}

const MISTAKES: [Mistake; 15] = [
    Mistake::SecondMessage,
    Mistake::EndsCall,
    Mistake::NoMemory,
    Mistake::NoTimeLimit,
    Mistake::GoesOnAfterOther,
    Mistake::AnswersInOwnVersion,
    Mistake::RemembersOneLoss,
    Mistake::KeepsSuspicion,
    Mistake::ForgetsThatItWorked,
    Mistake::SuspectsForAnHour,
    Mistake::RemembersForEver,
    Mistake::ForgetsRefusals,
    Mistake::TakesGrantOfError,
    Mistake::SendsAgain,
    Mistake::LosesCalls,
];

#[derive(Clone, Copy, Debug)]
struct Model {
    mistake: Option<Mistake>,
    versions: Versions,
    kind: Kind,
}

type Next = figures::Next<World>;

/// The one peer of the memory.
const PEER: Peer = Peer {
    netns: 1,
    address: core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST),
    port: 20_049,
};

const KINDS: [Kind; 12] = [
    Kind::Ours(Versions::One),
    Kind::Ours(Versions::Two),
    Kind::Ours(Versions::Auto),
    Kind::One { own_word: true },
    Kind::One { own_word: false },
    Kind::Silent,
    Kind::Ignores,
    Kind::BadHeader,
    Kind::Later,
    Kind::Turns,
    Kind::Upgrades,
    Kind::Fickle,
];

impl Model {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn own_versions(&self) -> Versions {
        match self.kind {
            Kind::Ours(versions) => versions,
            _ => Versions::One,
        }
    }

    fn world(&self) -> World {
        World {
            client: Client::new(self.versions),
            server: Server::new(self.own_versions()),
            other: None,
            turned: false,
            memory: Peers::new(),
            heard: Heard::default(),
            now: 0,
            to_server: Vec::new(),
            to_client: Vec::new(),
            calls: [Call::Waits; 2],
            sent: [false; 2],
            credits: 1,
            granted: 1,
            waits: false,
            connections: 1,
            losses: 2,
            lost: 0,
            whiles: 2,
            failed: false,
        }
    }

    fn explore(&self) -> Result<Figures, String> {
        walk(self.world(), |world| self.look(world))
    }
}

/// All clients and servers, with this mistake.
fn all(mistake: Option<Mistake>) -> Vec<Model> {
    let versions = [Versions::Auto, Versions::One, Versions::Two];
    let model = |versions| {
        KINDS.map(|kind| Model {
            mistake,
            versions,
            kind,
        })
    };
    versions.into_iter().flat_map(model).collect()
}

// V2-2, V2-5, V2-6, V2-7, V2-9, V2-10, V2-11, V2-12, V2-14, V2-15, V2-16, V2-17, V2-18, V2-19, V2-20,
// V2-62, V2-65, V2-66, V2-67, V2-68, V2-69, V2-71, V2-73: every client and server; each seeded
// mistake is found.
#[test]
fn every_order_is_right_and_every_mistake_is_found() {
    figures::explore("negotiation of a version", &MISTAKES, all, Model::explore);
}
