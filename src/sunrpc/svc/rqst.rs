// SPDX-License-Identifier: GPL-2.0

//! Threads of a server, as they take a call and send a reply.

use core::{
    marker::PhantomData,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

use kernel::prelude::*;

use super::{
    layout::Place,
    Layout, //
};
use crate::{
    bindings,
    os::{
        PageSet,
        Pages,
        Private,
        Shared,
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
        let (head, rest) = message.split_at_checked(message.len().min(PAGE_SIZE as usize))?;
        // SAFETY: By the type invariants the first page is there, of the linear map, and the
        // thread's own; the head is at most a page long.
        unsafe {
            let start: *mut u8 = bindings::page_start(*rqst.rq_pages).cast();
            core::ptr::copy_nonoverlapping(head.as_ptr(), start, head.len());
        }
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

        // SAFETY: The pages have the bytes, as copied above.
        Some(unsafe { self.arguments(len) })
    }

    /// Takes the pages of a call in exchange for as many of the thread's own, which are freed. The
    /// arguments are the first `len` bytes. `None` if they are too long.
    pub(crate) fn exchange(self, mut pages: PageSet<Private>, len: u32) -> Option<Arguments<'r>> {
        // SAFETY: By the type invariants the object is valid, and the running thread's.
        let rqst = unsafe { &mut *self.raw.as_ptr() };
        let most = rqst.rq_maxpages.saturating_sub(1);

        // CAST: Widening.
        if pages.len() > most || len.div_ceil(PAGE_SIZE) as usize > pages.len() {
            return None;
        }
        for index in 0..pages.len() {
            // SAFETY: By the type invariants and the comparison above the array has such a page, of
            // the thread's own, which is not null. The references to both move.
            unsafe {
                let place = rqst.rq_pages.add(index);
                let own = NonNull::new_unchecked(*place);
                *place = pages.replace(index, own).as_ptr();
            }
        }
        // SAFETY: By the comparison above the pages have the bytes.
        Some(unsafe { self.arguments(len) })
    }

    /// Describes the arguments: the first page, and those behind it.
    ///
    /// # Safety
    ///
    /// The pages of the thread must have `len` bytes.
    unsafe fn arguments(self, len: u32) -> Arguments<'r> {
        // SAFETY: By the type invariants the object is valid, and the running thread's.
        let rqst = unsafe { &mut *self.raw.as_ptr() };
        let head = len.min(PAGE_SIZE);
        let arg = &mut rqst.rq_arg;

        // SAFETY: By the type invariants the first page is there, of the linear map.
        arg.head[0].iov_base = unsafe { bindings::page_start(*rqst.rq_pages) };
        // CAST: Widening.
        arg.head[0].iov_len = head as usize;
        arg.pages = rqst.rq_pages.wrapping_add(1);
        arg.page_base = 0;
        arg.page_len = len.saturating_sub(head);
        arg.tail[0].iov_len = 0;
        arg.len = len;
        arg.buflen = len;
        Arguments {
            len,
            _thread: PhantomData,
        }
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

    /// Returns `true` if the reply is protected by RPCSEC_GSS integrity or privacy: these, and no
    /// other flavours, need room behind a reply.
    pub(crate) fn is_wrapped(&self) -> bool {
        // SAFETY: By the type invariants the object is valid, and the running thread's.
        unsafe { (*self.raw.as_ptr()).rq_auth_slack != 0 }
    }

    /// The number of the first page of the reply's pages, and of the first one behind them; `None`
    /// if they are not of the array of the thread, or none.
    fn in_pages(&self) -> Option<(u32, u32)> {
        // SAFETY: By the type invariants the object is valid.
        let rqst = unsafe { self.raw.as_ref() };
        let res = &rqst.rq_res;
        let bytes = res.pages.addr().checked_sub(rqst.rq_respages.addr())?;
        let first = u32::try_from(bytes.checked_div(size_of::<*mut bindings::page>())?).ok()?;
        let len = res.page_base.checked_add(res.page_len)?.div_ceil(PAGE_SIZE);
        let end = first.checked_add(len)?;
        // CAST: Widening.
        let most = rqst.rq_maxpages as u64;

        (res.page_len != 0 && first != 0 && u64::from(end) <= most).then_some((first, end))
    }

    /// The pages that the reply uses. nfsd counts them before RPCSEC_GSS appends its checksum,
    /// which may begin a page that `rq_next_page` does not count.
    fn used(&self) -> &[*mut bindings::page] {
        let (_, end) = self.in_pages().unwrap_or((0, 0));
        // SAFETY: By the type invariants the object is valid, and the running thread's; both
        // pointers are into its array, the second not before the first, and `end` is not behind the
        // end of the array.
        unsafe {
            let rqst = self.raw.as_ref();
            let count = rqst.rq_next_page.offset_from(rqst.rq_respages);
            // CAST: Widening.
            let count = usize::try_from(count).unwrap_or(0).max(end as usize);
            core::slice::from_raw_parts(rqst.rq_respages, count)
        }
    }

    /// The places of the reply's bytes in the pages that [`Self::detach`] takes. `None` if some are
    /// elsewhere.
    pub(crate) fn layout(&self) -> Option<Layout> {
        // SAFETY: By the type invariants the object is valid.
        let res = unsafe { &self.raw.as_ref().rq_res };
        let used = self.used();
        let first = *used.first()?;
        // SAFETY: By the type invariants the first page is there, of the linear map.
        let start = unsafe { bindings::page_start(first) }.addr();
        let in_first = |kvec: &bindings::kvec| {
            let len = u32::try_from(kvec.iov_len).ok()?;
            if len == 0 {
                return Some(Place::default());
            }
            let at = u32::try_from(kvec.iov_base.addr().checked_sub(start)?).ok()?;
            (at.checked_add(len)? <= PAGE_SIZE).then_some(Place { at, len })
        };
        let ([head], [tail]) = (&res.head, &res.tail);
        let (head, tail) = (in_first(head)?, in_first(tail)?);
        let mut pages = Place::default();
        if res.page_len != 0 {
            let (first, _) = self.in_pages()?;
            pages = Place {
                at: first.checked_mul(PAGE_SIZE)?.checked_add(res.page_base)?,
                len: res.page_len,
            };
        }
        Some(Layout([head, pages, tail]))
    }

    /// Takes the pages of the reply. They may be pages of a file, so that they are only read.
    ///
    /// # Errors
    ///
    /// Itself, without memory for the list of them.
    pub(crate) fn detach(self) -> Result<PageSet<Shared>, Self> {
        let count = self.used().len();
        let is_complete = self.used().iter().all(|page| !page.is_null());
        let Ok(mut pages) = PageSet::with_capacity(count, GFP_KERNEL) else {
            return Err(self);
        };
        if !is_complete {
            return Err(self);
        }
        // SAFETY: By the type invariants the object is valid, and the running thread's; the pages
        // are of its array. The core allocates new ones in front of `rq_next_page`.
        unsafe {
            let rqst = &mut *self.raw.as_ptr();
            rqst.rq_next_page = rqst.rq_respages.add(count);
        }
        for index in 0..count {
            // SAFETY: By the type invariants the object is valid, and the running thread's. The
            // entry is one of the array, and not null; the reference that the thread has by it
            // moves to the set. Pages of a reply are of the linear map or of the page cache.
            unsafe {
                let place = (*self.raw.as_ptr()).rq_respages.add(index);
                let page = core::mem::replace(&mut *place, null_mut());
                // Cannot fail: the set has room for them.
                let _ = pages.push(NonNull::new_unchecked(page));
            }
        }
        Ok(pages)
    }
}
