# SPDX-License-Identifier: GPL-2.0
"""Private data (RFC 8797) of our server and its clients, and the longest messages and the invalidations that follow."""

from __future__ import annotations

import hashlib
import random
import re

from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.capture import capturing
from guests.lib.ibfault import faults
from guests.lib.nfsd import RESTART
from guests.lib.parameters import parameters
from guests.lib.private_data import REPLY_FIELD, Sent, sends, size_byte
from guests.lib.requester import (
    BARE,
    CHUNK,
    MEANWHILE,
    READ_RESULTS,
    REFUSES,
    REPLY_HEADER,
    TAKES,
    WRITE,
    XID,
    call,
    carried_out,
    export_file,
    header,
    null,
    read_of,
    rejection,
    segment,
    status,
    without_credits,
)
from guests.lib.rules import rule
from guests.peer import wire
from guests.peer.wire import words


# Title, the private data of the request, the requirements, the longest reply, and whether replies may invalidate.
REQUESTS = [
    ("none", "", ("PD-34", "PD-44", "PD-48", "PD-52", "V1-43"), 1024, False),
    ("R and 4096 bytes", TAKES, ("PD-23",), 4096, True),
    ("4096 bytes", REFUSES, ("PD-24",), 4096, False),
    ("at offset 3", "aabbcc" + TAKES, ("PD-36", "PD-37"), 4096, True),
    ("in the last 8 bytes", TAKES.rjust(112, "0"), ("PD-36", "PD-40", "PD-43"), 4096, True),
    ("version 2", "f6ab0e1802010303", ("PD-38", "PD-39"), 1024, False),
    (
        "version 2 and then a good one",
        "f6ab0e1802010303" + "f6ab0e1801000700",
        ("PD-39", "PD-42", "PD-50"),
        1024,
        False,
    ),
    ("little-endian", "180eabf601010303", ("PD-35",), 1024, False),
    ("cut", TAKES[:14].rjust(112, "0"), ("PD-40", "PD-41"), 1024, False),
    ("reserved bits", "f6ab0e1801fe0303", ("PD-7",), 4096, False),
    ("reserved bits and R", "f6ab0e1801ff0303", ("PD-7",), 4096, True),
    ("1024 bytes", "f6ab0e1801010000", ("PD-15",), 1024, True),
    ("256 KiB", "f6ab0e180101ffff", ("PD-15",), 4096, True),
]


def longest_replies(fh: bytes, longest: int) -> list[list[str]]:
    """A call whose reply is as long as it may be, and one whose reply is a word longer, which is rejected."""
    most = longest - REPLY_HEADER - READ_RESULTS
    return [[header(BARE) + read_of(fh, length).hex()] for length in (most, most + 4)]


@test(
    "private data of the request: {title}",
    *(
        "PD-1",
        "PD-2",
        "PD-3",
        "PD-4",
        "PD-5",
        "PD-6",
        "PD-18",
        "PD-20",
        "PD-22",
        "PD-25",
        "PD-32",
        "V1-38",
        "V1-54",
        "V1-56",
    ),
    *sorted({requirement for _, _, requirements, _, _ in REQUESTS for requirement in requirements}),
    server="ours",
    device="rxe",
    allowed=(r"rxe0: .*",),
    cases=[
        {"title": title, "data": data, "longest": longest, "invalidates": invalidates}
        for title, data, _, longest, invalidates in REQUESTS
    ],
)
def private_data(pair: Pair, title: str, data: str, longest: int, invalidates: bool) -> None:
    """Whatever it is, the connection is made. The capture shows the server's own, the longest reply, and R obeyed."""
    fh, content = export_file(pair, 4096)
    read = read_of(fh, 500).hex()
    one = header(words(0, 1, 1).hex() + segment(500) + words(0, 0).hex()) + read
    # Two handles, of which one is not used.
    two = header(words(0, 1, 1).hex() + segment(500) + words(0, 1, 1).hex() + segment(9, "0badbad0")) + read
    order = {
        "private_data": data,
        "memory": bytes(500).hex(),
        "exchanges": [*longest_replies(fh, longest), [two], [one]],
    }
    with capturing(pair.client, "private-data") as capture:
        (found,) = carried_out(pair, order)
    replies = [bytes.fromhex(reply) for exchange in found["exchanges"] for reply in exchange]
    assert replies[0][REPLY_HEADER + READ_RESULTS :] == content[: longest - REPLY_HEADER - READ_RESULTS], title
    assert without_credits(replies[1]) == rejection(XID, 1, *CHUNK), f"{title}: {found}"
    # User space has no memory that rxe would let a peer invalidate: its connection ends with that.
    assert ("failed" in found) == invalidates, f"{title}: {found}"
    handle = found["handle"] if invalidates else ""
    expected = [Sent(longest), Sent(20), Sent(72 + READ_RESULTS, "", 500), Sent(52 + READ_RESULTS, handle, 500)]
    assert sends(capture, SERVER.ipv4) == expected, f"{title}: {sends(capture, SERVER.ipv4)}"
    fields = ("private", "initdepth", "respres")
    ((own, reads, read_by),) = capture.decode("infiniband.cm.rep", *(f"infiniband.cm.rep.{field}" for field in fields))
    assert own == "f6ab0e1801010303".ljust(2 * REPLY_FIELD, "0"), f"{title}: {own}"
    # As many RDMA Reads at a time as the client takes, and none of the client's.
    assert (int(reads, 0), int(read_by, 0)) == (1, 0), f"{title}: {reads}, {read_by}"


@test("a device of the server that invalidates nothing", "PD-24", "PD-28", server="ours", device="rxe")
def no_invalidation(pair: Pair) -> None:
    """The server says so, and its replies are plain Sends."""
    fh, content = export_file(pair, 500)
    one = header(words(0, 1, 1).hex() + segment(500) + words(0, 0).hex()) + read_of(fh, 500).hex()
    with faults(pair, "mem_mgt=0", pair.server), capturing(pair.client, "no-invalidation") as capture:
        (found,) = carried_out(pair, {"private_data": TAKES, "memory": bytes(500).hex(), "exchanges": [[one]]})
        pair.server.run(RESTART)
    assert found["private_data"][:16] == REFUSES and bytes.fromhex(found["memory"]) == content, found
    assert sends(capture, SERVER.ipv4) == [Sent(52 + READ_RESULTS, "", 500)], sends(capture, SERVER.ipv4)


SIZES_OF_ENDS = [(1024, 262144), (8192, 8192), (65536, 262144), (262144, 65536), (262144, 262144)]


@test(
    "inline sizes: {own} of the server, {peer} of the client, R {remote}",
    *("PD-8", "PD-9", "PD-10", "PD-13", "PD-15", "PD-18", "PD-28", "PD-50", "V1-14", "V1-33", "V1-42"),
    server="ours",
    device="rxe",
    cases=[{"own": own, "peer": peer, "remote": int(own != peer)} for own, peer in SIZES_OF_ENDS],
)
def inline_sizes(pair: Pair, own: int, peer: int, remote: int) -> None:
    """The first message is as long as the server announces to receive, and replies as long as both ends allow."""
    fh, _ = export_file(pair, 262144)
    longest = min(own, peer)
    size = own - REPLY_HEADER - len(call(WRITE, fh + words(0, 0, 0, 2, 0)))
    data = bytes(at * 11 % 249 for at in range(size))
    # nfsd would not execute the call of an earlier test again.
    xid = random.getrandbits(32)
    write = header(BARE, xid=xid) + call(WRITE, fh + words(0, 0, size, 2, size) + data, xid).hex()
    # A client that takes invalidation, of a server that does not do it.
    one = header(words(0, 1, 1).hex() + segment(500) + words(0, 0).hex()) + read_of(fh, 500).hex()
    order = {
        "private_data": f"f6ab0e180101{size_byte(262144)}{size_byte(peer)}",
        "memory": bytes(500).hex(),
        "receives": 16,
        "size": 262144,
        "exchanges": [[write], *longest_replies(fh, longest), *([] if remote else [[one]])],
    }
    with (
        parameters(pair, pair.server, server_inline=own, remote_invalidation=remote),
        capturing(pair.client, f"sizes-{own}-{peer}") as capture,
    ):
        (found,) = carried_out(pair, order)
    assert "failed" not in found, found
    assert status(found["exchanges"][0][0]) == (wire.SUCCESS, 0), found["exchanges"][0]
    written = pair.server.run(f"head -c {size} /export/chunks | sha256sum").out.split()[0]
    assert written == hashlib.sha256(data).hexdigest(), "other bytes were written"
    lengths = [sent.length for sent in sends(capture, SERVER.ipv4)]
    assert lengths[1:3] == [longest, 20], lengths
    assert not any(sent.handle for sent in sends(capture, SERVER.ipv4)), sends(capture, SERVER.ipv4)
    assert sends(capture, CLIENT.ipv4)[0].length == own, sends(capture, CLIENT.ipv4)
    said = found["private_data"][:16]
    assert said == f"f6ab0e1801{remote:02x}{size_byte(own) * 2}", said


@test(
    "sizes that change during a connection",
    "PD-17",
    "PD-19",
    "PD-20",
    "V1-44",
    server="ours",
    client="ours",
    device="rxe",
)
def changed(pair: Pair) -> None:
    """A connection keeps its terms; the next one has others."""

    def longest(connection: str) -> int:
        with capturing(pair.client, f"changed-{connection}") as capture:
            pair.drop_caches()
            pair.client.run(f"dd if={MOUNT_POINT}/chunks of=/dev/null iflag=direct bs=3000 status=none")
        return max(sent.length for sent in sends(capture, SERVER.ipv4))

    export_file(pair, 3000)
    pair.mount("3")
    with rule(pair.server, "smaller", side="server", peer=CLIENT.ipv4, inline_send=2048, inline_receive=1024):
        assert longest("first") > 3000, "the connection sends less than before"
        pair.umount()
        pair.mount("3")
        assert longest("second") <= 2048, "the next connection sends more than it announces"
        pair.umount()


@test("a connection with few calls", "V1-34", server="ours", device="rxe")
def first_buffers(pair: Pair) -> None:
    """It keeps the buffers that it began with."""

    def memory(*exchanges: list[str]) -> int:
        shown: list[str] = []
        count = sum(map(len, exchanges))

        def look() -> None:
            def served() -> bool:
                shown.append(pair.server.run("cat /sys/kernel/debug/rpcrdma_rs/svc-* 2>/dev/null || true").out)
                return f"\ncalls {count}\n" in shown[-1]

            wait_until(served, f"not {count} calls", 20 * pair.options.slowness)
            # The worker that allocates more would have been queued by the calls.
            pair.server.run("sleep 0.3")
            served()

        carried_out(pair, {"receives": 128, "exchanges": [*exchanges, MEANWHILE]}, until=look)
        return int(re.search(r"^memory (\d+) KiB", shown[-1], re.M)[1])

    assert memory(*([null(XID + number, credits=128).hex()] for number in range(3))) == memory()
