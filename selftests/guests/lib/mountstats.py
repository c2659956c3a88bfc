# SPDX-License-Identifier: GPL-2.0
"""Reads /proc/self/mountstats: the counters of the transport of a mount."""

from __future__ import annotations

import re

from guests.harness.guest import Guest

# The numbers of an `xprt:` line of type rdma, in their order. Tools of nfs-utils go by the position, so the order is
# part of the interface.
FIELDS = (
    "port bind_count connect_count connect_time idle_time sends receives bad_xids request_utilisation "
    "backlog_utilisation read_chunks write_chunks reply_chunks request_bytes reply_bytes pullup_bytes fixup_bytes "
    "hardway_bytes failed_marshals bad_replies nomsg_calls mrs_recycled mrs_orphaned mrs_allocated local_invalidates "
    "empty_sendctx reply_waits"
).split()

# Counters of our transport that are above zero only if a peer or the transport misbehaved. They are not in mountstats
# but in a file of debugfs.
SUSPICIOUS = (
    "foreign_invalidates unknown_xids duplicate_replies zero_grants version_errors header_errors reverse_unserved "
    "reverse_overflows"
).split()

DEBUGFS = "/sys/kernel/debug/rpcrdma_rs"

MEANING = {
    "connect_count": "connections made",
    "sends": "calls sent",
    "receives": "replies received",
    "bad_xids": "replies that belonged to no call",
    "read_chunks": "chunks of arguments the server fetched by RDMA Read",
    "write_chunks": "chunks of results the server placed by RDMA Write",
    "reply_chunks": "whole replies the server placed by RDMA Write",
    "request_bytes": "bytes of calls moved by RDMA Read",
    "reply_bytes": "bytes of results moved by RDMA Write",
    "pullup_bytes": "bytes of calls copied into a contiguous send buffer",
    "fixup_bytes": "bytes of inline replies copied to where they belong",
    "hardway_bytes": "bytes of buffers allocated outside the slot",
    "failed_marshals": "calls that could not be marshalled",
    "bad_replies": "replies with a header that made no sense",
    "nomsg_calls": "calls that went as a whole by RDMA Read",
    "mrs_recycled": "registrations taken back after an error",
    "mrs_allocated": "registrations allocated",
    "local_invalidates": "registrations the client had to invalidate itself",
    "remote_invalidates": "registrations the server invalidated with its reply",
    "reverse_calls": "calls that the server made to the client",
}


def block_of(guest: Guest, mount_point: str) -> str:
    """The part of mountstats that is about a mount."""
    return block_in(guest.run("cat /proc/self/mountstats").out, mount_point)


def block_in(text: str, mount_point: str) -> str:
    """The same, from the text of the file."""
    block = re.search(rf"^device \S+ mounted on {re.escape(mount_point)} .*?(?=^device |\Z)", text, re.M | re.S)
    assert block, f"{mount_point} is not in mountstats:\n{text}"
    return block[0]


def of_mount(guest: Guest, mount_point: str) -> tuple[list[int], dict[str, list[int]]]:
    """The numbers of the transport's line, and the numbers of each operation by its name."""
    block = block_of(guest, mount_point)
    operations = re.findall(r"^\s+([A-Z_0-9]+): ((?:\d+ ?)+)$", block, re.M)
    return line_of(block), {name: [int(n) for n in numbers.split()] for name, numbers in operations}


def line_of(block: str) -> list[int]:
    """The numbers of the transport's line of a mount."""
    xprt = re.search(r"^\txprt:\s+rdma (.*)$", block, re.M)
    assert xprt, f"no transport of type rdma in:\n{block}"
    return [int(n) for n in xprt[1].split()]


def transport(guest: Guest, mount_point: str) -> dict[str, int]:
    """The transport's numbers by name, with the numbers that only our transport has."""
    options = guest.run(f"grep ' {mount_point} ' /proc/mounts").out
    port = re.search(r"\bport=(\d+)", options)
    return named(of_mount(guest, mount_point)[0]) | own(guest, int(port[1]) if port else None)


def named(numbers: list[int]) -> dict[str, int]:
    """The numbers of the transport's line by name."""
    return dict(zip(FIELDS, numbers, strict=True))


def own(guest: Guest, port: int | None = None) -> dict[str, int]:
    """The counters that only our transport has, added up over its transports to a port of the server."""
    return parse_own(guest.run(f"cat {DEBUGFS}/xprt-* 2>/dev/null || true").out, port)


def parse_own(text: str, port: int | None = None) -> dict[str, int]:
    """The same, from the text of the files; empty without files."""
    counters: dict[str, int] = {}
    for block in re.split(r"^peer ", text, flags=re.M)[1:]:
        peer, *lines = block.splitlines()
        if port is None or peer.endswith(f" port {port}"):
            # Lines other than counters have words.
            for name, number in re.findall(r"^(\w+) (\d+)$", "\n".join(lines), re.M):
                counters[name] = counters.get(name, 0) + int(number)
    return counters


def calls(guest: Guest, mount_point: str, operation: str) -> int:
    """The number of calls of an operation."""
    return of_mount(guest, mount_point)[1].get(operation, [0])[0]
