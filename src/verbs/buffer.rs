// SPDX-License-Identifier: GPL-2.0

//! Buffers that Sends go out of and Receives come into, mapped for the device for the life of a
//! connection.

use core::mem::{
    offset_of,
    ManuallyDrop, //
};

use kernel::{
    bindings::dma_data_direction,
    container_of,
    ffi::c_int,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    }, //
};

use super::{
    completion::{
        Callback,
        Callbacks, //
    },
    Pd, //
};
use crate::bindings;

/// Memory with a DMA mapping.
///
/// # Invariants
///
/// `addr` is a mapping of the `size` bytes that `mem` has room for, in direction `dir` for the
/// device of `pd`. The elements of `mem` are those bytes that have a value.
struct DmaBuffer {
    mem: KVec<u8>,
    size: usize,
    addr: u64,
    dir: dma_data_direction,
    pd: Arc<Pd>,
}

impl DmaBuffer {
    /// Makes a buffer of zeroes that the device reads.
    fn to_device(pd: &Arc<Pd>, size: usize) -> Result<Self> {
        let mut mem = KVec::with_capacity(size, GFP_KERNEL | __GFP_NOWARN | __GFP_ZERO)?;
        // SAFETY: There is room for `size` elements, and the allocator has zeroed them.
        unsafe { mem.inc_len(size) };
        Self::map(pd, mem, size, dma_data_direction::DMA_TO_DEVICE)
    }

    /// Makes a buffer that the device writes to. It has no bytes before that: to zero what is
    /// overwritten is a tenth of the cost of a connection.
    fn from_device(pd: &Arc<Pd>, size: usize) -> Result<Self> {
        let mem = KVec::with_capacity(size, GFP_KERNEL | __GFP_NOWARN)?;
        Self::map(pd, mem, size, dma_data_direction::DMA_FROM_DEVICE)
    }

    fn map(pd: &Arc<Pd>, mut mem: KVec<u8>, size: usize, dir: dma_data_direction) -> Result<Self> {
        let device = pd.device().as_ptr();

        // SAFETY: `mem` is `size` bytes from kmalloc and stays where it is while the mapping lasts.
        let addr =
            unsafe { bindings::ib_dma_map_single(device, mem.as_mut_ptr().cast(), size, dir) };
        // SAFETY: `addr` came from the mapping call for this device.
        if unsafe { bindings::ib_dma_mapping_error(device, addr) } != 0 {
            return Err(EIO);
        }
        // INVARIANT: Mapped above.
        Ok(Self {
            mem,
            size,
            addr,
            dir,
            pd: pd.clone(),
        })
    }

    fn sge(&self, len: u32) -> bindings::ib_sge {
        bindings::ib_sge {
            addr: self.addr,
            length: len,
            lkey: self.pd.local_dma_lkey(),
        }
    }

    #[inline]
    fn sync_for_device(&self, len: usize) {
        // SAFETY: By the type invariants `addr` is mapped for this device and direction, over at
        // least `len` bytes.
        unsafe {
            bindings::ib_dma_sync_for_device(self.pd.device().as_ptr(), self.addr, len, self.dir)
        }
    }

    #[inline]
    fn sync_for_cpu(&self, len: usize) {
        // SAFETY: By the type invariants `addr` is mapped for this device and direction, over at
        // least `len` bytes.
        unsafe {
            bindings::ib_dma_sync_for_cpu(self.pd.device().as_ptr(), self.addr, len, self.dir)
        }
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        let device = self.pd.device().as_ptr();

        // SAFETY: By the type invariants this is what was mapped, and it is unmapped once.
        unsafe { bindings::ib_dma_unmap_single(device, self.addr, self.size, self.dir) }
    }
}

/// Address-stable part of a [`SendBuffer`]. The completion entry comes first: the completion leads
/// back to the number by it.
#[repr(C)]
struct SendInner {
    cqe: bindings::ib_cqe,
    /// The number of the Send that the buffer was last posted for.
    number: u32,
    /// The registrations that were posted with it.
    mrs: u32,
    wr: bindings::ib_send_wr,
    sge: bindings::ib_sge,
    buf: DmaBuffer,
}

/// A buffer that one message is assembled in and sent from.
///
/// The owner of the value may write to it; posting it ([`super::SendQueue::post`]) gives it to the
/// send queue.
pub(crate) struct SendBuffer(KBox<SendInner>);

// SAFETY: The raw pointers inside lead only into the allocation itself.
unsafe impl Send for SendBuffer {}

impl SendBuffer {
    /// Makes a buffer of `len` bytes, for whose requests the RDMA core calls `done`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EIO` when it cannot be mapped.
    pub(super) fn new(pd: &Arc<Pd>, len: usize, done: Callback) -> Result<Self> {
        let buf = DmaBuffer::to_device(pd, len)?;
        let mut inner = KBox::new(
            SendInner {
                cqe: bindings::ib_cqe { done: Some(done) },
                number: 0,
                mrs: 0,
                wr: pin_init::zeroed(),
                sge: buf.sge(0),
                buf,
            },
            GFP_KERNEL,
        )?;

        // The work request points into its own allocation, which does not move.
        let (cqe, sge) = (&raw mut inner.cqe, &raw mut inner.sge);
        inner.wr.opcode = bindings::ib_wr_opcode_IB_WR_SEND;
        inner.wr.sg_list = sge;
        inner.wr.num_sge = 1;
        // SAFETY: Writes the union field that kernel consumers use.
        unsafe { *inner.wr.__bindgen_anon_1.wr_cqe.as_mut() = cqe };
        Ok(Self(inner))
    }

    /// The message under construction.
    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.0.buf.mem
    }

    /// The registrations that were posted with it.
    #[inline]
    pub(super) fn mrs(&self) -> u32 {
        self.0.mrs
    }

    /// Notes how many registrations are posted with it.
    #[inline]
    pub(super) fn set_mrs(&mut self, mrs: u32) {
        self.0.mrs = mrs;
    }

    /// The number of the Send whose completion entry is `cqe`.
    ///
    /// # Safety
    ///
    /// `cqe` must be the completion entry of a Send buffer that is posted.
    #[inline]
    pub(super) unsafe fn number_of(cqe: *const bindings::ib_cqe) -> u32 {
        const { assert!(offset_of!(SendInner, cqe) == 0) };
        // SAFETY: The entry is the first field of a `SendInner`, which does not change while it is
        // posted.
        unsafe { (*cqe.cast::<SendInner>()).number }
    }

    /// Tells whether the buffer is one of the domain `pd`.
    #[inline]
    pub(super) fn is_of(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.0.buf.pd, pd)
    }

    /// Makes the work request for the first `len` bytes, as Send `number`, and hands the memory to
    /// the device.
    #[inline]
    pub(super) fn arm(
        &mut self,
        len: u32,
        number: u32,
        signalled: bool,
    ) -> *mut bindings::ib_send_wr {
        let inner = &mut *self.0;

        inner.number = number;
        inner.sge.length = len;
        inner.wr.next = core::ptr::null_mut();
        inner.wr.send_flags = if signalled {
            bindings::ib_send_flags_IB_SEND_SIGNALED as c_int
        } else {
            0
        };
        inner.buf.sync_for_device(len as usize);
        &raw mut inner.wr
    }
}

/// Address-stable part of a [`RecvBuffer`]. The completion entry comes first: the completion leads
/// back to the buffer by it.
#[repr(C)]
struct RecvInner {
    cqe: bindings::ib_cqe,
    wr: bindings::ib_recv_wr,
    sge: bindings::ib_sge,
    buf: DmaBuffer,
}

/// A buffer for one incoming message.
///
/// The owner of the value may read what arrived; posting it gives it to the queue pair.
pub(crate) struct RecvBuffer(KBox<RecvInner>);

// SAFETY: The raw pointers inside lead only into the allocation itself.
unsafe impl Send for RecvBuffer {}

impl RecvBuffer {
    /// Makes a buffer of `len` bytes, for whose requests the RDMA core calls `done`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EIO` when it cannot be mapped.
    pub(super) fn new(pd: &Arc<Pd>, len: u32, done: Callback) -> Result<Self> {
        let buf = DmaBuffer::from_device(pd, len as usize)?;
        let mut inner = KBox::new(
            RecvInner {
                cqe: bindings::ib_cqe { done: Some(done) },
                wr: pin_init::zeroed(),
                sge: buf.sge(len),
                buf,
            },
            GFP_KERNEL,
        )?;

        let (cqe, sge) = (&raw mut inner.cqe, &raw mut inner.sge);
        inner.wr.sg_list = sge;
        inner.wr.num_sge = 1;
        // SAFETY: Writes the union field that kernel consumers use.
        unsafe { *inner.wr.__bindgen_anon_1.wr_cqe.as_mut() = cqe };
        Ok(Self(inner))
    }

    /// The bytes that arrived.
    #[inline]
    pub(crate) fn message(&self) -> &[u8] {
        &self.0.buf.mem
    }

    /// Makes the work request, followed by `next`, and hands the memory to the device. The buffer
    /// belongs to the request now.
    #[inline]
    fn into_request(self, next: *mut bindings::ib_recv_wr) -> *mut bindings::ib_recv_wr {
        let inner = KBox::leak(self.0);

        inner.wr.next = next;
        inner.buf.sync_for_device(inner.buf.size);
        &raw mut inner.wr
    }

    /// The buffer of a request that has completed with `len` bytes.
    ///
    /// # Safety
    ///
    /// `cqe` must be the completion entry of a request made by [`Self::into_request`], which has
    /// completed and is not used again. The device must have written `len` bytes, or as many as the
    /// buffer has room for.
    #[inline]
    pub(super) unsafe fn from_completion(cqe: *mut bindings::ib_cqe, len: u32) -> Self {
        const { assert!(offset_of!(RecvInner, cqe) == 0) };
        // SAFETY: The entry is the first field of the part that `into_request` has leaked; a
        // request completes once.
        let mut inner = unsafe { KBox::from_raw(cqe.cast::<RecvInner>()) };
        let len = inner.buf.size.min(len as usize);

        inner.buf.sync_for_cpu(len);
        inner.buf.mem.clear();
        // SAFETY: There is room for `size` elements, and the device has written these.
        unsafe { inner.buf.mem.inc_len(len) };
        Self(inner)
    }

    /// Drops the buffers of a chain of requests, from `wr` on.
    ///
    /// # Safety
    ///
    /// The requests must have been made by [`Self::into_request`], and not be posted.
    pub(super) unsafe fn drop_requests(wr: *const bindings::ib_recv_wr) {
        let mut next = wr.cast_mut();

        while !next.is_null() {
            // SAFETY: The request is a field of the part that `into_request` has leaked, and
            // nothing else has it.
            let inner = unsafe { KBox::from_raw(container_of!(next, RecvInner, wr)) };
            next = inner.wr.next;
        }
    }
}

/// Receives that can be posted together.
///
/// # Invariants
///
/// `first` is null, or the first of a chain of `count` requests made by
/// [`RecvBuffer::into_request`], which belong to this value.
pub(super) struct RecvChain {
    first: *mut bindings::ib_recv_wr,
    count: u32,
}

// SAFETY: The buffers of the chain are `Send`.
unsafe impl Send for RecvChain {}

impl RecvChain {
    /// No Receives.
    pub(super) const fn new() -> Self {
        // INVARIANT: Null.
        Self {
            first: core::ptr::null_mut(),
            count: 0,
        }
    }

    /// The number of Receives.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Adds a Receive.
    #[inline]
    pub(super) fn push(&mut self, buf: RecvBuffer) {
        // INVARIANT: The chain is one request longer. No sum wraps around: each request is memory.
        self.first = buf.into_request(self.first);
        self.count = self.count.wrapping_add(1);
    }

    /// Tells whether all buffers are of the domain `pd`.
    pub(super) fn is_of(&self, pd: &Arc<Pd>) -> bool {
        let mut at = self.first;

        while !at.is_null() {
            // SAFETY: By the type invariants the requests belong to this value; each is a field of
            // the part that `into_request` has leaked.
            let inner = unsafe { &*container_of!(at, RecvInner, wr) };
            if !Arc::ptr_eq(&inner.buf.pd, pd) {
                return false;
            }
            at = inner.wr.next;
        }
        true
    }

    /// The requests, of which the caller has to take care now, and how many they are.
    pub(super) fn into_requests(self) -> (*mut bindings::ib_recv_wr, u32) {
        let this = ManuallyDrop::new(self);
        (this.first, this.count)
    }
}

impl Drop for RecvChain {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; requests that belong to this value are not posted.
        unsafe { RecvBuffer::drop_requests(self.first) };
    }
}

/// Receives that can be posted, to which one thread adds while others take all of them.
///
/// # Invariants
///
/// The pointer is null, or the first of a chain of requests made by [`RecvBuffer::into_request`],
/// which belong to this value.
pub(super) struct RecvStack(Atomic<*mut bindings::ib_recv_wr>);

impl RecvStack {
    /// No Receives.
    pub(super) const fn new() -> Self {
        // INVARIANT: Null.
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// Adds a Receive. A full barrier: what is loaded after this is not older than the addition.
    #[inline]
    pub(super) fn push(&self, buf: RecvBuffer) {
        let mut first = self.0.load(Relaxed);
        let request = buf.into_request(first);

        // INVARIANT: The request is the first of the chain that it is followed by.
        while let Err(now) = self.0.cmpxchg(first, request, Full) {
            first = now;
            // SAFETY: The request belongs to this function until it is on the stack.
            unsafe { (*request).next = first };
        }
    }

    /// Takes all Receives.
    pub(super) fn take(&self) -> RecvChain {
        let first = self.0.xchg(core::ptr::null_mut(), Acquire);
        let (mut count, mut at) = (0u32, first);

        while !at.is_null() {
            count = count.wrapping_add(1);
            // SAFETY: By the type invariants; the chain is ours now.
            at = unsafe { (*at).next };
        }
        // INVARIANT: Taken from the stack, and counted.
        RecvChain { first, count }
    }
}

impl Drop for RecvStack {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// An order for buffers of a queue pair.
#[derive(Clone)]
pub(crate) struct BufferSpec {
    pub(super) pd: Arc<Pd>,
    pub(super) callbacks: &'static Callbacks,
    pub(super) sends: u32,
    pub(super) send_len: usize,
    pub(super) recvs: u32,
    pub(super) recv_len: u32,
}

impl BufferSpec {
    /// As much of it as that.
    pub(super) fn at_most(&self, sends: u32, recvs: u32) -> Self {
        Self {
            sends: self.sends.min(sends),
            recvs: self.recvs.min(recvs),
            ..self.clone()
        }
    }

    /// Makes the buffers. Process context. Returns as many as could be made, Receives first, since
    /// without these nothing may be sent.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EIO` when a buffer cannot be mapped: there are not all of them.
    pub(crate) fn make(&self) -> (NewBuffers, Result) {
        let mut buffers = NewBuffers {
            sends: KVec::new(),
            recvs: RecvChain::new(),
        };

        let made = self.fill(&mut buffers);
        (buffers, made)
    }

    fn fill(&self, buffers: &mut NewBuffers) -> Result {
        for _ in 0..self.recvs {
            let buf = RecvBuffer::new(&self.pd, self.recv_len, self.callbacks.recv)?;
            buffers.recvs.push(buf);
        }
        buffers.sends.reserve(self.sends as usize, GFP_KERNEL)?;
        for _ in 0..self.sends {
            let buf = SendBuffer::new(&self.pd, self.send_len, self.callbacks.send)?;
            buffers.sends.push_within_capacity(buf)?;
        }
        Ok(())
    }
}

/// Buffers for the queue pair that has ordered them ([`super::Qp::order`]).
pub(crate) struct NewBuffers {
    pub(super) sends: KVec<SendBuffer>,
    pub(super) recvs: RecvChain,
}

impl NewBuffers {
    /// Tells whether there is none of either kind.
    pub(crate) fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.recvs.count() == 0
    }
}
