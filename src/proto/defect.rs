// SPDX-License-Identifier: GPL-2.0

//! Defects of a header.

/// A defect of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The type is reserved or undefined.
    Type,
    /// The type is `RDMA_DONE`, which is obsolete.
    Done,
    /// The message ends inside its header, or a count runs past its end.
    Truncated,
    /// A word for the presence of an item is neither 0 nor 1.
    OptionalData,
    /// `RDMA_NOMSG` without a list that could hold the payload.
    NoLists,
    /// The payload is too short for an RPC xid and message type.
    ShortPayload,
    /// The xid of the payload differs from the xid of the header.
    XidMismatch,
    /// The message type of the payload is neither call nor reply.
    Direction,
    /// A Read chunk has a position that no item can have.
    Position,
    /// A segment runs over the end of the 64-bit address space.
    Wraps,
    /// The chunks or segments are more than the responder takes.
    TooManySegments,
    /// The arguments are longer than the responder takes.
    TooLong,
    /// A message in the reverse direction has chunks.
    ReverseChunks,
    /// The structure of an optional operation is not well-formed, or the operation unknown.
    Operation,
}

impl Defect {
    /// The defect in words, for a trace or a log line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Type => "message type reserved or undefined",
            Self::Done => "message type RDMA_DONE",
            Self::Truncated => "message ends inside its header",
            Self::OptionalData => "optional-data word neither 0 nor 1",
            Self::NoLists => "RDMA_NOMSG without chunk lists",
            Self::ShortPayload => "payload shorter than xid and message type",
            Self::XidMismatch => "payload xid is not the header's",
            Self::Direction => "payload neither call nor reply",
            Self::Position => "impossible Read chunk position",
            Self::Wraps => "segment past the address space",
            Self::TooManySegments => "more chunks or segments than taken",
            Self::TooLong => "arguments longer than taken",
            Self::ReverseChunks => "chunks in the reverse direction",
            Self::Operation => "optional operation unknown or malformed",
        }
    }
}
