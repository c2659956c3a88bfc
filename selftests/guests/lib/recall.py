# SPDX-License-Identifier: GPL-2.0
"""Delegations of NFSv4.2 and their recall, by nfsd's records and the client's counters."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from guests.harness.pair import MOUNT_POINT, Late, Pair, wait_until
from .mountstats import calls, transport

NUMBERS = itertools.count()
TRACE = "/sys/kernel/tracing/instances/recalls"


def server_view(pair: Pair, file: str) -> str:
    """nfsd's records of its clients; `file` is info or states."""
    return pair.server.run(f"cat /proc/fs/nfsd/clients/*/{file}").out


def delegations(pair: Pair, name: str) -> list[str]:
    """The files with names that begin so which the server has given a delegation of; it gives some of directories, too."""
    return re.findall(rf'type: deleg,.* filename: "/({name}[^"]*)"', server_view(pair, "states"))


def take_delegation(pair: Pair, name: str, count: int) -> str:
    """Reads files until nfsd grants a delegation, after the callback path is up; returns the name of the file.

    For half a minute nfsd grants none of a file that it has recalled one of. It keeps these in a Bloom filter of 256 bits and,
    after the recalls of these tests, takes one file in ten for such a one: so there has to be more than one.
    """

    def granted() -> list[str]:
        pair.client.run(f"cd {MOUNT_POINT}; cat {name}[1-{count}] >/dev/null")
        return delegations(pair, name)

    wait_until(granted, "no delegation was granted", 20 * pair.options.slowness, 0.3)
    return delegations(pair, name)[0]


def returns(pair: Pair, expected: int) -> int:
    """Delegations that the client has returned. It counts one when it has the reply, which a disconnect can delay."""
    with suppress(Late):
        wait_until(lambda: calls(pair.client, MOUNT_POINT, "DELEGRETURN") >= expected, "", 10 * pair.options.slowness)
    return calls(pair.client, MOUNT_POINT, "DELEGRETURN")


@contextmanager
def unsent(pair: Pair) -> Iterator[Callable[[], int]]:
    """Counts the recalls that nfsd gives up instead of sending, by its trace events.

    nfsd4_run_cb_work() drops a callback when the client's last connection has gone and the next has not been bound yet, and
    nothing makes it again: unless the client returns the delegation by itself, nfsd revokes it when a lease has passed.
    """

    def count() -> int:
        last: dict[str, str] = {}
        found = 0
        for line in pair.server.run(f"cat {TRACE}/trace").lines:
            if event := re.match(r"\s*(\S+) .*: (nfsd_cb_\w+):", line):
                found += line.endswith("opcode=CB_RECALL") and last.get(event[1]) == "nfsd_cb_start"
                last[event[1]] = event[2]
        return found

    pair.server.run("mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing")
    events = " ".join(f"events/nfsd/nfsd_cb_{name}/enable" for name in ("start", "rpc_release", "destroy"))
    pair.server.run(f"mkdir {TRACE}; cd {TRACE}; echo 1 | tee {events}")
    yield count
    pair.server.run(f"rmdir {TRACE}")


def recall(pair: Pair) -> None:
    """A write on the server has nfsd recall a delegation on the client's connection; the client returns it."""
    # Not those of an earlier run: nfsd gives no delegation of a file for a while after a recall.
    name = f"shared{next(NUMBERS)}-"
    pair.server.run(f"cd /export; for i in $(seq 8); do echo one >{name}$i; done")
    pair.mount("4.2")
    shared = take_delegation(pair, name, 8)
    assert re.search(r"callback state: UP", server_view(pair, "info")), server_view(pair, "info")
    before = calls(pair.client, MOUNT_POINT, "DELEGRETURN")
    called = transport(pair.client, MOUNT_POINT).get("reverse_calls")
    start = float(pair.server.run("cut -d' ' -f1 /proc/uptime").out)
    end = float(pair.server.run(f"echo two >>/export/{shared}; cut -d' ' -f1 /proc/uptime", 30).out)
    limit = 3 * pair.options.slowness
    assert end - start < limit, f"the server waited {end - start:.1f} s: the recall did not reach the client"
    assert returns(pair, before + 1) > before, "the delegation was not returned"
    assert not delegations(pair, shared)
    # With a lease of ten seconds a client returns a delegation by itself that it has not used for some of them.
    if called is not None and transport(pair.client, MOUNT_POINT)["reverse_calls"] <= called:
        raise Late("the client had returned the delegation before it was recalled")
    assert pair.client.run(f"cat {MOUNT_POINT}/{shared}").out == "one\ntwo\n"
    pair.umount()
