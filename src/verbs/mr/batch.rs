// SPDX-License-Identifier: GPL-2.0

//! Registering the memory of one call.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    chain::{
        Invalidated,
        Mapped, //
    },
    list::MrList,
    pool::MrPool,
    registration::{
        Access,
        HeadTail,
        Mr,
        MrChain,
        Region, //
    },
    table::Extent, //
};
use crate::os::Runs;

/// The registrations of one call, as its memory is registered. They come from those that an
/// earlier call has left, then from the pool.
pub(crate) struct MrBatch<'p> {
    pool: &'p Arc<MrPool>,
    /// Those that an earlier call has left; they are of `pool`.
    kept: Option<MrChain<Invalidated>>,
    /// The reference to the pool that the list of those had.
    reference: Option<Arc<MrPool>>,
    /// Those that are mapped.
    mapped: Option<MrList<Mapped>>,
}

impl<'p> MrBatch<'p> {
    /// Takes registrations from `kept`, if that is of `pool`, and then from `pool`.
    #[inline]
    pub(crate) fn new(pool: &'p Arc<MrPool>, kept: Option<MrList<Invalidated>>) -> Self {
        let mut kept = kept.filter(|kept| kept.is_of(pool)).map(MrList::into_chain);
        let reference = kept.as_mut().and_then(|kept| kept.head_mut().pool.take());

        Self {
            pool,
            kept,
            reference,
            mapped: None,
        }
    }

    /// A registration that is not in use.
    #[inline]
    fn take(&mut self) -> Option<KBox<Mr>> {
        MrChain::pop(&mut self.kept).or_else(|| self.pool.take())
    }

    /// Registers `memory`, one registration after the other, and tells `add` the region of each.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` when there are no registrations for now, `EIO` when memory cannot be mapped, and
    /// the error of `add`. The memory before that stays registered.
    #[inline]
    pub(crate) fn register(
        &mut self,
        mut memory: impl Runs,
        access: Access,
        mut add: impl FnMut(Region) -> Result,
    ) -> Result {
        while memory.offset().is_some() {
            let mut mr = self.take().ok_or(ENOBUFS)?;
            let (extent, _) = mr.cover(&mut memory);
            add(self.map(mr, &extent, access)?)?;
        }
        Ok(())
    }

    /// Registers a head, `pages` and a tail as one, if there is no gap between them: the pages
    /// begin and, before a tail, end at the border of a page. Returns the region, or `None` if that
    /// could not be done.
    ///
    /// With a single handle the peer can invalidate all of it with its reply, where several would
    /// have to be invalidated locally. Head and tail, of the lengths `head_tail`, are in a bounce
    /// page of the registration, where `prepare` fills them in before it is mapped.
    ///
    /// # Errors
    ///
    /// As [`Self::register`].
    pub(crate) fn register_coalesced(
        &mut self,
        head_tail: HeadTail,
        pages: impl Runs,
        access: Access,
        prepare: impl FnOnce(&mut [u8], &mut [u8]),
    ) -> Result<Option<Region>> {
        let mut mr = self.take().ok_or(ENOBUFS)?;

        match mr.coalesce(head_tail, pages, prepare) {
            Some(extent) => self.map(mr, &extent, access).map(Some),
            None => {
                self.pool.give_back(mr);
                Ok(None)
            }
        }
    }

    /// Maps the memory that `mr` covers, and adds it to the others.
    #[inline]
    fn map(&mut self, mut mr: KBox<Mr>, extent: &Extent, access: Access) -> Result<Region> {
        let Self {
            pool,
            reference,
            mapped,
            ..
        } = self;

        match mr.map(pool.device(), extent, access) {
            Ok(region) => {
                MrList::push(mapped, mr, || {
                    reference.take().unwrap_or_else(|| pool.clone())
                });
                Ok(region)
            }
            Err(error) => {
                pool.give_back(mr);
                Err(error)
            }
        }
    }

    /// The registrations that are mapped, if there are any.
    #[inline]
    pub(crate) fn finish(mut self) -> Option<MrList<Mapped>> {
        self.mapped.take()
    }
}

impl Drop for MrBatch<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.pool.reclaim(kept);
        }
    }
}
