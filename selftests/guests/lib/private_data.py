# SPDX-License-Identifier: GPL-2.0
"""Private data (RFC 8797) and thresholds, as the peer, the log and the wire show them.

A kept threshold is seen from outside: data that fits is sent inline, other data by a chunk, and no message is longer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from guests.harness.network import CLIENT
from guests.harness.pair import MOUNT_POINT, Pair
from .capture import Capture
from .peer import Peer

CLIENT_DEFAULT = "f6ab0e1801010303"
NFS, READ, WRITE = 100003, 6, 7
# More than the headers of a small call or reply take, and less than the smallest threshold.
HEADERS = 400
REPLY_FIELD = 196  # bytes of private data that a reply of the InfiniBand connection manager carries
REQUEST_FIELD = 56  # bytes that its request has left for the consumer


def size_byte(bytes: int) -> str:
    """RFC 8797, section 4.2."""
    return f"{bytes // 1024 - 1:02x}"


def check_request(server: Peer, sent: str) -> None:
    """The client's bytes stand at the beginning of the field, and nothing but padding, which iWARP does without, follows."""
    field = REQUEST_FIELD if server.pair.options.device == "rxe" else 0
    for event in server.of("connect"):
        assert event["private_data"] == sent.ljust(2 * field, "0"), f"private data sent: {event}"


def check_thresholds(pair: Pair, server: Peer, call: int, reply: int) -> None:
    """Has the client write and read just below and just at the thresholds, and looks at how it does that."""
    file = f"{MOUNT_POINT}/file"
    before, writes, reads = (len(server.messages(*of)) for of in ((), (NFS, WRITE), (NFS, READ)))
    for size in (call - HEADERS, call):
        pair.client.run(f"dd if=/dev/zero of={file} bs={size} count=1 conv=nocreat,notrunc oflag=direct status=none")
    below, at = server.messages(NFS, WRITE)[writes:]
    assert not below["read"] and below["length"] > call - HEADERS, f"fits into {call} bytes, yet: {below}"
    assert at["read"], f"does not fit into {call} bytes, yet: {at}"
    for size in (reply - HEADERS, reply):
        # The peer has no data: the test looks at the client's calls.
        failed = pair.client.run(f"dd if={file} of=/dev/null bs={size} count=1 iflag=direct status=none", check=False)
        assert "Input/output error" in failed.out, failed
    below, at = server.messages(NFS, READ)[reads:]
    assert not below["write"] and below["reply"] is None, f"fits into {reply} bytes, yet: {below}"
    assert at["write"] or at["reply"], f"does not fit into {reply} bytes, yet: {at}"
    longest = max(message["length"] for message in server.messages()[before:])
    assert longest <= call, f"a message of {longest} bytes, with a threshold of {call}"


def check_log(server: Peer, sent: str, received: str, call: int, reply: int) -> None:
    """The log reports one connection, with these values."""
    (logged,) = server.connections()
    found = (logged.sent, logged.received, logged.call, logged.reply)
    assert found == (sent, received, call, reply), f"the log says {logged}"


# Opcodes of a reliable connection: of the packets of Sends, and of RDMA Writes, with the length of their own header.
LAST = {2, 4, 22, 23}
SENDS = {0, 1} | LAST
WRITES = {6: 16, 7: 0, 8: 0, 10: 16}
BTH_AND_ICRC = 12 + 4
UDP_HEADER, IETH = 8, 4


@dataclass(frozen=True)
class Sent:
    """A message on the wire: its bytes, the handle that it invalidates, and the bytes of RDMA Writes before it."""

    length: int
    handle: str = ""
    written: int = 0


def sends(capture: Capture, source: str) -> list[Sent]:
    """The messages from this address, from the packets alone, in the order of their last packets."""
    fields = [f"infiniband.{field}" for field in ("bth.destqp", "bth.psn", "bth.opcode", "bth.padcnt", "ieth")]
    found, seen = [], set()
    current, written = Counter(), Counter()
    for length, *words in capture.decode(f"ip.src == {source} && infiniband.bth.destqp != 1", "udp.length", *fields):
        to, psn, opcode, padding = (int(word, 0) for word in words[:4])
        handle = words[4].partition(",")[0]
        # A packet that was sent again has the same number; responses are counted apart.
        if opcode not in SENDS | WRITES.keys() or (to, psn) in seen:
            continue
        seen.add((to, psn))
        payload = int(length) - UDP_HEADER - BTH_AND_ICRC - padding
        if opcode in WRITES:
            written[to] += payload - WRITES[opcode]
            continue
        current[to] += payload - (IETH if handle else 0)
        if opcode in LAST:
            found.append(Sent(current.pop(to), handle, written.pop(to, 0)))
    return found


def sent_messages(capture: Capture) -> list[int]:
    """The lengths of the messages that the client sent, from the packets alone, in ascending order."""
    return sorted(sent.length for sent in sends(capture, CLIENT.ipv4))
