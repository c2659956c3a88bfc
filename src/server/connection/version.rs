// SPDX-License-Identifier: GPL-2.0

//! The version of the protocol that a connection speaks: the first message of the client that can
//! be served fixes it (V2-68).

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use crate::proto::{
    negotiate::first_message,
    responder::received::Received,
    Versions,
    Wire, //
};

/// Bytes of a message of version 2 that every end takes (V2-21).
pub(super) const DEFAULT: u32 = 4096;

/// The version of a connection. It is written by the handler of completions alone.
pub(super) struct Version {
    /// The versions that the policy permits.
    versions: Versions,
    /// The number of the version; 0 before it is fixed.
    fixed: Atomic<u32>,
    /// Set once a reply was sent.
    replied: Atomic<bool>,
}

impl Version {
    /// A version among `versions`.
    pub(super) fn new(versions: Versions) -> Self {
        let fixed = match versions {
            Versions::One => Wire::V1.version(),
            Versions::Two | Versions::Auto => 0,
        };

        Self {
            versions,
            fixed: Atomic::new(fixed),
            replied: Atomic::new(false),
        }
    }

    /// The permitted versions.
    pub(super) fn versions(&self) -> Versions {
        self.versions
    }

    /// The version, once it is fixed.
    pub(super) fn fixed(&self) -> Option<Wire> {
        Wire::of(self.fixed.load(Relaxed))
    }

    /// The version; the first before it is fixed.
    #[inline]
    pub(super) fn wire(&self) -> Wire {
        self.fixed().unwrap_or(Wire::V1)
    }

    /// Classifies `message`, and fixes the version if it is the first that can be served, and no
    /// call. Returns the version, too.
    pub(super) fn receive<'m>(&self, message: &'m [u8]) -> (Wire, Received<'m>) {
        if let Some(wire) = self.fixed() {
            return (wire, wire.next(self.versions, message));
        }
        let (wire, received) = Wire::first(self.versions, message);
        match (wire, received) {
            // Its arguments are still to be checked.
            (Some(wire), Received::Call(_)) => return (wire, received),
            (Some(wire), _) => self.fix(wire),
            (None, _) => {}
        }
        (self.wire(), received)
    }

    /// Fixes the version: a message in it can be served.
    #[inline]
    pub(super) fn fix(&self, wire: Wire) {
        if self.fixed.load(Relaxed) == 0 {
            self.fixed.store(wire.version(), Relaxed);
        }
    }

    /// The longest reply to a client of version 2 that has promised nothing by private data. The
    /// first one is short, since the client may not have been certain of the version (V2-25,
    /// V2-61).
    pub(super) fn longest_reply(&self) -> u32 {
        if self.replied.load(Relaxed) {
            u32::MAX
        } else {
            first_message(None)
        }
    }

    /// A reply is sent.
    #[inline]
    pub(super) fn replied(&self) {
        if !self.replied.load(Relaxed) {
            self.replied.store(true, Relaxed);
        }
    }
}
