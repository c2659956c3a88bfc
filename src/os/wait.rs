// SPDX-License-Identifier: GPL-2.0

//! Waiting for an event with a time limit.
//!
//! C header: [`include/linux/completion.h`](srctree/include/linux/completion.h)

use kernel::{
    prelude::*,
    types::Opaque, //
};

use crate::bindings;

/// An event that is signalled any number of times and waited for, with a time limit, from process
/// context.
///
/// Wraps `struct completion`; of it the `kernel` crate offers only the wait without a limit.
#[pin_data]
pub(crate) struct Completion {
    #[pin]
    inner: Opaque<bindings::completion>,
}

// SAFETY: A `struct completion` has a lock of its own and may be used from any context and thread.
unsafe impl Send for Completion {}
// SAFETY: A `struct completion` has a lock of its own and may be used from any thread.
unsafe impl Sync for Completion {}

impl Completion {
    /// An event that has not happened.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for writes and stays where it is.
                unsafe { bindings::init_completion(slot) }
            }),
        })
    }

    /// Lets one waiter, present or future, continue. May be called from any context.
    pub(crate) fn signal(&self) {
        // SAFETY: The completion was initialised by `new`.
        unsafe { bindings::complete(self.inner.get()) }
    }

    /// Forgets signals that were not waited for.
    pub(crate) fn forget(&self) {
        // SAFETY: The completion was initialised by `new`.
        unsafe { bindings::reinit_completion(self.inner.get()) }
    }

    /// Waits for the next signal, at most `limit` jiffies. Returns `true` if the signal came.
    pub(crate) fn wait(&self, limit: usize) -> bool {
        // SAFETY: The completion was initialised by `new`; sleeping is allowed in the process
        // context that calls this.
        unsafe { bindings::wait_for_completion_timeout(self.inner.get(), limit) != 0 }
    }
}
