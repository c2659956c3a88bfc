// SPDX-License-Identifier: GPL-2.0

//! The usual replies, decoded and checked at once.
//!
//! Most replies are an `RDMA_MSG` without chunks, or with a Write chunk of one segment. Their words
//! stand at fixed places. Other messages, and defective ones, are left to
//! [`super::incoming::classify`] and [`super::reply::check`], which come to the same result for the
//! usual ones.

use super::{
    super::{
        super::{
            chunk::Segment,
            prefix::Proc,
            rpc,
            xdr::Reader, //
        },
        header::VERSION, //
    },
    reply::{
        Offered,
        Placed, //
    }, //
};

/// A reply of the usual form, not yet compared with its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsualReply {
    /// The xid of the call.
    pub(crate) xid: u32,
    /// The credits word, unchecked; see [`super::super::super::credits::grant`].
    pub(crate) credits: u32,
    /// The only segment of the only Write chunk, if there is one.
    pub(crate) written: Option<Segment>,
    /// Bytes of the RPC reply, the last ones of the message.
    pub(crate) payload: usize,
}

/// Decodes `message` if it is a reply of the usual form; `None` if it is anything else.
#[inline(always)]
pub(crate) fn usual(message: &[u8]) -> Option<UsualReply> {
    let mut message = Reader::new(message);
    let [xid, version, credits, proc, read, write] = message.words()?;
    if version != VERSION || proc != Proc::Msg.code() || read != 0 || write > 1 {
        return None;
    }
    let written = if write == 0 {
        None
    } else {
        let [count, handle, length, high, low, end] = message.words()?;
        if count != 1 || end != 0 {
            return None;
        }
        Some(Segment {
            handle,
            length,
            offset: (u64::from(high) << 32) | u64::from(low),
        })
    };
    let reply_chunk = message.word()?;
    let payload = message.rest().len();
    let [payload_xid, direction] = message.words()?;
    let is_reply = reply_chunk == 0 && payload_xid == xid && direction == rpc::REPLY;
    is_reply.then_some(UsualReply {
        xid,
        credits,
        written,
        payload,
    })
}

impl UsualReply {
    /// Tells where the reply is, and whether its segment repeats another handle or offset than was
    /// `offered`. `None` if it contradicts the chunks that its call `offered`, or those are not as
    /// simple.
    #[inline(always)]
    pub(crate) fn check(&self, offered: &Offered<'_>) -> Option<(Placed, bool)> {
        let Some(written) = &self.written else {
            return Some((Placed::Inline, false));
        };
        let [segment] = offered.write else {
            return None;
        };
        let length = written.length;
        let renamed = written.handle != segment.handle || written.offset != segment.offset;
        (length <= segment.length).then_some((Placed::WriteChunk { length }, renamed))
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_usual))]
mod tests {
    use super::super::super::super::vectors::*;
    use super::*;

    // V1-100, V1-91: replies without chunks, and with a Write chunk of one segment.
    #[test]
    fn forms() {
        let bare = Message::new(&TV_V1_2);
        let found = usual(bare.bytes());
        assert!(found.is_some_and(|reply| {
            reply.xid == 0xa1b2_c301 && reply.written.is_none() && reply.payload >= 8
        }));
        // Two chunks, a Reply chunk, an error, a call: not of this form.
        for other in [
            Message::new(&TV_V1_5),
            Message::new(&TV_V1_8),
            Message::new(&TV_V1_9),
            Message::new(&TV_BI_1),
        ] {
            assert!(usual(other.bytes()).is_none());
        }
    }

    // V1-92: no longer than offered.
    #[test]
    fn lengths() {
        let reply = |length| UsualReply {
            xid: 1,
            credits: 1,
            written: Some(Segment {
                handle: 7,
                length,
                offset: 9,
            }),
            payload: 24,
        };
        let segment = |handle| Segment {
            handle,
            length: 100,
            offset: 9,
        };
        let offers =
            |length, write: &[Segment]| reply(length).check(&Offered { write, reply: &[] });
        let placed = |length, renamed| Some((Placed::WriteChunk { length }, renamed));

        assert_eq!(offers(100, &[segment(7)]), placed(100, false));
        assert_eq!(offers(0, &[segment(8)]), placed(0, true));
        assert_eq!(offers(101, &[segment(7)]), None);
        assert_eq!(offers(1, &[]), None);
        assert_eq!(offers(1, &[segment(7), segment(7)]), None);
    }
}
