// SPDX-License-Identifier: GPL-2.0

//! Calls in the backward direction: from the wire to the callback service, and its replies back.

use core::{
    cell::Cell,
    mem::offset_of,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SpinLock, //
    },
    types::Opaque, //
};

use super::{
    Transport,
    XdrBuf,
    Xprt, //
};
use crate::{
    bindings,
    os::transport_queue, //
};

/// One call in progress.
///
/// # Invariants
///
/// While on the free list nobody else refers to it; while not, it is in the hands of sunrpc, which
/// gives it back through `bc_free_rqst` once.
#[repr(C)]
struct Entry {
    rqst: Opaque<bindings::rpc_rqst>,
    call: KVec<u8>,
    reply: KVec<u8>,
    generation: Cell<u64>,
    xprt: Cell<*mut bindings::rpc_xprt>,
    home: NonNull<Backchannel>,
}

// SAFETY: An entry has one owner at a time.
unsafe impl Send for Entry {}

impl Entry {
    /// The entry that `rqst` is part of.
    ///
    /// # Safety
    ///
    /// `rqst` must be the request of an entry that lives during `'a`.
    unsafe fn of<'a>(rqst: NonNull<bindings::rpc_rqst>) -> &'a Self {
        const { assert!(offset_of!(Entry, rqst) == 0) };
        // SAFETY: The request is the first field of its entry.
        unsafe { rqst.cast::<Self>().as_ref() }
    }
}

/// Why a backward call was not delivered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DeliverError {
    /// The upper layer has not set up a callback service.
    NotSetUp,
    /// The peer sends more calls at once than it was granted.
    NoSlot,
    /// The call is longer than any slot.
    TooLong,
}

struct Pool {
    free: KVec<KBox<Entry>>,
    made: bool,
}

/// The slots for backward calls of one transport. It does not move, since it can only be made in
/// place. Calls are copied in, so that Receives are never held up by a slow callback service.
#[pin_data]
pub(crate) struct Backchannel {
    #[pin]
    pool: SpinLock<Pool>,
    /// The task that is delivering a call right now, 0 for none.
    delivering: Atomic<usize>,
}

impl Backchannel {
    /// Without any slots.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            pool <- new_spinlock!(
                Pool {
                    free: KVec::new(),
                    made: false,
                },
                "rpcrdma_rs::Backchannel"
            ),
            delivering: Atomic::new(0),
        })
    }

    /// Makes `slots` slots for messages of up to `len` octets, unless there are some already.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn set_up(&self, slots: u32, len: u32) -> Result {
        if self.pool.lock().made {
            return Ok(());
        }
        let mut entries = KVec::with_capacity(slots as usize, GFP_KERNEL)?;

        for _ in 0..slots {
            entries.push_within_capacity(KBox::new(
                Entry {
                    rqst: Opaque::zeroed(),
                    call: KVec::from_elem(0, len as usize, GFP_KERNEL)?,
                    reply: KVec::from_elem(0, len as usize, GFP_KERNEL)?,
                    generation: Cell::new(0),
                    xprt: Cell::new(null_mut()),
                    home: NonNull::from(self),
                },
                GFP_KERNEL,
            )?)?;
        }
        let mut pool = self.pool.lock();
        if !pool.made {
            // Swapped, so that the empty list is freed after the lock is released.
            core::mem::swap(&mut pool.free, &mut entries);
            pool.made = true;
        }
        drop(pool);
        Ok(())
    }

    /// Hands the backward call `payload`, received on the connection with number `generation`, to
    /// the callback service.
    ///
    /// # Errors
    ///
    /// [`DeliverError`].
    pub(crate) fn deliver<T: Transport>(
        &self,
        xprt: &Xprt<T>,
        xid: u32,
        payload: &[u8],
        generation: u64,
    ) -> Result<(), DeliverError> {
        let raw = xprt.as_ptr();

        // A hint: the service may go at any time, which `xprt_enqueue_bc_request` copes with
        // (H-70). SAFETY: The object is valid; the word is only compared with null.
        if unsafe { (&raw const (*raw).bc_serv).read_volatile() }.is_null() {
            return Err(DeliverError::NotSetUp);
        }
        let mut entry = self.pool.lock().free.pop().ok_or(DeliverError::NoSlot)?;
        let Some(call) = entry.call.get_mut(..payload.len()) else {
            let _ = self.pool.lock().free.push_within_capacity(entry);
            return Err(DeliverError::TooLong);
        };
        call.copy_from_slice(payload);
        entry.generation.set(generation);
        entry.xprt.set(raw);

        let (call, reply) = (entry.call.as_mut_ptr(), entry.reply.as_mut_ptr());
        let (reply_len, len) = (entry.reply.len(), payload.len());
        let entry = NonNull::from(KBox::leak(entry)).cast::<bindings::rpc_rqst>();
        // SAFETY: The entry was ours alone until now, and its request is zeroed memory of the right
        // type.
        let rqst = unsafe { &mut *entry.as_ptr() };

        *rqst = pin_init::zeroed();
        rqst.rq_xprt = raw;
        rqst.rq_xid = xid.to_be();
        rqst.rq_bc_pa_state = 1 << bindings::RPC_BC_PA_IN_USE;
        // CAST: Both are at most a page.
        let (len32, reply_len32) = (len as u32, reply_len as u32);
        rqst.rq_private_buf.len = len32;
        rqst.rq_rcv_buf.head[0].iov_base = call.cast();
        rqst.rq_rcv_buf.head[0].iov_len = len;
        rqst.rq_rcv_buf.len = len32;
        rqst.rq_rcv_buf.buflen = len32;
        rqst.rq_snd_buf.head[0].iov_base = reply.cast();
        rqst.rq_snd_buf.head[0].iov_len = reply_len;
        rqst.rq_snd_buf.buflen = reply_len32;
        self.delivering.store(current_task(), Relaxed);
        // SAFETY: The request is complete. sunrpc takes a reference to the transport and gives the
        // request back once.
        unsafe { bindings::xprt_enqueue_bc_request(rqst) };
        self.delivering.store(0, Relaxed);
        Ok(())
    }

    /// Takes a finished request back.
    ///
    /// # Safety
    ///
    /// As `bc_free_rqst` of `struct rpc_xprt_ops`.
    pub(super) unsafe fn free(rqst: NonNull<bindings::rpc_rqst>) {
        // SAFETY: Requests with this operation are those of entries made by `set_up` and leaked by
        // `deliver`.
        let entry = unsafe { KBox::from_raw(rqst.cast::<Entry>().as_ptr()) };
        // SAFETY: The slots are part of the transport, which the request's reference keeps.
        let home = unsafe { entry.home.as_ref() };
        let xprt = XprtRef(entry.xprt.get());
        let inside = home.delivering.load(Relaxed) == current_task();

        // There is room: the list was made for all of them.
        let _ = home.pool.lock().free.push_within_capacity(entry);
        if inside {
            // The service is gone, and sunrpc gives the request back while it is being delivered,
            // in a completion. The last reference must not be dropped there: that would wait for a
            // close that waits for the completion (H-71).
            let _ = transport_queue().try_spawn(GFP_ATOMIC, move || drop(xprt));
        }
    }
}

/// The reference to a transport object that sunrpc takes for a request.
///
/// # Invariants
///
/// Owns one reference.
struct XprtRef(*mut bindings::rpc_xprt);

// SAFETY: References may be dropped in any thread.
unsafe impl Send for XprtRef {}

impl Drop for XprtRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::xprt_put(self.0) };
    }
}

/// The address of the running task, to compare.
fn current_task() -> usize {
    kernel::current!().as_ptr().addr()
}

/// A reply to a backward call, to be sent.
///
/// # Invariants
///
/// `rqst` is the request of an entry, in the hands of sunrpc, during `'a`.
pub(crate) struct BackwardReply<'a> {
    rqst: &'a bindings::rpc_rqst,
    entry: &'a Entry,
}

impl<'a> BackwardReply<'a> {
    /// Views `rqst`.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    pub(super) unsafe fn new(rqst: NonNull<bindings::rpc_rqst>) -> Self {
        // SAFETY: Promised by the caller.
        let (entry, rqst) = unsafe { (Entry::of(rqst), rqst.as_ref()) };
        // INVARIANT: As above.
        Self { rqst, entry }
    }

    /// The transaction identifier, in host byte order.
    pub(crate) fn xid(&self) -> u32 {
        u32::from_be(self.rqst.rq_xid)
    }

    /// The number of the connection that the call came on.
    pub(crate) fn generation(&self) -> u64 {
        self.entry.generation.get()
    }

    /// The encoded reply.
    pub(crate) fn send_buf(&self) -> XdrBuf<'_> {
        // SAFETY: The reply is encoded and does not change while it is sent.
        unsafe { XdrBuf::new(&self.rqst.rq_snd_buf) }
    }
}
