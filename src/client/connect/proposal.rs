// SPDX-License-Identifier: GPL-2.0

//! The terms of a connection request to the server.

use kernel::{
    fmt,
    prelude::*,
    sync::Arc, //
};

use super::{
    super::{
        connection::Shared,
        limits::Limits,
        negotiated::{
            Facts,
            Negotiated,
            PeerData,
            Spoken, //
        }, //
    },
    size::Size, //
};
use crate::{
    cm::Gid,
    os::{
        jiffies,
        PAGE_SIZE, //
    },
    policy::{
        table::Name,
        Policy,
        RemoteInvalidation, //
    },
    proto::{
        PlanLimits,
        PrivateData,
        Thresholds, //
    },
    verbs::{
        Device,
        MrPool, //
    },
    view::Hex, //
};

/// The terms of a connection before the connection request.
pub(super) struct Proposal {
    /// The policy, and the rule that it comes from.
    pub(super) policy: Policy,
    pub(super) rule: Option<Name>,
    /// The message for the server, sent if the policy has private data on.
    pub(super) own: PrivateData,
    /// The device, and the registrations and the size of the queue pair on it.
    pub(super) device: Arc<Device>,
    pub(super) pool: Arc<MrPool>,
    pub(super) size: Size,
    /// The number of outstanding calls that we request from the server.
    pub(super) credits: u32,
    /// Calls that the server may have outstanding.
    pub(super) reverse_slots: u32,
}

impl Proposal {
    /// The private data that the server gets, if any.
    pub(super) fn private_data(&self) -> Option<[u8; PrivateData::LEN]> {
        self.policy.private_data.then(|| self.own.encode())
    }

    /// The terms of both ends, after the server has sent its private data, `peer`. `port` and `gid`
    /// belong to this end.
    pub(super) fn negotiated(&self, peer: PeerData, (port, gid): (u32, Gid)) -> Negotiated {
        let Self { policy, size, .. } = self;
        let said = PrivateData::find(peer.as_slice());
        let announced = said.unwrap_or_default();

        Negotiated {
            spoken: Spoken::first(),
            limits: Limits::new(PlanLimits {
                thresholds: Thresholds::for_client(&self.own, &announced),
                page_size: PAGE_SIZE,
                pages_per_segment: size.mrs.pages,
                // No message is built before the send queue has room for the registrations of two
                // chunks.
                max_segments: size.mrs.per_message / 2,
            }),
            credits: self.credits,
            reverse_slots: self.reverse_slots,
            remote_invalidation: match policy.remote_invalidation {
                _ if policy.takes_invalidation(&announced) => RemoteInvalidation::On,
                setting if policy.private_data => setting,
                _ => RemoteInvalidation::Off,
            },
            pool: self.pool.clone(),
            facts: Facts {
                policy: *policy,
                rule: self.rule,
                own: self.own,
                peer: said,
                bytes: peer,
                port,
                gid,
                since: jiffies(),
            },
        }
    }

    /// Logs and traces the terms of the connection, once both ends agree.
    pub(super) fn log(&self, shared: &Shared, thresholds: &Thresholds, peer: PeerData) {
        let sent = self.private_data();
        let found = PrivateData::locate(peer.as_slice());

        shared.trace().inline_thresh(
            sent.map_or(0, u64::from_be_bytes),
            found.map_or(0, u64::from_be_bytes),
            (thresholds.call, thresholds.reply),
            self.credits,
        );
        if !shared.log.may_inform() {
            return;
        }
        pr_info!(
            "{}: connected over {}: private data sent {}, received {}; \
             inline thresholds: call {} reply {} bytes; {} credits asked for; {}\n",
            shared.xprt.peer(),
            self.device.name(),
            Hex(sent.as_slice().as_flattened()),
            Hex(found.as_slice().as_flattened()),
            thresholds.call,
            thresholds.reply,
            self.credits,
            RuleName(self.rule),
        );
    }
}

/// The origin of a connection's policy, for a message.
struct RuleName(Option<Name>);

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => {
                f.write_str("rule ")?;
                name.fmt(f)
            }
            None => f.write_str("no rule"),
        }
    }
}
