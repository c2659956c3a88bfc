// SPDX-License-Identifier: GPL-2.0

//! The workqueue for transports.

use kernel::workqueue::Queue;

use crate::bindings;

/// The workqueue that sunrpc keeps for its transports. It has a rescuer, so that a connection can
/// be made even when memory waits for it (H-90).
pub(crate) fn transport_queue() -> &'static Queue {
    // SAFETY: sunrpc makes the queue when it is loaded, and cannot be unloaded before this module.
    unsafe { Queue::from_raw(bindings::xprtiod_workqueue) }
}
