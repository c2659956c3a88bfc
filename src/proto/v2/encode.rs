// SPDX-License-Identifier: GPL-2.0

//! The transport headers that we send in version 2, and the messages that a transport writes itself
//! (v2-01 section 4.2).

use super::{
    super::{
        call_header::{
            self,
            CallHeader,
            Chunks, //
        },
        chunk::{
            ReadSegment,
            Segment, //
        },
        error::RdmaError,
        neutral::{
            Direction,
            Rejection, //
        },
        prefix::Proc,
        responder::reply::ReplyPlan,
        rpc::{
            null_call,
            system_error,
            Program, //
        },
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

/// A message that was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncodeError {
    /// It does not fit into the buffer.
    NoRoom,
    /// A count does not fit into its word.
    TooMany,
    /// `RDMA2_NOMSG` without a chunk that could hold the payload.
    NoLists,
}

impl From<NoRoom> for EncodeError {
    fn from(_: NoRoom) -> Self {
        Self::NoRoom
    }
}

impl From<EncodeError> for call_header::EncodeError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::NoRoom => Self::NoRoom,
            EncodeError::TooMany => Self::TooManySegments,
            EncodeError::NoLists => Self::NoLists,
        }
    }
}

/// The header of an RPC message, with any chunk lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RpcHeader<'a> {
    /// The xid of the RPC message.
    pub(crate) xid: u32,
    /// Credits requested (call) or granted (reply); 0 is not allowed.
    pub(crate) credits: u32,
    /// The message type of the RPC message (V2-32).
    pub(crate) direction: Direction,
    /// The message itself is in a chunk (`RDMA2_NOMSG`).
    pub(crate) long: bool,
    /// The Read list.
    pub(crate) read: &'a [ReadSegment],
    /// The segments of each Write chunk.
    pub(crate) write: &'a [&'a [Segment]],
    /// The segments of the Reply chunk.
    pub(crate) reply: Option<&'a [Segment]>,
}

impl RpcHeader<'_> {
    /// The header of an RPC message without chunks.
    pub(crate) const fn bare(xid: u32, credits: u32, direction: Direction) -> Self {
        Self {
            xid,
            credits,
            direction,
            long: false,
            read: &[],
            write: &[],
            reply: None,
        }
    }

    /// Writes the header to the front of `out` and returns its length in bytes.
    ///
    /// # Errors
    ///
    /// See [`EncodeError`]; the content of `out` is then undefined.
    pub(crate) fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        if self.long && self.read.is_empty() && self.write.is_empty() && self.reply.is_none() {
            return Err(EncodeError::NoLists);
        }
        let proc = if self.long { Proc::NoMsg } else { Proc::Msg };
        let mut out = Writer::new(out);
        out.words([self.xid, VERSION, self.credits, proc.code()])?;
        out.words([word(self.direction)])?;
        for &ReadSegment { position, segment } in self.read {
            out.pairs([
                pair(1, position),
                pair(segment.handle, segment.length),
                segment.offset,
            ])?;
        }
        out.words([0])?;
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

/// Writes a chunk behind the word for its presence.
fn put_chunk(out: &mut Writer<'_>, chunk: &[Segment]) -> Result<(), EncodeError> {
    let count = u32::try_from(chunk.len()).map_err(|_| EncodeError::TooMany)?;
    out.words([1, count])?;
    for segment in chunk {
        out.pairs([pair(segment.handle, segment.length), segment.offset])?;
    }
    Ok(())
}

/// The direction word.
pub(crate) const fn word(direction: Direction) -> u32 {
    match direction {
        Direction::Call => 0,
        Direction::Reply => 1,
    }
}

/// Writes an error and returns its length, 20 or 28 bytes. An error that this version has no code
/// for is a `BAD_HEADER`.
///
/// `xid` and `version` are from the message that could not be processed, `credits` is the current
/// grant.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub(crate) fn encode_error(
    xid: u32,
    version: u32,
    credits: u32,
    rejection: Rejection,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    Ok(RdmaError::from(rejection).encode(xid, version, credits, out)?)
}

/// Writes the header of a call, or of a reply without chunks, as a client sends it, and returns its
/// length in bytes.
///
/// # Errors
///
/// See [`EncodeError`]; the content of `out` is then undefined.
pub(crate) fn encode_call(header: &CallHeader<'_>, out: &mut [u8]) -> Result<usize, EncodeError> {
    let CallHeader {
        xid,
        credits,
        long,
        chunks: Chunks { read, write, reply },
    } = *header;

    if !long && read.is_empty() && write.is_empty() && reply.is_empty() {
        return encode_bare_header(xid, credits, Direction::Call, out);
    }
    let header = RpcHeader {
        xid,
        credits,
        direction: Direction::Call,
        long,
        read,
        write: if write.is_empty() { &[] } else { &[write] },
        reply: Some(reply).filter(|reply| !reply.is_empty()),
    };
    header.encode(out)
}

/// Writes the header of a message without chunks and returns its length, 32 bytes.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
#[inline]
pub(crate) fn encode_bare_header(
    xid: u32,
    credits: u32,
    direction: Direction,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let direction = word(direction);

    Writer::new(out).words([xid, VERSION, credits, Proc::Msg.code(), direction, 0, 0, 0])?;
    Ok(MIN_LEN)
}

/// Writes the header of a planned reply to the front of `out` and returns its length in bytes.
/// `credits` is the current grant.
///
/// # Errors
///
/// [`NoRoom`].
pub(crate) fn encode_reply(
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

    out.words([xid, VERSION, credits, proc.code(), word(Direction::Reply)])?;
    plan.put_lists(&mut out)?;
    Ok(out.written())
}

/// Writes a call of procedure 0 of `program`, which every program answers, and returns the length
/// of the message, 72 bytes: the first message of a client (V2-6).
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub(crate) fn encode_null_call(
    xid: u32,
    credits: u32,
    program: Program,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let header = RpcHeader::bare(xid, credits, Direction::Call);
    encode_inline(&header, null_call(xid, program), out)
}

/// Writes the reply for a reverse call whose own reply does not fit (BI-32), and returns the length
/// of the message, 56 bytes.
///
/// # Errors
///
/// [`EncodeError::NoRoom`].
pub(crate) fn encode_system_error(
    xid: u32,
    credits: u32,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let header = RpcHeader::bare(xid, credits, Direction::Reply);
    encode_inline(&header, system_error(xid), out)
}

fn encode_inline<const N: usize>(
    header: &RpcHeader<'_>,
    payload: [u32; N],
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let len = header.encode(out)?;
    let mut rest = Writer::new(out.get_mut(len..).ok_or(EncodeError::NoRoom)?);
    rest.words(payload)?;
    Ok(len.saturating_add(rest.written()))
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_v2_encode))]
mod tests {
    use super::{
        super::{
            super::vectors::*,
            header::MIN_LEN,
            vectors::*, //
        },
        *, //
    };

    // TV-V2-1, 2, 7, V2-3, V2-4, V2-6, V2-7, V2-31, V2-32: messages without chunks.
    #[test]
    fn bare() {
        let nfs = Program {
            number: 100_003,
            version: 3,
        };
        let callback = Program {
            number: 0x4000_0000,
            version: 1,
        };
        let mut out = [0xee; 76];
        assert_eq!(encode_null_call(0xb200_0001, 32, nfs, &mut out), Ok(72));
        assert_eq!(out.get(..72), Some(Message::new(&TV_V2_1).bytes()));
        assert_eq!(out.get(72..), Some([0xee; 4].as_slice()));
        assert_eq!(encode_null_call(0x31, 2, callback, &mut out), Ok(72));
        assert_eq!(out.get(..72), Some(Message::new(&TV_V2_7).bytes()));

        let reply = RpcHeader::bare(0xb200_0001, 16, Direction::Reply);
        let header = Message::new(&TV_V2_2).cut(MIN_LEN);
        assert!(gives(&reply, &header));
    }

    // BI-32, V2-32: the reply to a reverse call that cannot be served.
    #[test]
    fn system_errors() {
        let mut out = [0xee; 56];
        assert_eq!(encode_system_error(7, 16, &mut out), Ok(56));
        let expected = [7, 2, 16, 0, 1, 0, 0, 0, 7, 1, 0, 0, 0, 5].map(u32::to_be_bytes);
        assert_eq!(out.as_slice(), expected.as_flattened());
        for room in [0, 31, 32, 55] {
            let out = out.get_mut(..room).unwrap_or_default();
            assert_eq!(encode_system_error(7, 16, out), Err(EncodeError::NoRoom));
        }
    }

    // TV-V2-5, 6, V2-54: with chunk lists.
    #[test]
    fn chunks() {
        let read = [ReadSegment {
            position: 0,
            segment: segment(0x2101, 1400, 0x10000),
        }];
        let call = RpcHeader {
            long: true,
            read: &read,
            ..RpcHeader::bare(0xb200_0006, 32, Direction::Call)
        };
        assert!(gives(&call, &Message::new(&TV_V2_5)));
        let written = [segment(0x2102, 8192, 0x20000)];
        let reply = RpcHeader {
            write: &[&written],
            ..RpcHeader::bare(0xb200_0007, 16, Direction::Reply)
        };
        assert!(gives(&reply, &Message::new(&TV_V2_6).cut(56)));
        let long = RpcHeader {
            long: true,
            reply: Some(&written),
            ..RpcHeader::bare(7, 16, Direction::Reply)
        };
        let expected = [7, 2, 16, 1, 1, 0, 0, 1, 1, 0x2102, 8192, 0, 0x20000];
        assert!(gives(&long, &Message::new(&expected)));
    }

    // V2-37, V1-11: RDMA2_NOMSG has to have a list.
    #[test]
    fn no_lists() {
        let header = RpcHeader {
            long: true,
            ..RpcHeader::bare(1, 1, Direction::Call)
        };
        assert_eq!(header.encode(&mut [0; 64]), Err(EncodeError::NoLists));
    }

    // TV-V2-3, 4, TV-V1-9, V2-9, V2-36, V2-40, V2-45, V2-49: errors, and any buffer too short.
    #[test]
    fn errors() {
        let versions = Rejection::Version { low: 1, high: 1 };
        for (words, rejection) in [
            (TV_V2_3.as_slice(), Rejection::InvalidOption),
            (TV_V2_4.as_slice(), versions),
            (TV_V1_9.as_slice(), versions),
            (TV_V1_10.as_slice(), Rejection::BadHeader),
        ] {
            let message = Message::new(words);
            let [xid, version, credits] = match words {
                [xid, version, credits, ..] => [*xid, *version, *credits],
                _ => [0; 3],
            };
            let mut out = [0xee; 28];
            let len = message.bytes().len();
            let found = encode_error(xid, version, credits, rejection, &mut out);
            assert_eq!(found, Ok(len));
            assert_eq!(out.get(..len), Some(message.bytes()));
            for len in 0..len {
                let out = out.get_mut(..len).unwrap_or_default();
                let found = encode_error(xid, version, credits, rejection, out);
                assert_eq!(found, Err(EncodeError::NoRoom));
            }
        }
    }

    // V2-49: this version has no words for the errors of later ones.
    #[test]
    fn errors_without_a_code() {
        let expected = [7, 2, 16, 4, 2].map(u32::to_be_bytes);
        for rejection in [
            Rejection::ReplyTooLong { needed: Some(5000) },
            Rejection::ResultTooLong {
                needed: Some((0, 9000)),
            },
            Rejection::TooManySegments { most: None },
        ] {
            let mut out = [0; 20];
            assert_eq!(encode_error(7, 2, 16, rejection, &mut out), Ok(20));
            assert_eq!(out.as_slice(), expected.as_flattened());
        }
    }

    // Returns `true` if the header is `message`, and no shorter buffer takes it.
    fn gives(header: &RpcHeader<'_>, message: &Message) -> bool {
        let mut out = [0xee; 128];
        let len = message.bytes().len();
        header.encode(&mut out) == Ok(len)
            && out.get(..len) == Some(message.bytes())
            && out.iter().skip(len).all(|byte| *byte == 0xee)
            && (0..len).all(|len| {
                let out = out.get_mut(..len).unwrap_or_default();
                header.encode(out) == Err(EncodeError::NoRoom)
            })
    }
}
