// SPDX-License-Identifier: GPL-2.0

//! The header of a call before it is written, over any version.

use super::{
    chunk::{
        ReadSegment,
        Segment, //
    },
    xdr::NoRoom, //
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
    /// The chunks.
    pub(crate) chunks: Chunks<'a>,
}

/// The chunks of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chunks<'a> {
    /// The Read list.
    pub(crate) read: &'a [ReadSegment],
    /// The segments of the Write chunk; empty for no Write list.
    pub(crate) write: &'a [Segment],
    /// The segments of the Reply chunk; empty for none.
    pub(crate) reply: &'a [Segment],
}

impl<'a> Chunks<'a> {
    /// All segments, each with `true` if the server may write there.
    pub(crate) fn segments(self) -> impl Iterator<Item = (&'a Segment, bool)> {
        let read = self.read.iter().map(|read| (&read.segment, false));
        let written = self.write.iter().chain(self.reply);

        read.chain(written.map(|segment| (segment, true)))
    }

    /// The handles of all segments.
    pub(crate) fn handles(self) -> impl Iterator<Item = u32> + 'a {
        self.segments().map(|(segment, _)| segment.handle)
    }
}
