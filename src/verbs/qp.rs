// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: state shared by sender and completion handler; teardown.

mod exchange;

use core::ptr::{
    null,
    NonNull, //
};

use kernel::{
    prelude::*,
    sync::Arc, //
};

use self::exchange::Exchange;
use super::{
    buffer::{
        BufferSpec,
        NewBuffers,
        RecvChain, //
    },
    counters::{
        Counters,
        QpCounters, //
    },
    cq::callbacks,
    owner::Drained,
    poster::PosterState,
    recv_queue::TakesBack,
    CompletionHandler,
    Pd,
    PostError,
    Poster,
    QpOwner,
    QpSize,
    RecvBuffer,
    SendBuffer,
    SendQueue,
    SharedRecvQueue, //
};
use crate::bindings;

pub(crate) use self::exchange::Lengths;

/// The buffers of a queue pair: allocated, and owned by the device.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Receives, including any whose message is being read.
    pub(crate) receives_posted: u32,
    pub(crate) receives_allocated: u32,
    /// Sends that are not known to be complete.
    pub(crate) sends_posted: u32,
    pub(crate) sends_allocated: u32,
    /// Bytes of all buffers.
    pub(crate) bytes: u64,
}

/// State shared by the sender and the completion handler, and their teardown: code that posts
/// anything but messages of the [`SendQueue`] holds a lock around this value.
///
/// # Invariants
///
/// The device has the buffer of `spare` while `counters` show it as posted.
pub(crate) struct Qp<O: QpOwner> {
    poster: PosterState<O>,
    counters: Arc<Counters>,
    drained: bool,
    /// Buffers that may still be allocated.
    unallocated: BufferSpec,
    sends_allocated: u32,
    recvs_allocated: u32,
    /// Bytes of the Receives.
    recv_bytes: u64,
    /// The exchange of the Receives for others.
    exchange: Exchange,
    /// Send buffers that the owner of the send queue has yet to fetch.
    new_sends: KVec<SendBuffer>,
    /// The first Receives, until they are posted.
    first_recvs: RecvChain,
    /// Receives that are reserved, and that may be.
    reserved: u32,
    most_reserved: u32,
    /// The most Receives that are posted at a time.
    most_batch: u32,
    /// The buffer for a message of a caller that does not own the send queue. Present as long as
    /// anything may be posted.
    spare: Option<SendBuffer>,
}

// SAFETY: A queue pair has no thread affinity; all else is `Send`.
unsafe impl<O: QpOwner> Send for Qp<O> {}

impl<O: QpOwner> Qp<O> {
    /// Takes over the queue pair `raw`, and makes its buffers. No Receive is posted yet.
    ///
    /// # Safety
    ///
    /// `raw` must be a queue pair of at least the depths of `size`, in the domain `pd`, with the
    /// completion queue whose [`super::Cq::counters_for`] returned `counters` for `pd`. `owner`
    /// must be its owner and keep it valid, and nothing else may post to it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO` when a buffer cannot be mapped, or the driver's error.
    pub(crate) unsafe fn new(
        raw: NonNull<bindings::ib_qp>,
        owner: O,
        counters: QpCounters,
        pd: &Arc<Pd>,
        size: &QpSize,
    ) -> Result<(Self, SendQueue<O>)> {
        let (QpCounters(counters), callbacks) = (counters, callbacks::<O::Handler>());
        let mut unallocated = BufferSpec::new(pd, callbacks, size);
        // SAFETY: By the safety requirements of this function.
        let poster = unsafe { PosterState::new(raw, owner.clone(), pd.clone(), size.others) };
        let spare = SendBuffer::new(pd, size.send_len as usize, callbacks.spare)?;
        // SAFETY: By the safety requirements of this function `raw` has the depth of `size`, stays
        // valid as long as `owner`, and has `counters` to itself; this is its only send queue.
        let sends = unsafe { SendQueue::new(raw, owner, counters.clone(), pd.clone(), size) };
        let mut sends = sends?;
        let (first, made) = unallocated.take(size.first_sends, size.first_recvs).make();
        made?;
        // INVARIANT: By the safety requirements of this function `raw` is a valid queue pair that
        // `owner` keeps; nothing is posted yet.
        let mut qp = Self {
            poster,
            counters,
            drained: false,
            unallocated,
            sends_allocated: 0,
            recvs_allocated: 0,
            recv_bytes: 0,
            exchange: Exchange::none(),
            new_sends: KVec::with_capacity(size.sends as usize, GFP_KERNEL)?,
            first_recvs: RecvChain::new(),
            reserved: 0,
            most_reserved: size.reserved,
            most_batch: size.recv_batch,
            spare: Some(spare),
        };
        qp.first_recvs = qp.take_new(first);
        qp.fetch_sends(&mut sends);
        Ok((qp, sends))
    }

    /// Buffer usage.
    pub(crate) fn usage(&self) -> Usage {
        let Self {
            unallocated,
            counters,
            ..
        } = self;

        Usage {
            receives_posted: self.recvs_allocated.saturating_sub(counters.held()),
            receives_allocated: self.recvs_allocated,
            sends_posted: counters.outstanding_sends(),
            sends_allocated: self.sends_allocated,
            // CAST: Lengths have 32 bits.
            bytes: u64::from(self.sends_allocated)
                .saturating_mul(unallocated.send_len as u64)
                .saturating_add(self.recv_bytes),
        }
    }

    /// The owner of the queue pair.
    pub(crate) fn owner(&self) -> &O {
        self.poster.owner()
    }

    /// Posts requests besides messages.
    pub(crate) fn poster(&mut self) -> Poster<'_, O> {
        self.poster.lend()
    }

    /// Closes the queue pair: from here on nothing is posted. The requests that are posted end with
    /// the drain, by [`Closing::drain`]. Returns `sends` if it is the send queue of another queue
    /// pair.
    pub(crate) fn close(&mut self, sends: SendQueue<O>) -> Result<Closing<O>, SendQueue<O>> {
        if !sends.is_of(self.poster.as_raw()) {
            return Err(sends);
        }
        self.poster.close();
        Ok(Closing {
            raw: self.poster.as_raw(),
            owner: self.poster.owner().clone(),
            sends,
        })
    }

    /// Returns `true` if anything may still be posted.
    pub(crate) fn is_open(&self) -> bool {
        self.poster.is_open()
    }

    /// Frees the buffers and registrations, which the device no longer uses.
    pub(crate) fn finish(mut self, drained: &Drained<O>) {
        if drained.is_of(self.poster.as_raw()) {
            self.drained = true;
            self.counters.set_drained();
            self.poster.drained(drained);
        }
    }

    /// An order for up to `count` buffers of each kind, which is counted as allocated: to be
    /// [made](BufferSpec::make) without the lock of the queue pair and then [added](Self::add).
    /// `None` if the limit is reached, or nothing may be posted.
    pub(crate) fn order(&mut self, count: u32) -> Option<BufferSpec> {
        let BufferSpec { sends, recvs, .. } = self.unallocated;
        (self.is_open() && (sends != 0 || recvs != 0)).then(|| self.unallocated.take(count, count))
    }

    /// Takes buffers that were allocated for this queue pair out of `buffers`, and posts the
    /// Receives, whose number is returned. If the queue pair is closed they stay there, to be freed
    /// without its lock.
    ///
    /// # Errors
    ///
    /// As [`Self::post_held`].
    pub(crate) fn add(&mut self, buffers: &mut NewBuffers) -> Result<u32, PostError> {
        if !self.is_open() || !Arc::ptr_eq(&buffers.order.pd, self.poster.pd()) {
            return Err(PostError::Closed);
        }
        let recvs = self.take_new(buffers.take());
        self.post_current(recvs)
    }

    /// Counts new buffers, keeps the Sends for their owner, and returns the Receives. Buffers of
    /// the order that were not made can be ordered again.
    fn take_new(&mut self, buffers: NewBuffers) -> RecvChain {
        let NewBuffers {
            sends,
            recvs,
            order,
        } = buffers;
        // CAST: No queue is that long.
        let missing = order.sends.saturating_sub(sends.len() as u32);
        self.unallocated.sends = self.unallocated.sends.saturating_add(missing);
        let missing = order.recvs.saturating_sub(recvs.count());
        self.unallocated.recvs = self.unallocated.recvs.saturating_add(missing);

        // The capacity is the number that could be ordered; more are dropped.
        for buf in sends {
            self.sends_allocated = self.sends_allocated.saturating_add(1);
            let _ = self.new_sends.push_within_capacity(buf);
        }
        self.recvs_allocated = self.recvs_allocated.saturating_add(recvs.count());
        self.recv_bytes = self.recv_bytes.saturating_add(recvs.bytes());
        self.set_batch();
        recvs
    }

    /// The value that takes Receives back from any thread.
    pub(crate) fn recv_queue(&self) -> SharedRecvQueue
    where
        O::Handler: CompletionHandler<Queue = SharedRecvQueue>,
    {
        SharedRecvQueue::new(&QpCounters(self.counters.clone()))
    }

    /// Hands new Send buffers to their owner.
    pub(crate) fn fetch_sends(&mut self, sends: &mut SendQueue<O>) {
        if sends.is_of(self.poster.as_raw()) {
            while let Some(buf) = self.new_sends.pop() {
                sends.add(buf);
            }
            if let Some(bufs) = self.exchange.take_sends() {
                sends.exchange(bufs);
            }
        }
    }

    /// Posts the Receives that came back, all of them. Returns their number.
    ///
    /// # Errors
    ///
    /// [`PostError`]; the connection has to end then.
    pub(crate) fn post_held(&mut self) -> Result<u32, PostError> {
        if !self.is_open() {
            return Err(PostError::Closed);
        }
        let held = self.counters.take_held();
        self.post_current(held)
    }

    /// Posts the first Receives. Returns their number.
    ///
    /// # Errors
    ///
    /// As [`Self::post_held`].
    pub(crate) fn post_first_receives(&mut self) -> Result<u32, PostError> {
        let first = core::mem::replace(&mut self.first_recvs, RecvChain::new());
        self.post_current(first)
    }

    /// Reserves `count` Receives, at most the number in its size: no batch waits for them to come
    /// back. Returns the number that was not reserved before.
    pub(crate) fn reserve_receives(&mut self, count: u32) -> u32 {
        let count = count.min(self.most_reserved);
        let more = count.saturating_sub(self.reserved);
        self.reserved = count.max(self.reserved);
        self.set_batch();
        more
    }

    /// Sets how many Receives are posted at a time: half of the Receives that are not reserved, so
    /// that the other half is enough until then.
    fn set_batch(&mut self) {
        let batch = self.recvs_allocated.saturating_sub(self.reserved) / 2;
        self.counters.set_batch(batch.min(self.most_batch).max(1));
    }

    /// Posts a chain of Receives. Returns their number.
    fn post_chain(&mut self, chain: RecvChain) -> Result<u32, PostError> {
        // The device would write to a buffer of another queue pair at another device's address, and
        // its completion would reach another kind of handler. Each queue pair has its own domain.
        if !self.is_open() || !chain.set_posted(self.poster.pd()) {
            return Err(PostError::Closed);
        }
        let (first, count) = chain.into_requests();
        if first.is_null() {
            return Ok(0);
        }
        let mut bad = null();
        // SAFETY: The poster's queue pair is valid; the chain is built of requests whose
        // buffers are the device's until they complete.
        let ret = unsafe { bindings::ib_post_recv(self.poster.as_raw().as_ptr(), first, &mut bad) };
        match kernel::error::to_result(ret) {
            Ok(()) => Ok(count),
            Err(error) => {
                self.poster.close();
                // SAFETY: The requests are the part of the chain, from the first refused one on,
                // that the device did not take, so that they are not posted and belong to nothing
                // else.
                unsafe { RecvBuffer::drop_requests(bad) };
                Err(PostError::Device(error))
            }
        }
    }

    /// Returns `true` if [`Self::post_spare`] would post its message.
    pub(crate) fn is_spare_free(&self) -> bool {
        !self.counters.is_spare_posted()
    }

    /// Sends the message that `write` writes, for a caller that does not own the send queue.
    /// `write` returns the length in bytes. No message is expected in return. Returns `true` if it
    /// was posted: not if the buffer for such messages is in use, or `write` wrote none.
    ///
    /// # Errors
    ///
    /// [`PostError`]; the connection has to end then.
    pub(crate) fn post_spare(
        &mut self,
        write: impl FnOnce(&mut [u8]) -> Option<u32>,
    ) -> Result<bool, PostError> {
        if !self.is_open() {
            return Err(PostError::Closed);
        }
        if self.counters.is_spare_posted() {
            return Ok(false);
        }
        let Some(spare) = self.spare.as_mut() else {
            return Err(PostError::Closed);
        };
        let Some(len) = write(spare.as_mut_slice()) else {
            return Ok(false);
        };
        let first = spare.arm(len, 0, true);
        // INVARIANT: The device gets the buffer.
        self.counters.set_spare_posted(true);
        // SAFETY: The request's memory is the spare buffer's, which this value keeps until the
        // message has completed, or the drain.
        unsafe { self.poster.post(first) }.map(|()| true)
    }
}

/// A queue pair that takes no more requests, and is not drained yet.
pub(crate) struct Closing<O: QpOwner> {
    raw: NonNull<bindings::ib_qp>,
    owner: O,
    sends: SendQueue<O>,
}

impl<O: QpOwner> Closing<O> {
    /// The owner of the queue pair.
    pub(crate) fn owner(&self) -> &O {
        &self.owner
    }

    /// Waits until the device has no request of the queue pair. `None` if it refuses to release
    /// them: the buffers are leaked then. As [`QpOwner::drain`].
    pub(crate) fn drain(self) -> Option<Drained<O>> {
        let Self { raw, owner, sends } = self;

        match Drained::wait(raw, owner) {
            Some(drained) => {
                sends.finish(&drained);
                Some(drained)
            }
            None => {
                core::mem::forget(sends);
                None
            }
        }
    }
}

impl<O: QpOwner> Drop for Qp<O> {
    fn drop(&mut self) {
        if self.drained {
            return;
        }
        match Drained::wait(self.poster.as_raw(), self.poster.owner().clone()) {
            Some(drained) => {
                self.counters.set_drained();
                self.poster.drained(&drained);
            }
            // The device may still use them.
            None => {
                core::mem::forget(self.spare.take());
                self.poster.leak();
            }
        }
    }
}
