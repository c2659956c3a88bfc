# SPDX-License-Identifier: GPL-2.0
"""The server's end: nfsd listens through our module, for clients of ours and of the kernel."""

from __future__ import annotations

import re

from guests.harness.guest import Guest
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.nfsd import PORTLIST, RESTART
from guests.lib.requester import carried_out, null

CLIENTS = [{"client": client, "by": client} for client in ("ours", "in-tree")]
MOUNTS = [{**client, "vers": vers} for client in CLIENTS for vers in ("3", "4.0", "4.1", "4.2")]


def idle(server: Guest) -> tuple[dict[str, int], int]:
    """The RDMA objects and the references to the module, without a server."""
    server.run("rpc.nfsd 0")
    return resources.rdma(server), resources.module_use(server, "rpcrdma_rs") or 0


@test(
    "many listeners, {threads} threads",
    "H-101",
    "H-103",
    "V1-142",
    server="ours",
    cases=[{"threads": 0}, {"threads": 4}],
)
def listeners(pair: Pair, threads: int) -> None:
    """Made by name, for both families, and destroyed; nothing of them stays, nor of the module's references.

    --rounds 10 makes a hundred.
    """
    before = idle(pair.server)
    pair.server.run(
        f"""
        i=0
        while [ $i -lt {10 * max(1, pair.options.rounds)} ]; do
            i=$((i + 1))
            echo 'rdma 20050' >{PORTLIST}
            [ "$(grep -c 'rdma 20050' {PORTLIST})" = 2 ]
            if [ {threads} != 0 ]; then echo {threads} >/proc/fs/nfsd/threads; fi
            # A listener keeps the module.
            if rmmod rpcrdma_rs 2>/dev/null; then exit 1; fi
            echo 0 >/proc/fs/nfsd/threads
        done
        """,
        120,
    )
    assert idle(pair.server) == before
    pair.server.run(RESTART)


@test("a port that is taken", "H-103", "H-148", server="ours")
def taken(pair: Pair) -> None:
    """The second listener at a port fails, with the error of the first, and leaves no reference."""
    users = resources.module_use(pair.server, "rpcrdma_rs")
    failed = pair.server.run(f"echo 'rdma {NFS_PORT}' | tee {PORTLIST}", check=False)
    # The connection manager's error for a port that is taken.
    assert "Cannot assign requested address" in failed.out, failed
    assert resources.module_use(pair.server, "rpcrdma_rs") == users


OTHER = NFS_PORT + 1
BY_NAME = f"echo 'rdma {NFS_PORT}' >{PORTLIST}"
BY_NETLINK = f"nfsdctl listener +rdma::{OTHER}"


@test(
    "listeners by netlink, {first} first",
    *("H-101", "H-103", "V1-142"),
    server="ours",
    cases=[{"first": "they"}, {"first": "others"}],
)
def netlink(pair: Pair, first: str) -> None:
    """nfsdctl makes and removes listeners beside those by name; nothing of them stays, and mounts go on by the one that does."""
    server = pair.server
    before = idle(server)
    commands = (BY_NETLINK, BY_NAME) if first == "they" else (BY_NAME, BY_NETLINK)
    server.run("\n".join(commands))
    listed = server.run("nfsdctl listener").out
    # At an address of each family.
    assert listed.count("rdma:") == 4 and listed.count(f":{OTHER}") == 2, listed
    ports = [line for line in server.run(f"cat {PORTLIST}").lines if line.startswith("rdma ")]
    assert sorted(ports) == [f"rdma {port}" for port in (NFS_PORT, NFS_PORT, OTHER, OTHER)], ports
    server.run("nfsdctl threads 4")
    for port in (NFS_PORT, OTHER):
        pair.mount("4.2", f"port={port}")
        pair.client.run(f"echo {port} >{MOUNT_POINT}/port; rm {MOUNT_POINT}/port")
        pair.umount()
    refused = server.run(f"nfsdctl listener -rdma::{OTHER}", check=False)
    assert "busy" in refused.out.lower(), refused
    server.run("nfsdctl threads 0")
    # The listeners have ended with the threads.
    server.run(f"{BY_NETLINK}; nfsdctl listener -rdma::{OTHER}")
    assert f":{OTHER}" not in server.run("nfsdctl listener").out
    assert idle(server) == before
    server.run(RESTART)


@test("mount by {by}, vers={vers}", "V1-141", server="ours", cases=MOUNTS)
def mount(pair: Pair, by: str, vers: str) -> None:
    """Names and small files, there and back; the connection ends with the mount."""
    pair.mount(vers)
    try:
        pair.client.run(
            f"""
            cd {MOUNT_POINT}
            mkdir dir
            for i in 1 2 3 4 5 6 7 8; do echo $i >dir/$i; done
            [ "$(ls dir | wc -l)" = 8 ]
            mv dir/1 dir/one
            rm dir/2
            """
        )
        assert pair.server.run("cat /export/dir/one /export/dir/8").out == "1\n8\n"
        pair.drop_caches()
        assert pair.client.run(f"cat {MOUNT_POINT}/dir/3").out == "3\n"
        pair.client.run(f"rm -r {MOUNT_POINT}/dir")
    finally:
        pair.umount()


SIZES = (1, 3, 4095, 4096, 4097, 65537, 1 << 20, (3 << 20) + 5)


@test("data of all sizes by {by}, vers={vers}", "V1-45", "V1-50", "V1-73", "V1-96", server="ours", cases=MOUNTS[::3])
def data(pair: Pair, by: str, vers: str) -> None:
    """Written through chunks and read again, the bytes are the same at both ends; by the page cache, and without."""
    sizes = " ".join(map(str, SIZES))
    pair.mount(vers)
    try:
        for flags in ("", "oflag=direct"):
            pair.client.run(
                f"""
                for size in {sizes}; do
                    head -c $size /dev/urandom >/tmp/data-$size
                    dd if=/tmp/data-$size of={MOUNT_POINT}/data-$size bs=5M {flags} status=none
                done
                sync
                """,
                120,
            )
            sums = f"for size in {sizes}; do sha256sum <%s/data-$size; done"
            sent = pair.client.run(sums % "/tmp").out
            assert pair.server.run(sums % "/export").out == sent, f"written {flags}"
            pair.drop_caches()
            assert pair.client.run(sums % MOUNT_POINT, 60).out == sent, "read"
            direct = f"for size in {sizes}; do dd if={MOUNT_POINT}/data-$size bs=5001 iflag=direct status=none | sha256sum; done"
            assert pair.client.run(direct, 120).out == sent, "read without the page cache"
        pair.client.run(f"rm {MOUNT_POINT}/data-*")
    finally:
        pair.umount()


@test("long names and directories by {by}, vers={vers}", "V1-48", "V1-51", server="ours", cases=MOUNTS[::3])
def long_messages(pair: Pair, by: str, vers: str) -> None:
    """Replies in Reply chunks (READDIR), and calls that are too long for a message (SYMLINK)."""
    pair.mount(vers)
    try:
        pair.client.run(
            f"""
            mkdir {MOUNT_POINT}/many
            cd {MOUNT_POINT}/many
            for i in $(seq 600); do : >file-with-a-name-that-is-long-enough-to-fill-a-page-soon-$i; done
            target=$(printf 'a/%.0s' $(seq 2000))end
            ln -s $target link
            [ "$(readlink link)" = $target ]
            """,
            120,
        )
        pair.drop_caches()
        assert pair.client.run(f"ls {MOUNT_POINT}/many | wc -l").out == "601\n"
        assert pair.server.run("readlink /export/many/link | wc -c; ls /export/many | wc -l").out == "4004\n601\n"
        pair.client.run(f"rm -r {MOUNT_POINT}/many", 120)
    finally:
        pair.umount()


@test("files stay as they are while they are read, by {by}", "H-121", "H-151", server="ours", cases=CLIENTS)
def untouched(pair: Pair, by: str) -> None:
    """nfsd replies from pages of the file, inline or by RDMA; no later reply may be written to them."""
    pair.server.run(
        "mkdir -p /export/d; cd /export; head -c 3000 /dev/urandom >small; head -c 300000 /dev/urandom >large;"
        " for i in $(seq 60); do : >d/file-$i; done; cp small large /tmp"
    )
    pair.mount("3", "noac,lookupcache=none")
    try:
        pair.client.run(
            f"""
            cd {MOUNT_POINT}
            read_direct() {{ dd if=$1 bs=$2 iflag=direct status=none; }}
            read_direct small 3000 >/tmp/small
            read_direct large 100000 >/tmp/large
            for i in $(seq {pair.options.scaled(20, 5)}); do
                # The directory changes, so that it is read: nfsd writes it to the pages that the thread has.
                read_direct small 3000 | cmp - /tmp/small; : >d/after-small-$i; ls -U d >/dev/null
                read_direct large 100000 | cmp - /tmp/large; : >d/after-large-$i; ls -U d >/dev/null
            done
            """,
            120,
        )
        pair.server.run("cmp /export/small /tmp/small; cmp /export/large /tmp/large")
        pair.client.run(f"rm -r {MOUNT_POINT}/d {MOUNT_POINT}/small {MOUNT_POINT}/large")
    finally:
        pair.umount()


@test("nothing is left of connections, of {by}", "H-111", server="ours", cases=CLIENTS)
def gone(pair: Pair, by: str) -> None:
    """Many mounts, then none: the objects of RDMA and the references to the module come back."""
    before = idle(pair.server)
    pair.server.run(RESTART)
    for _ in range(pair.options.scaled(20, 4)):
        pair.mount("3")
        pair.client.run(f"ls {MOUNT_POINT}")
        pair.umount()
    assert idle(pair.server) == before
    pair.server.run(RESTART)


@test("the server stops under a mount of {by}", "H-149", server="ours", cases=CLIENTS)
def restart(pair: Pair, by: str) -> None:
    """Connections are closed by the server, and the client goes on with the next one."""
    pair.mount("3", "timeo=50,retrans=2")
    for number in range(pair.options.scaled(10, 3)):
        pair.client.run(f"echo {number} >{MOUNT_POINT}/number")
        pair.server.run(RESTART)
        assert pair.client.run(f"cat {MOUNT_POINT}/number", 60).out == f"{number}\n"
    pair.client.run(f"rm {MOUNT_POINT}/number")
    pair.umount()


@test("credits: no more than requested, and at least one", "V1-23", "V1-24", "V1-37", server="ours")
def credits(pair: Pair) -> None:
    """Each reply grants what its call requests, as far as Receives are posted."""
    requested = (1, 0, 8, 32, 0xFFFFFFFF)
    order = {"exchanges": [[null(credits=number).hex()] for number in requested]}
    (found,) = carried_out(pair, order)
    granted = [int(exchange[0][16:24], 16) for exchange in found["exchanges"]]
    assert granted[:4] == [1, 1, 8, 32] and 32 <= granted[4] <= 128, granted


@test("many calls at a time", "V1-26", "V1-34", server="ours")
def burst(pair: Pair) -> None:
    """As many calls as the server grants, ten times, and all are replied to."""
    first = [null().hex()]
    bursts = [[null(0x3000 + i).hex() for i in range(32)] for _ in range(10)]
    # The last of a burst need not be the last that is replied to.
    (found,) = carried_out(pair, {"receives": 512, "exchanges": [first, *bursts, *[first] * 3]})
    assert "failed" not in found, found
    replies = [reply for exchange in found["exchanges"] for reply in exchange]
    assert len(replies) == 1 + 320 + 3, len(replies)


@test("calls beyond the grant", "V1-23", "V1-35", "V1-36", server="ours")
def beyond(pair: Pair) -> None:
    """A client that is granted one call and sends eight has them all served, as long as Receives are posted."""
    one = [null(credits=1).hex()]
    bursts = [[null(0x3000 + i, 1).hex() for i in range(8)] for _ in range(10)]
    (found,) = carried_out(pair, {"receives": 128, "exchanges": [one, *bursts, *[one] * 3]})
    assert "failed" not in found, found
    replies = [reply for exchange in found["exchanges"] for reply in exchange]
    assert len(replies) == 1 + 80 + 3, len(replies)
    assert {int(reply[16:24], 16) for reply in replies} == {1}, replies


NO_READS = r"refused: its device takes no RDMA Reads"


@test("requests that are rejected, or dropped", "H-105", "H-112", server="ours", allowed=(NO_READS,))
def dropped(pair: Pair) -> None:
    """A client that serves no RDMA Reads is rejected; after many that leave without a word the next one is served."""
    found = carried_out(pair, {"depth": 0}, *[{} for _ in range(pair.options.scaled(50, 10))])
    assert "event 8" in found[0]["failed"], found[0]
    assert re.search(NO_READS, pair.server.run("dmesg").out), "the log does not tell"
    assert all("failed" not in other for other in found[1:]), found
    (found,) = carried_out(pair, {"exchanges": [[null().hex()]]})
    assert "failed" not in found, found
