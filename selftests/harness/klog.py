# SPDX-License-Identifier: GPL-2.0
"""Judges kernel messages: what fails the test during which it appeared."""

from __future__ import annotations

import re
from dataclasses import dataclass

WARNING = 4

# Reports of the kernel about itself. These fail a test at whatever level they come.
REPORTS = re.compile(
    r"WARNING:|BUG:|\bBUG at\b|\bOops\b|Kernel panic|KASAN|UBSAN|KCSAN|kmemleak: \d+ new|kernel BUG"
    r"|INFO: task .* blocked for more than|rcu.*(detected stalls|self-detected stall)|possible recursive locking"
    r"|possible circular locking|inconsistent lock state|suspicious RCU usage|held lock freed|bad unlock balance"
    r"|soft lockup|hard LOCKUP|general protection fault|unable to handle|refcount_t:|list_(add|del) corruption"
    r"|scheduling while atomic|sleeping function called|Call Trace:|DMA-API:|rust_kernel: panicked|workqueue lockup"
    r"|harness: kernel messages were lost"
)

# Messages at warning level or above that are no finding. Each says why.
ALLOWED: list[re.Pattern[str]] = [
    # Once per boot, about the first module of ours that is loaded; the server guest gets it from some tests only.
    re.compile(r": loading out-of-tree module taints kernel\.$"),
]


@dataclass(frozen=True)
class Message:
    """One record of the kernel log."""

    guest: str
    level: int
    seconds: float
    text: str

    def __str__(self) -> str:
        return f"{self.guest} <{self.level}>[{self.seconds:12.6f}] {self.text}"


def parse(guest: str, records: list[str]) -> list[Message]:
    """Reads records of /dev/kmsg; the lines that begin with a blank are a record's dictionary."""
    messages = []
    for record in records:
        head, found, text = record.partition(";")
        fields = head.split(",")
        if not found or record.startswith(" ") or len(fields) < 3:
            continue
        messages.append(Message(guest, int(fields[0]) & 7, int(fields[2]) / 1e6, text))
    return messages


# The first line of a report of lockdep, which tells one and is silent for the rest of the boot.
LOCKDEP = re.compile(r"^WARNING: inconsistent lock state")


@dataclass(frozen=True)
class KnownReport:
    """A report about a fault of the kernel around us, told from others by its first line and its call trace."""

    first: re.Pattern[str]
    trace: re.Pattern[str]
    # Whatever names the code under test makes it a report about that.
    ours: re.Pattern[str] = re.compile(r"rpcrdma")

    def matches(self, lines: list[str]) -> bool:
        """Whether a report, from its first line to its last, is this one."""
        told = [line for line in lines if not line.startswith("Modules linked in:")]
        return (
            any(self.first.search(line) for line in told)
            and any(self.trace.search(line) for line in told)
            and not any(self.ours.search(line) for line in told)
        )


KNOWN_REPORTS = [
    # Draining a queue pair in the error state, rxe frees packets with interrupts disabled, which a page pool forbids.
    KnownReport(re.compile(r"WARNING: .*(net/core/page_pool|kernel/softirq)\.c:"), re.compile(r"\brxe_receiver\b")),
    # The same in the words of lockdep: freeing them enables soft interrupts under the lock.
    KnownReport(LOCKDEP, re.compile(r"\(&qp->state_lock\)\S* at: rxe_receiver\b")),
]

# Where reports begin, with the lines that come before the one that tells, and where they end.
BEGIN = [(re.compile(r"\[ cut here \]"), 0, re.compile(r"\[ end trace ")), (LOCKDEP, 2, re.compile(r"^ </TASK>"))]


def without_known_reports(messages: list[Message]) -> list[Message]:
    """The messages of one guest but for the lines of known reports; a report that is cut off stays."""
    left: list[Message] = []
    begin, end = 0, None
    for message in messages:
        for first, before, last in BEGIN:
            if end is None and first.search(message.text):
                begin, end = max(0, len(left) - before), last
        left.append(message)
        if end is not None and end.search(message.text):
            if any(known.matches([m.text for m in left[begin:]]) for known in KNOWN_REPORTS):
                del left[begin:]
            end = None
    return left


def lockdep_is_off(messages: list[Message]) -> bool:
    """Whether lockdep has made its one report."""
    return any(LOCKDEP.search(message.text) for message in messages)


def findings(messages: list[Message], allowed: list[re.Pattern[str]] | None = None) -> list[Message]:
    """The messages that fail a test; `allowed` adds to the list above what one test provokes on purpose."""
    passing = ALLOWED + (allowed or [])
    told = [
        m
        for guest in dict.fromkeys(m.guest for m in messages)
        for m in without_known_reports([m for m in messages if m.guest == guest])
    ]
    return [m for m in told if is_finding(m) and not any(pattern.search(m.text) for pattern in passing)]


def is_finding(message: Message) -> bool:
    """Whether this message would have to be explained."""
    return message.level <= WARNING or bool(REPORTS.search(message.text))
