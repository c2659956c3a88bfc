# SPDX-License-Identifier: GPL-2.0
"""The transport's counters: the counters that the tools know have the in-tree module's meaning; ours are separate."""

from __future__ import annotations

import re
from dataclasses import dataclass

from guests.harness.pair import MOUNT_POINT, Late, Pair, wait_until
from guests.harness.registry import Skip, test
from guests.lib.mountstats import FIELDS, named, of_mount, transport

VERSIONS = [{"vers": "3"}, {"vers": "4.2"}]
OWN = "/sys/kernel/debug/rpcrdma_rs"
# Attributes that are not asked for again, however slow the machine: the number of calls does not depend on time.
STEADY = "actimeo=3600,rsize=1048576,wsize=1048576"


def row(pair: Pair) -> list[int]:
    """The numbers of the transport's line, which are as many as the tools know."""
    numbers, _ = of_mount(pair.client, MOUNT_POINT)
    assert len(numbers) == len(FIELDS), f"{len(numbers)} numbers instead of {len(FIELDS)}: {numbers}"
    return numbers


@test("the line has 27 numbers, vers={vers}", "V1-141", cases=VERSIONS)
def line(pair: Pair, vers: str) -> None:
    """Readers of mountstats go by the position, and some allot exactly as many places as the in-tree module fills."""
    pair.mount(vers)
    pair.client.run(f"ls {MOUNT_POINT}")
    row(pair)
    pair.umount()


# Sizes are multiples of four: the in-tree module offers a segment more for the padding of others, which no server may use.
# One program at a time and no time of day: nothing of this depends on how fast the machine is.
WORK = """
cd {mount_point}
mkdir {name}
cd {name}
for size in 1000 65536 1048576 4194304; do
    dd if=/dev/zero of=direct-$size bs=$size count=1 oflag=direct status=none
    dd if=/dev/zero of=buffered-$size bs=$size count=1 conv=fsync status=none
done
# Longer than a message.
ln -s $(head -c 4000 /dev/zero | tr '\\000' /) long
sync
echo 3 >/proc/sys/vm/drop_caches
for size in 1000 65536 1048576 4194304; do
    dd if=direct-$size of=/dev/null bs=4M iflag=direct status=none
    dd if=buffered-$size of=/dev/null bs=4M status=none
done
dd if=direct-1000 of=/dev/null bs=1000 iflag=direct status=none
readlink long | wc -c
ls ../many | wc -l
cd /
"""


@dataclass(frozen=True)
class Rule:
    """The bounds of a number of ours relative to the in-tree module's after the same work, and the reason."""

    why: str
    low: float = 0.0  # ours is at least `low` times theirs
    high: float | None = None  # and at most `high` times
    slack: int = 0  # give or take `slack`

    def holds(self, ours: int, theirs: int) -> bool:
        """Returns `True` if the two numbers are within the bounds."""
        return self.low * theirs - self.slack <= ours and (self.high is None or ours <= self.high * theirs + self.slack)


SAME = Rule("the same work", 1, 1)
# Over rxe the in-tree module registers at most 32 pages at once, a limit that the device has for its Reads; ours takes
# as many as a registration may have, which is enough for the largest payload. So 1 MiB is one segment here and eight
# there, and more where a call was marshalled again.
WIDER = Rule("a segment is a registration, and in-tree one has 32 pages at most over rxe", 1 / 10, 1)
FEWER = Rule("so, and head, pages and tail of a Reply chunk can share a registration", 0, 1)
RULES = dict.fromkeys(FIELDS, SAME) | {
    "connect_time": Rule("time"),
    "idle_time": Rule("time"),
    # SEQUENCE renews the lease after some seconds, and a callback channel may come sooner or later.
    "sends": Rule("calls that depend on time", 0.9, 1.1, 8),
    "receives": Rule("calls that depend on time", 0.9, 1.1, 8),
    "request_utilisation": Rule("calls outstanding at each send: time"),
    "backlog_utilisation": Rule("time"),
    "read_chunks": WIDER,
    "write_chunks": WIDER,
    "reply_chunks": FEWER,
    # In-tree, a call that finds too few registrations counts the ones it had, and all of them when it is sent.
    "request_bytes": Rule("the same work, but calls that had to be marshalled again count twice in-tree", 0.8, 1),
    "hardway_bytes": Rule("the in-tree module enlarges a slot's buffers, ours allocates those of each call"),
    "failed_marshals": Rule("the in-tree module counts each time that it has no registration left and makes more"),
    "mrs_allocated": Rule("each makes as many in advance as it sees fit"),
    "local_invalidates": Rule(
        "the server invalidates one handle for each call; there are more calls with several", 0, 1
    ),
    "empty_sendctx": Rule("the queues differ in size"),
}


def work(pair: Pair, vers: str, name: str) -> tuple[list[int], dict[str, list[int]]]:
    """Does the work in a directory of this name over a mount of its own; returns the numbers at the end."""
    pair.mount(vers, STEADY)
    done = pair.client.run(WORK.format(mount_point=MOUNT_POINT, name=name), 90)
    assert done.lines == ["4001", "400"], done.out
    numbers, calls = of_mount(pair.client, MOUNT_POINT)
    pair.umount()
    # On a starved machine rxe has been seen to give up after its retries.
    if (connections := named(numbers)["connect_count"]) > 1:
        raise Late(f"the work took {connections} connections")
    return numbers, calls


def side_by_side(ours: list[int], theirs: list[int]) -> str:
    """Both rows, one field a line."""
    rows = [f"{'':20} {'ours':>12} {'in-tree':>12}"]
    mine, other = named(ours), named(theirs)
    for name in FIELDS:
        mark = "" if RULES[name].holds(mine[name], other[name]) else f"   <- {RULES[name].why}"
        rows.append(f"{name:20} {mine[name]:12} {other[name]:12}{mark}")
    return "\n".join(rows)


@test("the numbers are those of the in-tree module, vers={vers}", "V1-141", limit=180, cases=VERSIONS)
def same(pair: Pair, vers: str) -> None:
    """The same work over both modules counts the same, but for the numbers in `RULES`, each with its reason."""
    if pair.options.client != "ours":
        raise Skip("compares our module with the other")
    pair.server.run("cd /export; rm -rf one two; mkdir -p many; cd many; seq -f file-%05g 400 | xargs touch")
    # Else nfsd grants delegations as soon as the callback path is up, which is time.
    pair.server.run("sysctl -q -w fs.leases-enable=0")
    ours, my_calls = work(pair, vers, "one")
    pair.unload_module()
    pair.client.run("modprobe --ignore-install rpcrdma")
    theirs, their_calls = work(pair, vers, "two")
    pair.client.run("until rmmod rpcrdma; do sleep 0.1; done", 20)
    pair.load_module()
    pair.server.run("sysctl -q -w fs.leases-enable=1; rm -rf /export/one /export/two /export/many")
    both = f"vers={vers}\n{side_by_side(ours, theirs)}\ncalls, bytes sent, bytes received of each operation:"
    for name in my_calls | their_calls:
        mine, other = ([numbers[name][i] for i in (0, 3, 4)] for numbers in (my_calls, their_calls))
        both += f"\n{name:20} {mine} {other}" if any(mine) or any(other) else ""
    mine, other = named(ours), named(theirs)
    for name in FIELDS:
        assert RULES[name].holds(mine[name], other[name]), f"{name}: {RULES[name].why}\n{both}"
    for name in ("read_chunks", "write_chunks", "reply_chunks", "pullup_bytes", "fixup_bytes"):
        assert mine[name] > 0, f"the work does not move {name}\n{both}"
    assert mine["sends"] == mine["receives"], both


# The names of the numbers in nfs-utils' mountstats.
LABELS = {
    "connect_count": r"Connect count: (\d+)",
    "sends": r"RPC requests: (\d+)",
    "receives": r"RPC replies: (\d+)",
    "read_chunks": r"Read segments: (\d+)",
    "write_chunks": r"Write segments: (\d+)",
    "reply_chunks": r"Reply segments: (\d+)",
    "request_bytes": r"Registered: (\d+) bytes",
    "reply_bytes": r"RDMA received: (\d+) bytes",
    "mrs_allocated": r"Allocated MRs: (\d+)",
    "local_invalidates": r"Local Invalidates needed: (\d+)",
}


@test("nfs-utils reads the numbers, vers={vers}", "V1-141", cases=VERSIONS)
def tools(pair: Pair, vers: str) -> None:
    """mountstats shows them under its labels, and nfsiostat shows the mount."""
    pair.server.run("head -c 1M /dev/zero >/export/tools")
    pair.mount(vers, STEADY)
    pair.client.run(f"cat {MOUNT_POINT}/tools >/dev/null; head -c 1M /dev/zero >{MOUNT_POINT}/tools; sync")
    # A renewal of the lease can come in between, and on a slow machine comes between any two looks.
    before = transport(pair.client, MOUNT_POINT)
    shown = pair.client.run(f"mountstats mountstats -x {MOUNT_POINT}").out
    raw = transport(pair.client, MOUNT_POINT)
    for name, label in LABELS.items():
        found = re.search(label, shown)
        wanted = f"{name} is {before[name]} to {raw[name]}, not as shown here:\n{shown}"
        assert found and before[name] <= int(found[1]) <= raw[name], wanted
    assert raw["read_chunks"] and raw["write_chunks"], f"the work moved nothing: {raw}"
    # In-tree: bytes offered for Write and Reply chunks, and bytes that the server placed there.
    assert raw["request_bytes"] >= 1 << 20 and raw["reply_bytes"] >= 1 << 20, raw
    for options in ("", "--rpc"):
        shown = pair.client.run(f"mountstats mountstats {options} {MOUNT_POINT}").out
        assert "READ" in shown and MOUNT_POINT in shown, shown
    shown = pair.client.run(f"nfsiostat 1 2 {MOUNT_POINT}").out
    assert shown.count(f"mounted on {MOUNT_POINT}") == 2, shown
    pair.umount()
    pair.server.run("rm /export/tools")


def own_files(pair: Pair) -> list[str]:
    """The files of our transports in debugfs."""
    return pair.client.run(f"ls {OWN} 2>/dev/null | grep xprt- || true").lines


@test("our own counters have names in debugfs, vers={vers}", "PD-29", "V1-113", cases=VERSIONS)
def own(pair: Pair, vers: str) -> None:
    """One file for each transport names its peer and has a name and a value for each counter; it ends with the transport."""
    if pair.options.client != "ours":
        raise Skip("our own counters")
    pair.server.run("head -c 1M /dev/zero >/export/own")
    wait_until(lambda: not own_files(pair), f"left in {OWN}", 20 * pair.options.slowness)
    pair.mount(vers)
    pair.client.run(f"cat {MOUNT_POINT}/own >/dev/null")
    (file,) = own_files(pair)
    assert re.fullmatch(r"xprt-\d+", file), file
    first, *rest = pair.client.run(f"cat {OWN}/{file}").lines
    assert first == "peer 192.168.77.1 port 20049", first
    counters = {}
    # The state of the connection comes first, and the ends of earlier ones come last.
    start = next(number for number, text in enumerate(rest) if text.startswith("remote_invalidates "))
    for text in (text for text in rest[start:] if not text.startswith(("closed ", "failed "))):
        found = re.fullmatch(r"([a-z][a-z0-9_]*) (\d+)", text)
        assert found and found[1] not in counters, f"not a name and a number: {text!r}"
        counters[found[1]] = int(found[2])
    invalidated = [value for name, value in counters.items() if name.startswith("remote_invalid")]
    assert invalidated and invalidated[0] > 0, f"the server invalidated no handle: {counters}"
    assert transport(pair.client, MOUNT_POINT)["sends"] > 0
    pair.umount()
    wait_until(lambda: not own_files(pair), "the file outlives its transport", 20 * pair.options.slowness)
    pair.server.run("rm /export/own")


# Reads the file all the time, on an open descriptor and by name, and prints the result of each step of the removal.
READER = """
import errno, os, subprocess, sys
where, module, mount_point = sys.argv[1:]
path = f"{where}/{next(name for name in os.listdir(where) if name.startswith('xprt-'))}"
held = os.open(path, os.O_RDONLY)
assert os.pread(held, 4096, 0).startswith(b"peer ")
def look():
    try:
        return "data" if os.pread(held, 65536, 0) else "nothing"
    except OSError as error:
        return errno.errorcode[error.errno]
unmount = subprocess.Popen(["umount", mount_point])
seen = set()
while unmount.poll() is None:
    seen.add(look())
assert unmount.returncode == 0
refused = subprocess.run(["rmmod", module], capture_output=True).returncode
for _ in range(200):
    seen.add(look())
print("refused" if refused else "unloaded", *sorted(seen))
os.close(held)
"""


@test("counters that are read during the unmount, vers={vers}", "V1-141", "H-85", limit=90, cases=VERSIONS)
def going(pair: Pair, vers: str) -> None:
    """A reader that keeps the file open gets numbers or EIO; it may keep the module loaded while it has the file open."""
    if pair.options.client != "ours":
        raise Skip("our own counters")
    wait_until(lambda: not own_files(pair), f"left in {OWN}", 20 * pair.options.slowness)
    pair.mount(vers)
    assert own_files(pair), f"no file in {OWN}"
    done = pair.client.run(f"python3 -I -S - {OWN} {pair.module} {MOUNT_POINT} <<'END'\n{READER}\nEND", 40)
    outcome, *seen = done.out.split()
    assert outcome in ("refused", "unloaded") and set(seen) <= {"data", "EIO"}, done.out
    if outcome == "refused":
        pair.unload_module()
    pair.load_module()
