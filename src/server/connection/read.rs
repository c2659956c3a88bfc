// SPDX-License-Identifier: GPL-2.0

//! Arguments with parts in the client's memory.

use core::net::SocketAddr;

use kernel::prelude::*;

use super::{
    allowance::LIMITS,
    call::Call,
    close_reason::CloseReason,
    open::MOST_SINKS,
    outbox::Message,
    Connection,
    Settled,
    Terms, //
};
use crate::{
    os::{
        series::{
            EMSGSIZE,
            ENOBUFS,
            EPROTO, //
        },
        Few,
        Last,
        PageSet,
        Private,
        Shared,
        PAGE_SIZE, //
    },
    policy,
    proto::{
        responder::{
            rebuild::{
                pieces::Source,
                Rebuild, //
            },
            received::Received, //
        },
        Wire, //
    },
    sunrpc::Peer,
    verbs::{
        most_requests,
        Failure,
        FromPeer,
        Invalidated,
        InvalidationHandler,
        MrList,
        Range,
        Remote,
        SharedRecvQueue,
        Transfer,
        TransferHandler, //
    }, //
};

/// Messages about calls that wait for memory.
static DELAYED: Last = Last::never();

/// Attempts to find blocks and registrations, which other calls may take in between.
const TRIES: u32 = 16;

/// Registrations that the arguments of a call take, of 4 MiB and more. As many are allocated at a
/// time.
const SINKS_OF_A_CALL: u32 = 5;

/// RDMA Reads that most calls have no more of.
const FEW: usize = 4;

/// The arguments of a call as far as they are here, and the RDMA Reads that they lack.
struct Parts {
    pages: PageSet<Private>,
    /// The places of the bytes in the arguments, and in the client's memory.
    reads: Few<(Range, Remote), FEW>,
}

impl Parts {
    /// The parts of the call in `message`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EPROTO` if it is no call that passes the checks.
    fn of(wire: Wire, message: &[u8]) -> Result<Self> {
        let Received::Call(call) = wire.receive_call(message) else {
            return Err(EPROTO);
        };
        let plan = Rebuild::plan(&call.chunks, call.payload, &LIMITS).map_err(|_| EPROTO)?;
        let payload = call.payload.unwrap_or(&[]);
        let mut this = Self {
            pages: PageSet::new(),
            reads: Few::new(plan.most_reads())?,
        };

        // CAST: Widening.
        this.pages.fill(plan.len().div_ceil(PAGE_SIZE) as usize)?;
        for piece in plan.pieces() {
            match piece.source {
                Source::Inline(from) => {
                    // CAST: Widening.
                    let (from, len) = (from as usize, piece.len as usize);
                    let bytes = payload.get(from..).and_then(|bytes| bytes.get(..len));
                    this.pages.write(piece.at, bytes.ok_or(EPROTO)?)?;
                }
                // The client's padding may be missing: no memory of ours may show.
                Source::Zeros => this.pages.zero(piece.at, piece.len)?,
                Source::Read { handle, offset } => {
                    let range = Range {
                        at: piece.at,
                        len: piece.len,
                    };
                    let remote = Remote {
                        handle,
                        length: piece.len,
                        offset,
                    };
                    this.reads.push((range, remote))?;
                }
            }
        }
        Ok(this)
    }

    /// The number of RDMA Reads, and their bytes.
    fn size(&self) -> (u32, u32) {
        let reads = self.reads.as_slice();
        let bytes = reads
            .iter()
            .fold(0u32, |sum, (range, _)| sum.saturating_add(range.len));

        // CAST: Few.
        (reads.len() as u32, bytes)
    }

    /// Makes the RDMA Reads.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if they are too many; `ENOBUFS` if too many are under way; `ENOMEM`, `EIO` if
    /// memory cannot be mapped.
    fn reads(self, terms: &Terms) -> Result<Transfer<FromPeer>> {
        let mut pages = self.pages;

        for _ in 0..TRIES {
            let reads = self.reads.as_slice();
            let ranges = reads.iter().map(|read| read.0);
            let remotes = reads.iter().map(|read| read.1);
            let not_made = match terms.transfers.read(pages, ranges, remotes) {
                Ok(transfer) => return Ok(transfer),
                Err(not_made) => not_made,
            };
            if not_made.error != ENOBUFS {
                return Err(not_made.error);
            }
            pages = not_made.pages;
            // Each page and each piece of the arguments may begin a run.
            let runs = pages.len().saturating_add(reads.len());
            // CAST: Few.
            let (runs, segments) = (runs as u32, reads.len() as u32);
            match &terms.sinks {
                None => terms
                    .transfers
                    .grow(most_requests(runs, segments, terms.elements.1))?,
                Some(sinks)
                    if sinks.unused() < SINKS_OF_A_CALL && sinks.allocated() < MOST_SINKS =>
                {
                    sinks.grow(SINKS_OF_A_CALL)?
                }
                // A request registers, and one reads for each border of two registrations, too.
                Some(_) => terms
                    .transfers
                    .grow(segments.saturating_add(2 * SINKS_OF_A_CALL))?,
            }
        }
        // Others have taken what was allocated, or all registrations are in use.
        Err(ENOBUFS)
    }

    /// Begins to read the parts of `call`.
    fn fetch(self, settled: &Settled<'_>, call: KBox<Call>) {
        let (segments, bytes) = self.size();
        let transfer = match self.reads(settled.terms) {
            Ok(transfer) => transfer,
            Err(error) if error == EMSGSIZE || settled.is_unmade_again(&call, error) => {
                let _ = settled.reject_call(&call, GFP_KERNEL);
                return settled.end_call(call);
            }
            Err(error) => return settled.end_unread(call, CloseReason::of(error)),
        };
        let xid = call.xid;
        // Its value must not be dropped under the lock.
        let added = settled.calls.begin_reading(call);
        match added {
            Ok(context) => {
                settled.stats.read_segments.add(segments);
                settled.stats.read_bytes.add(bytes);
                settled.trace().read(xid, bytes);
                let sent = settled.send_or_wait(Message::Reads { transfer, context });
                if settled.check_sent(sent).is_err() {
                    // No completion may come for it.
                    if let Some(call) = settled.calls.end_reading(context) {
                        settled.end_call(call);
                    }
                }
            }
            Err(call) => {
                // Before its memory returns.
                drop(transfer);
                settled.end_unread(call, CloseReason::TooMuch);
            }
        }
    }
}

/// Logs that calls of `client` wait for memory.
#[cold]
fn log_delay(client: &SocketAddr) {
    if DELAYED.is_due() {
        let client = Peer::new(client);
        let kib = policy::server_memory() / 1024;
        pr_info!("{client}: calls wait: server_memory allows {kib} KiB\n");
    }
}

impl Settled<'_> {
    /// Begins to read the parts of a call's arguments that are in the client's memory. A thread
    /// takes the call again when they are here, or memory for them is.
    pub(super) fn read_arguments(&self, call: KBox<Call>) {
        let mut call = match self.calls.allowance.admit(call) {
            Ok(Some(call)) => call,
            Ok(None) => {
                self.stats.delayed_calls.inc();
                return log_delay(&self.admission.client);
            }
            Err(call) => return self.end_unread(call, CloseReason::TooMuch),
        };
        let parts = match Parts::of(call.wire, call.message()) {
            Ok(parts) => parts,
            Err(error) => return self.end_unread(call, CloseReason::of(error)),
        };
        if let Some(message) = call.take_message() {
            self.recycle(message);
        }
        if parts.reads.as_slice().is_empty() {
            call.set_read(parts.pages);
            return self.push_read(call);
        }
        parts.fetch(self, call);
    }

    /// The RDMA of the call with this xid has failed.
    #[cold]
    fn transfer_ended(&self, xid: u32, failure: Failure) {
        let client = self.admission.client.ip();

        if self.calls.refusals.transfer_failed(client, xid, failure) {
            self.stats.refused_calls.inc();
        }
    }

    /// The RDMA of a call cannot be made. Returns `true` if that was so when it came before, and it
    /// is to be rejected; if not, the connection ends.
    #[cold]
    pub(super) fn is_unmade_again(&self, call: &Call, error: Error) -> bool {
        let client = self.admission.client.ip();
        let again = self.calls.refusals.is_unmade_again(client, call.xid, error);

        if again {
            self.stats.repeated_calls.inc();
        }
        again
    }

    /// Drops a call whose arguments cannot be read, with its connection.
    fn end_unread(&self, call: KBox<Call>, why: CloseReason) {
        self.lost(why);
        self.end_call(call);
    }
}

impl InvalidationHandler for Connection {
    fn invalidated(
        &self,
        _queue: &mut SharedRecvQueue,
        _context: usize,
        _result: Result<MrList<Invalidated>, Failure>,
    ) {
        // Only RDMA Reads invalidate registrations here, and they complete as transfers.
    }

    fn registration_failed(&self, failure: Failure) {
        self.lost(CloseReason::Completion(failure));
    }
}

impl TransferHandler for Connection {
    fn written(&self, context: usize, pages: PageSet<Shared>, result: Result<(), Failure>) {
        drop(pages);
        if let Err(failure) = result {
            if let Some(settled) = self.settled() {
                // CAST: The xid, see `Outbox::post_send`.
                settled.transfer_ended(context as u32, failure);
            }
            self.lost(CloseReason::Completion(failure));
        }
        // `sent` is called next, and looks for messages that wait.
    }

    fn read(&self, context: usize, result: Result<PageSet<Private>, Failure>) {
        let Some(settled) = self.settled() else {
            return;
        };

        if let Some(mut call) = self.calls.end_reading(context) {
            match result {
                Ok(pages) => {
                    call.set_read(pages);
                    settled.push_read(call);
                }
                Err(failure) => {
                    settled.transfer_ended(call.xid, failure);
                    settled.end_unread(call, CloseReason::Completion(failure));
                }
            }
        }
        settled.flush_waiting();
    }

    fn transfer_failed(&self, failure: Failure) {
        self.calls.refusals.request_failed(failure);
        self.lost(CloseReason::Completion(failure));
    }
}
