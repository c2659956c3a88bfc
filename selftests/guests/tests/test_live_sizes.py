# SPDX-License-Identifier: GPL-2.0
"""Sizes that change while a connection of version 2 is in use: without a reconnect, under verified load.

The administrator of either end requests a change in the file of a connection, which shows the sizes of both ends.
"""

from __future__ import annotations

import re
import time

from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.capture import capturing
from guests.lib.live import LARGE, SMALL, data_goes_both_ways, ends, request, segments_written, shown, some_calls, until
from guests.lib.messages import messages, too_long
from guests.lib.mountstats import transport
from guests.lib.requester import MEANWHILE, TAKES, carried_out, null
from guests.lib.rules import ROOT, rule
from guests.lib.sight import DIRECTORY, served
from guests.lib.steady import Writer
from guests.peer import wire
from guests.peer.wire import words


CHANGES = [
    # The end that requests it, the change, and the file and line that show its effect.
    ("client", "receive-size", 0, "receive_size"),
    ("client", "peer-receive-size", 0, "peer_receive_size"),
    ("server", "receive-size", 1, "receive_size"),
    ("server", "peer-receive-size", 1, "peer_receive_size"),
]


@test(
    "the {end} requests {change}, vers={vers}",
    *("XC-50", "XC-53", "XC-58", "XC-60", "XC-62", "XC-68", "XC-70", "XC-90", "XC-92", "XC-103"),
    server="ours",
    cases=[{"end": end, "change": change, "vers": vers} for end, change, *_ in CHANGES for vers in ("3", "4.2")],
    limit=120,
)
def grows(pair: Pair, end: str, change: str, vers: str) -> None:
    """The size grows on the same connection, both ends know it, and what fits goes without chunks from then on."""
    guest = pair.client if end == "client" else pair.server
    shows, line = next((shows, line) for of, name, shows, line in CHANGES if (of, name) == (end, change))
    with ends(pair, vers):
        data_goes_both_ways(pair, 10000)
        before = transport(pair.client, MOUNT_POINT)["connect_count"]
        reads, writes = segments_written(pair)
        assert reads and writes, "a file of 10000 bytes went without chunks"
        request(guest, f"{change}={LARGE}")
        until(pair, shows, line, str(LARGE))
        other = 1 - shows
        until(pair, other, "peer_receive_size" if line == "receive_size" else "receive_size", str(LARGE))
        for size in (10000, 100, 60000, 300000):
            data_goes_both_ways(pair, size)
        client, server = shown(pair)
        assert client["odd_operations"] == server["odd_operations"] == "0", (client, server)
        # Calls to the server, or replies to the client, are as long now.
        of_client = (end, change) in (("client", "receive-size"), ("server", "peer-receive-size"))
        raised = ("inline_reply", client) if of_client else ("inline_call", client)
        if (end, change) != ("client", "receive-size"):
            assert raised[1][raised[0]].split()[0] == str(LARGE), client
            reads, writes = segments_written(pair)
            data_goes_both_ways(pair, 10000)
            now = segments_written(pair)
            assert now[1 if of_client else 0] == (writes if of_client else reads), (reads, writes, now)
        assert transport(pair.client, MOUNT_POINT)["connect_count"] == before, "the connection was remade"


@test("sizes that are refused", "XC-23", "XC-71", "XC-92", "XC-95", server="ours", limit=90)
def refused(pair: Pair) -> None:
    """Each end refuses what the documents or the policy do not permit, and tells why."""
    with ends(pair, "4.2", most=8192):
        some_calls(pair)
        for guest, change, why in (
            (pair.client, "receive-size=1024", "not permitted"),
            (pair.server, "receive-size=1024", "not permitted"),
            (pair.server, "peer-receive-size=1024", "nvalid"),
            (pair.client, "receive-size=262145", "nvalid"),
            (pair.client, "receive-size", "nvalid"),
            (pair.client, "size=4096", "nvalid"),
        ):
            assert why in request(guest, change, check=False), (change, request(guest, change, check=False))
        # More than the other end permits: rejected, and nothing changes.
        for guest in pair.guests:
            request(guest, f"peer-receive-size={LARGE}")
        for end in (0, 1):
            until(pair, end, "peer_receive_size", str(SMALL))
        for end in (0, 1):
            assert shown(pair)[end]["receive_size"] == str(SMALL)
    # Version 1 has no sizes that change.
    pair.mount("4.2")
    assert "not supported" in request(pair.client, "receive-size=8192", check=False)
    pair.umount()


@test("a size returns", "XC-72", "XC-93", "XC-97", server="ours", limit=180)
def returns(pair: Pair) -> None:
    """The client has the server's Receives made larger, and small again; the memory returns."""

    def memory(end: int) -> int:
        found = re.match(r"(\d+) KiB", shown(pair)[end]["memory"])
        assert found
        return int(found[1])

    with ends(pair, "3"):
        some_calls(pair)
        before = [memory(end) for end in (0, 1)]
        for _ in range(max(3, pair.options.rounds)):
            request(pair.client, f"peer-receive-size={LARGE}")
            until(pair, 0, "inline_call", f"{LARGE} limited by both")
            data_goes_both_ways(pair, 300000)
            grown = [memory(end) for end in (0, 1)]
            assert grown[0] > before[0] and grown[1] > before[1], (before, grown)
            request(pair.client, f"peer-receive-size={SMALL}")
            until(pair, 0, "peer_receive_size", str(SMALL))
            until(pair, 1, "receive_size", str(SMALL))
            data_goes_both_ways(pair, 300000)

            def is_small() -> bool:
                some_calls(pair)
                return memory(0) <= 2 * before[0] and memory(1) <= 2 * before[1]

            wait_until(is_small, f"the memory does not return: {before}", 60 * pair.options.slowness)
            small = [memory(end) for end in (0, 1)]
    print(f"# KiB of buffers, client and server: {before} in use, {grown} grown, {small} small again")


@test("chunks that growth saves", "XC-69", "XC-89", "XC-103", server="ours", limit=120)
def saves(pair: Pair) -> None:
    """Calls and replies that went in chunks need none: the segments that a hundred files take, written and read."""
    name, count, size = f"{MOUNT_POINT}/saved", 100, 8000

    def segments() -> tuple[int, ...]:
        before = segments_written(pair)
        each = f"for n in $(seq {count})"
        pair.client.run(f"{each}; do head -c {size} /dev/urandom >{name}-$n; done", 60)
        pair.drop_caches()
        pair.client.run(f"{each}; do cat {name}-$n; done >/dev/null; rm {name}-*", 60)
        return tuple(now - then for now, then in zip(segments_written(pair), before, strict=True))

    with ends(pair, "3"):
        some_calls(pair)
        small = segments()
        request(pair.client, f"peer-receive-size={LARGE}")
        until(pair, 0, "inline_call", f"{LARGE} limited by both")
        request(pair.server, f"peer-receive-size={LARGE}")
        until(pair, 0, "receive_size", str(LARGE))
        until(pair, 0, "inline_reply", f"{LARGE} limited by both")
        large = segments()
    print(f"# segments of {count} files of {size} bytes, written and read: {small} before, {large} after")
    assert small[0] >= count and small[1] >= count and large == (0, 0), (small, large)


# Writes files and reads them back, so that all credits are in use; the last line is the number of wrong files.
BUSY = f"""
work() {{
    while [ ! -e /tmp/enough ]; do
        head -c $(($1 * 7001)) /dev/urandom >/tmp/busy-$1
        cp /tmp/busy-$1 {MOUNT_POINT}/busy-$1
        ls -l {MOUNT_POINT} >/dev/null
        cmp /tmp/busy-$1 {MOUNT_POINT}/busy-$1 || echo wrong
    done
}}
rm -f /tmp/enough
for n in $(seq 8); do work $n & done
wait
"""


@test(
    "{credits} credits, and changes under load",
    *("XC-53", "XC-90", "XC-97", "XC-101", "V2-59"),
    server="ours",
    limit=600,
    cases=[{"credits": 128}, {"credits": 4}],
)
def many(pair: Pair, credits: int) -> None:
    """The sizes of both ends change again and again, up and down, while data are written and verified.

    A message that is longer than the Receive that it meets would end the connection. --rounds 40 makes over 1,000 changes.
    """
    turns = pair.options.scaled(12 * max(2, pair.options.rounds), 12)
    changes, seen = 0, set()
    with ends(pair, "4.2", credits=credits):
        before = transport(pair.client, MOUNT_POINT)["connect_count"]
        writer = Writer(pair)
        busy = pair.client.spawn(BUSY)
        sizes = (SMALL, 8192, 16384, LARGE)
        for turn in range(turns):
            size = sizes[turn % 4]
            # One that comes while an earlier one is not over may be refused.
            for guest, change in (
                (pair.client, f"peer-receive-size={size}"),
                (pair.client, f"receive-size={sizes[min(3, 4 * turn // turns)]}"),
                (pair.server, f"peer-receive-size={sizes[min(3, 1 + 4 * turn // turns)]}"),
            ):
                changes += not request(guest, change, check=False)
            writer.wait_beyond(writer.written() + 1)
            seen.add(shown(pair)[0]["peer_receive_size"].split()[0])
        pair.client.run("touch /tmp/enough")
        assert "wrong" not in pair.client.finish(busy, "the busy ones", 120).out
        writer.finish()
        client, server = shown(pair)
        assert client["odd_operations"] == server["odd_operations"] == "0", (client, server)
        assert transport(pair.client, MOUNT_POINT)["connect_count"] == before, "the connection was remade"
        assert len(seen) >= 3 and client["receive_size"] == str(LARGE), (seen, client)
    print(f"# {changes} changes, and the server's sizes {' '.join(sorted(seen, key=int))}")


# Bytes of a frame that have all headers, and operations whole. Half an hour of whole frames has ten gigabytes.
HEADERS = 384


@test(
    "no message is longer than what its receiver has told, {credits} credits",
    *("XC-60", "XC-70", "XC-72", "XC-97"),
    server="ours",
    device="rxe",
    limit=900,
    cases=[{"credits": 128}, {"credits": 4}],
)
def captured(pair: Pair, credits: int) -> None:
    """
    A capture of changes up and down in both directions, under load, taken apart by a dissector that is not ours. Now and then
    the connection is made anew, or idle for a moment. --rounds 100 requests over 1,000 changes, in half an hour.
    """
    turns = 8 * pair.options.rounds
    with ends(pair, "3", credits=credits), capturing(pair.client, f"live-sizes-{credits}", HEADERS) as capture:
        writer = Writer(pair)
        some_calls(pair, 10)
        for turn in range(turns):
            match turn % 16:
                case 7:
                    pair.client.run(f"echo 1 >{ROOT}/live/reconnect")
                case 15:
                    writer.finish()
                    time.sleep(1)
                    writer = Writer(pair)
            size = (LARGE, SMALL, 16384, SMALL)[turn % 4]
            for guest in pair.guests:
                request(guest, f"peer-receive-size={size}", check=False)
            some_calls(pair, 20)
            data_goes_both_ways(pair, 12000)
        writer.finish()
    found = messages(capture)
    operations = [message.operation for message in found if message.operation]
    longest = {end: max(message.length for message in found if message.source == end.ipv4) for end in (CLIENT, SERVER)}
    changes = len([message for message in found if message.operation == "REQXCH" and message.rbsiz])
    connections = len({message.queue_pair for message in found if message.source == CLIENT.ipv4})
    print(
        f"# {len(found)} messages on {connections} connections, {changes} changes requested, longest {[*longest.values()]}"
    )
    assert connections == 1 + turns // 16 + (turns % 16 > 7), connections
    assert not [message for message in found if message.note], found
    assert operations.count("UPDXCH") >= 4 and operations.count("REQXCH") >= 8, operations
    assert all(length > SMALL for length in longest.values()), longest
    assert not [*too_long(found, SMALL)]


# Usage: READING, with the number of readers in READERS. The status is that of a reader that failed, if any did.
READING = f"""
reads() {{
    while [ ! -e /tmp/enough ]; do
        dd if={MOUNT_POINT}/data of=/dev/null iflag=direct bs=4k status=none || return
    done
}}
rm -f /tmp/enough
for n in $(seq $READERS); do reads & done
for job in $(jobs -p); do wait $job || exit; done
"""


@test(
    "no call fails while sizes grow, requested by {who}, {readers} readers",
    *("XC-70", "XC-89", "XC-103", "V2-59"),
    server="ours",
    limit=120,
    cases=[
        {"who": "both", "readers": 1},
        {"who": "server", "readers": 1},
        {"who": "client", "readers": 1},
        {"who": "both", "readers": 12},
    ],
)
def unharmed(pair: Pair, who: str, readers: int) -> None:
    """A client relies on a size that the server has requested: its replies have to be as long from then on.

    Many readers use all four credits all the time, and a change gets one nevertheless.
    """
    pair.server.run("head -c 16M /dev/urandom >/export/data")
    for _ in range(max(2, pair.options.rounds)):
        with ends(pair, "3", most=16384, credits=4):
            limit = 30 * pair.options.slowness
            reader = pair.client.spawn(f"READERS={readers}{READING}")
            wait_until(lambda: int(shown(pair)[1]["calls"]) > 500, "nothing is read", limit)
            for guest in pair.guests:
                if who in ("both", guest.name):
                    request(guest, "peer-receive-size=16384")
            # The reads are all calls that there are, so that one of them is the first to rely on each size.
            for end in {"both": (0, 1), "server": (1,), "client": (0,)}[who]:
                wait_until(
                    lambda end=end: shown(pair)[end]["peer_receive_size"] == "16384", "the size does not grow", limit
                )
            pair.client.run("touch /tmp/enough")
            pair.client.finish(reader, "the reader", 60)
            client, server = shown(pair)
            assert client["header_errors"] == server["header_errors"] == "0", (client, server)


TRACING = "/sys/kernel/tracing"
EVENT = f"{TRACING}/events/rpcrdma_rs/*_operation/enable"


@test("trace events of operations", "XC-49", "XC-53", server="ours", limit=90)
def traced(pair: Pair) -> None:
    """Each end traces what it sends and gets of a change, with the sizes of both ends after it."""
    with ends(pair, "4.2"):
        for guest in pair.guests:
            guest.run(f"mountpoint -q {TRACING} || mount -t tracefs tracefs {TRACING}")
            guest.run(f"echo >{TRACING}/trace; for file in {EVENT}; do echo 1 >$file; done")
        request(pair.client, f"peer-receive-size={LARGE}")
        until(pair, 0, "peer_receive_size", str(LARGE))
        traces = []
        for guest in pair.guests:
            guest.run(f"for file in {EVENT}; do echo 0 >$file; done")
            text = guest.run(f"cat {TRACING}/trace").out
            traces.append(
                re.findall(r"_operation: xprt=\d+ xid=(\w+) (\w+ \w+) receive_size=(\d+) peer_receive_size=(\d+)", text)
            )
    server, client = traces
    (request_xid,) = {xid for xid, what, *_ in server if what == "RESPXCH sent"} & {
        xid for xid, what, _, peer in client if (what, peer) == ("RESPXCH received", str(SMALL))
    }
    (update_xid,) = {xid for xid, what, *_ in server if what == "UPDXCH sent"}
    small, large = str(SMALL), str(LARGE)
    assert {
        (request_xid, "REQXCH sent", small, small),
        (request_xid, "RESPXCH received", small, small),
        (update_xid, "UPDXCH received", small, large),
    } <= {*client}, client
    assert {
        (request_xid, "REQXCH received", small, small),
        (request_xid, "RESPXCH sent", small, small),
        (update_xid, "UPDXCH sent", large, small),
    } <= {*server}, server


@test("changes and disconnects", "XC-104", server="ours", limit=600)
def disconnects(pair: Pair) -> None:
    """A connection that ends in the middle of a change loses no call; its successor begins with the sizes of the policy."""
    with ends(pair, "3"):
        writer = Writer(pair)
        before = transport(pair.client, MOUNT_POINT)["connect_count"]
        turns = 5 * max(2, pair.options.rounds)
        for turn in range(turns):
            request(pair.client, f"peer-receive-size={LARGE}")
            request(pair.client, f"receive-size={LARGE}")
            # In each phase of the change.
            for _ in range(turn % 5):
                writer.wait_beyond(writer.written() + 3)
            pair.client.run("echo 1 >/sys/kernel/config/rpcrdma_rs/live/reconnect")
            made = before + turn + 1
            wait_until(
                lambda made=made: transport(pair.client, MOUNT_POINT)["connect_count"] >= made,
                "no other connection was made",
                30 * pair.options.slowness,
            )
            writer.wait_beyond(writer.written() + 1)
        writer.finish()


@test("a change and the next connection", "XC-104", server="ours", limit=90)
def forgotten(pair: Pair) -> None:
    """A change does not outlive its connection: the next one begins with the sizes of the policy."""
    with ends(pair, "4.2"):
        request(pair.client, f"peer-receive-size={LARGE}")
        until(pair, 0, "peer_receive_size", str(LARGE))
        pair.client.run("echo 1 >/sys/kernel/config/rpcrdma_rs/live/reconnect")
        until(pair, 0, "peer_receive_size", str(SMALL))
        data_goes_both_ways(pair, 10000)


TIMES = 1000


def update(xid: int, size: int) -> bytes:
    """An UPDXCH for the size."""
    return wire.optional(xid, 32, wire.CALL, wire.UPDXCH, words(wire.RBSIZ, 4, size, 0))


def want(xid: int, size: int) -> bytes:
    """A REQXCH for the size."""
    return wire.optional(xid, 32, wire.CALL, wire.REQXCH, wire.characteristics((wire.RBSIZ, size)))


@test(
    "a client that changes its mind, by {operation}",
    *("XC-60", "XC-74", "XC-94", "XC-101", "XC-102"),
    server="ours",
    limit=120,
    cases=[{"operation": "updates"}, {"operation": "requests"}],
)
def fickle(pair: Pair, operation: str) -> None:
    """A thousand changes up and down: each is taken, calls are served among them, and the memory stays within bounds."""
    operate = {"updates": update, "requests": want}[operation]
    init = wire.characteristics((wire.RBSIZ, SMALL)) + words(0)
    call = null()[28:]

    def two(xid: int) -> bytes:
        return wire.msg(xid, 32, words(xid) + call[4:], vers=2, direction=wire.CALL)

    changes = [operate(0x5000 + number, (LARGE, SMALL)[number % 2]) for number in range(TIMES)]
    # Ten changes, and a call.
    turns = [[*changes[at : at + 10], two(0x9000 + at)] for at in range(0, TIMES, 10)]
    exchanges = [[two(0x1001)], [wire.optional(0x2001, 32, wire.CALL, wire.INITXCH, init), two(0x2002)], *turns]
    seen: list[dict[str, str]] = []

    def look() -> None:
        """Waits until all are served."""
        all_served = f"grep -qx 'calls {len(exchanges)}' {DIRECTORY}/svc-*"
        wait_until(lambda: pair.server.run(all_served, check=False).rc == 0, "not all is served", 100)
        seen.extend(served(pair.server))

    with rule(pair.server, "live", side="server", peer=CLIENT.ipv4, version="2", inline_max=LARGE):
        order = {
            "private_data": TAKES,
            "exchanges": [*[[message.hex() for message in some] for some in exchanges], MEANWHILE, [two(0xA000).hex()]],
        }
        (found,) = carried_out(pair, order, until=look)
    assert "failed" not in found, found
    assert len(found["exchanges"]) == len(exchanges) + 1 and all(found["exchanges"]), found
    (server,) = seen
    memory = int(server["memory"].split()[0])
    assert memory <= 20480, server["memory"]
    if operation == "updates":
        assert server["peer_receive_size"] == str(SMALL), server
        # That a size falls which nothing was requested for is counted, each time.
        assert int(server["odd_operations"]) >= TIMES // 2, server
    else:
        # A request for the size in force, while growth is pending, changes nothing.
        assert server["receive_size"].split()[0] in (str(SMALL), str(LARGE)), server
