// SPDX-License-Identifier: GPL-2.0

//! Threads of a server, as they take a call and send a reply.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use crate::{
    bindings,
    os::{
        Pages,
        PAGE_SIZE, //
    },
    sunrpc::XdrBuf, //
};

/// A thread that takes a call.
///
/// # Invariants
///
/// `raw` is valid during `'r`, and belongs to the running thread, between `svc_alloc_arg()` and
/// `svc_process()`: `rq_pages` has `rq_maxpages` pages of the thread's own.
pub(crate) struct Incoming<'r> {
    raw: NonNull<bindings::svc_rqst>,
    _thread: PhantomData<&'r mut ()>,
}

/// The proof that a thread has the arguments of a call.
pub(crate) struct Arguments<'r> {
    len: u32,
    _thread: PhantomData<&'r mut ()>,
}

impl Arguments<'_> {
    /// Bytes of the arguments.
    pub(super) fn len(&self) -> u32 {
        self.len
    }
}

impl<'r> Incoming<'r> {
    /// Views `raw`.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    pub(super) unsafe fn new(raw: NonNull<bindings::svc_rqst>) -> Self {
        // INVARIANT: The safety requirements of this function are the invariants.
        Self {
            raw,
            _thread: PhantomData,
        }
    }

    /// Copies the arguments of a call into pages of the thread. `None` if they are too long.
    pub(crate) fn copy(self, message: &[u8]) -> Option<Arguments<'r>> {
        // SAFETY: By the type invariants the object is valid, and the running thread's.
        let rqst = unsafe { &mut *self.raw.as_ptr() };
        let len = u32::try_from(message.len()).ok()?;
        // The last page may be needed for a padded end.
        let pages = rqst.rq_maxpages.saturating_sub(1);
        // CAST: Widening.
        if len.div_ceil(PAGE_SIZE) as usize > pages {
            return None;
        }
        let (head, rest) = message.split_at(message.len().min(PAGE_SIZE as usize));
        // SAFETY: By the type invariants the first page is there, of the linear map, and the
        // thread's own; the head is at most a page long.
        let start = unsafe {
            let start: *mut u8 = bindings::page_start(*rqst.rq_pages).cast();
            core::ptr::copy_nonoverlapping(head.as_ptr(), start, head.len());
            start
        };
        // SAFETY: By the type invariants the array has more than one page.
        let behind = unsafe { rqst.rq_pages.add(1) };
        // CAST: Less than `len`.
        let rest_len = rest.len() as u32;
        let mut left = rest;
        // SAFETY: By the type invariants, and the comparison above, there is a page for each byte;
        // nothing else uses them.
        for mut span in unsafe { Pages::new(behind, 0, rest_len) } {
            // SAFETY: The pages are the thread's own, and the message is other memory.
            let written = unsafe { span.write(left) };
            left = left.get(written..).unwrap_or(&[]);
        }

        let arg = &mut rqst.rq_arg;
        arg.head[0].iov_base = start.cast();
        arg.head[0].iov_len = head.len();
        arg.pages = behind;
        arg.page_base = 0;
        arg.page_len = rest_len;
        arg.tail[0].iov_len = 0;
        arg.len = len;
        arg.buflen = len;
        Some(Arguments {
            len,
            _thread: PhantomData,
        })
    }
}

/// A thread that sends a reply.
///
/// # Invariants
///
/// `raw` is valid during `'r`, and belongs to the running thread, inside `svc_send()`: `rq_res` is
/// the encoded reply, whose head is in the first of `rq_respages`.
pub(crate) struct Outgoing<'r> {
    raw: NonNull<bindings::svc_rqst>,
    _thread: PhantomData<&'r mut ()>,
}

impl Outgoing<'_> {
    /// Views `raw`.
    ///
    /// # Safety
    ///
    /// The type invariants must hold.
    pub(super) unsafe fn new(raw: NonNull<bindings::svc_rqst>) -> Self {
        // INVARIANT: The safety requirements of this function are the invariants.
        Self {
            raw,
            _thread: PhantomData,
        }
    }

    /// The encoded reply.
    pub(crate) fn reply(&self) -> XdrBuf<'_> {
        // SAFETY: By the type invariants the object is valid, and the reply encoded: nothing
        // changes it before the thread has returned. Head and tail are in the first page.
        unsafe { XdrBuf::new(&self.raw.as_ref().rq_res) }
    }

    /// The reply was copied, so that its pages are free again. The thread keeps its first page for
    /// the next reply if this one has used no other.
    ///
    /// It must keep none of the others: they may be pages of a file, which the next reply would
    /// overwrite (H-151).
    pub(crate) fn copied(self) {
        // SAFETY: By the type invariants the object is valid, and the running thread's.
        let rqst = unsafe { &mut *self.raw.as_ptr() };

        if rqst.rq_next_page == rqst.rq_respages.wrapping_add(1) {
            rqst.rq_next_page = rqst.rq_respages;
        }
    }
}
