// SPDX-License-Identifier: GPL-2.0

//! Code of the module that runs after the last reference to the module is dropped.

use kernel::prelude::*;

use crate::bindings;

use super::this_module;

/// `true` if `synchronize_rcu_tasks` waits for a task that is preempted outside of read-side
/// sections.
///
/// A kernel that preempts but has no tracer and no BPF defines it as `synchronize_rcu`, which does
/// not wait for such a task (`include/linux/rcupdate.h`).
const CAN_WAIT: bool = cfg!(not(CONFIG_PREEMPTION)) || cfg!(CONFIG_TASKS_RCU);

/// Dropping it waits until no task is inside the module that was there before.
///
/// A task that drops the last reference to a transport drops the module's with it, and then has a
/// few instructions left until it has left the module. If it is preempted there, it must have left
/// before the module's memory is freed. Where that cannot be waited for, the module stays loaded.
pub(crate) struct Stragglers(());

impl Stragglers {
    /// Keeps the module loaded where its end could not wait for tasks that are inside it.
    pub(crate) fn new() -> Self {
        if !CAN_WAIT {
            // SAFETY: The module is being loaded, and its loader holds it.
            unsafe { bindings::__module_get(this_module()) };
            pr_notice!("cannot be unloaded: this kernel has PREEMPTION without TASKS_RCU\n");
        }
        Self(())
    }
}

impl Drop for Stragglers {
    fn drop(&mut self) {
        // SAFETY: The module is unloaded in process context, without a lock. Each task is waited
        // for until it sleeps or returns to user space, which it does only after it has left.
        unsafe { bindings::wait_for_stragglers() };
    }
}
