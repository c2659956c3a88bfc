// SPDX-License-Identifier: GPL-2.0

//! The parts of the view in debugfs that both ends have alike: a line in the table of all
//! connections, and lines of the file that each connection has.

use kernel::{
    fmt,
    prelude::*,
    seq_file::SeqFile,
    seq_print, //
};

use crate::{
    os::series::EOPNOTSUPP,
    policy::{
        change::{
            Change,
            Refusal, //
        },
        pattern::DeviceName,
        table::Name, //
    },
    proto::{
        exchange::Exchange,
        PrivateData, //
    }, //
};

/// The directory of all files.
pub(crate) const DEBUGFS: &CStr = c"rpcrdma_rs";

/// Private data in hexadecimal, or `none`.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The name of a rule, or `none`.
pub(crate) struct RuleName<'a>(pub(crate) &'a Option<Name>);

impl fmt::Display for RuleName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => name.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// The word for a switch.
pub(crate) fn switch(on: bool) -> &'static str {
    if on {
        "on"
    } else {
        "off"
    }
}

/// The inline threshold of a direction.
#[derive(Clone, Copy)]
pub(crate) struct Threshold {
    /// In bytes.
    pub(crate) bytes: u32,
    /// Our size for the direction, in bytes.
    pub(crate) own: u32,
    /// The peer's.
    pub(crate) peer: u32,
}

impl Threshold {
    /// The side whose size is the threshold.
    fn limited_by(&self) -> &'static str {
        match self.own.cmp(&self.peer) {
            core::cmp::Ordering::Less => "own",
            core::cmp::Ordering::Equal => "both",
            core::cmp::Ordering::Greater => "peer",
        }
    }

    /// Prints the threshold as the line `name` of a file.
    pub(crate) fn print(&self, seq: &SeqFile, name: &str) {
        let by = self.limited_by();
        seq_print!(seq, "{} {} limited by {}\n", name, self.bytes, by);
    }
}

/// Prints the meaning of the private data of `who` (`we`, `server` or `client`). If `is_sent` is
/// `false`, the values are the defaults for an end without private data.
pub(crate) fn meaning(seq: &SeqFile, who: &str, is_sent: bool, data: &PrivateData) {
    seq_print!(
        seq,
        "{}_said {} send {} receive {} remote_invalidation {}\n",
        who,
        if is_sent { "that:" } else { "nothing, so:" },
        data.send.bytes(),
        data.receive.bytes(),
        switch(data.remote_invalidation),
    );
}

/// Prints the sizes of the Receives of both ends in bytes, from the private data or from the
/// exchange, with the changes that are not over: `outdated` own Receives are still to be exchanged.
pub(crate) fn sizes(
    seq: &SeqFile,
    own: &PrivateData,
    peer: &PrivateData,
    exchange: Option<&Exchange>,
    outdated: u32,
) {
    let said = (own.receive.bytes(), peer.receive.bytes());
    let (own, peer) = exchange.map_or(said, Exchange::in_force);

    seq_print!(seq, "receive_size {own}");
    match exchange.map(Exchange::posts) {
        Some(next) if next != own => seq_print!(seq, " next {next} left {outdated}"),
        _ => {}
    }
    seq_print!(seq, "\npeer_receive_size {peer}");
    if let Some(requested) = exchange.and_then(Exchange::requested) {
        seq_print!(seq, " requested {requested}");
    }
    seq_print!(seq, "\n");
}

/// Acts on a `text` for a connection: `request` passes the change to its exchange, if it has one.
///
/// # Errors
///
/// `EINVAL` if the text is no change, or the size is out of range, `EOPNOTSUPP` if the connection
/// speaks version 1 or the peer supports no such change, `EPERM` if only the peer may request it,
/// `EBUSY` while an earlier one is not over.
pub(crate) fn change(
    text: &str,
    request: impl FnOnce(Change) -> Option<Result<(), Refusal>>,
) -> Result {
    let change = Change::parse(text).ok_or(EINVAL)?;

    request(change).ok_or(EOPNOTSUPP)?.map_err(|why| match why {
        Refusal::Unsupported => EOPNOTSUPP,
        Refusal::OnlyThePeer => EPERM,
        Refusal::Size => EINVAL,
        Refusal::UnderWay => EBUSY,
    })
}

/// The cells of a transport, with or without a connection. `P` is its peer.
pub(crate) struct Place<P> {
    /// `client` or `server`, this end's.
    pub(crate) side: &'static str,
    /// The number of the transport.
    pub(crate) number: u32,
    /// The address and port of the peer.
    pub(crate) peer: P,
    /// The local device, if known.
    pub(crate) device: Option<DeviceName>,
    /// The number of the network namespace.
    pub(crate) netns: u32,
    /// The word for the state.
    pub(crate) state: &'static str,
}

/// The cells of a transport with a connection.
pub(crate) struct Terms<'a> {
    /// Seconds since the connection was made.
    pub(crate) since: usize,
    /// The version of the protocol, 0 before the first message of a client.
    pub(crate) version: u32,
    /// The threshold of calls.
    pub(crate) call: Threshold,
    /// The threshold of replies.
    pub(crate) reply: Threshold,
    /// The word for remote invalidation.
    pub(crate) invalidation: &'static str,
    /// The client's credits field.
    pub(crate) asked: u32,
    /// Credits that the server has granted last.
    pub(crate) granted: u32,
    /// Credits that calls hold.
    pub(crate) used: usize,
    /// Messages that wait to be sent.
    pub(crate) waiting: usize,
    /// The resource that they wait for.
    pub(crate) waits_for: &'static str,
    /// Receives that are posted.
    pub(crate) receives: u32,
    /// Registrations in use.
    pub(crate) registrations: u32,
    /// Memory of the buffers, in KiB.
    pub(crate) memory: u64,
    /// The rule that applies.
    pub(crate) rule: &'a Option<Name>,
}

/// Prints the names of the columns.
pub(crate) fn head(seq: &SeqFile) {
    seq_print!(
        seq,
        "{:<6} {:<4} {:<40} {:<8} {:<10} {:<11} {:>7} {:<3} {:>6} {:<4} {:>6} {:<4} \
         {:<6} {:>5} {:>5} {:>5} {:>5} {:<13} {:>5} {:>5} {:>7} {}\n",
        "side",
        "xprt",
        "peer",
        "device",
        "netns",
        "state",
        "since",
        "ver",
        "call",
        "by",
        "reply",
        "by",
        "inval",
        "asked",
        "grant",
        "used",
        "wait",
        "for",
        "recvs",
        "mrs",
        "KiB",
        "rule",
    );
}

/// Prints a line.
pub(crate) fn line<P: fmt::Display>(seq: &SeqFile, place: &Place<P>, terms: Option<&Terms<'_>>) {
    seq_print!(
        seq,
        "{:<6} {:<4} {:<40} {:<8} {:<10} {:<11} ",
        place.side,
        place.number,
        place.peer,
        place.device.as_ref().map_or("-", DeviceName::as_str),
        place.netns,
        place.state,
    );
    let Some(terms) = terms else {
        seq_print!(seq, "\n");
        return;
    };
    seq_print!(
        seq,
        "{:>6}s {:<3} {:>6} {:<4} {:>6} {:<4} {:<6} {:>5} {:>5} {:>5} {:>5} {:<13} \
         {:>5} {:>5} {:>7} {}\n",
        terms.since,
        terms.version,
        terms.call.bytes,
        terms.call.limited_by(),
        terms.reply.bytes,
        terms.reply.limited_by(),
        terms.invalidation,
        terms.asked,
        terms.granted,
        terms.used,
        terms.waiting,
        terms.waits_for,
        terms.receives,
        terms.registrations,
        terms.memory,
        RuleName(terms.rule),
    );
}
