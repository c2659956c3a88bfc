// SPDX-License-Identifier: GPL-2.0

//! The Receives of a connection, and the credits that they are good for.

use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

use super::super::size::RECV_BATCH;
use crate::{
    os::series::fetch_sub,
    proto::responder::grant, //
};

/// The numbers that a grant is made of.
pub(super) struct Receives {
    /// Receives that are posted.
    posted: Atomic<u32>,
    /// Calls that have come, and have no reply yet.
    busy: Atomic<u32>,
    /// The last grant, and the credits that the client requested last.
    granted: Atomic<u32>,
    requested: Atomic<u32>,
    /// Receives that are kept for the replies to calls of the server.
    reserved: Atomic<u32>,
    /// Receives that are kept for operations of version 2.
    spare: Atomic<u32>,
    /// Set if more are wanted.
    wanted: Atomic<bool>,
    /// Set once all are there that the connection may have.
    complete: Atomic<bool>,
    /// The time in jiffies of the last allocation that has failed; 0 for never.
    failed: Atomic<usize>,
}

impl Receives {
    /// No Receive is posted.
    pub(super) const fn new() -> Self {
        Self {
            posted: Atomic::new(0),
            busy: Atomic::new(0),
            granted: Atomic::new(1),
            requested: Atomic::new(0),
            reserved: Atomic::new(0),
            spare: Atomic::new(0),
            wanted: Atomic::new(false),
            complete: Atomic::new(false),
            failed: Atomic::new(0),
        }
    }

    /// `count` Receives are posted.
    pub(super) fn posted(&self, count: u32) {
        self.posted.fetch_add(count, Relaxed);
    }

    /// A message has come into one.
    pub(super) fn completed(&self) {
        fetch_sub(&self.posted, 1, Relaxed);
    }

    /// A call has come. Returns `false` if it is beyond the last grant.
    pub(super) fn begun(&self) -> bool {
        !grant::is_beyond(self.busy.fetch_add(1, Relaxed), self.granted())
    }

    /// A call has its reply, or gets none.
    pub(super) fn ended(&self) {
        fetch_sub(&self.busy, 1, Relaxed);
    }

    /// Calls that have come, and have no reply yet.
    pub(super) fn busy(&self) -> u32 {
        self.busy.load(Relaxed)
    }

    /// The grant in a reply to a client that requested `requested` credits, on a connection that
    /// allows `most`. It becomes the last one.
    ///
    /// A call that is served needs no Receive: its credit comes back to the client with its reply,
    /// while the Receive that it came into is posted again before that.
    pub(super) fn grant(&self, requested: u32, most: u32) -> u32 {
        let possible = self.possible(requested, most);
        let wanted = requested.min(most);
        let granted = grant::steady(self.granted(), possible, wanted, RECV_BATCH);

        self.granted.store(granted, Relaxed);
        granted
    }

    /// The grant that the Receives are good for.
    fn possible(&self, requested: u32, most: u32) -> u32 {
        let receives = self.posted.load(Relaxed).saturating_add(self.busy());
        let others = self.reserved().saturating_add(self.spare.load(Relaxed));

        grant::grant(requested, receives, others, most)
    }

    /// As [`Self::grant`], where the client has requested the credits in a call.
    pub(super) fn grant_requested(&self, requested: u32, most: u32) -> u32 {
        self.requested.store(requested, Relaxed);
        self.grant(requested, most)
    }

    /// The last grant.
    pub(super) fn granted(&self) -> u32 {
        self.granted.load(Relaxed)
    }

    /// The credits that the client requested last.
    pub(super) fn requested(&self) -> u32 {
        self.requested.load(Relaxed)
    }

    /// Keeps up to `most` Receives for the replies to calls of the server, out of the Receives that
    /// no grant has promised to the client, with `coming` ones that are about to count.
    pub(super) fn reserve(&self, most: u32, coming: u32) {
        let receives = self.posted.load(Relaxed).saturating_add(self.busy());
        let left = receives
            .saturating_add(coming)
            .saturating_sub(grant::receives(self.granted(), 0));
        self.reserved.store(left.min(most), Relaxed);
    }

    /// Keeps `count` Receives for operations of version 2 (XC-86).
    pub(super) fn spare(&self, count: u32) {
        self.spare.store(count, Relaxed);
    }

    /// The Receives that are kept for the replies to calls of the server.
    pub(super) fn reserved(&self) -> u32 {
        self.reserved.load(Relaxed)
    }

    /// Notes that more are wanted. Returns `true` if that was not noted before.
    pub(super) fn want(&self) -> bool {
        !self.wanted.xchg(true, Release)
    }

    /// Returns `true` if more may be wanted at `now` in jiffies: not all are there, and no
    /// allocation has failed within the last `pause` jiffies.
    pub(super) fn may_want(&self, now: usize, pause: usize) -> bool {
        let last = self.failed.load(Relaxed);

        !self.complete.load(Relaxed) && (last == 0 || now.wrapping_sub(last) >= pause)
    }

    /// Notes that all are there.
    pub(super) fn complete(&self) {
        self.complete.store(true, Relaxed);
    }

    /// Notes that an allocation has failed, at `now` in jiffies.
    pub(super) fn fail(&self, now: usize) {
        self.failed.store(now.max(1), Relaxed);
    }

    /// Returns `true`, once for each [note](Self::want), if more are wanted.
    pub(super) fn take_wanted(&self) -> bool {
        self.wanted.xchg(false, Acquire)
    }

    /// Returns `true` if more Receives are worth posting. Before the first reply the client has one
    /// credit, whatever the Receives are good for.
    pub(super) fn are_few(&self, requested: u32, most: u32) -> bool {
        let granted = self.granted().max(self.possible(requested, most));

        grant::grows(self.busy(), granted, requested, most)
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_server_receives)]
mod tests {
    use super::*;

    /// V1-23, V1-34: calls in service count for the grant, and what is not posted does not.
    #[test]
    fn grants() {
        let receives = Receives::new();

        assert_eq!(receives.grant(32, 128), 1);
        receives.posted(33);
        assert_eq!(receives.grant(128, 128), 32);
        receives.completed();
        assert!(receives.begun());
        assert_eq!(receives.grant(128, 128), 32);
        // The Receive is posted again, and the call still served.
        receives.posted(1);
        assert_eq!(receives.grant(128, 128), 32);
        assert_eq!(receives.grant(33, 128), 33);
        receives.ended();
        assert_eq!(receives.grant(128, 128), 32);
        receives.completed();
        assert_eq!(receives.grant(128, 128), 31);
        // BI-13: Receives for replies in the reverse direction are no client's.
        receives.reserve(16, 0);
        assert_eq!((receives.reserved(), receives.grant(128, 128)), (0, 31));
        receives.reserve(16, 8);
        receives.posted(8);
        assert_eq!((receives.reserved(), receives.grant(128, 128)), (8, 31));
        receives.reserve(16, 32);
        receives.posted(32);
        assert_eq!((receives.reserved(), receives.grant(128, 128)), (16, 55));
        receives.reserve(0, 0);
        assert!(receives.requested() == 0 && receives.granted() == 55);
        // XC-86: nor is one for operations.
        let all = receives.grant(128, 128);
        receives.spare(1);
        assert_eq!(receives.grant(128, 128), all.wrapping_sub(1));
        // A grant rises by a batch at least.
        receives.spare(0);
        assert_eq!(receives.grant(128, 128), all.wrapping_sub(1));
        // V1-36.
        assert_eq!(receives.grant_requested(1, 128), 1);
        assert_eq!(receives.requested(), 1);
        assert!(receives.begun() && !receives.begun());
        receives.ended();
        receives.ended();
        assert!(receives.grant(8, 128) == 8 && receives.grant(128, 16) == 16);
    }

    /// The first Receives, which come back in batches, are good for the same grant in each reply.
    /// No more are kept for replies to calls of the server than the grant leaves.
    #[test]
    fn batches() {
        let receives = Receives::new();

        receives.posted(41);
        for call in 0u32..40 {
            receives.completed();
            receives.begun();
            if call % 8 == 7 {
                receives.posted(8);
            }
            let expected = 40u32.saturating_sub(call).max(34);
            assert_eq!(receives.grant(128, 128), expected);
            receives.ended();
        }
        receives.reserve(16, 0);
        assert!(receives.reserved() <= 8 && receives.grant(128, 128) >= 32);
    }

    /// The first Receives are enough until half of the calls that they are good for have come.
    #[test]
    fn growth() {
        let receives = Receives::new();

        receives.posted(33);
        for _ in 0..15 {
            receives.completed();
            receives.begun();
            assert!(!receives.are_few(128, 128));
        }
        receives.completed();
        receives.begun();
        assert!(receives.are_few(128, 128));
        assert!(!receives.are_few(32, 128) && !receives.are_few(128, 32));
        // Nor is more wanted twice, or soon after there was no memory.
        assert!(receives.want() && !receives.want());
        assert!(receives.take_wanted() && !receives.take_wanted());
        assert!(receives.may_want(100, 10));
        receives.fail(100);
        assert!(!receives.may_want(109, 10) && receives.may_want(110, 10));
        receives.complete();
        assert!(!receives.may_want(110, 10));
    }
}
