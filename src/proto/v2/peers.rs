// SPDX-License-Identifier: GPL-2.0

//! The memory of peers that have version 1 alone, shared by all transports to them.
//!
//! Two causes have two lifetimes, so that a link that fails takes version 2 from no mount for long:
//! an answer is certain and counts for an hour; an offer that was lost twice in a row is a
//! suspicion, counts for ten minutes, and only if version 2 has never worked with that peer. Once
//! it has, a loss never lowers the version of the peer.
//!
//! Time comes with each call, in seconds.

use core::net::IpAddr;

/// An hour: the peer has answered.
const CERTAIN: u64 = 3600;

/// Ten minutes: the peer may not have received the offer.
const SUSPECTED: u64 = 600;

/// Two connections that are lost at long Sends within a minute, ...
const AGAIN: u64 = 60;

/// ... and for ten minutes no larger Receives are requested from the peer, nor believed to exist.
const NO_GROWTH: u64 = 600;

/// A peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Peer {
    /// The number of the network namespace.
    pub(crate) netns: u32,
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
}

/// A result of negotiation that is worth remembering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Note {
    /// Version 2 works.
    Worked,
    /// The peer has refused version 2 by an error.
    Refused,
    /// It has answered in version 1.
    Version1,
    /// The offer was lost, or not answered in time.
    Lost,
    /// The peer has refused version 1: a suspicion was wrong.
    Version1Refused,
}

/// The reason to use version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Cause {
    /// It has refused version 2 by an error.
    Refused,
    /// It has answered in version 1.
    AnsweredInVersion1,
    /// Two offers were lost.
    Suspected,
}

impl Cause {
    /// The word for administrators.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::AnsweredInVersion1 => "answered",
            Self::Suspected => "suspected",
        }
    }
}

/// The knowledge of the version of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
enum Known {
    Nothing,
    /// One offer was lost.
    LostOnce,
    /// Version 2 has worked.
    Two,
    One {
        cause: Cause,
        until: u64,
    },
}

/// The losses of connections at Sends longer than the size before the last growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
enum LongSends {
    Fine,
    LostAt(u64),
    NoneUntil(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
struct Entry {
    peer: Peer,
    /// The order of the last notes.
    noted: u64,
    known: Known,
    long_sends: LongSends,
}

/// A peer that is remembered to have version 1 alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) cause: Cause,
    /// The seconds until it is forgotten.
    pub(crate) left: u64,
}

/// The memory, of at most `N` peers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Peers<const N: usize = 256> {
    entries: [Option<Entry>; N],
    notes: u64,
}

impl<const N: usize> Peers<N> {
    /// An empty memory.
    pub(crate) const fn new() -> Self {
        Self {
            entries: [None; N],
            notes: 0,
        }
    }

    fn find(&self, peer: &Peer) -> Option<&Entry> {
        self.entries
            .iter()
            .flatten()
            .find(|entry| entry.peer == *peer)
    }

    /// The memory of version 1 for a peer.
    pub(crate) fn version_1(&self, peer: &Peer, now: u64) -> Option<Remembered> {
        match self.find(peer)?.known {
            Known::One { cause, until } if until > now => Some(Remembered {
                cause,
                left: until.saturating_sub(now),
            }),
            _ => None,
        }
    }

    /// Returns `true` if larger Receives of a peer may be used.
    pub(crate) fn may_grow(&self, peer: &Peer, now: u64) -> bool {
        !self
            .find(peer)
            .is_some_and(|entry| matches!(entry.long_sends, LongSends::NoneUntil(t) if t > now))
    }

    /// The entry of a peer: a new one takes a free place, or replaces the oldest.
    fn entry(&mut self, peer: &Peer) -> Option<&mut Entry> {
        self.notes = self.notes.saturating_add(1);
        let noted = self.notes;
        // Its own entry is the youngest of all here, a free place the oldest but for that.
        let age = |entry: &&mut Option<Entry>| match **entry {
            Some(entry) if entry.peer == *peer => (0, 0),
            Some(entry) => (1, entry.noted),
            None => (1, 0),
        };
        let slot = self.entries.iter_mut().min_by_key(age)?;
        let entry = slot.filter(|entry| entry.peer == *peer).unwrap_or(Entry {
            peer: *peer,
            noted,
            known: Known::Nothing,
            long_sends: LongSends::Fine,
        });
        Some(slot.insert(Entry { noted, ..entry }))
    }

    /// Notes the result of a negotiation.
    pub(crate) fn note(&mut self, peer: &Peer, note: Note, now: u64) {
        let Some(Entry { known, .. }) = self.entry(peer) else {
            return;
        };
        let one = |cause, lifetime: u64| Known::One {
            cause,
            until: now.saturating_add(lifetime),
        };
        *known = match (note, *known) {
            (Note::Worked, _) => Known::Two,
            (Note::Refused, _) => one(Cause::Refused, CERTAIN),
            (Note::Version1, _) => one(Cause::AnsweredInVersion1, CERTAIN),
            (Note::Version1Refused, _) => Known::Nothing,
            (Note::Lost, Known::Two) => Known::Two,
            (Note::Lost, Known::LostOnce) => one(Cause::Suspected, SUSPECTED),
            (Note::Lost, Known::One { cause, until }) if until > now => Known::One { cause, until },
            (Note::Lost, Known::Nothing | Known::One { .. }) => Known::LostOnce,
        };
    }

    /// A connection was lost at a Send longer than the peer's size before it grew.
    pub(crate) fn lost_at_long_send(&mut self, peer: &Peer, now: u64) {
        let Some(Entry { long_sends, .. }) = self.entry(peer) else {
            return;
        };
        *long_sends = match *long_sends {
            LongSends::LostAt(first) if now.saturating_sub(first) < AGAIN => {
                LongSends::NoneUntil(now.saturating_add(NO_GROWTH))
            }
            LongSends::NoneUntil(until) if until > now => LongSends::NoneUntil(until),
            LongSends::Fine | LongSends::LostAt(_) | LongSends::NoneUntil(_) => {
                LongSends::LostAt(now)
            }
        };
    }

    /// Forgets the peers of a rule that is written.
    pub(crate) fn forget(&mut self, is_of_rule: impl Fn(&Peer) -> bool) {
        for slot in &mut self.entries {
            *slot = slot.filter(|entry| !is_of_rule(&entry.peer));
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_peers))]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    fn peer(port: u16) -> Peer {
        Peer {
            netns: 1,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port,
        }
    }

    fn remembered(cause: Cause, left: u64) -> Option<Remembered> {
        Some(Remembered { cause, left })
    }

    // V2-71: an hour, ten minutes after two losses in a row, and nothing after one.
    #[test]
    fn lifetimes() {
        let peer = peer(20_049);
        for (note, cause) in [
            (Note::Refused, Cause::Refused),
            (Note::Version1, Cause::AnsweredInVersion1),
        ] {
            let mut peers = Peers::<2>::new();
            peers.note(&peer, note, 100);
            assert_eq!(peers.version_1(&peer, 100), remembered(cause, 3600));
            assert_eq!(peers.version_1(&peer, 3699), remembered(cause, 1));
            assert_eq!(peers.version_1(&peer, 3700), None);
        }

        let mut peers = Peers::<2>::new();
        peers.note(&peer, Note::Lost, 100);
        assert_eq!(peers.version_1(&peer, 100), None);
        peers.note(&peer, Note::Lost, 200);
        assert_eq!(peers.version_1(&peer, 799), remembered(Cause::Suspected, 1));
        assert_eq!(peers.version_1(&peer, 800), None);
        // It is forgotten, so that one more loss is the first.
        peers.note(&peer, Note::Lost, 800);
        assert_eq!(peers.version_1(&peer, 800), None);
    }

    // V2-71: once version 2 has worked with a peer, a loss never lowers its version.
    #[test]
    fn a_loss_lowers_nothing_that_worked() {
        let peer = peer(20_049);
        let mut peers = Peers::<2>::new();
        peers.note(&peer, Note::Lost, 0);
        peers.note(&peer, Note::Worked, 0);
        for now in 0..4 {
            peers.note(&peer, Note::Lost, now);
            assert_eq!(peers.version_1(&peer, now), None);
        }
        // An error does.
        peers.note(&peer, Note::Refused, 4);
        assert!(peers.version_1(&peer, 4).is_some());
        // A loss extends nothing.
        peers.note(&peer, Note::Lost, 3000);
        assert_eq!(peers.version_1(&peer, 3603), remembered(Cause::Refused, 1));
    }

    // V2-71: a suspicion that was wrong, and a rule that is written.
    #[test]
    fn forgets() {
        let (one, other) = (peer(1), peer(2));
        let mut peers = Peers::<2>::new();
        peers.note(&one, Note::Lost, 0);
        peers.note(&one, Note::Lost, 0);
        peers.note(&one, Note::Version1Refused, 0);
        assert_eq!(peers.version_1(&one, 0), None);

        peers.note(&one, Note::Refused, 0);
        peers.note(&other, Note::Refused, 0);
        peers.forget(|peer| peer.port == 1);
        assert_eq!(peers.version_1(&one, 0), None);
        assert!(peers.version_1(&other, 0).is_some());
    }

    // V2-71: namespace, address and port; the oldest makes room.
    #[test]
    fn keys_and_bounds() {
        let first = peer(1);
        let address = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let others = [
            Peer { netns: 2, ..first },
            Peer { address, ..first },
            Peer { port: 2, ..first },
        ];
        let mut peers = Peers::<3>::new();
        peers.note(&first, Note::Refused, 0);
        for other in &others {
            assert_eq!(peers.version_1(other, 0), None);
        }
        peers.note(&others[0], Note::Refused, 0);
        peers.note(&others[1], Note::Refused, 0);
        // A note makes it the newest.
        peers.note(&first, Note::Refused, 0);
        peers.note(&others[2], Note::Refused, 0);
        let kept = [first, others[0], others[1], others[2]];
        let kept = kept.map(|peer| peers.version_1(&peer, 0).is_some());
        assert_eq!(kept, [true, false, true, true]);

        let mut none = Peers::<0>::new();
        none.note(&first, Note::Refused, 0);
        none.lost_at_long_send(&first, 0);
        assert!(none.version_1(&first, 0).is_none() && none.may_grow(&first, 0));
    }

    // XC-106: twice within a minute, and for ten minutes no growth.
    #[test]
    fn sizes_that_are_lies() {
        let peer = peer(1);
        for (second, may) in [(59, false), (60, true)] {
            let mut peers = Peers::<1>::new();
            peers.lost_at_long_send(&peer, 0);
            assert!(peers.may_grow(&peer, 0));
            peers.lost_at_long_send(&peer, second);
            assert_eq!(peers.may_grow(&peer, second), may);
            // The version is another matter.
            assert_eq!(peers.version_1(&peer, second), None);
            assert!(peers.may_grow(&peer, second + 600));
        }
    }
}
