// SPDX-License-Identifier: GPL-2.0

//! Credits of a direction with messages that have no answer.
//!
//! A credit permits one more message without an answer. A one-way message never has one, so it
//! would hold its credit until the connection ends. Instead:
//!
//! 1. The two-way messages without an answer (calls, `REQXCH`) never exceed the grant.
//! 2. At most one one-way message (`INITXCH`, `UPDXCH`) is unconfirmed.
//! 3. Before the peer's `INITXCH` a one-way message takes a credit, and leaves another for a
//!    two-way message. After it, the peer's extra Receive takes the message, without a credit.
//! 4. The answer to a two-way message that was sent after it confirms it; so does an error with its
//!    xid.
//!
//! Pure: the number of a two-way message is kept by its sender until the answer arrives.

use super::super::credits::grant;

/// Returns `true` if number `a` comes after number `b`, where both wrap.
pub(super) const fn is_after(a: u32, b: u32) -> bool {
    let distance = a.wrapping_sub(b);
    distance != 0 && distance < 1 << 31
}

/// A one-way message that the peer may not have received yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Unconfirmed {
    /// Its xid.
    pub(crate) xid: u32,
    /// The number of the last two-way message before it.
    pub(crate) mark: u32,
    /// Set if it takes a credit of the grant, instead of the peer's extra Receive.
    pub(crate) holds_credit: bool,
}

/// The credits of one direction, as its requester counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Credits {
    /// The credits requested in each message.
    pub(crate) requested: u32,
    /// The credits granted.
    pub(crate) grant: u32,
    /// Two-way messages without an answer.
    pub(crate) outstanding: u32,
    /// The number of the last two-way message.
    pub(crate) sent: u32,
    /// The last one-way message, until it is confirmed.
    pub(crate) unconfirmed: Option<Unconfirmed>,
    /// Set if the peer has a Receive for a one-way message besides its grant.
    pub(crate) has_extra: bool,
}

impl Credits {
    /// The credits of a new connection: one, until the first answer.
    pub(crate) const fn new(requested: u32) -> Self {
        Self {
            requested,
            grant: 1,
            outstanding: 0,
            sent: 0,
            unconfirmed: None,
            has_extra: false,
        }
    }

    /// The credits that the unconfirmed message takes.
    fn held(&self) -> u32 {
        u32::from(self.unconfirmed.is_some_and(|message| message.holds_credit))
    }

    /// The credits that messages hold.
    pub(crate) fn held_by_all(&self) -> u32 {
        self.outstanding.saturating_add(self.held())
    }

    /// Takes the grant of an answer.
    ///
    /// A grant below what is held leaves one credit for a two-way message: without it no answer
    /// could confirm the one-way message, and the direction would stop.
    pub(crate) fn granted(&mut self, word: u32) {
        self.grant = grant(word, self.requested).max(self.held().saturating_add(1));
    }

    /// The peer's `INITXCH` was received: it has posted a Receive for a one-way message.
    pub(crate) fn peer_has_extra(&mut self) {
        self.has_extra = true;
    }

    /// Returns `true` if a two-way message may be sent.
    pub(crate) fn may_call(&self) -> bool {
        self.outstanding.saturating_add(self.held()) < self.grant
    }

    /// Sends a two-way message. Returns its number, or `None` if no credit is left.
    pub(crate) fn call(&mut self) -> Option<u32> {
        if !self.may_call() {
            return None;
        }
        self.outstanding = self.outstanding.saturating_add(1);
        self.sent = self.sent.wrapping_add(1);
        Some(self.sent)
    }

    /// Returns `true` if a one-way message may be sent.
    pub(crate) fn may_notify(&self) -> bool {
        let leaves_one = self.outstanding.saturating_add(1) < self.grant;
        self.unconfirmed.is_none() && (self.has_extra || leaves_one)
    }

    /// Sends a one-way message. Returns `false` if it may not be sent now.
    pub(crate) fn notify(&mut self, xid: u32) -> bool {
        let may = self.may_notify();
        if may {
            self.unconfirmed = Some(Unconfirmed {
                xid,
                mark: self.sent,
                holds_credit: !self.has_extra,
            });
        }
        may
    }

    /// The two-way message of this number was answered, with this grant unless by an error.
    pub(crate) fn answered(&mut self, number: u32, word: Option<u32>) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if self
            .unconfirmed
            .is_some_and(|message| is_after(number, message.mark))
        {
            self.unconfirmed = None;
        }
        if let Some(word) = word {
            self.granted(word);
        }
    }

    /// An error with this xid was received. Returns `true` if it is about the unconfirmed one-way
    /// message, which the peer has received then.
    pub(crate) fn refused(&mut self, xid: u32) -> bool {
        let is_ours = self.unconfirmed.is_some_and(|message| message.xid == xid);
        if is_ours {
            self.unconfirmed = None;
        }
        is_ours
    }
}

/// The Receives that an end posts: one for each message under the credits that it has granted, one
/// for each answer to its own two-way messages, one for a one-way message of the peer, which its
/// `INITXCH` promises, and one for an error in answer to its own one-way message that takes no
/// credit.
pub(crate) const fn receives(granted: u32, own: u32) -> u32 {
    granted.saturating_add(own).saturating_add(2)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_credits))]
mod tests {
    use super::*;

    fn granted(grant: u32) -> Credits {
        let mut credits = Credits::new(32);
        credits.granted(grant);
        credits
    }

    // V2-5: one message until the first grant. V2-43: the word of the direction counts.
    #[test]
    fn one_message_before_the_first_grant() {
        let mut credits = Credits::new(32);
        assert_eq!(credits.call(), Some(1));
        assert!(!credits.may_call() && !credits.may_notify());

        // An error reports no grant.
        credits.answered(1, None);
        assert_eq!(credits.grant, 1);
        credits.granted(u32::MAX);
        assert_eq!(credits.grant, 32);
        credits.granted(0);
        assert_eq!(credits.grant, 1);
    }

    // V2-59: before the peer's INITXCH a one-way message takes a credit and leaves another.
    #[test]
    fn a_one_way_message_takes_a_credit() {
        for (grant, outstanding, may) in [
            (1, 0, false),
            (2, 0, true),
            (2, 1, false),
            (3, 1, true),
            (3, 2, false),
        ] {
            let mut credits = granted(grant);
            for _ in 0..outstanding {
                assert!(credits.call().is_some());
            }
            assert_eq!(credits.may_notify(), may);
            assert_eq!(credits.notify(7), may);
            let left = grant - outstanding - u32::from(may);
            assert_eq!(credits.may_call(), left > 0);
        }
    }

    // V2-59, XC-86: after it the extra Receive takes the message, also with one credit.
    #[test]
    fn the_extra_receive_takes_no_credit() {
        let mut credits = granted(1);
        credits.peer_has_extra();
        assert!(credits.notify(7));
        assert!(!credits.notify(8));
        assert_eq!(credits.call(), Some(1));
        assert!(!credits.may_call());
        credits.answered(1, Some(1));
        assert!(credits.notify(8));
    }

    // V2-59: the answer to an earlier message confirms nothing, also when numbers wrap.
    #[test]
    fn a_later_answer_confirms() {
        for first in [0, u32::MAX - 1, u32::MAX] {
            let mut credits = granted(4);
            credits.sent = first;
            let before = credits.call().unwrap_or_default();
            assert!(credits.notify(7));
            let after = credits.call().unwrap_or_default();
            credits.answered(before, Some(4));
            assert!(!credits.may_notify());
            credits.answered(after, Some(4));
            assert!(credits.may_notify());
            assert_eq!(credits.outstanding, 0);
        }
    }

    // V2-59, V2-51: an error with the xid of the message shows that it was received.
    #[test]
    fn an_error_confirms() {
        let mut credits = granted(2);
        assert!(credits.notify(7));
        assert!(!credits.refused(8) && credits.unconfirmed.is_some());
        assert!(credits.refused(7) && credits.unconfirmed.is_none());
        assert!(!credits.refused(7));
    }

    // V2-59: a grant that falls while a one-way message holds a credit stops nothing.
    #[test]
    fn a_falling_grant_leaves_one() {
        let mut credits = granted(2);
        assert!(credits.notify(7));
        credits.granted(1);
        let number = credits.call().unwrap_or_default();
        assert!(!credits.may_call());
        credits.answered(number, Some(1));
        assert_eq!((credits.grant, credits.unconfirmed), (1, None));
    }

    // XC-86: the Receives besides all grants.
    #[test]
    fn extra_receives() {
        assert_eq!(receives(16, 32), 50);
        assert_eq!(receives(0, 1), 3);
    }
}
