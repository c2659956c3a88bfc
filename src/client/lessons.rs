// SPDX-License-Identifier: GPL-2.0

//! The lessons of the last connections to a server for the next one.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use super::pauses;

/// The lessons of the last connections.
pub(super) struct Lessons {
    /// Set if the last connection brought no reply, or the last attempt to make one failed.
    backs_off: Atomic<bool>,
    /// The number of connections in a row, up to the last one, that have not lasted.
    brief: Atomic<u32>,
    /// The last failure of an attempt in the log, so that a lasting one is logged once; 0 for none.
    logged: Atomic<u32>,
    /// Set when calls without a reply have ended the last connection.
    probes: Atomic<bool>,
    /// Set when a server that must not invalidate has done so
    /// ([`crate::policy::RemoteInvalidation::Strict`]).
    withholds: Atomic<bool>,
    /// Set when a connection was lost while characteristics were exchanged.
    silent: Atomic<bool>,
}

impl Lessons {
    /// No connection was made.
    pub(super) const fn new() -> Self {
        Self {
            backs_off: Atomic::new(false),
            brief: Atomic::new(0),
            logged: Atomic::new(0),
            probes: Atomic::new(false),
            withholds: Atomic::new(false),
            silent: Atomic::new(false),
        }
    }

    /// An attempt to connect has failed.
    pub(super) fn failed(&self) {
        self.backs_off.store(true, Relaxed);
    }

    /// A connection was made, and is `confirmed` if it has brought a reply. Until then it counts as
    /// a failure, so that a server which accepts and hangs up is not tried again immediately.
    pub(super) fn connected(&self, confirmed: bool) {
        self.backs_off.store(!confirmed, Relaxed);
    }

    /// The first reply of a connection has come.
    pub(super) fn confirmed(&self) {
        self.backs_off.store(false, Relaxed);
        self.logged.store(0, Relaxed);
    }

    /// Returns `true` if the next attempt comes after sunrpc's back-off.
    pub(super) fn backs_off(&self) -> bool {
        self.backs_off.load(Relaxed)
    }

    /// Returns `true` if the log has not shown the failure with this number since the last success.
    pub(super) fn is_new(&self, failure: u32) -> bool {
        self.logged.xchg(failure, Relaxed) != failure
    }

    /// A connection ends after `secs` seconds and `replies` replies.
    pub(super) fn ended(&self, secs: usize, replies: usize) {
        let brief = self.brief.load(Relaxed);

        self.brief
            .store(pauses::brief_after(brief, secs, replies), Relaxed);
    }

    /// Seconds between the beginnings of the last attempt and the next.
    pub(super) fn pause_secs(&self) -> usize {
        pauses::pause_secs(self.brief.load(Relaxed))
    }

    /// A call without a reply ends the connection.
    pub(super) fn timed_out(&self) {
        self.probes.store(true, Relaxed);
    }

    /// Abandoned calls end the connection, which itself has not failed.
    pub(super) fn exhausted(&self) {
        self.backs_off.store(false, Relaxed);
        self.probes.store(true, Relaxed);
    }

    /// The server has replied to the first call of a connection.
    pub(super) fn probed(&self) {
        self.probes.store(false, Relaxed);
    }

    /// Returns `true` if a connection begins with a call that does nothing.
    pub(super) fn probes(&self) -> bool {
        self.probes.load(Relaxed)
    }

    /// The server has invalidated, and must not: the next connection does not offer it.
    pub(super) fn withhold_invalidation(&self) {
        self.withholds.store(true, Relaxed);
    }

    /// The policy leaves that to the server.
    pub(super) fn offer_invalidation(&self) {
        self.withholds.store(false, Relaxed);
    }

    /// A connection was lost while characteristics were exchanged: the next ones exchange none.
    pub(super) fn be_silent(&self) {
        self.silent.store(true, Relaxed);
    }

    /// Returns `true` if connections exchange no characteristics.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Relaxed)
    }

    /// Returns `true` if connections do not offer remote invalidation.
    pub(super) fn withholds_invalidation(&self) -> bool {
        self.withholds.load(Relaxed)
    }
}
