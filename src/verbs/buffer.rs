// SPDX-License-Identifier: GPL-2.0

//! The buffers of Sends and Receives, mapped for the device for the life of a connection.

mod recv;

use core::{
    mem::offset_of,
    ptr::NonNull, //
};

use kernel::{
    ffi::c_int,
    prelude::*,
    sync::Arc, //
};

use super::{
    completion::{
        Callback,
        Callbacks, //
    },
    Pd,
    QpSize, //
};
use crate::{
    bindings,
    os::series::zeroes, //
};

pub(crate) use recv::RecvBuffer;
pub(super) use recv::{
    RecvChain,
    RecvStack, //
};

/// Memory with a DMA mapping.
///
/// # Invariants
///
/// `addr` is a mapping of the bytes of capacity of `mem`, as many as `place` has, in direction
/// `dir` for the device of its domain. The elements of `mem` are the bytes that have a value.
struct DmaBuffer {
    mem: KVec<u8>,
    addr: u64,
    dir: c_int,
    place: Place,
}

/// Bytes on the account of a protection domain.
struct Place {
    size: usize,
    pd: Arc<Pd>,
}

impl Place {
    /// Takes `size` bytes.
    ///
    /// # Errors
    ///
    /// As [`Account::take`](super::Account::take).
    fn take(pd: &Arc<Pd>, size: usize) -> Result<Self> {
        if let Some(account) = pd.account() {
            account.take(size)?;
        }
        Ok(Self {
            size,
            pd: pd.clone(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(account) = self.pd.account() {
            account.give(self.size);
        }
    }
}

impl DmaBuffer {
    /// Makes a buffer of zeroes that the device reads.
    fn to_device(pd: &Arc<Pd>, size: usize) -> Result<Self> {
        let place = Place::take(pd, size)?;
        let mem = zeroes(size, GFP_KERNEL | __GFP_NOWARN)?;
        Self::map(place, mem, bindings::RPCRDMA_RS_DMA_TO_DEVICE)
    }

    /// Makes a buffer that the device writes to. It has no bytes before that: zeroing memory that
    /// is overwritten is a tenth of the cost of a connection.
    fn from_device(pd: &Arc<Pd>, size: usize) -> Result<Self> {
        let place = Place::take(pd, size)?;
        let mem = KVec::with_capacity(size, GFP_KERNEL | __GFP_NOWARN)?;
        Self::map(place, mem, bindings::RPCRDMA_RS_DMA_FROM_DEVICE)
    }

    /// Maps `mem`, whose capacity is the size of `place`.
    fn map(place: Place, mut mem: KVec<u8>, dir: c_int) -> Result<Self> {
        let (device, size) = (place.pd.device().as_ptr(), place.size);

        // SAFETY: `mem` is `size` bytes from kmalloc and stays where it is while the mapping lasts.
        let addr =
            unsafe { bindings::ib_dma_map_single(device, mem.as_mut_ptr().cast(), size, dir) };
        // SAFETY: `addr` came from the mapping call for this device.
        if unsafe { bindings::ib_dma_mapping_error(device, addr) } != 0 {
            return Err(EIO);
        }
        // INVARIANT: `ib_dma_map_single` has mapped the `size` bytes of `mem` at `addr` in
        // direction `dir`.
        Ok(Self {
            mem,
            addr,
            dir,
            place,
        })
    }

    fn sge(&self, len: u32) -> bindings::ib_sge {
        bindings::ib_sge {
            addr: self.addr,
            length: len,
            lkey: self.place.pd.local_dma_lkey(),
        }
    }

    #[inline]
    fn sync_for_device(&self, len: usize) {
        // SAFETY: By the type invariants `addr` is mapped for this device and direction, over at
        // least `len` bytes.
        unsafe {
            bindings::ib_dma_sync_for_device(
                self.place.pd.device().as_ptr(),
                self.addr,
                len,
                self.dir,
            )
        }
    }

    #[inline]
    fn sync_for_cpu(&self, len: usize) {
        // SAFETY: By the type invariants `addr` is mapped for this device and direction, over at
        // least `len` bytes.
        unsafe {
            bindings::ib_dma_sync_for_cpu(self.place.pd.device().as_ptr(), self.addr, len, self.dir)
        }
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        let device = self.place.pd.device().as_ptr();

        // SAFETY: By the type invariants these are the address, the length and the direction of the
        // mapping, which ends only here.
        unsafe { bindings::ib_dma_unmap_single(device, self.addr, self.place.size, self.dir) }
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
        inner.wr.sg_list = sge;
        inner.wr.num_sge = 1;
        // SAFETY: Writes the union field that kernel consumers use.
        unsafe { *inner.wr.__bindgen_anon_1.wr_cqe.as_mut() = cqe };
        Ok(Self(inner))
    }

    /// Bytes that it has room for.
    pub(super) fn len(&self) -> usize {
        self.0.buf.place.size
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

    /// Returns `true` if the buffer belongs to the domain `pd`.
    #[inline]
    pub(super) fn is_of(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.0.buf.place.pd, pd)
    }

    /// Makes the work request for the first `len` bytes, at most the whole buffer, as Send
    /// `number`, and hands the memory to the device.
    #[inline(always)]
    pub(super) fn arm(
        &mut self,
        len: u32,
        number: u32,
        signalled: bool,
    ) -> *mut bindings::ib_send_wr {
        let inner = &mut *self.0;
        // CAST: The buffers of a connection are short.
        let len = len.min(inner.buf.place.size as u32);

        inner.number = number;
        inner.sge.length = len;
        inner.wr.opcode = bindings::ib_wr_opcode_IB_WR_SEND;
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

impl SendBuffer {
    /// Makes the armed message invalidate `handle` of the peer's.
    pub(super) fn set_invalidate(&mut self, handle: u32) {
        let wr = &mut self.0.wr;

        wr.opcode = bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV;
        // SAFETY: Writes the union field of this kind of request.
        unsafe { *wr.ex.invalidate_rkey.as_mut() = handle };
    }

    /// Makes the armed message complete to `cqe`, and returns the way back.
    pub(super) fn lend(&mut self, cqe: *mut bindings::ib_cqe) -> LentSend {
        let inner = &mut *self.0;

        // SAFETY: Writes the union field that kernel consumers use.
        unsafe { *inner.wr.__bindgen_anon_1.wr_cqe.as_mut() = cqe };
        // INVARIANT: The message completes to an entry that is not its own.
        LentSend(NonNull::from(inner))
    }
}

/// A message that completes to the entry of other requests, in front of it.
///
/// # Invariants
///
/// The buffer is that of a [`SendBuffer`] that [`SendBuffer::lend`] was called for.
pub(super) struct LentSend(NonNull<SendInner>);

// SAFETY: The pointer is used after the completion only, which any thread may handle.
unsafe impl Send for LentSend {}

impl LentSend {
    /// Makes the message complete to its own entry from here on. Returns its number.
    ///
    /// # Safety
    ///
    /// The message must have completed, and its number not be noted yet: until then the buffer
    /// stays posted, and nothing else accesses it.
    pub(super) unsafe fn give_back(self) -> u32 {
        let mut inner = self.0;
        // SAFETY: By the type invariants the buffer was posted, so that its send queue keeps it
        // until the number is noted or the queue pair is drained, before which it completes; by the
        // safety requirements of this function nothing else accesses it.
        let inner = unsafe { inner.as_mut() };
        let cqe = &raw mut inner.cqe;

        // SAFETY: Writes the union field that kernel consumers use.
        unsafe { *inner.wr.__bindgen_anon_1.wr_cqe.as_mut() = cqe };
        inner.number
    }

    /// One that leads nowhere.
    ///
    /// # Safety
    ///
    /// It must not be given back.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(super) unsafe fn dangling() -> Self {
        // INVARIANT: By the safety requirements of this function nothing relies on it.
        Self(NonNull::dangling())
    }
}

/// An order for buffers of a queue pair. It is made once, so that the queue pair has no more
/// buffers than its queues have room for.
pub(crate) struct BufferSpec {
    pub(super) pd: Arc<Pd>,
    pub(super) callbacks: &'static Callbacks,
    pub(super) sends: u32,
    pub(super) send_len: usize,
    pub(super) recvs: u32,
    pub(super) recv_len: u32,
    /// The edition of the Receives: each exchange for another length begins one.
    pub(super) edition: u32,
}

impl BufferSpec {
    /// All buffers of a queue pair of `size`.
    pub(super) fn new(pd: &Arc<Pd>, callbacks: &'static Callbacks, size: &QpSize) -> Self {
        Self {
            pd: pd.clone(),
            callbacks,
            sends: size.sends,
            // CAST: Widening.
            send_len: size.send_len as usize,
            recvs: size.recvs,
            recv_len: size.recv_len,
            edition: 0,
        }
    }

    /// Takes an order of its own out of this one, for no more buffers than that.
    pub(super) fn take(&mut self, sends: u32, recvs: u32) -> Self {
        let order = Self {
            pd: self.pd.clone(),
            sends: self.sends.min(sends),
            recvs: self.recvs.min(recvs),
            ..*self
        };

        // No difference wraps around: the order has at most as many.
        self.sends = self.sends.wrapping_sub(order.sends);
        self.recvs = self.recvs.wrapping_sub(order.recvs);
        order
    }

    /// Allocates the buffers. Process context. Returns as many as memory allows, Receives first,
    /// since without these nothing may be sent.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EIO` when a buffer cannot be mapped: some buffers are missing.
    // Growth is rare. A test has the allocations below this function fail, which it finds by name.
    #[inline(never)]
    pub(crate) fn make(self) -> (NewBuffers, Result) {
        let mut buffers = NewBuffers {
            sends: KVec::new(),
            recvs: RecvChain::new(),
            order: self,
        };

        let made = buffers.fill();
        (buffers, made)
    }
}

/// Buffers for the queue pair that has ordered them ([`super::Qp::order`]).
pub(crate) struct NewBuffers {
    pub(super) sends: KVec<SendBuffer>,
    pub(super) recvs: RecvChain,
    /// The order; fewer buffers may have been made.
    pub(super) order: BufferSpec,
}

impl NewBuffers {
    /// Makes the buffers of the order.
    fn fill(&mut self) -> Result {
        let order = &self.order;

        for _ in 0..order.recvs {
            let (len, edition) = (order.recv_len, order.edition);
            let buf = RecvBuffer::new(&order.pd, len, edition, order.callbacks.recv)?;
            self.recvs.push(buf);
        }
        self.sends.reserve(order.sends as usize, GFP_KERNEL)?;
        for _ in 0..order.sends {
            let buf = SendBuffer::new(&order.pd, order.send_len, order.callbacks.send)?;
            self.sends.push_within_capacity(buf)?;
        }
        Ok(())
    }

    /// Takes all of them, with the order.
    pub(super) fn take(&mut self) -> Self {
        let none = Self {
            sends: KVec::new(),
            recvs: RecvChain::new(),
            order: self.order.take(0, 0),
        };
        core::mem::replace(self, none)
    }

    /// Returns `true` if fewer Receives were made than ordered.
    pub(crate) fn lacks_receives(&self) -> bool {
        self.recvs.count() < self.order.recvs
    }

    /// Returns `true` if no buffer of either kind is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.recvs.count() == 0
    }
}
