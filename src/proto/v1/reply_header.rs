// SPDX-License-Identifier: GPL-2.0

//! The header of a reply: the chunks of the call, with the lengths that were written (RFC 8166,
//! sections 3.4.6 and 4.3).

use super::{
    super::{
        chunk::{
            reply_chunk_len,
            write_list_len,
            WriteChunk, //
        },
        prefix::Proc,
        responder::{
            offer::{
                filled,
                put_segments,
                Offer, //
            },
            reply::ReplyPlan, //
        },
        xdr::{
            NoRoom,
            Writer, //
        }, //
    },
    header::{
        MIN_LEN,
        VERSION, //
    }, //
};

/// Bytes of the header of a reply to a call with this offer.
pub(crate) fn header_len(offer: &Offer<'_>) -> u64 {
    let segments = |chunk: WriteChunk<'_>| u64::try_from(chunk.len()).unwrap_or(u64::MAX);
    let mut len = u64::try_from(MIN_LEN).unwrap_or(u64::MAX);
    for chunk in offer.write.chunks() {
        let chunk = match segments(chunk) {
            // The words for its presence and the count of its segments.
            0 => 8,
            segments => write_list_len(segments),
        };
        len = len.saturating_add(chunk);
    }
    if let Some(chunk) = offer.reply {
        let chunk = match segments(chunk) {
            0 => 4,
            segments => reply_chunk_len(segments),
        };
        len = len.saturating_add(chunk);
    }
    len
}

/// Writes the header of a planned reply to the front of `out` and returns its length in bytes.
/// `credits` is the current grant.
///
/// # Errors
///
/// [`NoRoom`].
pub(crate) fn encode(
    plan: &ReplyPlan<'_, '_>,
    xid: u32,
    credits: u32,
    out: &mut [u8],
) -> Result<usize, NoRoom> {
    let mut out = Writer::new(out);
    let proc = if plan.is_long() {
        Proc::NoMsg
    } else {
        Proc::Msg
    };
    let offer = plan.offer();
    // The prefix, and a Read list of no segments.
    out.words([xid, VERSION, credits, proc.code(), 0])?;
    // `enumerate` has a call to panic.
    let mut index = 0_usize;
    for chunk in offer.write.chunks() {
        let segments = filled(chunk, plan.written(index, chunk));
        put_segments(&mut out, chunk.len(), segments)?;
        index = index.saturating_add(1);
    }
    out.words([0])?;
    match offer.reply {
        Some(chunk) => {
            let segments = filled(chunk, plan.in_reply_chunk());
            put_segments(&mut out, chunk.len(), segments)?;
        }
        None => out.words([0])?,
    }
    Ok(out.written())
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_reply_header))]
mod tests {
    use super::{
        super::super::{
            responder::reply::samples::*,
            vectors::*, //
        },
        *, //
    };

    // TV-V1-5, 8, V1-86..V1-88, V1-94, V1-98: headers as they are returned, in any buffer.
    #[test]
    fn headers() {
        let placed = [part(24, 4196)];
        for (call, shape, words, len) in [
            (
                TV_V1_4.as_slice(),
                shape(4220, &placed),
                TV_V1_5.as_slice(),
                124,
            ),
            (TV_V1_7.as_slice(), shape(5120, &[]), TV_V1_8.as_slice(), 48),
            (TV_V1_1.as_slice(), shape(24, &[]), TV_V1_2.as_slice(), 28),
        ] {
            let expected = Message::new(words);
            let xid = words.first().copied().unwrap_or_default();
            let same = plan(&Message::new(call), &shape, &LIMITS, |plan| {
                let mut out = [0xee; 128];
                let written = encode(plan, xid, 16, &mut out);
                assert!(out.iter().skip(len).all(|byte| *byte == 0xee));
                assert_eq!(out.get(..len), expected.bytes().get(..len));
                for short in 0..len {
                    let out = out.get_mut(..short).unwrap_or_default();
                    assert!(encode(plan, xid, 16, out).is_err());
                }
                written == Ok(len)
            });
            assert_eq!(same, Some(Ok(true)));
        }
    }

    // V1-52, V1-88, V1-94, V1-98, V1-101: chunks that are not used come back with lengths of 0, and
    // chunks of no segments as they are.
    #[test]
    fn unused() {
        let result = [part(24, 4096)];
        let reply_chunk = [1, 1, 0x3101, 8192, 0, 0x60000];
        let (head, tail) = (TV_V1_4.iter().take(30), TV_V1_4.iter().skip(31));
        let both = Message::new(head.chain(&reply_chunk).chain(tail));
        let reply = Message::new(&TV_V1_6);
        let none = Message::without(&TV_V1_4, 7, 19).put(24, 0);
        let no_write = |call: Message| call.put(32, 0).put(48, 0).put(64, 0);
        for (call, shape, returned, len) in [
            (reply, shape(24, &[]), reply.put(36, 0).put(52, 0), 64),
            (
                both,
                shape(8192, &result),
                no_write(both).put(88, 0).put(104, 0).put(12, 1),
                144,
            ),
            (none, shape(24, &[]), none.put(40, 0).put(56, 0), 76),
        ] {
            let expected = returned.put(8, 16);
            let xid = call.bytes().first_chunk().copied().unwrap_or_default();
            let same = plan(&call, &shape, &LIMITS, |plan| {
                let mut out = [0xee; 160];
                let written = encode(plan, u32::from_be_bytes(xid), 16, &mut out);
                assert_eq!(out.get(..len), expected.bytes().get(..len));
                written == Ok(len) && usize::try_from(header_len(&plan.offer())) == Ok(len)
            });
            assert_eq!(same, Some(Ok(true)));
        }
    }
}
