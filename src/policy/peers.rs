// SPDX-License-Identifier: GPL-2.0

//! The memory of peers that have version 1 of the protocol alone, of all transports.

use super::super::{
    os::{
        self,
        uptime_secs, //
    },
    proto::peers::{
        Note,
        Peer,
        Peers,
        Remembered, //
    }, //
};

os::global! {
    static PEERS: Peers = Peers::new();
}

/// Initializes the memory.
pub(super) fn init() {
    PEERS.init();
}

/// The memory of version 1 for `peer`.
pub(crate) fn version_1(peer: &Peer) -> Option<Remembered> {
    PEERS.lock()?.version_1(peer, uptime_secs())
}

/// Notes the result of a negotiation with `peer`, if it has one. Process context.
pub(crate) fn note(peer: &Peer, note: Option<Note>) {
    let Some(note) = note else {
        return;
    };

    if let Some(mut peers) = PEERS.lock() {
        peers.note(peer, note, uptime_secs());
    }
}

/// Returns `true` if sizes that `peer` announces may be used.
pub(crate) fn may_grow(peer: &Peer) -> bool {
    PEERS
        .lock()
        .is_none_or(|peers| peers.may_grow(peer, uptime_secs()))
}

/// A connection to `peer` was lost at a Send that was longer than its first size.
pub(crate) fn lost_at_long_send(peer: &Peer) {
    if let Some(mut peers) = PEERS.lock() {
        peers.lost_at_long_send(peer, uptime_secs());
    }
}

/// Forgets the peers that `is_of_rule` returns `true` for.
pub(super) fn forget(is_of_rule: impl Fn(&Peer) -> bool) {
    if let Some(mut peers) = PEERS.lock() {
        peers.forget(is_of_rule);
    }
}
