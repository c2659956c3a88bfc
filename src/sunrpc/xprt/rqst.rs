// SPDX-License-Identifier: GPL-2.0

//! One request when its reply has come.

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull, //
};

use kernel::ffi::c_int;

use super::slot::{
    Slot,
    SlotData, //
};
use crate::{
    bindings,
    proto::rpc,
    sunrpc::{
        spin::SpinGuard,
        xdr_buf::{
            pad_of,
            XdrBufMut, //
        }, //
    }, //
};

/// The last sequence number of RPCSEC_GSS of a request.
///
/// # Safety
///
/// `rqst` must be valid, and its task must not encode it during this.
#[inline(always)]
pub(super) unsafe fn gss_sequence(rqst: NonNull<bindings::rpc_rqst>) -> u32 {
    // SAFETY: By the safety requirements of this function.
    unsafe { (*rqst.as_ptr()).rq_seqnos[0] }
}

/// The data of requests that are sunrpc's own: none.
pub(super) struct NoData;

/// A request whose reply has come. While this lives its task can be neither released nor sent
/// again.
///
/// # Invariants
///
/// `rqst` is a request of a `Slots<D>`, or of sunrpc if `D` is [`NoData`], with one pin that
/// belongs to this value. The pin keeps the task, and the task keeps the transport.
pub(crate) struct Pinned<D> {
    rqst: NonNull<bindings::rpc_rqst>,
    /// Bytes that the reply has cut off the head.
    cut: usize,
    _slot: PhantomData<*const D>,
}

// SAFETY: sunrpc's functions on pinned requests may be called from any thread.
unsafe impl<D: Sync> Send for Pinned<D> {}

/// A request whose reply has come, in the section of `queue_lock` that found it until this leaves
/// the section: short work on the request needs no second one. Nothing may sleep inside.
///
/// # Invariants
///
/// `section` is one of `queue_lock` of the request's transport.
pub(crate) struct Found<'a, D> {
    // The first field is dropped first: to drop the pin takes the lock.
    section: Option<SpinGuard<'a>>,
    pinned: Pinned<D>,
}

/// A reply does not fit where its call wanted it.
#[derive(Debug)]
pub(crate) struct TooLong;

impl<'a, D> Found<'a, D> {
    /// Finds and pins the request with this transaction identifier.
    ///
    /// # Safety
    ///
    /// `xprt` must be valid during `'a`, with requests from a `Slots<D>`; of sunrpc's own if `D` is
    /// [`NoData`].
    #[inline]
    pub(super) unsafe fn lookup(xprt: NonNull<bindings::rpc_xprt>, xid: u32) -> Option<Self> {
        // SAFETY: `xprt` is valid, and with it its lock.
        let lock = unsafe { SpinGuard::take(&raw mut (*xprt.as_ptr()).queue_lock) };
        // SAFETY: The lock is held, and a request that is found under it is valid. Looking up and
        // pinning belong into one section.
        let rqst = unsafe {
            let rqst = NonNull::new(bindings::xprt_lookup_rqst(xprt.as_ptr(), xid.to_be()))?;
            bindings::xprt_pin_rqst(rqst.as_ptr());
            rqst
        };

        // INVARIANT: Pinned above, under the lock of its transport, which is still held.
        Some(Self {
            section: Some(lock),
            pinned: Pinned {
                rqst,
                cut: 0,
                _slot: PhantomData,
            },
        })
    }

    /// Leaves the section.
    #[inline]
    pub(crate) fn leave(&mut self) {
        self.section = None;
    }

    /// Leaves the section, and returns the request for later.
    #[inline]
    pub(crate) fn into_pinned(self) -> Pinned<D> {
        drop(self.section);
        self.pinned
    }

    /// Hands the reply of `len` bytes up and releases the request. Neither the device nor the
    /// peer may reach any of its memory ([`SlotData::is_reachable`]).
    ///
    /// The arguments include no proof of that. Nearly all replies are to calls without any
    /// registered memory, and only the state of the request knows that: a proof without content
    /// from the state would prove no more than the state itself, and would have to be carried along
    /// with each reply. Kernels with debug assertions check the state.
    #[inline(always)]
    pub(crate) fn complete(self, len: u32)
    where
        D: SlotData,
    {
        let slot = self.pinned.rqst.as_ptr();
        self.pinned.slot().warn_if_reachable();
        // SAFETY: By the type invariants the request is of a slot table with data of this type, and
        // pinned.
        unsafe { Slot::<D>::of(slot) }.set_completed(true);
        self.finish(len);
    }

    /// Completes the call with a reply of `len` bytes.
    #[inline(always)]
    pub(super) fn finish(self, len: u32) {
        let Self { section, pinned } = self;
        let rqst = ManuallyDrop::new(pinned).rqst;
        // CAST: Replies are shorter than the 4 MiB that any buffer has.
        let len = c_int::try_from(len).unwrap_or(0);

        // SAFETY: The pin of `pinned`, which is not dropped; a section is one of the request's
        // transport by the type invariants. Under the lock the request may be completed.
        unsafe {
            unpin(rqst, section, || {
                bindings::xprt_complete_rqst((*rqst.as_ptr()).rq_task, len)
            })
        };
    }

    /// Ends the call with an I/O error: it is not sent again (V1-110).
    ///
    /// sunrpc has no way to fail another task, and a status written into it may be overwritten by
    /// its own transmit path (H-20). But its decoder cannot overlook an RPC reply with an error:
    /// this makes one.
    pub(crate) fn fail(mut self)
    where
        D: SlotData,
    {
        let len = self.write_error();
        self.complete(len);
    }

    /// Writes an RPC reply with an error to the buffer. Returns its length, or 0 without room for
    /// it.
    pub(super) fn write_error(&mut self) -> u32 {
        // SAFETY: Valid while pinned; neither field changes during that time.
        let (xid, task) = unsafe {
            let rqst = self.rqst.as_ptr();
            (u32::from_be((*rqst).rq_xid), (*rqst).rq_task)
        };
        let words = rpc::system_error(xid).map(u32::to_be_bytes);
        // SAFETY: By the type invariants the request has a task. The bits share a byte with others,
        // all of which are written only by the task itself, when it encodes or decodes its call; it
        // does neither while its request is in the receive queue, and pinned.
        unsafe { bindings::rpc_task::set_tk_garb_retry_raw(task, 0) };
        match self.fill(words.as_flattened(), None) {
            Ok((len, _)) => len,
            Err(TooLong) => 0,
        }
    }
}

impl<D> From<Pinned<D>> for Found<'_, D> {
    #[inline]
    fn from(pinned: Pinned<D>) -> Self {
        // INVARIANT: No section.
        Self {
            section: None,
            pinned,
        }
    }
}

impl<D> Deref for Found<'_, D> {
    type Target = Pinned<D>;

    #[inline]
    fn deref(&self) -> &Pinned<D> {
        &self.pinned
    }
}

impl<D> DerefMut for Found<'_, D> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Pinned<D> {
        &mut self.pinned
    }
}

impl<D: SlotData> Pinned<D> {
    /// The transport's data of this request.
    #[inline]
    pub(crate) fn slot(&self) -> &D {
        // SAFETY: By the type invariants the request is of a slot table with data of this type, and
        // kept in use.
        &unsafe { Slot::of(self.rqst.as_ptr()) }.data
    }
}

impl<D> Pinned<D> {
    /// The [sequence number](super::Call::gss_sequence) of the call now. Its task may have encoded
    /// it again since it was sent.
    #[inline(always)]
    pub(crate) fn gss_sequence(&self) -> u32 {
        // SAFETY: Pinned, so that its task neither releases nor encodes it.
        unsafe { gss_sequence(self.rqst) }
    }

    /// The buffer of the reply.
    #[inline]
    fn receive_buf(&mut self) -> XdrBufMut<'_> {
        // SAFETY: Pinned, so that only the holder of this value uses the buffers of the request.
        unsafe { XdrBufMut::new(&(*self.rqst.as_ptr()).rq_rcv_buf) }
    }

    /// Copies the inline part of a reply to where the upper layer will decode it. `placed` bytes
    /// of page data have come by RDMA already; the bytes that follow them in the message come
    /// after them in the buffer. Returns the length of the whole reply and how many bytes were
    /// copied into pages.
    ///
    /// # Errors
    ///
    /// [`TooLong`] when the reply does not fit. The buffer's content is undefined then.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        payload: &[u8],
        placed: Option<u32>,
    ) -> Result<(u32, u32), TooLong> {
        let mut buf = self.receive_buf();

        // Most replies are small.
        if payload.len() > buf.head_room() {
            return self.fill_parts(payload, placed);
        }
        buf.write_head(payload);
        // CAST: The head is shorter than 4 GiB.
        let len = payload.len() as u32;
        let Some(placed) = placed else {
            return Ok((len, 0));
        };
        let total = len
            .checked_add(placed)
            .and_then(|sum| sum.checked_add(pad_of(placed)));
        let total = total
            .filter(|&total| total <= buf.capacity())
            .ok_or(TooLong)?;
        self.cut_head(payload.len());
        Ok((total, 0))
    }

    /// The data of the pages stands right behind the head as far as the decoder is concerned: a
    /// head that has only `len` bytes is cut rather than the data moved (H-22).
    #[inline]
    fn cut_head(&mut self, len: usize) {
        let room = self.receive_buf().head_room();

        if len < room {
            self.cut = room.wrapping_sub(len);
            self.resize_head(self.cut.wrapping_neg());
        }
    }

    /// [`Self::fill`] for replies that fill more than the head.
    fn fill_parts(&mut self, payload: &[u8], placed: Option<u32>) -> Result<(u32, u32), TooLong> {
        let mut buf = self.receive_buf();
        let len = u32::try_from(payload.len()).map_err(|_| TooLong)?;
        let skip = placed
            .unwrap_or(0)
            .checked_add(pad_of(placed.unwrap_or(0)))
            .ok_or(TooLong)?;
        let total = len.checked_add(skip).ok_or(TooLong)?;
        if total > buf.capacity() {
            return Err(TooLong);
        }

        let inline = buf.write_head(payload);
        if placed.is_some() {
            self.cut_head(inline);
        }
        let mut buf = self.receive_buf();
        let rest = payload.get(inline..).unwrap_or(&[]);
        let copied = buf.write_pages(skip, rest);
        let rest = rest.get(copied..).unwrap_or(&[]);
        // CAST: Widening.
        let at = skip.saturating_sub(buf.page_len()) as usize;
        if buf.write_tail(at, rest) != rest.len() {
            return Err(TooLong);
        }
        Ok((total, u32::try_from(copied).unwrap_or(u32::MAX)))
    }

    /// Brings a reply of `len` bytes to where the upper layer will decode it. The peer has written
    /// its first bytes to `head` and the bytes behind the pages to `tail`.
    pub(crate) fn place(&mut self, head: &[u8], tail: &[u8], len: u32) {
        let mut buf = self.receive_buf();
        // CAST: Widening.
        let (len, pages) = (len as usize, buf.page_len() as usize);
        let behind = len.saturating_sub(head.len()).saturating_sub(pages);

        buf.write_head(head.get(..len).unwrap_or(head));
        buf.write_tail(0, tail.get(..behind).unwrap_or(tail));
    }

    /// Bytes of the call and of the longest reply that it has room for: no more of its memory can
    /// be the device's.
    #[inline]
    pub(crate) fn bytes(&mut self) -> u32 {
        // SAFETY: A pinned request is valid, and no task changes its buffers. No sum wraps around:
        // a length is far below 4 GiB.
        let sent = unsafe { (*self.rqst.as_ptr()).rq_snd_buf.len };
        self.receive_buf().capacity().wrapping_add(sent)
    }

    /// Bytes that the head of the receive buffer has room for.
    #[inline]
    pub(crate) fn head_room(&mut self) -> usize {
        self.receive_buf().head_room()
    }

    /// Makes the head of the receive buffer longer by `by` bytes, modulo 2^64. The request has two
    /// copies of the buffer, which have to agree.
    fn resize_head(&mut self, by: usize) {
        let rqst = self.rqst.as_ptr();
        // SAFETY: Pinned, so that only the holder of this value uses the buffers of the request.
        let bufs = unsafe { [&mut (*rqst).rq_rcv_buf, &mut (*rqst).rq_private_buf] };

        for buf in bufs {
            let [head] = &mut buf.head;
            head.iov_len = head.iov_len.wrapping_add(by);
            // CAST: Modulo 2^32, as the sum.
            buf.buflen = buf.buflen.wrapping_add(by as u32);
        }
    }
}

/// Runs `last`, then unpins under `queue_lock`: `xprt_request_dequeue_xprt()` checks for pins under
/// it and would miss the wake-up. Takes the lock, unless in a `section` of it.
///
/// # Safety
///
/// The caller owns the pin, and does not use the request again. A `section` is one of the request's
/// transport.
#[inline(always)]
unsafe fn unpin(
    rqst: NonNull<bindings::rpc_rqst>,
    section: Option<SpinGuard<'_>>,
    last: impl FnOnce(),
) {
    let _section = match section {
        Some(section) => section,
        // SAFETY: A pinned request is valid, and its transport outlives its tasks.
        None => unsafe { SpinGuard::take(&raw mut (*(*rqst.as_ptr()).rq_xprt).queue_lock) },
    };

    last();
    // SAFETY: By the safety requirements of this function the pin is the caller's; the lock is
    // held.
    unsafe { bindings::xprt_unpin_rqst(rqst.as_ptr()) };
}

impl<D> Drop for Pinned<D> {
    fn drop(&mut self) {
        if self.cut != 0 {
            // The next reply to the call finds the buffer as its upper layer has made it.
            self.resize_head(self.cut);
        }
        // SAFETY: The pin of this value. The request is not completed: it will be sent again on the
        // next connection.
        unsafe { unpin(self.rqst, None, || ()) };
    }
}
