// SPDX-License-Identifier: GPL-2.0

//! Code of the module that runs after the last reference to the module is gone.

use crate::bindings;

/// Dropping it waits until no task is inside the module that was there before.
///
/// A task that drops the last reference to a transport drops the module's with it, and then has a
/// few instructions to go until it has left the module. If it is preempted there, it must be gone
/// before the module's memory is.
pub(crate) struct Stragglers;

impl Drop for Stragglers {
    fn drop(&mut self) {
        // SAFETY: The module is unloaded in process context, without a lock. Each task is waited
        // for until it sleeps or returns to user space, which it does only after it has left.
        unsafe { bindings::wait_for_stragglers() };
    }
}
