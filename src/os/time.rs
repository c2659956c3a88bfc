// SPDX-License-Identifier: GPL-2.0

//! The tick counter that sunrpc keeps its times in, and the seconds.
//!
//! C header: [`include/linux/jiffies.h`](srctree/include/linux/jiffies.h)

use crate::bindings;

/// The current value of the kernel's tick counter; wraps around.
#[inline]
pub(crate) fn jiffies() -> usize {
    // SAFETY: Reads a variable that is always there.
    unsafe { bindings::jiffies_now() }
}

/// The whole seconds since `then`, in ticks.
pub(crate) fn secs_since(then: usize) -> usize {
    jiffies()
        .wrapping_sub(then)
        .checked_div(secs_to_jiffies(1))
        .unwrap_or(0)
}

/// The seconds since the machine was started.
pub(crate) fn uptime_secs() -> u64 {
    // SAFETY: Any context will do. CAST: Not negative.
    unsafe { bindings::ktime_get_seconds() as u64 }
}

/// `secs` seconds in ticks.
#[inline]
pub(crate) const fn secs_to_jiffies(secs: u32) -> usize {
    // CAST: Widening on every 64-bit machine; no constructor is available in `const`.
    (secs as usize).saturating_mul(bindings::RPCRDMA_RS_HZ as usize)
}
