# SPDX-License-Identifier: GPL-2.0
"""Sizes of a connection of version 2 in use, which either end changes in the file of the connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.guest import Guest
from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair
from guests.lib.rules import rule
from guests.lib.sight import DIRECTORY, details, served

SMALL, LARGE = 4096, 65536


@contextmanager
def ends(pair: Pair, vers: str, most: int = LARGE, **client: object) -> Iterator[None]:
    """Both ends speak version 2 for the block, over a mount, and may be raised to `most` bytes."""
    common = {"version": "2", "inline_max": most}
    with (
        rule(pair.client, "live", peer=SERVER.ipv4, **{**common, **client}),
        rule(pair.server, "live", side="server", peer=CLIENT.ipv4, **common),
    ):
        pair.mount(vers)
        yield
        pair.umount()


def request(guest: Guest, change: str, check: bool = True) -> str:
    """Requests a change of the only connection of an end. Returns the error, or nothing."""
    which = "xprt" if guest.name == "client" else "svc"
    done = guest.run(
        f"for file in {DIRECTORY}/{which}-*; do echo {change} | tee $file 2>&1 >/dev/null; done", check=check
    )
    assert not check or not done.out, done
    return done.out


def shown(pair: Pair) -> tuple[dict[str, str], dict[str, str]]:
    """The files of both ends."""
    (server,) = served(pair.server)
    return details(pair.client, NFS_PORT), server


def some_calls(pair: Pair, count: int = 60) -> None:
    """Calls that bring all Receives of both ends back: several times as many as this."""
    pair.client.run(f"cd {MOUNT_POINT}; for n in $(seq {count}); do touch name-$n; rm name-$n; done", 60)


def data_goes_both_ways(pair: Pair, size: int) -> None:
    """A file of this size is written and read back."""
    pair.client.run(f"head -c {size} /dev/urandom >/tmp/sent; cp /tmp/sent {MOUNT_POINT}/sent", 60)
    pair.drop_caches()
    pair.client.run(f"cmp /tmp/sent {MOUNT_POINT}/sent", 60)


def until(pair: Pair, end: int, name: str, value: str) -> None:
    """Makes calls until a line of the file of the client (0) or the server (1) has this value."""
    for _ in range(40):
        some_calls(pair)
        files = shown(pair)
        if files[end][name] == value:
            return
    raise AssertionError(f"{name} of end {end} is not {value}: {files}")


def segments_written(pair: Pair) -> tuple[int, int]:
    """The segments of chunks that the server has read and written."""
    _, server = shown(pair)
    return int(server["read_segments"]), int(server["write_segments"])
