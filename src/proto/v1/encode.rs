// SPDX-License-Identifier: GPL-2.0

//! The transport headers that we send (RFC 8166, sections 4.2, 4.3 and 4.5; RFC 8167, section 5.2,
//! for the reverse direction).

use super::{
    super::{
        call_header::{
            CallHeader,
            Chunks,
            EncodeError, //
        },
        chunk::{
            ReadSegment,
            Segment, //
        },
        prefix::Proc,
        xdr::Writer, //
    },
    header::{
        MIN_LEN,
        VERSION, //
    },
    lists::encode_lists, //
};

/// Writes the header of a call to the front of `out` and returns its length in bytes.
///
/// # Errors
///
/// See [`EncodeError`]; the content of `out` is then undefined.
#[inline(always)]
pub(crate) fn encode_call(header: &CallHeader<'_>, out: &mut [u8]) -> Result<usize, EncodeError> {
    let CallHeader {
        xid, credits, long, ..
    } = *header;
    let Chunks { read, write, reply } = header.chunks;

    // Nearly all calls have no chunk, or one of one segment: their words stand at fixed places.
    match (long, read, write, reply) {
        (true, [], [], []) => Err(EncodeError::NoLists),
        (false, [], [], []) => encode_bare_header(xid, credits, out),
        (false, [read], [], []) => put(read_header(xid, credits, read), out),
        (false, [], [write], []) => put(write_header(xid, credits, write), out),
        (false, [], [], [reply]) => put(reply_header(xid, credits, reply), out),
        _ => encode_lists(header, out),
    }
}

/// Writes `words`, and returns their length in bytes.
#[inline(always)]
fn put<const W: usize>(words: [u32; W], out: &mut [u8]) -> Result<usize, EncodeError> {
    let mut out = Writer::new(out);
    out.words(words)?;
    Ok(out.written())
}

/// A header with a Read list of one segment: the prefix, and the three lists, a line each. An item
/// of a list is preceded by a 1, and the end of one is a 0.
#[inline(always)]
#[rustfmt::skip]
fn read_header(xid: u32, credits: u32, read: &ReadSegment) -> [u32; 13] {
    let ReadSegment { position, segment: Segment { handle, length, offset } } = *read;
    let [high, low] = halves(offset);
    [
        xid, VERSION, credits, Proc::Msg.code(),
        1, position, handle, length, high, low, 0,
        0,
        0,
    ]
}

/// A header with a Write chunk of one segment. A chunk begins with its count of segments.
#[inline(always)]
#[rustfmt::skip]
fn write_header(xid: u32, credits: u32, segment: &Segment) -> [u32; 13] {
    let Segment { handle, length, offset } = *segment;
    let [high, low] = halves(offset);
    [
        xid, VERSION, credits, Proc::Msg.code(),
        0,
        1, 1, handle, length, high, low, 0,
        0,
    ]
}

/// A header with a Reply chunk of one segment.
#[inline(always)]
#[rustfmt::skip]
fn reply_header(xid: u32, credits: u32, segment: &Segment) -> [u32; 12] {
    let Segment { handle, length, offset } = *segment;
    let [high, low] = halves(offset);
    [
        xid, VERSION, credits, Proc::Msg.code(),
        0,
        0,
        1, 1, handle, length, high, low,
    ]
}

/// The upper and the lower word of `offset`.
#[inline(always)]
fn halves(offset: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = offset.to_be_bytes();
    [
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    ]
}

/// Writes the header of a message without chunks and returns its length, 28 bytes.
///
/// `credits` are the request of a call or, for a reply in the reverse direction, the grant: the
/// number of reverse calls that the client can serve together, at least 1 (RFC 8167, section 4.1).
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
#[inline]
pub(crate) fn encode_bare_header(
    xid: u32,
    credits: u32,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    Writer::new(out).words([xid, VERSION, credits, Proc::Msg.code(), 0, 0, 0])?;
    Ok(MIN_LEN)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_encode))]
mod tests {
    use super::super::super::{
        chunk::{
            read_list_len,
            reply_chunk_len,
            write_list_len, //
        },
        error::RdmaError,
        vectors::*, //
    };
    use super::*;

    // TV-V1-1, 2, TV-BI-2, BI-22..BI-24, PD-47, V1-5: without chunks.
    #[test]
    fn bare_headers() {
        let mut out = [0xee; 32];
        let call = call(0xa1b2_c301);
        assert_eq!(encode_call(&call, &mut out), Ok(28));
        assert_eq!(out.get(..28), Message::new(&TV_V1_1).bytes().get(..28));
        assert_eq!(out.get(28..), Some([0xee; 4].as_slice()));

        assert_eq!(encode_bare_header(7, 2, &mut out), Ok(28));
        assert_eq!(out.get(..28), Message::new(&TV_BI_2).bytes().get(..28));
        assert_eq!(out.get(28..), Some([0xee; 4].as_slice()));
    }

    // TV-V1-3, V1-68, V1-70: a Read list.
    #[test]
    fn read_chunk() {
        let chunks = Chunks {
            read: &[
                read(132, 0x1701, 4096, 0xfff0_e000),
                read(132, 0x1702, 905, 0xffe0_7000),
            ],
            ..Chunks::default()
        };
        let call = CallHeader {
            chunks,
            ..call(0xa1b2_c302)
        };
        assert!(gives(&call, &TV_V1_3, 76));
    }

    // TV-V1-6: a Reply chunk.
    #[test]
    fn reply_chunk() {
        let chunks = Chunks {
            reply: &[
                segment(0x3101, 4096, 0x60000),
                segment(0x3102, 1024, 0x70000),
            ],
            ..Chunks::default()
        };
        let call = CallHeader {
            chunks,
            ..call(0xa1b2_c304)
        };
        assert!(gives(&call, &TV_V1_6, 64));
    }

    // TV-V1-7, V1-48: a Long call.
    #[test]
    fn long_call() {
        let chunks = Chunks {
            read: &[
                read(0, 0x4101, 4096, 0x80000),
                read(0, 0x4102, 812, 0x91000),
            ],
            reply: &[segment(0x4201, 8192, 0xa0000)],
            ..Chunks::default()
        };
        let call = CallHeader {
            long: true,
            chunks,
            ..call(0xa1b2_c305)
        };
        assert!(gives(&call, &TV_V1_7, 96));
    }

    // TV-V1-9, 10, V1-104, V1-106: errors.
    #[test]
    fn errors() {
        let mut out = [0; 28];
        let version = RdmaError::Version { low: 1, high: 1 };
        assert_eq!(version.encode(0xa1b2_c306, 2, 16, &mut out), Ok(28));
        assert_eq!(out.as_slice(), Message::new(&TV_V1_9).bytes());

        let bad_header = RdmaError::BadHeader;
        assert_eq!(bad_header.encode(0xa1b2_c307, 1, 16, &mut out), Ok(20));
        assert_eq!(out.get(..20), Some(Message::new(&TV_V1_10).bytes()));

        for len in 0..28 {
            let out = out.get_mut(..len).unwrap_or_default();
            assert!(version.encode(1, 1, 1, out).is_err());
            assert!(len >= 20 || bad_header.encode(1, 1, 1, out).is_err());
            assert_eq!(encode_bare_header(1, 1, out), Err(EncodeError::NoRoom));
        }
    }

    // V1-14: a buffer that is too short, by any length.
    #[test]
    fn no_room() {
        let one = [Segment::default()];
        let (none, read) = (Chunks::default(), [ReadSegment::default()]);
        let all = Chunks {
            read: &read,
            write: &one,
            reply: &one,
        };
        for (chunks, end) in [
            (none, 28),
            (
                Chunks {
                    read: &read,
                    ..none
                },
                52,
            ),
            (
                Chunks {
                    write: &one,
                    ..none
                },
                52,
            ),
            (
                Chunks {
                    reply: &one,
                    ..none
                },
                48,
            ),
            (all, 96),
        ] {
            let call = CallHeader { chunks, ..call(1) };
            let mut out = [0; 96];
            for len in 0..end {
                let out = out.get_mut(..len).unwrap_or_default();
                assert_eq!(encode_call(&call, out), Err(EncodeError::NoRoom));
            }
            assert_eq!(encode_call(&call, &mut out), Ok(end));
        }
    }

    // V1-11: RDMA_NOMSG has to have a list.
    #[test]
    fn long_call_without_chunks() {
        let call = CallHeader {
            long: true,
            ..call(1)
        };
        assert_eq!(encode_call(&call, &mut [0; 64]), Err(EncodeError::NoLists));
    }

    // V1-14, V1-48, V1-83: a header with one segment is the same as by the general way.
    #[test]
    fn one_segment() {
        let write = [segment(0x0102_0304, 0x0506_0708, 0x090a_0b0c_0d0e_0f10)];
        let read = [read(
            0x191a_1b1c,
            0x0102_0304,
            0x0506_0708,
            0x090a_0b0c_0d0e_0f10,
        )];
        let none = Chunks::default();
        for chunks in [
            Chunks {
                read: &read,
                ..none
            },
            Chunks {
                write: &write,
                ..none
            },
            Chunks {
                reply: &write,
                ..none
            },
        ] {
            let call = CallHeader {
                chunks,
                ..call(0x1112_1314)
            };
            let (mut out, mut expected) = ([0xee; 60], [0xee; 60]);
            let len = encode_call(&call, &mut out);
            assert!(len.is_ok_and(|len| len >= 48));
            assert_eq!(encode_lists(&call, &mut expected), len);
            assert_eq!(out, expected);
        }
    }

    // V1-54: plans count with the lengths of the encoder.
    #[test]
    fn planned_lengths() {
        let read = [ReadSegment::default(); 3];
        let segments = [Segment::default(); 3];
        let bare = call(1);
        for n in 0..=3_u32 {
            let count = usize::try_from(n).unwrap_or_default();
            let read = read.get(..count).unwrap_or_default();
            let write = segments.get(..count).unwrap_or_default();
            let none = Chunks::default();
            let lens = [
                (Chunks { read, ..none }, read_list_len(u64::from(n))),
                (Chunks { write, ..none }, write_list_len(u64::from(n))),
                (
                    Chunks {
                        reply: write,
                        ..none
                    },
                    reply_chunk_len(u64::from(n)),
                ),
            ];
            for (chunks, len) in lens {
                let call = CallHeader { chunks, ..bare };
                let len = usize::try_from(len).unwrap_or_default().wrapping_add(28);
                assert_eq!(encode_call(&call, &mut [0; 128]), Ok(len));
            }
        }
    }

    fn call(xid: u32) -> CallHeader<'static> {
        CallHeader {
            xid,
            credits: 32,
            long: false,
            chunks: Chunks::default(),
        }
    }

    fn read(position: u32, handle: u32, length: u32, offset: u64) -> ReadSegment {
        ReadSegment {
            position,
            segment: segment(handle, length, offset),
        }
    }

    // Returns `true` if the header of `call` is the first `len` bytes of `words`, and nothing
    // behind it is touched.
    fn gives(call: &CallHeader<'_>, words: &[u32], len: usize) -> bool {
        let mut out = [0xee; 128];
        encode_call(call, &mut out) == Ok(len)
            && out.get(..len) == Message::new(words).bytes().get(..len)
            && out.iter().skip(len).all(|byte| *byte == 0xee)
    }
}
