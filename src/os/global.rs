// SPDX-License-Identifier: GPL-2.0

//! Values of the whole module.

use kernel::sync::{
    atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    lock::{
        GlobalGuard,
        GlobalLock,
        GlobalLockBackend, //
    }, //
};

/// A static value under a lock, which exists from [`Global::init`] on. Declared by [`global!`].
///
/// Locks of the kernel need code to run before their first use, which a `static` alone has not.
///
/// # Invariants
///
/// `state` is `READY` only after the lock was initialized.
pub(crate) struct Global<B: GlobalLockBackend> {
    lock: GlobalLock<B>,
    state: Atomic<u32>,
}

const NEW: u32 = 0;
const TAKEN: u32 = 1;
const READY: u32 = 2;

impl<B: GlobalLockBackend> Global<B> {
    /// The value with a lock that is not ready yet. For [`global!`], which has a type `B` for each.
    pub(crate) const fn new(value: B::Item) -> Self {
        Self {
            // SAFETY: Nothing but `init` uses the lock before it is initialized. No other lock has
            // this type.
            lock: unsafe { GlobalLock::new(value) },
            state: Atomic::new(NEW),
        }
    }

    /// Makes the value accessible. Has no effect the second time.
    pub(crate) fn init(&'static self) {
        if self.state.cmpxchg(NEW, TAKEN, Relaxed).is_ok() {
            // SAFETY: Only one caller gets here, once.
            unsafe { self.lock.init() };
            // INVARIANT: The lock is initialized since `init` returned.
            self.state.store(READY, Release);
        }
    }

    /// Locks the value; `None` before [`Global::init`].
    pub(crate) fn lock(&'static self) -> Option<GlobalGuard<B>> {
        (self.state.load(Acquire) == READY).then(|| self.lock.lock())
    }
}

/// Declares a [`Global`] under a mutex.
macro_rules! global {
    ($(#[$meta:meta])* $vis:vis static $name:ident: $ty:ty = $value:expr;) => {
        $(#[$meta])*
        $vis static $name: $crate::os::Global<$name> = $crate::os::Global::new($value);

        /// The kind of the lock.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        $vis enum $name {}

        impl ::kernel::sync::lock::GlobalLockBackend for $name {
            const NAME: &'static ::kernel::str::CStr = ::kernel::c_str!(stringify!($name));
            type Item = $ty;
            type Backend = ::kernel::sync::lock::mutex::MutexBackend;

            fn get_lock_class() -> ::core::pin::Pin<&'static ::kernel::sync::LockClassKey> {
                ::kernel::static_lock_class!()
            }
        }
    };
}
pub(crate) use global;
