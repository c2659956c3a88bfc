// SPDX-License-Identifier: GPL-2.0

//! Checks of a reply against its call.

use super::{
    super::request::Delivery,
    Outcome,
    Source, //
};
use crate::proto::{
    reply,
    Offered,
    Placed,
    Reply, //
};

/// A reply whose length is no multiple of 4 bytes.
const NOT_XDR: &str = "its RPC message is not whole XDR words";

impl Source<'_> {
    /// Checks a reply against the chunks that its call offered. Returns the rest of the work on it.
    ///
    /// # Errors
    ///
    /// The reason why it is not a good one.
    #[inline(always)]
    pub(super) fn validate(self, reply: &Reply<'_>, offered: &Offered<'_>) -> Outcome {
        let checked = reply::check(reply, offered).map_err(|wrong| Some(wrong.as_str()))?;

        if checked.renamed {
            self.connection.shared.stats.renamed_segments.inc();
        }
        self.delivery(checked.placed, reply.payload.len())
    }

    /// The rest of the work on a reply that is placed as in `placed`, with `payload` bytes of it
    /// inline.
    ///
    /// # Errors
    ///
    /// Its length is not one that an RPC message has.
    #[inline(always)]
    fn delivery(self, placed: Placed, payload: usize) -> Outcome {
        let stats = &self.connection.shared.stats;
        let placed = match placed {
            Placed::ReplyChunk { length } => {
                stats.written_bytes.add(length);
                return match length % 4 {
                    0 => Ok(Delivery::Nothing { len: length }),
                    _ => Err(Some(NOT_XDR)),
                };
            }
            Placed::WriteChunk { length } => {
                stats.written_bytes.add(length);
                (length != 0).then_some(length)
            }
            Placed::Inline => None,
        };
        match payload % 4 {
            0 => Ok(Delivery::Inline { payload, placed }),
            _ => Err(Some(NOT_XDR)),
        }
    }
}
