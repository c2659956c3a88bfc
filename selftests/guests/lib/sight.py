# SPDX-License-Identifier: GPL-2.0
"""Reads the module's files on its connections in debugfs."""

from __future__ import annotations

import re

from guests.harness.guest import Guest

DIRECTORY = "/sys/kernel/debug/rpcrdma_rs"
# The columns of the table after the peer, which is several words.
COLUMNS = (
    *("device", "netns", "state", "since", "ver", "call", "call_by", "reply", "reply_by", "inval", "asked", "grant"),
    *("used", "wait", "for", "recvs", "mrs", "KiB", "rule"),
)


def rows(guest: Guest, side: str = "client") -> list[dict[str, str]]:
    """The lines of the table of one side; of a transport without a connection, the first columns."""
    found = []
    for line in guest.run(f"cat {DIRECTORY}/connections").lines[1:]:
        line = re.fullmatch(r"(?P<side>\w+) +(?P<xprt>\d+) +(?P<host>\S+) port (?P<port>\d+) +(?P<rest>.*)", line)
        assert line, "no line of the table"
        # The resource that calls wait for may be two words.
        words = line["rest"].replace("its turn", "its-turn").split()
        row = {"xprt": line["xprt"], "peer": line["host"], "port": line["port"], **dict(zip(COLUMNS, words))}
        found += [row] if line["side"] == side else []
    return found


def table(guest: Guest, side: str = "client") -> dict[int, dict[str, str]]:
    """These lines by the port of the peer."""
    return {int(row.pop("port")): row for row in rows(guest, side)}


def details(guest: Guest, port: int) -> dict[str, str]:
    """The file of the transport to a port of the server: the first word of each line, and the others."""
    text = guest.run(f"cat $(grep -l '^peer .* port {port}$' {DIRECTORY}/xprt-*)").out
    lines = [line.partition(" ") for line in text.splitlines()]
    return {name: value for name, _, value in lines if name not in ("closed", "failed")}


def ends(guest: Guest, port: int) -> list[str]:
    """The ends of the last connections to a port, the last one first."""
    text = guest.run(f"cat $(grep -l '^peer .* port {port}$' {DIRECTORY}/xprt-*)").out
    return re.findall(r"^(?:closed \d+ s ago, after \d+ s|failed \d+ s ago): (.*)$", text, re.M)


def served(guest: Guest) -> list[dict[str, str]]:
    """The files of the clients' connections: the first word of each line, and the others."""
    files = guest.run(f"find {DIRECTORY} -name 'svc-*'").out.split()
    # A connection may go between the two.
    texts = [done.out for file in sorted(files) if not (done := guest.run(f"cat {file}", check=False)).rc]
    return [{name: value for name, _, value in (line.partition(" ") for line in text.splitlines())} for text in texts]
