// SPDX-License-Identifier: GPL-2.0

//! Keeping allocations out of file-system reclaim.

use core::marker::PhantomData;

use kernel::types::NotThreadSafe;

use crate::bindings;

/// While it lives, every allocation of this task behaves as with `GFP_NOFS`.
///
/// A transport connects and sends on behalf of memory reclaim: an allocation that waits for NFS to
/// write pages back would wait for itself.
#[must_use = "the scope ends when this value is dropped"]
pub(crate) struct NofsScope {
    flags: u32,
    _task: PhantomData<NotThreadSafe>,
}

impl NofsScope {
    /// Begins the scope.
    pub(crate) fn enter() -> Self {
        Self {
            // SAFETY: Only changes the flags of the current task.
            flags: unsafe { bindings::memalloc_nofs_save() },
            _task: PhantomData,
        }
    }
}

impl Drop for NofsScope {
    fn drop(&mut self) {
        // SAFETY: `flags` is what the matching save of this task returned; the type cannot change
        // threads.
        unsafe { bindings::memalloc_nofs_restore(self.flags) }
    }
}
