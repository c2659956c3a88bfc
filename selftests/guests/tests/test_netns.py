# SPDX-License-Identifier: GPL-2.0
"""A mount inside a network namespace that loses its network ends with an error, where it may; other mounts wait."""

from __future__ import annotations

import re

from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.connecting import PROVOKED, TRACE, attempts
from guests.lib.container import HERE, INSIDE, bring_up, container, mount


VERSIONS = ("3", "4.2")
FATAL = "fatal_neterrors=ENETDOWN:ENETUNREACH"

# NFSv4's message that it has ended its recovery.
STATE_MANAGER = r"NFS: state manager.* failed on NFSv4 server .* with error 101"


# The ways to lose a network. The connection manager then reports, in this order:
# ENETUNREACH immediately; the same; the same; ADDR_ERROR with ENODEV.
DOWN = {
    "link down": "{enter} ip link set eth0 down",
    "addresses removed": "{enter} ip addr flush dev eth0",
    "interface gone": "{enter} ip link set eth0 netns 1",
    "RDMA device gone": "rdma link delete rxe0",
}


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
