// SPDX-License-Identifier: GPL-2.0

//! The view of a transport in debugfs: a line in the table of all connections, and a file
//! of its own.
//!
//! The files take the locks that the values are under one at a time, so that the values may be from
//! different moments.

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::Arc, //
};

use super::{
    connection::{
        grower::adapt_later,
        Connection,
        Shared, //
    },
    negotiated::{
        Facts,
        Negotiated, //
    },
    transports, //
};
use crate::{
    os::{
        debugfs::Show,
        secs_since,
        series::ENOTCONN, //
    },
    policy::{
        peers,
        Side, //
    },
    proto::peers::Remembered,
    sunrpc::Load,
    verbs::Usage,
    view::{
        self,
        Hex,
        RuleName,
        Threshold, //
    }, //
};

/// The reason why calls wait to be sent.
fn waits_for(load: &Load, connection: Option<&Connection>) -> &'static str {
    match connection {
        _ if load.waiting == 0 && load.backlog == 0 => "nothing",
        None => "connection",
        Some(connection) if !load.connected || connection.link.life().is_closed() => "connection",
        Some(_) if load.congested => "credits",
        Some(connection) if connection.waiters.is_short_of_registrations() => "registrations",
        Some(connection) if load.no_space || connection.waiters.is_short() => "buffers",
        Some(_) if load.backlog != 0 => "slots",
        Some(_) => "its turn",
    }
}

/// The word for the state of a transport.
fn state(load: &Load, connection: Option<&Connection>) -> &'static str {
    match connection {
        Some(connection) if load.connected && !connection.link.life().is_closed() => {
            if connection.window.is_confirmed() {
                "connected"
            } else {
                "unconfirmed"
            }
        }
        _ if load.connecting => "connecting",
        Some(_) => "closing",
        None => "idle",
    }
}

/// One transport, at one moment.
struct View<'a> {
    shared: &'a Shared,
    connection: Option<Arc<Connection>>,
    load: Load,
    usage: Option<Usage>,
}

impl<'a> View<'a> {
    fn of(shared: &'a Shared) -> Self {
        let connection = shared.current();
        let usage = connection
            .as_ref()
            .and_then(|c| c.link.with_qp(|qp| qp.usage()));

        Self {
            shared,
            load: shared.xprt.load(),
            connection,
            usage,
        }
    }

    fn connection(&self) -> Option<&Connection> {
        self.connection.as_deref()
    }

    /// The terms of the connection.
    fn negotiated(&self) -> Option<&Negotiated> {
        self.connection()?.negotiated()
    }

    /// Prints the line of the table.
    fn line(&self, seq: &SeqFile) {
        let Self { shared, load, .. } = self;
        let place = view::Place {
            side: Side::Client.as_str(),
            number: shared.xprt.id(),
            peer: shared.xprt.peer(),
            device: shared.destination.lock().device,
            netns: shared.xprt.net().number(),
            state: state(load, self.connection()),
        };
        let Some((connection, negotiated)) = self.connection().zip(self.negotiated()) else {
            return view::line(seq, &place, None);
        };
        let facts = &negotiated.facts;
        let (call, reply) = thresholds(connection, negotiated);

        view::line(
            seq,
            &place,
            Some(&view::Terms {
                since: secs_since(facts.since),
                version: negotiated.wire().version(),
                call,
                reply,
                invalidation: negotiated.remote_invalidation.as_str(),
                asked: negotiated.credits,
                granted: connection.window.last_grant(),
                used: load.used,
                waiting: load.waiting.saturating_add(load.backlog),
                waits_for: waits_for(load, Some(connection)),
                receives: self.usage.unwrap_or_default().receives_posted,
                registrations: self.registrations_used(negotiated),
                memory: self.memory(),
                rule: &facts.rule,
            }),
        );
    }

    /// The registrations that calls use, without the registrations kept for the next calls.
    fn registrations_used(&self, negotiated: &Negotiated) -> u32 {
        let kept = self.shared.slots.iter().fold(0u32, |sum, request| {
            sum.saturating_add(request.kept_count())
        });
        negotiated.pool.in_use().saturating_sub(kept)
    }

    /// Allocated buffers, KiB.
    fn memory(&self) -> u64 {
        self.usage.map_or(0, |usage| usage.bytes / 1024)
    }

    /// Prints the state of the transport and its connection, a name and a value on each line.
    fn details(&self, seq: &SeqFile) {
        let Self { shared, load, .. } = self;

        seq_print!(seq, "state {}\n", state(load, self.connection()));
        seq_print!(seq, "netns {}\n", shared.xprt.net().number());
        seq_print!(
            seq,
            "calls_waiting {}\n",
            load.waiting.saturating_add(load.backlog)
        );
        seq_print!(seq, "waits_for {}\n", waits_for(load, self.connection()));
        if let Some(Remembered { cause, left }) = peers::version_1(&shared.peer()) {
            seq_print!(seq, "version_1 {}, for {left} s\n", cause.as_str());
        }
        if let Some((connection, negotiated)) = self.connection().zip(self.negotiated()) {
            self.agreement(seq, connection, negotiated);
        }
    }

    /// Prints the terms that both ends agreed on, and the credits in use.
    fn agreement(&self, seq: &SeqFile, connection: &Connection, negotiated: &Negotiated) {
        let facts = &negotiated.facts;
        let device = self.shared.destination.lock().device;

        if let Some(device) = device {
            seq_print!(seq, "device {} port {}\n", device.as_str(), facts.port);
        }
        seq_print!(seq, "gid {}\n", facts.gid);
        seq_print!(
            seq,
            "protocol {} (of {})\n",
            negotiated.wire().version(),
            facts.policy.versions().as_str()
        );
        seq_print!(seq, "since {} s\n", secs_since(facts.since));
        seq_print!(seq, "rule {}\n", RuleName(&facts.rule));
        private_data(seq, facts);
        terms(seq, connection, negotiated);
        seq_print!(
            seq,
            "credits asked {} granted {} used {} abandoned {}\n",
            negotiated.credits,
            connection.window.last_grant(),
            self.load.used,
            connection.window.abandoned_calls(),
        );
        self.resources(seq, negotiated);
    }

    /// Prints the resources of the connection, allocated and in use.
    fn resources(&self, seq: &SeqFile, negotiated: &Negotiated) {
        if let Some(usage) = self.usage {
            let Usage {
                receives_posted,
                receives_allocated,
                sends_posted,
                sends_allocated,
                ..
            } = usage;
            seq_print!(
                seq,
                "receives posted {receives_posted} of {receives_allocated}\n"
            );
            seq_print!(seq, "sends posted {sends_posted} of {sends_allocated}\n");
        }
        let (used, made) = (
            self.registrations_used(negotiated),
            negotiated.pool.allocated(),
        );
        seq_print!(seq, "registrations used {used} of {made}\n");
        let limit = negotiated.facts.policy.memory;
        seq_print!(seq, "memory {} KiB of {limit}\n", self.memory());
    }
}

/// The thresholds of calls and of replies, with the sizes of both ends: those of the private data,
/// or those that the ends of a connection of version 2 have told each other since.
fn thresholds(connection: &Connection, negotiated: &Negotiated) -> (Threshold, Threshold) {
    let (facts, limits) = (&negotiated.facts, negotiated.limits.get().thresholds);
    let peer = facts.peer.unwrap_or_default();
    let by_data = (facts.own.send.bytes(), peer.receive.bytes());
    let told = connection.agreement.characteristics.sizes.with(|exchange| {
        let (own, peer) = exchange.in_force();
        ((exchange.sends(), peer), own, exchange.longest_reply())
    });
    let (call, own, shown) = told.unwrap_or((by_data, facts.own.receive.bytes(), 0));

    (
        Threshold {
            bytes: limits.call,
            own: call.0,
            peer: call.1,
        },
        Threshold {
            bytes: limits.reply,
            own,
            peer: peer.send.bytes().max(shown),
        },
    )
}

/// Prints the private data of both ends, as it came and decoded.
fn private_data(seq: &SeqFile, facts: &Facts) {
    let (sent, peer) = (facts.own.encode(), facts.peer.unwrap_or_default());
    let own_said = facts.policy.private_data;

    seq_print!(
        seq,
        "private_data_sent {}\n",
        Hex(if own_said { &sent } else { &[] })
    );
    let received = Hex(facts.bytes.as_slice());
    seq_print!(seq, "private_data_received {received}\n");
    view::meaning(seq, "we", own_said, &facts.own);
    view::meaning(seq, "server", facts.peer.is_some(), &peer);
}

/// Prints the terms that follow from that, and the end that limits them.
fn terms(seq: &SeqFile, connection: &Connection, negotiated: &Negotiated) {
    let (call, reply) = thresholds(connection, negotiated);

    call.print(seq, "inline_call");
    reply.print(seq, "inline_reply");
    seq_print!(
        seq,
        "remote_invalidation {} (asked for: {})\n",
        negotiated.remote_invalidation.as_str(),
        negotiated.facts.policy.remote_invalidation.as_str()
    );
    let reverse = view::switch(negotiated.reverse_slots > 1);
    seq_print!(seq, "reverse {reverse}\n");
    let outdated = connection.link.with_qp(|qp| qp.outdated()).unwrap_or(0);
    let (own, peer) = (
        &negotiated.facts.own,
        negotiated.facts.peer.unwrap_or_default(),
    );
    let exchange = connection.agreement.characteristics.sizes.copy();
    view::sizes(seq, own, &peer, exchange.as_ref(), outdated);
}

impl Show for Shared {
    const IS_SET: bool = true;

    /// Prints the peer and the state of its connection, then the counters that mountstats does not
    /// show, and the ends of the last connections.
    fn show(&self, seq: &SeqFile) {
        seq_print!(seq, "peer {}\n", self.xprt.peer());
        View::of(self).details(seq);
        self.stats.print_own(seq);
        self.history.print(seq);
    }

    /// Changes the present connection.
    fn set(&self, text: &str) -> Result {
        let connection = self.current().ok_or(ENOTCONN)?;
        let sizes = &connection.agreement.characteristics.sizes;

        view::change(text, |change| sizes.with(|it| change.request(it)))?;
        sizes.stir();
        adapt_later(&connection);
        Ok(())
    }
}

/// Prints the lines of all transports.
pub(crate) fn lines(seq: &SeqFile) {
    transports::for_each(|shared| View::of(shared).line(seq));
}
