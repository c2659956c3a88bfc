# SPDX-License-Identifier: GPL-2.0
"""Recovery of a mount, again and again: the time until it continues, and no byte lost.

A program writes numbered records to a file. A fault is provoked and removed, and from then on counts the time until the
next record is on the server. The times are printed; Documentation/user-guide.rst has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from guests.harness.network import CLIENT, MTU, SERVER
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.connecting import PROVOKED, connected
from guests.lib.hostile import ABSENT, counters, hostile
from guests.lib.lookups import together
from guests.lib.mountstats import SUSPICIOUS, transport
from guests.lib.rules import Rule, rule
from guests.lib.sight import ends
from guests.lib.steady import Writer


CALL_TIMEOUT = 60  # seconds, of a call of a hard mount
DISK = 1 << 28  # bytes
LINK_UP = "rdma link add rxe0 type rxe netdev eth0"


@contextmanager
def link_down(pair: Pair) -> Iterator[None]:
    """The cable is out for the block, until the client's device has noticed."""
    with pair.unplugged():
        wait_until(lambda: not connected(pair), "the client's device did not notice", 60 * pair.options.slowness)
        yield


def cable(pair: Pair, _: Rule) -> None:
    """The link fails silently, and comes back."""
    with link_down(pair):
        pass


def server_device(pair: Pair, _: Rule) -> None:
    """The server loses its device, and gets it back."""
    pair.server.run(f"rdma link delete rxe0; {LINK_UP}", 30)


def client_device(pair: Pair, _: Rule) -> None:
    """The client does."""
    pair.client.run(f"rdma link delete rxe0; {LINK_UP}", 30)


def nfsd(pair: Pair, _: Rule) -> None:
    """The server ends all connections and its service, and starts again; its clients have ten seconds to reclaim."""
    pair.server.run(
        f"""
        rpc.nfsd 0
        rpc.nfsd 8
        echo 'rdma {NFS_PORT}' >/proc/fs/nfsd/portlist
        """,
        40,
    )


def administrator(_: Pair, asked: Rule) -> None:
    """The administrator requests another connection."""
    asked.reconnect()


# The faults, and the seconds that the timers in force explain: the pauses before attempts to connect, none before the first
# two, then 5 and 10; the time until nfsd lets clients in again, 10; and, if a server that ends loses a call over a
# connection that stays, the timeout of that call, 60.
CASES: list[tuple[Callable[[Pair, Rule], None], float]] = [
    (cable, 20),
    (server_device, 20),
    (client_device, 20),
    (nfsd, 100),
    (administrator, 10),
]


def recovery(pair: Pair, what: str, vers: str) -> None:
    """Each time the mount continues by itself, within the time that the timers explain; no record is missing."""
    with rule(pair.client, "recovery", port=NFS_PORT) as asked:
        again_and_again(pair, asked, what, vers)


def again_and_again(pair: Pair, asked: Rule, what: str, vers: str) -> None:
    """The rounds of one case."""
    happen, limit = {function.__name__: (function, limit) for function, limit in CASES}[what]
    times = []
    pair.mount(vers)
    writer = Writer(pair)
    for _ in range(max(2, pair.options.rounds)):
        before = transport(pair.client, MOUNT_POINT)["connect_count"]
        happen(pair, asked)
        # A record may still have been under way.
        start, number = time.monotonic(), writer.written() + 1
        writer.wait_beyond(number)
        times.append(time.monotonic() - start)
        assert transport(pair.client, MOUNT_POINT)["connect_count"] > before, "the connection was not remade"
    writer.finish()
    how = ends(pair.client, NFS_PORT)
    counts = transport(pair.client, MOUNT_POINT)
    odd = {name: counts[name] for name in ("bad_xids", "bad_replies", *SUSPICIOUS) if counts.get(name)}
    assert not odd, odd
    pair.umount()
    print(f"# {what}, vers={vers}: until it goes on, in {len(times)} rounds: longest {max(times):.1f} s")
    assert max(times) < limit * (pair.options.slowness if pair.options.debug else 1), (times, how)


test(
    "recovery: {what}, vers={vers}",
    *("V1-122", "PD-20", "H-45"),
    limit=1500,
    allowed=PROVOKED,
    device="rxe",
    client="ours",  # the rule
    cases=[{"what": function.__name__, "vers": vers} for function, _ in CASES for vers in ("3", "4.2")],
)(recovery)


@test("recovery: silent, all credits in use", "V1-123", "V1-41", "H-45", limit=600, allowed=PROVOKED, device="rxe")
def silent(pair: Pair) -> None:
    """A server that takes calls and does not reply: these and the waiting calls complete after a timeout."""
    credits, others, timeout = 4, 4, 3
    times = []
    with hostile(pair, "--credits", str(credits), mount=f"hard,timeo={10 * timeout}") as server:
        for number in range(max(2, pair.options.rounds)):
            before = counters(pair)["connect_count"]
            kept = [f"do-never.{number}.{n}" for n in range(credits)]
            start = time.monotonic()
            told = together(pair, *kept, *[f"do-right.{number}.{n}" for n in range(others)])
            times.append(time.monotonic() - start)
            assert told.count(ABSENT) == credits + others, told
            assert counters(pair)["connect_count"] > before, "the connection went on"
            for name in kept:
                sent = server.lookups(name)
                assert len(sent) == 2 and sent[0]["connection"] < sent[1]["connection"], f"{name} was sent: {sent}"
    print(
        f"# silent: until all have completed, in {len(times)} rounds: longest {max(times):.1f} s, timeout {timeout} s"
    )
    assert max(times) < (timeout + 5) * (pair.options.slowness if pair.options.debug else 2), times


@test(
    "recovery: the server's power is cut, vers={vers}",
    *("V1-122", "PD-20", "H-45"),
    limit=3000,
    allowed=PROVOKED,
    device="rxe",
    cases=[{"vers": vers} for vers in ("3", "4.2")],
    needs=("disk",),
)
def power(pair: Pair, vers: str) -> None:
    """A server that boots again knows its files and its clients; the client is not told that it went down."""
    disk = pair.options.work / "disk"
    with disk.open("wb") as image:
        image.truncate(DISK)
    pair.reboot_server(disk)
    pair.mount(vers)
    writer = Writer(pair)
    outages, times = [], []
    for _ in range(max(2, pair.options.rounds)):
        before, cut = transport(pair.client, MOUNT_POINT)["connect_count"], time.monotonic()
        pair.reboot_server(disk)
        start, number = time.monotonic(), writer.written() + 1
        writer.wait_beyond(number)
        outages.append(start - cut)
        times.append(time.monotonic() - start)
        assert transport(pair.client, MOUNT_POINT)["connect_count"] > before, "the connection was not remade"
    writer.finish()
    pair.umount()
    longest = f"longest {max(times):.1f} s, after {outages[times.index(max(times))]:.1f} s of absence"
    print(f"# power, vers={vers}: until it goes on, in {len(times)} rounds: {longest}")
    # A call that the server's device has acknowledged waits for its own timeout, 60 s: nothing else shows the client
    # that the server is gone. Else a Send is not acknowledged, and the pause between attempts has grown to at most
    # twice the time that the server was away; and then nfsd may let clients in only after ten seconds.
    assert max(times) < max(CALL_TIMEOUT, 2 * max(outages)) + 20, (times, outages)


# The network is a bond of the guest's adapter and one that leads nowhere.
BOND = """
rdma link delete rxe0
modprobe -a bonding dummy
ip link set eth0 down
ip link add bond0 type bond mode active-backup fail_over_mac active
ip link add spare0 type dummy
ip link set eth0 master bond0
ip link set spare0 master bond0
ip link set bond0 mtu {mtu} up
ip addr flush dev eth0
ip addr add {address}/24 dev bond0
ip link set bond0 type bond active_slave eth0
rdma link add rxe0 type rxe netdev bond0
"""


# The last one, as it leaves the network so.
@test(
    "recovery: failover of a bond of the {end}",
    *("PD-20", "H-47"),
    limit=900,
    allowed=PROVOKED,
    device="rxe",
    emulated="their adapter does not let a bond change its MTU",
    cases=[{"end": "client"}, {"end": "server", "server": "ours"}],
)
def bonding(pair: Pair, end: str) -> None:
    """The address of the device changes under the connection, which is made again over the other adapter."""
    guest, address = (pair.client, CLIENT) if end == "client" else (pair.server, SERVER)
    guest.run(BOND.format(mtu=MTU, address=address.ipv4), 60)
    pair.mount("4.2")
    writer = Writer(pair)
    times = []
    for _ in range(max(2, pair.options.rounds)):
        before = transport(pair.client, MOUNT_POINT)["connect_count"]
        guest.run("ip link set bond0 type bond active_slave spare0")
        wait_until(lambda: not connected(pair), "the transport did not notice", 60 * pair.options.slowness)
        guest.run("ip link set bond0 type bond active_slave eth0")
        start = time.monotonic()
        writer.wait_beyond(writer.written() + 1)
        times.append(time.monotonic() - start)
        assert transport(pair.client, MOUNT_POINT)["connect_count"] > before, "the connection was not remade"
    writer.finish()
    pair.umount()
    if end == "server" or pair.options.client == "ours":
        assert "connection lost: the local address has moved" in guest.run("dmesg").out
    print(f"# bonding: until it goes on, in {len(times)} rounds: longest {max(times):.1f} s")
    assert max(times) < 20 * (pair.options.slowness if pair.options.debug else 1), times
