// SPDX-License-Identifier: GPL-2.0

//! The requests of a transport.

mod free;

use core::{
    cell::UnsafeCell,
    mem::offset_of,
    ptr::NonNull, //
};

use kernel::{
    alloc::{
        flags::{
            GFP_NOWAIT,
            __GFP_NOWARN, //
        },
        Flags, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SetOnce, //
    },
    types::Opaque, //
};

use crate::os::series::smp_mb;
use crate::{
    bindings,
    sunrpc::{
        memory::Memory,
        spin::SpinGuard, //
    }, //
};

use free::FreeNumbers;

/// Bytes that a buffer has at least, as in-tree. Statistics count the memory of requests that need
/// more.
const USUAL: usize = 2048;

/// Memory that a request encodes into or decodes from. Grows, never shrinks.
struct Buffer {
    mem: Option<Memory>,
    len: usize,
}

impl Buffer {
    const EMPTY: Self = Self { mem: None, len: 0 };

    /// Makes the buffer at least `len` bytes long; its content is lost. Returns its start. Adds
    /// `len` to `grown` when the buffer was too short and `len` is more than [`USUAL`].
    #[inline]
    fn ensure(&mut self, len: usize, grown: &Atomic<u64>) -> Option<NonNull<u8>> {
        if len > self.len || self.mem.is_none() {
            self.grow(len, grown)?;
        }
        self.mem.as_ref().map(Memory::as_ptr)
    }

    #[cold]
    fn grow(&mut self, len: usize, grown: &Atomic<u64>) -> Option<()> {
        if len > USUAL {
            // CAST: Widening.
            grown.add(len as u64, Relaxed);
        }
        let len = len.max(USUAL).checked_next_power_of_two()?;
        // SAFETY: Any size will do, these are the flags for memory that a call needs, and the
        // result is ours to free.
        let mem =
            unsafe { Memory::from_raw(bindings::kmalloc(len, bindings::rpc_task_gfp_mask())) };
        self.mem = Some(mem?);
        self.len = len;
        Some(())
    }
}

/// A request with the transport's data of it.
///
/// # Invariants
///
/// Lives in a [`Slots`] and does not move. While free, `rqst` is all zero. `call` and `reply` are
/// touched only by the task that the request belongs to.
#[repr(C)]
#[pin_data]
pub(super) struct Slot<D> {
    #[pin]
    pub(super) rqst: Opaque<bindings::rpc_rqst>,
    index: u32,
    /// Set if the call that was sent last is complete: the transport has nothing left of it then.
    /// Written while the request is pinned; its task waits for the unpinning before it frees its
    /// buffers.
    completed: Atomic<bool>,
    call: UnsafeCell<Buffer>,
    reply: UnsafeCell<Buffer>,
    #[pin]
    pub(super) data: D,
}

impl<D> Slot<D> {
    /// The slot that `rqst` is part of.
    ///
    /// # Safety
    ///
    /// `rqst` must be a request of a `Slots<D>` that lives during `'a`.
    #[inline]
    pub(super) unsafe fn of<'a>(rqst: *mut bindings::rpc_rqst) -> &'a Self {
        const { assert!(offset_of!(Slot<D>, rqst) == 0) };
        // SAFETY: By the safety requirements of this function it is the first field of a slot that
        // lives during `'a`.
        unsafe { &*rqst.cast::<Self>() }
    }

    /// Notes that the call is about to be sent, or that it is complete.
    #[inline]
    pub(super) fn set_completed(&self, completed: bool) {
        self.completed.store(completed, Relaxed);
    }

    /// Returns `true` if the call that was sent last is complete.
    #[inline]
    pub(super) fn is_completed(&self) -> bool {
        self.completed.load(Relaxed)
    }
}

/// Returns `true` if tasks wait for a request.
///
/// # Safety
///
/// `xprt` must be valid.
#[inline]
unsafe fn has_backlog(xprt: *mut bindings::rpc_xprt) -> bool {
    // SAFETY: By the safety requirements of this function `xprt` is valid. The word changes under
    // the lock of the queue, and any value of it will do: a caller that sees none looks again.
    unsafe { (&raw const (*xprt).backlog.qlen).read_volatile() != 0 }
}

/// Queues `task` until a request is free, as `xprt_add_backlog_noncongested()` does. The first
/// kernels of 7.0 lack that.
///
/// sunrpc must not find the transport congested: it would queue calls by itself while requests are
/// free, and nothing would wake them (H-10). Before it acts on the mark it takes the lock that is
/// held here, and looks again.
///
/// # Safety
///
/// `xprt` and `task` must be valid, and the task not queued.
#[cold]
unsafe fn queue(xprt: *mut bindings::rpc_xprt, task: *mut bindings::rpc_task) {
    // SAFETY: By the safety requirements of this function `xprt` is valid, so that its lock is
    // initialised, and stays during this call.
    let _reserve = unsafe { SpinGuard::take(&raw mut (*xprt).reserve_lock) };

    // SAFETY: By the safety requirements of this function both are valid, and the task is not
    // queued.
    unsafe { bindings::xprt_add_backlog(xprt, task) };
    // SAFETY: By the safety requirements of this function `xprt` is valid.
    unsafe { bindings::xprt_clear_congested(xprt) };
}

/// The transport's data of a request.
pub(crate) trait SlotData: Sized {
    /// Makes the data of the request with this index.
    fn new(index: u32) -> impl PinInit<Self, Error>;

    /// Returns `true` if the device or the peer may reach memory of the request, or a reply to it
    /// waits to be completed. Only the state of the request knows this: a transport checks it, too,
    /// before it sends a request.
    ///
    /// Each request that was sent and not completed is checked before its buffers are used again,
    /// which they are not as long as they can be reached.
    fn is_reachable(&self) -> bool;

    /// Warns if it is reachable, in kernels with debug assertions; others do not check.
    #[inline(always)]
    fn warn_if_reachable(&self) {
        if cfg!(CONFIG_RUST_DEBUG_ASSERTIONS) && self.is_reachable() {
            // SAFETY: Has no preconditions.
            unsafe { bindings::warn_on(true) };
        }
    }
}

/// Requests that are made with the transport; the others are made when needed, and stay.
const FIRST: u32 = 16;

/// All requests of a transport.
pub(crate) struct Slots<D> {
    all: KVec<SetOnce<Pin<KBox<Slot<D>>>>>,
    free: FreeNumbers,
    /// Bytes that buffers had to grow beyond the usual.
    grown: Atomic<u64>,
}

// SAFETY: Requests are handed out to one task each; their own data is `Sync`.
unsafe impl<D: Send + Sync> Send for Slots<D> {}
// SAFETY: Requests are handed out to one task each; their own data is `Sync`.
unsafe impl<D: Send + Sync> Sync for Slots<D> {}

impl<D> Slots<D> {
    /// The requests themselves, for a change to all of them under a lock of sunrpc.
    pub(super) fn rqsts(&self) -> impl Iterator<Item = *mut bindings::rpc_rqst> + '_ {
        self.all
            .iter()
            .filter_map(SetOnce::as_ref)
            .map(|slot| slot.rqst.get())
    }
}

impl<D: SlotData> Slots<D> {
    /// Makes the first of `count` requests.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the error of [`SlotData::new`].
    pub(super) fn new(count: u32) -> Result<Arc<Self>> {
        // CAST: Widening.
        let mut all = KVec::with_capacity(count as usize, GFP_KERNEL)?;

        for index in 0..count {
            let place = SetOnce::new();
            if index < FIRST {
                place.populate(Self::make(index, GFP_KERNEL)?);
            }
            all.push_within_capacity(place)?;
        }
        let slots = Self {
            all,
            free: FreeNumbers::new(count)?,
            grown: Atomic::new(0),
        };
        Ok(Arc::new(slots, GFP_KERNEL)?)
    }

    fn make(index: u32, flags: Flags) -> Result<Pin<KBox<Slot<D>>>> {
        let data = D::new(index);

        KBox::pin_init(
            try_pin_init!(Slot {
                rqst <- Opaque::ffi_init(|slot: *mut bindings::rpc_rqst| {
                    // SAFETY: `slot` is valid for writes, and all zero is a free request.
                    unsafe { slot.write_bytes(0, 1) }
                }),
                index,
                completed: Atomic::new(false),
                call: UnsafeCell::new(Buffer::EMPTY),
                reply: UnsafeCell::new(Buffer::EMPTY),
                data <- data,
            }? Error),
            flags,
        )
    }

    /// The transport's data of all requests made so far.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &D> {
        self.all
            .iter()
            .filter_map(SetOnce::as_ref)
            .map(|slot| &slot.data)
    }

    /// The transport's data of the request with this index.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&D> {
        Some(&self.all.get(index)?.as_ref()?.data)
    }

    /// Gives `task` a request, or queues it until one is free. Without memory to make another, it
    /// tries again in a while: the existing requests may be in use for long.
    ///
    /// # Safety
    ///
    /// As `alloc_slot` of `struct rpc_xprt_ops`: `xprt` and `task` are valid, and the task has no
    /// request yet.
    pub(super) unsafe fn alloc(
        &self,
        xprt: *mut bindings::rpc_xprt,
        task: *mut bindings::rpc_task,
    ) {
        let status = match self.pop() {
            Some(Ok(rqst)) => {
                // SAFETY: The task is ours during this call.
                unsafe { (*task).tk_rqstp = rqst };
                Some(0)
            }
            Some(Err(error)) => Some(error.to_errno()),
            None => None,
        };
        if let Some(status) = status {
            // SAFETY: The task is ours during this call.
            unsafe { (*task).tk_status = status };
            return;
        }
        // Before the task is queued: from then on it may be woken, and is no longer ours.
        // SAFETY: The task is ours until then.
        unsafe { (*task).tk_status = EAGAIN.to_errno() };
        // SAFETY: By the safety requirements of this function `xprt` and `task` are valid, and the
        // task is not queued.
        unsafe { queue(xprt, task) };
        // A request freed between the look and the queueing woke no task (H-9): offer it to the
        // queue. Store-buffer pattern: either this finds the request, or the task that freed it
        // finds this one queued.
        smp_mb();
        if let Some(Ok(rqst)) = self.pop() {
            // SAFETY: `xprt` is valid and the request is free.
            unsafe { self.free(xprt, rqst) };
        }
    }

    /// Takes a request back and hands it to a waiting task, if any.
    ///
    /// # Safety
    ///
    /// As `free_slot` of `struct rpc_xprt_ops`: `rqst` is a request of this table that is no longer
    /// used.
    #[inline(always)]
    pub(super) unsafe fn free(&self, xprt: *mut bindings::rpc_xprt, rqst: *mut bindings::rpc_rqst) {
        // SAFETY: By the safety requirements of this function the request is no longer used.
        unsafe { rqst.write_bytes(0, 1) };
        // SAFETY: By the safety requirements of this function `xprt` is valid.
        if unsafe { has_backlog(xprt) } {
            // SAFETY: By the safety requirements of this function `xprt` is valid, and the request
            // of this table and unused; it was zeroed above.
            return unsafe { self.offer(xprt, rqst) };
        }
        // SAFETY: The request is one of this table.
        self.free.put(unsafe { Slot::<D>::of(rqst) }.index);
        // A task that was queued since may have looked for it in vain.
        // SAFETY: By the safety requirements of this function `xprt` is valid.
        if unsafe { has_backlog(xprt) } {
            if let Some(Ok(again)) = self.pop() {
                // SAFETY: By the safety requirements of this function `xprt` is valid. The request
                // is of this table and free, since `pop` has returned it.
                unsafe { self.offer(xprt, again) };
            }
        }
    }

    /// Hands a free request to a waiting task, or puts it back if none waits now.
    ///
    /// # Safety
    ///
    /// `xprt` must be valid, and `rqst` a free request of this table, all zero.
    #[cold]
    unsafe fn offer(&self, xprt: *mut bindings::rpc_xprt, rqst: *mut bindings::rpc_rqst) {
        let mut rqst = rqst;

        loop {
            // SAFETY: By the safety requirements of this function `xprt` is valid; the request is
            // free.
            let taken = unsafe { has_backlog(xprt) && bindings::xprt_wake_up_backlog(xprt, rqst) };
            if taken {
                return;
            }
            // SAFETY: The request is one of this table.
            self.free.put(unsafe { Slot::<D>::of(rqst) }.index);
            // A task that was queued since may have looked for it in vain.
            // SAFETY: By the safety requirements of this function `xprt` is valid.
            if !unsafe { has_backlog(xprt) } {
                return;
            }
            // Else another task has it, and looks at the queue when it frees it; or memory was
            // short for making this one, and the tasks that have the others look at the queue.
            let Some(Ok(again)) = self.pop() else {
                return;
            };
            rqst = again;
        }
    }

    /// Takes a free request; `None` if all are in use.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if all existing ones are in use, and memory for another is short.
    #[inline]
    fn pop(&self) -> Option<Result<*mut bindings::rpc_rqst>> {
        let index = self.free.take()?;
        // CAST: Widening.
        let place = self.all.get(index as usize)?;

        match place.as_ref() {
            Some(slot) => Some(Ok(slot.rqst.get())),
            None => Some(self.make_first(index, place)),
        }
    }

    /// Makes the request with this index on its first use, or returns another free one.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if none is free, and memory for it is short.
    #[cold]
    fn make_first(
        &self,
        index: u32,
        place: &SetOnce<Pin<KBox<Slot<D>>>>,
    ) -> Result<*mut bindings::rpc_rqst> {
        // Only the task that has taken the number makes the request. Not GFP_KERNEL: the memory
        // may be for a call that has to free some.
        match Self::make(index, GFP_NOWAIT | __GFP_NOWARN) {
            Ok(slot) => place.populate(slot),
            Err(_) => {
                self.free.put(index);
                return self.pop_made().ok_or(ENOMEM);
            }
        };
        place.as_ref().map(|slot| slot.rqst.get()).ok_or(ENOMEM)
    }

    /// A free request that was made before.
    fn pop_made(&self) -> Option<*mut bindings::rpc_rqst> {
        let made = self.all.iter().filter_map(SetOnce::as_ref);
        let mut free = made.filter(|slot| self.free.take_this(slot.index));

        free.next().map(|slot| slot.rqst.get())
    }

    /// Makes as many requests with their usual buffers as memory allows, all if possible, so that
    /// none has to be made when it is needed.
    ///
    /// # Safety
    ///
    /// `xprt` must be the transport of this table, valid.
    pub(super) unsafe fn make_all(&self, xprt: *mut bindings::rpc_xprt) {
        for (index, place) in self.all.iter().enumerate() {
            // CAST: Fewer than 2^32.
            let index = index as u32;
            // Requests that are in use have their buffers. A request is first made by the task that
            // has its number, and by no other.
            if !self.free.take_this(index) {
                continue;
            }
            if place.as_ref().is_none() {
                let Ok(slot) = Self::make(index, GFP_KERNEL) else {
                    self.free.put(index);
                    return;
                };
                place.populate(slot);
            }
            if let Some(slot) = place.as_ref() {
                // SAFETY: No task has the request, whose number this has.
                let (call, reply) = unsafe { (&mut *slot.call.get(), &mut *slot.reply.get()) };
                // Without memory for these now, the task that gets the request tries again.
                let _ = call.ensure(USUAL, &self.grown);
                let _ = reply.ensure(USUAL, &self.grown);
                // A task may have queued itself in between.
                // SAFETY: The request is of this table, and no task had it yet. By the safety
                // requirements of this function `xprt` is valid.
                unsafe { self.free(xprt, slot.rqst.get()) };
            }
        }
    }

    /// Sets up the encode and decode buffers of a request. Returns `false` if memory was short.
    ///
    /// # Safety
    ///
    /// As `buf_alloc` of `struct rpc_xprt_ops`, with a request of this table.
    pub(super) unsafe fn alloc_buffers(&self, rqst: *mut bindings::rpc_rqst) -> bool {
        // SAFETY: A request of this table is the first field of its slot.
        let slot = unsafe { Slot::<D>::of(rqst) };
        // SAFETY: The request's task calls this, and by the type invariants of `Slot` nothing else
        // touches the buffers.
        let (call, reply) = unsafe { (&mut *slot.call.get(), &mut *slot.reply.get()) };
        // SAFETY: The request is valid, and its task, which calls this, has set both.
        let (callsize, rcvsize) = unsafe { ((*rqst).rq_callsize, (*rqst).rq_rcvsize) };

        let (Some(call), Some(reply)) = (
            call.ensure(callsize, &self.grown),
            reply.ensure(rcvsize, &self.grown),
        ) else {
            return false;
        };
        // SAFETY: Only the request's task uses these fields. Nothing refers to the request as a
        // whole: a new connection resets the credits of all requests.
        unsafe {
            (*rqst).rq_buffer = call.as_ptr().cast();
            (*rqst).rq_rbuffer = reply.as_ptr().cast();
        }
        true
    }

    /// Bytes that the buffers of unusually large requests have grown.
    pub(crate) fn grown_bytes(&self) -> u64 {
        self.grown.load(Relaxed)
    }
}
