// SPDX-License-Identifier: GPL-2.0

//! Numbers that can be read and changed with sysctl.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use core::ptr::NonNull;

use kernel::{
    ffi::c_int,
    prelude::*, //
};

use super::param::Uint;
use crate::bindings;

/// Read by all, changed by root.
const MODE: u16 = 0o644;

/// Some numbers in one directory of `/proc/sys`.
#[repr(transparent)]
pub(crate) struct Numbers<const N: usize>([bindings::ctl_table; N]);

// SAFETY: The table is never written; the numbers that it points to are atomics.
unsafe impl<const N: usize> Sync for Numbers<N> {}

impl<const N: usize> Numbers<N> {
    /// Names for numbers. A value out of a number's range is refused with `EINVAL`.
    pub(crate) const fn new(numbers: [(&'static CStr, &'static Uint); N]) -> Self {
        let mut table = [const { pin_init::zeroed::<bindings::ctl_table>() }; N];
        let mut left: &mut [bindings::ctl_table] = &mut table;
        let mut numbers: &[(&CStr, &Uint)] = &numbers;

        while let (Some((entry, rest)), Some((&(name, number), others))) =
            (left.split_first_mut(), numbers.split_first())
        {
            let (value, min, max) = number.as_ptrs();
            entry.procname = kernel::str::as_char_ptr_in_const_context(name);
            entry.data = value.cast();
            // CAST: A small constant.
            entry.maxlen = size_of::<u32>() as c_int;
            entry.mode = MODE;
            entry.proc_handler = Some(bindings::proc_douintvec_minmax);
            entry.extra1 = min.cast_mut().cast();
            entry.extra2 = max.cast_mut().cast();
            left = rest;
            numbers = others;
        }
        Self(table)
    }
}

/// A directory with numbers; dropping it removes them.
///
/// # Invariants
///
/// Holds a table that is registered, or none.
pub(crate) struct Sysctl(Option<NonNull<bindings::ctl_table_header>>);

// SAFETY: sysctl does its own locking.
unsafe impl Send for Sysctl {}
// SAFETY: sysctl does its own locking.
unsafe impl Sync for Sysctl {}

impl Sysctl {
    /// Puts `numbers` into the directory `path`. Without sysctl, or memory, they do not appear:
    /// nothing depends on them.
    pub(crate) fn new<const N: usize>(path: &'static CStr, numbers: &'static Numbers<N>) -> Self {
        // SAFETY: The table is static and has `N` entries, each with the name of a file, and a
        // number with its range that `proc_douintvec_minmax` expects.
        let header = unsafe {
            bindings::register_sysctl_sz(path.as_char_ptr(), numbers.0.as_ptr(), numbers.0.len())
        };
        // INVARIANT: Registered above, unless the result is null.
        Self(NonNull::new(header))
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        if let Some(header) = self.0 {
            // SAFETY: By the type invariants the table is registered, and this is the only place
            // that unregisters it. The call waits for tasks that use the files.
            unsafe { bindings::unregister_sysctl_table(header.as_ptr()) };
        }
    }
}
