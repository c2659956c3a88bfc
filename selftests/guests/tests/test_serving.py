# SPDX-License-Identifier: GPL-2.0
"""A server of ours in the course of its life: under load, as its own client, with many connections, and at its end."""

from __future__ import annotations

from guests.harness.network import CLIENT, MTU, SERVER
from guests.harness.pair import EXPORT_IN_MEMORY, MOUNT_POINT, NFS_PORT, SERVER_UP, Pair, wait_until
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.mountstats import transport
from guests.lib.nfsd import LINK_UP, PORTLIST, RESTART, START
from guests.lib.requester import REFUSES, carried_out, null
from guests.lib.steady import Writer

CLIENTS = [{"client": client, "by": client} for client in ("ours", "in-tree")]


@test(
    "nfsd starts again and again under verified load of {by}",
    "H-149",
    "V1-122",
    server="ours",
    limit=150,
    cases=CLIENTS,
)
def restarts(pair: Pair, by: str) -> None:
    """Connections end with calls in all stages; the client sends what had no reply again, and no record is lost.

    --rounds 10 has fifty starts.
    """
    del by
    pair.mount("3", "timeo=50,retrans=2")
    writer = Writer(pair)
    for _ in range(5 * max(1, pair.options.rounds)):
        pair.server.run(RESTART, 30)
        writer.wait_beyond(writer.written())
    writer.finish()
    pair.umount()


@test("more threads than the send queue has room for", "V1-38", "V1-121", server="ours", limit=120, cases=CLIENTS)
def many_threads(pair: Pair, by: str) -> None:
    """Each thread has a reply of 1 MiB that waits for its RDMA Writes: the connection bears them all."""
    del by
    files = 100
    # A slow line, so that replies wait for those in front of them.
    slow = "tc qdisc replace dev eth0 root netem delay 15ms limit 100000"
    pair.server.run(f"rpc.nfsd 128; truncate -s {files + 4}M /export/sparse; {slow}")
    pair.mount("3")
    read = f"dd if={MOUNT_POINT}/sparse of=/dev/null iflag=direct bs=1M count=4 status=none"
    pair.client.run(f"for i in $(seq 0 {files - 1}); do {read} skip=$i & done; wait", 100)
    assert transport(pair.client, MOUNT_POINT)["connect_count"] == 1, "the connection was lost"
    pair.umount()
    pair.server.run("tc qdisc del dev eth0 root; rm /export/sparse; rpc.nfsd 8")


@test("two machines serve each other, and themselves", "V1-141", "H-141", server="ours", limit=150)
def each_other(pair: Pair) -> None:
    """One module is server and client, of a peer and of its own machine, at the same time."""
    peer = pair.client
    script = SERVER_UP.format(port=NFS_PORT, export=EXPORT_IN_MEMORY, transport="modprobe -a nfsd")
    peer.run("umount /var/lib/nfs/rpc_pipefs 2>/dev/null || true\n" + script, 60)
    options = "vers=4.2,proto=rdma,hard"
    ends = {pair.server: (SERVER, CLIENT), pair.client: (CLIENT, SERVER)}
    for guest, (own, other) in ends.items():
        guest.run(
            f"""
            mkdir -p /mnt/own /mnt/other
            mount -t nfs -o {options} {own.ipv4}:/ /mnt/own
            mount -t nfs -o {options} {other.ipv4}:/ /mnt/other
            """,
            60,
        )
    for guest in ends:
        # To itself a guest writes twice as much as it has memory, through a file that fits.
        rounds = pair.options.scaled(20, 2)
        guest.run(
            f"""
            name=$(cat /proc/sys/kernel/hostname)
            head -c 8M /dev/urandom >/tmp/data
            for place in own other; do
                rounds={rounds}
                [ $place = own ] || rounds=2
                for i in $(seq $rounds); do
                    for part in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cat /tmp/data; done >/mnt/$place/of-$name
                done
                sync
                echo 3 >/proc/sys/vm/drop_caches
                for part in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cat /tmp/data; done | cmp - /mnt/$place/of-$name
                rm /mnt/$place/of-$name
            done
            """,
            300,
        )
    for guest in ends:
        guest.run("umount /mnt/own /mnt/other", 60)
    peer.run("rpc.nfsd 0; kill $(pidof rpc.mountd nfsdcld rpcbind); exportfs -ua; umount /export /proc/fs/nfsd")


PART = 64  # MiB


@test(
    "a machine writes twice its memory to itself",
    *("H-141", "V1-141"),
    server="ours",
    device="rxe",
    needs=("disk",),
    limit=600,
)
def itself(pair: Pair) -> None:
    """Over its own mount, to a file on its disk: no memory that either end needs waits for the pages that it is to write."""
    disk = pair.options.work / "disk"
    with disk.open("wb") as image:
        image.truncate(8 << 30)
    pair.reboot_server(disk)
    server = pair.server
    memory = int(server.run("sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo").out) >> 10
    parts = 2 * memory // PART + 1
    server.run(
        f"""
        mkdir -p /mnt/own
        mount -t nfs -o vers=4.2,proto=rdma,hard {SERVER.ipv4}:/ /mnt/own
        head -c {PART}M /dev/urandom >/tmp/part
        for part in $(seq {parts}); do cat /tmp/part; done >/mnt/own/large
        sync /mnt/own/large
        [ $(stat -c %s /export/large) = {parts * PART << 20} ]
        """,
        600,
    )
    compare = f"for part in $(seq {parts}); do cat /tmp/part; done | cmp - "
    server.run(f"echo 3 >/proc/sys/vm/drop_caches; {compare} /export/large; {compare} /mnt/own/large", 600)
    server.run("rm /mnt/own/large /tmp/part; umount /mnt/own", 60)
    print(f"# {parts * PART} MiB, with {memory} MiB of memory")


@test("a hundred connections, opened, used and dropped", "H-111", "H-139", server="ours", limit=150)
def crowd(pair: Pair) -> None:
    """Some end with a disconnect, all others with the end of their process; memory and objects return."""
    order = {"private_data": REFUSES, "receives": 40, "exchanges": [[null().hex()]]}
    objects, seen = [], []
    for _ in range(pair.options.scaled(10, 3)):
        done = carried_out(pair, *[order] * pair.options.scaled(100, 20))
        assert not [found for found in done if "failed" in found], done
        left = wait_until_gone(pair)
        objects.append(left)
        seen.append(resources.memory(pair.server))
    assert objects[-1] == objects[0], objects
    half = seen[len(seen) // 2 :]
    for kind in seen[0]:
        grown = half[-1][kind] - half[0][kind]
        assert grown < resources.noise(pair.options), f"{kind} grew by {grown} KiB: {half}"


def wait_until_gone(pair: Pair) -> dict[str, int]:
    """Waits until the server has no connection; its RDMA objects then."""

    def gone() -> bool:
        return not pair.server.run(
            f"rdma resource show cm_id | grep -c 'state CONNECT.*:{NFS_PORT}' || true"
        ).out.strip("0\n")

    wait_until(gone, "connections are left", 20 * pair.options.slowness)
    return resources.rdma(pair.server)


@test(
    "the device goes away under load, {threads} threads",
    "H-109",
    server="ours",
    limit=120,
    cases=[{"threads": 8}, {"threads": 0}],
)
def device(pair: Pair, threads: int) -> None:
    """The removal waits for no thread; the listener ends, and one on the next device serves the same mount."""
    pair.mount("3", "timeo=50,retrans=2")
    writer = Writer(pair)
    pair.server.run(f"rpc.nfsd {threads}; rdma link delete rxe0", 60)
    pair.server.run(f"rpc.nfsd 0; {LINK_UP}; {START}", 60)
    writer.wait_beyond(writer.written())
    writer.finish()
    pair.umount()


INSIDE = "ip netns exec serving"
SERVE_INSIDE = f"""
rpc.nfsd 0
rdma link delete rxe0
ip netns add serving
ip link set eth0 netns serving
{INSIDE} sh -e <<'END'
ip link set lo up
ip link set eth0 mtu {MTU} txqueuelen 10000 up
ip addr add {SERVER.ipv4}/24 dev eth0
ip addr add {SERVER.ipv6}/64 dev eth0 nodad
{LINK_UP}
mount -t nfsd nfsd /proc/fs/nfsd
echo 10 >/proc/fs/nfsd/nfsv4gracetime
rpc.mountd -N 3 --no-udp --port 20048 || true
exportfs -r
rpc.nfsd -N 3 4
echo 'rdma {NFS_PORT}' >{PORTLIST}
grep -q 'rdma {NFS_PORT}' {PORTLIST}
END
"""
END_NAMESPACE = """
ip netns pids serving | xargs -r kill
ip netns delete serving
"""
BACK = f"""
ip link set eth0 mtu {MTU} txqueuelen 10000 up
ip addr replace {SERVER.ipv4}/24 dev eth0
ip addr replace {SERVER.ipv6}/64 dev eth0 nodad
rdma link delete rxe0 2>/dev/null || true
{LINK_UP}
{START}
"""


# No daemon keeps the records of clients in the namespace.
NO_RECORDS = (r"NFSD: Unable to initialize client recovery tracking.*", r"NFSD: Is nfsdcld running.*")


@test("the namespace of a server is deleted under a mount", "H-149", server="ours", limit=120, allowed=NO_RECORDS)
def namespace(pair: Pair) -> None:
    """Listener and connections end with it; the machine's own server then serves the mount."""
    pair.server.run(SERVE_INSIDE, 60)
    pair.mount("4.2", "timeo=50,retrans=2")
    pair.client.run(f"echo inside >{MOUNT_POINT}/where; cat {MOUNT_POINT}/where")
    job = pair.client.spawn(
        f"for i in $(seq 1000); do echo $i >{MOUNT_POINT}/number || exit; done; cat {MOUNT_POINT}/number"
    )
    pair.server.run(END_NAMESPACE, 60)
    wait_until(
        lambda: pair.server.run("ip link show eth0", check=False).rc == 0,
        "the namespace has not ended",
        20 * pair.options.slowness,
    )
    pair.server.run(BACK, 60)
    assert pair.client.finish(job, "the writer", 100).out == "1000\n"
    assert pair.client.run(f"cat {MOUNT_POINT}/where; rm {MOUNT_POINT}/where {MOUNT_POINT}/number").out == "inside\n"
    pair.umount()
