// SPDX-License-Identifier: GPL-2.0

//! Headers with any chunk lists (RFC 8166, section 4.3).

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
        xdr::{
            pair,
            NoRoom,
            Writer, //
        }, //
    },
    header::VERSION, //
};

/// Writes the header of a call with any chunks.
///
/// # Errors
///
/// See [`EncodeError`]; the content of `out` is then undefined.
pub(super) fn encode_lists(header: &CallHeader<'_>, out: &mut [u8]) -> Result<usize, EncodeError> {
    let Chunks { read, write, reply } = header.chunks;
    let mut out = Writer::new(out);
    put_prefix(&mut out, header.xid, header.credits, header.long)?;
    put_read_list(&mut out, read)?;
    if !write.is_empty() {
        put_chunk(&mut out, write)?;
    }
    out.words([0])?;
    if reply.is_empty() {
        out.words([0])?;
    } else {
        put_chunk(&mut out, reply)?;
    }
    Ok(out.written())
}

/// A header with any chunk lists, as a responder returns them: several Write chunks, chunks of no
/// segments. For tests, as an encoder beside those of both ends.
#[cfg(any(not(MODULE), CONFIG_KUNIT = "y"))]
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

#[cfg(any(not(MODULE), CONFIG_KUNIT = "y"))]
impl ListsHeader<'_> {
    /// Writes the header to the front of `out` and returns its length in bytes.
    ///
    /// # Errors
    ///
    /// See [`EncodeError`]; the content of `out` is then undefined.
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
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_lists))]
mod tests {
    use super::{
        super::super::vectors::*,
        *, //
    };

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
            xid: 0xa1b2_c305,
            credits: 32,
            long: false,
            chunks: Chunks {
                write: &reply,
                ..Chunks::default()
            },
        };
        assert_eq!(header.encode(&mut out), Ok(52));
        assert_eq!(encode_lists(&call, &mut other), Ok(52));
        assert_eq!(out, other);
    }

    // V1-11: RDMA_NOMSG has to have a list.
    #[test]
    fn long_reply_without_chunks() {
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
}
