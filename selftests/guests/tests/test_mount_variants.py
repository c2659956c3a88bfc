# SPDX-License-Identifier: GPL-2.0
"""Every way to mount, and administrators' operations on mounts: the transport is one of sunrpc's like any other."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair, mount_command, wait_until
from guests.harness.registry import Skip, test
from guests.lib import resources
from guests.lib.container import HERE, INSIDE, bring_up, container, mount
from guests.lib.documentation import list_table, literals
from guests.lib.ibfault import faults
from guests.lib.peer import peer
from guests.lib.rpcload import loaded
from guests.lib.sight import DIRECTORY, rows
from guests.programs import pattern

MIB = 1 << 20
ECHO, ECHO_PORT = 0x2000720D, 20050  # the program of rpcload_echo.ko
SECOND = "192.168.77.11"  # another address of the server
OTHER = "/mnt/other"
TOOL = "python3 -I -S /share/tools/pattern.py"


def moves_data(pair: Pair, name: str, where: str = MOUNT_POINT, size: int = 3 * MIB + 5) -> None:
    """Writes a file, and has both sides read it."""
    wanted = pattern.digest(size, name)
    pair.client.run(f"{TOOL} write direct {where}/{name} {size} {name}", 60)
    assert pair.server.run(f"sha256sum /export/{name}").out.split()[0] == wanted, "as written"
    pair.drop_caches()
    assert pair.client.run(f"sha256sum {where}/{name}; rm {where}/{name}", 60).out.split()[0] == wanted, "as read back"


def transports(pair: Pair) -> dict[str, str]:
    """The states of the transports that are connected or may be, by their numbers."""
    return {row["xprt"]: row["state"] for row in rows(pair.client)}


def nothing_left(pair: Pair) -> None:
    """Waits until the last transport is destroyed, from a workqueue."""
    wait_until(lambda: not transports(pair), "transports are left", 20 * pair.options.slowness)


@test("vers={vers}", "V1-142", limit=90, cases=[{"vers": vers} for vers in ("3", "4.0", "4.1", "4.2")])
def versions(pair: Pair, vers: str) -> None:
    """Each version of NFS; 4.0 has the server call back over TCP, later ones over the connection."""
    pair.mount(vers)
    moves_data(pair, f"vers-{vers}")
    pair.umount()
    nothing_left(pair)


@test("nconnect={count}", limit=120, cases=[{"count": count} for count in (1, 2, 5, 16)])
def nconnect(pair: Pair, count: int) -> None:
    """The mount has that many connections, all of them used, and none is left."""
    pair.mount("4.2", f"nconnect={count}")
    jobs = [pair.client.spawn(f"{TOOL} write direct {MOUNT_POINT}/n{n} {MIB} {n}") for n in range(2 * count)]
    for number, job in enumerate(jobs):
        pair.client.finish(job, f"writer {number}", 120)
    found = transports(pair)
    assert len(found) == count and set(found.values()) == {"connected"}, found
    used = pair.client.run(f"grep -h ^since {DIRECTORY}/xprt-*").lines
    assert len(used) == count, used
    wanted = {f"n{n}": pattern.digest(MIB, n) for n in range(2 * count)}
    seen = dict(reversed(line.split()) for line in pair.server.run("cd /export; sha256sum n*; rm n*", 60).lines)
    assert seen == wanted
    pair.umount()
    nothing_left(pair)


@test("two addresses of one server are one client", limit=120, device="rxe")
def trunking(pair: Pair) -> None:
    """With max_connect the second mount adds its address to the first client, which uses both."""
    pair.server.run(f"ip addr replace {SECOND}/24 dev eth0")
    pair.mount("4.2", "max_connect=4")
    second = mount_command("4.2", "max_connect=4", where=OTHER).replace(f"{SERVER.ipv4}:", f"{SECOND}:")
    pair.client.run(f"mkdir -p {OTHER}; {second}", 60)
    peers = sorted(row["peer"] for row in rows(pair.client))
    assert peers == sorted([SERVER.ipv4, SECOND]), peers
    moves_data(pair, "first")
    moves_data(pair, "second", OTHER)
    pair.umount(OTHER)
    pair.umount()
    nothing_left(pair)
    pair.server.run(f"ip addr del {SECOND}/24 dev eth0")


@test("rpcctl: offline, online, remove", limit=120)
def rpcctl(pair: Pair) -> None:
    """A transport that is offline is not used, one that is removed is destroyed, and I/O continues over the others."""
    pair.mount("4.2", "nconnect=3")
    moves_data(pair, "before")
    names = re.findall(r"xprt-(\d+): rdma", pair.client.run("rpcctl xprt show").out)
    assert len(names) == 3, pair.client.run("rpcctl xprt show").out
    last = names[-1]
    pair.client.run(f"rpcctl xprt set xprt-{last} offline")
    moves_data(pair, "offline")
    pair.client.run(f"rpcctl xprt set xprt-{last} online")
    moves_data(pair, "online")
    # rpcctl reads the state again when it has removed the transport, and fails if the state disappears as it looks.
    gone = f"[ ! -e /sys/kernel/sunrpc/xprt-switches/*/xprt-{last}-rdma ]"
    pair.client.run(f"rpcctl xprt set xprt-{last} offline; rpcctl xprt remove xprt-{last} || {gone}")
    wait_until(lambda: len(transports(pair)) == 2, "the transport was not removed", 20 * pair.options.slowness)
    moves_data(pair, "removed")
    pair.umount()
    nothing_left(pair)


@test("rpcctl: another address", limit=120, device="rxe")
def dstaddr(pair: Pair) -> None:
    """A transport that is given another address of the server connects to it, under I/O."""
    pair.server.run(f"ip addr replace {SECOND}/24 dev eth0")
    pair.mount("4.2")
    size = pair.options.scaled(24, 4) * MIB
    job = pair.client.spawn(f"{TOOL} write direct {MOUNT_POINT}/moved {size} moved")
    (name,) = re.findall(r"xprt-(\d+): rdma", pair.client.run("rpcctl xprt show").out)
    pair.client.run(f"rpcctl xprt set xprt-{name} dstaddr {SECOND}")
    pair.client.finish(job, "the writer", 120)
    moves_data(pair, "afterwards")
    peers = [row["peer"] for row in rows(pair.client)]
    assert peers == [SECOND], peers
    assert pair.server.run("sha256sum /export/moved; rm /export/moved").out.split()[0] == pattern.digest(size, "moved")
    pair.umount()
    pair.server.run(f"ip addr del {SECOND}/24 dev eth0")


@test("rpcbind tells the port", limit=120)
def rpcbind(pair: Pair) -> None:
    """sunrpc queries rpcbind over TCP, and sets the port of the transport. NFS never makes it do so; NLM does, over
    TCP."""
    words = f"{ECHO:#x} 1 tcp {SERVER.ipv4}.{ECHO_PORT >> 8}.{ECHO_PORT & 255}"
    tool = "python3 -I -S /share/tools/rpcbind.py"
    pair.server.run(f"{tool} set {words}")
    with loaded(pair) as load:
        load.open("rpcbind=1")
        load.one("run proc=echo count=10").good()
        there = rows(pair.client)
        assert [row["peer"] for row in there if row["port"] == str(ECHO_PORT)] == [SERVER.ipv4], there
        load.one("close").good()
    pair.server.run(f"{tool} unset {words}")
    nothing_left(pair)


@test(
    "{options}: a server that does not reply",
    "V1-123",
    limit=120,
    device="rxe",
    cases=[
        {"options": "soft", "error": "Input/output error"},
        {"options": "softerr", "error": "Connection timed out"},
    ],
)
def soft(pair: Pair, options: str, error: str) -> None:
    """The call ends with the error of that option when its time is over; other calls do not."""
    with peer(pair, "--private-data", "f6ab0e1801010303") as server:
        with server.mounted(f"{options},timeo=20,retrans=1"):
            done = pair.client.run(f"stat {MOUNT_POINT}/always-never", 60, check=False)
            assert error in done.out, done
            done = pair.client.run(f"stat {MOUNT_POINT}/other", 60, check=False)
            assert "No such file" in done.out, done


LOCK = """
import fcntl, sys, time
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
"""


# How each cause of the page is made, and undone. The route's comes back with the address.
CAUSES = {
    "No RDMA device on the interface to the server": (
        "rdma link delete rxe0",
        "rdma link add rxe0 type rxe netdev eth0",
    ),
    "A device without fast registration": ("true", "true"),
    "No route to the server": ("ip addr flush dev eth0 scope global", "true"),
    "The server's host does not answer": ("true", "true"),
    "Nothing listens at the server's port": ("true", "true"),
}
QUICK = 2  # time limit for a mount without a device, in seconds
# The in-tree module resolves an address that does not answer between one and several times, 5 seconds each, and waits longer
# after each: 5 to over 50 seconds.
PATIENT = 150


def first_mount(pair: Pair, cause: str, vers: str, limit: int = 50) -> tuple[str, float]:
    """The output of mount.nfs, and its time; without repetitions, so that it ends at an error that is not final."""
    port = 20098 if cause.startswith("Nothing") else NFS_PORT
    address = "192.168.77.99" if "host does not answer" in cause else SERVER.ipv4
    path = "/export" if vers == "3" else "/"
    options = f"vers={vers},proto=rdma,port={port},retry=0" + (",nolock,mountproto=tcp" if vers == "3" else "")
    start = time.monotonic()
    command = f"timeout {limit} mount -t nfs -o {options} {address}:{path} {MOUNT_POINT} 2>&1"
    done = pair.client.run(command, limit + 10, check=False)
    assert done.rc not in (0, 124, 137), f"the mount ended with {done.rc}: {done.out}"
    return done.out, time.monotonic() - start


@test(
    "errors of a new mount: {cause}",
    "H-51",
    limit=300,
    device="rxe",
    allowed=(r"rpcrdma: 'frwr' mode is not supported by device rxe0",),
    cases=[{"cause": cause} for cause in CAUSES],
)
def errors(pair: Pair, cause: str) -> None:
    """The error that the user guide names, and the in-tree module's beside it."""
    rows = {row.cells[0]: row.cells for row in list_table("user-guide.rst", "Errors of a new mount")}
    assert rows.keys() == CAUSES.keys(), "the table and the tests differ"
    _, ours, _, theirs, words = rows[cause]
    make, undo = CAUSES[cause]
    with faults(pair, "mem_mgt=0") if "fast registration" in cause else nullcontext():
        pair.client.run(make)
        said = len(pair.client.run("dmesg").out)
        out, took = first_mount(pair, cause, "4.2")
        assert ours in out, f"not '{ours}': {out}"
        if "No RDMA device" in cause:
            assert took < QUICK * pair.options.slowness, f"{took:.1f} s"
            out, _ = first_mount(pair, cause, "3")
            assert ours in out, f"vers=3: not '{ours}': {out}"
        log = pair.client.run("dmesg").out[said:]
        assert literals(words)[0] in log, log
        with in_tree(pair):
            out, _ = first_mount(pair, cause, "4.2", PATIENT)
        assert theirs in out, f"the in-tree module: not '{theirs}': {out}"
        pair.client.run(undo)
    if "flush" in make:
        bring_up(pair, HERE)


@contextmanager
def in_tree(pair: Pair) -> Iterator[None]:
    """The client has the in-tree module inside the block."""
    pair.unload_module()
    pair.client.run("modprobe --ignore-install rpcrdma")
    yield
    pair.client.run("until rmmod rpcrdma; do sleep 0.1; done", 20)
    pair.load_module()


@test("locks, vers={vers}", limit=120, cases=[{"vers": vers} for vers in ("3", "4.2")])
def locks(pair: Pair, vers: str) -> None:
    """A lock that the client holds is one on the server, over NLM or NFSv4, until its holder ends."""
    for guest in pair.guests:
        (guest.share / "lock.py").write_text(LOCK)
    pair.server.run("echo x >/export/locked")
    if vers == "3":
        pair.client.run("pidof rpcbind >/dev/null || rpcbind; pidof rpc.statd >/dev/null || rpc.statd --no-notify")
        pair.server.run("pidof rpc.statd >/dev/null || rpc.statd --no-notify")
    command = mount_command(vers).replace("nolock,", "")
    pair.client.run(f"mkdir -p {MOUNT_POINT}; {command}", 60)
    try_it = "python3 -I -S /share/lock.py /export/locked 0"
    job = pair.client.spawn(f"exec python3 -I -S /share/lock.py {MOUNT_POINT}/locked 600")
    wait_until(lambda: "locked" in job.text, "the client got no lock", 20 * pair.options.slowness)
    done = pair.server.run(try_it, check=False)
    assert done.rc != 0 and "BlockingIOError" in done.out, f"the server knows of no lock: {done}"
    job.kill()
    wait_until(
        lambda: pair.server.run(try_it, check=False).rc == 0, "the lock is still there", 20 * pair.options.slowness
    )
    pair.client.run(f"umount {MOUNT_POINT}", 60)


@test("umount -f and -l with a server that does not reply", limit=120, device="rxe")
def forced(pair: Pair) -> None:
    """Forced, calls that wait end with an error; lazily, the mount ends with its last user."""
    with peer(pair, "--private-data", "f6ab0e1801010303") as server:
        pair.client.run(f"mkdir -p {MOUNT_POINT}; {server.mount_command('hard,timeo=6000')}", 60)
        job = pair.client.spawn(f"stat {MOUNT_POINT}/always-never")
        server.wait(lambda event: event.get("name") == "always-never", "the call")
        # The process that waited may not have ended yet.
        pair.client.run(f"umount -f {MOUNT_POINT} || umount -l {MOUNT_POINT}")
        done = pair.client.finish(job, "the call that waited", 30, check=False)
        # NFS leaks the kernel's number for the restart of a call to the user.
        assert re.search("Input/output error|Unknown error 512", done.out), done
        nothing_left(pair)
        pair.client.run(server.mount_command("hard,timeo=6000"), 60)
        pair.client.run(f"exec 9<{MOUNT_POINT}; umount -l {MOUNT_POINT}; stat -L /proc/self/fd/9 >/dev/null")
        nothing_left(pair)


@test("a mount over TCP and one over RDMA, of one server", limit=90)
def both(pair: Pair) -> None:
    """They do not share a transport, and both work. With NFSv4.1 and later both would be one session, over the first."""
    pair.server.run("grep -q tcp /proc/fs/nfsd/portlist || echo 'tcp 2049' >/proc/fs/nfsd/portlist")
    pair.mount("4.2")
    tcp = mount_command("3", where=OTHER).replace(",proto=rdma", ",proto=tcp,port=2049")
    pair.client.run(f"mkdir -p {OTHER}; {tcp}", 60)
    for where, proto in ((MOUNT_POINT, "rdma"), (OTHER, "tcp")):
        line = pair.client.run(f"grep ' {where} ' /proc/mounts").out
        assert f"proto={proto}," in line, line
        moves_data(pair, f"over-{proto}", where)
    assert len(transports(pair)) == 1, transports(pair)
    pair.umount(OTHER)
    moves_data(pair, "alone")
    pair.umount()


@test("a network namespace that is deleted while something is mounted in it", limit=120, device="rxe")
def namespace(pair: Pair) -> None:
    """The mount ends with its last user, and the namespace, and the module, after it."""

    with container(pair):
        mount(pair, INSIDE, "4.2")
        pair.client.run(f"echo inside >{MOUNT_POINT}/inside")
        pair.client.run(f"{INSIDE} ip link set eth0 netns 1; ip netns delete container; umount -f {MOUNT_POINT}", 60)
        nothing_left(pair)
        assert not resources.rdma(pair.client)["cm_id"]
        pair.client.run("ip netns add container")


SWAP = """
mkdir -p /sys/fs/cgroup/small
echo 20M >/sys/fs/cgroup/small/memory.high
echo $$ >/sys/fs/cgroup/small/cgroup.procs
exec python3 -I -S -c '
import hashlib, sys
pages = [hashlib.sha256(b"%d" % n).digest() * 128 for n in range(6000)]
print(sum(pages[n] == hashlib.sha256(b"%d" % n).digest() * 128 for n in range(6000)))'
"""


@test("swap on a file of the mount", limit=240, needs=("memory control",))
def swap(pair: Pair) -> None:
    """35 MB, the interpreter included, in a group that may have 20: pages swapped out over the transport come back whole."""
    client = pair.client
    if pair.options.debug:
        # KASAN reports it at nearly each run, whatever the transport.
        raise Skip("nfs_file_direct_read() looks at a read from swap that has completed, and is free")
    client.run("mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup")
    client.run("echo +memory >/sys/fs/cgroup/cgroup.subtree_control")
    pair.mount("4.2")
    client.run(f"dd if=/dev/zero of={MOUNT_POINT}/swap bs=1M count=48 status=none; chmod 600 {MOUNT_POINT}/swap", 60)
    client.run(f"mkswap -q {MOUNT_POINT}/swap; swapon {MOUNT_POINT}/swap")
    done = client.run(SWAP, 200)
    assert done.out.strip() == "6000", done
    written = int(re.search(r"^pswpout (\d+)", client.run("cat /proc/vmstat").out, re.M)[1])
    assert written > 1000, f"{written} pages were written out"
    client.run(f"swapoff {MOUNT_POINT}/swap; rm {MOUNT_POINT}/swap", 60)
    pair.umount()


@test("two servers at once", limit=90, device="rxe")
def two_servers(pair: Pair) -> None:
    """A real one and one that we wrote: events of the one do not reach the other."""
    pair.mount("3")
    with peer(pair, "--private-data", "f6ab0e1801010303") as server, server.mounted(where=OTHER):
        pair.client.run(f"stat {OTHER}/do-disconnect", 60, check=False)
        moves_data(pair, "beside")
        ports = re.findall(r" port (\d+) ", pair.client.run(f"cat {DIRECTORY}/connections").out)
        assert sorted(map(int, ports)) == sorted([NFS_PORT, server.port]), ports
        ends = pair.client.run(f"grep -c ^closed $(grep -l 'port {NFS_PORT}$' {DIRECTORY}/xprt-*)", check=False).out
        assert ends.strip() == "0", "the other server's connection ended"
    pair.umount()
