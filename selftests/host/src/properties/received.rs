// SPDX-License-Identifier: GPL-2.0

//! Calls that a server has received, in every order of the handlers of both kinds of completions, two threads, the core, which
//! closes the connection, and a device that may refuse RDMA Reads, or fail to carry them out. The handlers never run at the same
//! time in the module, which leaves out some of these orders.
//!
//! The places of calls are the module's: the queue that threads take calls from, the calls whose arguments are being read, and
//! those that wait for memory. Their callers are modelled here, one step for each stretch under a lock. Replies are sent without
//! a step; those that wait are in the explorer of the space for calls. In all orders:
//!
//! - a call is executed once at most, with its own arguments;
//! - it gets a reply, unless the connection ends, which it does when a call is dropped (H-116, V1-121);
//! - no thread looks for a call where none is (H-114);
//! - no call waits for ever, for memory or for room for its RDMA Reads;
//! - no RDMA Read is posted after the drain, and nobody has a call after the end;
//! - memory and the number of calls without a reply are given back.
//!
//! Each mistake that is seeded breaks one of these.

mod close;
mod hands;

use std::collections::VecDeque;

use crate::{
    figures::{self, walk, Figures},
    module::{
        os::Fifo,
        server::{
            connection::reading::Reading,
            room::{self, Room},
        },
    },
};

use self::{close::Closing, hands::Step};

type Share = room::Share<()>;
type Next = figures::Next<World>;

/// The arguments of no call.
const WRONG: u8 = u8::MAX;

/// RDMA Reads that the device takes at a time.
const ROOM: usize = 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    number: u8,
    /// Set while parts of its arguments are in the client's memory.
    is_reduced: bool,
    /// The call whose arguments were read for it.
    read: Option<u8>,
    share: Option<Share>,
    /// Set while it counts as one without a reply.
    is_busy: bool,
}

/// RDMA Reads: the number that they have, and the call they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reads {
    context: usize,
    of: u8,
}

/// The parties.
const THREADS: [usize; 2] = [0, 1];
const RECEIVES: usize = 2;
const SENDS: usize = 3;
const PARTIES: [(usize, &str); 4] = [
    (0, "a thread goes on"),
    (1, "the other thread goes on"),
    (RECEIVES, "the handler of Receives goes on"),
    (SENDS, "the handler of Sends goes on"),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// Calls that have come.
    came: u8,
    inbox: Fifo<Call>,
    /// `XPT_DATA`, and `XPT_BUSY`.
    has_data: bool,
    is_taken: bool,
    room: Room<Call>,
    /// Calls for whose arguments connections share memory.
    shared: u8,
    reading: Reading<Call>,
    /// RDMA Reads that wait, and that are posted.
    waiting: VecDeque<Reads>,
    is_open: bool,
    posted: VecDeque<Reads>,
    /// Set once the device has refused RDMA Reads.
    has_refused: bool,
    is_lost: bool,
    /// Calls without a reply.
    busy: i8,
    /// What each party has to do, the next thing last.
    hands: [Vec<Step>; 4],
    closing: Closing,
    /// By the numbers of the calls.
    waits_for_service: Vec<bool>,
    replied: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// A call comes, and sunrpc is not told.
    ForgetsFlag,
    /// The flag is cleared with each call that is taken, or never.
    ClearsEarly,
    KeepsFlag,
    /// A thread lets go of the connection before it has a call.
    LetsGoEarly,
    /// Calls are left in the inbox at the end, or those whose arguments are being read.
    InboxStays,
    ReadingStays,
    /// A call has the place of another.
    TakesPlace,
    /// A completion is for the wrong call.
    TakesAnother,
    /// A call is executed on a connection that is lost.
    ExecutesLost,
    /// Memory is not given back, not looked at then, or not given back at an early end.
    GivesNothing,
    LooksNot,
    KeepsMemory,
    /// A call overtakes one that waits.
    Overtakes,
    /// A call waits for memory while the connection has all of its own.
    WaitsForNothing,
    /// A read that failed counts as done, or as nothing.
    FailedIsRead,
    FailsSilently,
    /// A call whose arguments cannot be read is dropped, and nothing else.
    UnreadSilently,
    /// A call for which there is no place is.
    OverrunSilently,
    /// A completion makes room for messages that wait, and nobody looks.
    RoomUnused,
    /// A message waits, and nobody looks for room.
    SentLater,
    /// The device has refused a message, and the connection goes on.
    RefusedSilently,
    /// A call that ends counts as one without a reply, or twice.
    CountsOn,
    CountsTwice,
    /// The teardown does not wait for completions, or for threads.
    Undrained,
    FreesEarly,
}

const MISTAKES: [Mistake; 25] = [
    Mistake::ForgetsFlag,
    Mistake::ClearsEarly,
    Mistake::KeepsFlag,
    Mistake::LetsGoEarly,
    Mistake::InboxStays,
    Mistake::ReadingStays,
    Mistake::TakesPlace,
    Mistake::TakesAnother,
    Mistake::ExecutesLost,
    Mistake::GivesNothing,
    Mistake::LooksNot,
    Mistake::KeepsMemory,
    Mistake::Overtakes,
    Mistake::WaitsForNothing,
    Mistake::FailedIsRead,
    Mistake::FailsSilently,
    Mistake::UnreadSilently,
    Mistake::OverrunSilently,
    Mistake::RoomUnused,
    Mistake::SentLater,
    Mistake::RefusedSilently,
    Mistake::CountsOn,
    Mistake::CountsTwice,
    Mistake::Undrained,
    Mistake::FreesEarly,
];

/// The circumstances of a walk.
#[derive(Clone, Copy)]
struct Circumstances {
    /// The calls that come: set if their arguments have parts in the client's memory.
    calls: &'static [bool],
    /// The device may refuse requests, and reads may fail.
    fragile: bool,
    /// RDMA Reads may be impossible to make, whose calls are rejected then.
    rejects: bool,
    /// The core may close the connection by itself.
    impatient: bool,
    /// Places of calls that no thread has taken, and that wait for memory.
    places: usize,
    waiting: usize,
    /// Calls that have memory of the connection's own at a time, and of what connections share.
    own: usize,
    shared: u8,
}

const USUAL: Circumstances = Circumstances {
    calls: &[true, true],
    fragile: false,
    rejects: false,
    impatient: false,
    places: 3,
    waiting: 2,
    own: 2,
    shared: 0,
};

const CIRCUMSTANCES: [Circumstances; 11] = [
    USUAL,
    // One reads after the other.
    Circumstances { own: 1, ..USUAL },
    Circumstances {
        calls: &[true, true, true],
        own: 1,
        ..USUAL
    },
    Circumstances {
        fragile: true,
        ..USUAL
    },
    Circumstances {
        fragile: true,
        impatient: true,
        own: 1,
        ..USUAL
    },
    // Too many calls.
    Circumstances {
        calls: &[true, true, false],
        places: 1,
        ..USUAL
    },
    Circumstances {
        own: 1,
        waiting: 0,
        ..USUAL
    },
    Circumstances {
        calls: &[true, true, true],
        places: 1,
        own: 1,
        ..USUAL
    },
    Circumstances {
        rejects: true,
        own: 1,
        ..USUAL
    },
    Circumstances {
        calls: &[true, true, true],
        own: 1,
        shared: 1,
        ..USUAL
    },
    // Last, since most mistakes are found before.
    Circumstances {
        calls: &[true, true, true],
        fragile: true,
        ..USUAL
    },
];

struct Model {
    mistake: Option<Mistake>,
    of: Circumstances,
}

impl World {
    fn new(of: &Circumstances, own: usize) -> Self {
        let mut room = Room::new(own);
        room.open(Fifo::new(of.waiting).unwrap());
        Self {
            came: 0,
            inbox: Fifo::new(of.places).unwrap(),
            has_data: false,
            is_taken: false,
            room,
            shared: of.shared,
            reading: Reading::new(of.calls.len()).unwrap(),
            waiting: VecDeque::new(),
            is_open: true,
            posted: VecDeque::new(),
            has_refused: false,
            is_lost: false,
            busy: 0,
            hands: Default::default(),
            closing: Closing::No,
            waits_for_service: vec![true; of.calls.len()],
            replied: 0,
        }
    }

    /// `Connection::is_closed`
    fn is_closed(&self) -> bool {
        self.is_lost || self.closing != Closing::No
    }

    /// Returns `true` if no party has anything to do.
    fn rests(&self) -> bool {
        self.hands.iter().all(Vec::is_empty)
    }

    /// The calls that are somewhere, but for those that the parties have.
    fn kept(&self) -> Vec<Call> {
        let (mut inbox, mut room, mut reading) =
            (self.inbox.clone(), self.room.clone(), self.reading.clone());
        let mut waiting = room.close();
        let mut found = Vec::new();
        found.extend(std::iter::from_fn(|| inbox.pop()));
        found.extend(std::iter::from_fn(|| waiting.pop()));
        found.extend((0..self.waits_for_service.len()).filter_map(|place| reading.take(place)));
        found
    }
}

impl Model {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// All that can happen next, if the world is a right one.
    fn look(&self, world: &World) -> Result<Next, String> {
        let mut next = Next::new();
        for (party, name) in PARTIES {
            let mut after = Vec::new();
            self.go_on(world, party, &mut after)?;
            next.extend(after.into_iter().map(|new| (name, new)));
        }
        self.close(world, &mut next);
        if world.closing >= Closing::Drained && !world.posted.is_empty() {
            return Err("an RDMA Read is under way after the drain".into());
        }
        let is_empty = world.rests() && world.kept().is_empty() && world.waiting.is_empty();
        if world.closing == Closing::Over && !is_empty {
            return Err("somebody has a call after the end".into());
        }
        if next.is_empty() {
            self.check_end(world)?;
        }
        Ok(next)
    }

    /// Checks a world in which nothing happens any more.
    fn check_end(&self, world: &World) -> Result<(), String> {
        if world.closing == Closing::Over {
            return Ok(());
        }
        if world.is_closed() {
            return Err("a connection that is lost stays".into());
        }
        if usize::from(world.replied) != self.of.calls.len() {
            return Err("a call gets neither a reply nor an end of its connection".into());
        }
        if world.busy != 0 {
            return Err("calls without a reply are counted wrongly".into());
        }
        match world.room.usage() {
            (0, _, 0) if world.shared == self.of.shared => Ok(()),
            _ => Err("memory is not given back".into()),
        }
    }

    /// Walks through all orders.
    fn explore(&self) -> Result<Figures, String> {
        let own = if self.is(Mistake::WaitsForNothing) {
            0
        } else {
            self.of.own
        };
        walk(World::new(&self.of, own), |world| self.look(world))
    }
}

/// The model with `mistake`, in all circumstances.
fn all(mistake: Option<Mistake>) -> [Model; 11] {
    CIRCUMSTANCES.map(|of| Model { mistake, of })
}

#[test]
fn every_order_is_right_and_every_mistake_is_found() {
    figures::explore("received calls", &MISTAKES, all, Model::explore);
}
