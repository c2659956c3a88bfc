// SPDX-License-Identifier: GPL-2.0

//! One request on its way out.

use core::{
    marker::PhantomData,
    ptr::NonNull,
    slice, //
};

use kernel::{
    alloc::Flags,
    container_of,
    prelude::*,
    sync::Arc, //
};

use super::{
    rqst::gss_sequence,
    slot::{
        Slot,
        SlotData, //
    }, //
};
use crate::{
    bindings,
    os::HeldPages,
    sunrpc::{
        spin::SpinGuard,
        xdr_buf::{
            XdrBuf,
            XdrBufMut, //
        }, //
    }, //
};

/// A call that sunrpc wants sent.
///
/// Other processors may change parts of the request, so nothing refers to it as a whole.
///
/// # Invariants
///
/// `rqst` is a request of a `Slots<D>`, and stays so during `'a`: sunrpc has pinned it and holds
/// the transport's write lock.
pub(crate) struct Call<'a, D> {
    rqst: NonNull<bindings::rpc_rqst>,
    _slot: PhantomData<&'a D>,
}

impl<'a, D> Call<'a, D> {
    /// Views `rqst`.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    #[inline]
    pub(super) unsafe fn new(rqst: NonNull<bindings::rpc_rqst>) -> Self {
        // SAFETY: By the safety requirements of this function the request is one of a `Slots<D>`.
        unsafe { Slot::<D>::of(rqst.as_ptr()) }.set_completed(false);
        // INVARIANT: The safety requirements of this function are the invariants.
        Self {
            rqst,
            _slot: PhantomData,
        }
    }

    /// The transport's data of this request.
    #[inline]
    pub(crate) fn slot(&self) -> &'a D {
        // SAFETY: By the type invariants the request is of a slot table with data of this type, and
        // kept in use.
        &unsafe { Slot::of(self.rqst.as_ptr()) }.data
    }

    /// The transaction identifier, in host byte order.
    #[inline]
    pub(crate) fn xid(&self) -> u32 {
        // SAFETY: Set when the task got the request, and not changed until it releases it.
        u32::from_be(unsafe { (*self.rqst.as_ptr()).rq_xid })
    }

    /// The sequence number that RPCSEC_GSS gave the call when it was encoded last (RFC 2203,
    /// section 5.3.3.1). With other flavours it means nothing, and does not change while the call
    /// waits for its reply.
    #[inline]
    pub(crate) fn gss_sequence(&self) -> u32 {
        // SAFETY: Set at encoding, and not changed while the call is sent.
        unsafe { gss_sequence(self.rqst) }
    }

    /// The encoded call.
    #[inline]
    pub(crate) fn send_buf(&self) -> XdrBuf<'a> {
        // SAFETY: The call is encoded and does not change until its reply has come.
        unsafe { XdrBuf::new(&(*self.rqst.as_ptr()).rq_snd_buf) }
    }

    /// The buffer for its reply.
    #[inline]
    pub(crate) fn receive_buf(&self) -> XdrBuf<'a> {
        // SAFETY: Set up at encoding, and not changed until the reply comes.
        unsafe { XdrBuf::new(&(*self.rqst.as_ptr()).rq_rcv_buf) }
    }

    /// Returns `true` if the security flavour covers the message's content, so that no part of it
    /// may be moved by itself.
    #[inline]
    pub(crate) fn is_opaque(&self) -> bool {
        // SAFETY: A request that is being sent has a credential.
        unsafe { bindings::rqst_data_touch(self.rqst.as_ptr()) }
    }

    /// Takes references to the pages with the encrypted message, which sunrpc frees when it encodes
    /// the call again. `None` without such pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn hold_encrypted(&self, flags: Flags) -> Result<Option<Arc<HeldPages>>> {
        // SAFETY: Set at encoding, and not changed while the call is sent.
        let (free, pages, count) = unsafe {
            let rqst = self.rqst.as_ptr();
            (
                (*rqst).rq_release_snd_buf,
                (*rqst).rq_enc_pages,
                (*rqst).rq_enc_pages_num,
            )
        };
        let count = usize::try_from(count)?;
        if free.is_none() || count == 0 {
            return Ok(None);
        }
        // SAFETY: While a function is set that frees them, the array has that many pages, each from
        // `alloc_page`.
        unsafe { HeldPages::new(slice::from_raw_parts(pages, count), flags) }.map(Some)
    }

    /// Returns `true` if this call has been sent on the connection with this cookie already.
    #[inline]
    pub(crate) fn was_sent_on(&self, cookie: u32) -> bool {
        // SAFETY: Only the holder of the write lock touches the field.
        unsafe { (*self.rqst.as_ptr()).rq_connect_cookie == cookie }
    }

    /// Takes a credit for the call, or keeps the credit that it has.
    #[inline]
    pub(crate) fn take_credit(&self) -> bool {
        // SAFETY: By the type invariants the request, and with it its transport, is valid; sunrpc
        // takes `transport_lock` itself.
        unsafe {
            let rqst = self.rqst.as_ptr();
            bindings::xprt_request_get_cong((*rqst).rq_xprt, rqst)
        }
    }

    /// Gives the credit of the call back, since the call cannot be sent. If it `must_wait`, sunrpc
    /// sends no call until [`super::Xprt::wake_sender`], or until another call gives a credit back;
    /// `must_wait` is evaluated under the lock that both take. Replies to reverse calls are still
    /// sent.
    ///
    /// sunrpc sends requests that have credits first, which is how a reply to a reverse call comes
    /// before the calls. Requests queued while this call had a credit stand behind it, where none
    /// of them would be sent: the call is moved behind them.
    #[cold]
    pub(crate) fn give_credit_back(&self, must_wait: impl FnOnce() -> bool) {
        let rqst = self.rqst.as_ptr();
        // SAFETY: By the type invariants the request is valid, and with it its transport, whose
        // locks stay as long. sunrpc takes the two in this order, too.
        let (xprt, _queue, _credits) = unsafe {
            let xprt = (*rqst).rq_xprt;
            (
                xprt,
                SpinGuard::take(&raw mut (*xprt).queue_lock),
                SpinGuard::take(&raw mut (*xprt).transport_lock),
            )
        };

        // SAFETY: A request that is being sent has its task, and both locks are held. sunrpc keeps
        // a pinned request on its transmit queue. Nothing is woken: by the type invariants the
        // write lock is held.
        unsafe {
            bindings::xprt_release_rqst_cong((*rqst).rq_task);
            if put_behind_credits(xprt, rqst) || !must_wait() {
                bindings::xprt_clear_cwnd_wait(xprt);
            } else {
                bindings::xprt_set_cwnd_wait(xprt);
            }
        }
    }

    /// Gives the credit of the call back, since the call cannot be sent for want of memory, and
    /// puts it at the end of sunrpc's transmit queue: requests that need no memory are sent first.
    #[cold]
    pub(crate) fn go_to_the_end(&self) {
        let rqst = self.rqst.as_ptr();
        // SAFETY: As in `give_credit_back`.
        let (xprt, _queue, _credits) = unsafe {
            let xprt = (*rqst).rq_xprt;
            (
                xprt,
                SpinGuard::take(&raw mut (*xprt).queue_lock),
                SpinGuard::take(&raw mut (*xprt).transport_lock),
            )
        };

        // SAFETY: A request that is being sent has its task, and both locks are held. sunrpc keeps
        // a pinned request on its transmit queue, and looks for the first request again after each.
        // Nothing is woken: by the type invariants the write lock is held.
        unsafe {
            bindings::xprt_release_rqst_cong((*rqst).rq_task);
            bindings::list_move_before(&raw mut (*rqst).rq_xmit, &raw mut (*xprt).xmit_queue);
            bindings::xprt_clear_cwnd_wait(xprt);
        }
    }

    /// Wipes the place of the reply's first words, which mark it as a reply: a server that claims
    /// to have written a reply there and has not must not get an earlier one decoded (H-23).
    /// Posting the call consumes it, so that this comes before. Neither the device nor the peer may
    /// reach any memory of the call: kernels with debug assertions check its state.
    pub(crate) fn forget_old_reply(&self)
    where
        D: SlotData,
    {
        const FIRST_WORDS: [u8; 8] = [0; 8];
        self.slot().warn_if_reachable();
        // SAFETY: Set up at encoding, and until the call is posted nothing else touches its memory:
        // it cannot be reached.
        let mut buf = unsafe { XdrBufMut::new(&(*self.rqst.as_ptr()).rq_rcv_buf) };

        if buf.head_room() >= FIRST_WORDS.len() {
            buf.write_head(&FIRST_WORDS);
        }
    }

    /// Notes the moment before sending, where sunrpc's round trip time begins. Posting begins: the
    /// buffers of the call are the device's and its reply's from here on.
    #[inline]
    pub(crate) fn stamp(self) -> PostedCall<'a, D> {
        // SAFETY: Only the holder of the write lock touches the field before the reply comes.
        unsafe { (*self.rqst.as_ptr()).rq_xtime = bindings::time_now() };
        PostedCall(self)
    }
}

/// Puts `rqst`, which has no credit, behind the requests with credits that follow it in the queue
/// of requests to be sent. Returns `true` if the first request of the queue has a credit.
///
/// # Safety
///
/// `xprt` must be valid, its `queue_lock` and `transport_lock` be held, and `rqst` be on the queue
/// itself, not on the list of another request.
unsafe fn put_behind_credits(xprt: *mut bindings::rpc_xprt, rqst: *mut bindings::rpc_rqst) -> bool {
    // SAFETY: By the safety requirements of this function the queue, and with it each request on
    // it, is valid and does not change during this call.
    unsafe {
        let (queue, entry) = (&raw mut (*xprt).xmit_queue, &raw mut (*rqst).rq_xmit);
        let has_credit = |at: *mut bindings::list_head| {
            at != queue && (*container_of!(at, bindings::rpc_rqst, rq_xmit)).rq_cong != 0
        };
        let mut next = (*entry).next;
        while has_credit(next) {
            next = (*next).next;
        }
        bindings::list_move_before(entry, next);
        has_credit((*queue).next)
    }
}

/// A call that is being posted, or was: the sender can no longer change its buffers.
pub(crate) struct PostedCall<'a, D>(Call<'a, D>);

impl<D> PostedCall<'_, D> {
    /// Adds the message to the request's statistics.
    #[inline]
    pub(crate) fn count_sent(self) {
        let rqst = self.0.rqst.as_ptr();
        // SAFETY: The call does not change until its reply has come, and only the holder of the
        // write lock touches the count.
        let (len, sent) = unsafe { ((*rqst).rq_snd_buf.len, &mut (*rqst).rq_xmit_bytes_sent) };
        // CAST: Widening.
        *sent = sent.wrapping_add(len as usize);
    }
}
