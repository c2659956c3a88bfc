# SPDX-License-Identifier: GPL-2.0
"""A connection that breaks under I/O is made again, and no byte is lost."""

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.guest import Job
from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.connecting import ATTEMPT, PAUSE, PROVOKED, TRACE, attempts, connected, state, timed
from guests.lib.mountstats import SUSPICIOUS, transport
from guests.programs import pattern

MIB = 1 << 20


def start_writer(pair: Pair, size: int, seed: str) -> Job:
    """Starts to write a file, and returns when its first bytes are on the server."""
    job = pair.client.spawn(f"python3 -I -S /share/tools/pattern.py write direct {MOUNT_POINT}/broken {size} {seed}")
    wait_until(lambda: written(pair) >= 2 * MIB, "the writer did not start", 20 * pair.options.slowness)
    return job


def written(pair: Pair) -> int:
    """Bytes of the file on the server."""
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


@test(
    "cable pulled during I/O, vers={vers}",
    "PD-20",
    limit=120,
    allowed=PROVOKED,
    device="rxe",
    cases=[{"vers": "3"}, {"vers": "4.2"}],
    core=True,
)
def cable(pair: Pair, vers: str) -> None:
    """The link fails silently; the device stops retrying, the transport reconnects when the link is back."""
    pair.server.run("rm -f /export/broken")
    size = pair.options.scaled(64, 8) * MIB + 99
    pair.mount(vers)
    job = start_writer(pair, size, "cable")
    # The device notices only when it has something to send: this continues when the writer is done.
    pair.client.run("touch /tmp/ticking")
    ticker = pair.client.spawn(
        f"while [ -e /tmp/ticking ]; do echo x >{MOUNT_POINT}/tick; sync {MOUNT_POINT}/tick; done"
    )
    with pair.unplugged():
        wait_until(lambda: not connected(pair), "the client's device did not notice", 40 * pair.options.slowness)
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
    core=True,
)
def device(pair: Pair, side: str, vers: str) -> None:
    """The removal does not wait for the other side, and I/O continues over the device that returns."""
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


@test("client's device removed while idle", "PD-20", "H-83", limit=120, allowed=PROVOKED, device="rxe")
def idle_device(pair: Pair) -> None:
    """Calls that are done keep nothing of the device."""
    pair.mount("3")
    pair.client.run(f"head -c 3000000 /dev/urandom >{MOUNT_POINT}/idle")
    pair.drop_caches()
    total = pair.client.run(f"sha256sum <{MOUNT_POINT}/idle", 60).out
    pair.client.run("rdma link delete rxe0", 30)
    left = resources.rdma(pair.client)
    assert not any(left.values()), f"left of a device that is gone: {left}"
    pair.client.run("rdma link add rxe0 type rxe netdev eth0")
    pair.drop_caches()
    assert pair.client.run(f"sha256sum <{MOUNT_POINT}/idle", 60).out == total
    pair.client.run(f"rm {MOUNT_POINT}/idle")
    pair.umount()


def log(pair: Pair) -> str:
    """The client's kernel log."""
    return pair.client.run("dmesg").out


@test(
    "the server's address moves to other hardware during I/O",
    *("PD-20", "H-47"),
    limit=120,
    allowed=PROVOKED,
    device="rxe",
    client="ours",
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


@contextmanager
def unreachable(pair: Pair, moment: str, vers: str) -> Iterator[None]:
    """Takes the connection away, and leaves the transport in an attempt to connect, or in the pause after one."""
    # So that an attempt gets as far as asking the server.
    pair.client.run(f"ip neigh replace {SERVER.ipv4} lladdr {SERVER.mac} nud permanent dev eth0")
    with pair.unplugged():
        if moment == "pause":
            # Attempts fail immediately, with EHOSTUNREACH: no mount option keeps sunrpc from trying again after that.
            pair.client.run(f"ip route add unreachable {SERVER.ipv4}/32")
        # The connection ends immediately with its device.
        pair.client.run(f"rdma link delete rxe0; echo 1 >{TRACE}; rdma link add rxe0 type rxe netdev eth0")
        user = pair.client.spawn(f"stat {MOUNT_POINT}/nothing")
        limit = 60 * pair.options.slowness
        if moment == "attempt":
            wait_until(lambda: state(pair) == ATTEMPT, "there was no attempt to connect", limit)
        else:
            # Pauses get longer: a module that sits this one out is late by far, 10 seconds and more. Over NFSv4.2 several
            # tasks request a connection, and no pause separates the first attempts.
            least = 3 if vers == "3" else 5
            wait_until(lambda: attempts(pair) >= least and state(pair) == PAUSE, "there was no such pause", limit)
        pair.client.run("pkill -KILL -x stat")
        pair.client.finish(user, "its user", 10, check=False)
        yield
    pair.client.run(f"echo 0 >{TRACE}; echo >/sys/kernel/tracing/trace")
    pair.client.run(f"ip neigh del {SERVER.ipv4} dev eth0; ip route del unreachable {SERVER.ipv4}/32 || true")


def two_seconds(pair: Pair) -> float:
    """Two seconds, times the slowness of the emulation."""
    return 2 * (pair.options.slowness if pair.options.debug else 3)


# Makes NFS let go of the transport. The kill of the users and `umount -f` do not, with NFSv4.2: the SEQUENCE that renews
# the lease continues, and then DESTROY_SESSION and DESTROY_CLIENTID wait for a server too, each until a major timeout,
# which is 180 seconds. None of that is the transport's. After this they end immediately, with EIO.
SHUT_DOWN = f"""
device=$(awk '$5 == "{MOUNT_POINT}" {{ print $3 }}' /proc/self/mountinfo)
echo 1 >/sys/fs/nfs/$device/shutdown
"""


@test(
    "unmount and unload during the {moment}, vers={vers}",
    "V1-141",
    "H-49",
    limit=180,
    allowed=PROVOKED,
    device="rxe",
    client="ours",
    cases=[{"moment": moment, "vers": vers} for moment in ("attempt", "pause") for vers in ("3", "4.2")],
)
def silence(pair: Pair, moment: str, vers: str) -> None:
    """Neither an attempt to connect nor the pause before the next holds up an unmount and an unload.

    Over NFSv3 an unmount that is forced makes no call. Over NFSv4.2 it does, see `SHUT_DOWN`, so there NFS is told first
    not to.
    """
    pair.mount(vers)
    with unreachable(pair, moment, vers):
        if vers != "3":
            pair.client.run(SHUT_DOWN)
        unload = f"until rmmod {pair.module} 2>/dev/null; do sleep 0.1; done"
        unmounting, unloading = timed(pair, f"umount -i -f {MOUNT_POINT}\nnow\n{unload}")
        limit = two_seconds(pair)
        assert unmounting + unloading < limit, (
            f"during the {moment}: unmounting took {unmounting:.1f} s, unloading {unloading:.1f} s; limit {limit:.0f} s"
        )
    left = resources.rdma(pair.client)
    assert not left["cm_id"], f"left: {left}"
    pair.load_module()
    pair.mount(vers)
    pair.umount()


@test(
    "device removed in the {moment}, vers={vers}",
    "V1-141",
    "H-49",
    "H-80",
    limit=180,
    allowed=PROVOKED,
    device="rxe",
    client="ours",  # the in-tree client holds the device up to minutes
    cases=[{"moment": moment, "vers": vers} for moment in ("attempt", "pause") for vers in ("3", "4.2")],
)
def removal(pair: Pair, moment: str, vers: str) -> None:
    """A device is removed while its user tries to connect, without delay; the mount uses the device that returns."""
    pair.mount(vers)
    with unreachable(pair, moment, vers):
        (took,) = timed(pair, "rdma link delete rxe0")
        limit = two_seconds(pair)
        assert took < limit, f"during the {moment}: removal of the device took {took:.1f} s; limit {limit:.0f} s"
        left = resources.rdma(pair.client)
        assert not any(left.values()), f"left of a device that is gone: {left}"
        pair.client.run("rdma link add rxe0 type rxe netdev eth0")
    pair.client.run(f"echo back >{MOUNT_POINT}/back; rm {MOUNT_POINT}/back", 60)
    pair.umount()
