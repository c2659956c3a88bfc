// SPDX-License-Identifier: GPL-2.0

//! The calls whose RDMA clients have refused, for all connections of a listener (RFC 8166, section
//! 4.5.3).

use core::net::IpAddr;

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    }, //
};

use crate::proto::responder::last_words::LastWords;

/// These calls. A refusal ends the connection, and the client sends the call again over the next
/// one, which is not to end in the same way.
#[pin_data]
pub(super) struct RefusedCalls {
    #[pin]
    calls: SpinLock<LastWords<IpAddr>>,
    /// Set once there was one, so that most servers never take the lock.
    is_used: Atomic<bool>,
}

impl RefusedCalls {
    /// None.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                calls <- new_spinlock!(LastWords::new(), "rpcrdma_rs::RefusedCalls"),
                is_used: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// The RDMA of the call with this xid was refused.
    #[cold]
    pub(super) fn record(&self, client: IpAddr, xid: u32) {
        self.calls.lock().record(client, xid);
        self.is_used.store(true, Relaxed);
    }

    /// Returns `true`, once, if that has happened to the call.
    #[inline]
    pub(super) fn take(&self, client: IpAddr, xid: u32) -> bool {
        self.is_used.load(Relaxed) && self.calls.lock().take(client, xid)
    }
}
