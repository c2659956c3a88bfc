// SPDX-License-Identifier: GPL-2.0

//! The question and the answer before a call is sent, over any version: its shape, the limits of
//! the connection, and the transfer modes of the call and its reply.

use super::private_data::Thresholds;

/// The sizes and properties of a call before it is sent.
///
/// A trait, so that of a call that fits inline both ways nothing but the two lengths is looked up.
pub(crate) trait Shape {
    /// Bytes of the whole call.
    fn send_len(&self) -> u32;

    /// Bytes of the call that are in its page list.
    fn send_pages(&self) -> u32;

    /// The number of the call's head and tail that are not empty.
    fn send_kvecs(&self) -> u32;

    /// Returns `true` if the upper layer marked the page list of the call as eligible for direct
    /// placement.
    fn send_eligible(&self) -> bool;

    /// Bytes of the largest possible reply.
    fn recv_max(&self) -> u32;

    /// Bytes of the largest possible reply that are for its page list.
    fn recv_pages(&self) -> u32;

    /// The number of the reply's head and tail that are not empty.
    fn recv_kvecs(&self) -> u32;

    /// Returns `true` if the upper layer marked the page list of the reply as eligible for direct
    /// placement.
    fn recv_eligible(&self) -> bool;

    /// Returns `true` if the payload is protected by RPCSEC_GSS integrity or privacy, so that
    /// nothing may be taken out of it.
    fn is_opaque(&self) -> bool;
}

/// The limits of the connection and its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlanLimits {
    /// The inline thresholds of the connection.
    pub(crate) thresholds: Thresholds,
    /// Bytes of a page, a power of two.
    pub(crate) page_size: u32,
    /// The most pages that one registration covers.
    pub(crate) pages_per_segment: u32,
    /// The most segments of any one chunk.
    pub(crate) max_segments: u32,
}

impl PlanLimits {
    /// The same with thresholds that are `bytes` lower.
    #[inline(always)]
    pub(crate) fn less(&self, bytes: u32) -> Self {
        let Thresholds { call, reply } = self.thresholds;

        Self {
            thresholds: Thresholds {
                call: call.saturating_sub(bytes),
                reply: reply.saturating_sub(bytes),
            },
            ..*self
        }
    }
}

/// The transfer mode of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMode {
    /// All of it behind the header.
    Inline,
    /// Its page list is in a Read chunk, the rest behind the header.
    ReadChunk,
    /// All of it is in a Read chunk at position 0 (`RDMA_NOMSG`).
    Long,
}

/// The transfer mode of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    /// No chunk is offered.
    Inline,
    /// Its page list is offered as a Write chunk.
    WriteChunk,
    /// Head, page list and tail are offered as a Reply chunk.
    ReplyChunk,
}

/// The transfer modes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The transfer mode of the call.
    pub(crate) call: CallMode,
    /// The transfer mode of the reply.
    pub(crate) reply: ReplyMode,
    /// The most segments of the Read list; 0 without one.
    pub(crate) call_segments: u32,
    /// The most segments of the Write chunk or Reply chunk; 0 without one.
    pub(crate) reply_segments: u32,
}

impl Plan {
    /// A call and a reply without chunks.
    pub(crate) const INLINE: Self = Self {
        call: CallMode::Inline,
        reply: ReplyMode::Inline,
        call_segments: 0,
        reply_segments: 0,
    };
}

/// The only chunk of a call, of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sole {
    /// The page data of the call, in a Read chunk.
    Read,
    /// The page data of the reply, offered a Write chunk.
    Write,
    /// The whole reply, which has no page data, offered a Reply chunk.
    Reply,
}

impl Sole {
    /// The plan with this chunk.
    #[inline(always)]
    pub(crate) const fn plan(self) -> Plan {
        match self {
            Self::Read => Plan {
                call: CallMode::ReadChunk,
                call_segments: 1,
                ..Plan::INLINE
            },
            Self::Write => Plan {
                reply: ReplyMode::WriteChunk,
                reply_segments: 1,
                ..Plan::INLINE
            },
            Self::Reply => Plan {
                reply: ReplyMode::ReplyChunk,
                reply_segments: 1,
                ..Plan::INLINE
            },
        }
    }
}

/// The reason why a call cannot be sent on this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanError {
    /// A chunk needs more segments than allowed.
    TooManySegments,
    /// The header of the call, with the chunks it needs and nothing else, exceeds the threshold.
    CallHeader,
    /// The header of the reply, with the Reply chunk returned, exceeds the threshold.
    ReplyHeader,
    /// A page list is longer than its message.
    Shape,
    /// A page has no bytes, a segment no pages, or their number is beyond counting.
    Limits,
}

impl PlanError {
    /// The reason in words, for a trace or a log line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::TooManySegments => "more segments than allowed",
            Self::CallHeader => "call header exceeds the inline threshold",
            Self::ReplyHeader => "reply header exceeds the inline threshold",
            Self::Shape => "page list longer than its message",
            Self::Limits => "no usable registration size",
        }
    }
}
