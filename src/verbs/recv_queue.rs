// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair, for the handler of its completions.

use kernel::sync::Arc;

use super::{
    counters::Counters,
    RecvBuffer, //
};

/// The completion handler's half of a queue pair: takes back the Receives whose messages were read.
///
/// A Receive that is taken back by another queue pair's value is not posted there: the
/// [`super::Qp`] refuses it.
///
/// The owner of the [`super::Qp`] posts them in batches ([`super::Qp::post_held`]), or one that is
/// needed earlier.
pub(crate) struct RecvQueue {
    counters: Arc<Counters>,
}

impl RecvQueue {
    /// No Receive has come back.
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        Self { counters }
    }

    /// Takes back a Receive buffer whose message has been read. Returns `true` if enough have come
    /// back now to post them. A full barrier.
    #[inline(always)]
    pub(crate) fn recycle(&mut self, buf: RecvBuffer) -> bool {
        self.counters.hold(buf);
        self.counters.is_batch_held()
    }
}
