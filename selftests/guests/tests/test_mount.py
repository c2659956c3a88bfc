# SPDX-License-Identifier: GPL-2.0
"""Mounting, unmounting, unloading, statistics."""

from guests.harness.pair import MOUNT_POINT, Pair
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.mountstats import FIELDS, SUSPICIOUS, of_mount, transport

VERSIONS = [{"vers": "3"}, {"vers": "4.2"}]


@test("mount and umount, vers={vers}", "V1-141", "V1-142", "V1-143", cases=VERSIONS, core=True)
def mount(pair: Pair, vers: str) -> None:
    """The requester opens the connection to the default port, with netid rdma; the module can be unloaded afterwards."""
    before = resources.rdma(pair.client)
    pair.mount(vers)
    line = pair.client.run(f"grep ' {MOUNT_POINT} ' /proc/mounts").out
    assert "proto=rdma," in line and "port=20049" in line and f"vers={vers}," in line, line
    pair.client.run(f"echo hello >{MOUNT_POINT}/hello; cat {MOUNT_POINT}/hello")
    assert pair.server.run("cat /export/hello").out == "hello\n"
    assert resources.rdma(pair.client)["qp"] > before["qp"], "no queue pair was made"
    refused = pair.client.run(f"rmmod {pair.module}", check=False)
    assert refused.rc != 0 and "in use" in refused.out, f"rmmod under a mount: {refused}"
    pair.umount()
    pair.unload_module()
    after = resources.rdma(pair.client)
    pair.load_module()
    assert after == before, f"RDMA objects before: {before}, afterwards: {after}"


@test("mount with rdma6, vers={vers}", "V1-142", cases=VERSIONS, core=True)
def mount6(pair: Pair, vers: str) -> None:
    """The netid for IPv6 addresses."""
    pair.mount(vers, proto="rdma6")
    line = pair.client.run(f"grep ' {MOUNT_POINT} ' /proc/mounts").out
    assert "proto=rdma6," in line and "addr=fd77::1" in line, line
    pair.client.run(f"head -c 100000 /dev/zero | tr '\\000' 6 >{MOUNT_POINT}/six")
    assert pair.server.run("tr -d 6 </export/six | wc -c; stat -c %s /export/six").lines == ["0", "100000"]
    pair.umount()


@test("connection to a port without a server, vers={vers}", "H-45", limit=60, cases=VERSIONS, core=True)
def refused(pair: Pair, vers: str) -> None:
    """A rejected connect ends the mount with an error and leaves nothing behind."""
    before = resources.rdma(pair.client)
    done = pair.client.run(
        f"timeout 40 mount -t nfs -o vers={vers},proto=rdma,port=20999,nolock,soft,retry=0,timeo=20,retrans=1 "
        f"192.168.77.1:/export {MOUNT_POINT}",
        50,
        check=False,
    )
    assert done.rc not in (0, 124), f"mount ended with {done.rc}: {done.out}"
    pair.unload_module()
    after = resources.rdma(pair.client)
    pair.load_module()
    assert after == before, f"RDMA objects before: {before}, afterwards: {after}"


@test("statistics count chunks, vers={vers}", "V1-46", "V1-50", "V1-51", "PD-23", "PD-29", cases=VERSIONS)
def statistics(pair: Pair, vers: str) -> None:
    """The line of mountstats has its 27 numbers in place, and I/O of each kind moves the right ones."""
    pair.server.run(
        "cd /export; mkdir -p many; cd many; seq -f file-%05g 400 | xargs touch; head -c 1M /dev/zero >../data"
    )
    pair.mount(vers)
    numbers, _ = of_mount(pair.client, MOUNT_POINT)
    assert len(numbers) == len(FIELDS), f"{len(numbers)} numbers: {numbers}"
    before = transport(pair.client, MOUNT_POINT)
    script = f"cd {MOUNT_POINT}; cat data >/dev/null; ls many >/dev/null; head -c 1M /dev/zero >written; sync"
    pair.client.run(script)
    after = transport(pair.client, MOUNT_POINT)
    for name in ("read_chunks", "write_chunks", "reply_chunks"):
        assert after[name] > before[name], f"{name} stayed at {after[name]}"
    for name, least in (("request_bytes", 1 << 20), ("reply_bytes", 1 << 20)):
        assert after[name] - before[name] >= least, f"{name} rose by {after[name] - before[name]}"
    assert after["connect_count"] == 1 and after["sends"] > before["sends"], after
    for name in ("bad_xids", "bad_replies", *SUSPICIOUS):
        assert after.get(name, 0) == 0, f"{name} is {after[name]}"
    if pair.module == "rpcrdma_rs":
        assert after["remote_invalidates"] > before["remote_invalidates"], "the server invalidated no handle"
    pair.server.run("rm -rf /export/many /export/data /export/written")
    pair.umount()
