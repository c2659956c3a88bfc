# SPDX-License-Identifier: GPL-2.0
"""A client that a peer can call: the bed of tests of the reverse direction (RFC 8167)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from guests.harness.pair import Pair, wait_until
from .peer import Event, Peer, peer
from .rpcload import Load, loaded

NULL, REPLY, STALL = 0, 1, 2
SUCCESS, SYSTEM_ERR = 0, 5
RDMA_MSG = 0
GRANT = 16  # reverse calls that the client accepts at a time
REPLY_LIMIT = 5.0  # seconds; with a call without a reply the client ends the connection after a minute


class Bed:
    """A peer, and a client that it can call."""

    def __init__(self, pair: Pair, server: Peer, load: Load):
        self.pair, self.server, self.load = pair, server, load

    def open(self) -> None:
        """Connects the client to the peer, with one thread to serve reverse calls: it replies in their order."""
        self.load.open(f"port={self.server.port} reverse=1")

    def replies(self) -> dict[object, Event]:
        """The reverse replies so far by xid; their headers look the same for all calls."""
        found: dict[object, Event] = {}
        for event in self.server.of("reverse-reply"):
            head = {name: event[name] for name in ("vers", "proc", "credits", "read", "write", "reply")}
            right = {"vers": 1, "proc": RDMA_MSG, "credits": GRANT, "read": [], "write": [], "reply": None}
            assert head == right, f"a reverse reply with header {head}"
            assert event["rpc"]["xid"] == event["xid"] and event["right"], event
            assert event["xid"] not in found, f"two replies to reverse call {event['xid']:#x}"
            found[event["xid"]] = event
        return found

    def replies_to(self, order: Event) -> list[Event]:
        """The replies to the calls of an order, as soon as the last of them has come."""
        xids = order["xids"]
        came = f"the reply to {xids[-1]:#x}"
        self.server.wait(lambda e: e["event"] == "reverse-reply" and e["xid"] == xids[-1], came, REPLY_LIMIT)
        replies = self.replies()
        assert set(xids) <= set(replies), f"of {xids} only {list(replies)} got a reply"
        return [replies[xid] for xid in xids]

    def call(self, procedure: int = NULL, **words: int) -> list[Event]:
        """Makes reverse calls and waits for their replies, which must report success."""
        replies = self.replies_to(self.server.order("call", procedure=procedure, **words))
        assert [e["rpc"]["status"] for e in replies] == [SUCCESS] * len(replies), replies
        return replies

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for a state of the client that no event of the peer reports."""
        wait_until(condition, what, 20 * self.pair.options.slowness)

    def kept(self) -> list[Event]:
        """The forward calls that the peer has not replied to immediately."""
        return self.server.of("misbehaves")

    def wait_kept(self, count: int) -> None:
        """Waits until the peer has got that many of them."""
        self.wait(lambda: len(self.kept()) >= count, f"forward call {count} did not come")

    def queued(self) -> int:
        """The forward calls that wait for a credit."""
        tasks = self.pair.client.run("cat /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks")
        return sum(line.endswith("q:xprt_sending") for line in tasks.lines)

    def connections(self) -> int:
        """The connections so far."""
        return len(self.server.of("established"))


@contextmanager
def bed(pair: Pair, *options: str) -> Iterator[Bed]:
    """A client that is connected to a peer for the block."""
    with peer(pair, *options) as server, loaded(pair) as load:
        made = Bed(pair, server, load)
        made.open()
        yield made
        made.replies()
