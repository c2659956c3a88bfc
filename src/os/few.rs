// SPDX-License-Identifier: GPL-2.0

//! Lists that are mostly short.

use kernel::prelude::*;

/// A list of up to a number of entries that is known when it is made. It is allocated only if these
/// are more than `N`.
pub(crate) struct Few<T, const N: usize> {
    /// The entries, unless `more` has room for them.
    here: [T; N],
    len: usize,
    more: KVec<T>,
}

impl<T: Copy + Default, const N: usize> Few<T, N> {
    /// An empty list, for up to `count` entries. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: usize) -> Result<Self> {
        Ok(Self {
            here: [T::default(); N],
            len: 0,
            more: if count > N {
                KVec::with_capacity(count, GFP_KERNEL)?
            } else {
                KVec::new()
            },
        })
    }

    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the list is full.
    pub(crate) fn push(&mut self, entry: T) -> Result {
        if self.more.capacity() != 0 {
            return self.more.push_within_capacity(entry).map_err(|_| EINVAL);
        }
        *self.here.get_mut(self.len).ok_or(EINVAL)? = entry;
        // No sum wraps around: there was a place.
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// The entries.
    pub(crate) fn as_slice(&self) -> &[T] {
        if self.more.capacity() != 0 {
            &self.more
        } else {
            self.here.get(..self.len).unwrap_or(&[])
        }
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_few)]
mod tests {
    use super::*;

    /// A list takes as many entries as it was made for, whether it is allocated or not.
    #[test]
    fn lists() -> Result {
        for count in [0usize, 1, 2, 3, 9] {
            let mut list = Few::<u32, 2>::new(count)?;
            for entry in 0..count {
                list.push(u32::try_from(entry)?)?;
            }
            assert_eq!(list.as_slice().len(), count);
            assert!(list.as_slice().iter().copied().eq((0..9).take(count)));
            let room = list.more.capacity().max(2);
            for _ in count..room {
                list.push(0)?;
            }
            assert!(list.push(0).is_err() && list.as_slice().len() == room);
        }
        Ok(())
    }
}
