// SPDX-License-Identifier: GPL-2.0

//! The numbers that the owners of a queue pair's halves share.

use kernel::sync::{
    atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed,
        Release, //
    },
    Arc, //
};

use super::{
    buffer::{
        RecvChain,
        RecvStack, //
    },
    RecvBuffer, //
};

/// A value on a cache line of its own.
#[repr(align(64))]
struct Line<T>(T);

/// A line that the completion handler writes.
struct Completed {
    /// The number of the last Send that is known to be complete.
    sends: Atomic<u32>,
    /// Receives that came back and are not posted again yet.
    held: RecvStack,
    /// Receives that came back, since the queue pair was made. Written by the thread that takes
    /// them back: the completion handler, or any thread in one atomic step.
    returned: Atomic<u32>,
}

/// A line that the holder of the gate's lock writes.
struct Gate {
    /// Receives that came back and were posted again.
    reposted: Atomic<u32>,
    /// Set while the message is posted that has no place in the send queue. Its completion clears
    /// it.
    spare_posted: Atomic<bool>,
    /// Receives that are posted at a time, out of all that came back.
    batch: Atomic<u32>,
    /// Set after the drain: no Receive is posted again.
    drained: Atomic<bool>,
}

/// Messages between the sender, the completion handler and the holder of the gate's lock.
///
/// Each number has one writer, so that none has to be changed in one atomic step, but for the
/// Receives that any thread may take back ([`Self::hold_shared`]). Growing numbers wrap around.
pub(super) struct Counters {
    /// The number of the last Send that was posted, written by the sender.
    posted: Line<Atomic<u32>>,
    completed: Line<Completed>,
    gate: Line<Gate>,
}

impl Counters {
    /// Nothing is posted.
    pub(super) const fn new() -> Self {
        Self {
            posted: Line(Atomic::new(0)),
            completed: Line(Completed {
                sends: Atomic::new(0),
                held: RecvStack::new(),
                returned: Atomic::new(0),
            }),
            gate: Line(Gate {
                reposted: Atomic::new(0),
                spare_posted: Atomic::new(false),
                batch: Atomic::new(1),
                drained: Atomic::new(false),
            }),
        }
    }

    /// Notes that the Send with this number is posted. For the sender.
    #[inline]
    pub(super) fn set_posted(&self, number: u32) {
        self.posted.0.store(number, Relaxed);
    }

    /// Notes that the Send with this number, and all before it, are complete. For the completion
    /// handler.
    #[inline]
    pub(super) fn set_completed(&self, number: u32) {
        let sends = &self.completed.0.sends;
        // Release: all use of the buffers by the handler comes before they are reused.
        if is_before(sends.load(Relaxed), number) {
            sends.store(number, Release);
        }
    }

    /// The number of the last Send that is complete.
    #[inline]
    pub(super) fn completed(&self) -> u32 {
        self.completed.0.sends.load(Acquire)
    }

    /// The Sends that are posted and not known to be complete.
    pub(super) fn outstanding_sends(&self) -> u32 {
        let completed = self.completed.0.sends.load(Acquire);
        self.posted.0.load(Relaxed).wrapping_sub(completed)
    }

    /// Takes a Receive back whose message has been read. For the completion handler.
    #[inline]
    pub(super) fn hold(&self, buf: RecvBuffer) {
        let Completed { held, returned, .. } = &self.completed.0;
        // Counted first, so that no more are posted than came back.
        returned.store(returned.load(Relaxed).wrapping_add(1), Relaxed);
        held.push(buf);
    }

    /// Takes a Receive back whose message has been read. For any thread of a queue pair whose
    /// handler uses this function only, too.
    pub(super) fn hold_shared(&self, buf: RecvBuffer) {
        let Completed { held, returned, .. } = &self.completed.0;
        // Counted first, so that no more are posted than came back.
        returned.fetch_add(1, Relaxed);
        held.push(buf);
        // Store-buffer pattern. Thread: push, a full barrier; test `drained`. Drain: set `drained`,
        // a full barrier; take all.
        if self.is_drained() {
            drop(held.take());
        }
    }

    /// Returns `true` after [`Self::set_drained`].
    pub(super) fn is_drained(&self) -> bool {
        self.gate.0.drained.load(Relaxed)
    }

    /// Frees the Receives that came back, and all that come back from here on. After the drain.
    pub(super) fn set_drained(&self) {
        // Full: see `hold_shared`.
        self.gate.0.drained.xchg(true, Full);
        drop(self.completed.0.held.take());
    }

    /// Receives that came back and are not posted again.
    #[inline]
    pub(super) fn held(&self) -> u32 {
        let reposted = self.gate.0.reposted.load(Relaxed);
        self.completed
            .0
            .returned
            .load(Relaxed)
            .wrapping_sub(reposted)
    }

    /// Takes the Receives that came back, to post them again. For the holder of the gate's lock.
    pub(super) fn take_held(&self) -> RecvChain {
        let chain = self.completed.0.held.take();
        let reposted = &self.gate.0.reposted;
        reposted.store(reposted.load(Relaxed).wrapping_add(chain.count()), Relaxed);
        chain
    }

    /// Returns `true` if as many Receives came back as are posted at a time.
    #[inline]
    pub(super) fn is_batch_held(&self) -> bool {
        self.held() >= self.gate.0.batch.load(Relaxed)
    }

    /// Sets the number of Receives that are posted at a time. For the holder of the gate's lock.
    pub(super) fn set_batch(&self, batch: u32) {
        self.gate.0.batch.store(batch, Relaxed);
    }

    /// Returns `true` while the message is posted that has no place in the send queue. Acquire: its
    /// buffer may be written to when it is not.
    pub(super) fn is_spare_posted(&self) -> bool {
        self.gate.0.spare_posted.load(Acquire)
    }

    /// Notes that the message is posted now, or has completed. Release: after its buffer was used.
    pub(super) fn set_spare_posted(&self, posted: bool) {
        self.gate.0.spare_posted.store(posted, Release);
    }
}

/// The counters of a completion queue that no queue pair uses yet, nor the domain that was reserved
/// with it.
pub(crate) struct QpCounters(pub(super) Arc<Counters>);

/// Returns `true` if number `a` comes before `b`, when they may have wrapped around but are near
/// each other.
#[inline]
pub(super) fn is_before(a: u32, b: u32) -> bool {
    // CAST: The difference of neighbours, negative if `a` is ahead.
    (b.wrapping_sub(a) as i32) > 0
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_counters)]
mod tests {
    use super::*;

    /// Numbers that wrap around keep their order.
    #[test]
    fn order() {
        assert!(is_before(0, 1) && !is_before(1, 0) && !is_before(1, 1));
        assert!(is_before(u32::MAX, 0) && !is_before(0, u32::MAX));
        assert!(is_before(u32::MAX - 5, 3) && !is_before(3, u32::MAX - 5));
    }

    /// A flush names Sends that an earlier completion has covered: they stay complete.
    #[test]
    fn completions_only_grow() {
        let counters = Counters::new();

        for (number, completed) in [(3, 3), (2, 3), (3, 3), (4, 4)] {
            counters.set_completed(number);
            assert_eq!(counters.completed(), completed);
        }
        counters.set_posted(9);
        assert_eq!(counters.outstanding_sends(), 5);
    }

    /// Receives are posted again once a batch of them has come back.
    #[test]
    fn batch() {
        let counters = Counters::new();

        assert!(!counters.is_batch_held());
        counters.completed.0.returned.store(3, Relaxed);
        assert!(counters.is_batch_held());
        counters.set_batch(4);
        assert!(!counters.is_batch_held());
        counters.completed.0.returned.store(4, Relaxed);
        assert!(counters.is_batch_held());
    }
}
