// SPDX-License-Identifier: GPL-2.0

//! Messages as a client receives them, over any version.
//!
//! A server may send us replies, calls in the reverse direction, and errors about our calls.
//! Everything else is counted and gets no message in return: a client sends an `RDMA_ERROR` only
//! for a message that is recognisably a reverse call, because one for a bad reply would look like
//! one for a call that the server never sent. A message that names a call of ours ends that call,
//! since no other reply to it will come.

use super::{
    chunk::{
        ChunkLists,
        Segment, //
    },
    defect::Defect,
    error::RdmaError,
    neutral::Optional, //
};

/// A reply to one of our calls, not yet compared with the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    /// The xid of the call.
    pub(crate) xid: u32,
    /// The credits word, unchecked; see [`super::credits::grant`].
    pub(crate) credits: u32,
    /// The chunks as they came back.
    pub(crate) chunks: Returned<'a>,
    /// The inline part of the RPC reply; empty when all of it is in the Reply chunk
    /// (`RDMA_NOMSG`).
    pub(crate) payload: &'a [u8],
}

/// The chunks of a reply. Nearly all replies have none, or one of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returned<'a> {
    /// None.
    None,
    /// A Write chunk with this segment.
    Write(Segment),
    /// A Reply chunk with this segment.
    Reply(Segment),
    /// Any lists.
    Lists {
        /// The lists.
        lists: ChunkLists<'a>,
        /// All of the reply is in the Reply chunk.
        long: bool,
    },
}

/// A received message, as a client sees it.
///
/// Its xid is not looked up yet; a message that belongs to no call of ours is dropped and counted,
/// too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incoming<'a> {
    /// A reply to one of our calls.
    Reply(Reply<'a>),
    /// A call in the reverse direction (RFC 8167, section 5.1).
    ReverseCall {
        /// Its xid; the xids of the two directions are independent.
        xid: u32,
        /// The replies that the server can take together, unchecked.
        credits: u32,
        /// The RPC call.
        payload: &'a [u8],
    },
    /// A call in the reverse direction that cannot be served, such as one that has chunks.
    BadReverseCall {
        /// Its xid.
        xid: u32,
        /// Its version word, to be repeated in the reply.
        version: u32,
        /// The error that the server gets.
        error: RdmaError,
    },
    /// An optional operation.
    Operation(Optional<'a>),
    /// The server could not process one of our calls, which ends the call.
    Error {
        /// The xid of the call.
        xid: u32,
        /// The credits word, unchecked.
        credits: u32,
        /// The error that the server reports.
        error: RdmaError,
    },
    /// A message that does not parse but names a call, which it ends if that is one of ours.
    Unusable {
        /// The xid of the header.
        xid: u32,
        /// The defect.
        why: Reason,
    },
    /// A response to an operation of this end that cannot be decoded (XC-56).
    BadResponse {
        /// Its xid.
        xid: u32,
        /// The defect.
        why: Reason,
    },
    /// A message without the words that every message has: it belongs to no call.
    Discard(Reason),
}

/// The reason why a message cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Too short for the words that every message has.
    Short,
    /// The version is not ours.
    Version,
    /// The type is reserved or undefined.
    Type,
    /// Header and payload name different calls.
    XidMismatch,
    /// The header, or the start of the payload, is not well-formed.
    Defect(Defect),
    /// An `RDMA_ERROR` that is short or has an unknown code. RFC 8166, section 4.5, has it dropped
    /// silently, so it does not end its call.
    UndecodableError,
}

impl Reason {
    /// The number of reasons; [`Reason::index`] is below it.
    pub(crate) const REASONS: usize = 6;

    /// The names of the counters, in the order of [`Reason::index`].
    pub(crate) const NAMES: [&'static str; Self::REASONS] = [
        "short",
        "version",
        "type",
        "xid_mismatch",
        "malformed",
        "undecodable",
    ];

    /// The reason as the index of a counter.
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Short => 0,
            Self::Version => 1,
            Self::Type => 2,
            Self::XidMismatch => 3,
            Self::Defect(_) => 4,
            Self::UndecodableError => 5,
        }
    }

    /// The reason in words, for a trace or a log line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Short => "message shorter than a prefix",
            Self::Version => "unsupported version",
            Self::Type => Defect::Type.as_str(),
            Self::XidMismatch => Defect::XidMismatch.as_str(),
            Self::Defect(defect) => defect.as_str(),
            Self::UndecodableError => "undecodable RDMA_ERROR",
        }
    }

    /// The reason that is `defect`.
    pub(super) const fn of(defect: Defect) -> Self {
        match defect {
            Defect::Type | Defect::Done => Self::Type,
            Defect::XidMismatch => Self::XidMismatch,
            _ => Self::Defect(defect),
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_incoming))]
mod tests {
    use super::*;

    // Every reason has a counter of its own.
    #[test]
    fn indexes() {
        let reasons = [
            Reason::Short,
            Reason::Version,
            Reason::Type,
            Reason::XidMismatch,
            Reason::Defect(Defect::Wraps),
            Reason::UndecodableError,
        ];
        assert_eq!(reasons.len(), Reason::REASONS);
        for (index, reason) in reasons.iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
    }
}
