// SPDX-License-Identifier: GPL-2.0

//! Keeping allocations out of reclaim.
//!
//! C header: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)

use core::marker::PhantomData;

use kernel::types::NotThreadSafe;

use crate::bindings;

/// A scope that makes every allocation of this task behave as with `GFP_NOFS`, or without reclaim.
///
/// A transport connects and sends on behalf of memory reclaim: an allocation that waits for NFS to
/// write pages back would wait for itself. If NFS holds a swap file, any reclaim may.
#[must_use = "the scope ends when this value is dropped"]
pub(crate) struct ReclaimScope {
    flags: u32,
    reclaim: bool,
    _task: PhantomData<NotThreadSafe>,
}

impl ReclaimScope {
    /// Begins a scope without file-system reclaim, and with `swapping` without any; then the
    /// reserves may be used.
    pub(crate) fn enter(swapping: bool) -> Self {
        Self {
            // SAFETY: Both only change the flags of the current task.
            flags: unsafe {
                if swapping {
                    bindings::memalloc_noreclaim_save()
                } else {
                    bindings::memalloc_nofs_save()
                }
            },
            reclaim: !swapping,
            _task: PhantomData,
        }
    }
}

impl Drop for ReclaimScope {
    fn drop(&mut self) {
        // SAFETY: `flags` was returned by the matching save of this task; the type cannot change
        // threads.
        unsafe {
            if self.reclaim {
                bindings::memalloc_nofs_restore(self.flags)
            } else {
                bindings::memalloc_noreclaim_restore(self.flags)
            }
        }
    }
}
