// SPDX-License-Identifier: GPL-2.0

//! How many calls may be unanswered (section 4.3).
//!
//! Both numbers are absolute: the client says in each call how many replies it can take at once,
//! the server in each reply how many calls. A new connection starts with one credit, so the second
//! call waits for the first reply.

/// The credits that a received grant gives to a requester that asked for `requested`.
///
/// A grant of 0 would stop the connection for ever, so it counts as 1 ([`is_zero`] tells whether it
/// did); more than requested are of no use. A request of 0 counts as 1 as well.
#[inline]
pub(crate) fn grant(wire: u32, requested: u32) -> u32 {
    wire.clamp(1, requested.max(1))
}

/// Whether a credits word breaks the rule that it is at least 1; worth a counter.
#[inline]
pub(crate) const fn is_zero(wire: u32) -> bool {
    wire == 0
}

/// The credits of a requester on one connection.
///
/// A call keeps its credit until its reply arrives or the connection ends. That it was cancelled or
/// timed out changes nothing, since the responder may still be at work on it.
///
/// # Invariants
///
/// `granted` is at least 1 and at most `requested`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credits {
    requested: u32,
    granted: u32,
    in_flight: u32,
}

impl Credits {
    /// The credits of a new connection whose calls request `requested` credits.
    pub(crate) fn new(requested: u32) -> Self {
        // INVARIANT: both at least 1.
        Self {
            requested: requested.max(1),
            granted: 1,
            in_flight: 0,
        }
    }

    /// What goes into the credits word of a call.
    #[inline]
    pub(crate) const fn requested(&self) -> u32 {
        self.requested
    }

    /// How many calls may be unanswered at once.
    #[inline]
    pub(crate) const fn granted(&self) -> u32 {
        self.granted
    }

    /// How many calls are unanswered.
    #[inline]
    pub(crate) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How many calls may still be sent.
    ///
    /// After a grant that is below what is in flight this is 0 until enough replies have come;
    /// nothing is cancelled.
    #[inline]
    pub(crate) const fn available(&self) -> u32 {
        self.granted.saturating_sub(self.in_flight)
    }

    /// Takes a credit for a call; `false` when there is none.
    #[inline]
    #[must_use = "without a credit the call must not be sent"]
    pub(crate) fn take(&mut self) -> bool {
        if self.available() == 0 {
            return false;
        }
        self.in_flight = self.in_flight.saturating_add(1);
        true
    }

    /// A message with the xid of an unanswered call arrived, whatever its type: the call's credit
    /// is free again and `wire`, the credits word of the message, is the new grant.
    #[inline]
    pub(crate) fn answered(&mut self, wire: u32) {
        // INVARIANT: by what `grant` returns.
        self.granted = grant(wire, self.requested);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// The connection is a new one: nothing is in flight and nothing of the old grant holds.
    pub(crate) fn reconnected(&mut self) {
        *self = Self::new(self.requested);
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_credits))]
mod tests {
    use super::*;

    // TV-M-16, 17, V1-24, V1-25, V1-29, V1-37, BI-6: any word gives at least 1 and at most what was
    // requested.
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

    // V1-27, V1-28, V1-31, V1-32: one call, then as many as its reply grants.
    #[test]
    fn new_connection() {
        let mut credits = Credits::new(32);
        assert_eq!(credits.requested(), 32);
        assert_eq!(credits.available(), 1);
        assert!(credits.take());
        assert_eq!(credits.available(), 0);
        assert!(!credits.take());
        assert_eq!(credits.in_flight(), 1);

        credits.answered(3);
        assert_eq!(credits.granted(), 3);
        assert_eq!(credits.available(), 3);
        assert!(credits.take() && credits.take() && credits.take());
        assert!(!credits.take());
        assert_eq!(credits.in_flight(), 3);
    }

    // V1-26, V1-30: a grant below what is in flight cancels nothing and lets nothing out.
    #[test]
    fn shrinking_grant() {
        let mut credits = Credits::new(32);
        credits.answered(4);
        assert!(credits.take() && credits.take() && credits.take() && credits.take());
        credits.answered(1);
        assert_eq!(credits.in_flight(), 3);
        assert_eq!(credits.available(), 0);
        credits.answered(1);
        credits.answered(1);
        assert_eq!(credits.available(), 0);
        assert!(!credits.take());
        credits.answered(0);
        assert_eq!(credits.in_flight(), 0);
        assert_eq!(credits.available(), 1);
    }

    // V1-31, V1-32, V1-41: only a new connection forgets calls, and with them the old grant.
    #[test]
    fn reconnect() {
        let mut credits = Credits::new(8);
        credits.answered(u32::MAX);
        assert_eq!(credits.granted(), 8);
        assert!(credits.take() && credits.take());
        credits.reconnected();
        assert_eq!(credits, Credits::new(8));
        assert_eq!(credits.available(), 1);
        assert_eq!(credits.in_flight(), 0);
    }

    // V1-37: never request 0; and an answer too many takes nothing below 0.
    #[test]
    fn limits() {
        assert_eq!(Credits::new(0).requested(), 1);
        let mut credits = Credits::new(u32::MAX);
        credits.answered(u32::MAX);
        assert_eq!(credits.in_flight(), 0);
        assert_eq!(credits.available(), u32::MAX);
    }
}
