// SPDX-License-Identifier: GPL-2.0

//! Calls in the reverse direction: from the wire to the callback service, and its replies back.
//!
//! C header: [`include/linux/sunrpc/bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h)
//! C source: [`net/sunrpc/backchannel_rqst.c`](srctree/net/sunrpc/backchannel_rqst.c)

mod usage;

use core::{
    cell::Cell,
    mem::offset_of,
    ptr::NonNull, //
};

use kernel::{
    impl_has_work,
    new_spinlock,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SpinLock, //
    },
    types::{
        ForeignOwnable,
        Opaque, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use crate::{
    bindings,
    os::{
        series::zeroes,
        transport_queue,
        PAGE_SIZE, //
    },
    sunrpc::XdrBuf, //
};

use usage::Usage;

/// Bytes of the longest message, in either direction. Not less than a page: sunrpc encodes the
/// reply as if its buffer were one (`svcxdr_init_encode()`).
// CAST: Widening.
const LEN: usize = PAGE_SIZE as usize;

/// These bytes, for sunrpc.
fn kvec(bytes: &mut [u8]) -> bindings::kvec {
    bindings::kvec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

/// A request as the callback service expects it, with a call and the place for its reply, which are
/// both at most a page.
fn request(call: bindings::kvec, reply: bindings::kvec) -> bindings::rpc_rqst {
    // CAST: Both are at most a page.
    let (call_len, reply_len) = (call.iov_len as u32, reply.iov_len as u32);
    let mut rqst: bindings::rpc_rqst = pin_init::zeroed();

    // sunrpc then sends the reply before all calls that wait for a credit, and without waiting for
    // one itself: the server may need it to serve the calls that hold all credits (H-74).
    rqst.rq_cong = 1;
    rqst.rq_bc_pa_state = 1 << bindings::RPC_BC_PA_IN_USE;
    rqst.rq_private_buf.len = call_len;
    rqst.rq_rcv_buf.head[0] = call;
    rqst.rq_rcv_buf.len = call_len;
    rqst.rq_rcv_buf.buflen = call_len;
    rqst.rq_snd_buf.head[0] = reply;
    rqst.rq_snd_buf.buflen = reply_len;
    rqst
}

/// One call in progress.
///
/// # Invariants
///
/// While on the free list nothing else refers to it; while not, sunrpc has it, and gives it back
/// through `bc_free_rqst` once. Then it has two references to the transport object of `home`: one
/// taken by [`Backchannel::deliver`], and one that sunrpc took, which is certain because of the
/// first. `home` is part of the memory behind that object, and stays as long as the object has a
/// reference.
#[repr(C)]
#[pin_data]
struct Entry {
    rqst: Opaque<bindings::rpc_rqst>,
    /// Takes the entry back, when that has to wait.
    #[pin]
    work: Work<Self>,
    call: KVec<u8>,
    reply: KVec<u8>,
    generation: Cell<u64>,
    home: NonNull<Backchannel>,
}

// SAFETY: An entry has one owner at a time.
unsafe impl Send for Entry {}

impl_has_work! {
    impl HasWork<Self> for Entry { self.work }
}

impl WorkItem for Entry {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Self::Pointer) {
        Entry::finish(this);
    }
}

impl Entry {
    /// An entry of `home`.
    fn new(home: &Backchannel) -> Result<Pin<KBox<Self>>> {
        let call = zeroes(LEN, GFP_KERNEL)?;
        let reply = zeroes(LEN, GFP_KERNEL)?;

        // INVARIANT: On its way to the free list. A `Backchannel` is pinned, and by the safety
        // requirements of `Backchannel::new` part of the memory behind the object.
        KBox::pin_init(
            pin_init!(Self {
                rqst: Opaque::zeroed(),
                work <- new_work!("rpcrdma_rs::Entry"),
                call,
                reply,
                generation: Cell::new(0),
                home: home.into(),
            }),
            GFP_KERNEL,
        )
    }

    /// Puts an entry that sunrpc is done with on the free list, and drops both references to the
    /// transport object that belong to it: from `deliver` and from sunrpc.
    fn finish(this: Pin<KBox<Self>>) {
        // SAFETY: By the type invariants the entry has references to the object, so that `home`
        // stays until they are dropped below.
        let home = unsafe { this.home.as_ref() };
        let xprt = home.xprt.as_ptr();

        home.put(this);
        // SAFETY: By the type invariants both references belonged to the entry.
        unsafe {
            bindings::xprt_put(xprt);
            bindings::xprt_put(xprt);
        }
    }

    /// The entry that `rqst` is part of.
    ///
    /// # Safety
    ///
    /// `rqst` must be the request of an entry that lives during `'a`.
    unsafe fn of<'a>(rqst: NonNull<bindings::rpc_rqst>) -> &'a Self {
        const { assert!(offset_of!(Entry, rqst) == 0) };
        // SAFETY: By the safety requirements of this function it is the first field of an entry
        // that lives during `'a`.
        unsafe { rqst.cast::<Self>().as_ref() }
    }
}

/// The reason why a reverse call was not delivered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DeliverError {
    /// The upper layer has not set up a callback service.
    NotSetUp,
    /// The peer sends more concurrent calls than it was granted.
    NoSlot,
    /// Calls of earlier connections are in the slots still.
    Busy,
    /// The call is longer than any slot.
    TooLong,
}

struct Pool {
    free: KVec<Pin<KBox<Entry>>>,
    /// The number of slots; 0 before they are made.
    slots: usize,
    usage: Usage,
}

impl Pool {
    /// Takes an entry for a call of the connection with number `generation`.
    ///
    /// # Errors
    ///
    /// [`DeliverError::NoSlot`] if that connection has them all; [`DeliverError::Busy`].
    fn take(&mut self, generation: u64) -> Result<Pin<KBox<Entry>>, DeliverError> {
        let Some(entry) = self.free.pop() else {
            return Err(if self.usage.is_all(generation, self.slots) {
                DeliverError::NoSlot
            } else {
                DeliverError::Busy
            });
        };
        entry.generation.set(generation);
        self.usage.taken(generation);
        Ok(entry)
    }
}

/// The slots for reverse calls of one transport, part of the memory behind its object
/// ([`super::Xprt::backchannel`]). Calls are copied in, so that Receives are never held up by a
/// slow callback service.
///
/// # Invariants
///
/// The object at `xprt` stays as long as this.
#[pin_data]
pub(crate) struct Backchannel {
    xprt: NonNull<bindings::rpc_xprt>,
    #[pin]
    pool: SpinLock<Pool>,
    /// The task that is delivering a call right now, 0 for none.
    delivering: Atomic<usize>,
}

// SAFETY: sunrpc's functions on `xprt` may be called from any thread, and so may the methods of the
// other fields.
unsafe impl Send for Backchannel {}
// SAFETY: The functions of sunrpc that are called with `xprt` do their own locking.
unsafe impl Sync for Backchannel {}

impl Backchannel {
    /// The reverse direction of the object at `xprt`, without slots yet.
    ///
    /// # Safety
    ///
    /// The object must stay as long as the value, and the value as long as the object has a
    /// reference (`xprt_get()`).
    pub(super) unsafe fn new(xprt: NonNull<bindings::rpc_xprt>) -> impl PinInit<Self> {
        // INVARIANT: By the safety requirements of this function the object stays.
        pin_init!(Self {
            xprt,
            pool <- new_spinlock!(
                Pool {
                    free: KVec::new(),
                    slots: 0,
                    usage: Usage::new(),
                },
                "rpcrdma_rs::Backchannel"
            ),
            delivering: Atomic::new(0),
        })
    }

    /// Returns `true` once slots are made.
    pub(crate) fn is_set_up(&self) -> bool {
        self.pool.lock().slots != 0
    }

    /// Makes `slots` slots for messages of up to a page, unless some exist already.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn set_up(&self, slots: u32) -> Result {
        if self.is_set_up() {
            return Ok(());
        }
        // CAST: Widening.
        let mut entries = KVec::with_capacity(slots as usize, GFP_KERNEL)?;

        for _ in 0..slots {
            entries.push_within_capacity(Entry::new(self)?)?;
        }
        let mut pool = self.pool.lock();
        if pool.slots == 0 {
            pool.slots = entries.len();
            // Swapped, so that the empty list is freed after the lock is released.
            core::mem::swap(&mut pool.free, &mut entries);
        }
        drop(pool);
        Ok(())
    }

    /// Hands the reverse call `payload`, received on the connection with number `generation`, to
    /// the callback service.
    ///
    /// # Errors
    ///
    /// [`DeliverError`].
    pub(crate) fn deliver(
        &self,
        xid: u32,
        payload: &[u8],
        generation: u64,
    ) -> Result<(), DeliverError> {
        let raw = self.xprt.as_ptr();

        // A hint: the service may end at any time, which `xprt_enqueue_bc_request` handles (H-70).
        // SAFETY: By the type invariants the object is valid; the word is only compared with null.
        if unsafe { (&raw const (*raw).bc_serv).read_volatile() }.is_null() {
            return Err(DeliverError::NotSetUp);
        }
        let mut entry = self.pool.lock().take(generation)?;
        let fields = entry.as_mut().project();
        let Some(place) = fields.call.get_mut(..payload.len()) else {
            self.put(entry);
            return Err(DeliverError::TooLong);
        };
        place.copy_from_slice(payload);
        let (call, reply) = (kvec(place), kvec(fields.reply));
        // sunrpc takes a reference for the request without checking that it gets one. After the
        // last is dropped, which the transport may learn of later, it does not.
        // SAFETY: By the type invariants the object is valid.
        if unsafe { bindings::xprt_get(raw) }.is_null() {
            self.put(entry);
            return Err(DeliverError::NotSetUp);
        }

        let rqst = entry.into_foreign().cast::<bindings::rpc_rqst>();
        // SAFETY: The request is the first field of its entry, which is still ours alone.
        let rqst = unsafe { &mut *rqst };
        *rqst = request(call, reply);
        rqst.rq_xprt = raw;
        rqst.rq_xid = xid.to_be();
        // SAFETY: The request is complete, of an entry that was taken out above, and has the
        // reference.
        unsafe { self.enqueue(rqst) };
        Ok(())
    }

    /// Passes `rqst` to the callback service.
    ///
    /// # Safety
    ///
    /// The request must be complete, of an entry that was taken out of the pool and that nothing
    /// else refers to, with a reference to the transport.
    unsafe fn enqueue(&self, rqst: *mut bindings::rpc_rqst) {
        self.delivering.store(current_task(), Relaxed);
        // SAFETY: By the safety requirements of this function. sunrpc takes a reference of its own,
        // which it can get, and gives the request back once.
        unsafe { bindings::xprt_enqueue_bc_request(rqst) };
        self.delivering.store(0, Relaxed);
    }

    fn put(&self, entry: Pin<KBox<Entry>>) {
        let mut pool = self.pool.lock();

        pool.usage.returned(entry.generation.get());
        // Cannot fail: the list was made for all of them.
        let _ = pool.free.push_within_capacity(entry);
    }

    /// Takes a finished request back.
    ///
    /// # Safety
    ///
    /// As `bc_free_rqst` of `struct rpc_xprt_ops`.
    pub(super) unsafe fn free(rqst: NonNull<bindings::rpc_rqst>) {
        // SAFETY: Requests with this operation belong to entries that `deliver` has given away.
        let entry = unsafe { Pin::<KBox<Entry>>::from_foreign(rqst.as_ptr().cast()) };
        // SAFETY: By the type invariants of `Entry` the entry has references to the object, which
        // keep `home`.
        let home = unsafe { entry.home.as_ref() };

        if home.delivering.load(Relaxed) == current_task() {
            // The service has ended, and sunrpc gives the request back while it is being delivered,
            // in a completion. The last reference must not be dropped there: that would wait for a
            // close that waits for the completion (H-71).
            transport_queue().enqueue(entry);
        } else {
            Entry::finish(entry);
        }
    }
}

/// The address of the running task, to compare.
fn current_task() -> usize {
    kernel::current!().as_ptr().addr()
}

/// A reply to a reverse call, to be sent.
///
/// # Invariants
///
/// `rqst` is the request of an entry that sunrpc has during `'a`.
pub(crate) struct ReverseReply<'a> {
    rqst: NonNull<bindings::rpc_rqst>,
    entry: &'a Entry,
}

impl ReverseReply<'_> {
    /// Views `rqst`.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    pub(super) unsafe fn new(rqst: NonNull<bindings::rpc_rqst>) -> Self {
        // SAFETY: By the safety requirements of this function `rqst` is the request of an entry.
        let entry = unsafe { Entry::of(rqst) };
        // INVARIANT: By the safety requirements of this function sunrpc has the entry.
        Self { rqst, entry }
    }

    /// The transaction identifier, in host byte order.
    pub(crate) fn xid(&self) -> u32 {
        // SAFETY: Set by `deliver` and not changed since.
        u32::from_be(unsafe { (*self.rqst.as_ptr()).rq_xid })
    }

    /// The number of the connection that the call came on.
    pub(crate) fn generation(&self) -> u64 {
        self.entry.generation.get()
    }

    /// The encoded reply.
    pub(crate) fn send_buf(&self) -> XdrBuf<'_> {
        // SAFETY: The reply is encoded and does not change while it is sent.
        unsafe { XdrBuf::new(&(*self.rqst.as_ptr()).rq_snd_buf) }
    }
}
