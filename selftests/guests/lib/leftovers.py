# SPDX-License-Identifier: GPL-2.0
"""What clients leave behind in the server: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.pair import NFS_PORT, Late, Pair, wait_until
from guests.lib import resources
from guests.lib.requester import carried_out, null

SLACK = 2048  # KiB of memory that a server at work may take or give back meanwhile


def connections(pair: Pair) -> int:
    """The connections that the server has accepted."""
    shown = pair.server.run(f"rdma resource show cm_id | grep -c 'state CONNECT.*:{NFS_PORT}' || true").out
    return int(shown)


@contextmanager
def nothing_left(pair: Pair, others: int = 0, slack: int = SLACK) -> Iterator[None]:
    """After the block the server has the connections, objects of RDMA and memory that it had before.

    `others` are connections that stay. The memory may differ by `slack` KiB.
    """
    limit = 20 * pair.options.slowness
    # The first connection of a boot fills caches.
    carried_out(pair, {"exchanges": [[null().hex()]]})
    wait_until(lambda: connections(pair) == others, f"not {others} connections", limit)
    objects, memory = resources.rdma(pair.server), resources.memory(pair.server)
    yield
    wait_until(lambda: connections(pair) == others, f"not {others} connections", limit)
    wait_until(lambda: resources.rdma(pair.server) == objects, "objects are left", limit)

    def grown() -> dict[str, int]:
        return {kind: kib - memory[kind] for kind, kib in resources.memory(pair.server).items()}

    # The connection manager keeps identifiers of ended connections for a while.
    try:
        wait_until(lambda: all(kib < slack for kib in grown().values()), "the server holds more", limit, interval=1)
    except Late as late:
        raise AssertionError(f"{late}: {grown()} KiB") from late
