// SPDX-License-Identifier: GPL-2.0

//! The pauses between connections that work, but not for long. Pure.
//!
//! A connection that brings a good reply resets sunrpc's back-off. A server that breaks each
//! connection after one call would get the next one without delay, hundreds of times a second.

/// Seconds after which a connection has lasted.
const LONG_SECS: usize = 5;

/// Replies after which it has, too.
const MANY_REPLIES: usize = 128;

/// Seconds between the beginnings of two attempts, at most.
const LONGEST_PAUSE_SECS: usize = 2;

/// The number of connections in a row that did not last, up to the last one. `brief` of them came
/// before it; it was in use for `secs` seconds, and brought `replies` replies.
pub(crate) const fn brief_after(brief: u32, secs: usize, replies: usize) -> u32 {
    if secs >= LONG_SECS || replies >= MANY_REPLIES {
        return 0;
    }
    brief.saturating_add(1)
}

/// Seconds between the beginnings of the last attempt to connect and the next, after `brief`
/// connections in a row that did not last: 0 after the first of them.
pub(crate) const fn pause_secs(brief: u32) -> usize {
    // CAST: Widening.
    let secs = brief.saturating_sub(1) as usize;
    if secs > LONGEST_PAUSE_SECS {
        LONGEST_PAUSE_SECS
    } else {
        secs
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_pauses))]
mod tests {
    use super::*;

    // V1-122: a server that ends each connection after one reply.
    #[test]
    fn a_server_that_hangs_up_is_not_hammered() {
        let (mut brief, mut now, mut connections) = (0, 0, 0);

        // The second limit ends the loop if no pause is made at all.
        while now < 10 && connections < 1000 {
            connections += 1;
            brief = brief_after(brief, 0, 1);
            now += pause_secs(brief);
        }
        assert!(connections <= 10);
    }

    #[test]
    fn a_connection_that_has_lasted_is_replaced_at_once() {
        for (secs, replies) in [(LONG_SECS, 1), (0, MANY_REPLIES)] {
            assert!(brief_after(7, secs, replies) == 0);
            assert!(pause_secs(brief_after(0, 0, 0)) == 0);
        }
        assert!(pause_secs(0) == 0);
        assert!(brief_after(u32::MAX, LONG_SECS - 1, MANY_REPLIES - 1) == u32::MAX);
        assert!(pause_secs(u32::MAX) == LONGEST_PAUSE_SECS);
    }
}
