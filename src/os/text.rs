// SPDX-License-Identifier: GPL-2.0

//! Text that C hands out.

use core::slice;

use kernel::{
    ffi::c_char,
    str::CStr, //
};

use crate::bindings;

/// The C string at `raw`. As `CStr::from_ptr`, but without a path to a panic: that function checks
/// the sum of the length and the terminator for an overflow.
///
/// # Safety
///
/// `raw` must point to a C string that stays valid for `'a`.
pub(crate) unsafe fn text<'a>(raw: *const c_char) -> &'a CStr {
    // SAFETY: By the safety requirements of this function `raw` points to a C string that stays
    // valid for `'a`: its length and the terminator behind it are readable.
    unsafe {
        let bytes = bindings::strlen(raw).wrapping_add(1);
        CStr::from_bytes_with_nul_unchecked(slice::from_raw_parts(raw.cast(), bytes))
    }
}
