// SPDX-License-Identifier: GPL-2.0

//! The header of a reply: the chunks of the call, with the lengths that were written (RFC 8166,
//! sections 3.4.6 and 4.3).

use super::{
    super::{
        prefix::Proc,
        responder::reply::ReplyPlan,
        xdr::{
            NoRoom,
            Writer, //
        }, //
    },
    header::VERSION, //
};

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
    out.words([xid, VERSION, credits, proc.code()])?;
    plan.put_lists(&mut out)?;
    Ok(out.written())
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_reply_header))]
mod tests {
    use super::{
        super::super::{
            responder::reply::{
                lists::lists_len,
                samples::*, //
            },
            v2::encode::encode_reply as encode_in_version_2,
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
                // V2-31: in version 2 a word, the direction, stands in front of the same lists.
                let mut second = [0xee; 164];
                let longer = encode_in_version_2(plan, u32::from_be_bytes(xid), 16, &mut second);
                assert_eq!(second.get(20..), out.get(16..));
                assert_eq!(second.get(12..16), out.get(12..16));
                assert_eq!(second.get(16..20), Some([0, 0, 0, 1].as_slice()));
                assert_eq!(longer.ok(), len.checked_add(4));
                let lists = usize::try_from(lists_len(&plan.offer())).unwrap_or_default();
                written == Ok(len) && lists.checked_add(28) == Some(len)
            });
            assert_eq!(same, Some(Ok(true)));
        }
    }
}
