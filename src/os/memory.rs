// SPDX-License-Identifier: GPL-2.0

//! The memory of the machine.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)

use super::PAGE_SIZE;
use crate::bindings;

/// Bytes of memory that the machine has.
pub(crate) fn memory() -> usize {
    // SAFETY: Reads a counter that is always there.
    let pages = unsafe { bindings::totalram_pages() };

    // CAST: `unsigned long` is as wide as `usize`; widening.
    (pages as usize).saturating_mul(PAGE_SIZE as usize)
}
