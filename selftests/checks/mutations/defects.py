# SPDX-License-Identifier: GPL-2.0
"""The defects: each breaks one rule, and names the tests that have to find it.

A defect is a set of edits. The text that an edit replaces stands exactly once in src, in any file, so that code may move
without a change here; `python3 -m mutations --check`, which lint runs, fails when it does not.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Defect:
    """`broken` are requirements and hazards; `found_by` is a pattern of VM tests, one of which must fail, or HOST."""

    name: str
    broken: str
    found_by: str
    edits: tuple[tuple[str, str], ...]


HOST = ""

DATA = "test_real_dma"

NO_CLAMP = (("wire.clamp(1, requested.max(1))", "wire.max(1).max(requested & 0)"),)

PROTOCOL = (
    Defect(
        "inline sizes are encoded one too large",
        "PD-9",
        HOST,
        (("u8::try_from(code).unwrap_or(u8::MAX)", "u8::try_from(units).unwrap_or(u8::MAX)"),),
    ),
    Defect(
        "a grant is not clamped to the request",
        "V1-29",
        HOST,
        NO_CLAMP,
    ),
    Defect(
        "a reply counts whatever connection it came on",
        "H-30",
        HOST,
        (
            (
                "} if *of == generation => {\n                let exposed = exposed.take();",
                "} if *of == generation || generation != 0 => {\n                let exposed = exposed.take();",
            ),
        ),
    ),
    Defect(
        "a segment may be longer than offered",
        "V1-92",
        HOST,
        (
            (
                "        if returned.length > offered.length {\n            return Err(Malformed::TooLong);\n        }\n",
                "",
            ),
        ),
    ),
    Defect(
        "an old reply is left in memory that a kept registration offers",
        "H-23",
        "test_hostile_server: a Reply chunk that was not written, of",
        (("            call.forget_old_reply();\n            let (mrs, region)", "            let (mrs, region)"),),
    ),
    Defect(
        "an old reply is left in memory of any other call",
        "H-23",
        "test_hostile_server: a Reply chunk that was not written, segments",
        (
            (
                "            call.forget_old_reply();\n        }\n        let mut lists",
                "        }\n        let mut lists",
            ),
        ),
    ),
    Defect(
        "padding of a Read chunk goes inline",
        "V1-74",
        "test_transfer_modes: Read chunk",
        ((".get(pad_of(self.0.page_len) as usize..)", ".get(0 * pad_of(self.0.page_len) as usize..)"),),
    ),
    Defect(
        "a bad reply is not reported",
        "V1-101",
        "test_hostile_server: the call fails: reply with reply-chunk",
        (
            (
                "        if let Err(Some(why)) = outcome {\n            report(&connection.shared, xid, why);\n        }\n",
                "",
            ),
        ),
    ),
    Defect(
        "a foreign handle passes for one of the call's",
        "H-30 PD-30",
        "test_hostile_server: remote invalidation of a handle of another call, for a call with one of its own",
        (
            (
                "        let handle = handle.get();\n",
                "        let mut handle = handle.get();\n"
                "        if self.chain.iter().all(|mr| mr.handle() != handle) {\n"
                "            handle = self.chain.head().handle();\n        }\n",
            ),
        ),
    ),
)

CREDITS = (
    Defect(
        "a connection makes no more buffers",
        "V1-33",
        "Receives that came back are used before more are made",
        (
            (
                "if self.wants(kind).xchg(false, Acquire) {",
                "if self.wants(kind).xchg(false, Acquire) && kind != Kind::Buffers {",
            ),
        ),
    ),
    Defect(
        "the peer's grant is followed beyond the request",
        "V1-29",
        "credits 0xffffffff: no more calls than asked leave for",
        NO_CLAMP,
    ),
    Defect(
        "a small device is asked for as many credits as others",
        "V1-27",
        "a small device: no more calls than asked leave for",
        (
            (
                "        credits: made.credits,",
                "        credits: wants.credits.max(made.credits),",
            ),
        ),
    ),
    Defect(
        "a grant never falls",
        "V1-30",
        "the grant falls below the calls in flight",
        (
            (
                "let granted = credits::grant(wire, requested);",
                "let granted = credits::grant(wire, requested).max(self.grant.load(Relaxed));",
            ),
        ),
    ),
    Defect(
        "a new connection has all credits at once",
        "V1-31 V1-32",
        "a new connection has one credit",
        (
            ("self.store_window(&lock, 1);", "self.store_window(&lock, 128);"),
            ("grant: Atomic::new(1),", "grant: Atomic::new(128),"),
        ),
    ),
    Defect(
        "the credit of an abandoned call is free at once",
        "V1-41",
        "an abandoned call keeps its credit",
        (("granted.saturating_sub(abandoned).max(1)", "granted.saturating_sub(abandoned & 0).max(1)"),),
    ),
    Defect(
        "a reverse reply waits for a credit",
        "BI-2 H-74",
        "test_reverse: a reverse call gets through when all credits are in use",
        (("rqst.rq_cong = 1;", "rqst.rq_cong = 0;"),),
    ),
    Defect(
        "reverse calls that cannot be refused at once are forgotten",
        "V1-121 BI-30",
        "many reverse calls with chunks at once",
        (("Some(Ok(false)) => connection.lost(CloseReason::NotRefused),", "Some(Ok(false)) => {}"),),
    ),
    Defect(
        "a server that hangs up is connected to again at once",
        "V1-122",
        "a server that hangs up after each reply",
        (("        pause.saturating_sub(since)\n", "        pause.saturating_sub(since) & 0\n"),),
    ),
    Defect(
        "a call that has its reply does not time out",
        "V1-123",
        "a verifier that cannot be checked",
        (
            (
                "let cookie = (*self.rqst).rq_connect_cookie;",
                "if Slot::<T::Slot>::of(self.rqst).is_completed() {\n                    return;\n                }\n"
                "                let cookie = (*self.rqst).rq_connect_cookie;",
            ),
        ),
    ),
    Defect(
        "a call whose memory cannot be mapped is tried again for ever",
        "V1-110 H-37",
        "memory that can never be mapped",
        (("now.wrapping_sub(first) >= second.saturating_mul(LIMIT_SECS)", "now < first && second == LIMIT_SECS"),),
    ),
    Defect(
        "a call whose memory cannot be mapped stays at the head of the queue",
        "H-74",
        "memory that can never be mapped",
        (
            (
                "            bindings::list_move_before(&raw mut (*rqst).rq_xmit, &raw mut (*xprt).xmit_queue);\n",
                "",
            ),
        ),
    ),
    Defect(
        "a header error counts as the reply to the first call",
        "V1-123",
        "the call that begins a connection is refused",
        (
            (
                "// A server that refuses a call that does nothing would refuse all others.\n        if connection.attempt.is_probing()",
                "if xid == 0 && connection.attempt.is_probing()",
            ),
        ),
    ),
    Defect(
        "a reverse call with credits 0 is not served",
        "BI-6",
        "a reverse call with credits 0",
        (("stats.reverse_zero_grants.inc();", "return stats.reverse_zero_grants.inc();"),),
    ),
    Defect(
        "a sender that waits has looked for what it lacks before it is marked",
        "H-74",
        HOST,
        (
            (
                "        // First, so that growth that fails finds the mark, and is tried again.\n",
                "        let found = retry();\n",
            ),
            ("        smp_mb(); // of a waiter\n        retry()\n", "        found\n"),
        ),
    ),
    Defect(
        "the transport stays congested when a task was queued",
        "H-10",
        "4 slots, many users",
        (("    unsafe { bindings::xprt_clear_congested(xprt) };\n", ""),),
    ),
)

CONNECTION = (
    Defect(
        "a device without local invalidation is taken",
        "PD-27",
        "test_refusals: no mount over a device without local invalidation",
        (("if pages == 0 || !device.mem_mgt_extensions {", "if pages == 0 {"),),
    ),
    Defect(
        "Receives that a device has kept are not freed with its queue pair",
        "V1-122",
        "test_refusals: a queue pair that the device does not move",
        (
            (
                "        if is_gone {\n            // SAFETY: The queue pair is destroyed",
                "        if is_gone && !self.destroyed.load(Relaxed) {\n            // SAFETY: The queue pair is destroyed",
            ),
            (
                '        } else {\n            pr_err!(\n                "{}: cannot destroy',
                '        } else if !is_gone {\n            pr_err!(\n                "{}: cannot destroy',
            ),
        ),
    ),
    Defect(
        "an error is a good reply to the call that begins a connection",
        "V1-123",
        "test_hostile_server: the call that begins a connection is refused",
        (("attempt.is_probing() && self.probe_failed(xid) {", "attempt.is_probing() && self.probed(xid, 1) {"),),
    ),
    Defect(
        "a server is accused of calls of the connections before",
        "BI-36",
        HOST,
        (
            (
                "                generation,\n                slots: 0,\n            };\n        }\n        self.slots",
                "                generation,\n                slots: self.slots,\n            };\n        }\n        self.slots",
            ),
        ),
    ),
    Defect(
        "replies to unknown calls are endured for ever",
        "V1-113",
        "replies to 1100 unknown calls",
        (
            (
                "self.unknown_left.store(left.saturating_sub(1), Relaxed);",
                "self.unknown_left.store(left.max(1), Relaxed);",
            ),
        ),
    ),
    Defect(
        "the parameters of the first connection hold for all",
        "PD-19",
        "a new connection is a new exchange",
        (
            (
                "let own = policy.own();",
                "static FIRST: ::kernel::sync::SetOnce<crate::proto::PrivateData> = ::kernel::sync::SetOnce::new();\n"
                "    FIRST.populate(policy.own());\n"
                "    let own = FIRST.as_ref().copied().unwrap_or_default();",
            ),
        ),
    ),
    Defect(
        "the private data of a reject passes for that of the accept",
        "PD-46",
        "a new connection is a new exchange",
        (
            (
                "bindings::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => Event::Rejected(Reject::of(status)),",
                "bindings::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => {\n"
                "            // SAFETY: Not at all.\n"
                "            unsafe {\n"
                "                let conn = (*event).param.conn.as_ref();\n"
                "                if conn.private_data_len >= 8 {\n"
                "                    SAID = *conn.private_data.cast::<[u8; 8]>();\n"
                "                }\n"
                "            }\n"
                "            Event::Rejected(Reject::of(status))\n"
                "        }",
            ),
            (
                "            Event::Established(unsafe { private_data(event) })",
                "            Event::Established(if unsafe { SAID[0] } != 0 {\n"
                "                unsafe { &*(&raw const SAID) }\n"
                "            } else {\n"
                "                unsafe { private_data(event) }\n"
                "            })",
            ),
            (
                'unsafe extern "C" fn event_callback<',
                'static mut SAID: [u8; 8] = [0; 8];\nunsafe extern "C" fn event_callback<',
            ),
        ),
    ),
    Defect(
        "an RDMA_ERROR ends the connection",
        "V1-119",
        "calls that are too large, among others",
        (
            (
                "connection.shared.stats.count_error(error);\n",
                "connection.shared.stats.count_error(error);\n        connection.lost(CloseReason::HungUp);\n",
            ),
        ),
    ),
)

MEMORY = (
    Defect(
        "chunks of odd sizes have room for padding",
        "V1-77 V1-97",
        "chunks of odd sizes have no room for padding",
        (
            (
                "    } = region;\n\n    Segment {\n        handle,\n        length,",
                "    } = region;\n\n    Segment {\n        handle,\n        length: (length + 3) & !3,",
            ),
        ),
    ),
    Defect(
        "a call ends before its invalidation does",
        "V1-126 H-31",
        "a call ends after its local invalidation, replied",
        (
            (
                "Some(mrs) => connection.invalidate(self.hold(found.into_pinned(), delivery), mrs),",
                "Some(mrs) => {\n"
                "                let _ = connection.post_invalidation(mrs, usize::MAX, || ());\n"
                "                connection.complete(found, delivery, self.buf.message());\n"
                "                self.recycle();\n            }",
            ),
        ),
    ),
    Defect(
        "a killed call ends before its invalidation does",
        "V1-126 H-31",
        "a call ends after its local invalidation, killed",
        (
            (
                "            && request\n                .released\n                .wait(secs_to_jiffies(INVALIDATE_LIMIT_SECS))\n",
                "",
            ),
            (
                "if !request.state.lock().call.is_releasing() {",
                "request.state.lock().call.released();\n            if posted.is_ok() {",
            ),
        ),
    ),
    Defect(
        "a killed call waits for ever for its invalidation",
        "V1-128 H-31",
        "a killed call does not wait for its local invalidation for ever",
        (("Ok(true) => self.watch(),", "Ok(true) => {}"),),
    ),
    Defect(
        "an invalidation that is complete counts as overdue",
        "V1-128 H-31",
        "a killed call does not wait for its local invalidation for ever",
        (("self.completed.load(Relaxed).wrapping_add(1)", "self.completed.load(Relaxed)"),),
    ),
    Defect(
        "segments that came back with other handles pass unseen",
        "V1-93",
        "test_reply_fields",
        (("        if checked.renamed {", "        if checked.renamed && checked.placed == Placed::Inline {"),),
    ),
)


def swapped(what: str, before: str, direction: str) -> Defect:
    """The direction of a mapping is the other one. `before` is the text in front of it."""
    right, wrong = (
        f"{before}bindings::RPCRDMA_RS_DMA_{to}_DEVICE" for to in sorted(("TO", "FROM"), key=lambda to: to != direction)
    )
    return Defect(f"the direction of {what} is swapped", "H-95", DATA, ((right, wrong),))


REAL_DMA = (
    Defect(
        "a Send is not synchronised for the device",
        "H-95",
        DATA,
        (("inner.buf.sync_for_device(len as usize);", "let _ = len;"),),
    ),
    Defect(
        "a Receive is not synchronised for the device",
        "H-95",
        DATA,
        (("inner.buf.sync_for_device(inner.buf.place.size);", ""),),
    ),
    Defect(
        "a Receive is not synchronised for the processor",
        "H-95",
        DATA,
        (("inner.buf.sync_for_cpu(len);", ""),),
    ),
    Defect(
        "a list keeps the mark of an earlier mapping",
        "H-95",
        DATA,
        (("first.dma_flags = 0;", "first.dma_flags |= 0;"),),
    ),
    Defect(
        "pages that do not follow each other are taken for a run",
        "V1-127",
        DATA,
        (("    page == first.wrapping_add(by)\n", "    page == first.wrapping_add(by) || by != 0\n"),),
    ),
    swapped("a Send", "place, mem, ", "TO"),
    swapped("a Receive", "place, mem, ", "FROM"),
    swapped("a Read chunk", "Access::RemoteRead => ", "TO"),
    swapped("Write and Reply chunks", "Access::RemoteWrite => ", "FROM"),
    Defect(
        "memory whose addresses have gaps is tried again for ever",
        "H-37",
        "test_real_dma: real DMA: bounce buffers, files of 3",
        (("NotMapped::Gap(if mapped", "NotMapped::Gap(if true { return Err(NotMapped::Refused) } else if mapped"),),
    ),
    Defect(
        "the second part of memory in parts begins with the first",
        "H-37",
        "test_real_dma: real DMA: bounce buffers, files of 3",
        (("rest.sg.iter_mut().zip(others)", "rest.sg.iter_mut().zip(entries)"),),
    ),
    Defect(
        "chunks stay mapped",
        "H-95 V1-127",
        DATA,
        (
            (
                "fn unmap(&mut self) {\n        if self.nents != 0 {",
                "fn unmap(&mut self) {\n        if self.nents == c_int::MAX {",
            ),
        ),
    ),
)


def of_responder(name: str, broken: str, old: str, new: str) -> Defect:
    """A defect of the responder's decisions."""
    return Defect(name, broken, HOST, ((old, new),))


RESPONDER = (
    of_responder(
        "a reply in the reverse direction is rejected",
        "BI-29",
        "matches!(Reader::new(payload).words(), Some([_, rpc::REPLY]))",
        "matches!(Reader::new(payload).words(), Some([0, rpc::REPLY]))",
    ),
    of_responder(
        "RDMA_DONE gets an error",
        "V1-116",
        "} => Received::Drop(Reason::Done),",
        "} => Received::bad_header(0, VERSION, Defect::Done),",
    ),
    of_responder(
        "an undecodable error gets an error",
        "V1-105 V1-114",
        "DecodeError::UndecodableError { .. } => Received::Drop(Reason::UndecodableError),",
        "DecodeError::UndecodableError { .. } => Received::bad_header(0, VERSION, Defect::Type),",
    ),
    of_responder(
        "a reply in the reverse direction may have chunks",
        "BI-24",
        "if !chunks.is_empty() || rpc::direction(xid, payload).is_err() {",
        "if rpc::direction(xid, payload).is_err() {",
    ),
    of_responder(
        "any direction is that of a call",
        "V1-107",
        "if rpc::direction(xid, payload)? != rpc::CALL {",
        "if rpc::direction(xid, payload)? == u32::MAX {",
    ),
    of_responder(
        "positions need no alignment",
        "V1-79",
        "if read.position % 4 != 0 || (payload.is_some() && read.position == 0) {",
        "if payload.is_some() && read.position == 0 {",
    ),
    of_responder(
        "position 0 may be in front of an inline call",
        "V1-79",
        "if read.position % 4 != 0 || (payload.is_some() && read.position == 0) {",
        "if read.position % 4 != 0 {",
    ),
    of_responder(
        "segments that are read may wrap",
        "V1-79",
        "if read.segment.wraps() {",
        "if read.segment.wraps() && payload.is_none() {",
    ),
    of_responder(
        "segments that are written may wrap",
        "V1-79",
        ".any(|s| s.wraps())",
        ".any(|s| s.wraps() && s.handle == 0)",
    ),
    of_responder(
        "a Long call needs no chunk at position 0",
        "V1-107",
        "if payload.is_none() && !chunks.read.segments().any(|read| read.position == 0) {",
        "if payload.is_none() && chunks.read.len() == usize::MAX {",
    ),
    of_responder(
        "segments of length 0 count",
        "V1-80",
        "if len == 0 {\n                continue;\n            }",
        "if len == u32::MAX {\n                continue;\n            }",
    ),
    of_responder(
        "any number of segments is read",
        "V1-19",
        "if plan.segments >= limits.segments {",
        "if plan.segments == u32::MAX {",
    ),
    of_responder(
        "the length of a chunk wraps",
        "V1-79",
        "*sum = sum.checked_add(len).ok_or(Defect::TooLong)?;",
        "*sum = sum.wrapping_add(len);",
    ),
    of_responder(
        "chunks may overlap",
        "V1-79",
        "let gap = position.checked_sub(end).ok_or(Defect::Position)?;",
        "let gap = position.saturating_sub(end);",
    ),
    of_responder(
        "a position may be past the payload",
        "V1-79",
        "left = left.checked_sub(gap).ok_or(Defect::Position)?;",
        "left = left.saturating_sub(gap);",
    ),
    of_responder(
        "a chunk may replace the direction",
        "V1-79",
        "if position < START {",
        "if position < 4 {",
    ),
    of_responder(
        "a chunk ends without its padding",
        "V1-76",
        "end = position.saturating_add(padded(chunk.len));",
        "end = position.saturating_add(chunk.len.into());",
    ),
    of_responder(
        "arguments may be a little too long",
        "V1-79",
        "Ok(len) if len <= most => Ok(len),",
        "Ok(len) if len <= most.saturating_add(4) => Ok(len),",
    ),
    of_responder(
        "a Long call may be too short",
        "V1-17",
        "if self.long && u64::from(self.body) < START {",
        "if self.long && self.body == 0 {",
    ),
    of_responder(
        "padding to a multiple of 2",
        "V1-76",
        "len.wrapping_neg() % 4",
        "len.wrapping_neg() % 2",
    ),
    of_responder(
        "every chunk has all segments",
        "V1-73",
        ".filter(move |read| chunk == Some(read.position))",
        ".filter(move |_| chunk.is_some())",
    ),
    of_responder(
        "a segment that is cut is read from its start",
        "V1-73",
        "offset: segment.offset.wrapping_add(u64::from(skipped)),",
        "offset: segment.offset,",
    ),
    of_responder(
        "a Long call gets no padding",
        "V1-76",
        "padding: if over && plan.long { padding(len) } else { 0 },",
        "padding: 0,",
    ),
    of_responder(
        "any number of Write chunks is taken",
        "V1-19",
        "if offer.write.len() > limits.chunks || segments > limits.segments {",
        "if segments > limits.segments {",
    ),
    of_responder(
        "each segment returns the length of all",
        "V1-87",
        "let length = segment.length.min(left);",
        "let length = segment.length.min(len);",
    ),
    of_responder(
        "a Write chunk without room takes no result",
        "V1-98",
        ".filter(|(result, chunk)| result.len != 0 && room(*chunk) != 0)",
        ".filter(|(result, _)| result.len != 0)",
    ),
    of_responder(
        "a result may be longer than its chunk",
        "V1-56",
        ".any(|(result, chunk)| u64::from(result.len) > room(chunk))",
        ".any(|(result, chunk)| u64::from(result.len) > room(chunk).saturating_add(4096))",
    ),
    of_responder(
        "the header does not count",
        "V1-14 V1-54",
        "if plan.message_len() > u64::from(limits.threshold) {",
        "if u64::from(plan.rest) > u64::from(limits.threshold) {",
    ),
    of_responder(
        "a Reply chunk takes any reply",
        "V1-56",
        "if u64::from(self.rest) > room || self.message_len() > u64::from(threshold) {",
        "if self.message_len() > u64::from(threshold) {",
    ),
    of_responder(
        "the header of a Long reply takes any room",
        "V1-14",
        "if u64::from(self.rest) > room || self.message_len() > u64::from(threshold) {",
        "if u64::from(self.rest) > room {",
    ),
    of_responder(
        "a Long reply always uses its Write chunks",
        "V1-50",
        "if u64::from(self.shape.len) <= room {",
        "if room == u64::MAX {",
    ),
    of_responder(
        "a reply takes any number of RDMA Writes",
        "V1-56",
        "if plan.most_writes > limits.writes {",
        "if plan.most_writes == u32::MAX {",
    ),
    of_responder(
        "results leave an opaque reply",
        "V1-138",
        "let results = if self.reduced && !self.shape.opaque {",
        "let results = if self.reduced {",
    ),
    of_responder(
        "results leave the payload without a place",
        "V1-98",
        ".filter(|(result, chunk)| result.len != 0 && room(*chunk) != 0)",
        ".filter(|(result, _)| result.len != 0)",
    ),
    of_responder(
        "the padding of a result stays",
        "V1-96",
        "self.at.checked_add(self.len)?.checked_next_multiple_of(4)",
        "self.at.checked_add(self.len)",
    ),
    of_responder(
        "results may overlap",
        "V1-130",
        "if result.at < end || result_end > self.len {",
        "if result_end > self.len {",
    ),
    of_responder(
        "results may be outside the reply",
        "V1-130",
        "if result.at < end || result_end > self.len {",
        "if result.at < end {",
    ),
    of_responder(
        "an unused Reply chunk returns lengths",
        "V1-101",
        "        if self.long {\n            self.rest\n        } else {\n            0\n        }\n",
        "        self.rest\n",
    ),
    of_responder(
        "an unused Write chunk returns lengths",
        "V1-94",
        "if !self.reduced || self.shape.opaque || room(chunk) == 0 {",
        "if self.shape.opaque || room(chunk) == 0 {",
    ),
    of_responder(
        "each part of a Long reply is written to the start",
        "V1-87",
        "each_segment(chunk, before, part, &mut visit)?;",
        "each_segment(chunk, before & 0, part, &mut visit)?;",
    ),
    of_responder(
        "a segment is written from its start",
        "V1-87",
        "offset: segment.offset.wrapping_add(skipped),",
        "offset: segment.offset,",
    ),
    of_responder(
        "a chunk of no segments has no length",
        "V1-14 V1-98",
        "0 => 8,",
        "0 => 0,",
    ),
    of_responder(
        "one end allows remote invalidation",
        "PD-24",
        "if own.remote_invalidation && peer.remote_invalidation {",
        "if peer.remote_invalidation {",
    ),
    of_responder(
        "one handle of several is invalidated",
        "PD-32",
        "(handles.all(|handle| handle == first) && permitted.permits(first)).then_some(first)",
        "permitted.permits(first).then_some(first)",
    ),
    of_responder(
        "nothing is granted",
        "V1-24",
        ".min(requested)\n        .min(most)\n        .max(1)",
        ".min(requested)\n        .min(most)",
    ),
    of_responder(
        "Receives for other messages are granted",
        "V1-34 BI-13",
        "        .saturating_sub(reverse)\n        .saturating_sub(SPARE)\n",
        "",
    ),
)

SERVER = (
    Defect(
        "a connection grows by the credit that it has before its first reply",
        "V1-34",
        "test_server_sizes: a connection with few calls",
        (
            (
                "self.granted().max(self.possible(requested, most))",
                "self.granted().max(self.possible(requested, most) & 0)",
            ),
        ),
    ),
    Defect(
        "Receives that the device refuses are forgotten",
        "V1-121",
        "test_server_faults: post_recv 1 refused: Receives",
        (
            (
                "            posted\n        });\n        if let Some(Err(error)) = posted {\n            self.post_failed(error);\n",
                "            posted\n        });\n        if let Some(Err(error)) = posted {\n            let _ = error;\n",
            ),
        ),
    ),
    Defect(
        "a message that the device refuses does not end the connection",
        "V1-121",
        "test_server_faults: post_send 1 refused: an inline",
        (
            (
                "            Err(Unsent::Device) => self.lost(CloseReason::PostRefused),\n",
                "            Err(Unsent::Device) => (),\n",
            ),
        ),
    ),
    Defect(
        "a reply is sent as far as nfsd has counted its pages",
        "V1-136",
        "krb5i, vers=4.2, server ours",
        ((".unwrap_or(0).max(end as usize)", ".unwrap_or(0).max(end as usize & 0)"),),
    ),
    Defect(
        "a call that comes before its connection is known is not looked for again",
        "H-104",
        HOST,
        (("        self.made(ask);\n", "        drop(ask);\n"),),
    ),
    Defect(
        "a thread keeps all pages of its reply",
        "H-151",
        "test_server: files stay",
        (
            (
                "if rqst.rq_next_page == rqst.rq_respages.wrapping_add(1) {",
                "if rqst.rq_next_page >= rqst.rq_respages.wrapping_add(1) {",
            ),
        ),
    ),
    Defect(
        "a thread keeps the pages that the device reads for its reply",
        "H-121",
        "test_server: files stay",
        (
            (
                "let page = core::mem::replace(&mut *place, null_mut());",
                "let page = *place;\n                bindings::page_get(page);\n"
                "                (*self.raw.as_ptr()).rq_next_page = (*self.raw.as_ptr()).rq_respages;",
            ),
        ),
    ),
    Defect(
        "room in the send queue never comes back",
        "H-125",
        HOST,
        (("self.budget.left.fetch_add(self.count, Release);", "self.budget.left.fetch_add(0, Release);"),),
    ),
    Defect(
        "a thread keeps the connection to itself",
        "H-113",
        "test_server: many calls",
        (
            (
                "unsafe { bindings::svc_xprt_received(xprt) };\n        let (Some(connection), Some(item))",
                "let _ = xprt;\n        let (Some(connection), Some(item))",
            ),
        ),
    ),
    Defect(
        "a call that comes with the last one taken is overlooked",
        "H-114",
        "test_server: many calls",
        (("        if queue.is_empty() {\n            xprt.clear", "        if true {\n            xprt.clear"),),
    ),
    Defect(
        "replies are as long as the server can send",
        "PD-15",
        "test_server_sizes: private data of the request: none",
        (("Thresholds::for_server(&data, &self.peer())", "Thresholds::for_server(&data, &data)"),),
    ),
    Defect(
        "the server announces an invalidation that its device does not do",
        "PD-28",
        "test_server_sizes: a device",
        (("&= request.device().limits().mem_mgt_extensions;", "&= request.device().limits().max_wr != 0;"),),
    ),
    Defect(
        "a call that has ended a connection ends the next one",
        "V1-118",
        "test_hostile_client: memory",
        (("        self.calls.lock().record(client, xid);\n", "        let _ = (client, xid);\n"),),
    ),
    Defect(
        "a call whose memory cannot be mapped ends each connection",
        "V1-118",
        "test_server_faults: map_mr_sg refused twice",
        (("error == EIO && self.calls.is_un", "error == ENOMEM && self.calls.is_un"),),
    ),
    Defect(
        "memory of the server shows where padding is missing",
        "V1-76",
        "test_served_calls: arguments",
        (("this.pages.zero(piece.at, piece.len)?", "this.pages.zero(piece.at, piece.len & 0)?"),),
    ),
    Defect(
        "arguments of calls take as much memory as they like",
        "H-139",
        "test_storms: arguments",
        (
            ("        account.take(bytes).ok()?;\n", "        let _ = account.take(bytes);\n"),
            (
                "        if most.saturating_sub(taken.saturating_add(bytes)) < held {",
                "        if most == 0 && taken < held {",
            ),
        ),
    ),
    Defect(
        "a connection leaves no memory to others",
        "H-139",
        "test_storms: arguments",
        (("        let held = held.saturating_add(bytes);\n", "        let held = held.min(bytes);\n"),),
    ),
    Defect(
        "a call that waits for memory of another is forgotten",
        "V1-121",
        "test_storms: arguments",
        (
            (
                "        let bytes = bytes(self.waiting.first()?);\n",
                "        let bytes = bytes(self.waiting.first()?).max(2 * self.most);\n",
            ),
        ),
    ),
    Defect(
        "the server calls as often as it likes before the first reply",
        "BI-9",
        "test_callbacks: three recalls at a time",
        (("        callbacks.set_credits(1);\n", "        callbacks.set_credits(MOST_CALLBACKS);\n"),),
    ),
)


# Version 2 and its characteristics.
VERSION_2 = (
    Defect(
        "messages of version 2 are planned with the header of version 1",
        "V2-31",
        HOST,
        (("const DIRECTION: u32 = 4;", "const DIRECTION: u32 = 0;"),),
    ),
    Defect(
        "a message with a defect fixes the version",
        "V2-68",
        HOST,
        (("Action::BadHeader => (None, received),", "Action::BadHeader => (Some(wire), received),"),),
    ),
    Defect(
        "what a response does not name is done",
        "XC-50",
        HOST,
        (
            (
                "Disposition::Rejected | Disposition::Unclear => &mut rej,",
                "Disposition::Rejected | Disposition::Unclear => &mut done,",
            ),
        ),
    ),
    Defect(
        "a server that refuses version 2 is offered it again",
        "V2-71",
        "test_version_2: the first answer: range-1-1",
        (("progress.note = outcome.note.or(progress.note);", "progress.note = None;"),),
    ),
    Defect(
        "messages of version 2 are as short as those of version 1",
        "V2-22",
        "test_version_2: a peer without private data",
        (("                call: told.call,\n", "                call: told.call.min(1024),\n"),),
    ),
    Defect(
        "the first answer in version 2 is as long as any",
        "V2-61",
        "test_version_2: a long first message",
        (("        if self.replied.load(Relaxed) {\n            u32::MAX", "        if true {\n            u32::MAX"),),
    ),
    Defect(
        "replies of version 2 invalidate unasked",
        "V2-26 XC-78",
        "test_version_2: invalidation",
        (("Wire::V2 if self.characteristics.permit_invalidation() =>", "Wire::V2 if true =>"),),
    ),
    Defect(
        "the size that a server announces is not used",
        "XC-21",
        "test_version_2: a peer and operations: 8192",
        (("                call: limits.send,\n", "                call: limits.send.min(4096),\n"),),
    ),
    Defect(
        "a connection does not wait for the answer to its offer",
        "V2-5",
        "test_version_2: the first answer",
        (
            (
                "let answered = wait(&sender.connection, shared.xprt.connect_timeout());",
                "let answered = Ok(PeerData::NONE);",
            ),
        ),
    ),
    Defect(
        "a size is announced while smaller Receives are left",
        "XC-70",
        "test_live_sizes: 128 credits, and changes under load",
        (("self.exchange.is_under_way && self.exchange.outdated == 0;", "self.exchange.is_under_way;"),),
    ),
    Defect(
        "outdated Receives are posted again",
        "XC-90",
        "test_live_sizes: the server requests receive-size, vers=3",
        (("let others = chain.take_others(self.unallocated.edition);", "let others = RecvChain::new();"),),
    ),
    Defect(
        "a server requests a size before it can send as much",
        "XC-89",
        "test_live_sizes: no call fails while sizes grow, requested by both, 1 readers",
        (("self.end.side == Side::Client || *want <= self.has_sends;", "*want <= self.has_sends || *want != 0;"),),
    ),
    Defect(
        "growth back to the present length waits for other Receives",
        "XC-57",
        HOST,
        (("        let number = if has_wanted {", "        let number = if has_wanted && false {"),),
    ),
    Defect(
        "a response that cannot be decoded leaves its request open",
        "XC-56",
        "test_characteristics: a server responds: what cannot be decoded",
        (
            (
                "        if is_open {\n            let unsupported = false;",
                "        if is_open && false {\n            let unsupported = false;",
            ),
        ),
    ),
    Defect(
        "an entry that is in no subset goes unnoticed",
        "XC-55",
        "test_characteristics: a server responds: nothing",
        (("Disposition::Unclear => return Outcome::odd(Odd::Unclear),", "Disposition::Unclear => {}"),),
    ),
    Defect(
        "the size is declared to be final",
        "XC-44",
        "test_version_2: a peer and operations: 8192",
        (("ALL_BUT_THE_SIZE: u32 = 0b110;", "ALL_BUT_THE_SIZE: u32 = 0b111;"),),
    ),
)

DEFECTS = (*PROTOCOL, *CREDITS, *CONNECTION, *MEMORY, *REAL_DMA, *RESPONDER, *SERVER, *VERSION_2)
