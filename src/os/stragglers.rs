// SPDX-License-Identifier: GPL-2.0

//! Code of the module that runs after the last reference to the module is gone.

use crate::bindings;

/// Dropping it waits until no task is inside the module that was there before.
///
/// What drops the last reference to a transport also drops the module's, and then has a few
/// instructions to go until it has left the module. A task that is preempted there must be gone
/// before the module's memory is.
pub(crate) struct Stragglers;

impl Drop for Stragglers {
    fn drop(&mut self) {
        // SAFETY: The module is unloaded in process context, without a lock. Each task is waited
        // for until it sleeps or returns to user space, which it does only after it has left.
        unsafe { bindings::wait_for_stragglers() };
    }
}
