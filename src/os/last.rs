// SPDX-License-Identifier: GPL-2.0

//! Limits on actions that a peer could have repeated without end.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use super::{
    jiffies,
    secs_to_jiffies, //
};

/// Seconds between two such actions.
const EVERY_SECS: u32 = 5;

/// The time of the last action of a kind, in jiffies; 0 for never.
pub(crate) struct Last(Atomic<usize>);

impl Last {
    /// No action was taken.
    pub(crate) const fn never() -> Self {
        Self(Atomic::new(0))
    }

    /// Returns `true` if the action may be taken again; notes the time if so.
    pub(crate) fn is_due(&self) -> bool {
        let (now, then) = (jiffies().max(1), self.0.load(Relaxed));

        if then != 0 && now.wrapping_sub(then) < secs_to_jiffies(EVERY_SECS) {
            return false;
        }
        self.0.store(now, Relaxed);
        true
    }
}
