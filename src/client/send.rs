// SPDX-License-Identifier: GPL-2.0

//! From a call to its Send.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    connection::{
        Connection,
        Terms, //
    },
    flight::{
        Exposed,
        Flight,
        Phase,
        Segments,
        MAX_SEGMENTS, //
    },
    stats::Stats,
    transport::BACKWARD_SLOTS, //
};
use crate::{
    proto::{
        encode_backward_reply_header,
        plan,
        CallHeader,
        CallMode,
        CallShape,
        Plan,
        ReadSegment,
        ReplyMode,
        Segment, //
    },
    sunrpc::{
        BackwardReply,
        Call,
        SendStatus,
        XdrBuf, //
    },
    verbs::{
        Access,
        Mapped,
        MrList,
        PostError,
        SendBuffer, //
    }, //
};

/// Why a call could not be built.
enum Unsendable {
    /// Try again later.
    Later(SendStatus),
    /// Never: the call itself is the reason.
    Never,
}

impl From<Error> for Unsendable {
    fn from(error: Error) -> Self {
        match error {
            e if e == ENOBUFS => Self::Later(SendStatus::NoSpace),
            // Memory could not be mapped for the device: that passes.
            e if e == EIO => Self::Later(SendStatus::NoMemory),
            _ => Self::Never,
        }
    }
}

/// The chunks of a call under construction, with the registrations under them.
struct Chunks {
    read: [ReadSegment; MAX_SEGMENTS],
    reads: usize,
    write: Segments,
    reply: Segments,
    mrs: MrList<Mapped>,
}

impl Chunks {
    fn read(&self) -> &[ReadSegment] {
        self.read.get(..self.reads).unwrap_or(&[])
    }

    /// Exposes `spans` for reading, as segments at `position`.
    fn add_read(
        &mut self,
        position: u32,
        spans: &mut dyn Iterator<Item = crate::os::PageSpan>,
    ) -> Result {
        let (read, reads) = (&mut self.read, &mut self.reads);

        self.mrs
            .register(spans, Access::RemoteRead, |handle, length, offset| {
                let segment = Segment {
                    handle,
                    length,
                    offset,
                };
                *read.get_mut(*reads).ok_or(EMSGSIZE)? = ReadSegment { position, segment };
                *reads = reads.saturating_add(1);
                Ok(())
            })
    }

    /// Registers what `plan` wants of `call`.
    fn build(
        plan: &Plan,
        send: &XdrBuf<'_>,
        receive: &XdrBuf<'_>,
        terms: &Terms,
    ) -> Result<Self, Unsendable> {
        let mut this = Self {
            read: [ReadSegment::default(); MAX_SEGMENTS],
            reads: 0,
            write: Segments::new(),
            reply: Segments::new(),
            mrs: MrList::new(&terms.pool),
        };

        match plan.call {
            CallMode::Inline => {}
            CallMode::ReadChunk => {
                let position = u32::try_from(send.head().len()).map_err(|_| Unsendable::Never)?;
                this.add_read(position, &mut send.page_spans())?;
            }
            CallMode::Long => {
                this.add_read(0, &mut send.head_spans())?;
                this.add_read(0, &mut send.page_spans())?;
                this.add_read(0, &mut send.tail_spans())?;
            }
        }

        let (mrs, write, reply) = (&mut this.mrs, &mut this.write, &mut this.reply);
        let mut expose =
            |to: &mut Segments, spans: &mut dyn Iterator<Item = crate::os::PageSpan>| {
                mrs.register(spans, Access::RemoteWrite, |handle, length, offset| {
                    to.push(Segment {
                        handle,
                        length,
                        offset,
                    })
                })
            };
        match plan.reply {
            ReplyMode::Inline => {}
            ReplyMode::WriteChunk => expose(write, &mut receive.page_spans())?,
            ReplyMode::ReplyChunk => {
                expose(reply, &mut receive.head_spans())?;
                expose(reply, &mut receive.page_spans())?;
                expose(reply, &mut receive.tail_spans())?;
            }
        }
        Ok(this)
    }
}

impl Connection {
    /// Sends `call`, or ends it when it can never be sent.
    ///
    /// # Errors
    ///
    /// Why it was not sent; [`SendStatus::NotConnected`] wants the connection closed.
    pub(super) fn send(this: &Arc<Self>, call: &Call<'_, Flight>) -> Result<(), SendStatus> {
        let stats = &this.shared.stats;
        let terms = this.terms().ok_or(SendStatus::NotConnected)?;
        let mut buf = this.take_send_buffer()?;

        match this.build_and_post(terms, call, &mut buf) {
            Ok(Posted::Yes) => {
                call.count_sent();
                Ok(())
            }
            Ok(Posted::Failed) => Err(SendStatus::NotConnected),
            Err(Unsendable::Later(status)) => {
                this.put_send_buffer(buf);
                Err(status)
            }
            Err(Unsendable::Never) => {
                this.put_send_buffer(buf);
                stats.failed_marshal.inc();
                // The error must not go back through the sender, who may be another task (H-15).
                if let Some(pinned) = this.shared.xprt.lookup(call.xid()) {
                    pinned.fail();
                }
                Ok(())
            }
        }
    }

    fn take_send_buffer(&self) -> Result<Option<SendBuffer>, SendStatus> {
        let take = || {
            self.with_qp(|qp| qp.take_send())
                .ok_or(SendStatus::NotConnected)
        };

        if let Some(buf) = take()? {
            return Ok(Some(buf));
        }
        // All buffers are with the device, and enough of them signalled: a completion will tell.
        self.shared.stats.no_send_buffer.inc();
        self.shared.xprt.wait_for_buffer_space();
        // One that came in between told nobody.
        let buf = take()?.ok_or(SendStatus::NoSpace)?;
        self.shared.xprt.space_available();
        Ok(Some(buf))
    }

    /// Registers what `plan` wants, or sees to it that sunrpc tries again when registrations have
    /// come back.
    fn build_chunks(
        &self,
        plan: &Plan,
        send: &XdrBuf<'_>,
        receive: &XdrBuf<'_>,
        terms: &Terms,
    ) -> Result<Chunks, Unsendable> {
        let chunks = Chunks::build(plan, send, receive, terms);
        if !matches!(chunks, Err(Unsendable::Later(SendStatus::NoSpace))) {
            return chunks;
        }
        // The calls that hold the others will give them back, and tell.
        self.shared.stats.no_registration.inc();
        self.shared.xprt.wait_for_buffer_space();
        // Those that came back in between told nobody.
        let chunks = Chunks::build(plan, send, receive, terms)?;
        self.shared.xprt.space_available();
        Ok(chunks)
    }

    fn put_send_buffer(&self, buf: Option<SendBuffer>) {
        if let Some(buf) = buf {
            self.with_qp(|qp| qp.put_send(buf));
        }
    }

    /// Builds the message for `call` in `buf` and posts it.
    fn build_and_post(
        self: &Arc<Self>,
        terms: &Terms,
        call: &Call<'_, Flight>,
        buf: &mut Option<SendBuffer>,
    ) -> Result<Posted, Unsendable> {
        let (send, receive) = (call.send_buf(), call.receive_buf());
        let shape = CallShape {
            send_len: send.len(),
            send_pages: send.page_len(),
            send_kvecs: send.kvecs(),
            send_eligible: send.may_be_read_chunk(),
            recv_max: receive.capacity(),
            recv_pages: receive.page_len(),
            recv_eligible: receive.may_be_write_chunk(),
            opaque: call.is_opaque(),
        };
        let plan = plan(&shape, &terms.limits).map_err(|_| Unsendable::Never)?;
        let chunks = if plan.call == CallMode::Inline && plan.reply == ReplyMode::Inline {
            None
        } else {
            Some(self.build_chunks(&plan, &send, &receive, terms)?)
        };

        let header = CallHeader {
            xid: call.xid(),
            credits: terms.credits,
            long: plan.call == CallMode::Long,
            read: chunks.as_ref().map_or(&[], |chunks| chunks.read()),
            write: chunks
                .as_ref()
                .map_or(&[], |chunks| chunks.write.as_slice()),
            reply: chunks
                .as_ref()
                .map_or(&[], |chunks| chunks.reply.as_slice()),
        };
        let message = buf.as_mut().ok_or(Unsendable::Never)?.as_mut_slice();
        let header_len = header.encode(message).map_err(|_| Unsendable::Never)?;
        let payload_len = if plan.call == CallMode::Long {
            0
        } else {
            let room = message.get_mut(header_len..).ok_or(Unsendable::Never)?;
            send.copy_to(room, plan.call == CallMode::ReadChunk)
                .ok_or(Unsendable::Never)?
        };
        // CAST: A header is shorter than any threshold.
        let len = payload_len.saturating_add(header_len as u32);
        // PD-18: a longer message would cost the connection.
        if len > terms.limits.thresholds.call {
            return Err(Unsendable::Never);
        }

        if plan.reply == ReplyMode::ReplyChunk {
            call.forget_old_reply();
        }
        self.shared.stats.count_call(&plan, &send);
        let Some(buf) = buf.take() else {
            return Err(Unsendable::Never);
        };
        call.stamp();
        Ok(self.post_call(call.slot(), chunks, buf, len))
    }

    /// Posts a built message. The reply may come before this returns, and waits for the flight's
    /// lock then.
    fn post_call(
        self: &Arc<Self>,
        flight: &Flight,
        chunks: Option<Chunks>,
        buf: SendBuffer,
        len: u32,
    ) -> Posted {
        let mut state = flight.state.lock();
        let mrs = match chunks {
            Some(chunks) => {
                state.write = chunks.write;
                state.reply = chunks.reply;
                Some(chunks.mrs)
            }
            None => {
                state.write.clear();
                state.reply.clear();
                None
            }
        };
        let posted = self
            .with_qp(|qp| qp.post(mrs, buf, len))
            .unwrap_or(Err(PostError::Closed));
        match posted {
            Ok(mrs) => {
                state.phase = Phase::Sent {
                    generation: self.generation(),
                    exposed: mrs.map(|mrs| Exposed {
                        connection: self.clone(),
                        mrs,
                    }),
                };
                Posted::Yes
            }
            Err(error) => {
                state.phase = Phase::Idle;
                drop(state);
                self.post_failed(error);
                Posted::Failed
            }
        }
    }

    /// Something could not be posted: the connection is of no further use.
    pub(super) fn post_failed(&self, error: PostError) {
        if let PostError::Device(_) = error {
            self.lost(c"the device refused a work request");
        }
    }

    /// Sends a reply to a backward call. It takes no credit: the calls that hold them all may be
    /// waiting for this very reply (H-74).
    ///
    /// # Errors
    ///
    /// Why it was not sent; [`SendStatus::NotConnected`] wants the connection closed.
    pub(super) fn send_backward(&self, reply: &BackwardReply<'_>) -> Result<(), SendStatus> {
        let terms = self.terms().ok_or(SendStatus::NotConnected)?;
        let mut buf = self.take_send_buffer()?.ok_or(SendStatus::NotConnected)?;
        let message = buf.as_mut_slice();

        let len = encode_backward_reply_header(reply.xid(), BACKWARD_SLOTS, message)
            .ok()
            .and_then(|header| {
                let payload = reply
                    .send_buf()
                    .copy_to(message.get_mut(header..)?, false)?;
                u32::try_from(header).ok()?.checked_add(payload)
            })
            .filter(|&len| len <= terms.limits.thresholds.call);
        let Some(len) = len else {
            // The upper layer was told how long it may be. There are no chunks to move it by; the
            // server asks again.
            self.put_send_buffer(Some(buf));
            self.shared.stats.failed_marshal.inc();
            return Ok(());
        };

        let posted = self
            .with_qp(|qp| qp.post(None, buf, len))
            .unwrap_or(Err(PostError::Closed));
        posted.map(drop).map_err(|error| {
            self.post_failed(error);
            SendStatus::NotConnected
        })
    }
}

/// Whether a message that was built went out.
enum Posted {
    Yes,
    Failed,
}

impl Stats {
    /// Counts the transfer modes of a call that is about to go out.
    fn count_call(&self, plan: &Plan, send: &XdrBuf<'_>) {
        match plan.call {
            CallMode::Inline => {
                if send.page_len() != 0 {
                    self.pullup_octets.add(send.page_len());
                }
            }
            CallMode::ReadChunk => {
                self.read_chunks.inc();
                self.rdma_request_octets.add(send.page_len());
            }
            CallMode::Long => {
                self.long_calls.inc();
                self.rdma_request_octets.add(send.len());
            }
        }
        match plan.reply {
            ReplyMode::Inline => {}
            ReplyMode::WriteChunk => self.write_chunks.inc(),
            ReplyMode::ReplyChunk => self.reply_chunks.inc(),
        }
    }
}
