// SPDX-License-Identifier: GPL-2.0

//! Failed attempts to connect, for sunrpc and the log.

use kernel::{
    fmt,
    prelude::*, //
};

use super::{
    super::connection::{
        attempt::StepError,
        Shared, //
    },
    size::Unfit, //
};
use crate::os::series::{
    EADDRNOTAVAIL,
    ECANCELED,
    ECONNREFUSED,
    EHOSTUNREACH,
    ENETDOWN,
    ENETUNREACH,
    EOPNOTSUPP, //
};
use crate::sunrpc::ConnectStatus;

/// A step of connecting.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Takes the server's address from sunrpc. No step is number 0.
    Address = 1,
    /// Makes the identifier.
    Identifier,
    /// Resolves the address.
    ResolveAddress,
    /// Resolves the route to it.
    ResolveRoute,
    /// Takes a reference to the device.
    Device,
    /// Sizes the connection: the device cannot have it.
    FitDevice,
    /// Sizes the connection: the limit of memory is too small for it.
    FitMemory,
    /// Makes the protection domain.
    ProtectionDomain,
    /// Makes the completion queue.
    CompletionQueue,
    /// Makes the queue pair.
    QueuePair,
    /// Posts the first Receives.
    Receives,
    /// Requests the connection from the server, and settles the terms.
    Connect,
    /// Makes the first call.
    Probe,
    /// Exchanges characteristics.
    Exchange,
}

impl Step {
    /// The step for the log and the history.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Identifier => "identifier",
            Self::ResolveAddress => "resolving the address",
            Self::ResolveRoute => "resolving the route",
            Self::Device => "device",
            Self::FitDevice => "the device lacks fast registration or is too small",
            Self::FitMemory => "the memory limit is too small for the inline sizes",
            Self::ProtectionDomain => "protection domain",
            Self::CompletionQueue => "completion queue",
            Self::QueuePair => "queue pair",
            Self::Receives => "Receives",
            Self::Connect => "connecting",
            Self::Probe => "asking the server",
            Self::Exchange => "exchanging characteristics",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The failure of an attempt.
#[derive(Clone, Copy)]
pub(super) struct ConnectError {
    /// The step that failed.
    pub(super) step: Step,
    /// The status for sunrpc.
    pub(super) status: ConnectStatus,
    /// Its number: a negative errno, or the reason of a rejection.
    pub(super) code: i32,
}

impl ConnectError {
    /// The failure of `step` with an errno.
    pub(super) fn at(step: Step) -> impl Fn(Error) -> Self {
        move |error| {
            let status = match error {
                e if e == ENOMEM => ConnectStatus::NoMemory,
                e if e == ENETUNREACH => ConnectStatus::NetUnreachable,
                e if e == ENETDOWN => ConnectStatus::NetDown,
                e if e == ENODEV || e == EADDRNOTAVAIL || e == EHOSTUNREACH => {
                    ConnectStatus::Unreachable
                }
                e if e == ECONNREFUSED => ConnectStatus::Refused,
                _ => ConnectStatus::Retry,
            };
            Self {
                step,
                status,
                code: error.to_errno(),
            }
        }
    }

    /// The failure of `step` with the outcome that was waited for.
    pub(super) fn with(step: Step) -> impl Fn(StepError) -> Self {
        move |StepError { status, code }| Self { step, status, code }
    }

    /// The failure to resolve the server's address with the outcome that was waited for. `ENODEV`
    /// is the answer of rdma_cm when the interface to the server has no RDMA device.
    pub(super) fn unresolved(failed: StepError) -> Self {
        let mut error = Self::with(Step::ResolveAddress)(failed);

        if error.code == ENODEV.to_errno() {
            error.status = ConnectStatus::NoDevice;
        }
        error
    }

    /// A number, not 0, for each pair of a step and a status.
    fn reason(self) -> u32 {
        // CAST: The discriminants of short enums.
        ((self.step as u32) << 8) | self.status as u32
    }

    /// Logs the failure, unless the log has shown the same since the last success.
    pub(super) fn report(self, shared: &Shared) {
        // Nothing waits for the connection now.
        if self.code == ECANCELED.to_errno() {
            return;
        }
        let reason = self.reason();
        if !shared.lessons.is_new(reason) {
            return;
        }
        let why = match self.status {
            ConnectStatus::Refused => "refused",
            ConnectStatus::Unreachable => "not reachable",
            ConnectStatus::NoDevice => "no usable RDMA device",
            ConnectStatus::NoVersion => "no version of the protocol in common",
            ConnectStatus::NetUnreachable => "no route",
            ConnectStatus::NetDown => "network down",
            ConnectStatus::NoMemory => "out of memory",
            ConnectStatus::Retry => "failed",
        };
        pr_info!(
            "{}: cannot connect: {}: {} ({}); will try again\n",
            shared.xprt.peer(),
            self.step,
            why,
            self.code
        );
    }
}

impl From<Unfit> for ConnectError {
    fn from(unfit: Unfit) -> Self {
        let (step, status) = match unfit {
            Unfit::Device => (Step::FitDevice, ConnectStatus::NoDevice),
            // The limit can be raised at any time.
            Unfit::Memory => (Step::FitMemory, ConnectStatus::Unreachable),
        };
        Self {
            step,
            status,
            code: EOPNOTSUPP.to_errno(),
        }
    }
}
