// SPDX-License-Identifier: GPL-2.0

//! The lives of transfers, on a device that is memory only.

#[kernel::macros::kunit_tests(rpcrdma_transfers)]
// Small numbers.
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
mod tests {
    use core::ptr::{
        null_mut,
        NonNull, //
    };

    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    use super::super::{
        pages::Direction,
        pool::{
            Block,
            Memory, //
        },
        post::completed,
        Admitted,
        FromPeer,
        Range,
        Remote,
        ToPeer,
        Transfer,
        TransferSize,
        Transfers, //
    };
    use crate::{
        bindings,
        os::{
            PageSet,
            Private,
            PAGE_SIZE, //
        },
        verbs::{
            completion::TransferCallbacks,
            fake::{
                Fake,
                LKEY, //
            }, //
        }, //
    };

    /// Entries of the send queue.
    const ENTRIES: u32 = 20;

    /// Bytes of each page that are written or read.
    const BYTES: u32 = PAGE_SIZE - 8;

    const SIZE: TransferSize = TransferSize {
        entries: ENTRIES,
        write_elements: 2,
        read_elements: 2,
        first: [2, 1, 1],
        most: 25,
    };

    static CALLBACKS: TransferCallbacks = TransferCallbacks {
        last: ignore,
        inner: ignore,
    };

    /// # Safety
    ///
    /// None.
    unsafe extern "C" fn ignore(_: *mut bindings::ib_cq, _: *mut bindings::ib_wc) {}

    fn pool(fake: &Fake) -> Result<Arc<Transfers>> {
        Transfers::make(NonNull::dangling(), fake.pd()?, &CALLBACKS, &SIZE, None)
    }

    /// Pages, the first of which the test has a reference to as well.
    fn pages(count: usize) -> Result<(PageSet<Private>, Reference)> {
        let mut set = PageSet::with_capacity(count, GFP_KERNEL)?;
        set.fill(count)?;
        let page = set.page(0).ok_or(EINVAL)?;
        // SAFETY: The set has a reference.
        unsafe { bindings::page_get(page.as_ptr()) };
        Ok((set, Reference(page)))
    }

    /// A reference to a page.
    struct Reference(NonNull<bindings::page>);

    impl Reference {
        /// Returns `true` if a set has another one.
        fn is_owned(&self) -> bool {
            // SAFETY: This value has a reference.
            (unsafe { bindings::page_refs(self.0.as_ptr()) }) == 2
        }
    }

    impl Drop for Reference {
        fn drop(&mut self) {
            // SAFETY: The reference is this value's.
            unsafe { bindings::page_put(self.0.as_ptr()) };
        }
    }

    /// Bytes of `pages` pages, none of which follow those before in memory.
    fn apart(pages: u32) -> impl Iterator<Item = Range> + Clone {
        (0..pages).map(|page| Range {
            at: page * PAGE_SIZE,
            len: BYTES,
        })
    }

    fn segment(length: u32) -> Remote {
        Remote {
            handle: 3,
            length,
            offset: 1 << 40,
        }
    }

    /// RDMA Writes of `pages` pages, with the test's reference to one of them.
    fn writes(pool: &Arc<Transfers>, pages: u32) -> Result<(Transfer<ToPeer>, Reference)> {
        let (set, page) = self::pages(pages as usize)?;
        let remotes = [segment(pages * BYTES)].into_iter();
        let made = pool.write(set.into_shared(), apart(pages), remotes);
        Ok((made.map_err(|failed| failed.error)?, page))
    }

    /// Admits and leaves a transfer to the device. Returns its first request.
    fn post<D: Direction>(transfer: Transfer<D>) -> Result<*mut bindings::ib_send_wr> {
        let admitted: Admitted<D> = transfer.admit().map_err(|_| ENOMEM)?;
        Ok(admitted.leave(5))
    }

    /// The last request of a chain, and the number of all.
    fn last(first: *mut bindings::ib_send_wr) -> (*mut bindings::ib_send_wr, u32) {
        let (mut last, mut count) = (first, 1);
        // SAFETY: The requests are valid until they complete.
        while let Some(next) = NonNull::new(unsafe { (*last).next }) {
            (last, count) = (next.as_ptr(), count + 1);
        }
        (last, count)
    }

    /// The completion entry of a request.
    fn entry(request: *mut bindings::ib_send_wr) -> *mut bindings::ib_cqe {
        // SAFETY: The request is valid until it completes, and has an entry.
        unsafe { *(*request).__bindgen_anon_1.wr_cqe.as_ref() }
    }

    /// The requests are those that the split has planned: each page an element, two of them in a
    /// request, one segment, the last one signalled.
    #[test]
    fn requests() -> Result {
        let fake = Fake::new()?;
        let pool = pool(&fake)?;
        let (transfer, page) = writes(&pool, 5)?;

        assert_eq!(transfer.entries(), 3);
        let mut offset = 1 << 40;
        for request in transfer.blocks().flat_map(Block::filled) {
            let count = request.wr.num_sge as u32;
            assert_eq!((request.rkey, request.remote_addr), (3, offset));
            assert_eq!(request.wr.opcode, bindings::ib_wr_opcode_IB_WR_RDMA_WRITE);
            // SAFETY: The request has as many elements.
            let elements =
                unsafe { core::slice::from_raw_parts(request.wr.sg_list, count as usize) };
            for element in elements {
                assert_eq!((element.length, element.lkey), (BYTES, LKEY));
            }
            offset += u64::from(count * BYTES);
        }
        assert_eq!(offset, (1 << 40) + u64::from(5 * BYTES));

        let first = post(transfer)?;
        let (last, count) = last(first);
        assert_eq!(count, 3);
        // SAFETY: The requests are valid until they complete.
        let flags = unsafe { [(*first).send_flags, (*last).send_flags] };
        let signalled = bindings::ib_send_flags_IB_SEND_SIGNALED as kernel::ffi::c_int;
        assert_eq!(flags, [0, signalled]);
        assert!(entry(first) != entry(last) && page.is_owned());
        // SAFETY: The device of this test uses no request.
        assert!(unsafe { completed(entry(last)) }.is_some());
        Ok(())
    }

    /// H-121, H-122, H-125: posted pages are the device's until the last request has completed;
    /// then they and the room in the send queue come back, once, with the number.
    #[test]
    fn completion() -> Result {
        let fake = Fake::new()?;
        let pool = pool(&fake)?;
        let (transfer, page) = writes(&pool, 5)?;
        assert_eq!(pool.budget().left(), ENTRIES);

        let first = post(transfer)?;
        assert_eq!(pool.budget().left(), ENTRIES - 3);
        // SAFETY: The device of this test uses no request.
        let done = unsafe { completed(entry(last(first).0)) }.ok_or(EINVAL)?;
        assert_eq!(pool.budget().left(), ENTRIES);
        assert!(done.context == 5 && done.send.is_none() && page.is_owned());
        let Memory::Source(mapped) = done.memory else {
            return Err(EINVAL);
        };
        let set = mapped.unmap();
        assert!(set.len() == 5 && page.is_owned());
        drop(set);
        assert!(!page.is_owned());
        Ok(())
    }

    /// H-124: a transfer that is dropped before it is posted frees its pages and its room.
    #[test]
    fn unposted() -> Result {
        let fake = Fake::new()?;
        let pool = pool(&fake)?;

        let (transfer, page) = writes(&pool, 2)?;
        drop(transfer);
        assert!(!page.is_owned());
        let (transfer, page) = writes(&pool, 2)?;
        let admitted = transfer.admit().map_err(|_| ENOMEM)?;
        assert_eq!(pool.budget().left(), ENTRIES - 1);
        drop(admitted);
        assert!(!page.is_owned());
        assert_eq!(pool.budget().left(), ENTRIES);
        Ok(())
    }

    /// H-122: pages whose completion never comes are freed after the drain, and stay until then.
    #[test]
    fn drain() -> Result {
        let fake = Fake::new()?;
        let pool = pool(&fake)?;
        let (one, two) = (writes(&pool, 9)?, writes(&pool, 2)?);

        // The handle of the test may be dropped before.
        let _ = post(one.0)?;
        let _ = post(two.0)?;
        assert!(one.1.is_owned() && two.1.is_owned());
        // SAFETY: The device of this test uses no request.
        unsafe { pool.free_posted() };
        assert!(!one.1.is_owned() && !two.1.is_owned());
        assert_eq!(pool.budget().left(), ENTRIES);
        Ok(())
    }

    /// H-110, H-126: a transfer that finds no room is the caller's again, and finds it later.
    #[test]
    fn room() -> Result {
        let fake = Fake::new()?;
        let pool = pool(&fake)?;
        let (first, _page) = writes(&pool, 32)?;
        let (second, page) = writes(&pool, 10)?;

        let first = post(first)?;
        assert_eq!(pool.budget().left(), 4);
        let Err(second) = second.admit() else {
            return Err(EINVAL);
        };
        assert!(page.is_owned());
        // SAFETY: The device of this test uses no request.
        drop(unsafe { completed(entry(last(first).0)) });
        assert!(second.admit().is_ok());
        Ok(())
    }

    /// H-133: a transfer that could never find room is refused, and so is one for which the blocks,
    /// the segments or the pages are too few. The pages come back each time.
    #[test]
    fn refusals() -> Result {
        let fake = Fake::new()?;
        let pool = pool(&fake)?;

        for (pages, length, error) in [
            (4, 4 * BYTES - 1, crate::os::series::EMSGSIZE),
            (42, 42 * BYTES, crate::os::series::EMSGSIZE),
            (0, PAGE_SIZE, EINVAL),
        ] {
            let (set, page) = self::pages(42)?;
            let remotes = [segment(length)].into_iter();
            let failed = pool.write(set.into_shared(), apart(pages), remotes);
            let failed = failed.err().ok_or(EINVAL)?;
            assert_eq!(failed.error, error);
            assert!(failed.pages.len() == 42 && page.is_owned());
        }
        let (set, _page) = self::pages(1)?;
        let remotes = [segment(2 * PAGE_SIZE)].into_iter();
        let failed = pool.read(set, apart(2), remotes).err().ok_or(EINVAL)?;
        assert_eq!(failed.error, EINVAL);

        // All blocks are in use.
        let blocks = [writes(&pool, 32)?, writes(&pool, 8)?];
        let failed = writes(&pool, 6).err();
        assert_eq!(failed, Some(crate::os::series::ENOBUFS));
        drop(blocks);
        assert!(writes(&pool, 6).is_ok());
        Ok(())
    }

    /// More blocks are allocated up to the limit.
    #[test]
    fn growth() -> Result {
        let fake = Fake::new()?;
        let pool = pool(&fake)?;

        assert_eq!(pool.allocated(), 22);
        assert!(pool.grow(3).is_err());
        pool.grow(1)?;
        assert_eq!(pool.allocated(), 23);
        Ok(())
    }

    /// RDMA Reads return the pages with the data that came.
    #[test]
    fn reads() -> Result {
        let fake = Fake::new()?;
        let pool = pool(&fake)?;
        let (set, page) = pages(2)?;
        let range = Range {
            at: PAGE_SIZE - 2,
            len: 4,
        };
        let remotes = [segment(3), segment(0), segment(9)].into_iter();
        let made = pool.read(set, [range].into_iter(), remotes);
        let transfer: Transfer<FromPeer> = made.map_err(|failed| failed.error)?;

        // A segment each; the pages may follow each other.
        assert_eq!(transfer.entries(), 2);
        let first = post(transfer)?;
        // SAFETY: The requests are valid, and the address of the element is that of its memory.
        unsafe {
            assert_eq!((*first).opcode, bindings::ib_wr_opcode_IB_WR_RDMA_READ);
            let element = &*(*first).sg_list;
            let at = core::ptr::with_exposed_provenance_mut::<u8>(element.addr as usize);
            at.write(42);
        }
        // SAFETY: The device of this test uses no request.
        let done = unsafe { completed(entry(last(first).0)) }.ok_or(EINVAL)?;
        let Memory::Sink(mapped) = done.memory else {
            return Err(EINVAL);
        };
        let (set, mut byte) = (mapped.unmap(), [0]);
        set.read(PAGE_SIZE - 2, &mut byte)?;
        assert_eq!(byte, [42]);
        drop(set);
        assert!(!page.is_owned());
        Ok(())
    }

    /// The last request is linked in front of a message, which alone is signalled.
    #[test]
    fn before_a_message() -> Result {
        let fake = Fake::new()?;
        let pool = pool(&fake)?;
        let (transfer, _page) = writes(&pool, 5)?;
        let mut message: bindings::ib_send_wr = pin_init::zeroed();
        let behind = &raw mut message;

        let admitted = transfer.admit().map_err(|_| ENOMEM)?;
        let mut given = null_mut();
        let first = admitted.leave_before(1, behind, |cqe| {
            given = cqe;
            // SAFETY: It is never dereferenced: the transfer does not complete to it.
            unsafe { crate::verbs::buffer::LentSend::dangling() }
        });
        let (last, count) = last(first);
        assert!(last == behind && count == 4 && !given.is_null());
        // SAFETY: The requests are valid until they complete.
        assert_eq!(unsafe { (*first).send_flags }, 0);
        // SAFETY: The device of this test uses no request.
        let done = unsafe { completed(given) }.ok_or(EINVAL)?;
        assert!(done.send.is_some());
        Ok(())
    }
}
