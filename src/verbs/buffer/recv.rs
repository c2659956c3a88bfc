// SPDX-License-Identifier: GPL-2.0

//! Buffers that Receives come into, and the requests to post them with.

use core::mem::{
    offset_of,
    ManuallyDrop, //
};

use kernel::{
    container_of,
    prelude::*,
    sync::Arc, //
};

use super::{
    super::{
        completion::Callback,
        posted::{
            Member,
            PostedList, //
        },
        stack::Stack,
        Pd, //
    },
    DmaBuffer, //
};
use crate::bindings;

/// Address-stable part of a [`RecvBuffer`]. The completion entry comes first: the completion leads
/// back to the buffer by it.
#[repr(C)]
struct RecvInner {
    cqe: bindings::ib_cqe,
    wr: bindings::ib_recv_wr,
    sge: bindings::ib_sge,
    /// Its place in the list of its domain.
    member: Member,
    /// The [edition](super::BufferSpec::edition) that it belongs to.
    edition: u32,
    buf: DmaBuffer,
}

impl Drop for RecvInner {
    fn drop(&mut self) {
        // SAFETY: `RecvBuffer::new` has added it to the list of this domain, and only this call
        // removes it.
        unsafe { self.buf.place.pd.receives().lock().remove(&self.member) };
    }
}

/// A buffer for one incoming message.
///
/// The owner of the value may read the message; posting it gives it to the queue pair.
pub(crate) struct RecvBuffer(KBox<RecvInner>);

// SAFETY: The raw pointers inside lead only into the allocation itself.
unsafe impl Send for RecvBuffer {}

impl RecvBuffer {
    /// Makes a buffer of `len` bytes, for whose requests the RDMA core calls `done`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EIO` when it cannot be mapped.
    pub(in crate::verbs) fn new(
        pd: &Arc<Pd>,
        len: u32,
        edition: u32,
        done: Callback,
    ) -> Result<Self> {
        let buf = DmaBuffer::from_device(pd, len as usize)?;
        let inner = KBox::new(
            RecvInner {
                cqe: bindings::ib_cqe { done: Some(done) },
                wr: pin_init::zeroed(),
                sge: buf.sge(len),
                member: Member::new(),
                edition,
                buf,
            },
            GFP_KERNEL,
        );

        let mut inner = inner?;
        // SAFETY: The new member is in no list; the allocation does not move, and its drop removes
        // the member.
        unsafe { pd.receives().lock().add(&inner.member) };
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
        inner.buf.sync_for_device(inner.buf.place.size);
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
    pub(in crate::verbs) unsafe fn from_completion(cqe: *mut bindings::ib_cqe, len: u32) -> Self {
        const { assert!(offset_of!(RecvInner, cqe) == 0) };
        // SAFETY: The entry is the first field of the part that `into_request` has leaked; a
        // request completes once.
        let mut inner = unsafe { KBox::from_raw(cqe.cast::<RecvInner>()) };
        inner.member.set_posted(false);
        let len = inner.buf.place.size.min(len as usize);

        inner.buf.sync_for_cpu(len);
        inner.buf.mem.clear();
        // SAFETY: The capacity is `size` elements, and the device has written these.
        unsafe { inner.buf.mem.inc_len(len) };
        Self(inner)
    }

    /// One of the posted buffers of `all`, the list of a domain, if any. It belongs to the caller.
    ///
    /// # Safety
    ///
    /// The device must use no request of the domain, and no completion of one must come.
    pub(in crate::verbs) unsafe fn take_posted(all: &PostedList) -> Option<Self> {
        let member = all.posted()?.as_ptr();

        // SAFETY: Each member is a field of the part that `into_request` has leaked when it was
        // posted; by the safety requirements of this function nothing else has it.
        let inner = unsafe { KBox::from_raw(container_of!(member, RecvInner, member)) };
        inner.member.set_posted(false);
        Some(Self(inner))
    }

    /// Drops the buffers of a chain of requests, from `wr` on.
    ///
    /// # Safety
    ///
    /// The requests must have been made by [`Self::into_request`], and not be posted.
    pub(in crate::verbs) unsafe fn drop_requests(wr: *const bindings::ib_recv_wr) {
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
pub(in crate::verbs) struct RecvChain {
    first: *mut bindings::ib_recv_wr,
    count: u32,
}

// SAFETY: The buffers of the chain are `Send`.
unsafe impl Send for RecvChain {}

impl RecvChain {
    /// No Receives.
    pub(in crate::verbs) const fn new() -> Self {
        // INVARIANT: The pointer is null, and no Receives are counted.
        Self {
            first: core::ptr::null_mut(),
            count: 0,
        }
    }

    /// The number of Receives.
    #[inline]
    pub(in crate::verbs) fn count(&self) -> u32 {
        self.count
    }

    /// Adds a Receive.
    #[inline]
    pub(in crate::verbs) fn push(&mut self, buf: RecvBuffer) {
        // INVARIANT: The chain is one request longer. No sum wraps around: each request is memory.
        self.first = buf.into_request(self.first);
        self.count = self.count.wrapping_add(1);
    }

    /// Bytes of the buffers.
    pub(in crate::verbs) fn bytes(&self) -> u64 {
        let (mut bytes, mut at) = (0u64, self.first);

        while !at.is_null() {
            // SAFETY: By the type invariants the requests belong to this value; each is a field of
            // the part that `into_request` has leaked.
            let inner = unsafe { &*container_of!(at, RecvInner, wr) };
            // CAST: Widening.
            bytes = bytes.saturating_add(inner.buf.place.size as u64);
            at = inner.wr.next;
        }
        bytes
    }

    /// Takes out the Receives of other editions than this one.
    pub(in crate::verbs) fn take_others(&mut self, edition: u32) -> Self {
        let mut others = Self::new();
        let mut at = core::mem::replace(self, Self::new()).into_requests().0;

        while !at.is_null() {
            let request = at;
            // SAFETY: By the type invariants the requests belonged to this value; each is a field
            // of the part that `into_request` has leaked, and is visited once.
            let inner = unsafe { &mut *container_of!(request, RecvInner, wr) };
            let is_other = inner.edition != edition;
            let to = if is_other { &mut others } else { &mut *self };

            at = inner.wr.next;
            // INVARIANT: The request moves to the front of one of the two chains, which is one
            // request longer now. No sum wraps around: each request is memory.
            inner.wr.next = to.first;
            to.first = request;
            to.count = to.count.wrapping_add(1);
        }
        others
    }

    /// Moves up to `most` Receives of `from` to this chain. Returns their number.
    pub(in crate::verbs) fn take_from(&mut self, from: &mut Self, most: u32) -> u32 {
        let mut moved = 0;

        while moved < most && !from.first.is_null() {
            let request = from.first;
            // SAFETY: By the type invariants the request belongs to `from`; it is a field of the
            // part that `into_request` has leaked.
            let inner = unsafe { &mut *container_of!(request, RecvInner, wr) };

            // INVARIANT: The request moves from the front of one chain to the front of the other.
            // No number wraps around: each request is memory.
            from.first = inner.wr.next;
            from.count = from.count.wrapping_sub(1);
            inner.wr.next = self.first;
            self.first = request;
            self.count = self.count.wrapping_add(1);
            moved = moved.wrapping_add(1);
        }
        moved
    }

    /// Notes that the device gets the buffers. Returns `false`, and the device must not get them,
    /// if one is not of the domain `pd`.
    pub(in crate::verbs) fn set_posted(&self, pd: &Arc<Pd>) -> bool {
        let mut at = self.first;

        while !at.is_null() {
            // SAFETY: By the type invariants the requests belong to this value; each is a field of
            // the part that `into_request` has leaked.
            let inner = unsafe { &*container_of!(at, RecvInner, wr) };
            if !Arc::ptr_eq(&inner.buf.place.pd, pd) {
                return false;
            }
            inner.member.set_posted(true);
            at = inner.wr.next;
        }
        true
    }

    /// The requests, which become the caller's responsibility, and their number.
    pub(in crate::verbs) fn into_requests(self) -> (*mut bindings::ib_recv_wr, u32) {
        let this = ManuallyDrop::new(self);
        (this.first, this.count)
    }
}

impl Drop for RecvChain {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the requests were made by `into_request` and belong to
        // this value, so that they are not posted.
        unsafe { RecvBuffer::drop_requests(self.first) };
    }
}

/// Receives that can be posted: one thread adds them, others take all of them.
///
/// # Invariants
///
/// The nodes are requests made by [`RecvBuffer::into_request`], which belong to this value.
pub(in crate::verbs) struct RecvStack(Stack<bindings::ib_recv_wr>);

impl RecvStack {
    /// No Receives.
    pub(in crate::verbs) const fn new() -> Self {
        // INVARIANT: The stack is empty.
        Self(Stack::new())
    }

    /// Adds a Receive. A full barrier: loads after this are not older than the addition.
    #[inline]
    pub(in crate::verbs) fn push(&self, buf: RecvBuffer) {
        // INVARIANT: The request is followed by the chain that was on the stack.
        self.0.push(
            |first| buf.into_request(first),
            // SAFETY: The request belongs to the caller until it is on the stack.
            |request, first| unsafe { (*request).next = first },
        );
    }

    /// Takes all Receives.
    pub(in crate::verbs) fn take(&self) -> RecvChain {
        let first = self.0.take();
        let (mut count, mut at) = (0u32, first);

        while !at.is_null() {
            count = count.wrapping_add(1);
            // SAFETY: By the type invariants the requests of the chain belonged to the stack, and
            // belong to this function since the exchange.
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

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_recv)]
mod tests {
    use super::*;
    use crate::{
        bindings::{
            ib_cq,
            ib_wc, //
        },
        verbs::fake::Fake, //
    };

    /// # Safety
    ///
    /// None.
    unsafe extern "C" fn ignore(_: *mut ib_cq, _: *mut ib_wc) {}

    /// Receives of these lengths and editions.
    fn chain(pd: &Arc<Pd>, of: &[(u32, u32)]) -> Result<RecvChain> {
        let mut chain = RecvChain::new();
        for &(len, edition) in of {
            chain.push(RecvBuffer::new(pd, len, edition, ignore)?);
        }
        Ok(chain)
    }

    /// Each Receive has an edition, by which the others are taken out.
    #[test]
    fn editions() -> Result {
        let fake = Fake::new()?;
        let pd = fake.pd()?;

        for (edition, others, own) in [
            (0, (2, 320), (1, 128)),
            (1, (1, 128), (2, 320)),
            (2, (3, 448), (0, 0)),
        ] {
            let mut chain = chain(&pd, &[(64, 1), (256, 1), (128, 0)])?;
            let taken = chain.take_others(edition);
            assert_eq!((taken.count(), taken.bytes()), others);
            assert_eq!((chain.count(), chain.bytes()), own);
        }
        Ok(())
    }

    /// No more Receives move than another chain has, or than are wanted.
    #[test]
    fn moves() -> Result {
        let fake = Fake::new()?;
        let pd = fake.pd()?;

        for (most, left, moved) in [(0, 192, 64), (1, 64, 192), (2, 0, 256), (3, 0, 256)] {
            let mut from = chain(&pd, &[(64, 1), (128, 1)])?;
            let mut to = chain(&pd, &[(64, 0)])?;
            assert_eq!(to.take_from(&mut from, most), most.min(2));
            assert_eq!((from.bytes(), to.bytes()), (left, moved));
            assert_eq!(from.count().wrapping_add(to.count()), 3);
        }
        Ok(())
    }

    /// Receives that are posted are found without a completion, each once, and no others.
    #[test]
    fn posted() -> Result {
        let fake = Fake::new()?;
        let (pd, other) = (fake.pd()?, fake.pd()?);
        let (posted, free) = (chain(&pd, &[(64, 0), (64, 0)])?, chain(&pd, &[(64, 0)])?);

        assert!(!posted.set_posted(&other) && posted.set_posted(&pd));
        // The device has them now.
        let _ = posted.into_requests();
        for is_some in [true, true, false] {
            // SAFETY: The device of this test uses no request.
            let buf = unsafe { RecvBuffer::take_posted(&pd.receives().lock()) };
            assert_eq!(buf.is_some(), is_some);
        }
        assert_eq!(free.count(), 1);
        Ok(())
    }
}
