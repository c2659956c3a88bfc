// SPDX-License-Identifier: GPL-2.0

//! The transfer modes of a call and its reply (RFC 8166, sections 3.5 and 4.3.3).
//!
//! The reply is planned first, because the chunks offered for it are in the header of the call:
//!
//! 1. a reply that fits is inline;
//! 2. otherwise, if its page list may be reduced and the rest fits, that is offered a Write chunk;
//! 3. otherwise the whole reply is offered a Reply chunk.
//!
//! Then the call, in the same way: inline, else its page list in a Read chunk, else all of it in a
//! Read chunk at position 0 (a Long message).
//!
//! [`super::usual`] finds the plans of nearly all calls with a few comparisons.
//!
//! "Fits" always means that transport header and payload together do not exceed the threshold of
//! their direction; equal fits. The segments of a chunk are known only when its memory is
//! registered, so the plan counts with the most it can take. The header needs more only where the
//! device's addresses have gaps that the memory has not; a call that does not fit then fails.

use super::{
    super::{
        chunk::{
            read_list_len,
            reply_chunk_len,
            write_list_len, //
        },
        plan::{
            CallMode,
            Plan,
            PlanError,
            PlanLimits,
            ReplyMode,
            Shape, //
        },
        segments::most_segments, //
    },
    header::MIN_LEN, //
};

/// Bytes of a header with three empty lists.
// CAST: Widens; `From` is not const.
#[allow(clippy::as_conversions)]
pub(super) const BARE_HEADER: u64 = MIN_LEN as u64;

/// Returns `true` if the replies to `call` fit when its Write chunk has this number of segments:
/// it can have more than were planned (V1-153).
pub(crate) fn reply_fits(call: &impl Shape, limits: &PlanLimits, write_segments: u32) -> bool {
    let header = BARE_HEADER.saturating_add(write_list_len(u64::from(write_segments)));
    let rest = call.recv_max().saturating_sub(call.recv_pages());

    fits(header, rest, u64::from(limits.thresholds.reply))
}

/// Decides how `call` is sent under `limits`.
///
/// # Errors
///
/// See [`PlanError`]; such a call fails immediately.
pub(crate) fn plan(call: &impl Shape, limits: &PlanLimits) -> Result<Plan, PlanError> {
    let (reply, reply_segments, chunks) = plan_reply(call, limits)?;
    let header = BARE_HEADER.saturating_add(chunks);
    let (call, call_segments) = plan_call(call, limits, header)?;
    Ok(Plan {
        call,
        reply,
        call_segments,
        reply_segments,
    })
}

/// The mode of the reply, its segments, and the bytes that its chunk adds to either header.
#[inline]
fn plan_reply(call: &impl Shape, limits: &PlanLimits) -> Result<(ReplyMode, u32, u64), PlanError> {
    let threshold = u64::from(limits.thresholds.reply);
    if fits(BARE_HEADER, call.recv_max(), threshold) {
        return Ok((ReplyMode::Inline, 0, 0));
    }
    let pages = call.recv_pages();
    let rest = call.recv_max().checked_sub(pages).ok_or(PlanError::Shape)?;
    let page_segments = segments(limits, pages, 1)?;
    if call.recv_eligible() && !call.is_opaque() && pages > 0 {
        let chunk = write_list_len(u64::from(page_segments));
        if fits(BARE_HEADER.saturating_add(chunk), rest, threshold) {
            return Ok((ReplyMode::WriteChunk, allow(limits, page_segments)?, chunk));
        }
    }
    let count =
        page_segments.saturating_add(segments(limits, rest, call.recv_kvecs().clamp(1, 2))?);
    let chunk = reply_chunk_len(u64::from(count));
    if !fits(BARE_HEADER.saturating_add(chunk), 0, threshold) {
        return Err(PlanError::ReplyHeader);
    }
    Ok((ReplyMode::ReplyChunk, allow(limits, count)?, chunk))
}

/// The mode of the call and the segments of its Read list; `header` is the bytes of its header
/// without that list.
#[inline]
fn plan_call(
    call: &impl Shape,
    limits: &PlanLimits,
    header: u64,
) -> Result<(CallMode, u32), PlanError> {
    let threshold = u64::from(limits.thresholds.call);
    if fits(header, call.send_len(), threshold) {
        return Ok((CallMode::Inline, 0));
    }
    let pages = call.send_pages();
    let rest = call.send_len().checked_sub(pages).ok_or(PlanError::Shape)?;
    let page_segments = segments(limits, pages, 1)?;
    if call.send_eligible() && !call.is_opaque() && pages > 0 {
        let list = read_list_len(u64::from(page_segments));
        if fits(header.saturating_add(list), rest, threshold) {
            return Ok((CallMode::ReadChunk, allow(limits, page_segments)?));
        }
    }
    let count =
        page_segments.saturating_add(segments(limits, rest, call.send_kvecs().clamp(1, 2))?);
    let list = read_list_len(u64::from(count));
    if !fits(header.saturating_add(list), 0, threshold) {
        return Err(PlanError::CallHeader);
    }
    Ok((CallMode::Long, allow(limits, count)?))
}

/// Returns `true` if `payload` bytes behind a header of `header` bytes do not exceed `threshold`.
#[inline(always)]
pub(super) fn fits(header: u64, payload: u32, threshold: u64) -> bool {
    header.saturating_add(u64::from(payload)) <= threshold
}

#[inline]
fn allow(limits: &PlanLimits, segments: u32) -> Result<u32, PlanError> {
    if segments > limits.max_segments {
        Err(PlanError::TooManySegments)
    } else {
        Ok(segments)
    }
}

#[inline]
fn segments(limits: &PlanLimits, bytes: u32, pieces: u32) -> Result<u32, PlanError> {
    let PlanLimits {
        page_size,
        pages_per_segment,
        ..
    } = *limits;
    most_segments(bytes, pieces, page_size, pages_per_segment).ok_or(PlanError::Limits)
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(not(test), ::kernel::macros::kunit_tests(rpcrdma_plan))]
mod tests {
    use super::{
        super::super::{
            private_data::Thresholds,
            vectors::CallShape, //
        },
        *, //
    };

    // V1-45, V1-54, V1-55: equal fits, one byte more does not.
    #[test]
    fn inline() {
        let mut call = shape(send(996, 0, 1), recv(996, 0));
        let inline = Ok((CallMode::Inline, 0, ReplyMode::Inline, 0));
        assert_eq!(modes(&call, &LIMITS), inline);
        assert_eq!(modes(&CallShape::default(), &LIMITS), inline);

        call.send_len = 997;
        let long = |segments| Ok((CallMode::Long, segments, ReplyMode::Inline, 0));
        assert_eq!(modes(&call, &LIMITS), long(1));
        call.send_kvecs = 2;
        assert_eq!(modes(&call, &LIMITS), long(2));

        // The Reply chunk takes 4 + 32 bytes of the call's header.
        let mut call = shape(send(960, 0, 1), recv(997, 0));
        let inline = Ok((CallMode::Inline, 0, ReplyMode::ReplyChunk, 2));
        assert_eq!(modes(&call, &LIMITS), inline);
        call.send_len = 961;
        let long = Ok((CallMode::Long, 1, ReplyMode::ReplyChunk, 2));
        assert_eq!(modes(&call, &LIMITS), long);
        // And 4 + 16 if the reply has no tail.
        call.recv_kvecs = 1;
        call.send_len = 976;
        let inline = Ok((CallMode::Inline, 0, ReplyMode::ReplyChunk, 1));
        assert_eq!(modes(&call, &LIMITS), inline);
    }

    // V1-153: a Write chunk in more pieces than planned needs a longer header of the reply.
    #[test]
    fn more_segments_than_planned() {
        let call = recv(65536 + 940, 65536);
        let chunk = Ok((CallMode::Inline, 0, ReplyMode::WriteChunk, 2));
        assert_eq!(modes(&call, &LIMITS), chunk);
        assert!(reply_fits(&call, &LIMITS, 2) && reply_fits(&call, &LIMITS, 3));
        assert!(!reply_fits(&call, &LIMITS, 4));
    }

    // PD-14..PD-16: each direction has its own threshold.
    #[test]
    fn thresholds() {
        let call = shape(send(4068, 0, 1), recv(8164, 0));
        let found = modes(&call, &with_thresholds(4096, 8192));
        assert_eq!(found, Ok((CallMode::Inline, 0, ReplyMode::Inline, 0)));
        let found = modes(&call, &with_thresholds(8192, 4096));
        assert_eq!(found, Ok((CallMode::Inline, 0, ReplyMode::ReplyChunk, 2)));
        let found = modes(&call, &with_thresholds(4095, 8192));
        assert_eq!(found, Ok((CallMode::Long, 1, ReplyMode::Inline, 0)));
    }

    // V1-46, V1-47, V1-53, V1-59: the page list alone, if it is eligible and the rest fits.
    #[test]
    fn read_chunk() {
        // 16 pages that start inside a page: 2 segments, 48 bytes of Read list.
        let call = send(65536 + 948, 65536, 2);
        let chunk = Ok((CallMode::ReadChunk, 2, ReplyMode::Inline, 0));
        let long = |segments| Ok((CallMode::Long, segments, ReplyMode::Inline, 0));
        assert_eq!(modes(&call, &LIMITS), chunk);
        assert_eq!(modes(&send(65536 + 949, 65536, 2), &LIMITS), long(4));
        let mut unmarked = call;
        unmarked.send_eligible = false;
        assert_eq!(modes(&unmarked, &LIMITS), long(4));
        // A page list that may be in a chunk, but is empty.
        assert_eq!(modes(&send(997, 0, 2), &LIMITS), long(2));
    }

    // V1-55, V1-83, V1-99: the page list alone, if it is eligible and the rest fits.
    #[test]
    fn write_chunk() {
        // 2 segments, 40 bytes of Write list.
        let mut call = shape(send(956, 0, 1), recv(65536 + 956, 65536));
        let inline = Ok((CallMode::Inline, 0, ReplyMode::WriteChunk, 2));
        assert_eq!(modes(&call, &LIMITS), inline);
        call.send_len = 957;
        let long = Ok((CallMode::Long, 1, ReplyMode::WriteChunk, 2));
        assert_eq!(modes(&call, &LIMITS), long);

        let reply_chunk = |segments| Ok((CallMode::Inline, 0, ReplyMode::ReplyChunk, segments));
        let mut call = recv(65536 + 957, 65536);
        assert_eq!(modes(&call, &LIMITS), reply_chunk(4));
        call = recv(65536 + 956, 65536);
        call.recv_eligible = false;
        assert_eq!(modes(&call, &LIMITS), reply_chunk(4));
        assert_eq!(modes(&recv(997, 0), &LIMITS), reply_chunk(2));
    }

    // V1-136, V1-138: nothing is taken out of a protected payload, but it may be moved as a whole.
    #[test]
    fn opaque() {
        let mut call = shape(send(65636, 65536, 2), recv(65636, 65536));
        let reduced = Ok((CallMode::ReadChunk, 2, ReplyMode::WriteChunk, 2));
        assert_eq!(modes(&call, &LIMITS), reduced);
        call.opaque = true;
        let whole = Ok((CallMode::Long, 4, ReplyMode::ReplyChunk, 4));
        assert_eq!(modes(&call, &LIMITS), whole);
        call = shape(send(900, 800, 2), recv(900, 800));
        call.opaque = true;
        let inline = Ok((CallMode::Inline, 0, ReplyMode::Inline, 0));
        assert_eq!(modes(&call, &LIMITS), inline);
    }

    // V1-153: calls with too many segments, and with headers that do not fit.
    #[test]
    fn large_calls() {
        // 39 pages anywhere touch 40, and one byte more is in a segment of its own.
        let mut call = send(39 * 4096 + 1, 39 * 4096, 1);
        call.send_eligible = false;
        let long = Ok((CallMode::Long, 41, ReplyMode::Inline, 0));
        assert_eq!(modes(&call, &with_segments(1, 41)), long);
        let found = modes(&call, &with_segments(1, 40));
        assert_eq!(found, Err(PlanError::TooManySegments));
        // 42 segments are 1008 bytes of Read list.
        call = send(40 * 4096 + 1, 40 * 4096, 1);
        call.send_eligible = false;
        let found = modes(&call, &with_segments(1, 100));
        assert_eq!(found, Err(PlanError::CallHeader));
        // The same limits for a Read chunk.
        let call = send(65536 + 1, 65536, 1);
        let chunk = Ok((CallMode::ReadChunk, 2, ReplyMode::Inline, 0));
        assert_eq!(modes(&call, &with_segments(16, 2)), chunk);
        let found = modes(&call, &with_segments(16, 1));
        assert_eq!(found, Err(PlanError::TooManySegments));
    }

    // V1-153: replies with too many segments, and with headers that do not fit.
    #[test]
    fn large_replies() {
        // 62 segments are 996 bytes of Reply chunk; they leave no room for a call.
        let mut call = recv(60 * 4096 + 1, 60 * 4096);
        call.recv_eligible = false;
        let whole = Ok((CallMode::Inline, 0, ReplyMode::ReplyChunk, 62));
        assert_eq!(modes(&call, &with_segments(1, 62)), whole);
        let found = modes(&call, &with_segments(1, 61));
        assert_eq!(found, Err(PlanError::TooManySegments));
        call.send_len = 1;
        let found = modes(&call, &with_segments(1, 62));
        assert_eq!(found, Err(PlanError::CallHeader));
        call = recv(61 * 4096 + 1, 61 * 4096);
        call.recv_eligible = false;
        let found = modes(&call, &with_segments(1, 100));
        assert_eq!(found, Err(PlanError::ReplyHeader));
        // The same limits for a Write chunk.
        let call = recv(65536 + 1, 65536);
        let chunk = Ok((CallMode::Inline, 0, ReplyMode::WriteChunk, 2));
        assert_eq!(modes(&call, &with_segments(16, 2)), chunk);
        let found = modes(&call, &with_segments(16, 1));
        assert_eq!(found, Err(PlanError::TooManySegments));
    }

    // V1-153, PD-50: thresholds below any header; shapes and limits that make no sense.
    #[test]
    fn nonsense() {
        let call = shape(send(10, 0, 1), recv(10, 0));
        let found = modes(&call, &with_thresholds(27, 1024));
        assert_eq!(found, Err(PlanError::CallHeader));
        let found = modes(&call, &with_thresholds(1024, 27));
        assert_eq!(found, Err(PlanError::ReplyHeader));
        let found = modes(&call, &with_thresholds(0, 0));
        assert_eq!(found, Err(PlanError::ReplyHeader));

        let shape = Err(PlanError::Shape);
        assert_eq!(modes(&send(2000, 2001, 1), &LIMITS), shape);
        assert_eq!(modes(&recv(2000, 2001), &LIMITS), shape);

        let call = send(2000, 0, 1);
        let found = modes(&call, &with_segments(0, 16));
        assert_eq!(found, Err(PlanError::Limits));
        let mut limits = LIMITS;
        limits.page_size = 0;
        assert_eq!(modes(&call, &limits), Err(PlanError::Limits));
    }

    // V1-153: the largest possible numbers.
    #[test]
    fn largest() {
        let call = shape(send(u32::MAX, u32::MAX, u32::MAX), recv(u32::MAX, u32::MAX));
        let mut limits = with_segments(1, u32::MAX);
        assert_eq!(modes(&call, &limits), Err(PlanError::ReplyHeader));
        limits.page_size = 2;
        assert_eq!(modes(&call, &limits), Err(PlanError::ReplyHeader));
        limits = with_segments(u32::MAX, 1);
        limits.page_size = 1 << 31;
        let reduced = Ok((CallMode::ReadChunk, 1, ReplyMode::WriteChunk, 1));
        assert_eq!(modes(&call, &limits), reduced);
    }

    const LIMITS: PlanLimits = PlanLimits {
        thresholds: Thresholds {
            call: 1024,
            reply: 1024,
        },
        page_size: 4096,
        pages_per_segment: 16,
        max_segments: 16,
    };

    fn with_thresholds(call: u32, reply: u32) -> PlanLimits {
        PlanLimits {
            thresholds: Thresholds { call, reply },
            ..LIMITS
        }
    }

    fn with_segments(pages_per_segment: u32, max_segments: u32) -> PlanLimits {
        PlanLimits {
            pages_per_segment,
            max_segments,
            ..LIMITS
        }
    }

    // A call whose reply is empty.
    fn send(len: u32, pages: u32, kvecs: u32) -> CallShape {
        CallShape {
            send_len: len,
            send_pages: pages,
            send_kvecs: kvecs,
            send_eligible: true,
            ..CallShape::default()
        }
    }

    // An empty call with such a reply.
    fn recv(max: u32, pages: u32) -> CallShape {
        CallShape {
            recv_max: max,
            recv_pages: pages,
            recv_kvecs: 2,
            recv_eligible: true,
            ..CallShape::default()
        }
    }

    fn shape(send: CallShape, recv: CallShape) -> CallShape {
        CallShape {
            send_len: send.send_len,
            send_pages: send.send_pages,
            send_kvecs: send.send_kvecs,
            send_eligible: send.send_eligible,
            ..recv
        }
    }

    fn modes(
        call: &CallShape,
        limits: &PlanLimits,
    ) -> Result<(CallMode, u32, ReplyMode, u32), PlanError> {
        let plan = plan(call, limits)?;
        let Plan {
            call_segments,
            reply_segments,
            ..
        } = plan;
        Ok((plan.call, call_segments, plan.reply, reply_segments))
    }
}
