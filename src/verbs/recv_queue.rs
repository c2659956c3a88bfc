// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair, for the handler of its completions.

use kernel::sync::Arc;

use super::{
    buffer::RecvChain,
    counters::Counters,
    RecvBuffer, //
};

/// The completion handler's half of a queue pair: the Receives that came back and are not posted
/// again yet.
///
/// They are posted by the dozen ([`super::Qp::post_receives`]), after the calls are completed that
/// they brought the replies of.
pub(crate) struct RecvQueue {
    counters: Arc<Counters>,
    chain: RecvChain,
    /// The number that is posted at a time.
    batch: u32,
}

impl RecvQueue {
    /// No Receive has come back. They are posted `batch` at a time.
    pub(super) fn new(counters: Arc<Counters>, batch: u32) -> Self {
        Self {
            counters,
            chain: RecvChain::new(),
            batch,
        }
    }

    /// Takes back a Receive buffer whose message has been read. Returns whether there are enough
    /// now to post them.
    #[inline]
    pub(crate) fn recycle(&mut self, buf: RecvBuffer) -> bool {
        self.chain.push(buf);
        self.counters.set_held(self.chain.count());
        self.chain.count() >= self.batch
    }

    /// Takes out all that came back, for the queue pair whose completions count in `counters`.
    pub(super) fn take(&mut self, counters: &Arc<Counters>) -> Option<RecvChain> {
        if !Arc::ptr_eq(counters, &self.counters) {
            return None;
        }
        self.counters.set_held(0);
        Some(core::mem::replace(&mut self.chain, RecvChain::new()))
    }

    /// The numbers that it shares with the other owners.
    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}
