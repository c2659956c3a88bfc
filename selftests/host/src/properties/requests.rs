// SPDX-License-Identifier: GPL-2.0

//! Everything that may happen to one call, in every order: its sender, the completion handlers of two
//! connections, its task, which may be killed at any time, the teardown of the connections, and a peer
//! and a device that do their worst.
//!
//! The state is that of the module; what its callers do around it is modelled here, one step for each
//! stretch under the request's lock. In all orders:
//!
//! - the memory of a call is released, and its reply delivered, when no peer can reach the memory (V1-126,
//!   V1-128);
//! - a call is sent again when nothing of it can be reached over the connection before, and it gets one reply;
//! - abandoned calls are counted down as often as up (V1-41);
//! - the task gets to its end, and if nobody kills it, with a reply.
//!
//! Each mistake that is seeded into the state breaks one of these.

use std::collections::{BTreeMap, HashSet};

use crate::module::client::request::state::{
    Exposed, InvalidationOutcome, ReleaseAction, RequestState, Severed,
};

/// Live registrations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mrs;

/// A reply that waits, and pins its call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reply;

type Request = RequestState<Mrs, Reply, u64>;
type Reach = Option<Exposed<Mrs, u64>>;

/// What a reply says that it has invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handle {
    None,
    Own,
    Foreign,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Completion {
    Reply(Handle),
    Invalidation(bool),
}

/// What a completion handler is about to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Handler {
    Idle,
    Replied(Handle),
    Judge(Handle, Reach),
    Late(Handle),
    Wait,
    Post,
    PostFailed,
    Invalidated(bool),
    Finish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Teardown {
    No,
    Closed,
    Flushed,
    Severed,
    Destroyed,
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Conn {
    teardown: Teardown,
    /// Whether the peer could use the registrations of the call.
    reachable: bool,
    /// Replies that the peer may still send.
    replies: u8,
    invalidating: bool,
    queue: Vec<Completion>,
    handler: Handler,
    abandoned: i8,
    record: bool,
}

impl Conn {
    fn new() -> Self {
        Self {
            teardown: Teardown::No,
            reachable: false,
            replies: 0,
            invalidating: false,
            queue: Vec::new(),
            handler: Handler::Idle,
            abandoned: 0,
            record: false,
        }
    }

    fn close(&mut self) {
        self.teardown = self.teardown.max(Teardown::Closed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sender {
    Idle,
    Build,
    Post,
    /// Takes the connection down, with the call pinned.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Task {
    Waits,
    /// Encodes the call again, having left those that wait for a reply.
    Encodes,
    /// Was killed, and waits for the pins to go.
    Killed,
    Abandons,
    Records,
    Releases,
    WaitsFor(u64),
    /// Takes a connection down; set if the state is to be told.
    Ends(u64, bool),
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    request: Request,
    waiting: bool,
    to_send: bool,
    sent_on: u64,
    pins: i8,
    replied: bool,
    signal: bool,
    recorded: bool,
    task: Task,
    sender: Sender,
    current: u64,
    conns: [Conn; 2],
}

/// A step of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Op {
    Sent,
    Replied,
    ReplyRejected,
    InvalidateFor,
    Invalidated,
    Abandon,
    ReplyLate,
    Release,
    Released,
    TornDown,
    Drained,
}

/// What is wrong with a state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// The step returns what it should, and changes nothing.
    Forgets(Op),
    /// Nothing may be sent again.
    SendableOnce,
    /// What is sent counts as exposing nothing.
    ExposesNothing,
    /// A second late reply counts like the first.
    LateTwice,
    /// A late reply makes the memory unreachable.
    LateIsSafe,
    /// The memory is released while it is reachable.
    ReleasesExposed,
    /// The memory is released while its connection is not drained.
    ReleasesUndrained,
    /// An invalidation that failed counts as done.
    FailedIsDone,
    /// The teardown does not look at a call whose reply waits.
    ReplyStays,
    /// It does not look at one whose reply came late.
    LateStays,
}

struct Model {
    mistake: Option<Mistake>,
    killable: bool,
}

const OPEN: Teardown = Teardown::No;

impl World {
    fn new() -> Self {
        Self {
            request: Request::new(),
            waiting: true,
            to_send: true,
            sent_on: 0,
            pins: 0,
            replied: false,
            signal: false,
            recorded: false,
            task: Task::Waits,
            sender: Sender::Idle,
            current: 1,
            conns: [Conn::new(), Conn::new()],
        }
    }

    fn conn(&mut self, generation: u64) -> &mut Conn {
        &mut self.conns[generation as usize - 1]
    }

    fn reachable(&self) -> bool {
        self.conns.iter().any(|conn| conn.reachable)
    }

    fn unpin(&mut self) {
        self.pins -= 1;
    }
}

type Next = Vec<(&'static str, World)>;

impl Model {
    /// Does a step of the state machine, unless that is what is forgotten.
    fn step<T>(&self, op: Op, request: &mut Request, act: impl FnOnce(&mut Request) -> T) -> T {
        if self.mistake == Some(Mistake::Forgets(op)) {
            return act(&mut request.clone());
        }
        act(request)
    }

    /// Whether nothing goes wrong on this connection, so that a call that nobody kills gets its reply.
    fn is_tame(&self, generation: u64) -> bool {
        !self.killable && generation == 2
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// All that can happen next.
    fn successors(&self, world: &World) -> Result<Next, String> {
        let mut next = Vec::new();
        self.sender(world, &mut next)?;
        self.task(world, &mut next)?;
        for generation in [1, 2] {
            self.peer(world, generation, &mut next);
            self.handler(world, generation, &mut next)?;
            self.teardown(world, generation, &mut next);
        }
        // Who connects holds the lock under which calls are sent.
        if world.current == 1
            && world.conns[0].teardown == Teardown::Over
            && world.sender == Sender::Idle
        {
            next.push((
                "connected again",
                World {
                    current: 2,
                    ..world.clone()
                },
            ));
        }
        Ok(next)
    }

    fn sender(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        let current = world.current;
        let open = world.conns[current as usize - 1].teardown == OPEN;
        let again = world.sent_on != 0;
        let sendable = world.request.is_sendable() && !(again && self.is(Mistake::SendableOnce));
        match world.sender {
            Sender::Idle => {
                if !(open && world.to_send && world.task == Task::Waits) {
                    return Ok(());
                }
                new.pins += 1;
                let here = world.sent_on == current;
                new.sender = if here { Sender::Close } else { Sender::Build };
                next.push(("sender begins", new));
            }
            // Whoever sends has waited for the teardown of the connection before, so what the module checks here is true.
            Sender::Build | Sender::Post if !sendable => {
                return Err("to be sent, and cannot be".into())
            }
            Sender::Build => {
                new.sender = Sender::Post;
                next.push(("sender builds", new));
            }
            Sender::Post => {
                if world.reachable() {
                    return Err("sent while memory was reachable".into());
                }
                if open {
                    if !self.is_tame(current) {
                        let mut refused = new.clone();
                        refused.conn(current).reachable = true;
                        refused.sender = Sender::Close;
                        self.step(Op::Sent, &mut refused.request, Request::send_failed);
                        next.push(("the device refuses the Send", refused));
                    }

                    // With registrations, and without any.
                    for exposed in [
                        Some(Exposed {
                            connection: current,
                            mrs: Mrs,
                        }),
                        None,
                    ] {
                        let mut new = new.clone();
                        new.conn(current).reachable = exposed.is_some();
                        new.conn(current).replies = 2;
                        new.to_send = false;
                        new.sent_on = current;
                        new.sender = Sender::Idle;
                        new.unpin();
                        let exposed = exposed.filter(|_| !self.is(Mistake::ExposesNothing));
                        self.step(Op::Sent, &mut new.request, |r| r.sent(current, exposed));
                        next.push(("sent", new));
                    }
                } else {
                    new.sender = Sender::Close;
                    self.step(Op::Sent, &mut new.request, Request::send_failed);
                    next.push(("connection is closed", new));
                }
            }
            Sender::Close => {
                new.conn(current).close();
                if world.conns[current as usize - 1].teardown == Teardown::Over {
                    new.sender = Sender::Idle;
                    new.unpin();
                }
                next.push(("sender closes", new));
            }
        }
        Ok(())
    }

    fn peer(&self, world: &World, generation: u64, next: &mut Next) {
        let conn = &world.conns[generation as usize - 1];
        if conn.teardown > Teardown::Closed {
            return;
        }
        let tame = self.is_tame(generation);
        if conn.replies > 0 && conn.queue.len() < 2 {
            for handle in [Handle::None, Handle::Own, Handle::Foreign] {
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
        if conn.teardown == OPEN && world.current == generation && !tame {
            let mut new = world.clone();
            new.conn(generation).close();
            next.push(("the link is lost", new));
        }
    }

    fn handler(&self, world: &World, generation: u64, next: &mut Next) -> Result<(), String> {
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
                let foreign =
                    handle == Handle::Foreign || (handle == Handle::Own && exposed.is_none());
                if foreign {
                    self.step(Op::ReplyRejected, &mut new.request, |r| {
                        r.reply_rejected(generation, exposed)
                    });
                    new.unpin();
                    let conn = new.conn(generation);
                    conn.handler = Handler::Idle;
                    conn.close();
                } else if handle == Handle::None && exposed.is_some() {
                    conn.handler = Handler::Wait;
                } else {
                    conn.handler = Handler::Finish;
                }
            }
            Handler::Wait => {
                conn.handler = Handler::Post;
                self.step(Op::InvalidateFor, &mut new.request, |r| {
                    r.invalidate_for(generation, Reply, generation)
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
                    return Err("a second reply is delivered, or nobody waits for it".into());
                }
                conn.handler = Handler::Idle;
                new.replied = true;
                new.waiting = false;
                // sunrpc does not send what has its reply.
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

    /// A reply to a call that is not among those that wait for one.
    fn late(&self, new: &mut World, generation: u64, handle: Handle) -> Result<(), String> {
        if new.request.has_replied_late(generation) && !self.is(Mistake::LateTwice) {
            // A second reply ends the connection.
            new.conn(generation).close();
            return Ok(());
        }
        let safe = self.is(Mistake::LateIsSafe);
        let seen = self.step(Op::ReplyLate, &mut new.request, |r| {
            r.reply_late(generation, |exposed| {
                let foreign =
                    handle == Handle::Foreign || (handle == Handle::Own && exposed.is_none());
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

    fn teardown(&self, world: &World, generation: u64, next: &mut Next) {
        let mut new = world.clone();
        let conn = new.conn(generation);
        match conn.teardown {
            Teardown::No | Teardown::Over => return,
            Teardown::Closed => {
                // What is posted completes, this way or that.
                conn.teardown = Teardown::Flushed;
                conn.replies = 0;
                if conn.invalidating {
                    conn.invalidating = false;
                    let mut failed = new.clone();
                    // The drain fails: nothing completes any more.
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
                let stays = match world.request.clone().torn_down(generation) {
                    Severed::Reply(_) => self.is(Mistake::ReplyStays),
                    Severed::Registrations(_) => {
                        self.is(Mistake::LateStays)
                            && matches!(
                                world.request.clone().release(),
                                ReleaseAction::Invalidate { replied: true, .. }
                            )
                    }
                    Severed::Nothing => false,
                };
                if !stays {
                    match self.step(Op::TornDown, &mut new.request, |r| r.torn_down(generation)) {
                        Severed::Reply(Reply) => new.unpin(),
                        Severed::Registrations(Mrs) | Severed::Nothing => {}
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

    fn task(&self, world: &World, next: &mut Next) -> Result<(), String> {
        let mut new = world.clone();
        let current = world.current;
        match world.task {
            Task::Waits => {
                if self.killable {
                    let mut killed = world.clone();
                    killed.waiting = false;
                    killed.to_send = false;
                    killed.task = Task::Killed;
                    next.push(("the task is killed", killed));
                }
                let lost = world.conns[world.sent_on.max(1) as usize - 1].teardown != OPEN;
                if world.replied {
                    new.task = Task::Killed;
                } else if lost && world.sent_on != 0 && !world.to_send {
                    // It is to be sent again.
                    new.waiting = false;
                    new.task = Task::Encodes;
                } else {
                    return Ok(());
                }
            }
            Task::Encodes if world.pins == 0 => {
                new.task = Task::Waits;
                if !world.replied {
                    new.waiting = true;
                    new.to_send = true;
                }
            }
            Task::Killed if world.pins == 0 => new.task = Task::Abandons,
            Task::Abandons => {
                new.task = Task::Records;
                if self.step(Op::Abandon, &mut new.request, |r| r.abandon(current)) {
                    if world.replied {
                        return Err("a call counts as abandoned although it has its reply".into());
                    }
                    new.conn(current).abandoned += 1;
                }
            }
            Task::Records => {
                new.task = Task::Releases;
                if world.request.abandoned_on() == Some(current) {
                    new.recorded = true;
                    new.conn(current).record = true;
                }
            }
            Task::Releases => self.release(&mut new),
            Task::WaitsFor(generation) => {
                let mut tired = world.clone();
                tired.task = Task::Ends(generation, true);
                next.push(("the task has waited long enough", tired));
                if !world.signal {
                    return Ok(());
                }
                new.task = if world.request.is_releasing() {
                    Task::Ends(generation, true)
                } else {
                    self.step(Op::Released, &mut new.request, Request::released);
                    Task::Done
                };
            }
            Task::Ends(generation, tell) => {
                new.conn(generation).close();
                if world.conns[generation as usize - 1].teardown == Teardown::Over {
                    if tell {
                        self.step(Op::Released, &mut new.request, Request::released);
                    }
                    new.task = Task::Done;
                }
            }
            Task::Encodes | Task::Killed | Task::Done => return Ok(()),
        }
        if new.task == Task::Done {
            self.check_released(&new)?;
        }
        next.push(("the task goes on", new));
        Ok(())
    }

    fn release(&self, new: &mut World) {
        let exposed = |world: &World| match world.request.clone().release() {
            ReleaseAction::Invalidate { .. } => Some(Mistake::ReleasesExposed),
            ReleaseAction::EndConnection(_) => Some(Mistake::ReleasesUndrained),
            ReleaseAction::Done { .. } => None,
        };
        if self.mistake.is_some() && exposed(new) == self.mistake {
            new.request = Request::new();
        }
        let (replied, then) = match self.step(Op::Release, &mut new.request, Request::release) {
            ReleaseAction::Done { replied } => (replied, Task::Done),
            ReleaseAction::EndConnection(generation) => (false, Task::Ends(generation, false)),
            ReleaseAction::Invalidate { exposed, replied } => {
                let generation = exposed.connection;
                new.signal = false;
                let conn = new.conn(generation);
                conn.invalidating = conn.teardown == OPEN;
                let posted = conn.invalidating;
                let then = if posted {
                    Task::WaitsFor(generation)
                } else {
                    Task::Ends(generation, true)
                };
                (replied, then)
            }
        };
        if replied && new.recorded {
            let current = new.current;
            new.conn(current).record = false;
        }
        new.task = then;
    }

    fn check_released(&self, world: &World) -> Result<(), String> {
        if world.reachable() {
            return Err("memory is released while it is reachable".into());
        }
        if !world.request.is_idle() {
            return Err("the next call finds the state of this one".into());
        }
        Ok(())
    }

    /// What is wrong where nothing can happen any more.
    fn check_end(&self, world: &World) -> Result<(), String> {
        if world.task != Task::Done {
            return Err(format!("stuck in {:?}", world.task));
        }
        if !self.killable && !world.replied {
            return Err("no reply, and nobody has killed the call".into());
        }
        if world.pins != 0 {
            return Err("the call stays pinned".into());
        }
        Ok(())
    }

    /// All that can happen next, if what holds everywhere holds here.
    fn look(&self, world: &World) -> Result<Next, String> {
        let next = self.successors(world)?;
        if next.is_empty() {
            self.check_end(world)?;
        }
        // Once the task is gone, those that count on a connection in use are those that are remembered.
        let odd = |conn: &&Conn| conn.teardown == OPEN && conn.abandoned != i8::from(conn.record);
        if let Some(conn) = world
            .conns
            .iter()
            .find(odd)
            .filter(|_| world.task == Task::Done)
        {
            return Err(format!(
                "{} abandoned calls, record: {}",
                conn.abandoned, conn.record
            ));
        }
        match next.iter().find(|(_, new)| new.pins < 0) {
            Some((step, _)) => Err(format!("unpinned twice by: {step}")),
            None => Ok(next),
        }
    }

    /// Walks through all orders; the number of states and of steps.
    fn explore(&self) -> Result<(usize, usize), String> {
        let mut seen = HashSet::new();
        let mut came: BTreeMap<usize, (usize, &'static str)> = BTreeMap::new();
        let mut worlds = vec![World::new()];
        seen.insert(World::new());
        let (mut at, mut steps) = (0, 0);
        while at < worlds.len() {
            let world = worlds[at].clone();
            let next = match self.look(&world) {
                Ok(next) => next,
                Err(why) => {
                    let mut told = vec![format!("{why}: {world:?}")];
                    while let Some((before, step)) = came.get(&at) {
                        told.push((*step).into());
                        at = *before;
                    }
                    told.reverse();
                    return Err(told.join("\n"));
                }
            };
            for (step, new) in next {
                steps += 1;
                if new != world && seen.insert(new.clone()) {
                    came.insert(worlds.len(), (at, step));
                    worlds.push(new);
                }
            }
            at += 1;
        }
        Ok((worlds.len(), steps))
    }
}

#[test]
fn every_order_is_right() {
    for killable in [true, false] {
        match (Model {
            mistake: None,
            killable,
        })
        .explore()
        {
            Ok((states, steps)) => println!("killable: {killable}: {states} states, {steps} steps"),
            Err(story) => panic!("{story}"),
        }
    }
}

#[test]
fn every_seeded_mistake_is_found() {
    let ops = [
        Op::Sent,
        Op::Replied,
        Op::ReplyRejected,
        Op::InvalidateFor,
        Op::Invalidated,
        Op::Abandon,
        Op::ReplyLate,
        Op::Release,
        Op::Released,
        Op::TornDown,
        Op::Drained,
    ];
    let others = [
        Mistake::SendableOnce,
        Mistake::ExposesNothing,
        Mistake::LateTwice,
        Mistake::LateIsSafe,
        Mistake::ReleasesExposed,
        Mistake::ReleasesUndrained,
        Mistake::FailedIsDone,
        Mistake::ReplyStays,
        Mistake::LateStays,
    ];
    let missed: Vec<Mistake> = ops
        .map(Mistake::Forgets)
        .into_iter()
        .chain(others)
        .filter(|&mistake| {
            let mistake = Some(mistake);
            let told = [true, false].map(|killable| Model { mistake, killable }.explore());
            let found = told.iter().find_map(|told| told.as_ref().err());
            if let Some(story) = found {
                println!(
                    "{mistake:?}: {}",
                    story
                        .lines()
                        .last()
                        .unwrap_or_default()
                        .split(':')
                        .next()
                        .unwrap_or_default()
                );
            }
            found.is_none()
        })
        .collect();
    assert_eq!(missed, []);
}
