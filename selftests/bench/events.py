# SPDX-License-Identifier: GPL-2.0
"""The events of an operation, counted in the drivers below the transport: the same way for all builds of it."""

from __future__ import annotations

from collections.abc import Callable

from .counter import Tally

# The callers that invalidate for a work request of the guest itself; all others do it for its peer.
LOCAL = ("rxe_requester", "rxe_do_local_ops", "rxe_sender")


def copies_by(*names: str) -> Callable[[Tally], float]:
    """Copies that these functions called for."""
    return lambda tally: sum(count for function, count in tally.copies.items() if function.name in names)


def bytes_by(*parts: str) -> Callable[[Tally], float]:
    """Bytes copied on behalf of these parts of the kernel; without parts, all."""
    return lambda tally: sum(count for function, count in tally.copied.items() if not parts or function.part in parts)


def entries_of(*names: str) -> Callable[[Tally], float]:
    """Entries of functions."""
    return lambda tally: tally.entered(*names)


def invalidations(local: bool) -> Callable[[Tally], float]:
    """Invalidations of one origin."""

    def count(tally: Tally) -> float:
        prefix = "rxe_invalidate_mr<"
        found = ((f.name.removeprefix(prefix), n) for f, n in tally.entries.items() if f.name.startswith(prefix))
        return sum(n for caller, n in found if (caller in LOCAL) == local)

    return count


def adapter_left_out(tally: Tally) -> float:
    """Instructions outside of the software adapter and its network."""
    return tally.total - tally.entered("(adapter)")


# rxe copies the list of buffers of each Send and each Receive that is posted, and of nothing else.
EVENTS: dict[str, Callable[[Tally], float]] = {
    "host part": adapter_left_out,
    "send stage": entries_of("(send)"),
    "reply stage": entries_of("(reply)"),
    "reply runs": entries_of("(reply entered)"),
    "doorbells": entries_of("rxe_post_send", "rxe_post_recv"),
    "send doorbells": entries_of("rxe_post_send"),
    "sends posted": copies_by("rxe_post_send"),
    "receives posted": copies_by("rxe_post_recv"),
    "registrations": entries_of("rxe_reg_fast_mr"),
    "registered bytes": entries_of("(registered bytes)"),
    "local invalidations": invalidations(True),
    "remote invalidations": invalidations(False),
    "completions": entries_of("rxe_cq_post"),
    "own locks": entries_of("(lock)"),
    "own atomics": entries_of("(atomic)"),
    "polls": entries_of("rxe_poll_cq"),
    "interrupts": entries_of("vring_interrupt"),
    "timer ticks": entries_of("update_process_times"),
    "calls served": entries_of("svc_process"),
    "page allocations": entries_of("get_page_from_freelist", "alloc_pages_bulk_noprof"),
    "task switches": entries_of("__switch_to"),
    "frames sent": entries_of("rxe_xmit_packet"),
    "frames received": entries_of("rxe_rcv"),
    "bytes copied by transport": bytes_by("transport"),
    # It copies into the buffers of Sends under the lock of the transport, out of the buffers of Receives in handlers.
    "bytes copied into sends": entries_of("(copied by send)"),
    "bytes copied from receives": entries_of("(copied by reply)"),
    "bytes copied by rxe": bytes_by("rxe"),
    "bytes copied": bytes_by(),
}
