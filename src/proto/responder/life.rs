// SPDX-License-Identifier: GPL-2.0

//! The life of a received call, from its arrival until its record is recycled. Pure.
//!
//! Its parties are the completion handler, for RDMA Reads and Sends; any thread of the upper layer;
//! and the teardown. They move a call on with one atomic step each on the word that stores its
//! life:
//!
//! ```text
//!     Reading --- read ---> Ready --- taken ---> Held --- released ------------------> Gone
//!        | failed             | dropped           | planned, posted                      ^
//!        `------> Gone <------'                   v                                      |
//!                     HeldWaiting --- posted ---> HeldPosted --- sent ---> HeldReplied --'
//!                         | released                 | released               released   ^
//!                         v                          v                                   |
//!                      Waiting ------ posted ---> Posted ------- sent -------------------'
//!
//!     HeldWaiting --- dropped ---> HeldReplied        Waiting --- dropped ---> Gone
//! ```
//!
//! The upper layer holds a call until it releases it. In between it may defer it: its cache keeps
//! the call, and another thread serves it later, in the same state. The reply holds the call until
//! its Send has completed or it is dropped. The last of the two recycles the record: the party
//! whose transition returns that action.
//!
//! An `RDMA_ERROR` is a Send without a record: the call is dropped, or never had one.

/// The state of a call. The discriminants are the values of the word that stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
enum State {
    /// RDMA Reads put its arguments together; their pages are the device's.
    Reading = 0,
    /// Its arguments are complete, and no thread has it yet.
    Ready = 1,
    /// The upper layer has it, without a reply yet.
    Held = 2,
    /// Its reply waits for room in the send queue.
    HeldWaiting = 3,
    /// Its reply is posted.
    HeldPosted = 4,
    /// Its reply is sent or dropped.
    HeldReplied = 5,
    /// As [`State::HeldWaiting`], and the upper layer has released it.
    Waiting = 6,
    /// As [`State::HeldPosted`], and the upper layer has released it.
    Posted = 7,
    /// Its record may serve another call.
    Gone = 8,
}

/// The life of a received call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct CallLife(State);

/// The action of the party that has moved a call on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum CallAction {
    /// None.
    Nothing,
    /// Put the call into the inbox of its connection.
    Enqueue,
    /// Recycle the record, and free its pages.
    Recycle,
}

/// The next life, and the action once that is stored.
type Next = Option<(CallLife, CallAction)>;

impl CallLife {
    /// A call whose arguments are being read.
    pub(crate) const READING: Self = Self(State::Reading);

    /// A call whose arguments are complete, for the inbox of its connection.
    pub(crate) const READY: Self = Self(State::Ready);

    /// The life that `word` stores. Only words that [`Self::word`] has returned are stored.
    pub(crate) const fn from_word(word: u32) -> Self {
        Self(match word {
            0 => State::Reading,
            1 => State::Ready,
            2 => State::Held,
            3 => State::HeldWaiting,
            4 => State::HeldPosted,
            5 => State::HeldReplied,
            6 => State::Waiting,
            7 => State::Posted,
            _ => State::Gone,
        })
    }

    /// The word that stores it.
    #[allow(clippy::as_conversions)]
    pub(crate) const fn word(self) -> u32 {
        // CAST: The numbers of the states.
        self.0 as u32
    }

    /// Returns `true` if the record may serve another call.
    pub(crate) fn is_gone(self) -> bool {
        self.0 == State::Gone
    }

    /// Returns `true` if the device may access memory of the call.
    pub(crate) const fn is_at_device(self) -> bool {
        matches!(self.0, State::Reading | State::HeldPosted | State::Posted)
    }

    /// The last RDMA Read has completed; `done` if all have succeeded. If one has not, the
    /// connection is lost and the arguments are incomplete. Returns `None` for a call that is not
    /// being read.
    pub(crate) const fn read(self, done: bool) -> Next {
        match self.0 {
            State::Reading if done => Some((Self(State::Ready), CallAction::Enqueue)),
            State::Reading => Some((Self(State::Gone), CallAction::Recycle)),
            _ => None,
        }
    }

    /// A thread takes the call from the inbox to the upper layer. Returns `None` for a call that is
    /// not ready.
    pub(crate) const fn taken(self) -> Next {
        match self.0 {
            State::Ready => Some((Self(State::Held), CallAction::Nothing)),
            _ => None,
        }
    }

    /// The reply has no room, and is to wait for it. Returns `None` for a call that is not held, or
    /// has a reply.
    pub(crate) const fn waits(self) -> Next {
        match self.0 {
            State::Held => Some((Self(State::HeldWaiting), CallAction::Nothing)),
            _ => None,
        }
    }

    /// The reply is to be posted; stored before it is, since the Send may complete immediately.
    /// Returns `None` for a call without a reply to post.
    pub(crate) const fn posted(self) -> Next {
        match self.0 {
            State::Held | State::HeldWaiting => {
                Some((Self(State::HeldPosted), CallAction::Nothing))
            }
            State::Waiting => Some((Self(State::Posted), CallAction::Nothing)),
            _ => None,
        }
    }

    /// The Send of the reply has completed, successfully or not, or could not be posted. Returns
    /// `None` for a call whose reply is not posted.
    pub(crate) const fn sent(self) -> Next {
        match self.0 {
            State::HeldPosted => Some((Self(State::HeldReplied), CallAction::Nothing)),
            State::Posted => Some((Self(State::Gone), CallAction::Recycle)),
            _ => None,
        }
    }

    /// The connection is closed: drops the call from the inbox, or its reply from the waiting ones.
    /// Also drops a call from the inbox that is rejected. Returns `None` for a call in neither.
    pub(crate) const fn dropped(self) -> Next {
        match self.0 {
            State::Ready | State::Waiting => Some((Self(State::Gone), CallAction::Recycle)),
            State::HeldWaiting => Some((Self(State::HeldReplied), CallAction::Nothing)),
            _ => None,
        }
    }

    /// The upper layer releases the call, with or without a reply. Returns `None` for a call that
    /// it does not hold.
    pub(crate) const fn released(self) -> Next {
        match self.0 {
            State::Held | State::HeldReplied => Some((Self(State::Gone), CallAction::Recycle)),
            State::HeldWaiting => Some((Self(State::Waiting), CallAction::Nothing)),
            State::HeldPosted => Some((Self(State::Posted), CallAction::Nothing)),
            _ => None,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_call_life))]
mod tests {
    use super::*;

    const ALL: [CallLife; 9] = [
        CallLife::READING,
        CallLife::READY,
        CallLife(State::Held),
        CallLife(State::HeldWaiting),
        CallLife(State::HeldPosted),
        CallLife(State::HeldReplied),
        CallLife(State::Waiting),
        CallLife(State::Posted),
        CallLife(State::Gone),
    ];

    #[test]
    fn words_are_distinct() {
        for life in ALL {
            assert!(CallLife::from_word(life.word()) == life);
        }
    }

    // V1-157: incomplete arguments do not become ready.
    #[test]
    fn reads() {
        assert!(CallLife::READING.read(true) == Some((CallLife::READY, CallAction::Enqueue)));
        let gone = Some((CallLife(State::Gone), CallAction::Recycle));
        assert!(CallLife::READING.read(false) == gone);
        assert!(CallLife::READING.taken().is_none());
    }

    // V1-121: the record is recycled at the end of every life, and nothing follows.
    #[test]
    fn ends() {
        for life in ALL {
            let nexts = [
                life.read(true),
                life.read(false),
                life.taken(),
                life.waits(),
                life.posted(),
                life.sent(),
                life.dropped(),
                life.released(),
            ];
            assert!(nexts.iter().any(|next| next.is_some()) != life.is_gone());
            for (next, action) in nexts.into_iter().flatten() {
                assert!(next.is_gone() == (action == CallAction::Recycle));
                assert!(next.word() > life.word());
            }
        }
    }

    // V1-130: the device has memory of a call while it reads it, or sends the reply.
    #[test]
    fn at_device() {
        let at_device = ALL.map(|life| life.is_at_device());
        let expected = [true, false, false, false, true, false, false, true, false];
        assert!(at_device == expected);
    }
}
