// SPDX-License-Identifier: GPL-2.0

//! The view of a connection in debugfs, and what the list of all connections needs to know of it.

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    seq_print, //
};

use super::{
    super::{
        admission::Admission,
        memory,
        stats::SUMS, //
    },
    Connection,
    Settled,
    Terms, //
};
use crate::{
    os::{
        debugfs::Show,
        secs_since, //
    },
    policy::Side,
    proto::{
        neutral::Invalidation,
        Wire, //
    },
    sunrpc::Peer,
    verbs::{
        MrPool,
        Usage, //
    },
    view::{
        self,
        Hex,
        RuleName,
        Threshold, //
    }, //
};

impl Connection {
    /// The counters that have a sum.
    pub(in crate::server) fn summed(&self) -> [u64; SUMS] {
        self.stats.summed()
    }

    /// Prints the line of the table.
    pub(in crate::server) fn line(&self, seq: &SeqFile) {
        let place = view::Place {
            side: Side::Server.as_str(),
            number: self.number(),
            peer: Peer::new(&self.admission.client),
            device: self.admission.device,
            netns: self.admission.netns,
            state: state(self),
        };

        match View::of(self) {
            None => view::line(seq, &place, None),
            Some(view) => view.line(seq, &place),
        }
    }
}

/// The word for the state of a connection.
fn state(connection: &Connection) -> &'static str {
    match connection.settled() {
        None => "accepting",
        Some(_) if connection.is_closed() => "closing",
        Some(_) if connection.outbox.space.is_established() => "connected",
        Some(_) => "unconfirmed",
    }
}

/// The number of messages that wait to be sent, and the reason.
fn waiting(connection: &Connection) -> (u32, &'static str) {
    match connection.outbox.space.waiting() {
        0 => (0, "nothing"),
        count => (count, "buffers"),
    }
}

/// A connection with its terms, at one moment.
struct View<'c> {
    settled: Settled<'c>,
    usage: Usage,
}

impl<'c> View<'c> {
    /// The view; `None` until the terms are fixed.
    fn of(connection: &'c Connection) -> Option<Self> {
        Some(Self {
            settled: connection.settled()?,
            // None without a queue pair.
            usage: connection.link.with_qp(|qp| qp.usage()).unwrap_or_default(),
        })
    }

    /// The thresholds of calls and of replies, with the sizes of both ends: those of the private
    /// data, or those that the ends of a connection of version 2 have told each other since.
    fn thresholds(&self) -> (Threshold, Threshold) {
        let terms = self.settled.terms;
        let (own, peer) = (terms.own, self.settled.peer());
        let mut call = Threshold {
            bytes: terms.thresholds.call,
            own: own.receive.bytes(),
            peer: peer.send.bytes(),
        };
        let mut reply = Threshold {
            bytes: terms.thresholds.reply,
            own: own.send.bytes(),
            peer: peer.receive.bytes(),
        };

        self.settled.characteristics.sizes.with(|exchange| {
            let (receive, told) = exchange.in_force();
            // The client has no size for its calls but ours.
            (call.bytes, call.own, call.peer) = (receive, receive, u32::MAX);
            (reply.bytes, reply.own, reply.peer) = (exchange.limits().send, exchange.sends(), told);
        });
        (call, reply)
    }

    /// The word for the invalidation by replies.
    fn invalidation(&self) -> &'static str {
        view::switch(self.settled.terms.invalidation == Invalidation::Any)
    }

    /// Prints the line of the table.
    fn line(&self, seq: &SeqFile, place: &view::Place<Peer>) {
        let Self { settled, usage } = self;
        let (call, reply) = self.thresholds();
        let (waiting, waits_for) = waiting(settled);

        view::line(
            seq,
            place,
            Some(&view::Terms {
                since: secs_since(settled.terms.since),
                version: settled.version.fixed().map_or(0, Wire::version),
                call,
                reply,
                invalidation: self.invalidation(),
                asked: settled.receives.requested(),
                granted: settled.receives.granted(),
                // CAST: Widening.
                used: settled.receives.busy() as usize,
                // CAST: Widening.
                waiting: waiting as usize,
                waits_for,
                receives: usage.receives_posted,
                registrations: settled.terms.sinks.as_deref().map_or(0, MrPool::in_use),
                memory: usage.bytes / 1024,
                rule: &settled.admission.rule,
            }),
        );
    }

    /// Prints the terms that both ends agreed on.
    fn agreement(&self, seq: &SeqFile) {
        let Admission { device, rule, .. } = &self.settled.admission;
        let terms = self.settled.terms;
        let (port, gid) = &terms.local;
        if let Some(device) = device {
            seq_print!(seq, "device {} port {}\n", device.as_str(), *port);
        }
        seq_print!(seq, "gid {}\n", *gid);
        let version = &self.settled.version;
        seq_print!(
            seq,
            "protocol {} (of {})\n",
            version.fixed().map_or(0, Wire::version),
            version.versions().as_str()
        );
        seq_print!(seq, "since {} s\n", secs_since(terms.since));
        seq_print!(seq, "rule {}\n", RuleName(rule));

        self.sizes(seq);
        let reverse = view::switch(self.settled.callbacks.as_ref().is_some());
        seq_print!(seq, "reverse {reverse}\n");
        let outdated = self.settled.link.with_qp(|qp| qp.outdated()).unwrap_or(0);
        let exchange = self.settled.characteristics.sizes.copy();
        let peer = self.settled.peer();
        view::sizes(seq, &terms.own, &peer, exchange.as_ref(), outdated);
    }

    /// Prints the private data of both ends, and what follows from them.
    fn sizes(&self, seq: &SeqFile) {
        let Admission { data, policy, .. } = &self.settled.admission;
        let terms = self.settled.terms;
        let sent = terms.own.encode();
        let sent = Hex(if policy.private_data { &sent } else { &[] });
        seq_print!(seq, "private_data_sent {sent}\n");
        view::meaning(seq, "we", policy.private_data, &terms.own);
        view::meaning(seq, "client", data.is_some(), &self.settled.peer());
        let (call, reply) = self.thresholds();
        call.print(seq, "inline_call");
        reply.print(seq, "inline_reply");
        seq_print!(
            seq,
            "remote_invalidation {} (asked for: {})\n",
            self.invalidation(),
            policy.remote_invalidation.as_str()
        );
    }

    /// Prints the credits and the resources, allocated and in use.
    fn resources(&self, seq: &SeqFile) {
        let Usage {
            receives_posted,
            receives_allocated,
            sends_posted,
            sends_allocated,
            bytes,
        } = self.usage;
        let Terms { sinks, credits, .. } = self.settled.terms;
        let receives = &self.settled.receives;
        let (used, made) = sinks
            .as_deref()
            .map_or((0, 0), |pool| (pool.in_use(), pool.allocated()));
        let (kib, limit) = (bytes / 1024, self.settled.admission.policy.memory);

        seq_print!(
            seq,
            "credits asked {} granted {} used {} most {}\n",
            receives.requested(),
            receives.granted(),
            receives.busy(),
            *credits,
        );
        seq_print!(
            seq,
            "receives posted {receives_posted} of {receives_allocated}\n"
        );
        seq_print!(seq, "sends posted {sends_posted} of {sends_allocated}\n");
        seq_print!(seq, "registrations used {used} of {made}\n");
        seq_print!(seq, "memory {kib} KiB of {limit}\n");
        let (all, most) = memory::buffers().usage();
        seq_print!(seq, "server_memory {} KiB of {}\n", all / 1024, most / 1024);
    }

    /// Prints the memory of arguments that are read.
    fn arguments(&self, seq: &SeqFile) {
        let (own, most, waiting) = self.settled.calls.allowance.usage();
        let (own, most) = (own / 1024, most / 1024);
        seq_print!(seq, "arguments {own} KiB of {most}, {waiting} calls wait\n");
        let (all, most) = memory::arguments().usage();
        seq_print!(
            seq,
            "server_arguments {} KiB of {}\n",
            all / 1024,
            most / 1024
        );
    }
}

impl Show for Connection {
    const IS_SET: bool = true;

    /// Prints the client and the state of the connection, then the counters.
    fn show(&self, seq: &SeqFile) {
        seq_print!(seq, "peer {}\n", Peer::new(&self.admission.client));
        seq_print!(seq, "state {}\n", state(self));
        seq_print!(seq, "netns {}\n", self.admission.netns);
        let (waiting, waits_for) = waiting(self);
        seq_print!(seq, "replies_waiting {waiting}\n");
        seq_print!(seq, "waits_for {waits_for}\n");
        if let Some(view) = View::of(self) {
            view.agreement(seq);
            view.resources(seq);
            view.arguments(seq);
        }
        self.stats.print(seq);
    }

    /// Changes the connection.
    fn set(&self, text: &str) -> Result {
        let sizes = &self.characteristics.sizes;

        view::change(text, |change| sizes.with(|it| change.request(it)))?;
        // The next call queues the worker.
        sizes.stir();
        Ok(())
    }
}
