// SPDX-License-Identifier: GPL-2.0

//! Stand-ins for the kernel's crate and for the neighbours of the sources with lock-free words. A
//! node is never freed, so that a mistake which gives it two owners harms only the run that finds
//! it.

/// `kernel::sync`.
pub(crate) mod sync {
    pub(crate) use crate::explorer::atomic;
    pub(crate) use std::sync::Arc;
}

/// `kernel::prelude`.
pub(crate) mod prelude {
    pub(crate) const GFP_KERNEL: () = ();

    #[derive(Debug)]
    pub(crate) struct Error;

    pub(crate) type Result<T = ()> = core::result::Result<T, Error>;

    /// A vector that does not grow by itself.
    pub(crate) struct KVec<T>(Vec<T>);

    impl<T> KVec<T> {
        pub(crate) fn with_capacity(capacity: usize, _flags: ()) -> Result<Self> {
            Ok(Self(Vec::with_capacity(capacity)))
        }

        pub(crate) fn push_within_capacity(&mut self, value: T) -> Result {
            if self.0.len() == self.0.capacity() {
                return Err(Error);
            }
            self.0.push(value);
            Ok(())
        }
    }

    impl<T> std::ops::Deref for KVec<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }
}

/// Registrations.
pub(crate) mod registration {
    use super::{pool::MrPool, sync::Arc};
    use crate::explorer::Plain;

    pub(crate) struct Mr {
        pub(crate) next: *mut Mr,
        pub(crate) pool: Option<Arc<MrPool>>,
        pub(crate) memory: Plain,
    }
}

/// The pool of registrations.
pub(crate) mod pool {
    use std::{
        ptr::NonNull,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::registration::Mr;

    /// Counts the registrations that come back.
    #[derive(Default)]
    pub(crate) struct MrPool(AtomicUsize);

    impl MrPool {
        pub(crate) fn take(&self) -> Option<NonNull<Mr>> {
            None
        }

        pub(crate) fn reclaim(&self, chain: *mut Mr) {
            // SAFETY: Registrations are never freed.
            unsafe { &*chain }.memory.write();
            self.0.fetch_add(1, Relaxed);
        }

        pub(crate) fn reclaimed(&self) -> usize {
            self.0.load(Relaxed)
        }
    }
}

/// Lists of registrations.
pub(crate) mod list {
    use std::{
        marker::PhantomData,
        mem::forget,
        ptr::{null_mut, NonNull},
    };

    use super::{pool::MrPool, registration::Mr, sync::Arc};
    use crate::explorer::Plain;

    pub(crate) struct Invalidated;

    /// A list of one registration.
    pub(crate) struct MrList<S>(NonNull<Mr>, PhantomData<S>);

    // SAFETY: A registration belongs to one list.
    unsafe impl<S> Send for MrList<S> {}

    impl MrList<Invalidated> {
        /// A registration of `pool`.
        pub(crate) fn of(pool: &Arc<MrPool>) -> Self {
            let mr = Box::leak(Box::new(Mr {
                next: null_mut(),
                pool: Some(pool.clone()),
                memory: Plain::new("a registration"),
            }));
            Self(mr.into(), PhantomData)
        }

        /// # Safety
        ///
        /// `head` must come from [`Self::into_head`].
        pub(crate) unsafe fn new(head: NonNull<Mr>) -> Self {
            Self(head, PhantomData)
        }

        pub(crate) fn into_head(self) -> NonNull<Mr> {
            // The call before has used it.
            self.mr().memory.write();
            let head = self.0;
            forget(self);
            head
        }

        pub(crate) fn count(&self) -> u32 {
            1
        }
    }

    impl<S> MrList<S> {
        pub(crate) fn is_of(&self, pool: &Arc<MrPool>) -> bool {
            self.mr()
                .pool
                .as_ref()
                .is_some_and(|own| Arc::ptr_eq(own, pool))
        }

        fn mr(&self) -> &Mr {
            // SAFETY: Registrations are never freed, and each belongs to one list.
            unsafe { self.0.as_ref() }
        }
    }

    impl<S> Drop for MrList<S> {
        fn drop(&mut self) {
            if let Some(pool) = &self.mr().pool {
                pool.reclaim(self.0.as_ptr());
            }
        }
    }
}
