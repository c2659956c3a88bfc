// SPDX-License-Identifier: GPL-2.0

//! The number of calls that may be outstanding (RFC 8166, section 3.3.1).
//!
//! Both numbers are absolute: the client announces in each call how many replies it can take
//! together, the server in each reply how many calls. A new connection starts with one credit, so
//! the second call waits for the first reply.

/// The credits that a received grant gives to a requester of `requested` credits.
///
/// A grant of 0 would stop the connection, so it counts as 1 (see [`is_zero`]); more than requested
/// are not used. A request of 0 counts as 1 as well.
#[inline]
pub(crate) fn grant(wire: u32, requested: u32) -> u32 {
    wire.clamp(1, requested.max(1))
}

/// Returns `true` if a credits word breaks the rule that it is at least 1; worth a counter.
#[inline]
pub(crate) const fn is_zero(wire: u32) -> bool {
    wire == 0
}

/// The calls that may be outstanding, besides `abandoned` ones without a reply (cancelled, or timed
/// out), when `granted` are allowed in all.
///
/// An abandoned call keeps its credit until its reply arrives or the connection ends, since the
/// responder may still be at work on it. One call is always allowed; before abandoned calls hold
/// all credits, the connection ends ([`is_exhausted`]).
#[inline]
pub(crate) fn window(granted: u32, abandoned: u32) -> u32 {
    granted.saturating_sub(abandoned).max(1)
}

/// Returns `true` if `abandoned` calls hold too many of the `granted` credits, more than half: then
/// the connection ends, which frees them all.
///
/// A responder that never replies to them would otherwise slow the connection down to one call at a
/// time, and stop it in the end: each reply that may come needs a posted Receive.
#[inline]
pub(crate) fn is_exhausted(granted: u32, abandoned: u32) -> bool {
    abandoned > granted / 2
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_credits))]
mod tests {
    use super::*;

    // TV-M-16, 17, V1-24, V1-25, V1-29, V1-37, BI-6: any word gives at least 1 and at most the
    // credits requested.
    #[test]
    fn grants() {
        for (wire, requested, credits) in [
            (0, 32, 1),
            (1, 32, 1),
            (16, 32, 16),
            (31, 32, 31),
            (32, 32, 32),
            (33, 32, 32),
            (u32::MAX, 32, 32),
            (u32::MAX, u32::MAX, u32::MAX),
            (0, 0, 1),
            (5, 0, 1),
            (5, 1, 1),
        ] {
            assert_eq!(grant(wire, requested), credits);
        }
        assert!(is_zero(0) && !is_zero(1) && !is_zero(u32::MAX));
    }

    // V1-41: a connection ends before abandoned calls hold all credits.
    #[test]
    fn exhaustion() {
        for (granted, abandoned, exhausted) in [
            (1, 0, false),
            (1, 1, true),
            (2, 1, false),
            (2, 2, true),
            (4, 2, false),
            (4, 3, true),
            (128, 64, false),
            (128, 65, true),
            (u32::MAX, u32::MAX / 2, false),
            (u32::MAX, u32::MAX, true),
        ] {
            assert_eq!(is_exhausted(granted, abandoned), exhausted);
            // Until then a credit is left for others, and all calls together keep to the grant.
            let calls = window(granted, abandoned).saturating_add(abandoned);
            assert!(exhausted || calls <= granted);
        }
    }

    // V1-32, V1-41: abandoned calls still count, but never stop the connection.
    #[test]
    fn windows() {
        for (granted, abandoned, calls) in [
            (1, 0, 1),
            (32, 0, 32),
            (32, 1, 31),
            (32, 31, 1),
            (32, 32, 1),
            (32, 33, 1),
            (1, u32::MAX, 1),
            (u32::MAX, u32::MAX, 1),
            (u32::MAX, 0, u32::MAX),
        ] {
            assert_eq!(window(granted, abandoned), calls);
        }
    }
}
