// SPDX-License-Identifier: GPL-2.0

//! The transport headers that we send (RFC 8166, sections 4.2, 4.3 and 4.5; RFC 8167, section 5.2,
//! for the reverse direction).

use super::{
    super::{
        chunk::{
            ReadSegment,
            Segment, //
        },
        error::RdmaError,
        prefix::Proc,
        xdr::{
            pair,
            NoRoom,
            Writer, //
        }, //
    },
    header::{
        MIN_LEN,
        VERSION, //
    }, //
};

/// A header that was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncodeError {
    /// It does not fit into the buffer.
    NoRoom,
    /// A chunk has more segments than its count word can hold.
    TooManySegments,
    /// `RDMA_NOMSG` without a chunk that could hold the payload.
    NoLists,
}

impl From<NoRoom> for EncodeError {
    #[inline]
    fn from(_: NoRoom) -> Self {
        Self::NoRoom
    }
}

/// The header of a call, as a client sends it: at most one Write chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallHeader<'a> {
    /// The xid of the RPC message.
    pub(crate) xid: u32,
    /// The replies that the client can take together; 0 is not allowed (RFC 8166, section 3.3.1).
    pub(crate) credits: u32,
    /// The call itself is in the Read list (`RDMA_NOMSG`).
    pub(crate) long: bool,
    /// The Read list.
    pub(crate) read: &'a [ReadSegment],
    /// The segments of the Write chunk; empty for no Write list.
    pub(crate) write: &'a [Segment],
    /// The segments of the Reply chunk; empty for none.
    pub(crate) reply: &'a [Segment],
}

impl CallHeader<'_> {
    /// Writes the header to the front of `out` and returns its length in bytes.
    ///
    /// # Errors
    ///
    /// See [`EncodeError`]; the content of `out` is then undefined.
    #[inline(always)]
    pub(crate) fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        if self.read.is_empty() && self.write.is_empty() && self.reply.is_empty() {
            if self.long {
                return Err(EncodeError::NoLists);
            }
            return encode_bare_header(self.xid, self.credits, out);
        }
        let mut out = Writer::new(out);
        put_prefix(&mut out, self.xid, self.credits, self.long)?;
        put_read_list(&mut out, self.read)?;
        if !self.write.is_empty() {
            put_chunk(&mut out, self.write)?;
        }
        out.words([0])?;
        if self.reply.is_empty() {
            out.words([0])?;
        } else {
            put_chunk(&mut out, self.reply)?;
        }
        Ok(out.written())
    }
}

/// A header with any chunk lists, as a responder returns them: several Write chunks, chunks of no
/// segments.
#[allow(dead_code, reason = "a server's; until then the tests alone use it")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListsHeader<'a> {
    /// The xid of the RPC message.
    pub(crate) xid: u32,
    /// Credits requested (call) or granted (reply); 0 is not allowed (RFC 8166, section 3.3.1).
    pub(crate) credits: u32,
    /// The message itself is in a chunk (`RDMA_NOMSG`).
    pub(crate) long: bool,
    /// The Read list.
    pub(crate) read: &'a [ReadSegment],
    /// The segments of each Write chunk.
    pub(crate) write: &'a [&'a [Segment]],
    /// The segments of the Reply chunk.
    pub(crate) reply: Option<&'a [Segment]>,
}

impl ListsHeader<'_> {
    /// Writes the header to the front of `out` and returns its length in bytes.
    ///
    /// # Errors
    ///
    /// See [`EncodeError`]; the content of `out` is then undefined.
    #[allow(dead_code, reason = "a server's; until then the tests alone use it")]
    pub(crate) fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        if self.long && self.read.is_empty() && self.write.is_empty() && self.reply.is_none() {
            return Err(EncodeError::NoLists);
        }
        let mut out = Writer::new(out);
        put_prefix(&mut out, self.xid, self.credits, self.long)?;
        put_read_list(&mut out, self.read)?;
        for chunk in self.write {
            put_chunk(&mut out, chunk)?;
        }
        out.words([0])?;
        match self.reply {
            Some(chunk) => put_chunk(&mut out, chunk)?,
            None => out.words([0])?,
        }
        Ok(out.written())
    }
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

/// Writes an `RDMA_ERROR` and returns its length in bytes, as [`RdmaError::encode`].
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub(crate) fn encode_error(
    xid: u32,
    version: u32,
    credits: u32,
    error: &RdmaError,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    Ok(error.encode(xid, version, credits, out)?)
}

#[inline]
fn put_prefix(out: &mut Writer<'_>, xid: u32, credits: u32, long: bool) -> Result<(), NoRoom> {
    let proc = if long { Proc::NoMsg } else { Proc::Msg };
    out.words([xid, VERSION, credits, proc.code()])
}

#[inline]
fn put_read_list(out: &mut Writer<'_>, list: &[ReadSegment]) -> Result<(), NoRoom> {
    for &ReadSegment { position, segment } in list {
        out.pairs([
            pair(1, position),
            pair(segment.handle, segment.length),
            segment.offset,
        ])?;
    }
    out.words([0])
}

/// Writes a chunk behind the word for its presence.
#[inline]
fn put_chunk(out: &mut Writer<'_>, chunk: &[Segment]) -> Result<(), EncodeError> {
    let count = u32::try_from(chunk.len()).map_err(|_| EncodeError::TooManySegments)?;
    out.words([1, count])?;
    for segment in chunk {
        out.pairs([pair(segment.handle, segment.length), segment.offset])?;
    }
    Ok(())
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
        vectors::*, //
    };
    use super::*;

    // TV-V1-1, 2, TV-BI-2, BI-22..BI-24, PD-47, V1-5: without chunks.
    #[test]
    fn bare_headers() {
        let mut out = [0xee; 32];
        let call = call(0xa1b2_c301);
        assert_eq!(call.encode(&mut out), Ok(28));
        assert_eq!(out.get(..28), Message::new(&TV_V1_1).bytes().get(..28));
        assert_eq!(out.get(28..), Some([0xee; 4].as_slice()));

        assert_eq!(encode_bare_header(7, 2, &mut out), Ok(28));
        assert_eq!(out.get(..28), Message::new(&TV_BI_2).bytes().get(..28));
        assert_eq!(out.get(28..), Some([0xee; 4].as_slice()));
    }

    // TV-V1-3, V1-68, V1-70: a Read list.
    #[test]
    fn read_chunk() {
        let call = CallHeader {
            read: &[
                read(132, 0x1701, 4096, 0xfff0_e000),
                read(132, 0x1702, 905, 0xffe0_7000),
            ],
            ..call(0xa1b2_c302)
        };
        assert!(gives(&call, &TV_V1_3, 76));
    }

    // TV-V1-6: a Reply chunk.
    #[test]
    fn reply_chunk() {
        let call = CallHeader {
            reply: &[
                segment(0x3101, 4096, 0x60000),
                segment(0x3102, 1024, 0x70000),
            ],
            ..call(0xa1b2_c304)
        };
        assert!(gives(&call, &TV_V1_6, 64));
    }

    // TV-V1-7, V1-48: a Long call.
    #[test]
    fn long_call() {
        let call = CallHeader {
            long: true,
            read: &[
                read(0, 0x4101, 4096, 0x80000),
                read(0, 0x4102, 812, 0x91000),
            ],
            reply: &[segment(0x4201, 8192, 0xa0000)],
            ..call(0xa1b2_c305)
        };
        assert!(gives(&call, &TV_V1_7, 96));
    }

    // TV-V1-4, 5: several Write chunks, as offered and as returned.
    #[test]
    fn write_list() {
        let mut out = [0; 128];
        let offered = ListsHeader {
            xid: 0xa1b2_c303,
            credits: 32,
            long: false,
            read: &[],
            write: &[
                &[
                    segment(0x2101, 4096, 0x10000),
                    segment(0x2102, 4096, 0x20000),
                    segment(0x2103, 4096, 0x30000),
                ],
                &[
                    segment(0x2201, 2048, 0x10_0004_0000),
                    segment(0x2202, 512, 0x10_0005_0000),
                ],
            ],
            reply: None,
        };
        assert_eq!(offered.encode(&mut out), Ok(124));
        assert_eq!(out.get(..124), Message::new(&TV_V1_4).bytes().get(..124));

        let returned = ListsHeader {
            credits: 16,
            write: &[
                &[
                    segment(0x2101, 4096, 0x10000),
                    segment(0x2102, 100, 0x20000),
                    segment(0x2103, 0, 0x30000),
                ],
                &[
                    segment(0x2201, 0, 0x10_0004_0000),
                    segment(0x2202, 0, 0x10_0005_0000),
                ],
            ],
            ..offered
        };
        assert_eq!(returned.encode(&mut out), Ok(124));
        assert_eq!(out.get(..124), Message::new(&TV_V1_5).bytes().get(..124));
    }

    // TV-V1-8: a reply in the Reply chunk; and one Write chunk from either encoder.
    #[test]
    fn long_reply() {
        let mut out = [0; 48];
        let reply = [segment(0x4201, 5120, 0xa0000)];
        let header = ListsHeader {
            xid: 0xa1b2_c305,
            credits: 16,
            long: true,
            read: &[],
            write: &[],
            reply: Some(&reply),
        };
        assert_eq!(header.encode(&mut out), Ok(48));
        assert_eq!(out.as_slice(), Message::new(&TV_V1_8).bytes());

        let mut other = [0; 64];
        let mut out = [0; 64];
        let header = ListsHeader {
            long: false,
            credits: 32,
            write: &[&reply],
            reply: None,
            ..header
        };
        let call = CallHeader {
            write: &reply,
            ..call(0xa1b2_c305)
        };
        assert_eq!(header.encode(&mut out), Ok(52));
        assert_eq!(call.encode(&mut other), Ok(52));
        assert_eq!(out, other);
    }

    // TV-V1-9, 10, V1-104, V1-106: errors.
    #[test]
    fn errors() {
        let mut out = [0; 28];
        let version = RdmaError::Version { low: 1, high: 1 };
        assert_eq!(encode_error(0xa1b2_c306, 2, 16, &version, &mut out), Ok(28));
        assert_eq!(out.as_slice(), Message::new(&TV_V1_9).bytes());

        let bad_header = RdmaError::BadHeader;
        assert_eq!(
            encode_error(0xa1b2_c307, 1, 16, &bad_header, &mut out),
            Ok(20)
        );
        assert_eq!(out.get(..20), Some(Message::new(&TV_V1_10).bytes()));

        for len in 0..28 {
            let out = out.get_mut(..len).unwrap_or_default();
            let no_room = Err(EncodeError::NoRoom);
            assert_eq!(encode_error(1, 1, 1, &version, out), no_room);
            assert!(len >= 20 || encode_error(1, 1, 1, &bad_header, out) == no_room);
            assert_eq!(encode_bare_header(1, 1, out), no_room);
        }
    }

    // V1-14: a buffer that is too short, by any length.
    #[test]
    fn no_room() {
        let one = [Segment::default()];
        let call = CallHeader {
            read: &[ReadSegment::default()],
            write: &one,
            reply: &one,
            ..call(1)
        };
        let mut out = [0; 96];
        for len in 0..96 {
            let out = out.get_mut(..len).unwrap_or_default();
            assert_eq!(call.encode(out), Err(EncodeError::NoRoom));
        }
        assert_eq!(call.encode(&mut out), Ok(96));
    }

    // V1-11: RDMA_NOMSG has to have a list.
    #[test]
    fn long_call_without_chunks() {
        let call = CallHeader {
            long: true,
            ..call(1)
        };
        assert_eq!(call.encode(&mut [0; 64]), Err(EncodeError::NoLists));
        let reply = ListsHeader {
            xid: 1,
            credits: 1,
            long: true,
            read: &[],
            write: &[],
            reply: None,
        };
        assert_eq!(reply.encode(&mut [0; 64]), Err(EncodeError::NoLists));
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
            let lens = [
                (CallHeader { read, ..bare }, read_list_len(u64::from(n))),
                (CallHeader { write, ..bare }, write_list_len(u64::from(n))),
                (
                    CallHeader {
                        reply: write,
                        ..bare
                    },
                    reply_chunk_len(u64::from(n)),
                ),
            ];
            for (call, len) in lens {
                let len = usize::try_from(len).unwrap_or_default().wrapping_add(28);
                assert_eq!(call.encode(&mut [0; 128]), Ok(len));
            }
        }
    }

    fn call(xid: u32) -> CallHeader<'static> {
        CallHeader {
            xid,
            credits: 32,
            long: false,
            read: &[],
            write: &[],
            reply: &[],
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
        call.encode(&mut out) == Ok(len)
            && out.get(..len) == Message::new(words).bytes().get(..len)
            && out.iter().skip(len).all(|byte| *byte == 0xee)
    }
}
