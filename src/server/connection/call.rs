// SPDX-License-Identifier: GPL-2.0

//! The data of a call, from its arrival until the core releases it.

use super::super::memory::Share;
use crate::{
    os::{
        PageSet,
        Private, //
    },
    proto::{
        neutral::Invalidation,
        responder::{
            invalidation,
            offer::{
                Kept,
                Offer, //
            },
            received::{
                Call as Message,
                Received, //
            },
            reply::Part, //
        },
        Wire, //
    },
    verbs::RecvBuffer, //
};

/// Results that may be placed directly, of one reply. An NFS client offers a chunk for one.
const MOST_RESULTS: usize = 8;

/// The data of a call, or the record of an ended one.
pub(crate) struct Call {
    /// The version of its message.
    pub(super) wire: Wire,
    /// Its xid.
    pub(super) xid: u32,
    /// The credits that it requests.
    pub(super) credits: u32,
    /// The place of the arguments in the message.
    payload_at: usize,
    /// The chunks that it offers for its reply.
    kept: Kept,
    /// Set if they are kept. Too many for a copy are in the message.
    is_kept: bool,
    /// Set if parts of the arguments are in the client's memory.
    pub(super) is_reduced: bool,
    /// Bytes of the arguments then.
    pub(super) len: u32,
    /// The arguments, once all parts were read.
    read: Option<PageSet<Private>>,
    /// Memory for them; dropped after them.
    pub(super) share: Option<Share>,
    /// The results that may be placed directly.
    results: [Part; MOST_RESULTS],
    results_len: usize,
    /// The handle that the reply invalidates.
    pub(super) invalidate: Option<u32>,
    /// The message, until its Receive is posted again; a call with many chunks keeps it.
    message: Option<RecvBuffer>,
    /// Set while it counts as one without a reply.
    pub(super) is_busy: bool,
}

impl Call {
    /// A record without a call.
    pub(super) const fn new() -> Self {
        Self {
            wire: Wire::V1,
            xid: 0,
            credits: 0,
            payload_at: 0,
            kept: Kept::NONE,
            is_kept: true,
            is_reduced: false,
            len: 0,
            read: None,
            share: None,
            results: [Part { at: 0, len: 0 }; MOST_RESULTS],
            results_len: 0,
            invalidate: None,
            message: None,
            is_busy: false,
        }
    }

    /// Makes this the record of `call`, in a message of `message_len` bytes, with arguments of
    /// `len` bytes if parts of them are in the client's memory. `permitted` are the handles that
    /// replies may invalidate.
    pub(super) fn begin(
        &mut self,
        wire: Wire,
        call: &Message<'_>,
        message_len: usize,
        len: u32,
        permitted: Invalidation,
    ) {
        let offer = Offer {
            write: call.chunks.write,
            reply: call.chunks.reply,
        };
        let payload_len = call.payload.map_or(0, <[u8]>::len);

        self.wire = wire;
        self.xid = call.xid;
        self.credits = call.credits;
        // The arguments are the end of the message.
        self.payload_at = message_len.saturating_sub(payload_len);
        self.is_kept = self.kept.keep(&offer);
        self.is_reduced = !call.is_inline();
        self.len = len;
        self.results_len = 0;
        self.invalidate = invalidation::handle(&call.chunks, permitted);
        self.is_busy = false;
    }

    /// Keeps the message.
    pub(super) fn keep(&mut self, message: RecvBuffer) {
        self.message = Some(message);
    }

    /// The arguments, as long as the message is kept.
    pub(super) fn arguments(&self) -> &[u8] {
        self.message
            .as_ref()
            .and_then(|message| message.message().get(self.payload_at..))
            .unwrap_or(&[])
    }

    /// Takes the message, unless the call needs it for its chunks.
    pub(super) fn take_message(&mut self) -> Option<RecvBuffer> {
        if self.is_kept {
            self.message.take()
        } else {
            None
        }
    }

    /// All parts of the arguments were read to `pages`.
    pub(super) fn set_read(&mut self, pages: PageSet<Private>) {
        self.is_reduced = false;
        self.read = Some(pages);
    }

    /// Takes the arguments that were read.
    pub(super) fn take_read(&mut self) -> Option<PageSet<Private>> {
        self.read.take()
    }

    /// The message.
    pub(super) fn message(&self) -> &[u8] {
        self.message.as_ref().map_or(&[], |buf| buf.message())
    }

    /// Notes the next result that may be placed directly. The plan of the reply finds out whether
    /// its chunk has the room.
    pub(super) fn add_result(&mut self, at: u32, len: u32) {
        // Further results stay in the reply.
        if let Some(place) = self.results.get_mut(self.results_len) {
            *place = Part { at, len };
            self.results_len = self.results_len.saturating_add(1);
        }
    }

    /// The results that may be placed directly.
    pub(super) fn results(&self) -> &[Part] {
        self.results.get(..self.results_len).unwrap_or(&[])
    }

    /// Frees the arguments at the end of the call. Takes the message and the memory.
    pub(super) fn end(&mut self) -> (Option<RecvBuffer>, Option<Share>) {
        self.read = None;
        (self.message.take(), self.share.take())
    }

    /// The chunks that the call offers for its reply.
    pub(super) fn offer(&self) -> Offer<'_> {
        if self.is_kept {
            return self.kept.offer();
        }
        match self.wire.receive_call(self.message()) {
            Received::Call(call) => Offer {
                write: call.chunks.write,
                reply: call.chunks.reply,
            },
            _ => Offer::default(),
        }
    }
}
