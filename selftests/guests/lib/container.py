# SPDX-License-Identifier: GPL-2.0
"""A network namespace that has the client's network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.network import CLIENT, MTU, SERVER
from guests.harness.pair import MOUNT_POINT, Pair

# Enters the network namespace of a container; the mount namespace stays, with the files that mount needs.
INSIDE = "nsenter --net=/run/netns/container"
HERE = "env"

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
