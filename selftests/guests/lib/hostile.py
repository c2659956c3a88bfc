# SPDX-License-Identifier: GPL-2.0
"""A mounted peer that breaks the protocol by order, and what becomes of the calls to it.

The peer (selftests/guests/peer) serves a directory whose names are orders: the reply to a look-up of `do-MODE` is itself
in that mode. So the misbehaviour happens under a mount, where counters can be read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from . import resources
from .mountstats import transport
from .peer import Peer, peer

ABSENT, FAILED = "No such file or directory", "Input/output error"
NFS, NULL, READDIR = 100003, 0, 16
PAGE_SIZE = 4096

# The client's messages when it ends a connection by its own decision.
FOREIGN = r"port \d+: ending the connection: it invalidated a handle that is not the call's"
# A broken connection, as the device reports it.
DEVICE = r"rxe\d+: qp#\d+ (make_send_cqe|do_complete): non-flush error status = \d+"

# Counters that any call moves.
ORDINARY = {
    *("connect_time", "idle_time", "sends", "receives", "request_utilisation", "backlog_utilisation"),
    *("reply_chunks", "write_chunks", "read_chunks", "reply_bytes", "request_bytes", "pullup_bytes", "fixup_bytes"),
    *("local_invalidates", "remote_invalidates", "empty_sendctx", "reply_waits", "hardway_bytes"),
    "mrs_allocated",
    # A caller that is killed moves these.
    *("abandoned_calls", "late_replies"),
}


def counters(pair: Pair) -> dict[str, int]:
    """All numbers of the transport."""
    return transport(pair.client, MOUNT_POINT)


def ask(pair: Pair, name: str) -> str:
    """The client's verdict on a name; a look-up that hangs is killed, and the test fails by its status."""
    done = pair.client.run(f"timeout -s KILL 100 stat {MOUNT_POINT}/{name}", 45, check=False)
    assert done.rc == 1, f"look-up of {name}: {done}"
    return done.out


def nothing_left(pair: Pair) -> None:
    """The client holds no RDMA object but the queue pair that an rxe device has for itself."""
    own = {"rxe": 1, "siw": 0}[pair.options.device]

    def clean() -> bool:
        left = resources.rdma(pair.client)
        return left["qp"] == own and left["mr"] == 0

    # sunrpc drops the last references from a workqueue.
    wait_until(clean, "RDMA objects are left", 20 * pair.options.slowness)


@contextmanager
def hostile(pair: Pair, *options: str, mount: str = "") -> Iterator[Peer]:
    """A mounted peer for the block; nothing of it is left afterwards."""
    with peer(pair, "--private-data", "f6ab0e1801010303", *options) as server, server.mounted(mount):
        yield server
        tells_no_address(server)
    nothing_left(pair)


def tells_no_address(server: Peer) -> None:
    """Offsets of offered memory count from the page it begins in: no address of the client's kernel gets out (H-36)."""
    for message in server.messages():
        if "reply" in message and "malformed" not in message:
            segments = [*message["read"], *itertools.chain(*message["write"]), *(message["reply"] or [])]
            offsets = [segment["offset"] for segment in segments]
            assert all(offset < PAGE_SIZE for offset in offsets), f"offsets: {[hex(offset) for offset in offsets]}"


def misbehave(pair: Pair, server: Peer, mode: str) -> tuple[str, dict[str, int], int]:
    """Has the peer reply to a look-up in a mode: the client's verdict, the rise of its counters, its number of calls."""
    name = f"do-{mode}"
    before = counters(pair)
    told = ask(pair, name)
    assert len([e for e in server.of("misbehaves") if e["mode"] == mode]) == 1, f"the peer did not do {mode}"
    after = counters(pair)
    risen = {key: after[key] - before[key] for key in after if after[key] != before[key]}
    return told, risen, len(server.lookups(name))


def odd(risen: dict[str, int]) -> dict[str, int]:
    """The counters among them that tell of something wrong."""
    return {name: by for name, by in risen.items() if name not in ORDINARY}


def stale_handle(pair: Pair, server: Peer) -> None:
    """Makes the peer know a handle whose registration is invalidated by now."""
    pair.client.run(f"ls {MOUNT_POINT}")
    assert [m for m in server.messages(NFS, READDIR) if m["reply"] or m["write"]], "no call had a chunk"
