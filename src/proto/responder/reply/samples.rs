// SPDX-License-Identifier: GPL-2.0

//! Replies for the tests.

use super::{
    super::{
        super::{
            vectors::Message,
            wire::Wire, //
        },
        received::Received, //
    },
    parts::Write,
    Offer,
    Part,
    Refusal,
    ReplyLimits,
    ReplyPlan,
    ReplyShape, //
};

/// Limits that most replies keep to.
pub(crate) const LIMITS: ReplyLimits = ReplyLimits {
    threshold: 1024,
    page_size: 4096,
    pieces: 16,
    writes: 64,
};

/// The result of `look` at the plan of a reply with this shape to a call.
pub(crate) fn plan<T>(
    message: &Message,
    shape: &ReplyShape<'_>,
    limits: &ReplyLimits,
    look: impl FnOnce(&ReplyPlan<'_, '_>) -> T,
) -> Option<Result<T, Refusal>> {
    let Received::Call(call) = Wire::V1.receive_call(message.bytes()) else {
        return None;
    };
    let offer = Offer {
        write: call.chunks.write,
        reply: call.chunks.reply,
    };
    Some(
        Wire::V1
            .plan_reply(&offer, shape, limits)
            .map(|plan| look(&plan)),
    )
}

/// A reply of `len` bytes with these results.
pub(crate) fn shape(len: u32, results: &[Part]) -> ReplyShape<'_> {
    ReplyShape {
        len,
        results,
        opaque: false,
    }
}

/// A part, in one line.
pub(crate) fn part(at: u32, len: u32) -> Part {
    Part { at, len }
}

/// A Write, in one line.
pub(crate) fn write(at: u32, len: u32, handle: u32, offset: u64) -> Write {
    let part = part(at, len);
    Write {
        part,
        handle,
        offset,
    }
}
