// SPDX-License-Identifier: GPL-2.0

//! One call, in every order of its sender, the completion handlers of two connections, its task, which
//! may be killed at any time, the teardown of the connections, and a peer and a device that do their
//! worst.
//!
//! The state is the module's; its callers are modelled here, one step for each stretch under the
//! request's lock. In all orders:
//!
//! - the memory of a call is released, and its reply delivered, when no peer can reach the memory (V1-126,
//!   V1-128);
//! - a call is sent again when nothing of it can be reached over the connection before, and it gets one reply;
//! - a call whose Send failed depends on no connection;
//! - registrations that a reply leaves for the next call are there only while no peer can reach memory of the
//!   request, and are gone when their connection is;
//! - abandoned calls are counted down as often as up (V1-41);
//! - the task gets to its end, with a reply unless it is killed; also if sunrpc does not accept the first reply and
//!   waits for another, which does not come (V1-123), on a connection that nothing but the timer of the call ends;
//! - the timer ends no connection but the call's own.
//!
//! Each mistake that is seeded into the state breaks one of these.

mod call;
mod connection;
mod walk;

use crate::figures::{self, Figures};
use crate::module::client::request::state::{
    InvalidationOutcome, ReleaseAction, RequestState, TornDown,
};

/// Live registrations: two, or one that is left of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mrs;

/// A reply that waits, and pins its call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reply;

type Request = RequestState<Mrs, Reply>;
type Reach = Option<Mrs>;

/// The handle that a reply claims to have invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handle {
    None,
    /// Of all registrations, if any.
    Own,
    /// Of one of them; the peer can use the other one.
    Part,
    Foreign,
}

impl Handle {
    /// Returns `true` if a call that exposes this has no such handle.
    fn is_foreign(self, exposed: &Reach) -> bool {
        match self {
            Handle::None => false,
            Handle::Own | Handle::Part => exposed.is_none(),
            Handle::Foreign => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Completion {
    Reply(Handle),
    Invalidation(bool),
}

/// The next step of a completion handler.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Handler {
    Idle,
    Replied(Handle),
    Judge(Handle, Reach),
    Late(Handle),
    Keep,
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
    /// Set while the peer can use the registrations of the call.
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
    /// Set if the message exposes memory.
    Post(bool),
    /// Takes the connection down, with the call pinned.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Task {
    Waits,
    /// Encodes the call again, no longer among the calls that wait for a reply.
    Encodes,
    /// Was killed, and waits for the pins to go.
    Killed,
    Abandons,
    Records,
    Releases,
    /// Forgets the record too late.
    Forgets,
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
    /// The connection of the registrations that are left for the next call, or 0.
    kept: u64,
    /// Set when sunrpc has not accepted a reply, and waits for another.
    waits_again: bool,
    task: Task,
    sender: Sender,
    current: u64,
    conns: [Conn; 2],
}

/// A step of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Op {
    Sent,
    SendFailed,
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

/// A mistake in the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// The step returns the right value, and changes nothing.
    Forgets(Op),
    /// Nothing may be sent again.
    SendableOnce,
    /// A call that is sent counts as exposing nothing.
    ExposesNothing,
    /// A second late reply counts like the first.
    LateTwice,
    /// A late reply makes the memory unreachable.
    LateIsSafe,
    /// The record of a call whose reply came late outlives its release.
    ForgetsLater,
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
    /// A connection is not found by its number while it is torn down.
    FindsOnlyOpen,
    /// What a reply has invalidated is left for the next call, although more is to be invalidated.
    KeepsPart,
    /// Registrations are left for the next call that nobody has invalidated yet.
    KeepsValid,
    /// A call takes registrations that are not left for it.
    TakesOthers,
    /// The teardown leaves them.
    KeepsForEver,
    /// The timer ends the connection only if the state of the call waits for a reply.
    TimesOutByState,
    /// The timer ends the current connection, whichever it is.
    TimesOutAny,
}

struct Model {
    mistake: Option<Mistake>,
    killable: bool,
    /// No connection is lost by itself.
    lasting: bool,
}

/// The circumstances of the walks: whether calls are killed, and whether connections last.
const CIRCUMSTANCES: [(bool, bool); 3] = [(true, false), (false, false), (false, true)];

/// The model with `mistake`, in all circumstances.
fn all(mistake: Option<Mistake>) -> [Model; 3] {
    CIRCUMSTANCES.map(|(killable, lasting)| Model {
        mistake,
        killable,
        lasting,
    })
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
            // By the call before, whether or not another call takes them.
            kept: 1,
            waits_again: false,
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

type Next = figures::Next<World>;

impl Model {
    /// Does a step of the state machine, unless that step is forgotten.
    fn step<T>(&self, op: Op, request: &mut Request, act: impl FnOnce(&mut Request) -> T) -> T {
        if self.mistake == Some(Mistake::Forgets(op)) {
            return act(&mut request.clone());
        }
        act(request)
    }

    /// Returns `true` if nothing goes wrong on this connection, so that a call that is not killed
    /// gets its reply.
    fn is_tame(&self, generation: u64) -> bool {
        !self.killable && generation == 2
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}

#[test]
fn every_order_is_right_and_every_mistake_is_found() {
    let ops = [
        Op::Sent,
        Op::SendFailed,
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
        Mistake::ForgetsLater,
        Mistake::ReleasesExposed,
        Mistake::ReleasesUndrained,
        Mistake::FailedIsDone,
        Mistake::ReplyStays,
        Mistake::LateStays,
        Mistake::FindsOnlyOpen,
        Mistake::KeepsPart,
        Mistake::KeepsValid,
        Mistake::TakesOthers,
        Mistake::KeepsForEver,
        Mistake::TimesOutByState,
        Mistake::TimesOutAny,
    ];
    let seeded: Vec<Mistake> = ops
        .map(Mistake::Forgets)
        .into_iter()
        .chain(others)
        .collect();
    figures::explore("calls", &seeded, all, Model::explore);
}
