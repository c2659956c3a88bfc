// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair, for its sender.

use core::ptr::{
    null,
    NonNull, //
};

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    counters::Counters,
    owner::Drained,
    ring::Ring,
    Admitted,
    Mapped,
    MrList,
    Pd,
    PostError,
    QpOwner,
    QpSize,
    Registered,
    SendBuffer,
    ToPeer, //
};
use crate::os::series::ENOBUFS;
use crate::{
    bindings,
    os::{
        jiffies,
        secs_to_jiffies, //
    }, //
};

/// The number of buffers of a connection in steady use.
const USUAL: usize = 32;

/// A connection in steady use sends at least this many messages in this many jiffies.
const STEADY: (u32, usize) = (32, secs_to_jiffies(1));

/// The sender's half of a queue pair: the Send buffers, including any that the device has.
///
/// Sending takes no lock: the value has one owner, which learns of completions by numbers
/// ([`Counters`]). Closing the queue pair consumes the value ([`super::Qp::close`]), so that
/// nothing is sent after that.
///
/// # Invariants
///
/// - `raw` is a valid queue pair, kept by `owner`.
/// - The Send buffers that the device has are lent ones of `bufs`, in the order of their numbers,
///   up to `last`. They stay lent until `counters` show them as complete, or the queue pair is
///   drained.
pub(crate) struct SendQueue<O: QpOwner> {
    raw: NonNull<bindings::ib_qp>,
    owner: O,
    counters: Arc<Counters>,
    pd: Arc<Pd>,
    bufs: Ring<SendBuffer>,
    /// Buffers of another length, one for each of `bufs` that has the old one.
    new: KVec<SendBuffer>,
    /// Number of free buffers at or below which the short path ends; `usize::MAX` while `room` is
    /// short, or `new` has buffers, so that one comparison covers all.
    few: usize,
    /// Registrations that the send queue has room for.
    room: u32,
    /// Registrations that it has room for while nothing is posted.
    most_room: u32,
    /// Registrations that one message may need.
    most_mrs: u32,
    /// The number of the last Send.
    last: u32,
    /// The number of the last Send at some moment, and that moment in jiffies: whether the
    /// connection is in steady use is measured from there.
    mark: (u32, usize),
    unsignalled: u32,
    /// Sends per signalled one, and the most of them.
    signal_batch: u32,
    most_batch: u32,
    drained: bool,
}

// SAFETY: A queue pair has no thread affinity; all else is `Send`.
unsafe impl<O: QpOwner> Send for SendQueue<O> {}

impl<O: QpOwner> SendQueue<O> {
    /// The send queue of `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must be a queue pair whose send queue has at least the depth of `size`, that stays
    /// valid as long as `owner`, and whose completions count in `counters` alone. No other value
    /// for it may exist.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) unsafe fn new(
        raw: NonNull<bindings::ib_qp>,
        owner: O,
        counters: Arc<Counters>,
        pd: Arc<Pd>,
        size: &QpSize,
    ) -> Result<Self> {
        let sends = size.sends;

        // INVARIANT: By the safety requirements of this function `raw` is a valid queue pair that
        // `owner` keeps; nothing is posted yet.
        Ok(Self {
            raw,
            owner,
            counters,
            pd,
            bufs: Ring::new(sends as usize)?,
            new: KVec::new(),
            few: 0,
            room: size.chained,
            most_room: size.chained,
            most_mrs: size.most_chained,
            last: 0,
            mark: (0, jiffies()),
            unsignalled: 0,
            signal_batch: 1,
            most_batch: (sends / 8).max(1),
            drained: false,
        })
    }

    /// A buffer for the next message, unless few are free: then [`Self::take_any`] decides.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<SendBuffer> {
        if self.bufs.free() <= self.few {
            return None;
        }
        self.bufs.take()
    }

    /// A buffer for the next message. `None` while the device has all buffers or the send queue has
    /// no room for its registrations. The room is reserved for one buffer at a time.
    pub(crate) fn take_any(&mut self) -> Option<SendBuffer> {
        self.reclaim();
        if self.is_short_of_room() {
            return None;
        }
        let buf = self.bufs.take()?;
        Some(self.current(buf))
    }

    /// A buffer of the new length in place of `buf`, if that has the old one.
    fn current(&mut self, buf: SendBuffer) -> SendBuffer {
        let has_new = self.new.last().is_some_and(|new| new.len() != buf.len());

        match has_new.then(|| self.new.pop()).flatten() {
            Some(new) => new,
            None => buf,
        }
    }

    /// Exchanges the buffers that have another length for these, of one length and no fewer, each
    /// when it is free.
    pub(super) fn exchange(&mut self, mut bufs: KVec<SendBuffer>) {
        let len = bufs.last().map(SendBuffer::len);
        let is_other = |buf: &&SendBuffer| Some(buf.len()) != len;
        // Some may have this length since an exchange that this one undoes.
        let others = self.bufs.all().filter(is_other);

        bufs.truncate(others.fold(0, |count: usize, _| count.saturating_add(1)));
        self.new = bufs;
        self.set_few();
    }

    /// Returns `true` if more buffers are worth their memory, and allowed: half of them are in use
    /// together, or the connection is in steady use, and more of them would let fewer Sends be
    /// signalled.
    pub(crate) fn wants_more(&mut self) -> bool {
        let allocated = self.bufs.len();
        let is_half_used = self.bufs.free() <= allocated / 2;

        allocated < self.bufs.capacity()
            && (is_half_used || (allocated < USUAL && self.is_steady()))
    }

    fn is_steady(&mut self) -> bool {
        let ((sends, since), now) = (self.mark, jiffies());

        if now.wrapping_sub(since) > STEADY.1 {
            self.mark = (self.last, now);
            return false;
        }
        self.last.wrapping_sub(sends) >= STEADY.0
    }

    /// Returns `true` if the send queue may have no room for the registrations of another message.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.room < self.most_mrs
    }

    /// Sets the number of free buffers that are few.
    fn set_few(&mut self) {
        self.few = if self.is_short_of_room() || !self.new.is_empty() {
            usize::MAX
        } else {
            (self.bufs.len() / 8).max(1)
        };
    }

    /// Takes back the buffers of Sends that are complete.
    pub(crate) fn reclaim(&mut self) {
        let posted = self.last.wrapping_sub(self.counters.completed()) as usize;

        if self.room != self.most_room {
            self.take_room_back(posted);
        }
        self.bufs.keep_lent(posted);
        self.set_few();
    }

    /// Takes back the room of the registrations that were posted with all but the last `posted`
    /// Sends.
    #[cold]
    fn take_room_back(&mut self, posted: usize) {
        let freed = self.bufs.coming_back(posted).map(SendBuffer::mrs);

        self.room = freed.fold(self.room, u32::saturating_add);
    }

    /// Takes back a buffer that was not posted.
    #[cold]
    pub(crate) fn put(&mut self, buf: SendBuffer) {
        self.bufs.put(buf);
    }

    /// Adds a buffer that was allocated for this queue pair.
    pub(super) fn add(&mut self, buf: SendBuffer) {
        self.bufs.add(buf);
        // CAST: As many as are posted at most.
        let half = (self.bufs.len() / 2) as u32;
        self.signal_batch = half.min(self.most_batch).max(1);
        self.set_few();
    }

    /// Posts the registrations of `mrs`, then a Send of the first `len` bytes of `buf`, as one
    /// chain.
    ///
    /// The peer may use the registrations when this returns, also on failure, when part of the
    /// chain may have been sent.
    ///
    /// # Errors
    ///
    /// [`PostError`]; the connection has to end then. Registrations or a buffer of another queue
    /// pair count as [`PostError::Closed`].
    #[inline(always)]
    pub(crate) fn post(
        &mut self,
        mut mrs: Option<MrList<Mapped>>,
        mut buf: SendBuffer,
        len: u32,
    ) -> Result<Option<MrList<Registered>>, PostError> {
        // Registrations and buffers of another queue pair would be freed with that queue pair, and
        // their completions would reach its kind of handler. Each queue pair has its own domain.
        let foreign = mrs.as_ref().is_some_and(|mrs| !mrs.is_of_domain(&self.pd));
        if foreign || !buf.is_of(&self.pd) {
            return Err(PostError::Closed);
        }
        let count = mrs.as_ref().map_or(0, MrList::count);
        buf.set_mrs(count);
        if count != 0 {
            // Cannot be: `take` has checked the room.
            let left = self.room.checked_sub(count);
            self.room = left.ok_or(PostError::Device(ENOBUFS))?;
            self.set_few();
        }
        let signalled = self.signals();
        let number = self.last.wrapping_add(1);
        let send = buf.arm(len, number, signalled);
        let first = mrs.as_mut().map_or(send, |mrs| mrs.chain(send));
        self.bufs.lend(buf);
        self.last = number;
        self.counters.set_posted(number);

        let mut bad = null();
        // SAFETY: `raw` is valid by the type invariants. The chain is built of requests whose
        // memory this value or the pool keeps until they have completed.
        let ret = unsafe { bindings::ib_post_send(self.raw.as_ptr(), first, &mut bad) };
        let mrs = mrs.map(MrList::posted);
        match kernel::error::to_result(ret) {
            Ok(()) => Ok(mrs),
            Err(error) => Err(PostError::Device(error)),
        }
    }

    /// Decides for the next Send if its completion is signalled: some are, and all while buffers or
    /// room are few, so that the queue cannot run dry with nothing left to complete.
    #[inline]
    fn signals(&mut self) -> bool {
        let unsignalled = self.unsignalled.saturating_add(1);
        let signalled = unsignalled >= self.signal_batch || self.bufs.free() <= self.few;

        self.unsignalled = if signalled { 0 } else { unsignalled };
        signalled
    }

    /// Posts the requests of a transfer, if any, then a Send of the first `len` bytes of `buf`,
    /// which may invalidate a handle of the peer's, as one chain. The completion of the Send is
    /// that of the transfer, which carries its number.
    ///
    /// # Errors
    ///
    /// As [`Self::post`]. What the transfer has is freed after the drain.
    pub(crate) fn post_with(
        &mut self,
        transfer: Option<(Admitted<ToPeer>, usize)>,
        mut buf: SendBuffer,
        len: u32,
        invalidate: Option<u32>,
    ) -> Result<(), PostError> {
        let is_of = |(transfer, _): &(Admitted<ToPeer>, usize)| transfer.is_of_domain(&self.pd);
        if !transfer.as_ref().is_none_or(is_of) || !buf.is_of(&self.pd) {
            return Err(PostError::Closed);
        }
        buf.set_mrs(0);
        // The pages of a transfer come back with the completion.
        let unsignalled = self.unsignalled.saturating_add(1);
        let signalled =
            transfer.is_some() || unsignalled >= self.signal_batch || self.bufs.free() <= self.few;
        self.unsignalled = if signalled { 0 } else { unsignalled };

        let number = self.last.wrapping_add(1);
        let send = buf.arm(len, number, signalled);
        if let Some(handle) = invalidate {
            buf.set_invalidate(handle);
        }
        let first = match transfer {
            Some((transfer, context)) => transfer.leave_before(context, send, |cqe| buf.lend(cqe)),
            None => send,
        };
        self.bufs.lend(buf);
        self.last = number;
        self.counters.set_posted(number);

        let mut bad = null();
        // SAFETY: `raw` is valid by the type invariants. The chain is built of requests whose
        // memory this value or the pool of the transfer keeps until they have completed.
        let ret = unsafe { bindings::ib_post_send(self.raw.as_ptr(), first, &mut bad) };
        kernel::error::to_result(ret).map_err(PostError::Device)
    }

    /// Returns `true` if this is the send queue of `raw`.
    pub(super) fn is_of(&self, raw: NonNull<bindings::ib_qp>) -> bool {
        self.raw == raw
    }

    /// Frees all buffers, which the device no longer uses.
    pub(super) fn finish(mut self, drained: &Drained<O>) {
        self.drained = drained.is_of(self.raw);
    }
}

impl<O: QpOwner> Drop for SendQueue<O> {
    fn drop(&mut self) {
        if !self.drained {
            self.owner.drain();
        }
    }
}
