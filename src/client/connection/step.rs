// SPDX-License-Identifier: GPL-2.0

//! The outcome of a step of connecting.

use kernel::prelude::*;

use super::super::negotiated::PeerData;
use crate::os::series::{
    ENETDOWN,
    ENETUNREACH, //
};
use crate::sunrpc::ConnectStatus;

/// The failure of a step of connecting.
#[derive(Clone, Copy)]
pub(in crate::client) struct StepError {
    /// The status for sunrpc.
    pub(in crate::client) status: ConnectStatus,
    /// The number that the connection manager gave: a negative errno, or the reason of a rejection.
    pub(in crate::client) code: i32,
}

/// The last event of the connection manager.
pub(super) struct Progress {
    /// The outcome of the step, until it was waited for.
    pub(super) outcome: Option<Result<(), StepError>>,
    /// Set while the connection request is outstanding.
    pub(super) asked: bool,
    /// The peer's private data, as it came.
    pub(super) peer: PeerData,
}

impl StepError {
    /// The status for sunrpc of a failure with this (negative) errno of the connection manager.
    pub(super) fn of(code: i32) -> Self {
        let status = match code {
            code if code == ENETUNREACH.to_errno() => ConnectStatus::NetUnreachable,
            code if code == ENETDOWN.to_errno() => ConnectStatus::NetDown,
            _ => ConnectStatus::Unreachable,
        };
        Self { status, code }
    }
}
