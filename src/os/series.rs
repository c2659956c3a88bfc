// SPDX-License-Identifier: GPL-2.0

//! Parts of the `kernel` crate that some series of Linux lack, in forms that build on every series
//! from 7.0 on. No code of the module tests for a version.
//!
//! | The crate's | is not in | here |
//! |---|---|---|
//! | `Atomic<*mut T>` | 7.0 | [`AtomicPtr`] |
//! | `Atomic::fetch_sub` | 7.0 | [`fetch_sub()`] |
//! | `KVec::zeroed` | 7.0 to 7.2 | [`zeroes()`] |
//! | `smp_mb(Full)` | 7.0 to 7.2 | [`smp_mb()`] |
//! | errors from `EDEADLK` on, such as `ECONNRESET` | 7.0 to 7.2 | [`ECONNRESET`] and others |
//! | `module::this_module` | 7.0 to 7.2 | [`super::this_module()`] |
//! | a `Subsystem` as a parent of groups | 7.0 to 7.2 | its data has no size (`config/rules.rs`) |
//! | fields of `struct net` | 7.0 | a helper in C (`os/net.rs`) |
//! | `IPPROTO_TCP` | 7.0 | a constant of `bindings_header.h` |
//! | `dma_data_direction`, a type from 7.3.4 on | 7.0 to 7.3.0 | numbers, and helpers in C that take them |
//! | `xprt_add_backlog_noncongested()` of sunrpc | 7.0, at first | `queue()` (`sunrpc/xprt/slot.rs`) |
//! | a crate without a name in the compiler's command | 7.0 to 7.2 | the name of the main file; `Kbuild` |

mod pointer;

use core::mem::transmute;

use kernel::{
    alloc::Flags,
    error::{
        code::EINVAL,
        Error, //
    },
    prelude::*,
    sync::atomic::{
        ordering::Ordering,
        Atomic, //
    },
    ThisModule, //
};

use super::this_module;
use crate::bindings;

pub(crate) use pointer::AtomicPtr;

/// Subtracts `value`, and returns the value before.
#[inline(always)]
pub(crate) fn fetch_sub<O: Ordering>(atomic: &Atomic<u32>, value: u32, order: O) -> u32 {
    atomic.fetch_add(value.wrapping_neg(), order)
}

/// Allocates `len` bytes of zero. `KVec::from_elem` writes them one by one.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn zeroes(len: usize, flags: Flags) -> Result<KVec<u8>> {
    let mut bytes = KVec::with_capacity(len, flags | __GFP_ZERO)?;

    // SAFETY: The capacity is at least `len` elements, and the allocator has zeroed them.
    unsafe { bytes.inc_len(len) };
    Ok(bytes)
}

/// A full barrier between processors.
#[inline(always)]
pub(crate) fn smp_mb() {
    // SAFETY: A barrier has no conditions.
    unsafe { bindings::full_barrier() }
}

/// `THIS_MODULE` as `configfs_attrs!` expects it in scope before 7.3.
#[allow(dead_code, reason = "a macro of some series uses it")]
// SAFETY: The pointer is this module's.
pub(crate) static THIS_MODULE: ThisModule = unsafe { ThisModule::from_ptr(this_module()) };

macro_rules! error_codes {
    ($($name:ident)*) => {$(
        #[doc = concat!("`-", stringify!($name), "` of C.")]
        // CAST: Numbers of errors are small.
        pub(crate) const $name: Error = error(bindings::$name as i32);
    )*};
}

error_codes! {
    EADDRNOTAVAIL EAFNOSUPPORT ECANCELED ECONNREFUSED ECONNRESET EDQUOT EHOSTUNREACH EMSGSIZE
    ENAMETOOLONG ENETDOWN ENETUNREACH ENOBUFS ENOTCONN EOPNOTSUPP EPROTO EPROTONOSUPPORT
}

/// The crate's own function for this is not `const`.
const fn error(number: i32) -> Error {
    const MAX: i32 = bindings::MAX_ERRNO as i32;
    const KNOWN: i32 = bindings::EINVAL as i32;

    assert!(number > 0 && number <= MAX);
    // An `Error` is its negative number.
    //
    // SAFETY: Both are four bytes, and any bytes are a number.
    assert!(unsafe { transmute::<Error, i32>(EINVAL) } == KNOWN.wrapping_neg());
    // SAFETY: By the assertions an `Error` is stored as its number, and this is a valid one.
    unsafe { transmute::<i32, Error>(number.wrapping_neg()) }
}

#[cfg(CONFIG_KUNIT = "y")]
#[kernel::macros::kunit_tests(rpcrdma_series)]
mod tests {
    use super::*;

    /// Memory is zero, whatever was there before.
    #[test]
    fn zeroed() -> Result {
        for len in [0usize, 1, 100, 5000] {
            let mut used = zeroes(len, GFP_KERNEL)?;
            used.fill(0xff);
            drop(used);
            let bytes = zeroes(len, GFP_KERNEL)?;
            assert!(bytes.len() == len && bytes.iter().all(|&byte| byte == 0));
        }
        Ok(())
    }
}
