# SPDX-License-Identifier: GPL-2.0
"""The summary for people, as a page of the documentation."""

from __future__ import annotations

import time

from . import speed, table

PAGE = """.. SPDX-License-Identifier: GPL-2.0

===========
Performance
===========

``make bench`` runs the same operations over this module and over the in-tree one, in the same client guest and against
the same in-tree server, and counts the instructions that the client executes: kernel and user space, drivers and
soft-RoCE included. Such figures do not depend on how busy the machine is. They say nothing about time spent waiting,
which is what the second table is for, and nothing about real RDMA hardware, which does in silicon much of what is
counted here.

This page was made on {date} by ``{command}`` with Linux {kernel}. Ratios are ours / in-tree, of medians; the spread is
the distance between the smallest and the largest sample. Rows of which not most samples are alike are measured again.

The in-tree module means to signal one Send in many; once it has registered memory, a slip of its count makes it signal
every second one, or every one. The column ``/ repaired`` compares with the same module without the slip (one line, which
``make bench`` changes in a copy). ``its host`` compares the host parts of both.

{verdict}

Instructions
============

The host part is all but what the processor does for the software adapter and its network, by context: whatever runs between
the call of a function of soft-RoCE, an interrupt of a device or the poll of the network adapter's queue, and the return from
it. It still has the changes to and from the workers of soft-RoCE, thousands of instructions that hardware does not need, and
not what soft-RoCE does to wake the handler of completions, which hardware leaves to the host. What the transport column has is
the code of the transport alone.

The stages are what bounds a connection: what sunrpc and the transport do to send, under the lock of the transport, and what
they do in handlers of completions, both without the adapter. This module has one such handler for each connection; the
in-tree one has two, for Sends and for Receives, that may run side by side, and the column has their sum. In rows of
reconnects the connection manager's are among them.

Locks are those that the transport takes itself, sunrpc's included, atomics its instructions with a lock prefix. Doorbells,
completions, registrations and bytes copied are per operation; a burst is the operations for each run of a handler.

::

{counts}

By the clock
============

Measured without counting, in turns of a few seconds. Under emulation only the ratios mean anything; they are means over
the turns, each compared with the one of the other transport next to it, with the interval in which they lie by a chance of
95 %. The last column compares this module with itself, loaded once more: what it differs from 1 is the error of the method.
The memory of a connection is that of fifteen more of a mount, and of a thousand clients with one each; busy ones have moved
payloads in both directions.

::

{speeds}
"""


def indented(text: str) -> str:
    """A literal block."""
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def page(records: list[table.Record], values: speed.Values, kernel: str, command: str) -> str:
    """The page's text."""
    verdict = "\n".join(f"| {line.strip()}" for line in table.summary(records).splitlines())
    return PAGE.format(
        date=time.strftime("%Y-%m-%d"),
        command=command,
        kernel=kernel,
        verdict=verdict,
        counts=indented(table.table(records)),
        speeds=indented(speed.table(values)) if values else "    (not measured in this run)",
    )
