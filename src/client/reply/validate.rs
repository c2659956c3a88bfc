// SPDX-License-Identifier: GPL-2.0

//! Checks of a reply against its call.

use super::super::{
    connection::Connection,
    request::Delivery, //
};
use crate::proto::{
    classify,
    v1::reply,
    Incoming,
    Offered,
    Placed,
    Reply,
    UsualReply, //
};

/// A reply whose length is no multiple of 4 bytes, or that has none.
const NOT_XDR: &str = "its RPC message is not whole XDR words";

impl Connection {
    /// Checks a reply of the usual form, in `message`, as [`Self::validate`].
    #[inline(always)]
    pub(super) fn validate_usual(
        &self,
        reply: &UsualReply,
        offered: &Offered<'_>,
        message: &[u8],
    ) -> Result<Delivery, &'static str> {
        let Some((placed, renamed)) = reply.check(offered) else {
            return self.validate_again(offered, message);
        };
        if renamed {
            self.shared.stats.renamed_segments.inc();
        }
        self.delivery(placed, Some(reply.payload))
    }

    /// Checks a reply that does not look as its call wanted it.
    #[cold]
    fn validate_again(
        &self,
        offered: &Offered<'_>,
        message: &[u8],
    ) -> Result<Delivery, &'static str> {
        match classify(message) {
            Incoming::Reply(reply) => self.validate(&reply, offered),
            _ => Err(NOT_XDR),
        }
    }

    /// Checks a reply against the chunks that its call offered. Returns the rest of the work on it.
    ///
    /// # Errors
    ///
    /// The reason why it is not a good one.
    pub(super) fn validate(
        &self,
        reply: &Reply<'_>,
        offered: &Offered<'_>,
    ) -> Result<Delivery, &'static str> {
        let stats = &self.shared.stats;

        let placed = reply::check(reply, offered).map_err(|wrong| wrong.as_str())?;
        if !reply.chunks.is_empty() && reply::renamed(reply, offered) {
            stats.renamed_segments.inc();
        }
        self.delivery(placed, reply.payload.map(<[u8]>::len))
    }

    /// The rest of the work on a reply that is placed as in `placed`, with `payload` bytes of it
    /// inline.
    ///
    /// # Errors
    ///
    /// Its length is not one that an RPC message has.
    #[inline(always)]
    fn delivery(&self, placed: Placed, payload: Option<usize>) -> Result<Delivery, &'static str> {
        let stats = &self.shared.stats;
        let placed = match placed {
            Placed::ReplyChunk { length } => {
                stats.written_bytes.add(length);
                return match length % 4 {
                    0 => Ok(Delivery::Nothing { len: length }),
                    _ => Err(NOT_XDR),
                };
            }
            Placed::WriteChunk { length } => {
                stats.written_bytes.add(length);
                (length != 0).then_some(length)
            }
            Placed::Inline => None,
        };
        match payload {
            Some(payload) if payload % 4 == 0 => Ok(Delivery::Inline { payload, placed }),
            _ => Err(NOT_XDR),
        }
    }
}
