// SPDX-License-Identifier: GPL-2.0

//! The attempt to make a connection: each of its steps waits for an event, or for the reply to a
//! call of our own.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SpinLock, //
    }, //
};

use super::super::negotiated::PeerData;
use crate::os::series::{
    ECANCELED,
    ENETDOWN,
    ENETUNREACH, //
};
use crate::{
    os::{
        secs_to_jiffies,
        Completion, //
    },
    sunrpc::ConnectStatus, //
};

/// Jiffies between checks that sunrpc still wants a transport that is connecting.
pub(in crate::client) const RELEASE_POLL: usize = secs_to_jiffies(1) / 10;

/// The failure of a step of connecting.
#[derive(Clone, Copy)]
pub(in crate::client) struct StepError {
    /// The status for sunrpc.
    pub(in crate::client) status: ConnectStatus,
    /// The number that the connection manager gave: a negative errno, or the reason of a rejection.
    pub(in crate::client) code: i32,
}

impl StepError {
    /// A failure with `status` and this errno.
    pub(in crate::client) fn new(status: ConnectStatus, error: Error) -> Self {
        Self {
            status,
            code: error.to_errno(),
        }
    }

    /// The status for sunrpc of a failure with this (negative) errno of the connection manager.
    pub(super) fn of(code: i32) -> Self {
        let status = match code {
            code if code == ENETUNREACH.to_errno() => ConnectStatus::NetUnreachable,
            code if code == ENETDOWN.to_errno() => ConnectStatus::NetDown,
            _ => ConnectStatus::Unreachable,
        };
        Self { status, code }
    }
}

/// The outcome of a step: the private data of the peer, if it came with the step.
type Outcome = Result<PeerData, StepError>;

/// The last event.
struct Progress {
    /// The outcome of the step, until it was waited for.
    outcome: Option<Outcome>,
    /// Set while the connection request is outstanding.
    asked: bool,
}

/// The attempt to make a connection.
#[pin_data]
pub(in crate::client) struct Attempt {
    #[pin]
    progress: SpinLock<Progress>,
    #[pin]
    stepped: Completion,
    /// Set while a call of our own waits for its reply ([`super::super::probe`]).
    probing: Atomic<bool>,
}

impl Attempt {
    /// No step has begun.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            progress <- new_spinlock!(
                Progress {
                    outcome: None,
                    asked: false,
                },
                "rpcrdma_rs::Attempt::progress"
            ),
            stepped <- Completion::new(),
            probing: Atomic::new(false),
        })
    }

    /// Waits for the end of a step, at most `limit` jiffies, and no longer than sunrpc wants the
    /// transport.
    ///
    /// # Errors
    ///
    /// The failure of the step; `ETIMEDOUT`; `ECANCELED` when `is_released` returns `true`, because
    /// sunrpc is done with the transport.
    pub(in crate::client) fn wait(
        &self,
        limit: usize,
        is_released: impl Fn() -> bool,
    ) -> Result<PeerData, StepError> {
        let mut left = limit;

        // sunrpc makes no call when it drops its last reference: it waits for the write lock, which
        // is held here (H-49).
        loop {
            let slice = left.min(RELEASE_POLL);
            if self.stepped.wait(slice) {
                break;
            }
            left = left.saturating_sub(slice);
            if is_released() {
                return Err(StepError::new(ConnectStatus::Retry, ECANCELED));
            }
            if left == 0 {
                return Err(StepError::of(ETIMEDOUT.to_errno()));
            }
        }
        let mut progress = self.progress.lock();
        progress.asked = false;
        // A signal without an outcome belongs to a step before this one.
        let missing = Err(StepError::new(ConnectStatus::Retry, EAGAIN));
        progress.outcome.take().unwrap_or(missing)
    }

    /// Ends a step with `outcome`, and wakes the attempt, which waits for it.
    pub(in crate::client) fn end(&self, outcome: Result<PeerData, StepError>) {
        self.progress.lock().outcome = Some(outcome);
        self.stepped.signal();
    }

    /// Begins the step that requests the connection from the server.
    pub(in crate::client) fn ask(&self) {
        self.progress.lock().asked = true;
    }

    /// Returns `true` if a loss ends the current step. But after the connection request an event
    /// reports the outcome: the connection manager ends the Receives before it reports a rejection.
    pub(super) fn ends_with_loss(&self) -> bool {
        !self.progress.lock().asked
    }

    /// A call of our own is about to be sent.
    pub(in crate::client) fn begin_probe(&self) {
        self.probing.store(true, Relaxed);
    }

    /// Returns `true` while that call waits for its reply.
    #[inline(always)]
    pub(in crate::client) fn is_probing(&self) -> bool {
        self.probing.load(Relaxed)
    }

    /// Returns `true`, once, if that call waits for its reply, and ends its wait.
    pub(in crate::client) fn end_probe(&self) -> bool {
        self.probing.xchg(false, Relaxed)
    }
}
