// SPDX-License-Identifier: GPL-2.0

//! Queue pairs, and the buffers that are in their hands.

use core::ptr::{
    null,
    null_mut,
    NonNull, //
};

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    buffer::{
        BufferSpec,
        NewBuffers, //
    },
    mr::InvalidateChain,
    ring::Ring,
    CompletionHandler,
    Mapped,
    MrList,
    MrPool,
    Pd,
    RecvBuffer,
    Registered,
    SendBuffer,
    WrId, //
};
use crate::bindings;

/// How large the queues of a queue pair are.
#[derive(Clone, Copy)]
pub(crate) struct QpSize {
    /// Messages that may be on the send queue at once.
    pub(crate) sends: u32,
    /// For how many of them there are buffers at first.
    pub(crate) first_sends: u32,
    /// Bytes in the buffer of each.
    pub(crate) send_len: u32,
    /// Registrations that may be posted together with one message.
    pub(crate) mrs_per_send: u32,
    /// Registrations there may be, hence local invalidations that may be outstanding.
    pub(crate) mrs: u32,
    /// Registrations there are at first.
    pub(crate) first_mrs: u32,
    /// Pages that each can cover.
    pub(crate) mr_pages: u32,
    /// Receives there may be.
    pub(crate) recvs: u32,
    /// Receives there are at first.
    pub(crate) first_recvs: u32,
    /// Bytes in the buffer of each.
    pub(crate) recv_len: u32,
    /// Receives that are posted for what the peer sends without having been asked.
    pub(crate) unsolicited: u32,
    /// How many Receives more than are needed are posted at once.
    pub(crate) recv_batch: u32,
}

impl QpSize {
    /// Depth of the send queue: every message with all its registrations, every invalidation, one
    /// marker for the drain.
    pub(crate) fn send_depth(&self) -> u32 {
        self.sends
            .saturating_mul(self.mrs_per_send.saturating_add(1))
            .saturating_add(self.mrs)
            .saturating_add(1)
    }

    /// Bytes that all buffers together may take.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let bytes = |count: u32, len: u32| u64::from(count).saturating_mul(u64::from(len));

        bytes(self.sends, self.send_len).saturating_add(bytes(self.recvs, self.recv_len))
    }

    /// Depth of the receive queue, with one marker for the drain.
    pub(crate) fn recv_depth(&self) -> u32 {
        self.recvs.saturating_add(1)
    }

    /// Entries that a completion queue for both needs.
    pub(crate) fn completions(&self) -> u32 {
        self.send_depth().saturating_add(self.recv_depth())
    }
}

/// The buffers of a queue pair, and those of them that the device has.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Receives, those included whose message is being looked at.
    pub(crate) receives_posted: usize,
    pub(crate) receives_made: usize,
    /// Sends that have not been seen to complete.
    pub(crate) sends_posted: usize,
    pub(crate) sends_made: usize,
    /// Bytes of all buffers.
    pub(crate) bytes: u64,
}

/// Why something could not be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostError {
    /// The queue pair takes no more requests: its connection is being torn down.
    Closed,
    /// The device refused. What it took before is unknown, so the connection has to end.
    Device(Error),
}

/// What the peer does about a message.
#[derive(Clone, Copy)]
pub(crate) enum Expects {
    /// It sends one in return.
    Reply,
    /// Nothing.
    Nothing,
}

/// What keeps a queue pair alive and can drain it.
pub(crate) trait QpOwner: Send + Sync {
    /// Moves the queue pair to the error state and waits until every posted request has completed.
    /// Process context, and neither from a completion nor under a lock that completions take.
    fn drain(&self);
}

/// A queue pair with everything that was, is or will be posted to it.
///
/// # Invariants
///
/// - `raw` is a valid queue pair, kept by `owner`.
/// - Every Send buffer in the hands of the device is in `sends`, in the order of posting. A Receive
///   buffer belongs to its work request there, and comes back with the completion.
/// - Once `open` is false nothing is posted.
///
/// A Receive is posted for each answer that is awaited, not for each that ever could be: a
/// connection that has little to do does not hand over, and at its end take back, Receives by the
/// hundred.
pub(crate) struct Qp<O: QpOwner> {
    raw: NonNull<bindings::ib_qp>,
    owner: O,
    open: bool,
    drained: bool,
    /// Buffers that may still be made.
    unallocated: BufferSpec,
    /// Whether more of them would do good.
    wants_growth: bool,
    /// Whether somebody was refused a Send buffer since the last Receive came back.
    sender_waiting: bool,
    free_sends: KVec<SendBuffer>,
    /// Send buffers that there are.
    sends_allocated: usize,
    sends: Ring<SendBuffer>,
    unsignalled: u32,
    signal_batch: u32,
    free_recvs: KVec<RecvBuffer>,
    /// Receive buffers that there are.
    recvs_allocated: usize,
    /// Receives posted beyond one for each message that may come.
    recv_surplus: i32,
    recv_batch: i32,
    failed_invalidate: Option<InvalidateChain>,
    pool: Arc<MrPool>,
}

// SAFETY: A queue pair has no thread affinity; all else is `Send`.
unsafe impl<O: QpOwner> Send for Qp<O> {}

impl<O: QpOwner> Qp<O> {
    /// Takes over the queue pair `raw`, and makes its buffers and registrations. No Receive is
    /// posted yet.
    ///
    /// # Safety
    ///
    /// `raw` must be a queue pair of at least the depths of `size`, in the domain `pd`, whose
    /// completions go to `H`, that stays valid as long as `owner`, and that nobody else posts to.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO` when a buffer cannot be mapped, or what the driver returns.
    pub(crate) unsafe fn new<H: CompletionHandler>(
        raw: NonNull<bindings::ib_qp>,
        owner: O,
        pd: &Arc<Pd>,
        size: &QpSize,
    ) -> Result<Self> {
        let pool = MrPool::new::<H>(pd.clone(), size.first_mrs, size.mrs, size.mr_pages)?;
        let missing = BufferSpec {
            pd: pd.clone(),
            make_send: SendBuffer::new::<H>,
            sends: size.sends,
            send_len: size.send_len as usize,
            make_recv: RecvBuffer::new::<H>,
            recvs: size.recvs,
            recv_len: size.recv_len,
        };
        let first = missing.at_most(size.first_sends, size.first_recvs).make()?;

        // INVARIANT: Nothing is posted yet; the rest is the caller's promise.
        let mut qp = Self {
            raw,
            owner,
            open: true,
            drained: false,
            unallocated: missing,
            wants_growth: false,
            sender_waiting: false,
            free_sends: KVec::with_capacity(size.sends as usize, GFP_KERNEL)?,
            sends_allocated: 0,
            sends: Ring::new(size.sends as usize)?,
            unsignalled: 0,
            signal_batch: (size.sends / 8).max(1),
            free_recvs: KVec::with_capacity(size.recvs as usize, GFP_KERNEL)?,
            recvs_allocated: 0,
            recv_surplus: 0i32.saturating_sub_unsigned(size.unsolicited),
            recv_batch: size.recv_batch.try_into()?,
            failed_invalidate: None,
            pool,
        };
        qp.add(first);
        Ok(qp)
    }

    /// The buffers that there are, and those in use.
    pub(crate) fn usage(&self) -> Usage {
        // CAST: Both counts have 64 bits here.
        let bytes = |count: usize, len: usize| (count as u64).saturating_mul(len as u64);

        Usage {
            receives_posted: self.recvs_allocated.saturating_sub(self.free_recvs.len()),
            receives_made: self.recvs_allocated,
            sends_posted: self.sends_allocated.saturating_sub(self.free_sends.len()),
            sends_made: self.sends_allocated,
            bytes: bytes(self.sends_allocated, self.unallocated.send_len).saturating_add(bytes(
                self.recvs_allocated,
                self.unallocated.recv_len as usize,
            )),
        }
    }

    /// What keeps the queue pair.
    pub(crate) fn endpoint(&self) -> &O {
        &self.owner
    }

    /// The registrations that may be posted to it.
    pub(crate) fn pool(&self) -> &Arc<MrPool> {
        &self.pool
    }

    /// From now on nothing is posted any more. What was posted ends with the drain, which the
    /// result is for.
    pub(crate) fn close(&mut self) -> Closing<O>
    where
        O: Clone,
    {
        self.open = false;
        Closing {
            raw: self.raw,
            owner: self.owner.clone(),
        }
    }

    /// Frees everything, since nothing is in the hands of the device any more.
    pub(crate) fn finish(mut self, drained: Drained) {
        self.drained = drained.0 == self.raw;
    }

    /// A buffer for the next message, or `None` while all of them are out, or while there is no
    /// Receive for what the message `expects`.
    #[inline]
    pub(crate) fn take_send(&mut self, expects: Expects) -> Option<SendBuffer> {
        let receivable = match expects {
            Expects::Reply => self.recv_surplus > 0 || !self.free_recvs.is_empty(),
            Expects::Nothing => true,
        };
        if receivable {
            if let Some(buf) = self.free_sends.pop() {
                return Some(buf);
            }
        }
        self.sender_waiting = true;
        self.want_growth();
        None
    }

    /// Whether more buffers would do good: then [`Self::order`] them.
    #[inline]
    pub(crate) fn wants_growth(&self) -> bool {
        self.wants_growth
    }

    fn want_growth(&mut self) {
        self.wants_growth = self.unallocated.sends != 0 || self.unallocated.recvs != 0;
    }

    /// Up to `count` buffers of each kind for this queue pair, to be made without its lock and then
    /// [added](Self::add).
    pub(crate) fn order(&mut self, count: u32) -> Option<BufferSpec> {
        core::mem::take(&mut self.wants_growth).then(|| self.unallocated.at_most(count, count))
    }

    /// Adds buffers that were made for this queue pair.
    pub(crate) fn add(&mut self, buffers: NewBuffers) {
        // There is room for as many as could be ordered; more are dropped.
        for buf in buffers.sends {
            self.unallocated.sends = self.unallocated.sends.saturating_sub(1);
            self.sends_allocated = self.sends_allocated.saturating_add(1);
            self.put_send(buf);
        }
        for buf in buffers.recvs {
            self.unallocated.recvs = self.unallocated.recvs.saturating_sub(1);
            self.recvs_allocated = self.recvs_allocated.saturating_add(1);
            let _ = self.free_recvs.push_within_capacity(buf);
        }
    }

    /// Gives a buffer back that was not posted after all.
    pub(crate) fn put_send(&mut self, buf: SendBuffer) {
        // There is room: the list was made for all buffers of the queue pair.
        let _ = self.free_sends.push_within_capacity(buf);
    }

    /// Posts the registrations of `mrs`, then a Send of the first `len` bytes of `buf`, as one
    /// chain. There is a Receive for what the message `expects`.
    ///
    /// The registrations are live when this returns, also on failure, when part of the chain may
    /// have gone out.
    ///
    /// # Errors
    ///
    /// [`PostError`]; the connection is of no further use then. Registrations of another pool count
    /// as [`PostError::Closed`].
    #[inline]
    pub(crate) fn post(
        &mut self,
        mrs: Option<MrList<Mapped>>,
        mut buf: SendBuffer,
        len: u32,
        expects: Expects,
    ) -> Result<Option<MrList<Registered>>, PostError> {
        // The registrations of another queue pair would go with that one.
        let foreign = mrs.as_ref().is_some_and(|mrs| !mrs.is_of(&self.pool));
        if !self.open || foreign {
            self.put_send(buf);
            return Err(PostError::Closed);
        }
        if let Expects::Reply = expects {
            if let Err(error) = self.expect_message() {
                self.put_send(buf);
                return Err(error);
            }
        }

        // Completions are asked for now and then; always while buffers are short, so that the queue
        // cannot run dry with nothing left to complete.
        let unsignalled = self.unsignalled.saturating_add(1);
        let signalled =
            unsignalled >= self.signal_batch || self.free_sends.len() < self.sends_allocated / 8;
        self.unsignalled = if signalled { 0 } else { unsignalled };

        let send = buf.arm(len, signalled);
        let mut mrs = mrs;
        let first = mrs.as_mut().map_or(send, |mrs| mrs.chain(send));
        if let Err(buf) = self.sends.push(buf) {
            // Cannot be: the queue holds as many as there are buffers.
            self.put_send(buf);
            return Err(PostError::Device(ENOBUFS));
        }
        let posted = self.post_send(first);
        let mrs = mrs.map(MrList::posted);
        posted.map(|()| mrs)
    }

    /// Hands a chain of requests to the device. On failure closes the queue pair.
    #[inline]
    fn post_send(&mut self, first: *mut bindings::ib_send_wr) -> Result<(), PostError> {
        let mut bad = null();

        // SAFETY: `raw` is valid by the type invariants; the chain is built of requests whose
        // memory the queue pair or the pool keeps until they have completed.
        let ret = unsafe { bindings::ib_post_send(self.raw.as_ptr(), first, &mut bad) };
        kernel::error::to_result(ret).map_err(|e| {
            self.open = false;
            PostError::Device(e)
        })
    }

    /// Invalidates `mrs`: once the completion, which carries `context`, has come, the peer cannot
    /// use any of them.
    ///
    /// # Errors
    ///
    /// [`PostError`]: the registrations are set aside until the drain, and the connection is of no
    /// further use.
    pub(crate) fn invalidate(
        &mut self,
        mrs: MrList<Registered>,
        context: usize,
    ) -> Result<(), PostError> {
        if !self.open || !mrs.is_of(&self.pool) {
            return Err(PostError::Closed);
        }
        let (first, chain) = mrs.into_invalidate(context);
        self.post_send(first)
            .inspect_err(|_| self.failed_invalidate = Some(chain))
    }

    /// A Send has completed: it and all before it give their buffers back. Returns whether any did.
    #[inline]
    pub(crate) fn sent(&mut self, id: WrId) -> bool {
        // A flush completes every Send, also those that an earlier completion covered and that have
        // left the queue.
        let Some(covered) = self.sends.position(|buf| buf.id() == id) else {
            return false;
        };
        for _ in 0..=covered {
            if let Some(buf) = self.sends.pop() {
                self.put_send(buf);
            }
        }
        true
    }

    /// Takes back the Receive buffer of an answer, which has been read. Returns whether somebody
    /// may have been waiting for it to send.
    #[inline]
    pub(crate) fn recycle(&mut self, buf: RecvBuffer) -> bool {
        // There is room: the list was made for all buffers of the queue pair.
        let _ = self.free_recvs.push_within_capacity(buf);
        core::mem::take(&mut self.sender_waiting)
    }

    /// Takes back the Receive buffer of a message that was no answer. More such may come, so
    /// another Receive takes its place.
    ///
    /// # Errors
    ///
    /// As [`Self::post_receives`].
    pub(crate) fn replace(&mut self, buf: RecvBuffer) -> Result<(), PostError> {
        let _ = self.free_recvs.push_within_capacity(buf);
        self.expect_message()
    }

    /// Sees to it that there is a Receive for one message more.
    #[inline]
    fn expect_message(&mut self) -> Result<(), PostError> {
        self.recv_surplus = self.recv_surplus.saturating_sub(1);
        if self.recv_surplus >= 0 {
            return Ok(());
        }
        self.post_receives()
    }

    /// Posts so many Receives that there is a batch of them beyond what is needed, or all.
    ///
    /// # Errors
    ///
    /// [`PostError`]; the connection is of no further use then.
    pub(crate) fn post_receives(&mut self) -> Result<(), PostError> {
        if !self.open {
            return Err(PostError::Closed);
        }
        let mut next = null_mut();
        while self.recv_surplus < self.recv_batch {
            let Some(buf) = self.free_recvs.pop() else {
                self.want_growth();
                break;
            };
            next = buf.into_request(next);
            self.recv_surplus = self.recv_surplus.saturating_add(1);
        }
        if next.is_null() {
            return Ok(());
        }

        let mut bad = null();
        // SAFETY: `raw` is valid by the type invariants; the chain is built of requests whose
        // buffers are the device's until they complete.
        let ret = unsafe { bindings::ib_post_recv(self.raw.as_ptr(), next, &mut bad) };
        kernel::error::to_result(ret).map_err(|e| {
            self.open = false;
            // SAFETY: The device says that it took none of these.
            unsafe { RecvBuffer::drop_requests(bad) };
            PostError::Device(e)
        })
    }
}

/// A queue pair that takes no more requests, and is not drained yet.
pub(crate) struct Closing<O> {
    raw: NonNull<bindings::ib_qp>,
    owner: O,
}

impl<O: QpOwner> Closing<O> {
    /// What keeps the queue pair.
    pub(crate) fn owner(&self) -> &O {
        &self.owner
    }

    /// Waits until every posted request has completed. As [`QpOwner::drain`].
    pub(crate) fn drain(self) -> Drained {
        self.owner.drain();
        Drained(self.raw)
    }
}

/// Says that a queue pair is drained.
pub(crate) struct Drained(NonNull<bindings::ib_qp>);

impl<O: QpOwner> Drop for Qp<O> {
    fn drop(&mut self) {
        if !self.drained {
            self.owner.drain();
        }
        if let Some(chain) = self.failed_invalidate.take() {
            // SAFETY: The queue pair is drained.
            unsafe { chain.abandon() };
        }
        // SAFETY: As above.
        unsafe { self.pool.purge() };
    }
}
