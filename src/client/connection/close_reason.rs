// SPDX-License-Identifier: GPL-2.0

//! The reasons why connections end, for the log, the history and the traces.

use kernel::fmt;

use crate::verbs::Failure;

/// The reason why a connection ends.
#[derive(Clone, Copy)]
pub(in crate::client) enum CloseReason {
    /// A work request has failed.
    Completion(Failure),
    /// The device has refused a work request.
    PostRefused,
    /// The connection manager reports that the server is unreachable.
    Unreachable,
    /// The server has disconnected.
    HungUp,
    /// The local address has moved to another device.
    AddressChanged,
    /// The local device is about to be removed.
    DeviceRemoval,
    /// The server has broken the protocol.
    Violation(Violation),
    /// A local invalidation has failed, or has taken too long.
    NotInvalidated,
    /// No memory was left for the record of an abandoned call.
    NoRecord,
    /// Abandoned calls hold too many credits.
    Exhausted,
    /// A reverse call came before the Send that refused the previous one was complete.
    NotRefused,
    /// The reverse direction needs a larger connection.
    ReverseWanted,
    /// The administrator has requested another connection.
    Rule,
    /// The server refuses the version that it has agreed to.
    VersionRefused,
    /// A call has waited for its reply for too long.
    CallTimeout,
    /// sunrpc has closed it, for a reason of its own.
    Sunrpc,
}

/// A breach of the protocol that leaves the connection in doubt.
#[derive(Clone, Copy)]
pub(in crate::client) enum Violation {
    /// More replies to unknown calls than are accepted (V1-113).
    UnknownReplies,
    /// A second reply to the same call.
    SecondReply,
    /// More reverse calls than granted.
    ReverseOverflow,
    /// A remote invalidation although the private data does not announce any (PD-31).
    UnannouncedInvalidation,
    /// A remote invalidation of a handle of another call, or of none (PD-30).
    ForeignHandle,
}

impl CloseReason {
    /// Returns `true` if this end has decided that without a fault of the connection.
    pub(in crate::client) fn is_wanted(self) -> bool {
        matches!(self, Self::ReverseWanted | Self::Rule | Self::Sunrpc)
    }

    /// The reason in words.
    pub(in crate::client) fn as_str(self) -> &'static str {
        match self {
            Self::Completion(failure) => failure.as_str().to_str().unwrap_or("?"),
            Self::PostRefused => "the device refused a work request",
            Self::Unreachable => "the server cannot be reached any more",
            Self::HungUp => "the server hung up",
            Self::AddressChanged => "the local address has moved",
            Self::DeviceRemoval => "the local device goes away",
            Self::Violation(violation) => violation.as_str(),
            Self::NotInvalidated => "memory of a call could not be invalidated",
            Self::NoRecord => "no memory to remember an abandoned call",
            Self::Exhausted => "abandoned calls hold more than half of its credits",
            Self::NotRefused => "more calls from the server than can be refused at once",
            Self::ReverseWanted => "the reverse direction is wanted",
            Self::Rule => "a rule asked for a new one",
            Self::VersionRefused => "the server refuses the version of the protocol",
            Self::CallTimeout => "a call got no reply in time",
            Self::Sunrpc => "sunrpc closed it",
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Violation {
    /// The breach in words.
    fn as_str(self) -> &'static str {
        match self {
            Self::UnknownReplies => "too many replies to unknown calls",
            Self::SecondReply => "a second reply to the same call",
            Self::ReverseOverflow => "more reverse calls than granted",
            Self::UnannouncedInvalidation => {
                "it invalidates handles, and its private data does not say so"
            }
            Self::ForeignHandle => "it invalidated a handle that is not the call's",
        }
    }
}
