# SPDX-License-Identifier: GPL-2.0
"""The messages in a capture, in the order in which they passed, as Wireshark's dissector and that of tools show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from guests.lib.capture import Capture

# The operations of InfiniBand's base transport header that carry parts of a message.
FIRST, MIDDLE, LAST, ONLY, LAST_INVALIDATES, ONLY_INVALIDATES = 0, 1, 2, 4, 22, 23
SENDS = (FIRST, MIDDLE, LAST, ONLY, LAST_INVALIDATES, ONLY_INVALIDATES)
INVALIDATES = (LAST_INVALIDATES, ONLY_INVALIDATES)
# Bytes of a packet that are no message: UDP and base transport header, and checksum.
AROUND, HANDLE = 8 + 12 + 4, 4
HEAD = (
    *("ip.src", "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.padcnt"),
    *("udp.length", "rpcordma.version"),
)
BODY = (
    *("note", "xid", "vers", "proc", "direction", "err", "err.low", "err.high"),
    *("opttype", "rbsiz", "pendclr", "done", "pend"),
)
OPERATIONS = {"1": "INITXCH", "2": "REQXCH", "3": "RESPXCH", "4": "UPDXCH"}


@dataclass
class Message:
    """A message: the address of its sender, the queue pair that it is for, its bytes, and the fields of version 2, empty where
    there are none."""

    source: str
    queue_pair: str
    length: int
    fields: dict[str, str]
    version: str

    @property
    def operation(self) -> str:
        """The name of the operation, or nothing."""
        return OPERATIONS.get(self.opttype, "")

    def __getattr__(self, name: str) -> str:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None


def messages(capture: Capture) -> list[Message]:
    """All messages over soft-RoCE in a capture, each once however often it was sent."""
    shown = " || ".join(f"infiniband.bth.opcode == {opcode}" for opcode in SENDS)
    seen: set[tuple[str, str, str]] = set()
    found: list[Message] = []
    last: dict[tuple[str, str], Message] = {}
    for line in capture.decode(shown, *HEAD, *(f"rpcrdma2.{name}" for name in BODY)):
        (source, code, qp, number, padding, length, one), body = line[: len(HEAD)], line[len(HEAD) :]
        if (packet := (source, qp, number)) in seen:
            continue
        seen.add(packet)
        opcode = int(code)
        part = int(length) - AROUND - int(padding) - HANDLE * (opcode in INVALIDATES)
        if opcode in (FIRST, ONLY, ONLY_INVALIDATES):
            fields = dict(zip(BODY, body, strict=True))
            last[source, qp] = Message(source, qp, part, fields, fields["vers"] or one)
            found.append(last[source, qp])
        elif (source, qp) in last:
            last[source, qp].length += part
    return found


def too_long(found: list[Message], size: int) -> Iterator[str]:
    """The messages that are longer than what their receiver has told, or was asked for, at that moment.

    `size` is that of both ends before they tell another, on each connection; connections come one after the other. A smaller
    size holds from the request for it until the request is over: the end that makes it sends no longer message meanwhile.
    """
    told: dict[str, int] = {}
    requests: dict[str, tuple[str, int]] = {}
    ends = {message.source for message in found}
    connections: dict[str, list[str]] = {end: [] for end in ends}
    for message in found:
        own = message.source
        (peer,) = ends - {own}
        if message.queue_pair not in connections[own]:
            connections[own].append(message.queue_pair)
            if len(connections[own]) > len(connections[peer]):
                told.clear()
                requests.clear()
        most = min(told.get(peer, size), requests.get(own, ("", 1 << 32))[1])
        if message.length > most:
            yield f"{message.length} bytes from {own}, for which {most} are the most: {message.fields}"
        match message.operation:
            case "INITXCH" | "UPDXCH" if message.rbsiz:
                told[own] = int(message.rbsiz)
                if message.pendclr == "1":
                    requests.pop(peer, None)
            case "REQXCH" if message.rbsiz:
                requests[own] = message.xid, int(message.rbsiz)
            case "RESPXCH" if peer in requests and requests[peer][0] == message.xid:
                if selects(message.done):
                    told[own] = requests[peer][1]
                if not selects(message.pend):
                    del requests[peer]


def selects(subset: str) -> bool:
    """True if a subset selects an entry."""
    return any(int(word, 16) for word in subset.split(",") if word)
