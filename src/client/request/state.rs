// SPDX-License-Identifier: GPL-2.0

//! The state of a call, from its Send until the server can reach none of its memory. Pure.
//!
//! Four parties move a call on, each step under the lock of its request:
//!
//! - the sender, which posts it, perhaps again on the next connection;
//! - the completion handler, to which the reply and the completion of a local invalidation come;
//! - the task of the call, which may be killed, and releases its memory at the end;
//! - the teardown of the connection.
//!
//! ```text
//!            sent                 replied
//!     Idle --------> Sent ----------------------> Idle, if the server can reach nothing any more;
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
//! A method returns what its caller has to do, or has to drop without the lock. The host tests walk
//! through all interleavings of the four parties.

/// Registrations that the server may use, and the connection that they are good for.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct Exposed<M, C> {
    /// The connection.
    pub(crate) connection: C,
    /// The registrations.
    pub(crate) mrs: M,
}

/// The effect of the completion of a local invalidation on a call.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum InvalidationOutcome<R> {
    /// The reply that has waited for it can be delivered.
    Deliver(R),
    /// The task that releases the call can be told; the state shows if the invalidation succeeded.
    Released,
    /// It failed: the call is not completed, and the reply has to be dropped.
    Drop(R),
    /// Nothing has waited for it any more.
    Nothing,
}

/// The action by which a task releases its call.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum ReleaseAction<M, C> {
    /// Nothing: the server can reach nothing. Set if the reply has come late.
    Done {
        /// Set if the reply has come after the task left the call.
        replied: bool,
    },
    /// To have the registrations invalidated, to wait for that, and to call
    /// [`RequestState::released`].
    Invalidate {
        /// The memory that the server may reach.
        exposed: Exposed<M, C>,
        /// Set if the reply has come after the task left the call.
        replied: bool,
    },
    /// To take this connection down.
    EndConnection(C),
}

/// The part of a call that the teardown of a connection takes.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum Severed<M, R> {
    /// Registrations that will not be invalidated: the pool keeps them for the drain.
    Registrations(M),
    /// A reply whose invalidation never completed: it is dropped, and the call sent again.
    Reply(R),
    /// Nothing: the call does not depend on that connection.
    Nothing,
}

/// The progress of a call. `M` are its registrations, `R` is a reply that waits, `C` refers to a
/// connection.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
enum State<M, R, C> {
    /// Not sent, or done.
    Idle,
    /// Sent on the connection with this number, which has not replied yet.
    Sent {
        generation: u64,
        exposed: Option<Exposed<M, C>>,
        /// The task has let go of its credit: the call counts as abandoned.
        abandoned: bool,
    },
    /// The reply has come while the call was not among those that wait for one: its task has left
    /// it and not released the memory yet; or the task encodes it for the next connection.
    RepliedLate {
        generation: u64,
        exposed: Option<Exposed<M, C>>,
    },
    /// The reply waits until the server is kept from the memory.
    Invalidating {
        generation: u64,
        reply: R,
        connection: C,
    },
    /// The task waits for that, to release the memory.
    Releasing,
    /// The server may reach memory of the call until this connection is drained.
    AwaitingDrain { generation: u64, connection: C },
}

/// The state of a call.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct RequestState<M, R, C>(State<M, R, C>);

impl<M, R, C> RequestState<M, R, C> {
    /// A call that is not sent.
    pub(crate) const fn new() -> Self {
        Self(State::Idle)
    }

    /// Changes a state that owns nothing. The compiler does not know that, and would have each call
    /// look for what to drop.
    #[inline(always)]
    fn set_from_empty(&mut self, state: State<M, R, C>) {
        core::mem::forget(core::mem::replace(&mut self.0, state));
    }

    /// Tells whether the call may be sent: the server cannot reach any memory of it, and no reply
    /// of it waits.
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
    pub(crate) fn sent(&mut self, generation: u64, exposed: Option<Exposed<M, C>>) {
        self.set_from_empty(State::Sent {
            generation,
            exposed,
            abandoned: false,
        });
    }

    /// The call could not be posted. The caller ends the connection; until that is drained, memory
    /// may be exposed all the same, but no task of a call goes on before.
    #[inline]
    pub(crate) fn send_failed(&mut self) {
        self.0 = State::Idle;
    }

    /// A reply has come on the connection with this number. Returns what the server may still
    /// reach, or `None` if no reply to the call is expected there.
    #[inline]
    #[allow(clippy::option_option)]
    pub(crate) fn replied(&mut self, generation: u64) -> Option<Option<Exposed<M, C>>> {
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
    pub(crate) fn reply_rejected(&mut self, generation: u64, exposed: Option<Exposed<M, C>>) {
        self.sent(generation, exposed);
    }

    /// The reply that [has come](Self::replied) waits until the registrations of the call are
    /// invalidated on its connection.
    #[inline]
    pub(crate) fn invalidate_for(&mut self, generation: u64, reply: R, connection: C) {
        self.set_from_empty(State::Invalidating {
            generation,
            reply,
            connection,
        });
    }

    /// An invalidation for the call has completed: successfully, if `done`.
    pub(crate) fn invalidated(&mut self, done: bool) -> InvalidationOutcome<R> {
        match core::mem::replace(&mut self.0, State::Idle) {
            State::Releasing => {
                if !done {
                    self.0 = State::Releasing;
                }
                InvalidationOutcome::Released
            }
            State::Invalidating { reply, .. } if done => InvalidationOutcome::Deliver(reply),
            State::Invalidating {
                generation,
                reply,
                connection,
            } => {
                self.0 = State::AwaitingDrain {
                    generation,
                    connection,
                };
                InvalidationOutcome::Drop(reply)
            }
            other => {
                self.0 = other;
                InvalidationOutcome::Nothing
            }
        }
    }

    /// The task lets go of its credit. Tells whether the call counts as abandoned on the connection
    /// with this number: it has been sent there, and no reply has come.
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

    /// The connection on which the call counts as abandoned.
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

    /// The reply to a call that is not among those that wait for one has come on the connection
    /// with this number. `look` gets what the server may reach, and may take from it what the reply
    /// has invalidated.
    ///
    /// Returns what `look` does and whether the call counted as abandoned, or `None` if no reply to
    /// the call is expected there.
    pub(crate) fn reply_late<T>(
        &mut self,
        generation: u64,
        look: impl FnOnce(&mut Option<Exposed<M, C>>) -> T,
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

    /// Tells whether the reply [has come late](Self::reply_late) on the connection with this
    /// number.
    pub(crate) fn has_replied_late(&self, generation: u64) -> bool {
        matches!(&self.0, State::RepliedLate { generation: of, .. } if *of == generation)
    }

    /// Tells whether there is nothing to release.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.0, State::Idle)
    }

    /// The task releases its call. A call whose reply waits is pinned, so that its task does not
    /// come here.
    pub(crate) fn release(&mut self) -> ReleaseAction<M, C> {
        let (exposed, replied) = match core::mem::replace(&mut self.0, State::Idle) {
            State::Sent { exposed, .. } => (exposed, false),
            State::RepliedLate { exposed, .. } => (exposed, true),
            State::AwaitingDrain { connection, .. } => {
                return ReleaseAction::EndConnection(connection)
            }
            State::Idle | State::Invalidating { .. } | State::Releasing => (None, false),
        };
        match exposed {
            Some(exposed) => {
                self.0 = State::Releasing;
                ReleaseAction::Invalidate { exposed, replied }
            }
            None => ReleaseAction::Done { replied },
        }
    }

    /// Tells whether the task still waits for an invalidation that has not succeeded.
    pub(crate) fn is_releasing(&self) -> bool {
        matches!(self.0, State::Releasing)
    }

    /// The task has waited long enough: the registrations are invalidated, or the connection that
    /// they were good for is drained.
    pub(crate) fn released(&mut self) {
        self.0 = State::Idle;
    }

    /// Tells whether the call depends on the connection with this number: the server may reach its
    /// memory there, or could when this connection ended.
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
        | State::AwaitingDrain { generation: of, .. }) = &self.0
        else {
            return false;
        };
        *of == generation
    }

    /// The connection with this number is being torn down, and none of its completions is still to
    /// come.
    pub(crate) fn torn_down(&mut self, generation: u64) -> Severed<M, R> {
        // Nearly all do not: their state need not be moved to find that.
        if !self.depends_on(generation) {
            return Severed::Nothing;
        }
        let (severed, connection) = match core::mem::replace(&mut self.0, State::Idle) {
            State::Sent {
                generation: of,
                exposed: Some(Exposed { connection, mrs }),
                ..
            }
            | State::RepliedLate {
                generation: of,
                exposed: Some(Exposed { connection, mrs }),
            } if of == generation => (Severed::Registrations(mrs), connection),
            State::Invalidating {
                generation: of,
                reply,
                connection,
            } if of == generation => (Severed::Reply(reply), connection),
            other => {
                self.0 = other;
                return Severed::Nothing;
            }
        };
        self.0 = State::AwaitingDrain {
            generation,
            connection,
        };
        severed
    }

    /// The connection with this number is drained and its queue pair is gone. Returns a reference
    /// to it, to be dropped.
    pub(crate) fn drained(&mut self, generation: u64) -> Option<C> {
        if !self.depends_on(generation) {
            return None;
        }
        match core::mem::replace(&mut self.0, State::Idle) {
            State::AwaitingDrain {
                generation: of,
                connection,
            } if of == generation => Some(connection),
            other => {
                self.0 = other;
                None
            }
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_request))]
mod tests {
    use super::*;

    // Registrations and replies are told apart by numbers.
    type Request = RequestState<u32, u32, u32>;

    const MRS: u32 = 7;
    const CONNECTION: u32 = 3;
    const GENERATION: u64 = 3;

    fn exposed() -> Option<Exposed<u32, u32>> {
        Some(Exposed {
            connection: CONNECTION,
            mrs: MRS,
        })
    }

    fn sent(exposed: Option<Exposed<u32, u32>>) -> Request {
        let mut request = Request::new();
        request.sent(GENERATION, exposed);
        request
    }

    fn is_exposed(exposed: Option<Exposed<u32, u32>>) -> bool {
        exposed.is_some_and(|e| e.mrs == MRS && e.connection == CONNECTION)
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
            let mut request = sent(exposed());

            assert!(!request.is_sendable());
            assert!(request.replied(GENERATION).is_some_and(is_exposed));
            request.invalidate_for(GENERATION, 1, CONNECTION);
            assert!(!request.is_sendable());
            match request.invalidated(done) {
                InvalidationOutcome::Deliver(1) => assert!(done && request.is_idle()),
                InvalidationOutcome::Drop(1) => {
                    assert!(!done && !request.is_sendable());
                    assert!(request.drained(GENERATION + 1).is_none());
                    assert!(request.drained(GENERATION) == Some(CONNECTION));
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
            let mut request = sent(exposed());

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
                ReleaseAction::Invalidate { exposed, replied } => {
                    assert!(is_exposed(Some(exposed)) && replied == late);
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

    // V1-122: what a lost connection leaves is over when that is drained.
    #[test]
    fn a_teardown_takes_all() {
        let mut request = sent(exposed());
        assert!(request.depends_on(GENERATION) && !request.depends_on(GENERATION + 1));
        assert!(matches!(
            request.torn_down(GENERATION + 1),
            Severed::Nothing
        ));
        assert!(matches!(
            request.torn_down(GENERATION),
            Severed::Registrations(MRS)
        ));
        assert!(!request.is_sendable() && request.depends_on(GENERATION));
        assert!(matches!(
            request.release(),
            ReleaseAction::EndConnection(CONNECTION)
        ));

        let mut request = Request::new();
        request.invalidate_for(GENERATION, 1, CONNECTION);
        assert!(request.depends_on(GENERATION));
        assert!(matches!(request.torn_down(GENERATION), Severed::Reply(1)));
        assert!(matches!(
            request.invalidated(true),
            InvalidationOutcome::Nothing
        ));
        assert!(request.drained(GENERATION) == Some(CONNECTION));
        assert!(request.is_sendable());

        // What exposes nothing is simply sent again.
        let mut request = sent(None);
        assert!(!request.depends_on(GENERATION));
        assert!(matches!(request.torn_down(GENERATION), Severed::Nothing));
        assert!(request.is_sendable());
        assert!(matches!(
            request.release(),
            ReleaseAction::Done { replied: false }
        ));
    }

    // PD-30: a reply that invalidated a foreign handle does not count.
    #[test]
    fn a_rejected_reply_leaves_the_call() {
        let mut request = sent(exposed());
        let taken = request.replied(GENERATION).flatten();

        request.reply_rejected(GENERATION, taken);
        assert!(!request.is_sendable() && !request.is_idle());
        assert!(request.replied(GENERATION).is_some_and(is_exposed));
        request.send_failed();
        assert!(request.is_idle());
    }
}
