// SPDX-License-Identifier: GPL-2.0

//! The calls of a connection: those that no thread has taken, and the records of those that have
//! ended.

use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

use super::call::Call;
use crate::{
    os::Fifo,
    sunrpc::svc::{
        Inbox,
        SvcXprt,
        Waiting, //
    },
    verbs::RecvBuffer, //
};

/// The calls of a connection. A call has the record of an earlier one, so that a connection in
/// steady use allocates none, and goes on when memory is short.
#[pin_data]
pub(super) struct Calls {
    /// Calls that no thread has taken.
    #[pin]
    inbox: Inbox<KBox<Call>>,
    /// Records of calls that have ended.
    #[pin]
    spare: SpinLock<Fifo<KBox<Call>>>,
}

impl Calls {
    /// No calls, and no places for any.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inbox <- Inbox::new(Waiting::Calls),
            spare <- new_spinlock!(Fifo::none(), "rpcrdma_rs::Calls::spare"),
        })
    }

    /// Makes places for up to `most` calls that no thread has taken, and for the records of
    /// `credits` that have ended. Called before the first call comes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn make(&self, most: usize, credits: usize) -> Result {
        let spare = Fifo::new(credits)?;

        self.inbox.make(most)?;
        *self.spare.lock() = spare;
        Ok(())
    }

    /// The record of `call`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn record(&self, call: Call) -> Result<KBox<Call>> {
        let spare = self.spare.lock().pop();

        match spare {
            Some(mut record) => {
                *record = call;
                Ok(record)
            }
            None => Ok(KBox::new(call, GFP_NOWAIT | __GFP_NOWARN)?),
        }
    }

    /// Ends a call. Returns its message, if it has it still.
    pub(super) fn end(&self, mut call: KBox<Call>) -> Option<RecvBuffer> {
        let message = call.end();
        // What finds no place is freed without the lock.
        let kept = self.spare.lock().push(call);

        drop(kept);
        message
    }

    /// Leaves a call to the threads of `xprt`.
    ///
    /// # Errors
    ///
    /// The call, if too many wait, or the connection is closed.
    pub(super) fn push(&self, xprt: &SvcXprt, call: KBox<Call>) -> Result<(), KBox<Call>> {
        self.inbox.push(xprt, call)
    }

    /// Takes the call that has waited longest.
    pub(super) fn pop(&self, xprt: &SvcXprt) -> Option<KBox<Call>> {
        self.inbox.pop(xprt)
    }

    /// Takes no call from now on, and drops those that wait.
    pub(super) fn close(&self) {
        while let Some(call) = self.inbox.close() {
            drop(call);
        }
    }
}
