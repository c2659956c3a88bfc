// SPDX-License-Identifier: GPL-2.0

//! Memory that C allocates and frees.

use core::ptr::NonNull;

use kernel::{
    ffi::c_char,
    fmt,
    prelude::*,
    str::CString, //
};

use crate::bindings;

/// Memory from kmalloc, freed when this is dropped.
///
/// # Invariants
///
/// Nothing else frees the memory.
pub(super) struct Memory(NonNull<u8>);

impl Memory {
    /// Takes over the memory at `raw`; `None` for null.
    ///
    /// # Safety
    ///
    /// `raw` must be null, or come from kmalloc and be the caller's to free.
    #[inline]
    pub(super) unsafe fn from_raw<P>(raw: *const P) -> Option<Self> {
        // INVARIANT: By the safety requirements of this function the caller may free the memory,
        // and leaves that to the value.
        NonNull::new(raw.cast_mut().cast()).map(Self)
    }

    /// A C string with a copy of `text`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn text(text: fmt::Arguments<'_>) -> Result<Self> {
        let text = CString::try_from_fmt(text)?;

        // SAFETY: `text` is a C string, and the copy is ours.
        unsafe { Self::from_raw(bindings::kstrdup(text.as_char_ptr(), bindings::GFP_KERNEL)) }
            .ok_or(ENOMEM)
    }

    /// The start of the memory.
    #[inline]
    pub(super) fn as_ptr(&self) -> NonNull<u8> {
        self.0
    }

    /// Gives the memory to C.
    pub(super) fn into_raw(self) -> *const c_char {
        core::mem::ManuallyDrop::new(self).0.as_ptr().cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the memory is this value's to free.
        unsafe { bindings::kfree(self.0.as_ptr().cast()) };
    }
}
