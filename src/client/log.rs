// SPDX-License-Identifier: GPL-2.0

//! Limits on the messages in the log: a server that breaks every connection must not flood it.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

use crate::os::Last;

/// The most messages about its connections in the time of a [`Last`].
const BURST: u32 = 20;

/// The messages of a transport.
pub(super) struct Log {
    /// Warnings about the server.
    warned: Last,
    /// Reports of bad replies and calls.
    reported: Last,
    /// The first of some messages about connections, and their number.
    burst_began: Last,
    burst: Atomic<u32>,
}

impl Log {
    /// No message was logged.
    pub(super) const fn new() -> Self {
        Self {
            warned: Last::never(),
            reported: Last::never(),
            burst_began: Last::never(),
            burst: Atomic::new(0),
        }
    }

    /// Returns `true` if the log may show another warning about the server.
    pub(super) fn may_warn(&self) -> bool {
        self.warned.is_due()
    }

    /// Returns `true` if a call that fails may be logged again. Such reports do not keep warnings
    /// out of the log.
    pub(super) fn may_report(&self) -> bool {
        self.reported.is_due()
    }

    /// Returns `true` if the log has room for one more message about a connection: a server that
    /// replies and hangs up each time would fill it.
    pub(super) fn may_inform(&self) -> bool {
        if self.burst_began.is_due() {
            self.burst.store(1, Relaxed);
            return true;
        }
        let count = self.burst.load(Relaxed).saturating_add(1);
        self.burst.store(count, Relaxed);
        count <= BURST
    }
}
