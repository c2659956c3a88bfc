# SPDX-License-Identifier: GPL-2.0
"""The complaints of Documentation/troubleshooting.rst: each is provoked, and the quoted words found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from guests.harness.network import CLIENT, MTU, SERVER
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair, mount_command, wait_until
from guests.harness.registry import test
from guests.lib.connecting import PROVOKED
from guests.lib.container import HERE, INSIDE, bring_up
from guests.lib.documentation import list_table, literals
from guests.lib.hostile import FOREIGN, stale_handle
from guests.lib.lookups import lookup
from guests.lib.peer import peer
from guests.lib.rules import rule
from guests.lib.tool import tool


ROWS = {row.cells[0]: row for row in list_table("troubleshooting.rst", "Complaints")}
TESTED: set[str] = set()
LARGEST = "f6ab0e180101ffff"
ROCE = 4791


class Says:
    """The words that the page quotes are found."""

    def __init__(self, pair: Pair, title: str):
        self.pair = pair
        self.patterns = [re.escape(text).replace(r"\.\.\.", ".*") for text in literals(ROWS[title].cells[2])]
        self.begin = len(self.log())

    def log(self) -> str:
        """The client's kernel log."""
        return self.pair.client.run("dmesg").out

    def in_log(self, *which: int) -> None:
        """Waits until the log has the words; with numbers, only these of several quotations."""
        for pattern in [self.patterns[number] for number in which] or self.patterns:
            wait_until(
                lambda pattern=pattern: re.search(pattern, self.log()[self.begin :]),
                f"the log does not say: {pattern}",
                40 * self.pair.options.slowness,
                0.5,
            )

    def in_text(self, text: str, *which: int) -> None:
        """It is in a text."""
        for pattern in [self.patterns[number] for number in which] or self.patterns:
            assert re.search(pattern, " ".join(text.split())), f"'{pattern}' is not in:\n{text}"


def complaint(
    title: str, *allowed: str, limit: float = 60, **more: object
) -> Callable[[Callable[[Pair, Says], None]], None]:
    """Registers the test of a row of the page, which gets the words of that row."""
    assert title in ROWS, f"the page has no complaint '{title}'"
    TESTED.add(title)

    def register(function: Callable[[Pair, Says], None]) -> None:
        def run(pair: Pair) -> None:
            function(pair, Says(pair, title))

        run.__module__ = __name__
        test(title, limit=limit, allowed=allowed, device="rxe", **more)(run)

    return register


@contextmanager
def mounting(pair: Pair, options: str = "", enter: str = "") -> Iterator[None]:
    """A mount that fails or hangs, which is killed after the block. With NFSv4 no other call comes before it."""
    command = f"{enter} {mount_command('4.2', options)}"
    job = pair.client.spawn(f"mkdir -p {MOUNT_POINT}; {command}")
    yield
    job.kill()
    pair.client.run(f"umount -l {MOUNT_POINT}", check=False)


@complaint("A mount hangs: nothing listens")
def refused(pair: Pair, says: Says) -> None:
    """A port without a server."""
    with mounting(pair, "port=20099"):
        says.in_log()


@complaint("A mount hangs: a firewall", limit=120)
def firewall(pair: Pair, says: Says) -> None:
    """The server's network drops RoCE."""
    drop = f"protocol ip u32 match ip protocol 17 0xff match ip dport {ROCE} 0xffff action drop"
    pair.server.run(f"tc qdisc add dev eth0 ingress; tc filter add dev eth0 parent ffff: {drop}")
    with mounting(pair):
        says.in_log()
    pair.server.run("tc qdisc del dev eth0 ingress")


@complaint("A mount fails: Protocol error")
def no_device(pair: Pair, says: Says) -> None:
    """An interface without one."""
    pair.client.run("rdma link delete rxe0")
    with mounting(pair):
        says.in_log()
    pair.client.run("rdma link add rxe0 type rxe netdev eth0")


@complaint("A mount hangs: no route")
def no_route(pair: Pair, says: Says) -> None:
    """A machine without a route."""
    pair.client.run("ip addr flush dev eth0 scope global")
    with mounting(pair):
        says.in_log()
    bring_up(pair, HERE)


@complaint("A mount in a container fails: Protocol error", limit=90)
def container(pair: Pair, says: Says) -> None:
    """The device stays in the namespace that it was made in, unless namespaces share devices."""
    pair.client.run("rdma system set netns exclusive; ip netns add container; ip link set eth0 netns container")
    pair.client.run(
        f"{INSIDE} ip link set lo up; {INSIDE} ip link set eth0 mtu {MTU} up; "
        f"{INSIDE} ip addr replace {CLIENT.ipv4}/24 dev eth0; {INSIDE} ping -c 1 -W 5 {SERVER.ipv4} >/dev/null"
    )
    with mounting(pair, "fatal_neterrors=none", INSIDE):
        says.in_log(0)
        says.in_text(pair.client.run("rdma system").out, 1)
    # The mode cannot change before the kernel has done away with the namespace, which takes a moment.
    shared = "until rdma system set netns shared 2>/dev/null; do sleep 0.1; done"
    pair.client.run(f"{INSIDE} ip link set eth0 netns 1; ip netns delete container; {shared}", 30)
    bring_up(pair, HERE)


@complaint("A mount hangs: the memory limit", "the memory limit is too small for the inline sizes")
def memory(pair: Pair, says: Says) -> None:
    """Four calls of the largest size do not fit."""
    with rule(pair.client, "tight", port=NFS_PORT, inline_send=262144, inline_receive=262144, memory=256):
        with mounting(pair):
            says.in_log()


@complaint("A mount with vers=4.1 fails")
def no_reverse(pair: Pair, says: Says) -> None:
    """The rule has it off."""
    with rule(pair.client, "forward", port=NFS_PORT, reverse="off"):
        done = pair.client.run(mount_command("4.1"), 60, check=False)
        assert done.rc != 0, "it was mounted"
        says.in_log()


@complaint("A mount is over TCP")
def over_tcp(pair: Pair, says: Says) -> None:
    """Without proto=rdma."""
    pair.server.run("grep -q tcp /proc/fs/nfsd/portlist || echo 'tcp 2049' >/proc/fs/nfsd/portlist")
    pair.client.run(mount_command("3").replace("proto=rdma", "proto=tcp").replace("port=20049", "port=2049"))
    says.in_text(tool(pair, f"explain {MOUNT_POINT}", check=False))
    pair.umount()


@complaint("A mount fails: an incorrect mount option was specified")
def not_loaded(pair: Pair, says: Says) -> None:
    """Nothing is loaded, and nothing can be."""
    pair.unload_module()
    done = pair.client.run(mount_command("3"), check=False)
    said = tool(pair, "show", check=False)
    pair.load_module()
    assert done.rc != 0 and "incorrect mount option" in done.out, done
    says.in_text(said)


@complaint("insmod fails: Device or resource busy", r"rpcrdma_rs: the name \"rdma\" is taken")
def taken(pair: Pair, says: Says) -> None:
    """The in-tree module was first."""
    pair.unload_module()
    pair.client.run("modprobe --ignore-install rpcrdma")
    done = pair.client.run("insmod /share/rpcrdma_rs.ko", check=False)
    pair.client.run("rmmod rpcrdma")
    pair.load_module()
    assert "Device or resource busy" in done.out, done
    says.in_log()


@complaint("rmmod fails: the module is in use")
def in_use(pair: Pair, says: Says) -> None:
    """A mount keeps it, and a rule does."""
    pair.mount("3")
    says.in_text(pair.client.run("rmmod rpcrdma_rs", check=False).out)
    pair.umount()
    with rule(pair.client, "kept", port=1):
        says.in_text(pair.client.run("rmmod rpcrdma_rs", check=False).out)


@complaint("A parameter is refused", r"parameter credits: 3 is not in 4\.\.16384")
def parameter(pair: Pair, says: Says) -> None:
    """Below its range."""
    done = pair.client.run("/bin/echo 3 >/sys/module/rpcrdma_rs/parameters/credits", check=False)
    assert "Invalid argument" in done.out, done
    says.in_log()


@complaint("An attribute of a rule is refused", r"rule odd: inline_send: '1023' is not .*")
def attribute(pair: Pair, says: Says) -> None:
    """Below its range."""
    done = tool(pair, "rule add odd inline_send=1023 port=1", check=False)
    assert "the kernel log says why" in done, done
    says.in_log()


@complaint("A rule has no effect")
def no_effect(pair: Pair, says: Says) -> None:
    """It is younger than the connection; then it holds."""
    pair.mount("3")
    with rule(pair.client, "late", port=NFS_PORT, inline_send=2048):
        says.in_text(tool(pair, f"explain {MOUNT_POINT}"))
        tool(pair, "rule reconnect late")
        pair.client.run(f"stat {MOUNT_POINT}/nothing", check=False)
        assert "rule late holds" in tool(pair, f"explain {MOUNT_POINT}")
    pair.umount()


@complaint("Small calls and replies go by RDMA: an old server")
def old_server(pair: Pair, says: Says) -> None:
    """A peer without private data."""
    with peer(pair) as server, server.mounted():
        says.in_text(tool(pair, f"explain {MOUNT_POINT}"))


@complaint("Small calls go by RDMA: our setting")
def own_setting(pair: Pair, says: Says) -> None:
    """The peer takes more."""
    with peer(pair, "--private-data", LARGEST) as server, server.mounted():
        says.in_text(tool(pair, f"explain {MOUNT_POINT}"))


@complaint("Small replies go by RDMA: the server's setting")
def peer_setting(pair: Pair, says: Says) -> None:
    """The peer sends less than we take."""
    with peer(pair, "--private-data", "f6ab0e180101010f") as server, server.mounted():
        says.in_text(tool(pair, f"explain {MOUNT_POINT}"))


@complaint("Calls are slow: credits")
def credits(pair: Pair, says: Says) -> None:
    """A peer that grants one, and keeps it."""
    # Long enough for a look at the calls that wait.
    with peer(pair, "--private-data", LARGEST, "--credits", "1") as server, server.mounted("timeo=6000"):
        jobs = [pair.client.spawn(f"stat {MOUNT_POINT}/always-never.{number}") for number in range(3)]
        said: list[str] = []

        def waits() -> bool:
            said.append(tool(pair, f"explain {MOUNT_POINT}"))
            return "Calls wait for" in said[-1]

        wait_until(waits, "no call waits", 20 * pair.options.slowness)
        says.in_text(said[-1])
        for job in jobs:
            job.kill()


@complaint("I/O stops for a while: the server went away", *PROVOKED)
def server_gone(pair: Pair, says: Says) -> None:
    """The server ends the connection."""
    with peer(pair, "--private-data", LARGEST) as server, server.mounted():
        lookup(pair, "do-disconnect")
        says.in_log()


@complaint("I/O stops for a while: the device went away", *PROVOKED, limit=90)
def device_gone(pair: Pair, says: Says) -> None:
    """It is removed under a mount, and comes back."""
    pair.mount("3")
    pair.client.run("rdma link delete rxe0")
    says.in_log()
    pair.client.run("rdma link add rxe0 type rxe netdev eth0")
    pair.client.run(f"echo x >{MOUNT_POINT}/x; rm {MOUNT_POINT}/x", 60)
    pair.umount()


@complaint("A mount works, and reads and writes hang", *PROVOKED, r"rxe0: .*", limit=240)
def mtu(pair: Pair, says: Says) -> None:
    """A hop between the ends takes frames of 1500 bytes; when it takes them all, the written data is there."""
    pair.mount("3")
    with pair.bridged(SERVER, ("mtu", "1500"), ("mtu", str(MTU))):
        job = pair.client.spawn(f"head -c 1000000 /dev/zero >{MOUNT_POINT}/large; sync {MOUNT_POINT}/large")
        says.in_log()
        done = pair.client.run(f"ping -M do -s 4096 -c 1 -W 2 {SERVER.ipv4}", check=False)
        assert done.rc != 0, "a large frame got through"
    pair.client.finish(job, "the writer", 180)
    assert pair.server.run("stat -c %s /export/large; rm /export/large").out.strip() == "1000000"
    pair.umount()


@complaint("One file has I/O errors")
def bad_reply(pair: Pair, says: Says) -> None:
    """A reply whose chunk lists cannot be read."""
    with peer(pair, "--private-data", LARGEST) as server, server.mounted():
        done = pair.client.run(f"stat {MOUNT_POINT}/do-proc-2", check=False)
        assert "Input/output error" in done.out, done
        says.in_log()


@complaint("I/O stops for a minute: a call gets no reply", limit=90)
def no_reply(pair: Pair, says: Says) -> None:
    """A peer that does not reply to the first call for one name."""
    with peer(pair, "--private-data", LARGEST) as server, server.mounted("timeo=30"):
        lookup(pair, "do-never")
        says.in_log()


@complaint("A warning about the server", FOREIGN, limit=90)
def warning(pair: Pair, says: Says) -> None:
    """A reply that invalidates a handle which was an earlier call's."""
    with peer(pair, "--private-data", LARGEST) as server, server.mounted("nordirplus"):
        stale_handle(pair, server)
        lookup(pair, "do-invalidate-stale")
        says.in_log(0)
        lookup(pair, "afterwards")
        (number,) = re.findall(rf"^client +(\d+) .* port {server.port} ", tool(pair, "show"), re.M)
        says.in_text(tool(pair, f"show {number}"), 1)


@complaint("Users were killed, and the connection ends", limit=120)
def abandoned(pair: Pair, says: Says) -> None:
    """A peer that never replies to one name."""
    with rule(pair.client, "few", port=1, credits=4) as few:
        with peer(pair, "--private-data", LARGEST) as server:
            few.set(port=server.port)
            with server.mounted():
                for number in range(4):
                    job = pair.client.spawn(f"stat {MOUNT_POINT}/always-never.{number}")
                    server.wait(lambda event, n=number: event.get("name") == f"always-never.{n}", "the call")
                    job.kill()
                says.in_log()


@test("every complaint of the page has a test")
def complete(pair: Pair) -> None:
    """At least twenty."""
    assert set(ROWS) == TESTED and len(ROWS) >= 20, set(ROWS) ^ TESTED


LOCKDOWN = "/sys/kernel/security/lockdown"


@complaint(
    "insmod fails: Operation not permitted",
    r"Lockdown: .*",
    r".*module verification failed.*",
    limit=120,
    needs=("lockdown",),
)
def locked_down(pair: Pair, says: Says) -> None:
    """Table, rules, sysctls, trace events and tool work under lockdown; an unsigned module is not loaded again.

    The last test of these guests: lockdown cannot be taken back.
    """
    client = pair.client
    securityfs = "mountpoint -q /sys/kernel/security || mount -t securityfs securityfs /sys/kernel/security"
    client.run(securityfs)
    client.run(f"echo integrity >{LOCKDOWN}; grep -q '\\[integrity\\]' {LOCKDOWN}")
    tool(pair, f"rule add locked inline_send=8192 port={NFS_PORT}")
    pair.mount("4.2")
    assert "rule locked holds" in tool(pair, f"explain {MOUNT_POINT}")
    assert f"port {NFS_PORT}" in tool(pair, "show")
    (number,) = re.findall(rf"^client +(\d+) .* port {NFS_PORT} ", tool(pair, "show"), re.M)
    assert "private_data_sent f6ab0e1801010703" in tool(pair, f"show {number}")
    client.run("sysctl -q sunrpc.rdma_slot_table_entries=64")
    assert client.run("cat /sys/module/rpcrdma_rs/parameters/credits").out.strip() == "64"
    client.run("mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing")
    client.run(
        f"trace-cmd record -q -e rpcrdma_rs -o /tmp/locked.dat sh -c 'stat {MOUNT_POINT}/new || true' >/dev/null 2>&1; "
        "trace-cmd report -i /tmp/locked.dat | grep -q xprtrdma_reply"
    )
    pair.umount()
    tool(pair, "rule del locked")
    pair.unload_module()
    done = client.run("insmod /share/rpcrdma_rs.ko", check=False)
    assert "Operation not permitted" in done.out, done
    says.in_log()
