# SPDX-License-Identifier: GPL-2.0
"""Faults on the client's own side: its users are killed, its name is taken, its slots are few."""

from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.connecting import PROVOKED
from guests.lib.mountstats import SUSPICIOUS, transport
from guests.programs import pattern

# The in-tree module's message at level error when it cannot load, and ours when the name is taken.
MIB = 1 << 20
REFUSED = (r'rpcrdma_rs: the name "rdma" is taken',)


@test(
    "users killed in the middle of I/O, vers={vers}",
    "V1-128",
    "H-2",
    "H-31",
    limit=180,
    # The server may access memory that was invalidated with the call: its device reports this, and ours may.
    allowed=(*PROVOKED, r"rxe\d+: qp#\d+ do_complete: non-flush error status = \d+"),
    cases=[{"vers": "3"}, {"vers": "4.2"}],
)
def killed(pair: Pair, vers: str) -> None:
    """Abandoned calls leave no memory behind that the server could reach; calls of other users do not suffer."""
    pair.server.run("rm -rf /export/killed; mkdir /export/killed; head -c 8388608 /dev/urandom >/export/killed/read")
    pair.mount(vers, "rsize=1048576,wsize=1048576")
    rounds = pair.options.scaled(12, 4)
    pair.client.run(
        f"""
        cd {MOUNT_POINT}/killed
        i=0
        while [ $i -lt {rounds} ]; do
            i=$((i + 1))
            dd if=/dev/zero of=write$((i % 3)) bs=1M count=16 oflag=direct 2>/dev/null & w=$!
            dd if=read of=/dev/null bs=1M iflag=direct 2>/dev/null & r=$!
            ls -lR {MOUNT_POINT} >/dev/null 2>&1 & l=$!
            # A different moment every time: the processes are killed when the counters have moved so far.
            n=0; while [ $n -lt $((i * 7 % 40)) ]; do n=$((n + 1)); : $(cat /proc/loadavg); done
            kill -9 $w $r $l 2>/dev/null || true
            wait $w $r $l || true
        done
        cd /
        """,
        150,
    )
    size = 2 * MIB + 77
    pair.client.run(f"python3 -I -S /share/tools/pattern.py write direct {MOUNT_POINT}/killed/after {size} after", 60)
    wanted = pattern.digest(size, "after")
    assert pair.server.run("sha256sum /export/killed/after").out.split()[0] == wanted
    counts = transport(pair.client, MOUNT_POINT)
    # The reply to an abandoned call is one to an unknown call, as it should be.
    odd = {name: counts[name] for name in SUSPICIOUS if counts.get(name) and name != "unknown_xids"}
    assert not odd, f"after killing users: {odd}"
    pair.client.run(f"rm -r {MOUNT_POINT}/killed")
    pair.umount()


@test("the name is taken by the in-tree module", "V1-142", limit=60, allowed=REFUSED, core=True)
def taken(pair: Pair) -> None:
    """Loading fails, with a message that names the cure, and works again when the other module is gone."""
    if pair.options.client != "ours":
        return
    pair.unload_module()
    pair.client.run("modprobe --ignore-install rpcrdma")
    refused = pair.client.run("insmod /share/rpcrdma_rs.ko 2>&1 || true")
    # The module loader keeps EEXIST for a module of the same name, and turns it into EBUSY.
    assert "Device or resource busy" in refused.out, refused.out
    pair.client.run("dmesg | grep -q 'rpcrdma_rs: the name .rdma. is taken: unload the in-tree module first'")
    pair.client.run("rmmod rpcrdma")
    wait_until(lambda: "rpcrdma " not in pair.client.run("cat /proc/modules").out, "the in-tree module stayed", 20)
    pair.load_module()
    pair.mount("4.2")
    pair.umount()


@test(
    "{credits} slots, many users",
    "H-9",
    "H-10",
    "H-57",
    limit=120,
    cases=[{"credits": 4}, {"credits": 16384}],
)
def slots(pair: Pair, credits: int) -> None:
    """With few slots no user waits for ever; with more than the device has room for, it takes as many as fit."""
    if pair.options.client != "ours":
        return
    pair.unload_module()
    pair.client.run(f"insmod /share/rpcrdma_rs.ko credits={credits}")
    pair.mount("4.2", "noac")
    users = pair.options.scaled(48, 12)
    pair.client.run(
        f"""
        mkdir {MOUNT_POINT}/slots
        i=0
        while [ $i -lt {users} ]; do
            i=$((i + 1))
            (for n in 1 2 3 4 5; do echo $i.$n >{MOUNT_POINT}/slots/$i; cat {MOUNT_POINT}/slots/$i >/dev/null; done) &
        done
        wait
        test $(ls {MOUNT_POINT}/slots | wc -l) = {users}
        rm -r {MOUNT_POINT}/slots
        """,
        100,
    )
    counts = transport(pair.client, MOUNT_POINT)
    odd = {name: counts[name] for name in SUSPICIOUS if counts.get(name)}
    assert not odd, f"with {credits} slots: {odd}"
    pair.umount()
    pair.unload_module()
    pair.load_module()
