// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair, for the code that reads its messages.
//!
//! The owner of the [`super::Qp`] posts the Receives that came back in batches
//! ([`super::Qp::post_held`]), or one that is needed earlier. It refuses the Receives of another
//! queue pair.

use kernel::sync::Arc;

use super::{
    counters::{
        Counters,
        QpCounters, //
    },
    RecvBuffer, //
};

/// The half of a queue pair that takes back the Receives whose messages were read: a [`RecvQueue`]
/// or a [`SharedRecvQueue`]. A queue pair has one kind of them.
pub(crate) trait TakesBack: Send + Sync {
    /// No Receive has come back.
    fn new(counters: &QpCounters) -> Self;
}

/// The completion handler's half of a queue pair, where no other thread takes Receives back.
pub(crate) struct RecvQueue {
    counters: Arc<Counters>,
}

impl TakesBack for RecvQueue {
    fn new(counters: &QpCounters) -> Self {
        Self {
            counters: counters.0.clone(),
        }
    }
}

impl RecvQueue {
    /// Takes back a Receive buffer whose message has been read. Returns `true` if enough have come
    /// back now to post them. A full barrier.
    #[inline(always)]
    pub(crate) fn recycle(&mut self, buf: RecvBuffer) -> bool {
        self.counters.hold(buf);
        self.counters.is_batch_held()
    }
}

/// The half of a queue pair that takes Receives back from any thread. One that comes back after the
/// drain is freed.
#[derive(Clone)]
pub(crate) struct SharedRecvQueue {
    counters: Arc<Counters>,
}

impl TakesBack for SharedRecvQueue {
    fn new(counters: &QpCounters) -> Self {
        Self {
            counters: counters.0.clone(),
        }
    }
}

impl SharedRecvQueue {
    /// As [`RecvQueue::recycle`], for any thread. If several threads take Receives back together,
    /// at least the last one gets `true` if they are enough.
    pub(crate) fn recycle(&self, buf: RecvBuffer) -> bool {
        self.counters.hold_shared(buf);
        self.counters.is_batch_held()
    }
}
