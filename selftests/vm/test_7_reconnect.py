# SPDX-License-Identifier: GPL-2.0
"""A connection that breaks under I/O is made again, and no octet is lost."""

import re

from harness import network, resources
from harness.guest import Job
from harness.mountstats import SUSPICIOUS, transport
from harness.network import CLIENT, SERVER
from harness.pair import MOUNT_POINT, Pair, wait_until
from harness.registry import test

from .guest import pattern

MIB = 1 << 20
# rxe says so about a peer that does not answer any more; it is what these tests bring about.
PROVOKED = (r"rxe\d+: qp#\d+ make_send_cqe: non-flush error status = \d+", r"rxe\d+: qp#\d+ .*retry.*exceeded")


def start_writer(pair: Pair, size: int, seed: str) -> Job:
    """Starts to write a file, and returns when its first octets are on the server."""
    job = pair.client.spawn(f"python3 -I -S /share/tools/pattern.py write direct {MOUNT_POINT}/broken {size} {seed}")
    wait_until(lambda: written(pair) >= 2 * MIB, "the writer did not start", 20 * pair.options.slowness)
    return job


def written(pair: Pair) -> int:
    """Octets of the file on the server."""
    return int(pair.server.run("stat -c %s /export/broken 2>/dev/null || echo 0").out)


def check(pair: Pair, size: int, seed: str) -> None:
    """The file is whole on both sides, and the client has connected again."""
    wanted = pattern.digest(size, seed)
    assert pair.server.run("sha256sum /export/broken", 60).out.split()[0] == wanted, "as written"
    pair.drop_caches()
    assert pair.client.run(f"sha256sum {MOUNT_POINT}/broken", 60).out.split()[0] == wanted, "as read back"
    counts = transport(pair.client, MOUNT_POINT)
    assert counts["connect_count"] >= 2, f"{counts['connect_count']} connections: nothing was broken"
    odd = {name: counts[name] for name in ("bad_xids", "bad_replies", *SUSPICIOUS) if counts.get(name)}
    assert not odd, f"after the reconnect: {odd}"
    pair.client.run(f"rm {MOUNT_POINT}/broken")
    pair.umount()


def connected(pair: Pair) -> list[str]:
    """The numbers of the client's connected queue pairs."""
    return re.findall(r"lqpn (\d+) .*type RC state RTS", pair.client.run("rdma resource show qp").out)


@test(
    "cable pulled during I/O, vers={vers}",
    "PD-20",
    limit=120,
    allowed=PROVOKED,
    device="rxe",
    cases=[{"vers": "3"}, {"vers": "4.2"}],
)
def cable(pair: Pair, vers: str) -> None:
    """The link goes without a word; the device gives up, the transport reconnects when the link is back."""
    pair.server.run("rm -f /export/broken")
    size = pair.options.scaled(64, 8) * MIB + 99
    pair.mount(vers)
    job = start_writer(pair, size, "cable")
    # The device notices only when it has something to send: this goes on also when the writer is done.
    pair.client.run("touch /tmp/ticking")
    ticker = pair.client.spawn(
        f"while [ -e /tmp/ticking ]; do echo x >{MOUNT_POINT}/tick; sync {MOUNT_POINT}/tick; done"
    )
    network.ip("link", "set", CLIENT.tap, "down")
    try:
        wait_until(lambda: not connected(pair), "the client's device did not notice", 40 * pair.options.slowness)
    finally:
        network.ip("link", "set", CLIENT.tap, "up")
    pair.client.finish(job, "the writer", 60)
    pair.client.run("rm /tmp/ticking")
    pair.client.finish(ticker, "the ticker", 60)
    check(pair, size, "cable")


@test(
    "{side}'s device removed during I/O, vers={vers}",
    "PD-20",
    "H-83",
    limit=120,
    allowed=PROVOKED,
    device="rxe",
    cases=[{"side": side, "vers": vers} for side in ("server", "client") for vers in ("3", "4.2")],
)
def device(pair: Pair, side: str, vers: str) -> None:
    """The removal does not wait for the other side, and what was under way goes on over the device that comes back."""
    guest = pair.server if side == "server" else pair.client
    pair.server.run("rm -f /export/broken")
    size = pair.options.scaled(64, 8) * MIB + 7
    pair.mount(vers)
    job = start_writer(pair, size, side)
    guest.run("rdma link delete rxe0", 30)
    left = resources.rdma(guest)
    assert not any(left.values()), f"left of a device that is gone: {left}"
    guest.run("rdma link add rxe0 type rxe netdev eth0")
    pair.client.finish(job, "the writer", 60)
    check(pair, size, side)


def log(pair: Pair) -> str:
    """The client's kernel log."""
    return pair.client.run("dmesg").out


@test(
    "the server's address moves to other hardware during I/O",
    *("PD-20", "H-47"),
    limit=120,
    allowed=PROVOKED,
    device="rxe",
)
def neighbour(pair: Pair) -> None:
    """The connection manager calls the server unreachable while the connection still works: that ends it, once."""
    pair.server.run("rm -f /export/broken")
    size = pair.options.scaled(64, 8) * MIB + 5
    pair.mount("4.2")
    job = start_writer(pair, size, "neighbour")
    said = len(log(pair))
    pair.client.run(f"ip neigh replace {SERVER.ipv4} lladdr 52:54:00:77:00:99 nud reachable dev eth0")
    lost = "connection lost: the server cannot be reached any more"
    wait_until(lambda: lost in log(pair)[said:], "the connection went on", 20 * pair.options.slowness)
    pair.client.run(f"ip neigh replace {SERVER.ipv4} lladdr {SERVER.mac} nud reachable dev eth0")
    pair.client.finish(job, "the writer", 60)
    check(pair, size, "neighbour")


@test("unmount while the server does not answer", "H-49", limit=180, allowed=PROVOKED, device="rxe")
def silence(pair: Pair) -> None:
    """An attempt to connect holds up an unmount, and the module that is unloaded, no longer than it may take itself."""
    pair.mount("3")
    # So that the attempt gets as far as asking the server.
    pair.client.run(f"ip neigh replace {SERVER.ipv4} lladdr {SERVER.mac} nud permanent dev eth0")
    network.ip("link", "set", CLIENT.tap, "down")
    try:
        user = pair.client.spawn(f"timeout -s KILL 1000 stat {MOUNT_POINT}/nothing")
        unanswered = "cannot connect: connecting: not reachable"
        wait_until(lambda: unanswered in log(pair), "no attempt to connect has ended", 90 * pair.options.slowness)
        trying = "comm [rpcrdma_rs]"
        wait_until(
            lambda: trying in pair.client.run("rdma resource show cm_id").out,
            "there was no other attempt",
            30 * pair.options.slowness,
        )
        pair.client.run("pkill -KILL -x stat")
        pair.client.finish(user, "its user", 10, check=False)
        uptime = "cut -d' ' -f1 /proc/uptime"
        start = float(pair.client.run(uptime).out)
        pair.client.run(f"umount -f {MOUNT_POINT}", 60)
        pair.unload_module(60)
        took = float(pair.client.run(uptime).out) - start
        # Accepting may take 15 s.
        assert took < 16 + 4 * pair.options.slowness, f"unmounting and unloading took {took:.1f} s"
    finally:
        network.ip("link", "set", CLIENT.tap, "up")
    left = resources.rdma(pair.client)
    assert not left["cm_id"], f"left: {left}"
    pair.client.run(f"ip neigh del {SERVER.ipv4} dev eth0")
    pair.load_module()
    pair.mount("3")
    pair.umount()
