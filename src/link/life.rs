// SPDX-License-Identifier: GPL-2.0

//! The life of a connection, from the attempt to make it until it is closed. Pure.
//!
//! Three parties move it on, each with one atomic step on the word that stores it:
//!
//! - the publisher, which has made the connection known to the upper layer;
//! - all code that finds the connection lost: the event handler of the connection manager, the
//!   completion handler, a sender whose post fails, a task whose memory cannot be invalidated;
//! - the teardown.
//!
//! ```text
//!     Forming --- published ---> Open --- lost ---> Closed
//!        |                                            ^
//!        | lost                                       |
//!        `-------> LostEarly ------- published -------'
//!
//!     any state --- torn_down ---> Closed
//! ```
//!
//! A transition returns the next state and the action that its caller takes after it has stored
//! that state. The host tests walk through all interleavings of the three parties.

/// The state of a connection. The discriminants are the values of the word that stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
enum State {
    /// The upper layer does not know of it yet.
    Forming = 0,
    /// Lost before the upper layer knew of it.
    LostEarly = 1,
    /// In use.
    Open = 2,
    /// Lost, or being torn down: the code that moved it here has notified the upper layer.
    Closed = 3,
}

/// The life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Life(State);

/// The action of the code that was the first to find a connection lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum LossAction {
    /// Fail the step that the attempt to connect waits for, unless that ends by itself. The upper
    /// layer cannot close the connection yet: the attempt does, or finds the loss when it
    /// [publishes](Life::published).
    FailAttempt,
    /// Ask the upper layer to close the connection.
    Disconnect,
}

/// The action of the publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum PublishAction {
    /// None: the connection is in use.
    Nothing,
    /// Ask the upper layer to close the connection, which was lost before.
    Disconnect,
}

impl Life {
    /// A connection that the upper layer does not know of yet.
    pub(crate) const FORMING: Self = Self(State::Forming);

    /// The life that `word` stores. Only words that [`Self::word`] has returned are stored.
    pub(crate) const fn from_word(word: u32) -> Self {
        Self(match word {
            0 => State::Forming,
            1 => State::LostEarly,
            2 => State::Open,
            _ => State::Closed,
        })
    }

    /// The word that stores it.
    pub(crate) const fn word(self) -> u32 {
        // CAST: The numbers of the states.
        self.0 as u32
    }

    /// Returns `true` while the upper layer does not know of the connection yet, unless it is lost.
    pub(crate) fn is_forming(self) -> bool {
        self.0 == State::Forming
    }

    /// Returns `true` if the upper layer was asked to close the connection, or is closing it.
    pub(crate) fn is_closed(self) -> bool {
        self.0 == State::Closed
    }

    /// The upper layer knows of the connection. Returns `None` if it has closed it already.
    pub(crate) const fn published(self) -> Option<(Self, PublishAction)> {
        match self.0 {
            State::Forming => Some((Self(State::Open), PublishAction::Nothing)),
            State::LostEarly => Some((Self(State::Closed), PublishAction::Disconnect)),
            State::Open | State::Closed => None,
        }
    }

    /// The connection can no longer be used. Returns `None` if other code has found that before,
    /// and has acted on it.
    pub(crate) const fn lost(self) -> Option<(Self, LossAction)> {
        match self.0 {
            State::Forming => Some((Self(State::LostEarly), LossAction::FailAttempt)),
            State::Open => Some((Self(State::Closed), LossAction::Disconnect)),
            State::LostEarly | State::Closed => None,
        }
    }

    /// The teardown begins: no loss is reported from here on.
    pub(crate) const fn torn_down(self) -> Self {
        Self(State::Closed)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_life))]
mod tests {
    use super::*;

    const OPEN: Life = Life(State::Open);
    const CLOSED: Life = Life(State::Closed);
    const LOST_EARLY: Life = Life(State::LostEarly);

    #[test]
    fn words_are_distinct() {
        for life in [Life::FORMING, LOST_EARLY, OPEN, CLOSED] {
            assert!(Life::from_word(life.word()) == life);
        }
    }

    #[test]
    fn a_loss_counts_once() {
        assert!(Life::FORMING.lost() == Some((LOST_EARLY, LossAction::FailAttempt)));
        assert!(OPEN.lost() == Some((CLOSED, LossAction::Disconnect)));
        assert!(LOST_EARLY.lost().is_none() && CLOSED.lost().is_none());
    }

    #[test]
    fn an_early_loss_is_told_when_the_upper_layer_can_hear_it() {
        assert!(Life::FORMING.published() == Some((OPEN, PublishAction::Nothing)));
        assert!(LOST_EARLY.published() == Some((CLOSED, PublishAction::Disconnect)));
        assert!(CLOSED.published().is_none());
    }

    #[test]
    fn a_teardown_ends_every_life() {
        for life in [Life::FORMING, LOST_EARLY, OPEN, CLOSED] {
            assert!(life.torn_down() == CLOSED && life.torn_down().is_closed());
        }
    }
}
