// SPDX-License-Identifier: GPL-2.0

//! The end of a connection.

use super::{Mistake, Model, Next, World, RECEIVES, SENDS, THREADS};
use crate::module::{os::Fifo, server::connection::reading::Reading};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Closing {
    No,
    /// The core has the connection to itself, and calls `xpo_detach`.
    Detaches,
    /// No message is sent. The numbers of the RDMA Reads that waited.
    Sends(Vec<usize>),
    /// No call waits for memory.
    Waits,
    /// No call waits for a thread, and the connection is ended.
    Disconnects,
    /// No thread has a reference; the drain begins.
    Drains,
    Drained,
    Over,
}

impl Model {
    /// A step of the core: `xpo_detach`, and `xpo_free` after the last reference.
    pub(super) fn close(&self, world: &World, next: &mut Next) {
        let mut new = world.clone();
        match &world.closing {
            Closing::No if !world.is_taken && (world.is_lost || self.of.impatient) => {
                new.is_taken = true;
                new.closing = Closing::Detaches;
            }
            Closing::Detaches => {
                new.is_open = false;
                let dropped = new.waiting.drain(..).map(|reads| reads.context).collect();
                new.closing = Closing::Sends(dropped);
            }
            Closing::Sends(dropped) => match dropped.split_first() {
                Some((&context, others)) => {
                    new.reading.take(context);
                    new.closing = Closing::Sends(others.into());
                }
                None => {
                    new.room.close();
                    new.closing = Closing::Waits;
                }
            },
            Closing::Waits => {
                self.close_inbox(&mut new);
                new.closing = Closing::Disconnects;
            }
            Closing::Disconnects => {
                let is_used = THREADS
                    .iter()
                    .any(|&thread| !world.hands[thread].is_empty());
                if is_used && !self.is(Mistake::FreesEarly) {
                    return;
                }
                new.closing = Closing::Drains;
            }
            Closing::Drains => {
                let parties = [RECEIVES, SENDS];
                let is_busy = parties.iter().any(|&party| !world.hands[party].is_empty());
                if (is_busy || !world.posted.is_empty()) && !self.is(Mistake::Undrained) {
                    return;
                }
                new.closing = Closing::Drained;
            }
            Closing::Drained => {
                new.room.close();
                self.close_inbox(&mut new);
                if !self.is(Mistake::ReadingStays) {
                    new.reading = Reading::none();
                }
                new.closing = Closing::Over;
            }
            Closing::No | Closing::Over => return,
        }
        next.push(("the core closes", new));
    }

    /// `Inbox::close`
    fn close_inbox(&self, world: &mut World) {
        if !self.is(Mistake::InboxStays) {
            world.inbox = Fifo::none();
        }
    }
}
