// SPDX-License-Identifier: GPL-2.0

//! Both ends of a connection whose sizes change while calls are on their way, in every order.
//!
//! The ends are the module's. Modelled here are two links that keep their order, the posted
//! Receives of both ends, calls that are planned in one step and posted in another, a responder that
//! replies in any order, and the loss of the connection at any step. Lengths are units of the default
//! size. In all orders:
//!
//! - I1: no message is longer than the Receive that it meets;
//! - I2: the messages on their way to an end do not exceed its posted Receives;
//! - I3: the two-way messages without an answer do not exceed the grant;
//! - I4: no xid is live twice in one space;
//! - I5: every reply can be delivered;
//! - I6: a call that waits finds a step that can be done;
//! - I7: nothing is pending that the peer is not at work on;
//! - I8: when nothing is on its way, no limit exceeds the smallest Receive that is posted.
//!
//! Each mistake that is seeded around the machines breaks one of these.

mod checks;
mod configs;
mod deliver;
mod steps;

use crate::{
    figures::{self, walk, Figures},
    module::proto::v2::{
        end::{End, Setup, Side},
        limits::{growth::Disposition, DEFAULT as UNIT},
    },
};

/// The numbers of the ends.
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// A message on its way. Operations have the length of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Message {
    Call {
        xid: u32,
        len: u32,
        reply: u32,
    },
    Reply {
        xid: u32,
        len: u32,
    },
    Init {
        xid: u32,
        size: Option<u32>,
    },
    Request {
        xid: u32,
        want: Option<u32>,
    },
    Response {
        xid: u32,
        size: Disposition,
    },
    Update {
        xid: u32,
        size: u32,
        finished: bool,
    },
    /// `INVAL_OPTION`.
    Error {
        xid: u32,
    },
}

impl Message {
    fn len(self) -> u32 {
        match self {
            Self::Call { len, .. } | Self::Reply { len, .. } => len,
            _ => UNIT,
        }
    }
}

/// A call without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Call {
    xid: u32,
    /// Its number among the two-way messages; 0 until it is posted.
    number: u32,
    len: u32,
    /// The longest reply that it expects, without a chunk.
    reply: u32,
    /// The server has received it, and has not replied.
    is_served: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    ends: [End; 2],
    /// The messages on their way to each end.
    links: [Vec<Message>; 2],
    /// The sizes of the posted Receives of each end, in their order.
    receives: [Vec<u32>; 2],
    /// The number of the last Receive that has completed.
    completed: [u32; 2],
    /// Responses that are sent later than made.
    delayed: [Vec<Message>; 2],
    /// Calls that are not planned yet.
    fresh: u8,
    planned: Vec<Call>,
    calls: Vec<Call>,
    /// The xid of the newest call.
    newest: u32,
    changes: u8,
    losses: u8,
    /// An end that is not the module's has sent its `INITXCH`.
    stub_init: bool,
}

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// The module's.
    Full,
    /// Without the extension.
    Bare,
    /// Takes `INITXCH`, sends none, supports nothing else.
    Mute,
    /// With the extension, but without the size: it neither sends nor heeds one.
    NoSize,
    /// Supports `INITXCH` alone, and heeds the size in it.
    InitAlone,
}

/// A mistake, by its number in the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    AnnouncesAtOnce = 1,
    DoneWhenBegun = 2,
    UsesRequested = 3,
    LowersAtResponse = 4,
    PostsReturned = 5,
    ChecksWhenPlanned = 6,
    ShrinksUnasked = 7,
    KeepsLimit = 8,
    NeedsNoEvidence = 9,
    InitIsEvidence = 10,
    ServerAsksToShrink = 11,
    NeedsNoCredit = 12,
    SeveralUnconfirmed = 13,
    TakesLastCredit = 14,
    ConfirmsByEarlier = 15,
    Unprompted = 16,
    ForgetsFinished = 17,
    UpdateLiftsCap = 18,
    AsksWhilePending = 19,
    CountsExtra = 20,
    XidsOfCalls = 28,
    /// Not of the design, as all that follow: an update exceeds a request to grow that is
    /// unanswered.
    NoCapOnGrowth = 101,
    /// Replies are planned by the size of an update that the peer may refuse.
    PlansByUnconfirmed = 102,
    /// The grant falls below the credit that a one-way message holds.
    GrantFallsBelow = 103,
    /// An update is posted after a response that was decided later.
    LateUpdate = 104,
}

/// The circumstances of a walk.
#[derive(Clone, Copy, Debug)]
struct Model {
    mistake: Option<Mistake>,
    grant: u32,
    /// The grant falls to one with the first reply.
    falls: bool,
    calls: u8,
    changes: u8,
    losses: u8,
    /// The largest size, in units.
    sizes: u32,
    /// The sizes of the Receives at the start, in units.
    start: [u32; 2],
    /// The ends that ask their peer for another size, ...
    asks: [bool; 2],
    /// ... and that grow by themselves.
    grows: [bool; 2],
    /// Calls that may be planned before one is posted.
    plans: usize,
    /// All calls are as long as they may be, and replies are short and in order.
    terse: bool,
    /// Growth may find no memory.
    short: bool,
    /// Responses may be sent later than made.
    delays: bool,
    peer: Peer,
    /// The client is one without the extension.
    bare_client: bool,
}

type Next = figures::Next<World>;

impl Model {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Returns `true` if the end is one of the module.
    fn is_ours(&self, at: usize) -> bool {
        match at {
            CLIENT => !self.bare_client,
            _ => self.peer == Peer::Full,
        }
    }

    fn end(&self, at: usize) -> End {
        End::new(&Setup {
            side: [Side::Client, Side::Server][at],
            requested: 8,
            told: UNIT,
            buffers: self.sizes * UNIT,
            receive: self.start[at] * UNIT,
            reply: UNIT,
            max: self.sizes * UNIT,
        })
    }

    /// The Receives that an end posts, no more than it must.
    fn pool(&self, at: usize) -> usize {
        // The requests of a server, or their responses: it has one credit.
        let requests = u32::from(self.peer == Peer::Full && !self.bare_client);
        let extra = match (at, self.peer) {
            (CLIENT, _) => u32::from(!self.bare_client),
            (_, Peer::Full | Peer::NoSize | Peer::InitAlone) => 1,
            (_, Peer::Bare | Peer::Mute) => 0,
        };
        (self.grant + requests + extra) as usize
    }

    fn world(&self) -> World {
        let ends = [CLIENT, SERVER].map(|at| self.end(at));
        let mut world = World {
            ends,
            links: Default::default(),
            receives: Default::default(),
            completed: [0; 2],
            delayed: Default::default(),
            fresh: self.calls,
            planned: Vec::new(),
            calls: Vec::new(),
            newest: 0,
            changes: self.changes,
            losses: self.losses,
            stub_init: false,
        };
        self.connect(&mut world);
        world
    }

    /// Walks through all orders.
    fn explore(&self) -> Result<Figures, String> {
        walk(self.world(), |world| self.look(world))
    }
}

/// A model by name, explored; the figures are printed.
fn explore((name, model): &(&str, Model)) -> Result<Figures, String> {
    let told = model.explore();
    if let Ok(Figures { states, steps, .. }) = &told {
        println!("{name}: {states} states, {steps} steps");
    }
    told.map_err(|story| format!("{name}:\n{story}"))
}

// V2-56, V2-59, V2-73, XC-22, XC-25, XC-31, XC-40, XC-57, XC-65, XC-67, XC-68, XC-69, XC-70, XC-71,
// XC-72, XC-76, XC-86, XC-88, XC-89, XC-90, XC-95, XC-96, XC-97, XC-98, XC-99, XC-104, XC-105: both
// ends, in every order; each seeded mistake is found.
#[test]
fn every_order_is_right_and_every_mistake_is_found() {
    let seeded = configs::mistakes();
    let mistakes: Vec<Mistake> = seeded.iter().map(|(mistake, _)| *mistake).collect();
    let models = |mistake| match mistake {
        None => configs::small(),
        Some(_) => seeded
            .iter()
            .filter(|(of, _)| Some(*of) == mistake)
            .map(|(_, model)| ("seeded", model.clone()))
            .collect(),
    };
    figures::explore("ends of version 2", &mistakes, models, explore);
}

// The same with more calls, sizes, changes and losses.
#[test]
#[ignore = "takes minutes"]
fn every_order_of_more() {
    let models = |_: Option<Mistake>| configs::large();
    figures::explore("ends of version 2, more", &[], models, explore);
}
