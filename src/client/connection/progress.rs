// SPDX-License-Identifier: GPL-2.0

//! The steps of connecting, and the events of the connection manager that end them.

use kernel::{
    prelude::*,
    sync::atomic::Relaxed, //
};

use super::{
    super::negotiated::{
        reverse_payload,
        Negotiated,
        PeerData, //
    },
    close_reason::CloseReason,
    step::StepError,
    Connection, //
};
use crate::os::series::{
    EADDRNOTAVAIL,
    ECANCELED,
    ECONNRESET, //
};
use crate::{
    cm,
    os::secs_to_jiffies,
    sunrpc::ConnectStatus, //
};

/// Jiffies between checks that sunrpc still wants a transport that is connecting.
pub(in crate::client) const RELEASE_POLL: usize = secs_to_jiffies(1) / 10;

impl Connection {
    /// Waits for the end of a step of connecting, at most `limit` jiffies, and no longer than
    /// sunrpc wants the transport. Returns the private data of the peer, if it came with that step.
    ///
    /// # Errors
    ///
    /// The failure of the step; `ETIMEDOUT`; `ECANCELED` when sunrpc is done with the transport.
    pub(in crate::client) fn wait_step(&self, limit: usize) -> Result<PeerData, StepError> {
        let mut left = limit;

        // sunrpc makes no call when it drops its last reference: it waits for the write lock, which
        // is held here (H-49).
        loop {
            let slice = left.min(RELEASE_POLL);
            if self.stepped.wait(slice) {
                break;
            }
            left = left.saturating_sub(slice);
            if self.shared.xprt.is_released() {
                return Err(StepError {
                    status: ConnectStatus::Retry,
                    code: ECANCELED.to_errno(),
                });
            }
            if left == 0 {
                return Err(StepError::of(ETIMEDOUT.to_errno()));
            }
        }
        let mut progress = self.progress.lock();
        progress.asked = false;
        // A signal without an outcome belongs to a step before this one.
        progress.outcome.take().unwrap_or(Err(StepError {
            status: ConnectStatus::Retry,
            code: EAGAIN.to_errno(),
        }))?;
        Ok(progress.peer)
    }

    /// Notes the outcome of a step, and wakes the attempt that waits for it.
    fn step(&self, outcome: Result<(), StepError>, peer: PeerData) {
        {
            let mut progress = self.progress.lock();
            progress.outcome = Some(outcome);
            progress.peer = peer;
        }
        self.stepped.signal();
    }

    /// Ends a step of connecting with success.
    pub(in crate::client) fn next_step(&self) {
        self.step(Ok(()), PeerData::NONE);
    }

    /// Publishes the terms agreed between both ends, in place of any previous ones. Calls that are
    /// being built keep to the terms that they began with.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` when the terms have changed too often. The previous terms stay.
    pub(in crate::client) fn set_negotiated(&self, negotiated: Negotiated) -> Result {
        let reverse = reverse_payload(negotiated.wire, &negotiated.limits.thresholds);
        self.negotiated.publish(negotiated)?;
        self.shared.reverse_payload.store(reverse, Relaxed);
        Ok(())
    }

    /// Begins the step that requests the connection from the server.
    pub(in crate::client) fn ask(&self) {
        self.progress.lock().asked = true;
    }

    /// The connection is lost during a step of connecting, which ends with failure. But after the
    /// connection request an event reports the outcome: the connection manager ends the Receives
    /// before it reports a rejection.
    pub(super) fn step_lost(&self) {
        let asked = self.progress.lock().asked;
        if !asked {
            self.failed(ConnectStatus::Retry, ECONNRESET.to_errno());
        }
    }

    /// Ends a step of connecting with failure.
    pub(in crate::client) fn failed(&self, status: ConnectStatus, code: i32) {
        self.step(Err(StepError { status, code }), PeerData::NONE);
    }
}

impl cm::EventHandler for Connection {
    fn event(&self, event: cm::Event<'_>) {
        match event {
            cm::Event::AddressResolved | cm::Event::RouteResolved => self.next_step(),
            cm::Event::Established(bytes) => self.step(Ok(()), PeerData::new(bytes)),
            cm::Event::Rejected(reject) => {
                let status = match reject {
                    cm::Reject::StaleConnection | cm::Reject::Reset => ConnectStatus::Retry,
                    cm::Reject::Refused(_) => ConnectStatus::Refused,
                };
                self.failed(status, reject.code());
            }
            cm::Event::Failed(code) | cm::Event::Unreachable(code) => {
                self.announce_loss(CloseReason::Unreachable);
                self.step(Err(StepError::of(code)), PeerData::NONE);
            }
            cm::Event::Disconnected => {
                self.announce_loss(CloseReason::HungUp);
                self.failed(ConnectStatus::Retry, ECONNRESET.to_errno());
            }
            cm::Event::AddressChanged => {
                self.announce_loss(CloseReason::AddressChanged);
                self.failed(ConnectStatus::Retry, EADDRNOTAVAIL.to_errno());
            }
            cm::Event::DeviceRemoval => {
                self.announce_loss(CloseReason::DeviceRemoval);
                self.failed(ConnectStatus::Unreachable, ENODEV.to_errno());
            }
        }
    }
}
