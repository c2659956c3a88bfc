// SPDX-License-Identifier: GPL-2.0

//! The calls of a connection: untaken calls, calls whose arguments are being read, the records of
//! ended ones, and the calls that have ended connections.

use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};

use super::{
    super::{
        memory::{
            self,
            Share, //
        },
        refused::RefusedCalls, //
    },
    allowance::Allowance,
    call::Call,
    reading::Reading,
    refusals::Refusals, //
};
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
    /// Memory for the arguments of such calls, and calls that wait for it.
    #[pin]
    pub(super) allowance: Allowance,
    /// Calls whose arguments are being read.
    #[pin]
    reading: SpinLock<Reading<KBox<Call>>>,
    /// Calls that have ended connections.
    pub(super) refusals: Refusals,
}

impl Calls {
    /// No calls, and no places for any.
    pub(super) fn new(refused: Arc<RefusedCalls>) -> impl PinInit<Self> {
        pin_init!(Self {
            inbox <- Inbox::new(Waiting::Calls),
            spare <- new_spinlock!(Fifo::none(), "rpcrdma_rs::Calls::spare"),
            allowance <- Allowance::new(memory::arguments),
            reading <- new_spinlock!(Reading::none(), "rpcrdma_rs::Calls::reading"),
            refusals: Refusals::new(refused),
        })
    }

    /// Makes places for up to `most` calls, and for the records of `credits` ended ones. Called
    /// before the first call comes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn make(&self, most: usize, credits: usize) -> Result {
        let (spare, reading) = (Fifo::new(credits)?, Reading::new(most)?);

        self.inbox.make(most)?;
        self.allowance.make(most)?;
        *self.spare.lock() = spare;
        *self.reading.lock() = reading;
        Ok(())
    }

    /// The record of a call, which `begin` fills in.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn record(&self, begin: impl FnOnce(&mut Call)) -> Result<KBox<Call>> {
        let spare = self.spare.lock().pop();
        let mut record = match spare {
            Some(record) => record,
            None => KBox::new(Call::new(), GFP_NOWAIT | __GFP_NOWARN)?,
        };

        begin(&mut record);
        Ok(record)
    }

    /// Ends a call. Returns its message and its memory, if it has them still.
    pub(super) fn end(&self, mut call: KBox<Call>) -> (Option<RecvBuffer>, Option<Share>) {
        let ended = call.end();
        // A record without a free place is freed without the lock.
        let left = self.spare.lock().push(call);

        drop(left);
        ended
    }

    /// Leaves a call to the threads of `xprt`.
    ///
    /// # Errors
    ///
    /// The call, if too many wait, or the connection is closed.
    pub(super) fn push(&self, xprt: &SvcXprt, call: KBox<Call>) -> Result<(), KBox<Call>> {
        self.inbox.push(xprt, call)
    }

    /// Leaves a call whose arguments are here to the threads of `xprt`, in front of all others: no
    /// thread begins to read more while it waits, so that few calls hold pages at a time.
    ///
    /// # Errors
    ///
    /// As [`Self::push`].
    pub(super) fn push_read(&self, xprt: &SvcXprt, call: KBox<Call>) -> Result<(), KBox<Call>> {
        self.inbox.push_first(xprt, call)
    }

    /// Takes the next call.
    pub(super) fn pop(&self, xprt: &SvcXprt) -> Option<KBox<Call>> {
        self.inbox.pop(xprt)
    }

    /// Takes back the memory of a call, and leaves the calls that waited for it to the threads of
    /// `xprt`.
    ///
    /// # Errors
    ///
    /// A call for which the inbox has no place. No other goes on: the connection has to end.
    pub(super) fn give_back(&self, xprt: &SvcXprt, share: Option<Share>) -> Result<(), KBox<Call>> {
        let Some(share) = share else {
            return Ok(());
        };

        self.allowance.put(share);
        while let Some(call) = self.allowance.next() {
            self.inbox
                .push(xprt, call)
                .inspect_err(|_| self.allowance.close())?;
        }
        Ok(())
    }

    /// Keeps a call while its arguments are being read. Returns its number.
    ///
    /// # Errors
    ///
    /// The call, if too many are, or no call is kept.
    pub(super) fn begin_reading(&self, call: KBox<Call>) -> Result<usize, KBox<Call>> {
        self.reading.lock().add(call)
    }

    /// Takes the call with this number.
    pub(super) fn end_reading(&self, number: usize) -> Option<KBox<Call>> {
        self.reading.lock().take(number)
    }

    /// Drops the calls whose arguments are being read, and keeps no others from now on.
    pub(super) fn close_reading(&self) {
        // Dropped without the lock.
        let reading = core::mem::replace(&mut *self.reading.lock(), Reading::none());
        drop(reading);
    }

    /// Takes no call from now on, and drops all untaken ones.
    pub(super) fn close(&self) {
        // First, so that no call leaves it when the inbox is closed.
        self.allowance.close();
        drop(self.inbox.close());
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_server_calls)]
mod tests {
    use super::*;
    use crate::proto::{
        neutral::Invalidation,
        responder::received::Received,
        vectors::{
            Message,
            TV_V1_1, //
        },
        Wire, //
    };

    fn record(calls: &Calls, len: u32) -> Result<KBox<Call>> {
        let message = Message::new(&TV_V1_1);
        let message = message.bytes();
        let Received::Call(call) = Wire::V1.receive_call(message) else {
            return Err(EINVAL);
        };

        calls.record(|record| record.begin(Wire::V1, &call, message.len(), len, Invalidation::None))
    }

    /// Ended calls leave their records to later ones, up to the number of places.
    #[test]
    fn records() -> Result {
        let calls = KBox::pin_init(Calls::new(RefusedCalls::new()?), GFP_KERNEL)?;
        calls.make(4, 1)?;

        let (first, second) = (record(&calls, 0)?, record(&calls, 0)?);
        let place: *const Call = &raw const *first;
        assert!(calls.end(first).0.is_none());
        assert!(calls.end(second).0.is_none());
        let third = record(&calls, 0)?;
        assert!(core::ptr::eq(&raw const *third, place));
        assert!(calls.spare.lock().is_empty());
        Ok(())
    }

    /// A call whose arguments are being read is found by its number, once; none is kept after the
    /// end.
    #[test]
    fn reading() -> Result {
        let calls = KBox::pin_init(Calls::new(RefusedCalls::new()?), GFP_KERNEL)?;
        assert!(calls.begin_reading(record(&calls, 7)?).is_err());
        calls.make(2, 2)?;

        let first = calls.begin_reading(record(&calls, 7)?);
        let second = calls.begin_reading(record(&calls, 9)?);
        assert!(calls.begin_reading(record(&calls, 11)?).is_err());
        let number = first.map_err(|_| EINVAL)?;
        let found = calls.end_reading(number);
        assert!(found.is_some_and(|call| call.len == 7));
        assert!(calls.end_reading(number).is_none());
        calls.close_reading();
        assert!(calls.end_reading(second.map_err(|_| EINVAL)?).is_none());
        assert!(calls.begin_reading(record(&calls, 7)?).is_err());
        Ok(())
    }
}
