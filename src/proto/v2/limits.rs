// SPDX-License-Identifier: GPL-2.0

//! The lengths of messages that two ends may send each other on a live connection.
//!
//! An end plans a message by [`Limits`], one word that is overwritten when a limit changes, and
//! compares the length with that word again when it posts the Send, under the lock that orders
//! Sends. A change keeps no memory.
//!
//! [`growth`] decides on the sizes of an end's own Receives.

pub(crate) mod growth;

/// The Receive size that a peer of version 2 has at least, and the smallest one of ours.
pub(crate) const DEFAULT: u32 = 4096;

/// The smallest size that a peer is believed to have.
pub(crate) const SMALLEST: u32 = 1024;

/// The limits of one end, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Limits {
    /// The longest message that the end may send.
    pub(crate) send: u32,
    /// The longest reply that the end may plan to receive without a chunk.
    pub(crate) reply: u32,
}

impl Limits {
    /// The limits that `word` stores.
    pub(crate) const fn from_word(word: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = word.to_be_bytes();
        Self {
            send: u32::from_be_bytes([a, b, c, d]),
            reply: u32::from_be_bytes([e, f, g, h]),
        }
    }

    /// The word that stores them.
    pub(crate) const fn word(self) -> u64 {
        let [a, b, c, d] = self.send.to_be_bytes();
        let [e, f, g, h] = self.reply.to_be_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// Returns `true` if a message of `len` bytes may be posted now. If not, it is planned again by
    /// the limits of this moment.
    pub(crate) const fn may_post(self, len: u32) -> bool {
        len <= self.send
    }
}

/// The size that a peer's `XCHAR_RBSIZ` means: a multiple of 4, or `None` if it is below
/// [`SMALLEST`] and the entry is ignored.
pub(crate) const fn usable(size: u32) -> Option<u32> {
    if size < SMALLEST {
        return None;
    }
    Some(size & !3)
}

/// The upper layer's payload limit for calls in the reverse direction, for the connection's whole
/// life: `call` and `reply` are the limits at its start.
pub(crate) fn reverse_payload(call: u32, reply: u32) -> u32 {
    call.min(reply).min(DEFAULT).saturating_sub(32)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_limits))]
mod tests {
    use super::*;

    // XC-96, XC-101: both limits are one word.
    #[test]
    fn a_word_holds_both() {
        for send in [0, 1, 4096, u32::MAX] {
            for reply in [0, 1, 65_536, u32::MAX] {
                let limits = Limits { send, reply };
                assert_eq!(Limits::from_word(limits.word()), limits);
            }
        }
        let limits = Limits { send: 1, reply: 2 };
        assert_eq!(limits.word(), 0x1_0000_0002);
    }

    // XC-76, XC-96: a message that was planned for more is not posted.
    #[test]
    fn looked_at_again_when_posted() {
        let limits = Limits {
            send: 4096,
            reply: 65_536,
        };
        for (len, may) in [(0, true), (4096, true), (4097, false), (u32::MAX, false)] {
            assert_eq!(limits.may_post(len), may);
        }
    }

    // XC-75: too small is ignored, the rest rounded down.
    #[test]
    fn sizes_of_a_peer() {
        for (size, means) in [
            (0, None),
            (1023, None),
            (1024, Some(1024)),
            (4097, Some(4096)),
            (0x4003, Some(0x4000)),
            (u32::MAX, Some(u32::MAX - 3)),
        ] {
            assert_eq!(usable(size), means);
        }
    }

    // V2-28, V2-74: one limit for both directions, and never more than a session of the default
    // size may use.
    #[test]
    fn reverse_payloads() {
        for (call, reply, payload) in [
            (4096, 4096, 4064),
            (65_536, 65_536, 4064),
            (1024, 65_536, 992),
            (65_536, 1024, 992),
            (0, 0, 0),
        ] {
            assert_eq!(reverse_payload(call, reply), payload);
        }
    }
}
