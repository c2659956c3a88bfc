// SPDX-License-Identifier: GPL-2.0

//! Calls whose RDMA the client's device has refused, or that cannot be made.

use core::net::IpAddr;

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use super::super::refused::RefusedCalls;
use crate::verbs::Failure;

/// The calls that have ended connections of a listener, and the part of one connection in them.
pub(super) struct Refusals {
    calls: Arc<RefusedCalls>,
    /// Set if the client's device has refused a request whose transfer has not completed.
    is_refused: Atomic<bool>,
}

impl Refusals {
    /// No request of the connection was refused.
    pub(super) fn new(calls: Arc<RefusedCalls>) -> Self {
        Self {
            calls,
            is_refused: Atomic::new(false),
        }
    }

    /// A request has failed that is not the last one of its transfer.
    pub(super) fn request_failed(&self, failure: Failure) {
        // Requests complete in order: the transfer of this one is the next that does.
        if failure.is_refused() {
            self.is_refused.store(true, Relaxed);
        }
    }

    /// The RDMA of the call with this xid of `client` has failed. If the client's device has
    /// refused it, the call is rejected when it comes again (V1-118), and this returns `true`.
    #[cold]
    pub(super) fn transfer_failed(&self, client: IpAddr, xid: u32, failure: Failure) -> bool {
        let was_refused = self.is_refused.xchg(false, Relaxed);
        let is_refused = was_refused || failure.is_refused();

        if is_refused {
            self.calls.record(client, xid);
        }
        is_refused
    }

    /// Returns `true`, once, if the RDMA of this call was refused before.
    pub(super) fn take(&self, client: IpAddr, xid: u32) -> bool {
        self.calls.take(client, xid)
    }

    /// The RDMA of the call with this xid of `client` cannot be made because of `error`. Returns
    /// `true` if the call is to be rejected: memory that cannot be mapped has ended a connection
    /// before (V1-118). Any other lack passes.
    #[cold]
    pub(super) fn is_unmade_again(&self, client: IpAddr, xid: u32, error: Error) -> bool {
        error == EIO && self.calls.is_unmapped_again(client, xid)
    }
}
