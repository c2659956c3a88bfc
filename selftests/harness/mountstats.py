# SPDX-License-Identifier: GPL-2.0
"""Reads /proc/self/mountstats: what the transport of a mount says about itself."""

from __future__ import annotations

import re

from .guest import Guest

# The numbers of an `xprt:` line of type rdma, in their order. Tools of nfs-utils go by the position, so the order is
# part of what a transport has to keep.
FIELDS = (
    "port bind_count connect_count connect_time idle_time sends receives bad_xids request_utilisation "
    "backlog_utilisation read_chunks write_chunks reply_chunks request_bytes reply_bytes pullup_bytes fixup_bytes "
    "hardway_bytes failed_marshals bad_replies nomsg_calls mrs_recycled mrs_orphaned mrs_allocated local_invalidates "
    "empty_sendctx reply_waits"
).split()

# What our transport appends. After these comes one number for each reason to drop a message.
OUR_FIELDS = (
    "remote_invalidates foreign_invalidates unknown_xids duplicate_replies zero_grants version_errors header_errors "
    "backward_calls backward_unserved backward_overflows"
).split()

# Of ours, those that are above zero only if a peer misbehaved, or we did.
SUSPICIOUS = (*OUR_FIELDS[1:7], *OUR_FIELDS[8:])

MEANING = {
    "connect_count": "connections made",
    "sends": "calls sent",
    "receives": "replies received",
    "bad_xids": "replies that belonged to no call",
    "read_chunks": "chunks of arguments the server fetched by RDMA Read",
    "write_chunks": "chunks of results the server placed by RDMA Write",
    "reply_chunks": "whole replies the server placed by RDMA Write",
    "request_bytes": "octets of calls moved by RDMA Read",
    "reply_bytes": "octets of results moved by RDMA Write",
    "pullup_bytes": "octets of calls copied into a contiguous send buffer",
    "fixup_bytes": "octets of inline replies copied to where they belong",
    "hardway_bytes": "octets of buffers allocated outside the slot",
    "failed_marshals": "calls that could not be marshalled",
    "bad_replies": "replies with a header that made no sense",
    "nomsg_calls": "calls that went as a whole by RDMA Read",
    "mrs_recycled": "registrations taken back after an error",
    "mrs_allocated": "registrations allocated",
    "local_invalidates": "registrations the client had to invalidate itself",
    "remote_invalidates": "registrations the server invalidated with its reply",
    "backward_calls": "calls that the server made to the client",
}


def of_mount(guest: Guest, mount_point: str) -> tuple[list[int], dict[str, list[int]]]:
    """The numbers of the transport's line, and the numbers of each operation by its name."""
    text = guest.run("cat /proc/self/mountstats").out
    block = re.search(rf"^device \S+ mounted on {re.escape(mount_point)} .*?(?=^device |\Z)", text, re.M | re.S)
    assert block, f"{mount_point} is not in mountstats:\n{text}"
    xprt = re.search(r"^\txprt:\s+rdma (.*)$", block[0], re.M)
    assert xprt, f"no transport of type rdma in:\n{block[0]}"
    operations = re.findall(r"^\s+([A-Z_0-9]+): ((?:\d+ ?)+)$", block[0], re.M)
    return [int(n) for n in xprt[1].split()], {name: [int(n) for n in numbers.split()] for name, numbers in operations}


def transport(guest: Guest, mount_point: str) -> dict[str, int]:
    """The transport's numbers by name; those of `OUR_FIELDS` only from our transport."""
    return named(of_mount(guest, mount_point)[0])


def named(numbers: list[int]) -> dict[str, int]:
    """The numbers of the transport's line by name."""
    return dict(zip(FIELDS + OUR_FIELDS, numbers, strict=False))


def calls(guest: Guest, mount_point: str, operation: str) -> int:
    """How many calls of an operation were made."""
    return of_mount(guest, mount_point)[1].get(operation, [0])[0]
