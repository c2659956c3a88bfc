// SPDX-License-Identifier: GPL-2.0

//! Views of a request's send and receive buffers.
//!
//! C header: [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h)

use crate::{
    bindings,
    os::{
        LinearRuns,
        Pages,
        PAGE_SIZE, //
    }, //
};

/// Bytes of XDR padding after `len` bytes of data.
#[inline]
pub(crate) fn pad_of(len: u32) -> u32 {
    len.wrapping_neg() & 3
}

/// A `struct xdr_buf`: a head, pages, and a tail.
///
/// # Invariants
///
/// The buffer is one of a request that sunrpc keeps unchanged while the view lives.
pub(crate) struct XdrBuf<'a>(&'a bindings::xdr_buf);

impl<'a> XdrBuf<'a> {
    /// Views `buf`.
    ///
    /// # Safety
    ///
    /// `buf` must be the well-formed buffer of a request, unchanged during `'a`, with head and tail
    /// in linear-map memory.
    #[inline]
    pub(super) unsafe fn new(buf: &'a bindings::xdr_buf) -> Self {
        // INVARIANT: By the safety requirements of this function it is such a buffer, unchanged as
        // long as the view.
        Self(buf)
    }

    /// Bytes in all.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.0.len
    }

    /// Capacity in bytes.
    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.0.buflen
    }

    /// Bytes in pages.
    #[inline]
    pub(crate) fn page_len(&self) -> u32 {
        self.0.page_len
    }

    /// Returns `true` if the pages of this call may move as a Read chunk.
    #[inline]
    pub(crate) fn may_be_read_chunk(&self) -> bool {
        self.0.flags & bindings::XDRBUF_WRITE != 0
    }

    /// Returns `true` if the pages of this reply may be filled as a Write chunk.
    #[inline]
    pub(crate) fn may_be_write_chunk(&self) -> bool {
        self.0.flags & bindings::XDRBUF_READ != 0
    }

    #[inline]
    fn kvec(kvec: &bindings::kvec) -> &'a [u8] {
        if kvec.iov_base.is_null() || kvec.iov_len == 0 {
            return &[];
        }
        // SAFETY: By the type invariants the vector describes readable memory that stays during
        // `'a`.
        unsafe { core::slice::from_raw_parts(kvec.iov_base.cast(), kvec.iov_len) }
    }

    /// The bytes before the pages.
    #[inline]
    pub(crate) fn head(&self) -> &'a [u8] {
        let [head] = &self.0.head;
        Self::kvec(head)
    }

    /// The bytes after the pages. If the page data needs padding, it stands at the front.
    #[inline]
    pub(crate) fn tail(&self) -> &'a [u8] {
        let [tail] = &self.0.tail;
        Self::kvec(tail)
    }

    /// Bytes before the pages. Unlike [`Self::head`] for buffers that are not written yet, too.
    #[inline]
    pub(crate) fn head_len(&self) -> usize {
        let [head] = &self.0.head;
        Self::kvec_len(head)
    }

    /// Bytes after the pages, as [`Self::head_len`].
    #[inline]
    pub(crate) fn tail_len(&self) -> usize {
        let [tail] = &self.0.tail;
        Self::kvec_len(tail)
    }

    #[inline]
    fn kvec_len(kvec: &bindings::kvec) -> usize {
        if kvec.iov_base.is_null() {
            0
        } else {
            kvec.iov_len
        }
    }

    /// The number of head and tail that are not empty.
    #[inline]
    pub(crate) fn kvecs(&self) -> u32 {
        u32::from(self.head_len() != 0).wrapping_add(u32::from(self.tail_len() != 0))
    }

    /// Returns `true` if head, pages and tail could stand in memory one behind the other, if only
    /// head and tail were elsewhere: the pages begin and, before a tail, end at the border of a
    /// page. A single part stands behind nothing.
    pub(crate) fn can_coalesce(&self) -> bool {
        let (base, len) = (self.0.page_base % PAGE_SIZE, self.0.page_len % PAGE_SIZE);

        match (self.kvecs(), self.page_len()) {
            (kvecs, 0) => kvecs > 1,
            (0, _) => false,
            _ => base == 0 && (len == 0 || self.tail_len() == 0),
        }
    }

    /// The memory of the head.
    pub(crate) fn head_runs(&self) -> LinearRuns<'a> {
        let [head] = &self.0.head;
        Self::runs(head)
    }

    /// The memory of the tail.
    pub(crate) fn tail_runs(&self) -> LinearRuns<'a> {
        let [tail] = &self.0.tail;
        Self::runs(tail)
    }

    fn runs(kvec: &'a bindings::kvec) -> LinearRuns<'a> {
        // SAFETY: By the type invariants the vector is linear-map memory, which stays as long as
        // the request.
        unsafe { LinearRuns::new(kvec.iov_base.cast(), Self::kvec_len(kvec)) }
    }

    /// The page data, page by page or run by run.
    #[inline(always)]
    pub(crate) fn pages(&self) -> Pages<'a> {
        // SAFETY: By the type invariants the array holds a page for every byte from `page_base` on,
        // `page_len` of them, and the pages stay as long as the request.
        unsafe { Pages::new(self.0.pages, self.0.page_base, self.0.page_len) }
    }

    /// Copies the whole message into `to`, without the pages (and their padding) if
    /// `without_pages`. Returns the bytes copied, or `None` when `to` is too small.
    #[inline(always)]
    pub(crate) fn copy_to(&self, to: &mut [u8], without_pages: bool) -> Option<u32> {
        let (head, mut tail) = (self.head(), self.tail());
        let (dst, mut to) = to.split_at_mut_checked(head.len())?;
        dst.copy_from_slice(head);
        let mut copied = head.len();

        if without_pages {
            // CAST: Widening.
            tail = tail.get(pad_of(self.0.page_len) as usize..).unwrap_or(&[]);
        } else if self.0.page_len != 0 {
            for span in self.pages() {
                // CAST: Widening.
                let (dst, rest) = to.split_at_mut_checked(span.len() as usize)?;
                copied = span.read(dst).saturating_add(copied);
                to = rest;
            }
        }
        if !tail.is_empty() {
            to.get_mut(..tail.len())?.copy_from_slice(tail);
            copied = copied.checked_add(tail.len())?;
        }
        u32::try_from(copied).ok()
    }
}

impl XdrBuf<'_> {
    /// Copies `len` bytes of the message from byte `at` on into the front of `to`. Returns the rest
    /// of `to`, or `None` when it is too small or the message too short.
    pub(crate) fn copy_part<'t>(
        &self,
        at: u32,
        len: u32,
        to: &'t mut [u8],
    ) -> Option<&'t mut [u8]> {
        // CAST: Widening.
        let (mut skip, len) = (at as usize, len as usize);
        let (part, rest) = to.split_at_mut_checked(len)?;
        let mut part = part;

        part = copy_behind(self.head(), &mut skip, part);
        // CAST: Widening.
        let skipped = skip.min(self.page_len() as usize);
        let mut pages = self.pages();
        // CAST: Not more than the length of the pages.
        pages.leave_out(skipped as u32);
        skip = skip.saturating_sub(skipped);
        for span in pages {
            if part.is_empty() {
                break;
            }
            let copied = span.read(part);
            part = part.get_mut(copied..)?;
        }
        part = copy_behind(self.tail(), &mut skip, part);
        part.is_empty().then_some(rest)
    }
}

/// Copies as much of `from` behind its first `skip` bytes as fits into `to`. Returns the rest of
/// `to`, and leaves the bytes that are still to be skipped in `skip`.
fn copy_behind<'t>(from: &[u8], skip: &mut usize, to: &'t mut [u8]) -> &'t mut [u8] {
    let skipped = (*skip).min(from.len());
    let from = from.get(skipped..).unwrap_or(&[]);
    let len = from.len().min(to.len());

    *skip = skip.saturating_sub(skipped);
    let (Some((part, rest)), Some(from)) = (to.split_at_mut_checked(len), from.get(..len)) else {
        return &mut [];
    };
    part.copy_from_slice(from);
    rest
}

/// The `struct xdr_buf` of a reply, to write into: its parts need not have been written yet.
///
/// # Invariants
///
/// The buffer is one of a request that sunrpc keeps while the view lives: a part that has a length
/// has as much linear-map memory, or as many pages. Nothing else uses that memory during this time.
pub(super) struct XdrBufMut<'a>(&'a bindings::xdr_buf);

impl<'a> XdrBufMut<'a> {
    /// Views `buf`.
    ///
    /// # Safety
    ///
    /// The type invariants must hold during `'a`.
    #[inline]
    pub(super) unsafe fn new(buf: &'a bindings::xdr_buf) -> Self {
        // INVARIANT: The safety requirements of this function are the invariants.
        Self(buf)
    }

    /// Total capacity in bytes.
    #[inline]
    pub(super) fn capacity(&self) -> u32 {
        self.0.buflen
    }

    /// Capacity before the pages, in bytes.
    #[inline]
    pub(super) fn head_room(&self) -> usize {
        let [head] = &self.0.head;
        head.iov_len
    }

    /// Capacity of the pages, in bytes.
    #[inline]
    pub(super) fn page_len(&self) -> u32 {
        self.0.page_len
    }

    /// Copies as much of `from` into the head as fits. Returns the number of bytes copied.
    #[inline]
    pub(super) fn write_head(&mut self, from: &[u8]) -> usize {
        let [head] = &self.0.head;
        self.write(head, 0, from)
    }

    /// Copies as much of `from` into the pages as fits, behind the first `skip` bytes there.
    /// Returns the number of bytes copied.
    pub(super) fn write_pages(&mut self, skip: u32, from: &[u8]) -> usize {
        let mut pages = XdrBuf(self.0).pages();
        let mut rest = from;

        pages.leave_out(skip);
        for mut span in pages {
            if rest.is_empty() {
                break;
            }
            // SAFETY: By the type invariants nothing else uses the pages, so that `from` is other
            // memory.
            let written = unsafe { span.write(rest) };
            rest = rest.get(written..).unwrap_or(&[]);
        }
        from.len().saturating_sub(rest.len())
    }

    /// Copies as much of `from` into the tail as fits, from its byte `at` on. Returns the number of
    /// bytes copied.
    pub(super) fn write_tail(&mut self, at: usize, from: &[u8]) -> usize {
        let [tail] = &self.0.tail;
        self.write(tail, at, from)
    }

    #[inline]
    fn write(&mut self, to: &bindings::kvec, at: usize, from: &[u8]) -> usize {
        let len = from.len().min(to.iov_len.saturating_sub(at));

        if len != 0 {
            // SAFETY: By the type invariants the part has memory for its length, which `at + len`
            // does not exceed, and nothing else uses it; so `from` is other memory.
            unsafe {
                let to = to.iov_base.cast::<u8>().add(at);
                core::ptr::copy_nonoverlapping(from.as_ptr(), to, len);
            }
        }
        len
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_xdr_buf)]
mod tests {
    use super::*;
    use crate::os::Runs;

    /// V1-74: when the pages move as a Read chunk, their padding, which the encoder puts in front
    /// of the tail, does not stay behind in the message.
    #[test]
    fn padding_goes_with_the_pages() {
        let kept: [(u32, &[u8]); 4] = [
            (5000, b"padddata"),
            (5001, b"ddata"),
            (5002, b"dddata"),
            (5003, b"adddata"),
        ];
        for (page_len, kept) in kept {
            let (head, tail) = (*b"head", *b"padddata");
            let buf = raw(&head, &tail, page_len);
            // SAFETY: The parts outlive the view, and nothing looks at the pages.
            let buf = unsafe { XdrBuf::new(&buf) };
            let mut to = [0; 16];

            let copied = buf.copy_to(&mut to, true);
            let message = copied.and_then(|len| to.get(..len as usize));
            assert_eq!(message.and_then(|m| m.strip_prefix(b"head")), Some(kept));
        }
    }

    /// PD-18: a message that does not fit is not cut.
    #[test]
    fn too_long_for_the_buffer() {
        let (head, tail) = (*b"head", *b"tail");
        let buf = raw(&head, &tail, 0);
        // SAFETY: The parts outlive the view.
        let buf = unsafe { XdrBuf::new(&buf) };

        assert_eq!(buf.copy_to(&mut [0; 8], false), Some(8));
        assert_eq!(buf.copy_to(&mut [0; 7], false), None);
        assert_eq!(buf.copy_to(&mut [0; 3], false), None);
        assert_eq!(buf.copy_to(&mut [], true), None);
    }

    /// H-40: an empty part is no part of a chunk.
    #[test]
    fn empty_parts() {
        let buf = raw(b"", b"", 0);
        // SAFETY: The parts outlive the view.
        let buf = unsafe { XdrBuf::new(&buf) };

        assert_eq!(buf.kvecs(), 0);
        assert!(buf.head_runs().offset().is_none());
        assert!(buf.tail_runs().offset().is_none());
        assert!(buf.pages().offset().is_none());
    }

    /// V1-47, V1-99: the parts of a message in one piece have no gap between them.
    #[test]
    fn joinable() {
        let pages = |base, len, tail: &[u8]| {
            let mut buf = raw(b"head", tail, len);
            buf.page_base = base;
            // SAFETY: The parts are constants, and nothing looks at the pages.
            unsafe { XdrBuf::new(&buf) }.can_coalesce()
        };

        assert!(pages(0, 2 * PAGE_SIZE, b"tail"));
        assert!(pages(PAGE_SIZE, PAGE_SIZE, b"tail"));
        assert!(pages(0, 5000, b""));
        assert!(pages(100, 0, b"tail"));
        assert!(!pages(0, 5000, b"tail"));
        assert!(!pages(4, 2 * PAGE_SIZE, b"tail"));
        assert!(!pages(4, PAGE_SIZE - 4, b""));
        // One part alone needs no memory elsewhere.
        assert!(!pages(0, 0, b""));
        let buf = raw(b"", b"", PAGE_SIZE);
        // SAFETY: The parts are constants, and nothing looks at the pages.
        assert!(!unsafe { XdrBuf::new(&buf) }.can_coalesce());
    }

    /// H-23: as much of a reply is written as fits, and nothing beside it.
    #[test]
    fn writes_no_further_than_the_part() {
        let (mut head, mut tail) = (*b"........", *b"........");
        let mut buf = raw(&[], &[], 0);
        buf.head[0].iov_base = head.as_mut_ptr().cast();
        buf.head[0].iov_len = 4;
        buf.tail[0].iov_base = tail.as_mut_ptr().cast();
        buf.tail[0].iov_len = 6;
        // SAFETY: The parts are not used but through the view while it lives.
        let mut buf = unsafe { XdrBufMut::new(&buf) };

        assert_eq!(buf.write_head(b"abcdef"), 4);
        assert_eq!(buf.write_tail(3, b"uvwxyz"), 3);
        assert_eq!(buf.write_tail(6, b"x"), 0);
        assert_eq!(buf.write_tail(usize::MAX, b"x"), 0);
        assert_eq!(buf.write_pages(0, b"x"), 0);
        assert_eq!(&head, b"abcd....");
        assert_eq!(&tail, b"...uvw..");
    }

    /// RFC 4506 section 4: everything is a multiple of four bytes.
    #[test]
    fn pads() {
        for (len, pad) in [
            (0, 0),
            (1, 3),
            (2, 2),
            (3, 1),
            (4, 0),
            (4097, 3),
            (u32::MAX, 1),
        ] {
            assert_eq!(pad_of(len), pad);
        }
    }

    fn raw(head: &[u8], tail: &[u8], page_len: u32) -> bindings::xdr_buf {
        let mut buf: bindings::xdr_buf = pin_init::zeroed();

        buf.head[0].iov_base = head.as_ptr().cast_mut().cast();
        buf.head[0].iov_len = head.len();
        buf.tail[0].iov_base = tail.as_ptr().cast_mut().cast();
        buf.tail[0].iov_len = tail.len();
        buf.page_len = page_len;
        buf
    }
}
