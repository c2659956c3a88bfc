// SPDX-License-Identifier: GPL-2.0

//! Defects of a message of version 2.

use super::super::defect;

/// A defect of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// One that version 1 has, too.
    Common(defect::Defect),
    /// The direction word is neither call nor reply (V2-33).
    DirectionWord,
    /// The direction word is not the message type of the payload (V2-33).
    DirectionMismatch,
    /// An RPC message from server to client, or a reply to one, has chunks (V2-53).
    ReverseChunks,
    /// `rdma_optinfo` does not hold the structure of its operation (XC-4, XC-5, XC-20).
    Operation,
    /// The data of a known characteristic is not of its type (XC-5..XC-8).
    Data,
    /// A boolean is neither 0 nor 1 (XC-66).
    Flag,
    /// `rdma_optinfo` is longer than the structure of its operation (XC-11).
    Leftover,
}

impl Defect {
    /// The defect in words, for a trace or a log line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Common(defect) => defect.as_str(),
            Self::DirectionWord => "direction word neither call nor reply",
            Self::DirectionMismatch => "direction word is not the payload's",
            Self::ReverseChunks => "chunks in the reverse direction",
            Self::Operation => "operation ends inside its structure",
            Self::Data => "data is not of the characteristic's type",
            Self::Flag => "boolean neither 0 nor 1",
            Self::Leftover => "bytes behind the operation's structure",
        }
    }
}

impl Defect {
    /// The nearest defect of no version.
    pub(crate) const fn common(self) -> defect::Defect {
        match self {
            Self::Common(defect) => defect,
            Self::DirectionWord | Self::DirectionMismatch => defect::Defect::Direction,
            Self::ReverseChunks => defect::Defect::ReverseChunks,
            Self::Operation | Self::Data | Self::Flag | Self::Leftover => defect::Defect::Operation,
        }
    }
}

impl From<defect::Defect> for Defect {
    #[inline]
    fn from(defect: defect::Defect) -> Self {
        Self::Common(defect)
    }
}

/// The reason why a message cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Too short for the words that every message has.
    Short,
    /// The type is one that this text does not have (V2-30).
    Type,
    /// An error that ends early, or has an unknown code (V2-50).
    Error,
    /// The header, or the start of the payload, is not well-formed.
    Defect(Defect),
    /// The operation is unknown (V2-45, V2-48).
    Operation,
    /// The operation is not sent in this direction (XC-35).
    Direction,
}

impl Reason {
    /// The nearest defect of no version.
    pub(crate) const fn common(self) -> defect::Defect {
        match self {
            Self::Short | Self::Error => defect::Defect::Truncated,
            Self::Type => defect::Defect::Type,
            Self::Defect(defect) => defect.common(),
            Self::Operation | Self::Direction => defect::Defect::Operation,
        }
    }

    /// The reason in words, for a trace or a log line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Short => "message shorter than a prefix",
            Self::Type => "message type undefined in version 2",
            Self::Error => "undecodable RDMA2_ERROR",
            Self::Defect(defect) => defect.as_str(),
            Self::Operation => "unknown optional operation",
            Self::Direction => "operation in the wrong direction",
        }
    }
}
