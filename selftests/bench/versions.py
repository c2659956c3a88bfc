# SPDX-License-Identifier: GPL-2.0
"""What version 2 changes, between two ends of ours: segments, messages and memory, and the time where it shows.

The numbers of segments, messages and bytes are exact. Times are those of one run on this machine: only large differences
mean anything.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import MOUNT_POINT, Pair
from guests.lib import kerberos
from guests.lib.capture import capturing
from guests.lib.live import request, segments_written, shown, some_calls, until
from guests.lib.messages import messages
from guests.lib.mountstats import transport
from guests.lib.rules import rule

TRACING = "/sys/kernel/tracing"
LARGER = 16384
SERVER_DATA = """
cd /export
head -c 16M /dev/urandom >data
mkdir files names acls
for number in $(seq 200); do echo $number >files/$number; done
people=$(seq -s, -f u:%g:r 2001 2060)
for number in $(seq 40); do echo $number >acls/$number; done
setfacl -m $people acls/*
cd names
seq -f name-%05g 500 | xargs touch
"""


@dataclass(frozen=True)
class Setting:
    """The rules of both ends."""

    name: str
    rule: dict[str, object] = field(default_factory=dict)
    grown: int = 0  # bytes to which both ends raise their Receives


@dataclass(frozen=True)
class Load:
    """Calls of one kind."""

    name: str
    vers: str
    command: str
    count: int
    flavour: str = "sys"


TWO = {"version": "2", "inline_max": LARGER}
SETTINGS = (
    Setting("1, 1024", {"private_data": "off"}),
    Setting("1, 4096"),
    Setting("1, 16384", {"inline_send": LARGER, "inline_receive": LARGER}),
    Setting("2, 4096", TWO),
    Setting("2, raised to 16384", TWO, LARGER),
)
DIRECT = "dd if=data of=/dev/null iflag=direct"
FORGET = "echo 2 >/proc/sys/vm/drop_caches"
LOADS = (
    Load("names looked up, NFSv4.2", "4.2", f"{FORGET}; stat files/* >/dev/null", 5),
    Load("files opened, read and closed, NFSv4.2", "4.2", f"{FORGET}; cat files/* >/dev/null", 5),
    Load("names looked up, NFSv4.2, krb5i", "4.2", f"{FORGET}; stat files/* >/dev/null", 5, "krb5i"),
    Load("files opened, read and closed, krb5i", "4.2", f"{FORGET}; cat files/* >/dev/null", 5, "krb5i"),
    Load("reads of 4 KiB, NFSv3", "3", f"{DIRECT} bs=4k count=1000 status=none", 2),
    Load("the same, 16 at a time", "3", f"seq 16 | xargs -P 16 -I% {DIRECT} bs=4k count=100 status=none", 2),
    Load("writes of 8 KiB, NFSv3", "3", "dd if=/dev/zero of=out oflag=direct bs=8k count=500 status=none", 2),
    Load("listings of 500 names, NFSv3", "3", f"{FORGET}; echo 1 >/proc/sys/vm/drop_caches; ls names >/dev/null", 40),
    Load("ACLs of 60 entries, read, NFSv3", "3", f"{FORGET}; for file in acls/*; do getfacl $file; done >/dev/null", 5),
)
FLAVOURS = (("3", "sys"), ("4.2", "sys"), ("4.2", "krb5i"))
INLINE = (4096, 8192, 16384, 32768, 65536)
READS = (2048, 4096, 8192, 16384, 32768, 61440)


@contextmanager
def ends(pair: Pair, setting: Setting, vers: str, flavour: str = "sys") -> Iterator[None]:
    """A mount with the rules of a setting; with the Receives raised, where it says so."""
    with (
        rule(pair.client, "bench", peer=SERVER.ipv4, **setting.rule),
        rule(pair.server, "bench", side="server", peer=CLIENT.ipv4, **setting.rule),
    ):
        if flavour == "sys":
            pair.mount(vers)
        else:
            kerberos.bring_up(pair)
            pair.client.run(kerberos.mount_command(vers, flavour, MOUNT_POINT), 60)
        if setting.grown:
            for guest in pair.guests:
                request(guest, f"peer-receive-size={setting.grown}")
            for end in (0, 1):
                until(pair, end, "receive_size", str(setting.grown))
            until(pair, 0, "inline_reply", f"{setting.grown} limited by both")
        yield
        pair.umount()


def table(title: str, head: list[str], lines: list[list[str]]) -> str:
    """A table of reStructuredText."""
    rows = [[head[0] or "\\", *head[1:]], *lines]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule_line = " ".join("=" * width for width in widths)
    texts = [" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([title, "", rule_line, texts[0], rule_line, *texts[1:], rule_line, ""])


def counts(pair: Pair) -> tuple[int, int, int]:
    """The calls so far, their chunks, and the segments that the server has read and written."""
    client = transport(pair.client, MOUNT_POINT)
    chunks = sum(client[f"{kind}_chunks"] for kind in ("read", "write", "reply"))
    return client["sends"], chunks, sum(segments_written(pair))


def timed(pair: Pair, command: str, times: int = 1) -> float:
    """The seconds that a command takes in the client, on the clock of this machine."""
    start = time.monotonic()
    pair.client.run(f"cd {MOUNT_POINT}; for turn in $(seq {times}); do {command}; done", 600)
    return time.monotonic() - start


def calls(pair: Pair) -> str:
    """Chunks, segments and time of a call, by load and setting."""
    cells: dict[str, list[str]] = {load.name: [load.name] for load in LOADS}
    for vers, flavour in FLAVOURS:
        for setting in SETTINGS:
            with ends(pair, setting, vers, flavour):
                for load in (load for load in LOADS if (load.vers, load.flavour) == (vers, flavour)):
                    timed(pair, load.command)
                    before = counts(pair)
                    took = timed(pair, load.command, load.count)
                    done, chunks, segments = (now - then for now, then in zip(counts(pair), before, strict=True))
                    cells[load.name].append(f"{chunks / done:.2f}, {segments / done:.2f}, {took / done * 1e6:.0f}")
    head = ["calls", *(setting.name for setting in SETTINGS)]
    return table("Chunks of a call, segments that move, microseconds, by version and size", head, [*cells.values()])


def crossing(pair: Pair) -> str:
    """The time of a read, by its size and the inline size."""
    cells = [[str(size)] for size in READS]
    for inline in INLINE:
        with ends(pair, Setting("", {"inline_send": inline, "inline_receive": inline}), "3"):
            for row, size in zip(cells, READS, strict=True):
                number = 16_000_000 // max(size, 16384)
                command = f"{DIRECT} bs={size} count={number} status=none"
                timed(pair, command)
                row.append(f"{median(timed(pair, command) for _ in range(3)) / number * 1e6:.0f}")
    head = ["bytes read", *(str(inline) for inline in INLINE)]
    return table("Microseconds of a read, by its size and the inline size", head, cells)


def memory(pair: Pair) -> str:
    """The memory of a connection, at both ends."""

    def kib() -> list[str]:
        some_calls(pair)
        return [str(int(end["memory"].split()[0])) for end in shown(pair)]

    lines = []
    for setting in SETTINGS:
        with ends(pair, setting, "3"):
            lines.append([setting.name, *kib()])
            if setting.grown:
                request(pair.client, "peer-receive-size=4096")
                until(pair, 1, "receive_size", "4096")
                for _ in range(5):
                    some_calls(pair)
                lines.append(["2, the server's Receives at 4096 again", *kib()])
    return table("KiB of the buffers of a connection", ["version, inline size", "client", "server"], lines)


def first_contact(pair: Pair) -> str:
    """The messages of a mount, and its time."""

    def mounted(name: str) -> tuple[int, float]:
        with capturing(pair.client, name.replace(" ", "-")) as capture:
            start = time.monotonic()
            pair.mount("3")
            took = time.monotonic() - start
            pair.umount()
        return len(messages(capture)), took * 1e3

    found = {"version 1": mounted("version 1")}
    with rule(pair.server, "bench", side="server", peer=CLIENT.ipv4, version="2"):
        with rule(pair.client, "bench", peer=SERVER.ipv4, version="2"):
            found["version 2"] = mounted("version 2")
    with rule(pair.client, "bench", peer=SERVER.ipv4, version="auto"):
        found["auto, the server has version 1 alone: first mount"] = mounted("auto first")
        found["the same: second mount"] = mounted("auto again")
    least, _ = found["version 1"]
    lines = [[name, str(count), f"+{(count - least) / 2:g}", f"{took:.0f}"] for name, (count, took) in found.items()]
    return table("Messages of a mount of NFSv3", ["", "messages", "round trips", "ms"], lines)


EVENTS = f"{TRACING}/events/rpcrdma_rs"
READING = f"""
rm -f /tmp/enough
while [ ! -e /tmp/enough ]; do
    dd if={MOUNT_POINT}/data of=/dev/null iflag=direct bs=4k status=none
done
"""


def under_load(pair: Pair) -> str:
    """The effect of growth on a load that is running."""
    with ends(pair, Setting("", TWO), "3"):
        reader = pair.client.spawn(READING)
        pair.client.run(
            f"mountpoint -q {TRACING} || mount -t tracefs tracefs {TRACING}; cd {TRACING}; echo >trace;"
            "echo mono >trace_clock; echo 65536 >buffer_size_kb;"
            f"for event in operation reply; do echo 1 >{EVENTS}/xprtrdma_$event/enable; done; sleep 2"
        )
        for guest in pair.guests:
            request(guest, f"peer-receive-size={LARGER}")
        pair.client.run(f"sleep 3; for event in operation reply; do echo 0 >{EVENTS}/xprtrdma_$event/enable; done")
        pair.client.run("touch /tmp/enough")
        pair.client.finish(reader, "the reader", 60)
        lines = pair.client.run(f"cat {TRACING}/trace; echo >{TRACING}/trace", 60).out.splitlines()
    times, begins, effects = [], {}, {}
    for line in lines:
        if found := re.search(r"(\d+\.\d+): xprtrdma_reply:", line):
            times.append(float(found[1]))
        elif found := re.search(r" (REQXCH|UPDXCH) (sent|received) receive_size=(\d+) peer_\w+=(\d+)", line):
            operation, way, own, peer = found.groups()
            which = "client's" if (operation, way) in (("REQXCH", "received"), ("UPDXCH", "sent")) else "server's"
            if operation == "REQXCH":
                begins.setdefault(which, len(times))
            elif (own if which == "client's" else peer) == str(LARGER):
                effects.setdefault(which, len(times))
    first, last = min(begins.values()), max(effects.values())
    rows = [
        [f"calls from the request until the {which} Receives are larger", str(effects[which] - begins[which])]
        for which in ("client's", "server's")
    ]
    rows.append(["milliseconds from the first request until both are", f"{(times[last] - times[first]) * 1e3:.0f}"])
    rows += [
        [f"microseconds of a call {when}: median, longest", f"{median(gaps):.0f}, {max(gaps):.0f}"]
        for when, gaps in (
            ("before", gaps_between(times[:first])),
            ("meanwhile", gaps_between(times[first : last + 1])),
            ("after", gaps_between(times[last:])),
        )
    ]
    return table("Growth under reads of 4 KiB, one at a time", ["", "number"], rows)


def gaps_between(times: list[float]) -> list[float]:
    """Microseconds from each time to the next."""
    return [(after - before) * 1e6 for before, after in pairwise(times)]


def run(pair: Pair) -> str:
    """All of it."""
    pair.server.run(SERVER_DATA, 120)
    return "\n".join(part(pair) for part in (calls, first_contact, memory, under_load, crossing))
