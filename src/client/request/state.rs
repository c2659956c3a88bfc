// SPDX-License-Identifier: GPL-2.0

//! The state of a call, from its Send until the server can reach none of its memory. Pure.
//!
//! Four parties move a call on, each step under the lock of its request:
//!
//! - the sender, which posts it, perhaps again on the next connection;
//! - the completion handler, which gets the reply and the completion of a local invalidation;
//! - the task of the call, which may be killed, and releases its memory at the end;
//! - the teardown of the connection.
//!
//! ```text
//!            sent                 replied
//!     Idle --------> Sent ----------------------> Idle, if the server can reach nothing by now;
//!                     |  \                        else Invalidating, and Idle when that is done
//!                     |   \ reply_late
//!                     |    `------------> RepliedLate
//!                     |                      |
//!                     | release              | release
//!                     `--------> Releasing <-'         (Idle when the invalidation is done)
//!
//!     Sent, RepliedLate, Invalidating -- torn_down --> AwaitingDrain -- drained --> Idle
//! ```
//!
//! A method returns the action that its caller has to take, or a value to be dropped without the
//! lock. The host tests walk through all interleavings of the four parties.
//!
//! A connection is known here by its number alone, so that a call costs no reference to it. The
//! registrations need none: they hold their pool. A task that has to invalidate memory on the
//! connection, or to wait for its end, looks it up by the number; it is found until its teardown is
//! over, when the server can reach nothing through it.

mod action;

pub(crate) use action::{
    InvalidationOutcome,
    ReleaseAction,
    TornDown, //
};

/// The progress of a call. `M` are its registrations, `R` is a reply that waits.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
enum State<M, R> {
    /// Not sent, or done.
    Idle,
    /// Sent on the connection with this number, which has not replied yet.
    Sent {
        generation: u64,
        exposed: Option<M>,
        /// The task has released its credit: the call counts as abandoned.
        abandoned: bool,
    },
    /// The reply has come while sunrpc did not list the call as waiting: its task has left it and
    /// not released the memory yet; or the task encodes it for the next connection.
    RepliedLate { generation: u64, exposed: Option<M> },
    /// The reply waits until the server is kept from the memory.
    Invalidating { generation: u64, reply: R },
    /// The task waits for that, to release the memory.
    Releasing,
    /// The server may reach memory of the call until the connection with this number is drained.
    AwaitingDrain { generation: u64 },
}

/// The state of a call.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct RequestState<M, R>(State<M, R>);

impl<M, R> RequestState<M, R> {
    /// A call that is not sent.
    pub(crate) const fn new() -> Self {
        Self(State::Idle)
    }

    /// Changes a state that owns nothing. The compiler does not know that, and would have each call
    /// look for a value to drop.
    #[inline(always)]
    fn set_from_empty(&mut self, state: State<M, R>) {
        core::mem::forget(core::mem::replace(&mut self.0, state));
    }

    /// Returns `true` if the call may be sent: the server cannot reach any memory of it, and no
    /// reply of it waits.
    #[inline]
    pub(crate) fn is_sendable(&self) -> bool {
        matches!(
            self.0,
            State::Idle
                | State::Sent { exposed: None, .. }
                | State::RepliedLate { exposed: None, .. }
        )
    }

    /// A call that [may be sent](Self::is_sendable) has been, on the connection with this number.
    #[inline]
    pub(crate) fn sent(&mut self, generation: u64, exposed: Option<M>) {
        self.set_from_empty(State::Sent {
            generation,
            exposed,
            abandoned: false,
        });
    }

    /// The call could not be posted. The caller ends the connection; until that is drained, memory
    /// may be exposed all the same, but no task of a call proceeds before.
    #[inline]
    pub(crate) fn send_failed(&mut self) {
        self.0 = State::Idle;
    }

    /// Takes a reply that has come on the connection with this number. Returns the registrations
    /// that the server may still reach, or `None` if no reply to the call is expected there.
    #[inline]
    #[allow(clippy::option_option)]
    pub(crate) fn replied(&mut self, generation: u64) -> Option<Option<M>> {
        match &mut self.0 {
            State::Sent {
                generation: of,
                exposed,
                ..
            } if *of == generation => {
                let exposed = exposed.take();
                self.set_from_empty(State::Idle);
                Some(exposed)
            }
            _ => None,
        }
    }

    /// The reply that [has come](Self::replied) does not count: the call waits until the connection
    /// is torn down, and is sent again.
    pub(crate) fn reply_rejected(&mut self, generation: u64, exposed: Option<M>) {
        self.sent(generation, exposed);
    }

    /// The reply that [has come](Self::replied) waits until the registrations of the call are
    /// invalidated on its connection.
    #[inline]
    pub(crate) fn invalidate_for(&mut self, generation: u64, reply: R) {
        self.set_from_empty(State::Invalidating { generation, reply });
    }

    /// Takes the completion of an invalidation for the call: successful, if `done`.
    pub(crate) fn invalidated(&mut self, done: bool) -> InvalidationOutcome<R> {
        match core::mem::replace(&mut self.0, State::Idle) {
            State::Releasing => {
                if !done {
                    self.0 = State::Releasing;
                }
                InvalidationOutcome::Released
            }
            State::Invalidating { reply, .. } if done => InvalidationOutcome::Deliver(reply),
            State::Invalidating { generation, reply } => {
                self.0 = State::AwaitingDrain { generation };
                InvalidationOutcome::Drop(reply)
            }
            other => {
                self.0 = other;
                InvalidationOutcome::Nothing
            }
        }
    }

    /// The task releases its credit. Returns `true` if the call counts as abandoned on the
    /// connection with this number: it has been sent there, and no reply has come.
    pub(crate) fn abandon(&mut self, generation: u64) -> bool {
        match &mut self.0 {
            State::Sent {
                generation: of,
                abandoned,
                ..
            } if *of == generation => {
                *abandoned = true;
                true
            }
            _ => false,
        }
    }

    /// The number of the connection that counts the call as abandoned.
    pub(crate) fn abandoned_on(&self) -> Option<u64> {
        match &self.0 {
            State::Sent {
                generation,
                abandoned: true,
                ..
            } => Some(*generation),
            _ => None,
        }
    }

    /// The reply to a call that sunrpc does not list as waiting has come on the connection with
    /// this number. `look` gets the registrations that the server may reach, and may take out any
    /// that the reply has invalidated.
    ///
    /// Returns the result of `look` and whether the call counted as abandoned, or `None` if no
    /// reply to the call is expected there.
    pub(crate) fn reply_late<T>(
        &mut self,
        generation: u64,
        look: impl FnOnce(&mut Option<M>) -> T,
    ) -> Option<(T, bool)> {
        match &mut self.0 {
            State::Sent {
                generation: of,
                exposed,
                abandoned,
            } if *of == generation => {
                let (mut exposed, abandoned) = (exposed.take(), *abandoned);
                let seen = look(&mut exposed);
                self.0 = State::RepliedLate {
                    generation,
                    exposed,
                };
                Some((seen, abandoned))
            }
            _ => None,
        }
    }

    /// Returns `true` if the reply [has come late](Self::reply_late) on the connection with this
    /// number.
    pub(crate) fn has_replied_late(&self, generation: u64) -> bool {
        matches!(&self.0, State::RepliedLate { generation: of, .. } if *of == generation)
    }

    /// Returns `true` if nothing has to be released.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.0, State::Idle)
    }

    /// The task releases its call. A call whose reply waits is pinned, so that its task does not
    /// come here.
    pub(crate) fn release(&mut self) -> ReleaseAction<M> {
        let (generation, exposed, replied) = match core::mem::replace(&mut self.0, State::Idle) {
            State::Sent {
                generation,
                exposed,
                ..
            } => (generation, exposed, false),
            State::RepliedLate {
                generation,
                exposed,
            } => (generation, exposed, true),
            State::AwaitingDrain { generation } => {
                // The drain makes it idle, before the teardown is over.
                self.0 = State::AwaitingDrain { generation };
                return ReleaseAction::EndConnection(generation);
            }
            other => {
                self.0 = other;
                return ReleaseAction::Done { replied: false };
            }
        };
        match exposed {
            Some(exposed) => {
                self.0 = State::Releasing;
                ReleaseAction::Invalidate {
                    generation,
                    exposed,
                    replied,
                }
            }
            None => ReleaseAction::Done { replied },
        }
    }

    /// Returns `true` while the task waits for an invalidation that has not succeeded.
    pub(crate) fn is_releasing(&self) -> bool {
        matches!(self.0, State::Releasing)
    }

    /// The task has waited long enough: the registrations are invalidated, or the connection that
    /// they were good for is drained.
    pub(crate) fn released(&mut self) {
        self.0 = State::Idle;
    }

    /// Returns `true` if the call depends on the connection with this number: the server may reach
    /// its memory there, or could when this connection ended.
    #[inline]
    fn depends_on(&self, generation: u64) -> bool {
        let (State::Sent {
            generation: of,
            exposed: Some(_),
            ..
        }
        | State::RepliedLate {
            generation: of,
            exposed: Some(_),
        }
        | State::Invalidating { generation: of, .. }
        | State::AwaitingDrain { generation: of }) = &self.0
        else {
            return false;
        };
        *of == generation
    }

    /// The connection with this number is being torn down, and none of its completions is still to
    /// come.
    pub(crate) fn torn_down(&mut self, generation: u64) -> TornDown<M, R> {
        // Nearly all do not: their state need not be moved to find that.
        if !self.depends_on(generation) {
            return TornDown::Nothing;
        }
        let taken = match core::mem::replace(&mut self.0, State::Idle) {
            State::Sent {
                exposed: Some(mrs), ..
            }
            | State::RepliedLate {
                exposed: Some(mrs), ..
            } => TornDown::Registrations(mrs),
            State::Invalidating { reply, .. } => TornDown::Reply(reply),
            other => {
                self.0 = other;
                return TornDown::Nothing;
            }
        };
        self.0 = State::AwaitingDrain { generation };
        taken
    }

    /// The connection with this number is drained and its queue pair is gone.
    pub(crate) fn drained(&mut self, generation: u64) {
        if matches!(&self.0, State::AwaitingDrain { generation: of } if *of == generation) {
            self.set_from_empty(State::Idle);
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_request))]
mod tests {
    use super::*;

    // Registrations and replies are distinguished by numbers.
    type Request = RequestState<u32, u32>;

    const MRS: u32 = 7;
    const GENERATION: u64 = 3;

    fn sent(exposed: Option<u32>) -> Request {
        let mut request = Request::new();
        request.sent(GENERATION, exposed);
        request
    }

    fn is_exposed(exposed: Option<u32>) -> bool {
        exposed == Some(MRS)
    }

    // V1-17, V1-39: a call has one reply, on the connection that it was sent on.
    #[test]
    fn one_reply_each() {
        let mut request = sent(None);

        assert!(request.is_sendable() && !request.is_idle());
        assert!(request.replied(GENERATION + 1).is_none());
        assert!(matches!(request.replied(GENERATION), Some(None)));
        assert!(request.replied(GENERATION).is_none());
        assert!(request.is_idle());
    }

    // V1-126: a reply waits for the invalidation, and is dropped if that fails.
    #[test]
    fn a_reply_waits() {
        for done in [true, false] {
            let mut request = sent(Some(MRS));

            assert!(!request.is_sendable());
            assert!(request.replied(GENERATION).is_some_and(is_exposed));
            request.invalidate_for(GENERATION, 1);
            assert!(!request.is_sendable());
            match request.invalidated(done) {
                InvalidationOutcome::Deliver(1) => assert!(done && request.is_idle()),
                InvalidationOutcome::Drop(1) => {
                    assert!(!done && !request.is_sendable());
                    request.drained(GENERATION + 1);
                    assert!(!request.is_idle());
                    request.drained(GENERATION);
                    assert!(request.is_idle());
                }
                _ => assert!(false),
            }
        }
    }

    // V1-128: the memory of an abandoned call is released when the server cannot reach it.
    #[test]
    fn a_task_waits() {
        for (late, done) in [(false, true), (false, false), (true, true)] {
            let mut request = sent(Some(MRS));

            assert!(request.abandoned_on().is_none());
            assert!(!request.abandon(GENERATION + 1) && request.abandon(GENERATION));
            assert!(request.abandoned_on() == Some(GENERATION));
            if late {
                let seen = request.reply_late(GENERATION, |exposed| exposed.is_some());
                assert!(matches!(seen, Some((true, true))));
                assert!(request.has_replied_late(GENERATION));
                assert!(request.reply_late(GENERATION, |_| ()).is_none());
                assert!(request.abandoned_on().is_none());
            }
            match request.release() {
                ReleaseAction::Invalidate {
                    generation,
                    exposed,
                    replied,
                } => {
                    assert!(generation == GENERATION && exposed == MRS && replied == late);
                }
                _ => assert!(false),
            }
            assert!(matches!(
                request.invalidated(done),
                InvalidationOutcome::Released
            ));
            assert!(request.is_releasing() != done);
            request.released();
            assert!(request.is_idle());
        }
    }

    // V1-122: calls on a lost connection can be sent again when that is drained.
    #[test]
    fn a_teardown_takes_all() {
        let mut request = sent(Some(MRS));
        assert!(request.depends_on(GENERATION) && !request.depends_on(GENERATION + 1));
        assert!(matches!(
            request.torn_down(GENERATION + 1),
            TornDown::Nothing
        ));
        assert!(matches!(
            request.torn_down(GENERATION),
            TornDown::Registrations(MRS)
        ));
        assert!(!request.is_sendable() && request.depends_on(GENERATION));
        assert!(matches!(
            request.release(),
            ReleaseAction::EndConnection(GENERATION)
        ));
        // The server may still reach the memory, and the state shows it while the task waits.
        assert!(!request.is_sendable());
        request.drained(GENERATION);
        assert!(request.is_idle());

        let mut request = Request::new();
        request.invalidate_for(GENERATION, 1);
        assert!(request.depends_on(GENERATION));
        assert!(matches!(request.torn_down(GENERATION), TornDown::Reply(1)));
        assert!(matches!(
            request.invalidated(true),
            InvalidationOutcome::Nothing
        ));
        request.drained(GENERATION);
        assert!(request.is_sendable());

        // A call that exposes nothing is simply sent again.
        let mut request = sent(None);
        assert!(!request.depends_on(GENERATION));
        assert!(matches!(request.torn_down(GENERATION), TornDown::Nothing));
        assert!(request.is_sendable());
        assert!(matches!(
            request.release(),
            ReleaseAction::Done { replied: false }
        ));
    }

    // PD-30: a reply that invalidated a foreign handle does not count.
    #[test]
    fn a_rejected_reply_leaves_the_call() {
        let mut request = sent(Some(MRS));
        let taken = request.replied(GENERATION).flatten();

        request.reply_rejected(GENERATION, taken);
        assert!(!request.is_sendable() && !request.is_idle());
        assert!(request.replied(GENERATION).is_some_and(is_exposed));
        request.send_failed();
        assert!(request.is_idle());
    }
}
