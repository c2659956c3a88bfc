// SPDX-License-Identifier: GPL-2.0

//! Calls whose arguments are being read. Pure, and explored by the host tests.

use kernel::prelude::*;

/// Calls whose arguments are being read, by the number that their RDMA Reads are posted with.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct Reading<C> {
    places: KVec<Option<C>>,
}

impl<C> Reading<C> {
    /// No calls, and no places for any.
    pub(crate) const fn none() -> Self {
        Self {
            places: KVec::new(),
        }
    }

    /// No calls, and `most` places.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(most: usize) -> Result<Self> {
        let mut places = KVec::with_capacity(most, GFP_KERNEL)?;

        for _ in 0..most {
            places.push_within_capacity(None)?;
        }
        Ok(Self { places })
    }

    /// Keeps a call. Returns its number.
    ///
    /// # Errors
    ///
    /// The call, without a free place.
    pub(crate) fn add(&mut self, call: C) -> Result<usize, C> {
        let mut places = self.places.iter_mut().enumerate();

        match places.find(|(_, place)| place.is_none()) {
            Some((number, place)) => {
                *place = Some(call);
                Ok(number)
            }
            None => Err(call),
        }
    }

    /// Takes the call with this number.
    pub(crate) fn take(&mut self, number: usize) -> Option<C> {
        self.places.get_mut(number)?.take()
    }
}
