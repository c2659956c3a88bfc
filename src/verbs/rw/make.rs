// SPDX-License-Identifier: GPL-2.0

//! Making transfers: maps their pages and fills in their requests.

use core::iter::{
    once,
    Once, //
};

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    pages::{
        Direction,
        FromPeer,
        MappedPages,
        PagesOf,
        ToPeer, //
    },
    pool::{
        Block,
        Memory,
        Sinks,
        Transfers, //
    },
    split::{
        most_requests,
        Element,
        Range,
        Remote,
        Run,
        Runs,
        Split, //
    },
    transfer::{
        Chain,
        NotMade,
        Transfer, //
    }, //
};
use crate::{
    bindings,
    os::{
        series::{
            EMSGSIZE,
            ENOBUFS, //
        },
        HeldPages,
        PageSet,
        Private,
        Shared,
        PAGE_SIZE, //
    },
    verbs::{
        Access,
        Mapped,
        MrBatch,
        MrList,
        MrPool,
        Region, //
    }, //
};

/// Ranges of a set of pages, or segments of the peer's memory, in order. They are walked more than
/// once.
pub(crate) trait Walk<T>: Iterator<Item = T> + Clone {}

impl<T, I: Iterator<Item = T> + Clone> Walk<T> for I {}

/// The requests of a transfer while they are filled in. Blocks are in front of the ones before.
struct Filler<'p> {
    pool: &'p Transfers,
    blocks: Option<KBox<Block>>,
    /// Requests that are yet to be filled in, as far as known.
    left: u32,
    /// Requests that are filled in.
    count: u32,
}

impl<'p> Filler<'p> {
    fn new(pool: &'p Transfers, expected: u32) -> Self {
        Self {
            pool,
            blocks: None,
            left: expected,
            count: 0,
        }
    }

    /// The block for the next request.
    fn block(&mut self) -> Result<&mut Block> {
        if self.blocks.as_ref().is_none_or(|block| block.is_full()) {
            let mut block = self.pool.take(self.left.max(1)).ok_or(ENOBUFS)?;
            block.next = self.blocks.take();
            self.blocks = Some(block);
        }
        self.blocks.as_deref_mut().ok_or(ENOBUFS)
    }

    /// Adds `element` to the requests.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if the pool has no free block.
    fn add(&mut self, element: &Element, opcode: bindings::ib_wr_opcode, lkey: u32) -> Result {
        if !element.is_first {
            let block = self.blocks.as_deref_mut().ok_or(EINVAL)?;
            return block.add(element, opcode, lkey);
        }
        self.block()?.add(element, opcode, lkey)?;
        self.left = self.left.saturating_sub(1);
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// Makes the RDMA Read that was added last invalidate `handle` of ours.
    fn invalidate(&mut self, handle: u32) {
        if let Some(block) = self.blocks.as_deref_mut() {
            block.invalidate(handle);
        }
    }

    /// The first block, and the number of requests.
    ///
    /// # Errors
    ///
    /// `EINVAL` without requests.
    fn finish(mut self) -> Result<(KBox<Block>, u32)> {
        let mut head = self.blocks.take().ok_or(EINVAL)?;
        let mut before = head.next.take();

        while let Some(mut block) = before {
            before = block.next.take();
            block.next = Some(head);
            head = block;
        }
        Ok((head, self.count))
    }
}

impl Drop for Filler<'_> {
    fn drop(&mut self) {
        if let Some(blocks) = self.blocks.take() {
            self.pool.give_back(blocks);
        }
    }
}

/// Checks that `set` has all bytes of `ranges`.
fn check<K>(set: &PageSet<K>, ranges: impl Iterator<Item = Range>) -> Result {
    let all = u64::from(PAGE_SIZE).saturating_mul(set.len().try_into()?);
    let mut ends = ranges.map(|range| u64::from(range.at).saturating_add(range.len.into()));

    if ends.all(|end| end <= all) {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

impl Transfers {
    /// Makes the RDMA Writes of `ranges` of `pages`, one after the other, to `remotes`, which must
    /// have room for all of them.
    ///
    /// # Errors
    ///
    /// The pages, with `ENOBUFS` if too few blocks are free ([`Self::grow`]), `EMSGSIZE` if the
    /// segments are too short or the requests too many for the send queue, `EIO` if memory cannot
    /// be mapped for now, `EINVAL` if a page is missing or no bytes are left to write.
    pub(crate) fn write(
        self: &Arc<Self>,
        pages: PageSet<Shared>,
        ranges: impl Walk<Range>,
        remotes: impl Walk<Remote>,
    ) -> Result<Transfer<ToPeer>, NotMade<ToPeer>> {
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        let most = self.size.write_elements;
        let (blocks, count, mapped) = self.direct(pages, opcode, most, ranges, remotes)?;

        let memory = Memory::Source(mapped);
        Ok(Transfer::new(Chain::new(
            blocks,
            count,
            memory,
            self.clone(),
        )))
    }

    /// Makes the RDMA Reads of `remotes` to `ranges` of `pages`, one after the other. The pages are
    /// read as far as the ranges have room: the segments must have bytes for all of them.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; `ENOBUFS` as well without free registrations, where the device needs
    /// them.
    pub(crate) fn read(
        self: &Arc<Self>,
        pages: PageSet<Private>,
        ranges: impl Walk<Range>,
        remotes: impl Walk<Remote>,
    ) -> Result<Transfer<FromPeer>, NotMade<FromPeer>> {
        let chain = match &self.sinks {
            None => {
                let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ;
                let most = self.size.read_elements;
                let (blocks, count, mapped) = self.direct(pages, opcode, most, ranges, remotes)?;
                Chain::new(blocks, count, Memory::Sink(mapped), self.clone())
            }
            Some(sinks) => match self.registered(sinks, &pages, ranges, remotes) {
                Ok((blocks, count, mrs)) => {
                    let memory = Memory::Registered(Sinks::Unposted(mrs), pages);
                    Chain::new(blocks, count, memory, self.clone())
                }
                Err(error) => return Err(NotMade { pages, error }),
            },
        };
        Ok(Transfer::new(chain))
    }

    /// Maps `pages`, and fills in requests that use the mappings themselves. Returns their blocks
    /// and number.
    #[allow(clippy::type_complexity)]
    fn direct<D: Direction>(
        &self,
        pages: PagesOf<D>,
        opcode: bindings::ib_wr_opcode,
        most: u32,
        ranges: impl Walk<Range>,
        remotes: impl Walk<Remote>,
    ) -> Result<(KBox<Block>, u32, MappedPages<D>), NotMade<D>> {
        if let Err(error) = check(&pages, ranges.clone()) {
            return Err(NotMade { pages, error });
        }
        let mapped = MappedPages::<D>::new(pages, self.pd.device_ref());
        let mapped = mapped.map_err(|pages| NotMade { pages, error: EIO })?;
        let filled = self.fill(&mapped, opcode, most, ranges, remotes);
        match filled {
            Ok((blocks, count)) => Ok((blocks, count, mapped)),
            Err(error) => Err(NotMade {
                pages: mapped.unmap(),
                error,
            }),
        }
    }

    /// Fills in the requests between `ranges` of `mapped` and `remotes`.
    fn fill<D: Direction>(
        &self,
        mapped: &MappedPages<D>,
        opcode: bindings::ib_wr_opcode,
        most: u32,
        ranges: impl Walk<Range>,
        remotes: impl Walk<Remote>,
    ) -> Result<(KBox<Block>, u32)> {
        let segments = remotes.clone().filter(|remote| remote.length != 0);
        let segments = segments.fold(0_u32, |sum, _| sum.saturating_add(1));
        let entries = self.budget().entries();
        // Each segment takes a request.
        if segments > entries {
            return Err(EMSGSIZE);
        }
        // A range begins a run, and so does each page, at most.
        let runs = ranges
            .clone()
            .fold(mapped.len(), |sum, _| sum.saturating_add(1));
        let expected = most_requests(runs.try_into()?, segments, most);
        let (mut filler, lkey) = (Filler::new(self, expected), self.pd.local_dma_lkey());
        let runs = Runs::new(ranges, PAGE_SIZE, |page| mapped.addr(page));
        let mut split = Split::new(runs, remotes, most);

        for element in split.by_ref() {
            filler.add(&element, opcode, lkey)?;
        }
        if !split.is_exhausted() || filler.count > entries {
            return Err(EMSGSIZE);
        }
        filler.finish()
    }

    /// Registers `ranges` of `pages` in `sinks`, and fills in requests that read into the
    /// registrations and invalidate them. Returns their blocks, the entries of the send queue that
    /// all take together, and the registrations.
    #[allow(clippy::type_complexity)]
    fn registered(
        &self,
        sinks: &Arc<MrPool>,
        pages: &PageSet<Private>,
        ranges: impl Walk<Range>,
        remotes: impl Walk<Remote>,
    ) -> Result<(KBox<Block>, u32, MrList<Mapped>)> {
        check(pages, ranges.clone())?;
        // The registrations outlive the pages' owner if their invalidation fails.
        let held = HeldPages::of(pages, GFP_KERNEL)?;
        let more = |sum: u32| sum.saturating_add(1);
        let expected = remotes.clone().fold(0, |sum, _| more(sum));
        let expected = ranges.clone().fold(expected, |sum, _| more(sum));
        let mut filler = Filler::new(self, expected);
        let mut split = Split::new(once(Run::default()), remotes, 1);
        let mut batch = MrBatch::new(sinks, None);

        for range in ranges {
            batch.register(
                pages.runs(range.at, range.len),
                Access::RemoteWrite,
                |region| read_into(&mut filler, &mut split, region),
            )?;
        }
        let mut mrs = batch.finish()?.ok_or(EINVAL)?;
        mrs.hold(&held);
        let (blocks, count) = filler.finish()?;
        let entries = count.saturating_add(mrs.count());
        if entries > self.budget().entries() {
            self.give_back(blocks);
            return Err(EMSGSIZE);
        }
        Ok((blocks, entries, mrs))
    }
}

/// Adds the RDMA Reads into `region`, of which the last one invalidates it. iWARP has one key for
/// the device's access and the peer's.
fn read_into(
    filler: &mut Filler<'_>,
    split: &mut Split<Once<Run>, impl Iterator<Item = Remote>>,
    region: Region,
) -> Result {
    split.set_runs(once(Run {
        addr: region.offset,
        length: region.length,
    }));
    for element in split.by_ref() {
        filler.add(
            &element,
            bindings::ib_wr_opcode_IB_WR_RDMA_READ,
            region.handle,
        )?;
    }
    if !split.is_exhausted() {
        return Err(EMSGSIZE);
    }
    filler.invalidate(region.handle);
    Ok(())
}
