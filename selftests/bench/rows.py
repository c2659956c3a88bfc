# SPDX-License-Identifier: GPL-2.0
"""What is measured: each row is a load on a mount or on an RPC client, and how to have it counted."""

from __future__ import annotations

from dataclasses import dataclass

from harness import rpcload
from harness.network import SERVER
from harness.pair import MOUNT_POINT

CONTROL = f"{rpcload.FILES}/control"
DATA = f"{MOUNT_POINT}/data"  # 64 MiB
MANY = f"{MOUNT_POINT}/many"  # 3,000 empty files
TREE = "/tmp/tree"  # 2,000 files, in the client's memory
FILES, DIRECTORIES = "/tmp/files", "/tmp/directories"  # their names
COPY = f"{MOUNT_POINT}/copy"
OUT = "/tmp/out"

KIB, MIB = 1 << 10, 1 << 20
DEEP = 2048  # calls that are made when several are on their way


@dataclass(frozen=True)
class Setting:
    """What rows have in common: a mount, or an RPC client of the test module."""

    name: str
    vers: str = ""
    options: str = ""
    program: str = ""

    @property
    def client(self) -> str:
        """The line that opens the RPC client."""
        port = {"nfs": 20049, "echo": 20050}[self.program]
        return f"open addr={SERVER.ipv4} port={port} program={self.program}"


@dataclass(frozen=True)
class Row:
    """One line of the table.

    `loads` are arguments of the load program. Of two loads of different length the difference is taken, which rids the
    row of what each run costs once.
    """

    name: str
    setting: Setting
    loads: tuple[str, ...]
    operations: tuple[int, ...] = ()  # of each load, where the load program does not know
    before: str = ""  # a script that is not counted
    kind: str = "nfs"  # or transport: only sunrpc above it
    repeats: int = 1  # in each visit
    rehearsed: bool = True  # done once before anything counts: what is done first in the life of a guest costs more


NFS3 = Setting("NFSv3", vers="3")
NFS42 = Setting("NFSv4.2", vers="4.2")
NFS3_4 = Setting("NFSv3 nconnect=4", vers="3", options="nconnect=4")
NFS42_4 = Setting("NFSv4.2 nconnect=4", vers="4.2", options="nconnect=4")
NULL = Setting("RPC null", program="nfs")
ECHO = Setting("RPC echo", program="echo")

FORGET = "sync; echo 3 >/proc/sys/vm/drop_caches"


def size(octets: int) -> str:
    """A size for people."""
    if octets >= MIB:
        return f"{octets // MIB} MiB"
    return f"{octets // KIB} KiB" if octets >= KIB and octets % KIB == 0 else f"{octets}"


def direct(what: str, setting: Setting, octets: int, depth: int) -> Row:
    """Direct reads or writes."""
    one, several = {4 * KIB: (192, 1024), 8 * KIB: (192, 1024), 64 * KIB: (96, 256), MIB: (16, 64)}[octets]
    # Whole rounds of the depth, so that every visit sees the same ones.
    count = several if depth > 1 else one
    warm = max(2 * depth, 8) if octets < MIB else depth
    return Row(
        f"{setting.name} {what} {size(octets)}, depth {depth}",
        setting,
        (f"{what} {DATA} {warm} {count} {octets} {depth}",),
        rehearsed=octets < MIB,  # what comes before the marks is rehearsal enough for the largest
    )


def nfs(setting: Setting) -> list[Row]:
    """The rows of one mount."""
    rows = [
        Row(f"{setting.name} GETATTR", setting, (f"getattr {DATA} 20 400",)),
        Row(f"{setting.name} LOOKUP", setting, (f"lookup {MANY} 20 600",), before=FORGET),
        Row(f"{setting.name} CREATE + REMOVE", setting, (f"create {MOUNT_POINT} 10 150",)),
        Row(f"{setting.name} READDIR of 3,000", setting, (f"readdir {MANY}",), operations=(1,), before=FORGET),
    ]
    rows += [
        direct(what, setting, octets, depth)
        for octets in (4 * KIB, 8 * KIB, 64 * KIB, MIB)
        for depth in (1, 8, 64)
        for what in ("read", "write")
    ]
    inward, outward = (f"run sh -c '{copy(*ends)}; sync'" for ends in ((TREE, COPY), (COPY, OUT)))
    there = f"[ -e {COPY} ] || cp -r {TREE} {COPY}; rm -rf {OUT}; {FORGET}"
    clear = f"rm -rf {COPY} {OUT}; {FORGET}"
    # The programs come from a file system of the host: what that costs is not to be counted.
    programs = "for program in cp mkdir xargs; do $program --version >/dev/null; done; sync"
    there, clear = (f"{script}; {programs}" for script in (there, clear))
    return [
        *rows,
        Row(f"{setting.name} tree in, per file", setting, (inward,), (2000,), clear, rehearsed=False),
        Row(f"{setting.name} tree out, per file", setting, (outward,), (2000,), there, rehearsed=False),
    ]


def copy(source: str, target: str) -> str:
    """The command that copies the tree, with eight processes."""
    return (
        f"mkdir {target} && cd {target} && xargs -a {DIRECTORIES} mkdir -p &&"
        f" cd {source} && xargs -a {FILES} -P 8 -n 250 cp --parents -t {target}"
    )


def nconnect(setting: Setting) -> list[Row]:
    """Several connections."""
    return [direct("read", setting, 4 * KIB, depth) for depth in (8, 64)]


def calls(name: str, setting: Setting, words: str, depth: int, count: int) -> Row:
    """Calls of the test module: what comes on top of the calls is the same for a short and a long run."""
    # At a depth the tasks of the client compete for its processor, and it takes many calls to see what that costs.
    short, count = (2 * depth, max(count, DEEP)) if depth > 1 else (16, count)
    return Row(
        name,
        setting,
        tuple(f"put {CONTROL} 'run {words} depth={depth} count={n} verify=0'" for n in (short, short + count)),
        operations=(short, short + count),
        kind="transport",
    )


# Where data goes and how it is marked, and with that the transfer mode of a large one.
MODES = {
    "Read chunk": "call={} call_in=pages call_ddp=1",
    "Write chunk": "reply={} reply_in=pages reply_ddp=1",
    "Long call": "call={} call_in=pages",
    "Reply chunk": "reply={} reply_in=pages",
}


def transport() -> list[Row]:
    """Rows without NFS."""
    rows = [calls(f"RPC NULL, depth {depth}", NULL, "proc=null", depth, 192) for depth in (1, 8, 64)]
    for octets in (1, 1000):
        rows.append(
            calls(f"RPC inline {size(octets)} both ways", ECHO, f"proc=echo call={octets} reply={octets}", 1, 192)
        )
    rows.append(calls("RPC inline 1000 both ways, depth 64", ECHO, "proc=echo call=1000 reply=1000", 64, 192))
    for mode, words in MODES.items():
        for octets in (4000, 16 * KIB, 64 * KIB, 256 * KIB, MIB):
            count = max(16, min(96, 4 * MIB // octets))
            rows.append(calls(f"RPC {mode} {size(octets)}", ECHO, f"proc=echo {words.format(octets)}", 1, count))
        rows.append(calls(f"RPC {mode} 16 KiB, depth 64", ECHO, f"proc=echo {words.format(16 * KIB)}", 64, 192))
    rows.append(Row("RPC reconnect", ECHO, (f"put {CONTROL} reconnect",), operations=(1,), kind="transport", repeats=3))
    return rows


ROWS: list[Row] = [*transport(), *nfs(NFS3), *nfs(NFS42), *nconnect(NFS3_4), *nconnect(NFS42_4)]


def select(patterns: list[str]) -> list[Row]:
    """The rows whose names contain one of the patterns; all without any."""
    return [row for row in ROWS if not patterns or any(pattern.lower() in row.name.lower() for pattern in patterns)]
