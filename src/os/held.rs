// SPDX-License-Identifier: GPL-2.0

//! References to pages.

use core::ptr::NonNull;

use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};

use super::PageSet;
use crate::bindings;

/// References to pages, which keep them from being used for anything else after their owner has
/// freed them.
///
/// # Invariants
///
/// The value has one reference to each of `pages`.
pub(crate) struct HeldPages {
    pages: KVec<NonNull<bindings::page>>,
}

// SAFETY: References to pages belong to no thread.
unsafe impl Send for HeldPages {}
// SAFETY: Nothing is done with the pages but to drop the references.
unsafe impl Sync for HeldPages {}

impl HeldPages {
    /// Takes a reference to each of `pages`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The pages must be valid, and each have been allocated with `alloc_page`.
    pub(crate) unsafe fn new(pages: &[*mut bindings::page], flags: Flags) -> Result<Arc<Self>> {
        let mut held = Self {
            pages: KVec::with_capacity(pages.len(), flags)?,
        };

        for &page in pages {
            let page = NonNull::new(page).ok_or(EINVAL)?;
            held.pages.push_within_capacity(page)?;
            // INVARIANT: This is the reference to the page that was added.
            // SAFETY: By the safety requirements of this function the page is valid.
            unsafe { bindings::page_get(page.as_ptr()) };
        }
        Ok(Arc::new(held, flags)?)
    }

    /// Takes a reference to each page of `set`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn of<K>(set: &PageSet<K>, flags: Flags) -> Result<Arc<Self>> {
        let mut held = Self {
            pages: KVec::with_capacity(set.len(), flags)?,
        };

        for page in (0..set.len()).map_while(|index| set.page(index)) {
            held.pages.push_within_capacity(page)?;
            // INVARIANT: This is the reference to the page that was added.
            // SAFETY: The page is valid, since the set has a reference to it.
            unsafe { bindings::page_get(page.as_ptr()) };
        }
        Ok(Arc::new(held, flags)?)
    }
}

impl Drop for HeldPages {
    fn drop(&mut self) {
        for page in &self.pages {
            // SAFETY: By the type invariants this is a reference of this value, which is not used
            // again. Any context will do.
            unsafe { bindings::page_put(page.as_ptr()) };
        }
    }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_held)]
mod tests {
    use super::*;

    fn refs(page: *mut bindings::page) -> i32 {
        // SAFETY: Each test calls it with a page that it has a reference to.
        unsafe { bindings::page_refs(page) }
    }

    /// A page that its owner has freed is the same until the last reference to it is dropped.
    #[test]
    fn keeps_freed_pages() -> Result {
        // SAFETY: Called in process context; any flags will do.
        let page = unsafe { bindings::alloc_pages(bindings::rpc_task_gfp_mask(), 0) };
        assert!(!page.is_null());
        assert_eq!(refs(page), 1);

        // SAFETY: The page was allocated above, on its own.
        let held = unsafe { HeldPages::new(&[page, page], GFP_KERNEL) }?;
        let other = held.clone();
        assert_eq!(refs(page), 3);
        // SAFETY: The reference came with the allocation.
        unsafe { bindings::page_put(page) };
        drop(held);
        assert_eq!(refs(page), 2);

        // SAFETY: `other` has references to it.
        unsafe { bindings::page_get(page) };
        drop(other);
        assert_eq!(refs(page), 1);
        // SAFETY: The reference was taken above.
        unsafe { bindings::page_put(page) };
        Ok(())
    }
}
