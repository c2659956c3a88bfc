// SPDX-License-Identifier: GPL-2.0

//! The kinds of messages that a server receives.

use super::super::{
    chunk::ChunkLists,
    defect::Defect,
    error::RdmaError,
    neutral::Optional, //
};

/// A call. The arguments and the offer for the reply are still to be checked against the limits of
/// the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    /// Its xid.
    pub(crate) xid: u32,
    /// The replies that the client can take together, unchecked; see
    /// [`grant`](super::grant::grant).
    pub(crate) credits: u32,
    /// The chunk lists. The positions are multiples of 4, and no segment wraps.
    pub(crate) chunks: ChunkLists<'a>,
    /// The inline part of the arguments; `None` for a Long call, whose Read list has a segment at
    /// position 0.
    pub(crate) payload: Option<&'a [u8]>,
}

impl Call<'_> {
    /// Returns `true` if all arguments are inline.
    pub(crate) const fn is_inline(&self) -> bool {
        self.payload.is_some() && self.chunks.read.is_empty()
    }
}

/// A received message, as a server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received<'a> {
    /// A call.
    Call(Call<'a>),
    /// A reply in the reverse direction. Its xid is not looked up yet.
    ReverseReply {
        /// The xid of the reverse call.
        xid: u32,
        /// The reverse calls that the client grants, unchecked.
        credits: u32,
        /// The RPC reply.
        payload: &'a [u8],
    },
    /// The client could not process a reverse call. Its xid is not looked up yet.
    ReverseError {
        /// The xid of the reverse call.
        xid: u32,
        /// The credits word, unchecked.
        credits: u32,
        /// The error that the client reports.
        error: RdmaError,
    },
    /// An optional operation.
    Operation(Optional<'a>),
    /// The reply is an `RDMA_ERROR` with this xid and version word, and the current grant.
    Reject {
        /// The xid of the message.
        xid: u32,
        /// The version word of the message.
        version: u32,
        /// The error.
        error: RdmaError,
        /// The reason.
        why: Reason,
    },
    /// A response to an operation of this end that cannot be decoded (XC-56).
    BadResponse {
        /// Its xid.
        xid: u32,
    },
    /// The message is dropped, and counted.
    Drop(Reason),
}

impl Received<'_> {
    /// The message as one that is dropped.
    pub(crate) fn dropped(self) -> Self {
        match self {
            Self::Drop(_) => self,
            Self::ReverseError { .. } => Self::Drop(Reason::UndecodableError),
            _ => Self::Drop(Reason::BadReply),
        }
    }

    /// Rejects a call, in a message with this `version` word, because of `defect`, which the plans
    /// of its arguments and of its reply can find, too.
    #[cold]
    pub(crate) const fn bad_header(xid: u32, version: u32, defect: Defect) -> Self {
        Self::Reject {
            xid,
            version,
            error: RdmaError::BadHeader,
            why: Reason::Defect(defect),
        }
    }
}

/// The reason why a message is no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Too short for the words that every message has.
    Short,
    /// The type is `RDMA_DONE` (RFC 8166, section 4.6.2).
    Done,
    /// An `RDMA_ERROR` that is short or has an unknown code (RFC 8166, section 4.5).
    UndecodableError,
    /// A reply in the reverse direction with chunks, or with another xid than its header.
    BadReply,
    /// The version is not ours.
    Version,
    /// The header, or the start of the payload, is not well-formed.
    Defect(Defect),
}

impl Reason {
    /// The number of reasons; [`Reason::index`] is below it.
    pub(crate) const REASONS: usize = 6;

    /// The names of the counters, by [`Reason::index`].
    pub(crate) const NAMES: [&'static str; Self::REASONS] = [
        "short",
        "done",
        "undecodable",
        "bad_reply",
        "version",
        "malformed",
    ];

    /// The reason as the index of a counter.
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Short => 0,
            Self::Done => 1,
            Self::UndecodableError => 2,
            Self::BadReply => 3,
            Self::Version => 4,
            Self::Defect(_) => 5,
        }
    }

    /// The reason in words, for a trace or a log line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Short => "message shorter than a prefix",
            Self::Done => Defect::Done.as_str(),
            Self::UndecodableError => "undecodable RDMA_ERROR",
            Self::BadReply => "malformed reply in the reverse direction",
            Self::Version => "unsupported version",
            Self::Defect(defect) => defect.as_str(),
        }
    }
}
