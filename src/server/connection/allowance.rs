// SPDX-License-Identifier: GPL-2.0

//! The memory for arguments that are read from the client, and the calls that wait for it.
//!
//! Each connection has memory of its own, enough for the arguments of any one call; all connections
//! share what they take beyond that. A call waits only while others have memory of its connection's
//! own, so that the end of one of them lets it go on. No call overtakes one that waits.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

use super::{
    super::{
        memory::{
            Share,
            Shared, //
        },
        room::Room, //
    },
    call::Call, //
};
use crate::{
    os::{
        Fifo,
        PAGE_SIZE, //
    },
    proto::responder::rebuild::ArgumentLimits,
    verbs::Account, //
};

/// The most that is taken as the arguments of one call. The length is compared with the pages of a
/// thread when it takes the call.
pub(super) const LIMITS: ArgumentLimits = ArgumentLimits {
    len: (4 << 20) + 2 * PAGE_SIZE,
    segments: 256,
};

/// Bytes of a connection's own memory: arguments of any call fit into it.
const OWN: usize = page_bytes(LIMITS.len);

/// Bytes of the pages that arguments of `len` bytes take.
const fn page_bytes(len: u32) -> usize {
    // CAST: Widening.
    (len.div_ceil(PAGE_SIZE) as usize).saturating_mul(PAGE_SIZE as usize)
}

/// The memory for the arguments of a connection's calls.
#[pin_data]
pub(super) struct Allowance {
    account: fn() -> &'static Account,
    #[pin]
    room: SpinLock<Room<KBox<Call>>>,
}

impl Allowance {
    /// An allowance that lets no call wait. Connections share the memory of `account`.
    pub(super) fn new(account: fn() -> &'static Account) -> impl PinInit<Self> {
        pin_init!(Self {
            account,
            room <- new_spinlock!(Room::new(OWN), "rpcrdma_rs::Allowance"),
        })
    }

    /// Makes places for `most` calls that wait. Called before the first call comes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn make(&self, most: usize) -> Result {
        let waiting = Fifo::new(most)?;

        self.room.lock().open(waiting);
        Ok(())
    }

    /// Gives `call` memory for its arguments, unless it has some. Returns `None` if the call waits:
    /// [`Self::next`] returns it.
    ///
    /// # Errors
    ///
    /// The call, if too many wait, or it would have to wait on a connection that is closed.
    pub(super) fn admit(&self, call: KBox<Call>) -> Result<Option<KBox<Call>>, KBox<Call>> {
        if call.share.is_some() {
            return Ok(Some(call));
        }
        let bytes = page_bytes(call.len);
        let mut room = self.room.lock();
        let admitted = room.admit(call, bytes, |held, bytes| self.take(held, bytes))?;

        Ok(admitted.map(with_share))
    }

    /// Takes `bytes` of the memory that connections share, of which this one has `held`.
    fn take(&self, held: usize, bytes: usize) -> Option<Shared> {
        Shared::take((self.account)(), held, bytes)
    }

    /// Takes back the memory of a call that has none of its arguments any longer.
    pub(super) fn put(&self, share: Share) {
        let shared = self.room.lock().put(share);

        drop(shared);
    }

    /// Takes the call that has waited longest, with memory for its arguments, if it can have that.
    pub(super) fn next(&self) -> Option<KBox<Call>> {
        let mut room = self.room.lock();
        let next = room.next(
            |call| page_bytes(call.len),
            |held, bytes| self.take(held, bytes),
        );

        next.map(with_share)
    }

    /// Bytes of the connection's own memory that calls have, and of all of it; and the number of
    /// calls that wait.
    pub(super) fn usage(&self) -> (usize, usize, usize) {
        self.room.lock().usage()
    }

    /// Drops the calls that wait, and lets none wait from now on.
    pub(super) fn close(&self) {
        // Dropped without the lock.
        let waiting = self.room.lock().close();

        drop(waiting);
    }
}

/// The call with its memory.
fn with_share((mut call, share): (KBox<Call>, Share)) -> KBox<Call> {
    call.share = Some(share);
    call
}

#[cfg(CONFIG_KUNIT = "y")]
#[::kernel::macros::kunit_tests(rpcrdma_allowance)]
mod tests {
    use super::*;

    const HALF: u32 = LIMITS.len / 2;

    /// The record of a call with arguments of `len` bytes.
    fn call(xid: u32, len: u32) -> Result<KBox<Call>> {
        let mut call = KBox::new(Call::new(), GFP_KERNEL)?;

        call.xid = xid;
        call.len = len;
        Ok(call)
    }

    /// The memory of a new call with arguments of `len` bytes; `None` if it waits.
    fn admit(allowance: &Allowance, xid: u32, len: u32) -> Result<Option<Share>> {
        let admitted = allowance.admit(call(xid, len)?).map_err(|_| EINVAL)?;

        Ok(admitted.and_then(|mut call| call.share.take()))
    }

    /// The xid of the call that goes on now, and its memory.
    fn next(allowance: &Allowance) -> Option<(u32, Share)> {
        let mut call = allowance.next()?;

        Some((call.xid, call.share.take()?))
    }

    /// An allowance for `most` calls that wait.
    fn allowance(account: fn() -> &'static Account, most: usize) -> Result<Pin<KBox<Allowance>>> {
        let allowance = KBox::pin_init(Allowance::new(account), GFP_KERNEL)?;

        allowance.make(most)?;
        Ok(allowance)
    }

    // H-139: one call of any size always has memory. Beyond it a connection takes no more than it
    // leaves to others.
    #[test]
    fn limit() -> Result {
        static ACCOUNT: Account = Account::new();
        let (one, other) = (allowance(|| &ACCOUNT, 2)?, allowance(|| &ACCOUNT, 2)?);
        ACCOUNT.limit(4 * page_bytes(HALF));

        let own = admit(&one, 1, LIMITS.len)?.ok_or(EINVAL)?;
        assert_eq!((one.usage(), ACCOUNT.usage().0), ((OWN, OWN, 0), 0));
        let first = admit(&one, 2, HALF)?.ok_or(EINVAL)?;
        let second = admit(&one, 3, HALF)?.ok_or(EINVAL)?;
        assert_eq!(ACCOUNT.usage().0, 2 * page_bytes(HALF));
        assert!(admit(&one, 4, 1)?.is_none());
        assert_eq!(one.usage(), (OWN, OWN, 1));

        let others = admit(&other, 5, LIMITS.len)?.ok_or(EINVAL)?;
        let shared = admit(&other, 6, HALF)?.ok_or(EINVAL)?;
        assert!(admit(&other, 7, HALF)?.is_none());
        // What one connection returns is there when the other looks next.
        one.put(first);
        one.put(second);
        assert_eq!(
            next(&one).map(|(xid, share)| (xid, one.put(share))),
            Some((4, ()))
        );
        assert_eq!(
            next(&other).map(|(xid, share)| (xid, other.put(share))),
            Some((7, ()))
        );
        one.put(own);
        other.put(others);
        other.put(shared);
        assert_eq!(
            (one.usage().0, other.usage().0, ACCOUNT.usage().0),
            (0, 0, 0)
        );
        Ok(())
    }

    // Calls wait in their order, and none overtakes another.
    #[test]
    fn order() -> Result {
        static ACCOUNT: Account = Account::new();
        let allowance = allowance(|| &ACCOUNT, 2)?;
        ACCOUNT.limit(0);

        let share = admit(&allowance, 1, HALF)?.ok_or(EINVAL)?;
        assert!(admit(&allowance, 2, LIMITS.len)?.is_none());
        // It would fit.
        assert!(admit(&allowance, 3, 1)?.is_none());
        assert!(allowance.admit(call(4, 1)?).is_err());
        assert!(next(&allowance).is_none());

        allowance.put(share);
        let (xid, share) = next(&allowance).ok_or(EINVAL)?;
        assert_eq!((xid, allowance.usage()), (2, (OWN, OWN, 1)));
        assert!(next(&allowance).is_none());
        allowance.put(share);
        let (xid, share) = next(&allowance).ok_or(EINVAL)?;
        assert_eq!(xid, 3);
        allowance.put(share);
        assert!(next(&allowance).is_none());
        assert_eq!(allowance.usage(), (0, OWN, 0));
        Ok(())
    }

    // After the end no call waits, and what calls shared returns with them.
    #[test]
    fn close() -> Result {
        static ACCOUNT: Account = Account::new();
        let allowance = allowance(|| &ACCOUNT, 1)?;
        ACCOUNT.limit(2 * OWN);

        let own = admit(&allowance, 1, LIMITS.len)?;
        let shared = admit(&allowance, 2, LIMITS.len)?;
        assert_eq!(ACCOUNT.usage().0, OWN);
        assert!(admit(&allowance, 3, 1)?.is_none());
        allowance.close();
        drop((own, shared));
        assert_eq!(ACCOUNT.usage().0, 0);
        assert!(allowance.next().is_none());
        // The memory of both was not given back to it.
        assert!(allowance.admit(call(4, LIMITS.len)?).is_err());
        Ok(())
    }
}
