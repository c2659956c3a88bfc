// SPDX-License-Identifier: GPL-2.0

//! What threads and handlers do with calls.

use std::mem::take;

use super::{Call, Closing, Mistake, Model, Reads, Share, World, RECEIVES, ROOM, SENDS, WRONG};

/// The next thing that a party does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Takes a call, with the connection to itself.
    Take,
    /// The connection is free for other threads.
    LetGo,
    Receive(Call),
    /// Asks for memory for the arguments of a call.
    Admit(Call),
    /// Makes the RDMA Reads, or rejects the call.
    Make(Call),
    BeginReading(Call),
    Send(Reads),
    /// The RDMA Reads with this number were not sent, or those of another, and these still wait.
    Unsent(usize),
    /// They were carried out, or not.
    Completed(Reads, bool),
    /// Leaves a call to the threads, in front of others if its arguments were read.
    Push(Call),
    PushRead(Call),
    /// Looks whether messages that wait have room.
    Flush,
    /// Executes a call, unless the connection is closed.
    Execute(Call),
    Reply(Call),
    End(Call),
    Give(Share),
    /// Looks whether a call that waits has memory now, and leaves it to the threads.
    LookForWaiting,
    PushWaiting(Call),
    /// No call waits for memory from now on.
    CloseRoom,
    Lose,
}

type Done = Result<(), String>;

/// Takes memory for one call of what connections share.
fn take_one(shared: &mut u8) -> Option<()> {
    *shared = shared.checked_sub(1)?;
    Some(())
}

impl Model {
    /// The worlds after the next step of a party.
    pub(super) fn go_on(&self, world: &World, party: usize, after: &mut Vec<World>) -> Done {
        let mut new = world.clone();
        match new.hands[party].pop() {
            None => self.begin(new, party, after),
            Some(Step::Flush) => self.flush(new, party, None, after),
            Some(Step::Send(reads)) if new.is_open => {
                new.waiting.push_back(reads);
                if self.is(Mistake::SentLater) {
                    after.push(new);
                } else {
                    self.flush(new, party, Some(reads.context), after);
                }
            }
            Some(Step::Make(call)) => {
                if self.of.rejects {
                    let mut new = new.clone();
                    new.hands[party].push(Step::Reply(call.clone()));
                    after.push(new);
                }
                new.hands[party].push(Step::BeginReading(call));
                after.push(new);
            }
            Some(step) => {
                let mut hand = take(&mut new.hands[party]);
                self.act(&mut new, &mut hand, step)?;
                new.hands[party] = hand;
                after.push(new);
            }
        }
        Ok(())
    }

    /// What a party does that has nothing to do.
    fn begin(&self, mut new: World, party: usize, after: &mut Vec<World>) {
        let is_connected = new.closing < Closing::Disconnects;
        match party {
            RECEIVES => {
                let number = usize::from(new.came);
                let Some(&is_reduced) = self.of.calls.get(number).filter(|_| is_connected) else {
                    return;
                };
                let call = Call {
                    number: new.came,
                    is_reduced,
                    read: None,
                    share: None,
                    is_busy: true,
                };
                new.came += 1;
                new.busy += 1;
                new.hands[party].push(Step::Push(call));
            }
            SENDS => {
                let Some(reads) = new.posted.pop_front() else {
                    return;
                };
                if !self.is(Mistake::RoomUnused) {
                    new.hands[party].push(Step::Flush);
                }
                if self.of.fragile && is_connected {
                    let mut new = new.clone();
                    new.hands[party].push(Step::Completed(reads, false));
                    after.push(new);
                }
                new.hands[party].push(Step::Completed(reads, is_connected));
            }
            _ if new.has_data && !new.is_taken => {
                new.is_taken = true;
                new.hands[party].extend(match self.is(Mistake::LetsGoEarly) {
                    true => [Step::Take, Step::LetGo],
                    false => [Step::LetGo, Step::Take],
                });
            }
            _ => return,
        }
        after.push(new);
    }

    /// `Settled::flush`: posts messages until the device has no room, or refuses one, and all others
    /// then. `sent` is the number of the message that the party sends, if it does.
    fn flush(&self, mut new: World, party: usize, sent: Option<usize>, after: &mut Vec<World>) {
        while new.is_open && new.posted.len() < ROOM {
            let Some(reads) = new.waiting.pop_front() else {
                break;
            };
            if new.has_refused {
                // Who was refused first loses the connection.
                new.hands[party].extend(sent.map(Step::Unsent));
                break;
            }
            if self.of.fragile {
                let mut refused = new.clone();
                refused.has_refused = true;
                refused.hands[party].extend(sent.map(Step::Unsent));
                if !self.is(Mistake::RefusedSilently) {
                    refused.hands[party].push(Step::Lose);
                }
                after.push(refused);
            }
            new.posted.push_back(reads);
        }
        after.push(new);
    }

    /// A step with one outcome, of a party that does what is in `hand` after it.
    fn act(&self, new: &mut World, hand: &mut Vec<Step>, step: Step) -> Done {
        match step {
            Step::Take => {
                let call = self.pop(new)?;
                // Behind letting go, if that is still to come.
                hand.insert(0, Step::Receive(call));
            }
            Step::LetGo => new.is_taken = false,
            Step::Receive(call) if call.is_reduced => hand.push(Step::Admit(call)),
            Step::Receive(mut call) => {
                let share = call.share.take();
                hand.push(Step::Execute(call));
                hand.extend(share.map(Step::Give));
            }
            Step::Admit(call) => self.admit(new, hand, call)?,
            Step::BeginReading(call) => self.begin_reading(new, hand, call),
            Step::Unsent(context) | Step::Send(Reads { context, .. }) => {
                hand.extend(new.reading.take(context).map(Step::End));
            }
            Step::Completed(reads, is_done) => self.completed(new, hand, reads, is_done),
            Step::Push(call) => match new.inbox.push(call) {
                Ok(()) => new.has_data = new.has_data || !self.is(Mistake::ForgetsFlag),
                Err(call) => self.drop_call(hand, call, Mistake::OverrunSilently),
            },
            Step::PushRead(call) => match new.inbox.push_first(call) {
                Ok(()) => new.has_data = true,
                Err(call) => self.drop_call(hand, call, Mistake::OverrunSilently),
            },
            Step::PushWaiting(call) => match new.inbox.push(call) {
                Ok(()) => {
                    new.has_data = true;
                    hand.push(Step::LookForWaiting);
                }
                Err(call) => {
                    self.drop_call(hand, call, Mistake::OverrunSilently);
                    // No other goes on.
                    hand.push(Step::CloseRoom);
                }
            },
            Step::CloseRoom => drop(new.room.close()),
            Step::Execute(call) => self.execute(new, hand, call)?,
            Step::Reply(mut call) => {
                if !self.is(Mistake::CountsOn) {
                    new.busy -= 1;
                }
                call.is_busy = self.is(Mistake::CountsTwice);
                new.replied += 1;
                hand.push(Step::End(call));
            }
            Step::End(call) => {
                new.busy -= i8::from(call.is_busy);
                if !self.is(Mistake::KeepsMemory) {
                    hand.extend(call.share.map(Step::Give));
                }
            }
            Step::Give(share) => {
                if !self.is(Mistake::GivesNothing) {
                    new.shared += u8::from(new.room.put(share).is_some());
                }
                if !self.is(Mistake::LooksNot) {
                    hand.push(Step::LookForWaiting);
                }
            }
            Step::LookForWaiting => {
                let World { room, shared, .. } = new;
                if let Some((mut call, share)) = room.next(|_| 1, |_, _| take_one(shared)) {
                    call.share = Some(share);
                    hand.push(Step::PushWaiting(call));
                }
            }
            Step::Lose => new.is_lost = true,
            Step::Flush | Step::Make(_) => unreachable!("they have several outcomes"),
        }
        Ok(())
    }

    /// `Inbox::pop`
    fn pop(&self, new: &mut World) -> Result<Call, String> {
        let call = new.inbox.pop().ok_or("a thread looks where no call is")?;
        let is_last = new.inbox.is_empty() || self.is(Mistake::ClearsEarly);
        if is_last && !self.is(Mistake::KeepsFlag) {
            new.has_data = false;
        }
        Ok(call)
    }

    /// `Allowance::admit`
    fn admit(&self, new: &mut World, hand: &mut Vec<Step>, call: Call) -> Done {
        if call.share.is_some() {
            hand.push(Step::Make(call));
            return Ok(());
        }
        let World { room, shared, .. } = new;
        let waits = room.usage().2 != 0;
        let mut admitted = Err(call);
        if self.is(Mistake::Overtakes) {
            let waiting = room.close();
            admitted = admitted.or_else(|call| room.admit(call, 1, |_, _| take_one(shared)));
            room.open(waiting);
        }
        match admitted.or_else(|call| room.admit(call, 1, |_, _| take_one(shared))) {
            Ok(Some(_)) if waits => return Err("a call overtakes one that waits".into()),
            Ok(Some((mut call, share))) => {
                call.share = Some(share);
                hand.push(Step::Make(call));
            }
            Ok(None) => {}
            Err(call) => self.drop_call(hand, call, Mistake::UnreadSilently),
        }
        Ok(())
    }

    /// `Calls::begin_reading`
    fn begin_reading(&self, new: &mut World, hand: &mut Vec<Step>, call: Call) {
        let of = call.number;
        if self.is(Mistake::TakesPlace) {
            new.reading.take(0);
        }
        match new.reading.add(call) {
            Ok(context) => hand.push(Step::Send(Reads { context, of })),
            Err(call) => self.drop_call(hand, call, Mistake::UnreadSilently),
        }
    }

    /// `TransferHandler::read`
    fn completed(&self, new: &mut World, hand: &mut Vec<Step>, reads: Reads, is_done: bool) {
        let context = match self.is(Mistake::TakesAnother) {
            true => 0,
            false => reads.context,
        };
        let Some(mut call) = new.reading.take(context) else {
            return;
        };
        if is_done || self.is(Mistake::FailedIsRead) {
            call.read = Some(if is_done { reads.of } else { WRONG });
            call.is_reduced = false;
            hand.push(Step::PushRead(call));
        } else {
            self.drop_call(hand, call, Mistake::FailsSilently);
        }
    }

    /// The end of `Settled::take_call`, and the service.
    fn execute(&self, new: &mut World, hand: &mut Vec<Step>, call: Call) -> Done {
        if new.is_closed() && !self.is(Mistake::ExecutesLost) {
            hand.push(Step::End(call));
            return Ok(());
        }
        let number = usize::from(call.number);
        if new.is_closed() {
            return Err("a call is executed that gets no reply".into());
        }
        if self.of.calls[number] && call.read != Some(call.number) {
            return Err("a call is executed without its arguments".into());
        }
        if take(&mut new.waits_for_service[number]) {
            hand.push(Step::Reply(call));
            return Ok(());
        }
        Err("a call is executed twice".into())
    }

    /// The connection is lost because of a call, which ends.
    fn drop_call(&self, hand: &mut Vec<Step>, call: Call, silently: Mistake) {
        hand.push(Step::End(call));
        if !self.is(silently) {
            hand.push(Step::Lose);
        }
    }
}
