# SPDX-License-Identifier: GPL-2.0
"""Many clients at once that use the server badly, and one beside them that notices little of it.

The good client is a mount that writes records and looks up names during the storm. Afterwards its records are whole, and the
server has nothing of the storm. --rounds 40 repeats each storm twenty times, but for flaps of the link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.guest import Guest
from guests.harness.network import CLIENT
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair, wait_until
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.connecting import PROVOKED
from guests.lib.crowd import Crowd
from guests.lib.leftovers import connections, nothing_left
from guests.lib.mountstats import transport
from guests.lib.nfsd import LINK_UP, START
from guests.lib.parameters import parameters
from guests.lib.requester import BARE, GETATTR, call, export_file, header, read_list, read_of, segment
from guests.lib.rules import rule
from guests.lib.sight import ends, served
from guests.lib.steady import Writer
from guests.peer import wire
from guests.peer.wire import words

QUIET = "/tmp/probe.enough"
# The server's device, about memory and queue pairs of clients that are gone.
DEVICE = (r"rxe0: .*", r"make_send_cqe: .*")
MEMORY = 65536
# KiB: a hundred connections and more leave pages of the allocator in partial use; the buffers of one have 200.
SLACK = 6144
STAYS = ("half-open", "silent", "deaf")
STORMS = {"calls": 500, "half-open": 100, "silent": 200, "killed": 20, "overrun": 10, "deaf": 20}


class Probe:
    """Names that are looked up over the good mount."""

    def __init__(self, pair: Pair):
        self._pair = pair
        pair.client.run(f"rm -f {QUIET}")
        self._job = pair.client.spawn(f"python3 -I -S /share/tools/probe.py {MOUNT_POINT} {QUIET}")

    def finish(self) -> list[int]:
        """The number of names, and milliseconds: median, 99th percentile and longest."""
        self._pair.client.run(f"touch {QUIET}")
        return [int(word) for word in self._pair.client.finish(self._job, "the probe", 120).out.split()]


def names(pair: Pair, times: list[list[int]], limit: int) -> str:
    """The worst of some probes: 99 % of the names within `limit` milliseconds."""
    _, middle, most, longest = (max(column) for column in zip(*times, strict=True))
    assert most <= limit * pair.options.slowness, times
    return f"names looked up, ms: half within {middle}, 99 % within {most}, longest {longest}"


def messages(pair: Pair) -> list[str]:
    """Calls whose data nfsd reads from the client's memory, and writes to it."""
    fh, _ = export_file(pair, MEMORY)
    reads = [
        header(words(0, 1, 1).hex() + segment(MEMORY) + words(0, 0).hex(), xid=0x2000 + number)
        + (words(0x2000 + number).hex() + read_of(fh, MEMORY).hex()[8:])
        for number in range(4)
    ]
    long_calls = [
        header(read_list((0, segment(MEMORY))) + BARE[8:], wire.RDMA_NOMSG, xid=0x3000 + number) for number in range(4)
    ]
    return [*reads, *long_calls]


def kept(pair: Pair, connects: int) -> None:
    """The good client has made no other connection."""
    assert transport(pair.client, MOUNT_POINT)["connect_count"] == connects, (
        f"the good client has lost its connection: {ends(pair.client, NFS_PORT)}"
    )


def rounds(pair: Pair) -> range:
    """The times that each storm comes."""
    return range(max(1, pair.options.rounds // 2))


def no_thread_hangs(pair: Pair) -> None:
    """No thread of the server sleeps for good."""
    look = "for file in /proc/[0-9]*/stat; do cat $file 2>/dev/null; done | sed -n 's/.*(\\(nfsd\\|k*worker.*\\)) D .*/\\1/p'"
    wait_until(lambda: not pair.server.run(look).out.strip(), "a thread hangs", 10 * pair.options.slowness)


@test(
    "{count} clients: {kind}",
    *("H-101", "H-104", "H-111", "H-125", "H-139", "H-149", "V1-121"),
    server="ours",
    device="rxe",
    limit=300,
    allowed=(*DEVICE, r"refused: too many requests wait"),
    cases=[{"kind": kind, "count": count} for kind, count in STORMS.items()],
)
def storm(pair: Pair, kind: str, count: int) -> None:
    """The good client goes on, no thread hangs, and the server has nothing of them when they are gone."""
    stays = kind in STAYS
    limit = 60 * pair.options.slowness
    orders = {"memory": bytes(MEMORY).hex(), "messages": messages(pair)}
    pair.mount("3")
    before = transport(pair.client, MOUNT_POINT)["connect_count"]
    probe = Probe(pair)
    Writer(pair).finish()
    calm = probe.finish()
    found, recoveries, times = {}, [], []
    # The first of a boot fills caches.
    first = Crowd(pair, kind, count, **orders)
    _ = first.finish() if stays else first.wait()
    with nothing_left(pair, others=1, slack=SLACK):
        for _ in rounds(pair):
            probe, writer = Probe(pair), Writer(pair)
            crowd = Crowd(pair, kind, count, **orders)
            if stays:
                wait_until(lambda: connections(pair) > min(count // 2, 50), "too few are there", limit)
                writer.wait_beyond(writer.written() + 20)
            found = crowd.finish() if stays else crowd.wait()
            recoveries.append(wait_until(lambda: connections(pair) == 1, "connections are left", limit))
            writer.finish()
            times.append(probe.finish())
        no_thread_hangs(pair)
    kept(pair, before)
    pair.umount()
    print(
        f"# {found}; gone within {max(recoveries):.1f} s; names looked up (number, ms): calm {calm}, storm {times[-1]}"
    )
    if kind == "calls":
        # sunrpc keeps 64 connections that have yet to prove themselves, and ends the oldest beyond.
        assert found["established"] + found["rejected"] == count and found["replies"] >= 64, found
        # Of requests that come at once 64 wait for a thread.
        assert found["rejected"], found
    elif kind == "overrun":
        assert found["replies"] >= count, found
    # Milliseconds: of 100 names 99 take no longer than ten times as long as without the storm, or half a second.
    for at, factor, least in ((-2, 10, 500), (-1, 20, 5000)):
        worst = max(each[at] for each in times)
        assert worst <= max(factor * calm[at], least * pair.options.slowness), (calm, times)


@test(
    "{count} clients at a time, each with a good call",
    "H-111",
    "H-139",
    server="ours",
    device="rxe",
    limit=300,
    allowed=DEVICE,
    cases=[{"count": 1000}],
)
def proven(pair: Pair, count: int) -> None:
    """All of them stay while they like, and their memory returns each time."""
    count = pair.options.scaled(count, 100)
    fh, _ = export_file(pair, MEMORY)
    limit = 120 * pair.options.slowness
    orders = {"messages": [header(BARE) + call(GETATTR, fh).hex()]}
    held, recoveries = [], []

    def stay() -> None:
        before = sum(resources.memory(pair.server).values())
        crowd = Crowd(pair, "proven", count, **orders)
        wait_until(lambda: connections(pair) == count, "not all are there", limit)
        held.append(sum(resources.memory(pair.server).values()) - before)
        found = crowd.finish()
        assert found["replies"] == found["ended"] == count, found
        recoveries.append(wait_until(lambda: connections(pair) == 0, "connections are left", limit))

    with parameters(pair, pair.server, server_memory=512 << 10):
        # The first of a boot fills caches.
        stay()
        with nothing_left(pair, slack=SLACK):
            for _ in range(4):
                stay()
    print(f"# {count} connections, {len(held)} times: {held} KiB, gone within {max(recoveries):.1f} s")


# In front of any traffic: a queue that is replaced refuses packets, and soft-RoCE ends each queue pair for that, the one of the
# connection manager as well.
QUEUE = "tc qdisc add dev eth0 root netem limit 100000"


def end_forsaken(pair: Pair) -> None:
    """Ends the connections whose only request to disconnect was lost with the link, for which sunrpc takes minutes. The good
    client makes its own again with the next call."""
    with rule(pair.server, "forsaken", side="server", peer=CLIENT.ipv4) as all_of_them:
        all_of_them.reconnect()
    pair.client.run(f"mkdir {MOUNT_POINT}/last; rmdir {MOUNT_POINT}/last", 60)


@contextmanager
def loss(ends: list[Guest], percent: int) -> Iterator[None]:
    """Frames of both directions are lost inside the block."""
    for end in ends:
        end.run(f"tc qdisc change dev eth0 root netem limit 100000 loss {percent}%")
    yield
    for end in ends:
        end.run("tc qdisc change dev eth0 root netem limit 100000 loss 0%")


@test(
    "5 % of the frames are lost, {count} clients with a good call",
    *("H-111", "H-149", "V1-122"),
    server="ours",
    device="rxe",
    limit=300,
    allowed=(*DEVICE, *PROVOKED),
    cases=[{"count": 50}],
)
def lossy(pair: Pair, count: int) -> None:
    """Connections may be lost; the data of the good client are whole, and nothing is left."""
    fh, _ = export_file(pair, MEMORY)
    orders = {"messages": [header(BARE) + call(GETATTR, fh).hex()]}
    for end in pair.guests:
        end.run(QUEUE)
    pair.mount("3", "timeo=50,retrans=2")
    before, times = transport(pair.client, MOUNT_POINT)["connect_count"], []
    with nothing_left(pair, others=1, slack=SLACK):
        for _ in rounds(pair):
            probe, writer = Probe(pair), Writer(pair)
            with loss(pair.guests, 5):
                found = Crowd(pair, "proven", count, **orders).finish()
                writer.wait_beyond(writer.written() + 20)
            writer.finish()
            times.append(probe.finish())
            assert found["replies"] >= count // 2, found
        no_thread_hangs(pair)
        end_forsaken(pair)
    lost = transport(pair.client, MOUNT_POINT)["connect_count"] - before
    print(f"# {found}; {lost} connections lost; {names(pair, times, 5000)}")
    pair.umount()
    for end in pair.guests:
        end.run("tc qdisc del dev eth0 root")


# A count of soft-RoCE: packets that have been sent again because no acknowledgement came.
REPEATS = "/sys/class/infiniband/rxe0/ports/1/hw_counters/completer_retry_err"


@test(
    "the link goes down {flaps} times, {count} clients with a good call",
    *("H-111", "H-149", "V1-122"),
    server="ours",
    device="rxe",
    limit=300,
    allowed=(*DEVICE, *PROVOKED),
    cases=[{"flaps": 5, "count": 50}],
)
def flapping(pair: Pair, flaps: int, count: int) -> None:
    """Each time until a device repeats what it has sent; the good client's data are whole, and nothing is left.

    The network device of a native guest may stop after some dozens of flaps: no more than --rounds 4 for each boot.
    """
    fh, _ = export_file(pair, MEMORY)
    orders = {"messages": [header(BARE) + call(GETATTR, fh).hex()]}
    pair.mount("3", "timeo=50,retrans=2")

    def repeats() -> int:
        return sum(int(end.run(f"cat {REPEATS}").out) for end in pair.guests)

    times = []
    with nothing_left(pair, others=1, slack=SLACK):
        for _ in rounds(pair):
            probe, writer = Probe(pair), Writer(pair)
            crowd = Crowd(pair, "proven", count, **orders)
            for _ in range(flaps):
                with pair.unplugged():
                    before = repeats()
                    wait_until(lambda: repeats() > before, "nothing is repeated", 20 * pair.options.slowness)
                writer.wait_beyond(writer.written() + 20)
            found = crowd.finish()
            writer.finish()
            times.append(probe.finish())
            assert found["replies"] >= count // 2, found
        no_thread_hangs(pair)
        end_forsaken(pair)
    print(f"# {found}; {names(pair, times, 1000)}")
    pair.umount()


@test(
    "the device goes away while {count} clients connect",
    *("H-101", "H-109", "H-149"),
    server="ours",
    device="rxe",
    limit=300,
    allowed=(*DEVICE, *PROVOKED, r"refused: too many requests wait"),
    cases=[{"count": 100}],
)
def removed(pair: Pair, count: int) -> None:
    """The removal waits for none of them; the good client goes on over the device that returns, and nothing is left."""
    pair.mount("3", "timeo=50,retrans=2")
    limit, times = 60 * pair.options.slowness, []
    with nothing_left(pair, others=1, slack=SLACK):
        for _ in rounds(pair):
            probe, writer = Probe(pair), Writer(pair)
            crowd = Crowd(pair, "silent", count)
            wait_until(lambda: connections(pair) > 5, "too few are there", limit)
            pair.server.run("rdma link delete rxe0", 60)
            pair.server.run(f"rpc.nfsd 0; {LINK_UP}; {START}", 60)
            writer.wait_beyond(writer.written() + 20)
            found = crowd.finish()
            writer.finish()
            times.append(probe.finish())
            assert found["ended"] > 5, found
        no_thread_hangs(pair)
    print(f"# {found}; {names(pair, times, 1000)}")
    pair.umount()


REFUSED = (
    *DEVICE,
    r"refused: rule few allows 20 connections",
    r"(refused|no more credits): server_memory allows 2048 KiB",
)


@test("more silent clients than the limit", "H-139", server="ours", device="rxe", limit=120, allowed=REFUSED)
def limited(pair: Pair) -> None:
    """A rule for their address has those beyond its limit rejected; the good client stays."""
    count, most = 60, 20
    with rule(pair.server, "few", side="server", peer=CLIENT.ipv4, connections=most):
        pair.mount("3")
        with nothing_left(pair, others=1, slack=SLACK):
            crowd = Crowd(pair, "silent", count)
            wait_until(lambda: connections(pair) == most, "not as many as permitted", 60 * pair.options.slowness)
            pair.client.run(f"echo still >{MOUNT_POINT}/here; grep -qx still {MOUNT_POINT}/here")
            found = crowd.finish()
        assert (found["established"], found["rejected"]) == (most - 1, count - most + 1), found
        pair.umount()


def used(pair: Pair) -> tuple[int, int]:
    """The memory of the buffers of all connections in KiB, and its limit."""
    found = re.match(r"(\d+) KiB of (\d+)$", served(pair.server)[0]["server_memory"])
    assert found
    return int(found[1]), int(found[2])


@test("more clients than memory for them", "H-139", server="ours", device="rxe", limit=120, allowed=REFUSED)
def memory(pair: Pair) -> None:
    """Buffers of all clients together stay within the limit, at which more are refused; the good client stays, and others
    come in when those are gone."""
    count, most = 30, 2048
    parameter = "/sys/module/rpcrdma_rs/parameters/server_memory"
    pair.mount("3")
    with nothing_left(pair, others=1, slack=SLACK):
        pair.server.run(f"echo {most} >{parameter}")
        crowd = Crowd(pair, "silent", count)
        wait_until(lambda: used(pair)[0] > most // 2, "the limit is far", 60 * pair.options.slowness)
        pair.client.run(
            f"dd if=/dev/zero of={MOUNT_POINT}/here bs=64k count=64 conv=fsync status=none; rm {MOUNT_POINT}/here"
        )
        taken, limit = used(pair)
        found = crowd.finish()
        print(f"# {found} of {count} within {limit} KiB, of which {taken} are used")
        assert limit == most and taken <= most, (taken, limit)
        assert 3 <= found["established"] < count and found["established"] + found["rejected"] == count, found
        # A connection is gone before its buffers are.
        wait_until(lambda: used(pair)[0] < most // 2, "buffers are left", 60 * pair.options.slowness)
        found = Crowd(pair, "calls", 3).wait()
        assert found["replies"] == 3, found
        pair.server.run(f"echo 0 >{parameter}")
    pair.umount()


# One write of the user is many of the client, over a slow link.
WRITER = f"""
    dd if=/dev/urandom of=/tmp/large bs=1M count=32 status=none
    dd if=/tmp/large of={MOUNT_POINT}/large bs=32M count=1 iflag=fullblock oflag=direct status=none || exit
    cmp /tmp/large {MOUNT_POINT}/large && rm /tmp/large {MOUNT_POINT}/large
"""
SLOW = "tc qdisc change dev eth0 root netem limit 100000 rate 200mbit"


def arguments(pair: Pair) -> tuple[int, int, int]:
    """The memory of arguments in KiB, of connections' own and of all beyond; and the calls that wait for some."""
    own = shared = waiting = 0
    for entry in served(pair.server):
        if found := re.match(r"(\d+) KiB of \d+, (\d+) calls wait$", entry.get("arguments", "")):
            own, waiting = own + int(found[1]), waiting + int(found[2])
            shared = int(entry["server_arguments"].split()[0])
    return own, shared, waiting


@test(
    "arguments of more calls than the limit, {then}",
    *("H-139", "V1-121"),
    server="ours",
    device="rxe",
    limit=180,
    allowed=(*DEVICE, r"calls wait: server_memory allows 6144 KiB"),
    cases=[{"then": "all served"}, {"then": "the connection lost"}],
)
def large(pair: Pair, then: str) -> None:
    """Calls wait whose arguments would take more memory than the client's own and a part of what all share. All are
    served, over a new connection, too."""
    most, taken = 6144, []

    def watch() -> bool:
        taken.append(arguments(pair))
        return job.ended

    def calls_wait() -> bool:
        watch()
        return taken[-1][2] > 0

    pair.client.run(QUEUE)
    pair.mount("4.2", "wsize=1048576")
    limit = 60 * pair.options.slowness
    with (
        parameters(pair, pair.server, server_memory=most),
        rule(pair.server, "good", side="server", peer=CLIENT.ipv4) as good,
    ):
        pair.client.run(SLOW)
        job = pair.client.spawn(WRITER)
        if then == "the connection lost":
            wait_until(calls_wait, "no call waits", limit)
            good.reconnect()
        wait_until(watch, "not all calls are served", limit)
        pair.client.finish(job, "the writer", 60)
    owns, shares, waiting = (max(column) for column in zip(*taken, strict=True))
    print(f"# {owns} KiB of its own and {shares} of {most} KiB beyond, {waiting} calls wait at a time")
    # A call has 1 MiB and its header; a connection leaves as much as it takes.
    assert 2048 <= owns <= 4104 and 1024 <= shares <= most // 2 and waiting > 0, (owns, shares, waiting)
    assert arguments(pair) == (0, 0, 0)
    assert len(ends(pair.client, NFS_PORT)) == (then == "the connection lost")
    pair.umount()
    pair.client.run("tc qdisc del dev eth0 root")
