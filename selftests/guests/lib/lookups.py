# SPDX-License-Identifier: GPL-2.0
"""Look-ups in the export of a peer, many at a time."""

from __future__ import annotations

from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from .peer import Peer

LOOKUPS = "python3 -I -S /share/tools/lookups.py"
# The peer has room for as many calls as a test has, all of them short.
ROOM = ("--receives", "150", "--receive-size", "8192")
# Replies that are kept back must not end the connection by a timeout of the RPC layer.
PATIENT = "timeo=600"


def together(pair: Pair, *names: str) -> str:
    """Has names looked up at the same time; the client's verdict on each is a line."""
    return pair.client.run(f"timeout -s KILL 300 {LOOKUPS} together {MOUNT_POINT} {' '.join(names)}", 60).out


def numbered(name: str, count: int, first: int = 0) -> list[str]:
    """`count` different names."""
    return [f"{name}.{number}" for number in range(first, first + count)]


def came(server: Peer, names: list[str]) -> None:
    """Returns when look-ups of all these names have come to the peer."""

    def all_of_them() -> bool:
        return set(names) <= {event["name"] for event in server.events if event["event"] == "message"}

    wait_until(all_of_them, f"not all of {names[0]} .. {names[-1]} have come", 20 * server.pair.options.slowness)


def lookup(pair: Pair, name: str) -> None:
    """Has the client ask for a name that does not exist."""
    done = pair.client.run(f"stat {MOUNT_POINT}/{name}", 60, check=False)
    assert "No such file" in done.out, done
