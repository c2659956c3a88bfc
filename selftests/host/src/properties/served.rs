// SPDX-License-Identifier: GPL-2.0

//! Two received calls, in every order of the completions of their Receives, RDMA Reads and Sends, of two threads of the
//! upper layer, of its cache, which defers a call, and of the end of the connection.
//!
//! Life and room are the module's; inbox, line of waiting replies, the upper layer's dispatch and
//! the callers are modelled here, one step for each stretch under a lock and each access to a word.
//! In all orders:
//!
//! - the record of a call is recycled once, when the upper layer has released it and its Send has completed or was
//!   dropped, and the device cannot reach its memory;
//! - no call is served whose arguments are incomplete (V1-157), and each gets one reply at most;
//! - a call in the inbox is served, and a reply that waits is posted, unless the connection closes (V1-36, V1-121);
//! - no more is posted than fits, and all room comes back;
//! - a closed connection is drained and freed, and nothing of it is left.
//!
//! Each mistake that is seeded into life, room or their callers breaks one of these.

mod completions;
mod threads;

use crate::figures::{self, walk, Figures};
use crate::module::proto::responder::{
    life::{CallAction, CallLife},
    room::SendRoom,
};

/// The number of a call. The arguments of [`READS`] are read.
type Call = usize;
const READS: Call = 0;

/// The step of a party that moves a call on by loading its word, and storing the next one if it is
/// the same then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Access {
    Load,
    Store(u32),
}

/// The progress of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thread {
    Idle,
    /// The upper layer has given it the connection.
    Dispatched,
    /// It clears DATA, outside the lock of the inbox.
    ClearsData(Option<Call>),
    /// It lets the connection be dispatched again, with this call in hand.
    Received(Option<Call>),
    Serves(Call),
    Plans(Call),
    Posts(Call),
    /// It has posted the reply, and marks the call now.
    MarksLate(Call),
    Releases(Call, Access),
    Deletes,
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Completion {
    Receive(Call),
    Read(Call, bool),
    /// Of a reply, or of a chain that belongs to no call.
    Send(Option<Call>),
}

/// The progress of the completion handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handler {
    Idle,
    Push(Call),
    /// It requests the upper layer to dispatch the connection.
    Enqueue,
    Sent(Call, Access),
    /// It posts the reply that has waited longest.
    Next,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    words: [u32; 2],
    arrived: [bool; 2],
    inbox: Vec<Call>,
    data: bool,
    /// BUSY: a thread has the connection, or is to have it.
    busy: bool,
    queued: bool,
    threads: [Thread; 2],
    handler: Handler,
    completions: Vec<Completion>,
    /// Calls whose arguments the device reads.
    reading: Vec<Call>,
    room: SendRoom,
    fifo: Vec<Call>,
    /// Chains that the device sends.
    chains: Vec<Option<Call>>,
    /// Calls that the cache keeps, and calls to be served again.
    deferred: Vec<Call>,
    revisits: Vec<Call>,
    was_deferred: bool,
    lost: bool,
    close: bool,
    /// The connection is deleted, and the gate shut.
    deleted: bool,
    drained: bool,
    freed: bool,
    incomplete: [bool; 2],
    recycled: [u8; 2],
    replies: [u8; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// The transition returns its action, and changes nothing.
    ForgetsRead,
    ForgetsTaken,
    ForgetsWaits,
    ForgetsPosted,
    ForgetsSent,
    ForgetsDropped,
    ForgetsReleased,
    /// A flushed RDMA Read makes the arguments ready.
    FlushIsData,
    /// The upper layer's release recycles the record while the reply is posted.
    ReleaseRecycles,
    /// It does so while the reply waits.
    ReleaseRecyclesWaiting,
    /// The Send recycles it while the upper layer holds the call.
    SentRecycles,
    /// Neither of the two recycles it.
    NeverRecycles,
    /// A reply that waits leaves a call behind that is not marked.
    DropsUnmarked,
    /// The next life overwrites a life that was stored in between.
    StoresBlindly,
    /// A call is marked after its reply is posted.
    MarksLate,
    /// A reply is posted without room.
    PostsWithoutRoom,
    /// The room of a chain that could not be posted does not come back.
    LosesRoom,
    /// The room of a chain whose call is released does not come back.
    LosesRoomOfReleased,
    /// A closed connection admits replies to the line.
    AdmitsClosed,
    /// The completion handler does not look at the line.
    LeavesLine,
    /// It does not ask for a dispatch when the line is short again.
    LeavesLong,
    /// DATA is cleared after the lock of the inbox is released.
    ClearsLate,
    /// The upper layer is not asked to look at the inbox.
    PushesSilently,
    /// The connection is not looked at again when a thread has received a call.
    ReceivesOnce,
    /// The deletion leaves the line.
    DeletesWithLine,
    /// The deletion leaves the calls that were to be served again.
    DeletesWithRevisits,
    /// A thread releases a call that was deferred.
    ReleasesDeferred,
    /// The drain does not wait for RDMA Reads.
    DrainsSendsOnly,
    /// The teardown leaves the inbox.
    FreesWithInbox,
}

const MISTAKES: [Mistake; 29] = [
    Mistake::ForgetsRead,
    Mistake::ForgetsTaken,
    Mistake::ForgetsWaits,
    Mistake::ForgetsPosted,
    Mistake::ForgetsSent,
    Mistake::ForgetsDropped,
    Mistake::ForgetsReleased,
    Mistake::FlushIsData,
    Mistake::ReleaseRecycles,
    Mistake::ReleaseRecyclesWaiting,
    Mistake::SentRecycles,
    Mistake::NeverRecycles,
    Mistake::DropsUnmarked,
    Mistake::StoresBlindly,
    Mistake::MarksLate,
    Mistake::PostsWithoutRoom,
    Mistake::LosesRoom,
    Mistake::LosesRoomOfReleased,
    Mistake::AdmitsClosed,
    Mistake::LeavesLine,
    Mistake::LeavesLong,
    Mistake::ClearsLate,
    Mistake::PushesSilently,
    Mistake::ReceivesOnce,
    Mistake::DeletesWithLine,
    Mistake::DeletesWithRevisits,
    Mistake::ReleasesDeferred,
    Mistake::DrainsSendsOnly,
    Mistake::FreesWithInbox,
];

struct Model {
    mistake: Option<Mistake>,
    /// The connection may be lost or closed.
    fragile: bool,
    /// Another chain is in the send queue.
    crowded: bool,
}

type Next = figures::Next<World>;
type Moved = Option<(CallLife, CallAction)>;

impl World {
    fn new(crowded: bool) -> Self {
        let mut room = SendRoom::new(1);
        let chains = if crowded {
            room.admit(1);
            vec![None]
        } else {
            Vec::new()
        };
        Self {
            words: [CallLife::READY.word(); 2],
            arrived: [false; 2],
            inbox: Vec::new(),
            data: false,
            busy: false,
            queued: false,
            threads: [Thread::Idle; 2],
            handler: Handler::Idle,
            completions: Vec::new(),
            reading: Vec::new(),
            room,
            fifo: Vec::new(),
            chains,
            deferred: Vec::new(),
            revisits: Vec::new(),
            was_deferred: false,
            lost: false,
            close: false,
            deleted: false,
            drained: false,
            freed: false,
            incomplete: [false; 2],
            recycled: [0; 2],
            replies: [0; 2],
        }
    }

    fn life(&self, call: Call) -> CallLife {
        CallLife::from_word(self.words[call])
    }

    /// svc_xprt_enqueue(): has the connection dispatched if it has anything to do.
    fn enqueue(&mut self) {
        let may_receive = self.room.is_short(1);
        let todo = (self.data || !self.revisits.is_empty()) && may_receive;
        if !self.busy && (self.close || todo) {
            self.busy = true;
            self.queued = true;
        }
    }

    /// Takes the action of a transition.
    fn act(&mut self, call: Call, action: CallAction) -> Result<(), String> {
        if action == CallAction::Recycle {
            self.recycled[call] += 1;
            let is_used = self.reading.contains(&call)
                || self.chains.contains(&Some(call))
                || self.fifo.contains(&call)
                || self.inbox.contains(&call)
                || self.deferred.contains(&call)
                || self.revisits.contains(&call);
            if is_used || self.recycled[call] > 1 {
                return Err("a record is recycled that is in use".into());
            }
        }
        Ok(())
    }

    /// Posts a chain to the device, which takes it unless the gate is shut.
    fn post(&mut self, call: Call) -> bool {
        if self.deleted {
            return false;
        }
        self.replies[call] += 1;
        self.chains.push(Some(call));
        true
    }
}

impl Model {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Moves a call on in one step, and takes the action.
    fn step(
        &self,
        world: &mut World,
        call: Call,
        forgets: Mistake,
        moved: Moved,
    ) -> Result<(), String> {
        let (next, action) = moved.ok_or("a call is not where its party takes it to be")?;
        if !self.is(forgets) {
            world.words[call] = next.word();
        }
        world.act(call, action)
    }

    fn released(&self, life: CallLife) -> Moved {
        let (next, action) = life.released()?;
        let gone = CallLife::READING.read(false).map(|(gone, _)| gone)?;
        let recycles = match action {
            CallAction::Nothing if life.is_at_device() => self.is(Mistake::ReleaseRecycles),
            CallAction::Nothing => self.is(Mistake::ReleaseRecyclesWaiting),
            _ => return Some((next, action)),
        };
        Some(if recycles {
            (gone, CallAction::Recycle)
        } else {
            (next, action)
        })
    }

    fn sent(&self, life: CallLife) -> Moved {
        let (next, action) = life.sent()?;
        let gone = CallLife::READING.read(false).map(|(gone, _)| gone)?;
        match action {
            CallAction::Nothing if self.is(Mistake::SentRecycles) => {
                Some((gone, CallAction::Recycle))
            }
            CallAction::Recycle if self.is(Mistake::NeverRecycles) => {
                Some((next, CallAction::Nothing))
            }
            _ => Some((next, action)),
        }
    }

    /// An access to the word of a call; the action once the next life is stored.
    fn access(
        &self,
        world: &mut World,
        call: Call,
        access: Access,
        forgets: Mistake,
        moved: impl Fn(CallLife) -> Moved,
    ) -> Result<Access, Option<CallAction>> {
        match access {
            Access::Load => Ok(Access::Store(world.words[call])),
            Access::Store(was) if world.words[call] == was || self.is(Mistake::StoresBlindly) => {
                let Some((next, action)) = moved(CallLife::from_word(was)) else {
                    return Err(None);
                };
                if !self.is(forgets) {
                    world.words[call] = next.word();
                }
                Err(Some(action))
            }
            // Another party was faster.
            Access::Store(_) => Ok(Access::Load),
        }
    }

    /// All that can happen next, if the world is a right one.
    fn look(&self, world: &World) -> Result<Next, String> {
        self.check(world)?;
        let mut next = Next::new();
        self.arrivals(world, &mut next);
        self.device(world, &mut next);
        self.handler(world, &mut next)?;
        for at in 0..world.threads.len() {
            self.thread(world, at, &mut next)?;
        }
        self.cache(world, &mut next)?;
        self.closer(world, &mut next)?;
        self.teardown(world, &mut next)?;
        if next.iter().all(|(_, new)| new == world) {
            self.rests(world)?;
        }
        Ok(next)
    }

    /// Checks that each party has the calls that it may have.
    fn check(&self, world: &World) -> Result<(), String> {
        if world.replies.iter().any(|&replies| replies > 1) {
            return Err("a call gets two replies".into());
        }
        if world.chains.len() > 1 {
            return Err("more is posted than there is room for".into());
        }
        let at_device = world.reading.iter().chain(world.chains.iter().flatten());
        if at_device
            .into_iter()
            .any(|&call| !world.life(call).is_at_device())
        {
            return Err("the device has memory of a call that is not marked".into());
        }
        if world
            .fifo
            .iter()
            .any(|&call| world.life(call).posted().is_none())
        {
            return Err("a reply waits for a call that has none".into());
        }
        Ok(())
    }

    /// Checks a world at the end of all steps.
    fn rests(&self, world: &World) -> Result<(), String> {
        let calls = [READS, 1];
        if !calls
            .iter()
            .all(|&call| !world.arrived[call] || world.life(call).is_gone())
        {
            return Err("a call is left".into());
        }
        if calls
            .iter()
            .any(|&call| world.recycled[call] != u8::from(world.arrived[call]))
        {
            return Err("a record is not recycled".into());
        }
        if !world.room.is_empty() || !world.fifo.is_empty() || !world.inbox.is_empty() {
            return Err("something is left of the connection".into());
        }
        if self.fragile != world.freed {
            return Err("the connection is left as it is".into());
        }
        Ok(())
    }

    /// Walks through all orders.
    fn explore(&self) -> Result<Figures, String> {
        walk(World::new(self.crowded), |world| self.look(world))
    }
}

/// The model with `mistake`, in all circumstances.
fn all(mistake: Option<Mistake>) -> [Model; 4] {
    [(false, false), (false, true), (true, false), (true, true)].map(|(fragile, crowded)| Model {
        mistake,
        fragile,
        crowded,
    })
}

// V1-36, V1-121, V1-130, V1-157: every order is right, and every seeded mistake is found.
#[test]
fn every_order_is_right_and_every_mistake_is_found() {
    figures::explore("received calls", &MISTAKES, all, Model::explore);
}
