// SPDX-License-Identifier: GPL-2.0

//! The invariants.

use super::*;
use crate::module::proto::v2::limits::growth::Size;

impl Model {
    /// The possible next steps, if the rules hold here.
    pub(super) fn look(&self, world: &World) -> Result<Next, String> {
        for at in [CLIENT, SERVER] {
            if world.links[at].len() > world.receives[at].len() {
                return Err("I2 more messages are on their way than Receives are posted".into());
            }
            if self.is_ours(at) {
                self.check_pending(world, at)?;
            }
        }
        self.check_grant(world)?;
        self.check_rest(world)?;
        let mut next = self.progress(world)?;
        let waits = world.fresh > 0 || !world.planned.is_empty() || !world.calls.is_empty();
        if waits && next.is_empty() {
            return Err("I6 a call waits, and nothing can be done".into());
        }
        self.changes(world, &mut next);
        Ok(next)
    }

    fn check_grant(&self, world: &World) -> Result<(), String> {
        for at in [CLIENT, SERVER] {
            let calls = if at == CLIENT { world.calls.len() } else { 0 };
            let requests = usize::from(world.ends[at].requests.open.is_some());
            let grant = if at == CLIENT { self.grant } else { 1 };
            if calls + requests > grant as usize {
                return Err("I3 more messages without an answer than granted".into());
            }
        }
        Ok(())
    }

    /// Checks an xid that is about to be used by an end.
    pub(super) fn take_xid(&self, world: &World, at: usize, xid: u32) -> Result<(), String> {
        let end = &world.ends[at];
        let call = at == CLIENT && world.calls.iter().any(|call| call.xid == xid);
        let open = end.requests.open.is_some_and(|open| open.xid == xid);
        let one_way = end
            .credits
            .unconfirmed
            .is_some_and(|message| message.xid == xid);
        if call || open || one_way {
            return Err("I4 an xid is live twice".into());
        }
        Ok(())
    }

    fn check_pending(&self, world: &World, at: usize) -> Result<(), String> {
        let peer = &world.ends[1 - at];
        let grows = matches!(peer.size, Size::Growing { asked: true, .. });
        let due = peer.update.is_some_and(|update| update.finished);
        let coming = world.links[at]
            .iter()
            .any(|message| matches!(message, Message::Update { finished: true, .. }));
        if world.ends[at].requests.pending.is_some() && !(grows || due || coming) {
            return Err("I7 a change is pending, and the peer is not at work on it".into());
        }
        Ok(())
    }

    /// Checks the limits when nothing is on its way.
    fn check_rest(&self, world: &World) -> Result<(), String> {
        let quiet =
            world.links.iter().all(Vec::is_empty) && world.delayed.iter().all(Vec::is_empty);
        for at in [CLIENT, SERVER] {
            let smallest = world.receives[1 - at].iter().min();
            if quiet && smallest.is_some_and(|&size| self.limits(world, at).send > size) {
                return Err("I8 a limit exceeds a Receive that is posted".into());
            }
        }
        Ok(())
    }
}
