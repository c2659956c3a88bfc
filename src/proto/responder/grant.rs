// SPDX-License-Identifier: GPL-2.0

//! The credits that a server grants (RFC 8166, section 3.3.1).
//!
//! A grant is a promise of Receives, so it counts the Receives posted when the reply is built. Some
//! of them are not for calls: one for each reverse call that has been sent, and one for a message
//! that is no call.

/// The Receives that serve neither calls nor replies in the reverse direction.
const SPARE: u32 = 1;

/// The grant to a client that requested `requested` calls. `posted` Receives are posted, `reverse`
/// of them for replies in the reverse direction; the server allows no more than `most` calls.
///
/// A grant is at least 1, and a request of 0 counts as 1: a client without a credit could not send
/// the call that brings it the next one.
#[inline]
pub(crate) fn grant(requested: u32, posted: u32, reverse: u32, most: u32) -> u32 {
    posted
        .saturating_sub(reverse)
        .saturating_sub(SPARE)
        .min(requested)
        .min(most)
        .max(1)
}

/// The grant that follows `last`, where the Receives are good for `possible` of the `wanted` calls,
/// and are posted again in batches of `batch`.
///
/// A grant that followed each batch would change with each reply, and have the client adapt its
/// window each time: it rises to all that is wanted, or by a batch at least. A small one doubles at
/// least: where Receives are few, the batch is no measure.
#[inline]
pub(crate) fn steady(last: u32, possible: u32, wanted: u32, batch: u32) -> u32 {
    let step = batch.min(last);

    if possible >= wanted || possible.saturating_sub(last) >= step {
        possible
    } else {
        possible.min(last)
    }
}

/// The Receives that a grant of `credits` calls takes, besides `reverse` ones for replies in the
/// reverse direction.
#[inline]
pub(crate) fn receives(credits: u32, reverse: u32) -> u32 {
    credits.max(1).saturating_add(reverse).saturating_add(SPARE)
}

/// Returns `true` if more Receives are worth posting: `busy` calls are being served, which is half
/// of the `granted` ones or more, and the client requests more than are granted.
#[inline]
pub(crate) fn grows(busy: u32, granted: u32, requested: u32, most: u32) -> bool {
    busy >= granted.div_ceil(2) && granted < requested.min(most)
}

/// Returns `true` if a call is beyond the grant, with `busy` others being served. It is served all
/// the same, and counted.
#[inline]
pub(crate) const fn is_beyond(busy: u32, granted: u32) -> bool {
    busy >= granted
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_grant))]
mod tests {
    use super::*;

    // TV-M-16, 17, V1-23, V1-24, V1-34, V1-37, BI-13: no more than requested, allowed and posted,
    // and at least 1.
    #[test]
    fn grants() {
        for (requested, posted, reverse, most, expected) in [
            (32, 33, 0, 64, 32),
            (32, 32, 0, 64, 31),
            (32, 49, 16, 64, 32),
            (32, 48, 16, 64, 31),
            (128, 200, 16, 64, 64),
            (0, 200, 16, 64, 1),
            (32, 200, 16, 0, 1),
            (32, 0, 16, 64, 1),
            (u32::MAX, u32::MAX, 0, u32::MAX, u32::MAX - 1),
            (u32::MAX, 1, u32::MAX, u32::MAX, 1),
        ] {
            assert_eq!(grant(requested, posted, reverse, most), expected);
        }
    }

    // V1-34: the grant falls with the Receives; it rises to all that is wanted, or by a batch.
    #[test]
    fn batches() {
        for (last, possible, expected) in [
            (32, 32, 32),
            (32, 39, 32),
            (32, 40, 40),
            (32, 31, 31),
            (127, 128, 128),
            (128, 127, 127),
            (1, 32, 32),
            (1, 2, 2),
            (4, 7, 4),
            (4, 8, 8),
            (u32::MAX, 1, 1),
        ] {
            assert_eq!(steady(last, possible, 128, 8), expected);
        }
        assert_eq!(steady(1, 3, 3, 8), 3);
    }

    // V1-34, BI-13: with the Receives of a grant, no less than that is granted.
    #[test]
    fn posted_first() {
        for credits in [0, 1, 2, 31, 128] {
            for reverse in [0, 1, 16] {
                let posted = receives(credits, reverse);
                let most = credits.max(1);
                assert_eq!(grant(u32::MAX, posted, reverse, u32::MAX), most);
                let one_less = posted.wrapping_sub(1);
                let less = most.saturating_sub(1).max(1);
                assert_eq!(grant(u32::MAX, one_less, reverse, u32::MAX), less);
            }
        }
        assert_eq!(receives(u32::MAX, u32::MAX), u32::MAX);
    }

    // V1-26, V1-35, V1-36: growth with the load, and calls beyond the grant.
    #[test]
    fn load() {
        for (busy, granted, requested, most, expected) in [
            (16, 32, 128, 128, true),
            (15, 32, 128, 128, false),
            (32, 32, 32, 128, false),
            (32, 32, 128, 32, false),
            (1, 1, 2, 2, true),
            (0, 1, 2, 2, false),
        ] {
            assert_eq!(grows(busy, granted, requested, most), expected);
        }
        assert!(!is_beyond(31, 32) && is_beyond(32, 32) && is_beyond(u32::MAX, 1));
    }
}
