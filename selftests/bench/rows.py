# SPDX-License-Identifier: GPL-2.0
"""The rows of the comparison: each is a load on a mount or on an RPC client, with the means to count it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT
from guests.lib import rpcload

from .table import TUNED, untuned

CONTROL = f"{rpcload.FILES}/control"
DATA = f"{MOUNT_POINT}/data"  # 64 MiB
MANY = f"{MOUNT_POINT}/many"  # 3,000 empty files
TREE = "/tmp/tree"  # 2,000 files, in the client's memory
FILES, DIRECTORIES = "/tmp/files", "/tmp/directories"  # their names
COPY = f"{MOUNT_POINT}/copy"
OUT = "/tmp/out"

KIB, MIB = 1 << 10, 1 << 20
DEEP = 2048  # calls that are made when several are on their way
STEADY = 64  # calls after which a connection has all that it is going to use


@dataclass(frozen=True)
class Setting:
    """A mount, or an RPC client of the test module, that rows have in common."""

    name: str
    vers: str = ""
    options: str = ""
    program: str = ""
    rules: int = 0  # for other servers, where the transport has rules
    inline: int = 0  # the inline sizes of both sides, where they are not the default
    delay: int = 0  # microseconds that the network adds to a round trip

    @property
    def client(self) -> str:
        """The line that opens the RPC client."""
        port = {"nfs": 20049, "echo": 20050}[self.program]
        return f"open addr={SERVER.ipv4} port={port} program={self.program}"


@dataclass(frozen=True)
class Row:
    """One line of the table.

    `loads` are arguments of the load program. Of two loads of different length the difference is taken, which rids the
    row of the cost that each run has once. `rehearsal` is a load that comes before each visit: the first work in the life of a
    guest costs more, each visit has a new connection, and ours get most of their buffers when they are used (`STEADY` of
    send_queue.rs).
    `own` is the limit of the transport's own instructions, ours / in-tree.
    """

    name: str
    setting: Setting
    loads: tuple[str, ...]
    operations: tuple[int, ...] = ()  # of each load, where the load program does not know
    before: str = ""  # a script that is not counted
    kind: str = "nfs"  # or transport: only sunrpc above it; or connection: no call, but a connection
    own: float = 1.00
    repeats: int = 1  # in each visit
    visits: int = 0  # the transports' first visits that measure it; 0 for all
    rehearsal: str = ""


NFS3 = Setting("NFSv3", vers="3")
NFS42 = Setting("NFSv4.2", vers="4.2")
NFS3_4 = Setting("NFSv3 nconnect=4", vers="3", options="nconnect=4")
NFS42_4 = Setting("NFSv4.2 nconnect=4", vers="4.2", options="nconnect=4")
NFS3_16 = Setting("NFSv3 nconnect=16", vers="3", options="nconnect=16")
NULL = Setting("RPC null", program="nfs")
ECHO = Setting("RPC echo", program="echo")
TUNED_SIZE = 16 * KIB
TUNED_NULL = Setting("RPC null", program="nfs", inline=TUNED_SIZE)
TUNED_NFS3 = Setting(f"NFSv3 {TUNED}".rstrip(), vers="3", inline=TUNED_SIZE)
RULED = Setting("RPC echo with rules", program="echo", rules=1000)

SMALL = 0.90  # the limit of small calls, which have nothing but the cost of a call
LARGE = 1.00  # the limit of calls whose pages outweigh it

FORGET = "sync; echo 3 >/proc/sys/vm/drop_caches"


def size(bytes: int) -> str:
    """A size for people."""
    if bytes >= MIB:
        return f"{bytes // MIB} MiB"
    return f"{bytes // KIB} KiB" if bytes >= KIB and bytes % KIB == 0 else f"{bytes}"


def direct(what: str, setting: Setting, bytes: int, depth: int) -> Row:
    """Direct reads or writes."""
    one, several = {4 * KIB: (192, 768), 8 * KIB: (192, 768), 64 * KIB: (96, 256), MIB: (16, 64)}[bytes]
    # Whole rounds of the depth, so that every visit sees the same ones.
    count = several if depth > 1 else one
    warm = max(2 * depth, 8) if bytes < MIB else depth

    def load(number: int) -> str:
        return f"{what} {DATA} {warm} {number} {bytes} {depth}"

    # For the largest, the calls before the marks are rehearsal enough.
    name = f"{setting.name} {what} {size(bytes)}, depth {depth}"
    rehearsal = load(max(warm, STEADY)) if bytes < MIB else ""
    return Row(name, setting, (load(count),), rehearsal=rehearsal, own=SMALL if bytes <= 8 * KIB else LARGE)


def contiguous(what: str, setting: Setting) -> Row:
    """Direct reads or writes of huge pages."""
    count, depth = 64, 8
    load = f"huge-{what} {DATA} {depth} {count} {MIB} {depth}"
    return Row(f"{setting.name} {what} {size(MIB)}, contiguous, depth {depth}", setting, (load,), own=SMALL)


def mixed(name: str, setting: Setting, pattern: str, depth: int, own: float) -> Row:
    """Direct I/O of several kinds: a pattern of them (load.c), again and again. An operation is any of them."""
    count = 64 * len(pattern)

    def load(number: int) -> str:
        return f"mix {DATA} {4 * len(pattern)} {number} {depth} {pattern}"

    return Row(f"{setting.name} {name}, depth {depth}", setting, (load(count),), rehearsal=load(STEADY), own=own)


def names(
    setting: Setting, what: str, load: str, count: int = 0, before: str = "", operations: tuple[int, ...] = ()
) -> Row:
    """A load of names and attributes, `count` times of one that can be repeated; a tenth of that is its rehearsal."""
    loads = [f"{load} {number}" if count else load for number in (count, count // 10)]
    return Row(
        f"{setting.name} {what}",
        setting,
        (loads[0],),
        operations,
        before,
        rehearsal=loads[1],
        own=SMALL if count else LARGE,
    )


def nfs(setting: Setting) -> list[Row]:
    """The rows of one mount."""
    rows = [
        names(setting, "GETATTR", f"getattr {DATA} 20", 400),
        names(setting, "LOOKUP", f"lookup {MANY} 20", 400, before=FORGET),
        names(setting, "CREATE + REMOVE", f"create {MOUNT_POINT} 10", 150),
        names(setting, "READDIR of 3,000", f"readdir {MANY}", operations=(1,), before=FORGET),
    ]
    rows += [
        direct(what, setting, bytes, depth)
        for bytes in (4 * KIB, 8 * KIB, 64 * KIB, MIB)
        for depth in (1, 8, 64)
        for what in ("read", "write")
    ]
    inward, outward = (f"run sh -c '{copy(*ends)}; sync'" for ends in ((TREE, COPY), (COPY, OUT)))
    there = f"[ -e {COPY} ] || cp -r {TREE} {COPY}; rm -rf {OUT}; {FORGET}"
    clear = f"rm -rf {COPY} {OUT}; {FORGET}"
    # The programs come from a file system of the host, whose cost is not to be counted.
    programs = "for program in cp mkdir xargs; do $program --version >/dev/null; done; sync"
    there, clear = (f"{script}; {programs}" for script in (there, clear))
    return [
        *rows,
        # With as many operations all visits are alike.
        Row(f"{setting.name} tree in, per file", setting, (inward,), (2000,), clear, visits=1),
        Row(f"{setting.name} tree out, per file", setting, (outward,), (2000,), there, visits=1),
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


def calls(name: str, setting: Setting, words: str, depth: int, count: int, own: float = LARGE) -> Row:
    """Calls of the test module: the cost on top of the calls is the same for a short and a long run."""
    # At a depth the tasks of the client compete for its processor, and it takes many calls to see the cost of that.
    short, count = (2 * depth, max(count, DEEP)) if depth > 1 else (16, count)
    numbers = (short, short + count)
    first, *loads = (
        f"put {CONTROL} 'run {words} depth={depth} count={number} verify=0'"
        for number in (4 * short + STEADY, *numbers)
    )
    return Row(name, setting, tuple(loads), numbers, kind="transport", rehearsal=first, own=own)


# The place of the data and its mark, and with that the transfer mode of a large message.
MODES = {
    "Read chunk": "call={} call_in=pages call_ddp=1",
    "Write chunk": "reply={} reply_in=pages reply_ddp=1",
    "Long call": "call={} call_in=pages",
    "Reply chunk": "reply={} reply_in=pages",
}


def transport() -> list[Row]:
    """Rows without NFS."""
    rows = [calls(f"RPC NULL, depth {depth}", NULL, "proc=null", depth, 256, SMALL) for depth in (1, 8, 64)]
    for bytes, depth in ((1, 1), (1000, 1), (1000, 64)):
        name = f"RPC inline {size(bytes)} both ways" + (f", depth {depth}" if depth > 1 else "")
        words = f"proc=echo call={bytes} reply={bytes}"
        rows.append(calls(name, ECHO, words, depth, 256 if depth == 1 else 192, SMALL))
    for mode, words in MODES.items():
        # Pages as they come are contiguous in one run and scattered in the next; a row is the difference of two.
        scattered = f"proc=echo memory=scattered {words}"
        for bytes in (4000, 16 * KIB, 64 * KIB, 256 * KIB, MIB):
            # An event that comes once, such as a flush of a memory cache, is not to count for a hundredth.
            count = max(24, min(128, 8 * MIB // bytes))
            own = SMALL if bytes < 4 * KIB else LARGE
            rows.append(calls(f"RPC {mode} {size(bytes)}", ECHO, scattered.format(bytes), 1, count, own))
        if "ddp" in words:
            name = f"RPC {mode} 1 MiB, contiguous"
            rows.append(calls(name, ECHO, f"proc=echo memory=contiguous {words.format(MIB)}", 1, 24, SMALL))
        rows.append(calls(f"RPC {mode} 16 KiB, depth 64", ECHO, scattered.format(16 * KIB), 64, 192))
    # The first in the life of a module, or after other sizes, finds the allocator's caches empty.
    again = f"put {CONTROL} reconnect"
    for name, setting in (("RPC reconnect", ECHO), (f"RPC reconnect, {RULED.rules:,} rules", RULED)):
        rows.append(Row(name, setting, (again,), (1,), f"echo reconnect >{CONTROL}", kind="connection", repeats=3))
    return rows


def tuned() -> list[Row]:
    """Calls that go inline only if both sides take up to 16 KiB."""
    rows = [calls(f"RPC {TUNED}NULL, depth {depth}", TUNED_NULL, "proc=null", depth, 256, SMALL) for depth in (1, 64)]
    return [
        *rows,
        *(
            direct(what, TUNED_NFS3, bytes, depth)
            for bytes in (4 * KIB, 8 * KIB)
            for depth in (1, 64)
            for what in ("read", "write")
        ),
    ]


ROWS: list[Row] = [
    *transport(),
    *nfs(NFS3),
    *(contiguous(what, NFS3) for what in ("read", "write")),
    *nfs(NFS42),
    *nconnect(NFS3_4),
    *nconnect(NFS42_4),
]
# The rows that only --more and patterns add.
MORE: list[Row] = [
    *tuned(),
    *nconnect(NFS3_16),
    mixed("70 % read, 30 % write 4 KiB", NFS3, "rrwrrwrrwr", 8, SMALL),
    mixed("read 4 KiB beside 1 MiB", NFS3, "rrrrrrrR", 8, LARGE),
    mixed("write 4 KiB beside 1 MiB", NFS3, "wwwwwwwW", 8, LARGE),
]


# The rows without NFS that are counted at the server, too.
SERVED = (
    "RPC NULL, depth 1",
    "RPC NULL, depth 64",
    "RPC inline 1000 both ways",
    *(f"RPC {mode} {amount}" for mode in MODES for amount in ("16 KiB", "1 MiB", "16 KiB, depth 64")),
    "RPC reconnect",
)


def served() -> list[Row]:
    """The rows whose instructions are those of the server."""
    return [
        *(row for row in transport() if row.name in SERVED),
        *(names(setting, "GETATTR", f"getattr {DATA} 20", 400) for setting in (NFS3, NFS42)),
        *(
            direct(what, setting, bytes, depth)
            for setting, sizes in ((NFS3, (4 * KIB, 64 * KIB, MIB)), (NFS42, (4 * KIB,)))
            for bytes in sizes
            for depth in (1, 64)
            for what in ("read", "write")
        ),
    ]


def select(patterns: list[str], more: bool = False) -> list[Row]:
    """The rows whose names contain one of the patterns, of all rows; without any, all that are measured by default.

    A row of larger inline sizes brings the row that it is compared with.
    """
    if not patterns:
        return [*ROWS, *MORE] if more else ROWS
    found = {row.name for row in [*ROWS, *MORE] if any(pattern.lower() in row.name.lower() for pattern in patterns)}
    found |= {untuned(name) for name in found}
    return [row for row in [*ROWS, *MORE] if row.name in found]


def select_served(patterns: list[str]) -> list[Row]:
    """Likewise, of the rows of the server, whose limit for the transport's own instructions is one."""
    found = [replace(row, own=LARGE) for row in served()]
    return [row for row in found if not patterns or any(pattern.lower() in row.name.lower() for pattern in patterns)]
