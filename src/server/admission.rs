// SPDX-License-Identifier: GPL-2.0

//! The decision whether a client may connect, and on which terms.

use core::net::{
    IpAddr,
    SocketAddr, //
};

use kernel::prelude::*;

use crate::{
    cm::Request,
    os::{
        series::EDQUOT,
        Last, //
    },
    policy::{
        self,
        pattern::DeviceName,
        table::Name,
        Policy,
        Target, //
    },
    proto::PrivateData,
    sunrpc::{
        svc::address_in,
        Peer, //
    }, //
};

/// The reason why a request is rejected.
pub(super) enum Refusal {
    /// As many connections exist as the administrator allows.
    Connections,
    /// The buffers of all clients have as much memory as the administrator allows.
    Memory,
    /// As many requests wait for a thread as may.
    Waiting,
    /// The client's device takes no RDMA Reads.
    NoReads,
    /// The client has taken it back.
    Gone,
    /// Any other.
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            // No other code than that of the account returns it.
            e if e == EDQUOT => Self::Memory,
            e => Self::Error(e),
        }
    }
}

/// Messages about clients that are refused; a client may try again at any rate.
static REFUSED: Last = Last::never();

/// The end of a connection at the client, the device on this one, and the terms that the
/// administrator has set for it.
pub(super) struct Admission {
    /// The client's address.
    pub(super) client: SocketAddr,
    /// The client's message in its request, if it has sent one.
    pub(super) data: Option<PrivateData>,
    /// Our port.
    port: u16,
    /// The device that the request came over.
    pub(super) device: Option<DeviceName>,
    /// The number of the network namespace.
    pub(super) netns: u32,
    /// The settings.
    pub(super) policy: Policy,
    /// The rule that they come from.
    pub(super) rule: Option<Name>,
}

impl Admission {
    /// The terms for the client that has sent `request`, in the network namespace with the number
    /// `netns`; `None` if its request is rejected.
    pub(super) fn new(request: &Request<'_>, netns: u32) -> Option<Self> {
        let (local, remote) = &request.addresses;
        let (Some(local), Some(client)) = (address_in(local), address_in(remote)) else {
            if REFUSED.is_due() {
                pr_warn!("a client is refused: its address is none of IPv4 or IPv6\n");
            }
            return None;
        };
        let device = DeviceName::parse(request.device.as_str());
        let (policy, rule) =
            policy::table::decide(&target(client.ip(), local.port(), device.as_ref(), netns));
        policy::check(&policy);
        let this = Self {
            client,
            data: PrivateData::find(request.private_data),
            port: local.port(),
            device,
            netns,
            policy,
            rule,
        };

        if this.policy.connections == 0 {
            this.refused(Refusal::Connections);
            return None;
        }
        // A client whose device takes no RDMA Reads could not send large arguments (H-105).
        if request.reads == 0 {
            this.refused(Refusal::NoReads);
            return None;
        }
        Some(this)
    }

    /// The client as a target of rules.
    pub(super) fn target(&self) -> Target<'_> {
        target(
            self.client.ip(),
            self.port,
            self.device.as_ref(),
            self.netns,
        )
    }

    /// Logs why the request is rejected.
    #[cold]
    pub(super) fn refused(&self, why: Refusal) {
        let (peer, most) = (Peer::new(&self.client), self.policy.connections);

        match (why, &self.rule) {
            (Refusal::Gone, _) => {}
            _ if !REFUSED.is_due() => {}
            (Refusal::Connections, Some(rule)) => {
                pr_warn!("{peer}: refused: rule {rule} allows {most} connections\n");
            }
            (Refusal::Connections, None) => {
                pr_warn!("{peer}: refused: server_connections allows {most}\n");
            }
            (Refusal::Memory, _) => {
                let kib = policy::server_memory() / 1024;
                pr_warn!("{peer}: refused: server_memory allows {kib} KiB\n");
            }
            (Refusal::Waiting, _) => pr_warn!("{peer}: refused: too many requests wait\n"),
            (Refusal::NoReads, _) => {
                pr_warn!("{peer}: refused: its device takes no RDMA Reads\n");
            }
            (Refusal::Error(error), _) => {
                pr_warn!("{peer}: refused: error {}\n", error.to_errno());
            }
        }
    }
}

/// Logs that the request of `client` is rejected because of `error`, before it has an admission.
#[cold]
pub(super) fn no_connection(client: &SocketAddr, error: Error) {
    if REFUSED.is_due() {
        let peer = Peer::new(client);
        pr_warn!("{peer}: refused: error {}\n", error.to_errno());
    }
}

/// The client at `address` as a target of rules.
fn target(address: IpAddr, port: u16, device: Option<&DeviceName>, netns: u32) -> Target<'_> {
    Target::client(address, port, device.map(DeviceName::as_str), netns)
}
