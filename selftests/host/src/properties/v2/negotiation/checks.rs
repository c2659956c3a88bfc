// SPDX-License-Identifier: GPL-2.0

//! The invariants.

use super::*;

/// The lifetimes of the memory, in seconds.
const HOUR: u64 = 3600;
const TEN_MINUTES: u64 = 600;

impl Model {
    /// Returns `true` if client and server have a version in common, and can find it.
    pub(super) fn has_common(&self, world: &World) -> bool {
        match (self.versions, self.kind) {
            (Versions::One, Kind::Ours(Versions::Two)) => false,
            (Versions::One, Kind::Upgrades) => !world.turned,
            (Versions::Two, Kind::Ours(theirs)) => theirs != Versions::One,
            (Versions::Two, Kind::Turns) => !world.turned,
            // An upgraded server may have refused the offer before.
            (Versions::Two, _) => false,
            _ => true,
        }
    }

    /// Returns `true` if the client cannot tell such a server from one that is down for a while: it
    /// is silent, or takes back what it has accepted.
    fn never_ends(&self) -> bool {
        self.versions == Versions::Two && matches!(self.kind, Kind::Silent | Kind::Fickle)
    }

    /// The possible next steps, if the rules hold here.
    pub(super) fn look(&self, world: &World) -> Result<Next, String> {
        if world.connections > 4 + world.lost {
            return if self.never_ends() {
                Ok(Next::new())
            } else {
                Err("I9 no version after four connections".into())
            };
        }
        self.check_versions(world)?;
        let sent = world.calls.iter().filter(|&&call| call == Call::Sent);
        if sent.count() > world.granted as usize {
            return Err("I3 more calls without an answer than granted".into());
        }
        let remembered = world.memory.version_1(&PEER, world.now).is_some();
        if world.heard.worked && remembered {
            return Err("I11 a peer is lowered with which version 2 has worked".into());
        }
        let mut next = self.progress(world)?;
        let over = world.failed || world.calls == [Call::Done; 2];
        if !over && next.iter().all(|(_, new)| new == world) {
            return Err("I10 a call waits, and nothing can be done".into());
        }
        self.surroundings(world, &mut next);
        Ok(next)
    }

    fn check_versions(&self, world: &World) -> Result<(), String> {
        let version = |message: &Message| match message {
            Message::Offer => Some(2),
            Message::Call { version, .. } => Some(*version),
            Message::Answer { .. } => None,
        };
        let mut sent = world.to_server.iter().filter_map(version);
        match self.versions {
            Versions::One if sent.any(|version| version != 1) => {
                Err("I12 version 2 is sent by a client of version 1".into())
            }
            Versions::Two if sent.any(|version| version != 2) => {
                Err("I12 version 1 is sent by a client of version 2".into())
            }
            _ => Ok(()),
        }
    }

    /// Checks the memory's entry for the peer when the next connection begins.
    pub(super) fn check_memory(&self, world: &World, remembered: bool) -> Result<(), String> {
        let Heard {
            certain,
            lost,
            lost_at,
            ..
        } = world.heard;
        let is_certain = certain.is_some_and(|at| world.now < at + HOUR);
        let is_suspected = lost >= 2 && world.now < lost_at + TEN_MINUTES;
        if remembered && !is_certain && !is_suspected {
            return Err("I11 version 1 is remembered without a cause, or for longer".into());
        }
        if !remembered && is_certain {
            return Err("I11 a refusal is forgotten within its hour".into());
        }
        Ok(())
    }
}

impl Heard {
    /// Takes a note, as the requirement demands.
    pub(super) fn note(&mut self, note: Note, now: u64) {
        let lost = if note == Note::Lost { self.lost + 1 } else { 0 };
        *self = match note {
            Note::Lost => Self {
                lost,
                lost_at: now,
                ..*self
            },
            Note::Refused | Note::Version1 => Self {
                certain: Some(now),
                worked: false,
                lost,
                ..*self
            },
            Note::Worked => Self {
                worked: true,
                ..Self::default()
            },
            Note::Version1Refused => Self::default(),
        };
    }
}
