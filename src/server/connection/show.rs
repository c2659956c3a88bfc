// SPDX-License-Identifier: GPL-2.0

//! The view of a connection in debugfs, and what the list of all connections needs to know of it.

use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

use super::{
    super::stats::SUMS,
    Connection,
    Terms, //
};
use crate::{
    os::{
        debugfs::Show,
        secs_since, //
    },
    policy::{
        pattern::Pattern,
        Side, //
    },
    proto::neutral::Invalidation,
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
    /// Returns `true` if the policies of both come from one rule, or both from none.
    pub(in crate::server) fn has_rule_of(&self, other: &Self) -> bool {
        self.admission.rule == other.admission.rule
    }

    /// The most connections that may have its policy.
    pub(in crate::server) fn most_alike(&self) -> u32 {
        self.admission.policy.connections
    }

    /// Returns `true` if a rule with `pattern` is for the connection.
    pub(in crate::server) fn is_target_of(&self, pattern: &Pattern) -> bool {
        pattern.matches(&self.admission.target())
    }

    /// The counters that have a sum.
    pub(in crate::server) fn summed(&self) -> [u64; SUMS] {
        self.stats.summed()
    }

    /// The word for the state.
    fn state(&self) -> &'static str {
        match self.terms() {
            None => "accepting",
            Some(_) if self.is_closed() => "closing",
            Some(_) if self.calls.is_established() => "connected",
            Some(_) => "unconfirmed",
        }
    }

    /// The thresholds of calls and of replies.
    fn thresholds(&self, terms: &Terms) -> (Threshold, Threshold) {
        let (own, peer) = (terms.own, self.peer());

        (
            Threshold {
                bytes: terms.thresholds.call,
                own: own.receive,
                peer: peer.send,
            },
            Threshold {
                bytes: terms.thresholds.reply,
                own: own.send,
                peer: peer.receive,
            },
        )
    }

    /// Messages that wait to be sent, and the reason.
    fn waiting(&self) -> (usize, &'static str) {
        match self.outbox.waiting() {
            0 => (0, "nothing"),
            count => (count, "buffers"),
        }
    }

    /// The queues of the connection; none without a queue pair.
    fn usage(&self) -> Usage {
        self.link.with_qp(|qp| qp.usage()).unwrap_or_default()
    }

    /// Prints the line of the table.
    pub(in crate::server) fn line(&self, seq: &SeqFile) {
        let place = view::Place {
            side: Side::Server.as_str(),
            number: self.number,
            peer: Peer::new(&self.admission.client),
            device: self.admission.device,
            netns: self.admission.netns,
            state: self.state(),
        };
        let Some(terms) = self.terms() else {
            return view::line(seq, &place, None);
        };
        let usage = self.usage();
        let (call, reply) = self.thresholds(terms);
        let (waiting, waits_for) = self.waiting();

        view::line(
            seq,
            &place,
            Some(&view::Terms {
                since: secs_since(terms.since),
                call,
                reply,
                invalidation: view::switch(terms.invalidation == Invalidation::Any),
                asked: self.receives.requested(),
                granted: self.receives.granted(),
                // CAST: Widening.
                used: self.receives.busy() as usize,
                waiting,
                waits_for,
                receives: usage.receives_posted,
                registrations: terms.sinks.as_deref().map_or(0, MrPool::in_use),
                memory: usage.bytes / 1024,
                rule: &self.admission.rule,
            }),
        );
    }

    /// Prints the terms that both ends agreed on, and the resources.
    fn agreement(&self, seq: &SeqFile, terms: &Terms) {
        let (port, gid) = &terms.local;
        if let Some(device) = self.admission.device {
            seq_print!(seq, "device {} port {}\n", device.as_str(), *port);
        }
        seq_print!(seq, "gid {}\n", *gid);
        seq_print!(seq, "since {} s\n", secs_since(terms.since));
        seq_print!(seq, "rule {}\n", RuleName(&self.admission.rule));

        let policy = &self.admission.policy;
        let sent = terms.own.encode();
        let sent = Hex(if policy.private_data { &sent } else { &[] });
        seq_print!(seq, "private_data_sent {sent}\n");
        view::meaning(seq, "we", policy.private_data, &terms.own);
        view::meaning(seq, "client", self.admission.data.is_some(), &self.peer());
        let (call, reply) = self.thresholds(terms);
        call.print(seq, "inline_call");
        reply.print(seq, "inline_reply");
        seq_print!(
            seq,
            "remote_invalidation {} (asked for: {})\n",
            view::switch(terms.invalidation == Invalidation::Any),
            policy.remote_invalidation.as_str()
        );
        let reverse = view::switch(self.callbacks.as_ref().is_some());
        seq_print!(seq, "reverse {reverse}\n");
        self.resources(seq, terms);
    }

    /// Prints the credits and the resources, allocated and in use.
    fn resources(&self, seq: &SeqFile, terms: &Terms) {
        let Usage {
            receives_posted,
            receives_allocated,
            sends_posted,
            sends_allocated,
            bytes,
        } = self.usage();
        let (used, made) = terms
            .sinks
            .as_deref()
            .map_or((0, 0), |pool| (pool.in_use(), pool.allocated()));
        let (kib, limit) = (bytes / 1024, self.admission.policy.memory);

        seq_print!(
            seq,
            "credits asked {} granted {} used {} most {}\n",
            self.receives.requested(),
            self.receives.granted(),
            self.receives.busy(),
            terms.credits,
        );
        seq_print!(
            seq,
            "receives posted {receives_posted} of {receives_allocated}\n"
        );
        seq_print!(seq, "sends posted {sends_posted} of {sends_allocated}\n");
        seq_print!(seq, "registrations used {used} of {made}\n");
        seq_print!(seq, "memory {kib} KiB of {limit}\n");
    }
}

impl Show for Connection {
    /// Prints the client and the state of the connection, then the counters.
    fn show(&self, seq: &SeqFile) {
        seq_print!(seq, "peer {}\n", Peer::new(&self.admission.client));
        seq_print!(seq, "state {}\n", self.state());
        seq_print!(seq, "netns {}\n", self.admission.netns);
        let (waiting, waits_for) = self.waiting();
        seq_print!(seq, "replies_waiting {waiting}\n");
        seq_print!(seq, "waits_for {waits_for}\n");
        if let Some(terms) = self.terms() {
            self.agreement(seq, terms);
        }
        self.stats.print(seq);
    }
}
