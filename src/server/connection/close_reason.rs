// SPDX-License-Identifier: GPL-2.0

//! The reasons why a connection ends.

use kernel::{
    fmt,
    prelude::*, //
};

use crate::{
    os::series::ENOBUFS,
    verbs::Failure, //
};

/// The reason why a connection ends.
#[derive(Clone, Copy)]
pub(super) enum CloseReason {
    /// A work request has failed.
    Completion(Failure),
    /// The device has refused a work request.
    PostRefused,
    /// The connection manager reports that the client is unreachable.
    Unreachable,
    /// The client has disconnected.
    HungUp,
    /// The local address has moved to another device.
    AddressChanged,
    /// The local device is about to be removed.
    DeviceRemoval,
    /// No memory was left for a call or a reply.
    NoResources,
    /// The memory of a call or a reply cannot be mapped for the device.
    Unmapped,
    /// Too many messages, or requests for them, wait for the client.
    TooMuch,
    /// A call to the client has got no reply in time.
    Callback,
    /// The client has sent far more calls than it may.
    Overrun,
    /// The administrator has ended it.
    Rule,
}

impl CloseReason {
    /// The reason behind the `error` of a message.
    pub(super) fn of(error: Error) -> Self {
        match error {
            e if e == ENOBUFS => Self::TooMuch,
            e if e == EIO => Self::Unmapped,
            _ => Self::NoResources,
        }
    }

    /// The reason in words.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Completion(failure) => failure.as_str().to_str().unwrap_or("?"),
            Self::PostRefused => "the device refused a work request",
            Self::Unreachable => "the client cannot be reached",
            Self::HungUp => "the client hung up",
            Self::AddressChanged => "the local address has moved",
            Self::DeviceRemoval => "the local device goes away",
            Self::NoResources => "no memory for a call, or for its reply",
            Self::Unmapped => "memory of a call, or of its reply, cannot be mapped",
            Self::TooMuch => "too much waits to be sent to the client, or read from it",
            Self::Callback => "a call to the client got no reply",
            Self::Overrun => "the client has sent far more calls than it may",
            Self::Rule => "ended on request",
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
