// SPDX-License-Identifier: GPL-2.0

//! The data of a call, from its arrival until the core releases it.

use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    prelude::*, //
};

use crate::{
    proto::v1::responder::{
        call::receive,
        offer::{
            Kept,
            Offer, //
        },
        received::{
            Call as Message,
            Received, //
        }, //
    },
    verbs::RecvBuffer, //
};

/// The chunks that a call offers for its reply.
enum Chunks {
    /// A copy.
    Kept(Kept),
    /// Too many for a copy: they are in the message.
    InMessage,
}

/// The data of a call.
pub(crate) struct Call {
    /// Its xid.
    pub(super) xid: u32,
    /// The credits that it requests.
    pub(super) credits: u32,
    /// The place of the arguments in the message.
    payload_at: usize,
    chunks: Chunks,
    /// The message, until its Receive is posted again; a call with many chunks keeps it.
    message: Option<RecvBuffer>,
    /// Set while it counts as one without a reply.
    pub(super) is_busy: bool,
}

impl Call {
    /// The record for the call `call`, whose bytes are in `buf` of `len` bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(call: &Message<'_>, len: usize) -> Result<KBox<Self>> {
        let offer = Offer {
            write: call.chunks.write,
            reply: call.chunks.reply,
        };
        let payload_len = call.payload.map_or(0, <[u8]>::len);
        let this = Self {
            xid: call.xid,
            credits: call.credits,
            // The arguments are the end of the message.
            payload_at: len.saturating_sub(payload_len),
            chunks: Kept::new(&offer).map_or(Chunks::InMessage, Chunks::Kept),
            message: None,
            is_busy: false,
        };
        Ok(KBox::new(this, GFP_NOWAIT | __GFP_NOWARN)?)
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
        match self.chunks {
            Chunks::Kept(_) => self.message.take(),
            Chunks::InMessage => None,
        }
    }

    /// Takes the message at the end of the call.
    pub(super) fn end(mut this: KBox<Self>) -> Option<RecvBuffer> {
        this.message.take()
    }

    /// The chunks that the call offers for its reply.
    pub(super) fn offer(&self) -> Offer<'_> {
        match &self.chunks {
            Chunks::Kept(kept) => kept.offer(),
            Chunks::InMessage => match self.message.as_ref().map(|m| receive(m.message())) {
                Some(Received::Call(call)) => Offer {
                    write: call.chunks.write,
                    reply: call.chunks.reply,
                },
                _ => Offer::default(),
            },
        }
    }
}
