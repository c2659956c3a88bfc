// SPDX-License-Identifier: GPL-2.0

//! Registering the memory of one message.

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
    pool::{
        Mr,
        MrChain,
        MrPool, //
    },
    registration::{
        Access,
        HeadTail,
        NotMapped,
        Region, //
    },
    table::Extent, //
};
use crate::os::series::{
    EMSGSIZE,
    ENOBUFS, //
};
use crate::os::Runs;

/// The registrations of one message, as its memory is registered. They come from the kept
/// registrations of an earlier message, then from the pool.
pub(crate) struct MrBatch<'p> {
    pool: &'p Arc<MrPool>,
    /// Registrations that an earlier message has left, from `pool`.
    kept: Option<MrChain<Invalidated>>,
    /// The reference to the pool that the list of kept registrations had.
    reference: Option<Arc<MrPool>>,
    /// The mapped registrations.
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

    /// The number of mapped registrations.
    fn count(&self) -> u32 {
        self.mapped.as_ref().map_or(0, MrList::count)
    }

    /// The reason why no registration is left for a message that has `count` already.
    #[cold]
    fn none_left(&self, count: u32) -> Error {
        if count < self.pool.most_per_message {
            ENOBUFS
        } else {
            EMSGSIZE
        }
    }

    /// A registration that is not in use.
    #[inline]
    fn take(&mut self) -> Option<KBox<Mr>> {
        MrChain::pop(&mut self.kept).or_else(|| self.pool.take())
    }

    /// Registers `memory`, one registration after the other, and passes the region of each to
    /// `add`.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` when no registration is left for now, `EMSGSIZE` when the message has as many as
    /// one may have, `EIO` when memory cannot be mapped for now, `EINVAL` when a page is missing,
    /// and the error of `add`. The memory before that stays registered.
    #[inline]
    pub(crate) fn register(
        &mut self,
        mut memory: impl Runs,
        access: Access,
        mut add: impl FnMut(Region) -> Result,
    ) -> Result {
        while memory.offset().is_some() {
            let mut mr = self.take().ok_or_else(|| self.none_left(self.count()))?;
            let (extent, _) = mr.cover(&mut memory);
            match self.map(mr, &extent, access) {
                Ok(region) => add(region)?,
                Err(failed) => self.register_apart(failed, extent, access, &mut add)?,
            }
        }
        Ok(())
    }

    /// Registers memory whose addresses have gaps for the device but not in itself, as where the
    /// DMA layer bounces each piece of it: one registration for each part without a gap. `failed`
    /// is the registration that covers `extent`, and the reason why it is not mapped.
    ///
    /// # Errors
    ///
    /// As [`Self::register`].
    #[cold]
    fn register_apart(
        &mut self,
        failed: (KBox<Mr>, NotMapped),
        mut extent: Extent,
        access: Access,
        add: &mut impl FnMut(Region) -> Result,
    ) -> Result {
        let (mut mr, mut why) = failed;

        loop {
            let NotMapped::Gap(entries) = why else {
                self.pool.give_back(mr);
                return Err(why.into());
            };
            let Some(mut rest) = self.take() else {
                self.pool.give_back(mr);
                return Err(self.none_left(self.count().saturating_add(1)));
            };
            let (first, others) = mr.split(&extent, entries, &mut rest);

            match self.map(mr, &first, access) {
                Ok(region) => {
                    if let Err(error) = add(region) {
                        self.pool.give_back(rest);
                        return Err(error);
                    }
                    extent = others;
                    match self.map(rest, &extent, access) {
                        Ok(region) => return add(region),
                        Err(failed) => (mr, why) = failed,
                    }
                }
                // They have other addresses now, and an earlier gap than the first one found.
                Err(failed) => {
                    self.pool.give_back(rest);
                    (mr, why) = failed;
                }
            }
        }
    }

    /// Registers a head, `pages` and a tail as one, if no gap is between them: the pages begin and,
    /// before a tail, end at the border of a page. Returns the region, or `None` if that could not
    /// be done, or the device's addresses would have a gap.
    ///
    /// With a single handle the peer can invalidate all of it with one Send, where several would
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
        let mut mr = self.take().ok_or_else(|| self.none_left(self.count()))?;

        let Some(extent) = mr.coalesce(head_tail, pages, prepare) else {
            self.pool.give_back(mr);
            return Ok(None);
        };
        match self.map(mr, &extent, access) {
            Ok(region) => Ok(Some(region)),
            Err((mr, why)) => {
                self.pool.give_back(mr);
                match why {
                    NotMapped::Gap(_) => Ok(None),
                    NotMapped::Refused | NotMapped::Empty => Err(why.into()),
                }
            }
        }
    }

    /// Maps the memory that `mr` covers, and adds it to the others.
    ///
    /// # Errors
    ///
    /// `mr`, and the reason why it is not mapped.
    #[inline]
    fn map(
        &mut self,
        mut mr: KBox<Mr>,
        extent: &Extent,
        access: Access,
    ) -> Result<Region, (KBox<Mr>, NotMapped)> {
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
            Err(why) => Err((mr, why)),
        }
    }

    /// The mapped registrations, if any.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` when they are more than one message may have, as can be where the device's
    /// addresses have gaps.
    #[inline]
    pub(crate) fn finish(mut self) -> Result<Option<MrList<Mapped>>> {
        if self.count() > self.pool.most_per_message {
            return Err(EMSGSIZE);
        }
        Ok(self.mapped.take())
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
