// SPDX-License-Identifier: GPL-2.0

//! The calls whose RDMA clients have refused, or that cannot be made, for all connections of a
//! listener (RFC 8166, section 4.5.3).

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

/// These calls. They end the connection, and the client sends the call again over the next one,
/// which is not to end in the same way.
#[pin_data]
pub(super) struct RefusedCalls {
    #[pin]
    calls: SpinLock<LastWords<IpAddr>>,
    /// Set once there was one, so that most servers never take the lock.
    is_used: Atomic<bool>,
    /// Those whose memory could not be mapped here.
    #[pin]
    unmapped: SpinLock<LastWords<IpAddr>>,
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
                unmapped <- new_spinlock!(LastWords::new(), "rpcrdma_rs::RefusedCalls::unmapped"),
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

    /// Memory of the call with this xid cannot be mapped. Returns `true` if it could not before:
    /// bounce buffers that were all in use may be free the next time, but not for ever.
    #[cold]
    pub(super) fn is_unmapped_again(&self, client: IpAddr, xid: u32) -> bool {
        let mut calls = self.unmapped.lock();
        let again = calls.take(client, xid);

        if !again {
            calls.record(client, xid);
        }
        again
    }
}
