// SPDX-License-Identifier: GPL-2.0

//! The actions that a change of a call's state requires of its caller. `M` are registrations, `R`
//! is a reply that waits.

/// The effect of the completion of a local invalidation on a call.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum InvalidationOutcome<R> {
    /// The reply that has waited for it can be delivered.
    Deliver(R),
    /// The task that releases the call can be woken; the state shows if the invalidation succeeded.
    Released,
    /// It failed: the call is not completed, and the reply has to be dropped.
    Drop(R),
    /// Nothing was waiting for it.
    Nothing,
}

/// The next action of a task that releases its call.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum ReleaseAction<M> {
    /// None: the server can reach nothing.
    Done {
        /// Set if the reply has come after the task left the call.
        replied: bool,
    },
    /// To have the registrations invalidated, to wait for that, and to call
    /// [`released`](super::RequestState::released).
    Invalidate {
        /// The number of the connection over which the server may reach the memory.
        generation: u64,
        /// The registrations of that memory.
        exposed: M,
        /// Set if the reply has come after the task left the call.
        replied: bool,
    },
    /// To wait for the teardown of the connection with this number.
    EndConnection(u64),
}

impl<M> ReleaseAction<M> {
    /// Returns `true` if the reply has come after the task left the call.
    pub(crate) fn has_replied(&self) -> bool {
        let (Self::Done { replied } | Self::Invalidate { replied, .. }) = self else {
            return false;
        };
        *replied
    }
}

/// The part of a call that the teardown of a connection takes.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum TornDown<M, R> {
    /// Registrations that will not be invalidated: the pool keeps them for the drain.
    Registrations(M),
    /// A reply whose invalidation never completed: it is dropped, and the call sent again.
    Reply(R),
    /// Nothing: the call does not depend on that connection.
    Nothing,
}
