// SPDX-License-Identifier: GPL-2.0

//! Arrays of work requests and their elements.

use core::{
    mem::offset_of,
    ptr::NonNull, //
};

use kernel::{
    container_of,
    ffi::c_int,
    prelude::*, //
};

use super::split::{
    Element,
    ORDERS, //
};
use crate::{
    bindings,
    os::series::EMSGSIZE,
    verbs::{
        completion::TransferCallbacks,
        posted::Member, //
    }, //
};

/// Work requests with their elements, part of a chain of blocks with a load of type `L`. The
/// completion entry of the chain's last request comes first: the completion leads back to the first
/// block of its chain by it.
///
/// # Invariants
///
/// The first `used` requests of `requests` are filled in. The elements of each are its own of
/// `elements`, whose allocation does not move.
#[repr(C)]
pub(super) struct Block<L> {
    cqe: bindings::ib_cqe,
    /// For all other requests.
    inner: bindings::ib_cqe,
    /// Its place in the list of its pool.
    pub(super) member: Member,
    /// The next block of the chain, or of the list of free ones.
    pub(super) next: Option<KBox<Block<L>>>,
    requests: KVec<bindings::ib_rdma_wr>,
    used: usize,
    elements: KVec<bindings::ib_sge>,
    /// Elements of each request.
    most: usize,
    /// The index of its number of requests in [`ORDERS`].
    pub(super) order: usize,
    /// All else that the requests use, in the first block of a chain.
    pub(super) load: Option<L>,
}

// SAFETY: The raw pointers inside lead only into allocations of the block and its chain, whose
// loads are `Send`.
unsafe impl<L: Send> Send for Block<L> {}

impl<L> Block<L> {
    /// A block of order `order`, for requests of up to `most` elements.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another order, `ENOMEM`.
    pub(super) fn new(
        order: usize,
        most: u32,
        callbacks: &TransferCallbacks,
    ) -> Result<KBox<Self>> {
        // CAST: Widening.
        let (count, most) = (*ORDERS.get(order).ok_or(EINVAL)? as usize, most as usize);
        let all = count.checked_mul(most).ok_or(EINVAL)?;
        let mut requests = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            requests.push_within_capacity(pin_init::zeroed())?;
        }
        let mut elements = KVec::with_capacity(all, GFP_KERNEL)?;
        for _ in 0..all {
            elements.push_within_capacity(pin_init::zeroed())?;
        }

        // INVARIANT: No request is filled in.
        Ok(KBox::new(
            Self {
                cqe: bindings::ib_cqe {
                    done: Some(callbacks.last),
                },
                inner: bindings::ib_cqe {
                    done: Some(callbacks.inner),
                },
                member: Member::new(),
                next: None,
                requests,
                used: 0,
                elements,
                most,
                order,
                load: None,
            },
            GFP_KERNEL,
        )?)
    }

    /// The block whose place in the list of its pool is `member`.
    ///
    /// # Safety
    ///
    /// It must be the field of a block with this type of load.
    pub(super) unsafe fn of_member(member: NonNull<Member>) -> NonNull<Self> {
        // SAFETY: By the safety requirements of this function it is the field of such a block.
        let block: *mut Self = unsafe { container_of!(member.as_ptr(), Self, member) };
        // SAFETY: The field of a block is behind the start of it, which is not null.
        unsafe { NonNull::new_unchecked(block) }
    }

    /// Makes all requests free.
    pub(super) fn reset(&mut self) {
        // INVARIANT: No request is filled in.
        self.used = 0;
    }

    /// Returns `true` if all requests are filled in.
    pub(super) fn is_full(&self) -> bool {
        self.used >= self.requests.len()
    }

    /// Fills in a request without elements, for the peer's memory at `offset` of `handle`.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the block is full.
    fn begin(&mut self, opcode: bindings::ib_wr_opcode, handle: u32, offset: u64) -> Result {
        let inner = &raw mut self.inner;
        let first = self.used.checked_mul(self.most).ok_or(EMSGSIZE)?;
        let elements = self.elements.get_mut(first..).ok_or(EMSGSIZE)?.as_mut_ptr();
        let request = self.requests.get_mut(self.used).ok_or(EMSGSIZE)?;

        request.remote_addr = offset;
        request.rkey = handle;
        request.wr.opcode = opcode;
        request.wr.send_flags = 0;
        request.wr.sg_list = elements;
        request.wr.num_sge = 0;
        // SAFETY: Writes the union field that kernel consumers use.
        unsafe { *request.wr.__bindgen_anon_1.wr_cqe.as_mut() = inner };
        // INVARIANT: The request was filled in above. No sum wraps around: it is an index.
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// The request that was filled in last.
    fn last(&mut self) -> Option<&mut bindings::ib_rdma_wr> {
        self.requests.get_mut(self.used.checked_sub(1)?)
    }

    /// Adds `element`, which may be the first of a request with `opcode`. `lkey` is the key to our
    /// memory.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the block has no room for it.
    pub(super) fn add(
        &mut self,
        element: &Element,
        opcode: bindings::ib_wr_opcode,
        lkey: u32,
    ) -> Result {
        if element.is_first {
            self.begin(opcode, element.handle, element.offset)?;
        }
        let most = self.most;
        let before = self.used.checked_sub(1).ok_or(EMSGSIZE)?;
        let request = self.last().ok_or(EMSGSIZE)?;
        let count = usize::try_from(request.wr.num_sge)?;
        if count >= most {
            return Err(EMSGSIZE);
        }
        // No sum wraps around: a request has few elements.
        request.wr.num_sge = request.wr.num_sge.wrapping_add(1);
        let first = before.checked_mul(most).ok_or(EMSGSIZE)?;
        let at = first.checked_add(count).ok_or(EMSGSIZE)?;

        *self.elements.get_mut(at).ok_or(EMSGSIZE)? = bindings::ib_sge {
            addr: element.run.addr,
            length: element.run.length,
            lkey,
        };
        Ok(())
    }

    /// Makes the RDMA Read that was filled in last invalidate `handle` of ours when it completes.
    pub(super) fn invalidate(&mut self, handle: u32) {
        if let Some(request) = self.last() {
            request.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
            // SAFETY: Writes the union field of this kind of request.
            unsafe { *request.wr.ex.invalidate_rkey.as_mut() = handle };
        }
    }

    /// Links the requests of the chain of blocks that begins here, in front of `behind`. Without
    /// that the last one of them is signalled, and completes to the entry of this block.
    /// Returns the first.
    pub(super) fn link(&mut self, behind: *mut bindings::ib_send_wr) -> *mut bindings::ib_send_wr {
        let cqe = &raw mut self.cqe;
        let mut first = core::ptr::null_mut();
        let mut last: Option<&mut bindings::ib_send_wr> = None;
        let mut at = Some(self);

        while let Some(block) = at {
            let Self {
                requests,
                used,
                next,
                ..
            } = block;
            for request in requests.iter_mut().take(*used) {
                let wr = &raw mut request.wr;
                match last.take() {
                    Some(last) => last.next = wr,
                    None => first = wr,
                }
                last = Some(&mut request.wr);
            }
            at = next.as_deref_mut();
        }
        let Some(last) = last else {
            return behind;
        };
        last.next = behind;
        if behind.is_null() {
            last.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED as c_int;
            // SAFETY: Writes the union field that kernel consumers use.
            unsafe { *last.__bindgen_anon_1.wr_cqe.as_mut() = cqe };
        }
        first
    }

    /// The entry for the completion of the chain that begins here.
    pub(super) fn entry(&mut self) -> *mut bindings::ib_cqe {
        const { assert!(offset_of!(Self, cqe) == 0) };
        &raw mut self.cqe
    }

    /// The requests that are filled in, with their elements.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(super) fn filled(&self) -> impl Iterator<Item = &bindings::ib_rdma_wr> {
        self.requests.iter().take(self.used)
    }
}
