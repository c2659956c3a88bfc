// SPDX-License-Identifier: GPL-2.0

//! Replies to calls.

use kernel::prelude::*;

use super::{
    call::Call,
    outbox::{
        Message,
        Unsent, //
    },
    version::DEFAULT,
    Settled,
    Terms, //
};
use crate::{
    os::{
        series::{
            zeroes,
            EMSGSIZE,
            ENOBUFS, //
        },
        Few,
        PageSet,
        Shared,
        PAGE_SIZE, //
    },
    proto::{
        responder::reply::{
            ReplyLimits,
            ReplyPlan,
            ReplyShape, //
        },
        Wire, //
    },
    sunrpc::{
        svc::{
            Layout,
            Outgoing, //
        },
        XdrBuf, //
    },
    trace::ServerTrace,
    verbs::{
        most_requests,
        Range,
        Remote,
        ToPeer,
        Transfer, //
    }, //
};

/// RDMA Writes that most replies have no more of.
const FEW: usize = 4;

/// The RDMA Writes of a reply: ranges of its pages, one after the other, and the segments.
struct Writes {
    ranges: Few<Range, { 3 * FEW }>,
    remotes: Few<Remote, FEW>,
}

impl Writes {
    /// The RDMA Writes of `plan`, for a reply with this layout.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn of(plan: &ReplyPlan<'_, '_>, layout: &Layout) -> Result<Self> {
        // CAST: Widening.
        let count = plan.most_writes() as usize;
        let mut this = Self {
            // A Write is from no more than the three parts of the reply.
            ranges: Few::new(count.saturating_mul(3))?,
            remotes: Few::new(count)?,
        };

        plan.each_write(|write| {
            this.remotes.push(Remote {
                handle: write.handle,
                length: write.part.len,
                offset: write.offset,
            })?;
            let mut places = layout.places(write.part.at, write.part.len);
            places.try_for_each(|place| {
                this.ranges.push(Range {
                    at: place.at,
                    len: place.len,
                })
            })
        })?;
        Ok(this)
    }

    /// Makes the requests.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if they are too many; `ENOMEM` or the error of the device.
    fn make(&self, terms: &Terms, pages: PageSet<Shared>) -> Result<Transfer<ToPeer>> {
        let mut pages = pages;

        loop {
            let (ranges, remotes) = (self.ranges.as_slice(), self.remotes.as_slice());
            let made =
                terms
                    .transfers
                    .write(pages, ranges.iter().copied(), remotes.iter().copied());
            let not_made = match made {
                Ok(transfer) => return Ok(transfer),
                Err(not_made) => not_made,
            };
            if not_made.error != ENOBUFS {
                return Err(not_made.error);
            }
            pages = not_made.pages;
            // Each page and each part of the reply may begin a run.
            let runs = pages.len().saturating_add(ranges.len());
            // CAST: Few.
            let (runs, segments) = (runs as u32, remotes.len() as u32);
            terms
                .transfers
                .grow(most_requests(runs, segments, terms.elements.0))?;
        }
    }
}

impl Terms {
    /// The limits for the plan of a reply whose message has at most `threshold` bytes.
    #[inline]
    fn reply_limits(&self, threshold: u32) -> ReplyLimits {
        ReplyLimits {
            threshold,
            page_size: PAGE_SIZE,
            pieces: self.elements.0,
            writes: self.most_transfers,
        }
    }
}

impl Settled<'_> {
    /// The longest reply to a call in version `wire`, in bytes.
    fn longest_reply(&self, wire: Wire) -> u32 {
        if wire == Wire::V1 {
            return self.terms.thresholds.reply;
        }
        let announced = self.characteristics.longest();
        match self.admission.data {
            Some(_) => announced.unwrap_or(self.terms.thresholds.reply),
            // CAST: A buffer is shorter than 4 GiB.
            None => announced
                .unwrap_or(DEFAULT.min(self.terms.send_len as u32))
                .min(self.version.longest_reply()),
        }
    }

    /// Sends the reply of a thread to `call`.
    ///
    /// # Errors
    ///
    /// The reason why the client does not get it; the connection ends then.
    pub(super) fn reply(&self, call: &mut Call, reply: Outgoing<'_>) -> Result {
        if core::mem::take(&mut call.is_busy) {
            self.receives.ended();
        }
        let offer = call.offer();
        let shape = ReplyShape {
            len: reply.reply().len(),
            results: call.results(),
            opaque: reply.is_wrapped(),
        };
        if ServerTrace::is_reply_on() {
            self.trace().reply(call.xid, shape.len);
        }
        let limits = self.terms.reply_limits(self.longest_reply(call.wire));
        let sent = match call.wire.plan_reply(&offer, &shape, &limits) {
            Err(why) => {
                self.trace().unusable(call.xid, why.as_str());
                Err(Unsent::Refused(EMSGSIZE))
            }
            Ok(plan) if plan.most_writes() != 0 => self.send_written(call, &plan, reply),
            Ok(plan) => {
                let sent = self.send_inline(call, &plan, &reply.reply());
                // On failure, too, nothing refers to its pages.
                reply.copied();
                sent
            }
        };
        self.version.replied();
        if sent.is_ok() && call.invalidate.is_some() {
            self.stats.remote_invalidates.inc();
        }
        // The client cannot take this reply, and could take no other, or it cannot be written.
        if sent == Err(Unsent::Refused(EMSGSIZE)) {
            return self.reject_call(call, GFP_KERNEL);
        }
        self.check_sent(sent)
    }

    /// Writes the message of a planned reply to `out`. Returns its length; `None` if `out` has too
    /// little room.
    fn write_message(
        &self,
        call: &Call,
        plan: &ReplyPlan<'_, '_>,
        body: &XdrBuf<'_>,
        out: &mut [u8],
    ) -> Option<u32> {
        let credits = self
            .receives
            .grant_requested(call.credits, self.terms.credits);
        let header = call.wire.encode_reply(plan, call.xid, credits, out).ok()?;
        let all = out.len();
        let mut left = out.get_mut(header..)?;

        if !plan.is_long() {
            for part in plan.payload() {
                left = body.copy_part(part.at, part.len, left)?;
            }
        }
        u32::try_from(all.saturating_sub(left.len())).ok()
    }

    /// Sends a reply without RDMA Writes.
    fn send_inline(
        &self,
        call: &Call,
        plan: &ReplyPlan<'_, '_>,
        body: &XdrBuf<'_>,
    ) -> Result<(), Unsent> {
        // CAST: Not longer than a message.
        let len = plan.message_len() as usize;
        self.send_message(len, call.invalidate, GFP_KERNEL, |out| {
            self.write_message(call, plan, body, out)
        })
    }

    /// Counts the segments that a reply fills.
    fn count_written(&self, xid: u32, remotes: &[Remote]) {
        let bytes = remotes
            .iter()
            .fold(0u32, |sum, remote| sum.saturating_add(remote.length));

        // CAST: Few.
        self.stats.write_segments.add(remotes.len() as u32);
        self.stats.written_bytes.add(bytes);
        self.trace().write(xid, bytes);
    }

    /// Sends a reply with RDMA Writes in front of it.
    #[inline(never)]
    fn send_written(
        &self,
        call: &Call,
        plan: &ReplyPlan<'_, '_>,
        reply: Outgoing<'_>,
    ) -> Result<(), Unsent> {
        let refused = |_: Error| Unsent::Refused(ENOMEM);
        let layout = reply.layout().ok_or(Unsent::Refused(EMSGSIZE))?;
        let writes = Writes::of(plan, &layout).map_err(refused)?;
        // CAST: Not longer than a message.
        let len = plan.message_len() as usize;
        let mut bytes = zeroes(len, GFP_KERNEL).map_err(|_| refused(ENOMEM))?;
        self.write_message(call, plan, &reply.reply(), &mut bytes)
            .ok_or(Unsent::Refused(EMSGSIZE))?;
        // From here on the pages are the transfer's: no thread writes to them, and the device no
        // longer than until the completion of the message.
        let pages = reply.detach().map_err(|_| refused(ENOMEM))?;
        let transfer = match writes.make(self.terms, pages) {
            Ok(transfer) => transfer,
            Err(error) if self.is_unmade_again(call, error) => {
                return Err(Unsent::Refused(EMSGSIZE));
            }
            Err(error) => return Err(Unsent::Refused(error)),
        };
        self.count_written(call.xid, writes.remotes.as_slice());

        self.send_or_wait(Message::Send {
            bytes,
            transfer: Some(transfer),
            invalidate: call.invalidate,
        })
    }
}
