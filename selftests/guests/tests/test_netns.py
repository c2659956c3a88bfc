# SPDX-License-Identifier: GPL-2.0
"""A mount inside a network namespace that loses its network ends with an error, where it may; other mounts wait."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.network import CLIENT, MTU, SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib import resources

from .test_reconnect import PROVOKED, TRACE, attempts

# Enters the network namespace of a container; the mount namespace stays, with the files that mount needs.
INSIDE = "nsenter --net=/run/netns/container"
HERE = "env"
VERSIONS = ("3", "4.2")
FATAL = "fatal_neterrors=ENETDOWN:ENETUNREACH"

# NFSv4's message that it has ended its recovery.
STATE_MANAGER = r"NFS: state manager.* failed on NFSv4 server .* with error 101"

# A device that is there already is made again: its queue pair of the connection manager does not survive a link that was
# down, and then no connection is ever made, over the in-tree module neither.
UP = """
{enter} ip link set lo up
{enter} ip link set eth0 mtu {mtu} txqueuelen 10000 up
{enter} ip addr replace {end.ipv4}/24 dev eth0
{enter} ip addr replace {end.ipv6}/64 dev eth0 nodad
rdma link delete rxe0 2>/dev/null || true
{enter} rdma link add rxe0 type rxe netdev eth0
{enter} ping -c 1 -W 5 {server.ipv4} >/dev/null
"""

# The ways to lose a network. The connection manager then reports, in this order:
# ENETUNREACH immediately; the same; the same; ADDR_ERROR with ENODEV.
DOWN = {
    "link down": "{enter} ip link set eth0 down",
    "addresses removed": "{enter} ip addr flush dev eth0",
    "interface gone": "{enter} ip link set eth0 netns 1",
    "RDMA device gone": "rdma link delete rxe0",
}


def bring_up(pair: Pair, enter: str) -> None:
    """Gives the client its network and its RDMA device in the namespace that `enter` enters."""
    pair.client.run(UP.format(enter=enter, mtu=MTU, end=CLIENT, server=SERVER))


@contextmanager
def container(pair: Pair) -> Iterator[None]:
    """Has the client's network in a namespace of its own. After a failure nothing is tidied: the guests are dropped.

    The RDMA device is removed before the namespace. One that is removed with it announces that on a socket of the namespace
    that may be freed by then (`ib_unregister_work`, `uevent_net_exit`), for any user of the device: KASAN reported that for
    the in-tree transport, too.
    """
    pair.client.run("rdma link delete rxe0; ip netns add container; ip link set eth0 netns container")
    bring_up(pair, INSIDE)
    yield
    pair.client.run(
        "rdma link delete rxe0 2>/dev/null || true\n"
        f"{INSIDE} ip link set eth0 netns 1 2>/dev/null || true\n"
        "ip netns delete container"
    )
    bring_up(pair, HERE)


def mount(pair: Pair, enter: str, vers: str, options: str = "") -> None:
    """Mounts in the namespace that `enter` enters."""
    words = [
        f"vers={vers}",
        "proto=rdma",
        "hard",
        *(["nolock", "mountproto=tcp"] if vers == "3" else []),
        *options.split(),
    ]
    path = "/export" if vers == "3" else "/"
    pair.client.run(f"{enter} mount -t nfs -o {','.join(words)} {SERVER.ipv4}:{path} {MOUNT_POINT}")


def ends(pair: Pair, command: str) -> None:
    """The command ends soon, with one of the errors for a missing network."""
    done = pair.client.run(f"timeout -s KILL {5 * pair.options.slowness:.0f} {command} 2>&1", 30, check=False)
    assert done.rc not in (0, 137), f"'{command}' ended with {done.rc} (137: it hung and was killed)\n{done.out}"
    assert re.search(r"Network is (unreachable|down)", done.out), done.out


@test(
    "{how}, vers={vers}: I/O ends",
    "V1-141",
    "H-51",
    "H-88",
    limit=90,
    allowed=(*PROVOKED, STATE_MANAGER),
    device="rxe",
    cases=[{"how": how, "vers": vers} for how in list(DOWN)[:3] for vers in VERSIONS],
)
def gone(pair: Pair, how: str, vers: str) -> None:
    """Outside the initial namespace `fatal_neterrors` is the default: a container whose network is gone can end."""
    with container(pair):
        mount(pair, INSIDE, vers)
        line = pair.client.run(f"grep ' {MOUNT_POINT} ' /proc/mounts").out
        assert FATAL in line, line
        pair.client.run(f"echo x >{MOUNT_POINT}/x")
        pair.client.run(DOWN[how].format(enter=INSIDE))
        ends(pair, f"stat {MOUNT_POINT}/nothing")
        # Without a network NFS has nothing to wait for here either.
        pair.client.run(f"umount -i -f {MOUNT_POINT}", 20)
        pair.unload_module()
    left = resources.rdma(pair.client)
    pair.load_module()
    assert not left["cm_id"], f"left: {left}"


@test("mount without a route ends", "V1-141", "H-51", limit=90, device="rxe")
def no_route(pair: Pair) -> None:
    """In a namespace without any network, a mount fails with a message instead of trying for ever."""
    pair.client.run("ip netns add container")
    options = f"vers=4.2,proto=rdma,hard {SERVER.ipv4}:/ {MOUNT_POINT}"
    ends(pair, f"{INSIDE} mount -t nfs -o {options}")
    pair.client.run("ip netns delete container")


@test(
    "explicit option in the initial namespace, vers={vers}",
    "H-51",
    limit=90,
    allowed=(*PROVOKED, STATE_MANAGER),
    device="rxe",
    cases=[{"vers": "3"}, {"vers": "4.2"}],
)
def explicit(pair: Pair, vers: str) -> None:
    """The option does the same where it is not the default."""
    mount(pair, HERE, vers, FATAL)
    pair.client.run(DOWN["link down"].format(enter=HERE))
    ends(pair, f"stat {MOUNT_POINT}/nothing")
    pair.client.run(f"umount -i -f {MOUNT_POINT}", 20)
    bring_up(pair, HERE)


@test(
    "{how}, {where}: I/O waits, vers={vers}",
    "V1-141",
    "H-51",
    limit=150,
    allowed=PROVOKED,
    device="rxe",
    cases=[
        {"how": how, "where": where, "vers": vers}
        for how, where in (
            ("link down", "fatal_neterrors=none"),
            ("link down", "initial namespace"),
            ("RDMA device gone", "default options"),
        )
        for vers in VERSIONS
    ],
)
def waits(pair: Pair, how: str, where: str, vers: str) -> None:
    """A hard mount without other options waits for its network, and continues when that is back.

    So does any hard mount whose RDMA device is gone while the network is not: that is no error of the network.
    """

    def body(enter: str) -> None:
        mount(pair, enter, vers, where if "=" in where else "")
        pair.client.run(f"echo 1 >{TRACE}")
        pair.client.run(DOWN[how].format(enter=enter))
        user = pair.client.spawn(f"stat {MOUNT_POINT}/nothing")
        wait_until(lambda: attempts(pair) >= 3, "there were no attempts to connect", 40 * pair.options.slowness)
        assert not user.text, f"it did not wait: {user.text}"
        bring_up(pair, enter)
        # The pause before the next attempt may be as long as a minute.
        done = pair.client.finish(user, "the call that waited", 90, check=False)
        assert "No such file or directory" in done.out, done
        pair.client.run(f"echo 0 >{TRACE}; echo >/sys/kernel/tracing/trace")
        pair.umount()

    if where == "initial namespace":
        body(HERE)
    else:
        with container(pair):
            body(INSIDE)
