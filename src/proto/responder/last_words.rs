// SPDX-License-Identifier: GPL-2.0

//! Calls that ended connections by their RDMA (RFC 8166, section 4.5.3).
//!
//! An RDMA Read or Write that the client's device refuses ends the connection, and the client sends
//! the call again on the next one. If that fails in the same way, it would repeat for ever; so the
//! server rejects a call that comes again with `ERR_CHUNK`, once. It remembers the last [`CALLS`].

/// The number of calls that are remembered.
pub(crate) const CALLS: usize = 64;

/// The calls by client, named by a `C`, and xid.
#[derive(Clone, Debug)]
pub(crate) struct LastWords<C> {
    calls: [Option<(C, u32)>; CALLS],
    /// The place of the oldest one, below [`CALLS`].
    oldest: usize,
}

impl<C: Copy + Eq> LastWords<C> {
    /// No calls.
    pub(crate) const fn new() -> Self {
        Self {
            calls: [None; CALLS],
            oldest: 0,
        }
    }

    /// A call of `client` has ended its connection. Forgets the oldest call if all places are
    /// taken.
    pub(crate) fn record(&mut self, client: C, xid: u32) {
        let call = Some((client, xid));
        if self.calls.contains(&call) {
            return;
        }
        if let Some(place) = self.calls.get_mut(self.oldest) {
            *place = call;
        }
        self.oldest = self.oldest.wrapping_add(1) % CALLS;
    }

    /// Returns `true`, and forgets the call, if it has ended a connection before.
    pub(crate) fn take(&mut self, client: C, xid: u32) -> bool {
        let call = Some((client, xid));
        match self.calls.iter_mut().find(|place| **place == call) {
            Some(place) => {
                *place = None;
                true
            }
            None => false,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_last_words))]
mod tests {
    use super::*;

    // V1-118: the same call of the same client, once.
    #[test]
    fn once() {
        let mut words = LastWords::new();
        assert!(!words.take(1_u8, 7));
        words.record(1_u8, 7);
        words.record(1_u8, 7);
        assert!(!words.take(2, 7) && !words.take(1, 8));
        assert!(words.take(1, 7));
        assert!(!words.take(1, 7));
    }

    // V1-118: a client that ends many connections pushes out the oldest calls alone.
    #[test]
    fn oldest() {
        let mut words = LastWords::new();
        for xid in 0..66_u32 {
            words.record(1_u8, xid);
        }
        assert!(!words.take(1, 0) && !words.take(1, 1));
        for xid in 2..66_u32 {
            assert!(words.take(1, xid));
        }
    }
}
