// SPDX-License-Identifier: GPL-2.0

//! The room for replies in the send queue of a connection. Pure; under a lock of its caller.
//!
//! A reply takes an entry of the queue for each work request of its chain, and returns them when
//! the last one has completed. One that finds no room waits behind the others; the completion
//! handler posts it, so that no thread sleeps. The number of entries is kept in one value with the
//! chain.

/// The outcome for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It has its entries, and is posted now.
    Post,
    /// It waits behind the others.
    Wait,
    /// The connection is closed; the reply is dropped.
    Drop,
    /// It takes more entries than the queue has.
    TooLarge,
}

/// The room in a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct SendRoom {
    size: u32,
    free: u32,
    waiting: u32,
    closed: bool,
}

impl SendRoom {
    /// An empty queue with room for `size` work requests.
    pub(crate) const fn new(size: u32) -> Self {
        Self {
            size,
            free: size,
            waiting: 0,
            closed: false,
        }
    }

    /// Admits a reply that takes `entries`.
    ///
    /// A reply does not overtake one that waits, which might never find its room otherwise.
    pub(crate) fn admit(&mut self, entries: u32) -> Admission {
        if entries > self.size {
            return Admission::TooLarge;
        }
        if self.closed {
            return Admission::Drop;
        }
        match self.free.checked_sub(entries) {
            Some(free) if self.waiting == 0 => {
                self.free = free;
                Admission::Post
            }
            _ => {
                self.waiting = self.waiting.saturating_add(1);
                Admission::Wait
            }
        }
    }

    /// Returns `true`, and takes the entries, if the reply that has waited longest, which takes
    /// `entries`, is posted now.
    pub(crate) fn admit_next(&mut self, entries: u32) -> bool {
        match (self.waiting.checked_sub(1), self.free.checked_sub(entries)) {
            (Some(waiting), Some(free)) => {
                (self.waiting, self.free) = (waiting, free);
                true
            }
            _ => false,
        }
    }

    /// A chain of `entries` has completed, or could not be posted.
    pub(crate) fn returned(&mut self, entries: u32) {
        self.free = self.free.saturating_add(entries).min(self.size);
    }

    /// Admits no more replies, and leaves none waiting: the caller drops them.
    pub(crate) fn close(&mut self) {
        self.waiting = 0;
        self.closed = true;
    }

    /// Returns `true` while fewer than `most` replies wait, so that more calls may be served. The
    /// caller that shortens the line makes the upper layer look again.
    pub(crate) const fn is_short(&self, most: u32) -> bool {
        self.waiting < most
    }

    /// Returns `true` if no chain is outstanding.
    pub(crate) const fn is_empty(&self) -> bool {
        self.free == self.size
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_room))]
mod tests {
    use super::*;

    // V1-36: replies are posted in order, as the entries come back.
    #[test]
    fn line() {
        let mut room = SendRoom::new(4);
        assert!(room.admit(3) == Admission::Post && !room.is_empty());
        assert!(room.admit(2) == Admission::Wait);
        // It would fit, and has to wait all the same.
        assert!(room.admit(1) == Admission::Wait);
        assert!(room.is_short(3) && !room.is_short(2));
        assert!(!room.admit_next(2));
        room.returned(3);
        assert!(room.admit_next(2) && room.admit_next(1));
        assert!(!room.admit_next(0) && room.is_short(1));
        room.returned(2);
        room.returned(1);
        assert!(room.is_empty() && room.admit(4) == Admission::Post);
    }

    // V1-121: a reply that would wait for ever.
    #[test]
    fn too_large() {
        let mut room = SendRoom::new(4);
        assert!(room.admit(5) == Admission::TooLarge);
        assert!(room.is_empty() && room.is_short(1));
    }

    // V1-121: none is admitted once the connection is closed.
    #[test]
    fn closed() {
        let mut room = SendRoom::new(1);
        assert!(room.admit(1) == Admission::Post && room.admit(1) == Admission::Wait);
        room.close();
        room.returned(1);
        assert!(!room.admit_next(1) && room.admit(1) == Admission::Drop);
        assert!(room.is_empty());
    }
}
