// SPDX-License-Identifier: GPL-2.0

//! The events of the connection manager.

use kernel::prelude::*;

use super::{
    super::negotiated::PeerData,
    attempt::StepError,
    close_reason::CloseReason,
    Connection, //
};
use crate::os::series::{
    EADDRNOTAVAIL,
    ECONNRESET, //
};
use crate::{
    cm,
    sunrpc::ConnectStatus, //
};

impl cm::EventHandler for Connection {
    fn event(&self, event: cm::Event<'_>) {
        let (loss, failed) = match event {
            cm::Event::AddressResolved | cm::Event::RouteResolved => {
                return self.attempt.end(Ok(PeerData::NONE));
            }
            cm::Event::Established(bytes) => return self.attempt.end(Ok(PeerData::new(bytes))),
            cm::Event::Rejected(reject) => {
                let status = match reject {
                    cm::Reject::StaleConnection | cm::Reject::Reset => ConnectStatus::Retry,
                    cm::Reject::Refused(_) => ConnectStatus::Refused,
                };
                let code = reject.code();
                return self.attempt.end(Err(StepError { status, code }));
            }
            cm::Event::Failed(code) | cm::Event::Unreachable(code) => {
                (CloseReason::Unreachable, StepError::of(code))
            }
            cm::Event::Disconnected => (
                CloseReason::HungUp,
                StepError::new(ConnectStatus::Retry, ECONNRESET),
            ),
            cm::Event::AddressChanged => (
                CloseReason::AddressChanged,
                StepError::new(ConnectStatus::Retry, EADDRNOTAVAIL),
            ),
            cm::Event::DeviceRemoval => (
                CloseReason::DeviceRemoval,
                StepError::new(ConnectStatus::Unreachable, ENODEV),
            ),
        };
        self.announce_loss(loss);
        self.attempt.end(Err(failed));
    }
}
