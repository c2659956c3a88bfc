// SPDX-License-Identifier: GPL-2.0

//! The usual replies, decoded and checked in one step.
//!
//! Most replies are an `RDMA_MSG` without chunks, or with a Write chunk of one segment; of the rest
//! most are an `RDMA_NOMSG` with a Reply chunk of one segment. Their words stand at fixed places.
//! Other messages, and defective ones, are left to [`super::incoming::classify`] and
//! [`super::reply::check`], which come to the same result for the usual ones.

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
        Placed,
        MIN_RPC_REPLY, //
    }, //
};

/// A reply of the usual form, not yet compared with its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsualReply {
    /// The xid of the call.
    pub(crate) xid: u32,
    /// The credits word, unchecked; see [`super::super::super::credits::grant`].
    pub(crate) credits: u32,
    /// Its chunks.
    pub(crate) chunks: UsualChunks,
    /// Bytes of the RPC reply that are in the message, the last ones of it.
    pub(crate) payload: usize,
}

/// The chunks of a reply of the usual form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsualChunks {
    /// None: all of the reply is in the message.
    None,
    /// A Write chunk with this segment.
    Write(Segment),
    /// A Reply chunk with this segment, which has all of the reply.
    Reply(Segment),
}

/// Decodes `message` if it is a reply of the usual form and has any of it inline; `None` if it is
/// anything else.
#[inline(always)]
pub(crate) fn usual(message: &[u8]) -> Option<UsualReply> {
    let mut message = Reader::new(message);
    let [xid, version, credits, proc, read, write] = message.words()?;
    if version != VERSION || proc != Proc::Msg.code() || read != 0 || write > 1 {
        return None;
    }
    let chunks = if write == 0 {
        UsualChunks::None
    } else {
        let [count, handle, length, high, low, end] = message.words()?;
        if count != 1 || end != 0 {
            return None;
        }
        UsualChunks::Write(segment_of(handle, length, high, low))
    };
    let reply_chunk = message.word()?;
    let payload = message.rest().len();
    let [payload_xid, direction] = message.words()?;
    let is_reply = reply_chunk == 0 && payload_xid == xid && direction == rpc::REPLY;
    is_reply.then_some(UsualReply {
        xid,
        credits,
        chunks,
        payload,
    })
}

/// Decodes `message` if it is a reply of the usual form and has nothing of it inline; `None` if it
/// is anything else.
#[inline(always)]
pub(crate) fn usual_long(message: &[u8]) -> Option<UsualReply> {
    let mut message = Reader::new(message);
    let [xid, version, credits, proc, read, write, reply, count, handle, length, high, low] =
        message.words()?;
    let is_reply = version == VERSION
        && proc == Proc::NoMsg.code()
        && (read, write, reply, count) == (0, 0, 1, 1)
        && message.rest().is_empty();
    is_reply.then_some(UsualReply {
        xid,
        credits,
        chunks: UsualChunks::Reply(segment_of(handle, length, high, low)),
        payload: 0,
    })
}

/// A segment of these words.
#[inline(always)]
fn segment_of(handle: u32, length: u32, high: u32, low: u32) -> Segment {
    Segment {
        handle,
        length,
        offset: (u64::from(high) << 32) | u64::from(low),
    }
}

impl UsualReply {
    /// Returns the place of the reply, and `true` if its segment repeats another handle or offset
    /// than was `offered`. `None` if it contradicts the chunks that its call `offered`, or these
    /// are not as simple.
    #[inline(always)]
    pub(crate) fn check(&self, offered: &Offered<'_>) -> Option<(Placed, bool)> {
        let (returned, offered, placed) = match &self.chunks {
            UsualChunks::None => return Some((Placed::Inline, false)),
            UsualChunks::Write(segment) => {
                let length = segment.length;
                (segment, offered.write, Placed::WriteChunk { length })
            }
            UsualChunks::Reply(segment) => {
                let length = segment.length;
                if u64::from(length) < MIN_RPC_REPLY {
                    return None;
                }
                (segment, offered.reply, Placed::ReplyChunk { length })
            }
        };
        let [segment] = offered else {
            return None;
        };
        let renamed = returned.handle != segment.handle || returned.offset != segment.offset;
        (returned.length <= segment.length).then_some((placed, renamed))
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
            reply.xid == 0xa1b2_c301 && reply.chunks == UsualChunks::None && reply.payload >= 8
        }));
        // The first Write chunk of two with its first segment.
        let written = Message::without(&TV_V1_5, 11, 29).put(24, 1);
        let found = usual(written.bytes());
        let chunk = UsualChunks::Write(segment(0x2101, 4096, 0x10000));
        assert!(found.is_some_and(|reply| reply.chunks == chunk && reply.payload >= 8));
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

    // TV-V1-8, V1-102: the whole reply in a Reply chunk of one segment.
    #[test]
    fn long() {
        let message = Message::new(&TV_V1_8);
        let expected = UsualReply {
            xid: 0xa1b2_c305,
            credits: 16,
            chunks: UsualChunks::Reply(Segment {
                handle: 0x4201,
                length: 5120,
                offset: 0xa_0000,
            }),
            payload: 0,
        };
        assert_eq!(usual_long(message.bytes()), Some(expected));
        // Another version, type, list or count; bytes too few or too many; two segments.
        for at in [4, 12, 16, 20, 24, 28] {
            let message = Message::new(&TV_V1_8).put(at, 2);
            assert!(usual_long(message.bytes()).is_none());
        }
        assert!(usual_long(message.cut(47).bytes()).is_none());
        let longer = Message::new(TV_V1_8.iter().chain(&[0]));
        assert!(usual_long(longer.bytes()).is_none());
        assert!(usual_long(Message::new(&TV_V1_6).bytes()).is_none());
    }

    // V1-92, V1-102: no longer than offered, and a whole reply no shorter than one can be.
    #[test]
    fn lengths() {
        let part = |handle, length| segment(handle, length, 9);
        let check = |chunks, write: &[Segment], reply: &[Segment]| {
            UsualReply {
                xid: 1,
                credits: 1,
                chunks,
                payload: 24,
            }
            .check(&Offered { write, reply })
        };
        let (one, other) = (part(7, 100), part(8, 100));
        let elsewhere = Segment { offset: 8, ..one };

        let written =
            |length, offered: &[Segment]| check(UsualChunks::Write(part(7, length)), offered, &[]);
        let placed = |length, renamed| Some((Placed::WriteChunk { length }, renamed));
        assert_eq!(written(100, &[one]), placed(100, false));
        assert_eq!(written(0, &[other]), placed(0, true));
        assert_eq!(written(1, &[elsewhere]), placed(1, true));
        assert_eq!(written(101, &[one]), None);
        assert_eq!(written(1, &[]), None);
        assert_eq!(written(1, &[one, one]), None);

        let replied =
            |length, offered: &[Segment]| check(UsualChunks::Reply(part(7, length)), &[], offered);
        let placed = |length, renamed| Some((Placed::ReplyChunk { length }, renamed));
        assert_eq!(replied(100, &[one]), placed(100, false));
        assert_eq!(replied(20, &[other]), placed(20, true));
        assert_eq!(replied(19, &[one]), None);
        assert_eq!(replied(101, &[one]), None);
        assert_eq!(replied(20, &[]), None);
        assert_eq!(replied(20, &[one, one]), None);

        // One chunk is not the other.
        assert_eq!(check(UsualChunks::Write(one), &[], &[one]), None);
        assert_eq!(check(UsualChunks::Reply(one), &[one], &[]), None);
    }
}
