# SPDX-License-Identifier: GPL-2.0
"""The summary for people, as a page of the documentation."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass

from . import rows, speed, table
from .sides import Side

PAGE = """.. SPDX-License-Identifier: GPL-2.0

{line}
{title}
{line}

{intro}

This page was made on {date} by ``{command}`` with Linux {kernel}. Ratios are ours / in-tree, of medians; the spread is
the distance between the smallest and the largest sample. A row is measured again unless most of its samples agree.

{limits}

{verdict}

Instructions
============

{columns}

::

{counts}
{tuned}
The transport's own instructions
================================

By function, from {least} instructions up, in representative rows.

::

{own}

By the clock
============

{clock}

Measured without counting, in turns of a few seconds. The ratios are means over pairs of adjacent turns of the two
transports, with their 95 % confidence intervals. The last column compares this module with itself, loaded once more:
its distance from 1 is the error of the method. The memory of a connection is measured with fifteen more connections of
a mount, and with up to a thousand clients with one connection each; busy connections have moved payloads in both
directions.

::

{speeds}
"""


@dataclass(frozen=True)
class Words:
    """What the page of one side says."""

    title: str
    command: str
    intro: str
    limits: str
    columns: str


CLIENT = Words(
    title="Performance",
    command="make bench",
    intro="""
``make bench`` runs the same operations over this module and over the in-tree one, in the same client guest and against
the same in-tree server, and counts the instructions that the client executes: kernel and user space, drivers and
soft-RoCE included. Such figures do not depend on the load of the machine. They do not cover time spent waiting (see
`By the clock`_) or real RDMA hardware, which does in silicon much of the work counted here.
:doc:`performance-server` has the same of the server.
""",
    limits=f"""
The in-tree module intends to signal one Send in many; once it has registered memory, a counting bug makes it signal
every second Send, or every Send. The column ``/ repaired`` compares with the same module without the bug (one line,
which ``make bench`` changes in a copy). ``its host`` compares the host parts of both.

Each of the following lines has a limit, and lists the rows outside of it with their figures, the worst first. The limit
of the own instructions is {rows.SMALL:.2f} for calls without payload or with up to 8 KiB of it, and of 1 MiB in contiguous
memory, {rows.LARGE:.2f} for all others. No two successive pages of the RPC rows are adjacent in memory, unless the row is
named contiguous; NFS rows use the pages that the allocator returns.
""",
    columns="""
The host part leaves out the work for the software adapter and its network, by context: all instructions between the
call of a function of soft-RoCE, an interrupt of a device or the poll of the network adapter's queue, and the return
from it. It still includes the switches to and from the workers of soft-RoCE, thousands of instructions that hardware
does not need, and lacks the wake-up of the handler of completions, which hardware leaves to the host. The column of the
transport is its code alone.

The stages bound a connection: the work of sunrpc and the transport to send, under the lock of the transport, and their
work in handlers of completions, both without the adapter. This module has one such handler for each connection; the
in-tree one has two, for Sends and for Receives, that may run side by side, and the column has their sum. In rows of
reconnects the handlers of the connection manager are among them.

Locks are the locks that the transport takes itself, sunrpc's included, atomics its instructions with a lock prefix.
Doorbells are counted for the send queue and for the receive queue; ``Sends each`` is the number of Sends for each
doorbell of the send queue, including doorbells of separately posted local invalidations. A burst is the operations for
each run of a handler. Doorbells, completions, registrations and bytes are per operation: bytes of registered memory,
bytes that the transport copies into the buffers of Sends and out of the buffers of Receives, and bytes that the adapter
copies.
""",
)

SERVER = Words(
    title="Performance of the server",
    command="make bench SIDE=server",
    intro="""
``make bench SIDE=server`` runs the same operations over this module and over the in-tree one, in the same server guest
and for the same in-tree client, and counts the instructions that the server executes: nfsd and its file system, which is
in memory, drivers and soft-RoCE included. :doc:`performance` describes the method and its limits.
""",
    limits="""
Each of the following lines has a limit, and lists the rows outside of it with their figures, the worst first.
""",
    columns="""
The columns have the meaning that :doc:`performance` gives them. The send stage is ``svc_send()``: an nfsd thread hands its
reply to the transport. The reply stage is the handlers of completions. RDMA Reads and RDMA Writes count as Sends.
""",
)


TUNED = """
Inline sizes of 16 KiB, on both sides, compared with 4 KiB. The columns of one client compare it with itself, and
``ours/in-tree`` this module with 16 KiB with the in-tree module with 4 KiB; with ``both 16 KiB`` both have the larger
sizes. Copies count a third of an instruction for each byte, since the emulated processor has no instruction that copies
a block.

::

{tuned}
"""

# What the clock sees in native guests, and in others.
NATIVE = """
These guests are not emulated: their kernel is a process of the machine that measures (User-mode Linux), and the processor
executes its code as it is. Each has one processor. Most of the cost of a call is spent in soft-RoCE and in such a
kernel, whose interrupts are signals and whose frames are system calls; it is the same for all clients.
""".strip()
OTHER = "Where these guests are emulated, only the ratios mean anything."

# Rows whose own instructions are shown by function.
SHOWN = ("RPC NULL, depth 64", "NFSv3 read 4 KiB, depth 64", "NFSv3 write 4 KiB, depth 64", "RPC Reply chunk 1 MiB")
LEAST = 10


def own(functions: list[table.Record], row: str) -> str:
    """The cost of the functions of both transports, in two lists."""
    text = []
    for build in table.PAIR:
        costs: Counter[str] = Counter()
        for record in functions:
            if (record["row"], record["build"], record["part"]) == (row, build, "transport"):
                costs[short(str(record["function"]))] += float(record["instructions"])
        text.append(f"{row}, {build}: {costs.total():,.0f}")
        text += [f"{cost:10,.0f} {name}" for name, cost in costs.most_common() if cost >= LEAST]
    return "\n".join(text)


def short(name: str) -> str:
    """A function by the type and the method, without the paths and parameters of types."""
    if not name.startswith("<"):
        return "::".join(bare(name).split("::")[-2:])
    end = matching(name)
    owner = re.split(r" as (?![^<]*>)", name[1:end])[0]
    return bare(owner).split("::")[-1] + bare(name[end + 1 :])


def matching(text: str) -> int:
    """The index of the bracket that closes the first."""
    depth = 0
    for at, letter in enumerate(text):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if not depth:
            break
    return at


def bare(text: str) -> str:
    """A path without its brackets and their contents."""
    while (begin := text.find("<")) >= 0:
        text = text[:begin] + text[begin + matching(text[begin:]) + 1 :]
    return text.removesuffix("::")


def indented(text: str) -> str:
    """A literal block."""
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def name_of(side: Side) -> str:
    """The file of a side's page."""
    return "performance-server.rst" if side.serves else "performance.rst"


def command_of(side: Side, more: bool, patterns: list[str]) -> str:
    """The command that measures again."""
    words = [*(["--more"] if more else []), *patterns]
    rows_named = [f'ROWS="{" ".join(words)}"'] if words else []
    return " ".join([(SERVER if side.serves else CLIENT).command, *rows_named])


def page(
    side: Side,
    records: list[table.Record],
    functions: list[table.Record],
    values: speed.Values,
    kernel: str,
    native: bool,
    command: str,
) -> str:
    """The page's text; `kernel` is the version of the kernel that counted, `native` whether the timed guests were native."""
    words = SERVER if side.serves else CLIENT
    verdict = [*table.summary(records).splitlines(), *(speed.summary(values, side).splitlines() if values else [])]
    return PAGE.format(
        line="=" * len(words.title),
        title=words.title,
        intro=words.intro.strip(),
        limits=words.limits.strip(),
        columns=words.columns.strip(),
        date=time.strftime("%Y-%m-%d"),
        command=command,
        kernel=kernel,
        verdict="\n".join(f"| {line}" for line in verdict),
        counts=indented(table.table(records)),
        tuned=TUNED.format(tuned=indented(tuned)) if (tuned := table.tuned(records)) else "",
        least=LEAST,
        own=indented("\n\n".join(own(functions, row) for row in SHOWN if row in {f["row"] for f in functions})),
        clock=NATIVE if native else OTHER,
        speeds=indented(speed.table(values)) if values else "    (not measured in this run)",
    )
