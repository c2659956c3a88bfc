// SPDX-License-Identifier: GPL-2.0

//! The walk through all orders.

use super::*;
use crate::figures::walk;

impl Model {
    /// The possible next steps.
    fn successors(&self, world: &World) -> Result<Next, String> {
        let mut next = Vec::new();
        self.sender(world, &mut next)?;
        self.task(world, &mut next)?;
        for generation in [1, 2] {
            self.peer(world, generation, &mut next);
            self.handler(world, generation, &mut next)?;
            self.teardown(world, generation, &mut next);
        }
        // A call that finds no registrations takes the registrations that others keep.
        if world.kept != 0 {
            let kept = 0;
            next.push((
                "another call takes what is kept",
                World {
                    kept,
                    ..world.clone()
                },
            ));
        }
        // The connect worker holds the lock under which calls are sent.
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

    /// The possible next steps, if the rules hold here.
    fn look(&self, world: &World) -> Result<Next, String> {
        if world.kept != 0 && world.reachable() {
            return Err(
                "registrations are left for the next call while memory is reachable".into(),
            );
        }
        let gone =
            |generation: u64| world.conns[generation as usize - 1].teardown == Teardown::Over;
        if world.kept != 0 && gone(world.kept) {
            return Err("registrations outlive their connection".into());
        }
        let next = self.successors(world)?;
        if next.is_empty() {
            self.check_end(world)?;
        }
        // Once the task is gone, exactly the calls with a record count on a connection in use.
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

    /// Checks a state without a next step.
    fn check_end(&self, world: &World) -> Result<(), String> {
        if world.task != Task::Done {
            return Err(format!("stuck in {:?}", world.task));
        }
        if !self.killable && !world.replied {
            return Err("no reply, and the call was not killed".into());
        }
        if world.pins != 0 {
            return Err("the call stays pinned".into());
        }
        Ok(())
    }

    /// Walks through all orders.
    pub(super) fn explore(&self) -> Result<Figures, String> {
        walk(World::new(), |world| self.look(world))
    }
}
