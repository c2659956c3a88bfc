// SPDX-License-Identifier: GPL-2.0

//! Values that are replaced while they are read.

use core::{
    marker::PhantomData,
    ptr::null_mut, //
};

use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Full, //
    }, //
};

use super::series::AtomicPtr;

/// A value that is published, and may be replaced by a newer version while others read it.
///
/// To read costs a load: the reader gets a reference to the version that is current then, and keeps
/// to it. Older versions are freed with this value, so that the references stay valid without a
/// lock, a reference count or a grace period. This is for values that seldom change, and the number
/// of versions has [a limit](Self::MAX), for a peer might cause them.
///
/// The kernel's `SetOnce` is the same for one version.
///
/// # Invariants
///
/// `current`, and `older` of each version, is null or points to a version that came from a `KBox`
/// and belongs to this value. A version does not change once it was published, and is freed only
/// when this value is dropped.
pub(crate) struct Versioned<T> {
    current: AtomicPtr<Version<T>>,
    /// Owns the versions, but is neither `Send` nor `Sync` by itself.
    _versions: PhantomData<*mut Version<T>>,
}

// The value stands first, so that a pointer to the version is one to the value.
#[repr(C)]
struct Version<T> {
    value: T,
    older: *mut Version<T>,
    /// The number of this version, from 1.
    number: u32,
}

// SAFETY: With this value its versions move to the other thread; `T` is `Send`.
unsafe impl<T: Send> Send for Versioned<T> {}
// SAFETY: Other threads read versions, which needs `T` to be `Sync`, and publish some that this one
// drops, which needs `T` to be `Send`. All access is through the atomic pointer.
unsafe impl<T: Send + Sync> Sync for Versioned<T> {}

impl<T> Versioned<T> {
    /// The most versions that there may be of one value.
    pub(crate) const MAX: u32 = 64;

    /// No version yet.
    pub(crate) const fn new() -> Self {
        // INVARIANT: `current` is null.
        Self {
            current: AtomicPtr::null(),
            _versions: PhantomData,
        }
    }

    /// The current version, if one was published.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire: pairs with the store that has published it.
        //
        // SAFETY: By the type invariants it is null or points to a version that does not change,
        // and that lives as long as this value, which the reference borrows.
        let current = unsafe { self.current.load(Acquire).as_ref() };
        current.map(|version| &version.value)
    }

    /// Makes `value` the current version.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and `ENOSPC` after [`Self::MAX`] versions. The current one stays.
    pub(crate) fn publish(&self, value: T) -> Result {
        let mut new = KBox::new(
            Version {
                value,
                older: null_mut(),
                number: 0,
            },
            GFP_KERNEL,
        )?;

        loop {
            let older = self.current.load(Acquire);
            // SAFETY: By the type invariants it is null or points to a version that does not
            // change and lives as long as this value, which is borrowed here.
            let number = unsafe { older.as_ref() }.map_or(0, |version| version.number);
            if number >= Self::MAX {
                return Err(ENOSPC);
            }
            new.older = older;
            new.number = number.saturating_add(1);
            let raw = KBox::into_raw(new);
            // INVARIANT: `raw` comes from a `KBox`, and belongs to this value from here on. It has
            // all versions before it behind it, as `current` has not changed.
            if self.current.cmpxchg(older, raw, Full).is_ok() {
                return Ok(());
            }
            // SAFETY: `raw` comes from `into_raw` above, and was not published.
            new = unsafe { KBox::from_raw(raw) };
        }
    }
}

impl<T> Drop for Versioned<T> {
    fn drop(&mut self) {
        let mut next = self.current.load(Acquire);

        while !next.is_null() {
            // SAFETY: By the type invariants the version comes from a `KBox` and belongs to this
            // value, which nothing borrows now; it is visited once.
            let version = unsafe { KBox::from_raw(next) };
            next = version.older;
        }
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_versioned)]
mod tests {
    use super::*;
    use kernel::sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    };

    /// Counts its drops.
    struct Counted(u32, Arc<Atomic<u32>>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_add(1, Relaxed);
        }
    }

    /// A reader keeps to the version that it has got; the next one gets the newer version. All of
    /// them end with the value.
    #[test]
    fn replaced_while_read() -> Result {
        let drops = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let value = Versioned::new();

        assert!(value.get().is_none());
        value.publish(Counted(1, drops.clone()))?;
        let first = value.get();
        value.publish(Counted(2, drops.clone()))?;
        assert_eq!(first.map(|first| first.0), Some(1));
        assert_eq!(value.get().map(|second| second.0), Some(2));
        assert_eq!(drops.load(Relaxed), 0);
        drop(value);
        assert_eq!(drops.load(Relaxed), 2);
        Ok(())
    }

    /// Beyond the limit the last version stays, and the refused one is dropped.
    #[test]
    fn limit() -> Result {
        let drops = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let value = Versioned::new();

        for number in 0..Versioned::<Counted>::MAX {
            value.publish(Counted(number, drops.clone()))?;
        }
        let refused = value.publish(Counted(u32::MAX, drops.clone()));
        assert!(refused.is_err_and(|error| error == ENOSPC));
        assert_eq!(drops.load(Relaxed), 1);
        let last = value.get().map(|last| last.0);
        assert_eq!(last, Some(Versioned::<Counted>::MAX - 1));
        drop(value);
        assert_eq!(drops.load(Relaxed), Versioned::<Counted>::MAX + 1);
        Ok(())
    }
}
