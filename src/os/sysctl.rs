// SPDX-License-Identifier: GPL-2.0

//! Numbers that can be read and changed with sysctl.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use core::ptr::NonNull;

use kernel::{
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
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

/// A sum that is shown since it was last set to 0.
pub(crate) struct Sum {
    sum: fn() -> u64,
    /// The sum at that time.
    base: Atomic<u64>,
}

impl Sum {
    /// The sum that `sum` returns, which only grows.
    pub(crate) const fn new(sum: fn() -> u64) -> Self {
        Self {
            sum,
            base: Atomic::new(0),
        }
    }
}

/// A number in a directory.
pub(crate) enum Number {
    /// Any value of a range.
    Uint(&'static Uint),
    /// A sum that can be set to 0.
    Sum(&'static Sum),
}

/// Reads a [`Sum`], or sets it to 0: no other number is accepted.
///
/// # Safety
///
/// Called by sysctl for an entry whose data is a static `Sum`, with a buffer of `*len` bytes.
unsafe extern "C" fn sum(
    table: *const bindings::ctl_table,
    write: c_int,
    buffer: *mut c_void,
    len: *mut usize,
    at: *mut bindings::loff_t,
) -> c_int {
    // SAFETY: By the safety requirements of this function.
    let this = unsafe { &*(*table).data.cast::<Sum>() };
    let now = (this.sum)();
    let mut value: c_ulong = now.wrapping_sub(this.base.load(Relaxed)) as c_ulong;
    let mut zero: c_ulong = 0;
    let mut entry: bindings::ctl_table = pin_init::zeroed();

    entry.data = (&raw mut value).cast();
    // CAST: A small constant.
    entry.maxlen = size_of::<c_ulong>() as c_int;
    entry.extra1 = (&raw mut zero).cast();
    entry.extra2 = (&raw mut zero).cast();
    // SAFETY: The entry is a number with its range, as this function expects; it and the buffer are
    // there during the call.
    let ret = unsafe { bindings::proc_doulongvec_minmax(&entry, write, buffer, len, at) };
    if ret == 0 && write != 0 {
        this.base.store(now, Relaxed);
    }
    ret
}

impl<const N: usize> Numbers<N> {
    /// Names for numbers. A value out of a number's range is refused with `EINVAL`.
    pub(crate) const fn new(numbers: [(&'static CStr, Number); N]) -> Self {
        let mut table = [const { pin_init::zeroed::<bindings::ctl_table>() }; N];
        let mut left: &mut [bindings::ctl_table] = &mut table;
        let mut numbers: &[(&CStr, Number)] = &numbers;

        while let (Some((entry, rest)), Some(((name, number), others))) =
            (left.split_first_mut(), numbers.split_first())
        {
            entry.procname = kernel::str::as_char_ptr_in_const_context(name);
            entry.mode = MODE;
            match number {
                Number::Uint(number) => {
                    let (value, min, max) = number.as_ptrs();
                    entry.data = value.cast();
                    // CAST: A small constant.
                    entry.maxlen = size_of::<u32>() as c_int;
                    entry.proc_handler = Some(bindings::proc_douintvec_minmax);
                    entry.extra1 = min.cast_mut().cast();
                    entry.extra2 = max.cast_mut().cast();
                }
                Number::Sum(of) => {
                    entry.data = core::ptr::from_ref::<Sum>(of).cast_mut().cast();
                    entry.proc_handler = Some(sum);
                }
            }
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
        // SAFETY: The table is static and has `N` entries, each with the name of a file, and with
        // the data that its handler expects: a number with its range, or a `Sum`.
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
