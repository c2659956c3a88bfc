# SPDX-License-Identifier: GPL-2.0
"""Judges kernel messages: the findings fail the test during which they appeared."""

from __future__ import annotations

import re
from dataclasses import dataclass

WARNING = 4

# Reports of the kernel about itself. These fail a test at any level.
REPORTS = re.compile(
    r"WARNING:|BUG:|\bBUG at\b|\bOops\b|Kernel panic|KASAN|UBSAN|KCSAN|kmemleak: \d+ new|kernel BUG"
    r"|INFO: task .* blocked for more than|rcu.*(detected stalls|self-detected stall)|possible recursive locking"
    r"|possible circular locking|inconsistent lock state|suspicious RCU usage|held lock freed|bad unlock balance"
    r"|soft lockup|hard LOCKUP|general protection fault|unable to handle|refcount_t:|list_(add|del) corruption"
    r"|scheduling while atomic|sleeping function called|Call Trace:|DMA-API:|rust_kernel: panicked|workqueue lockup"
    r"|harness: kernel messages were lost"
)

# Messages at warning level or above that are no finding, each with the reason.
ALLOWED: list[re.Pattern[str]] = [
    # Once per boot, about the first module of ours that is loaded; the server guest gets it from some tests only.
    re.compile(r": loading out-of-tree module taints kernel\.$"),
    # The longest interrupt of the timer until then: the processor is emulated, and shared.
    re.compile(r"^hrtimer: interrupt took \d+ ns$"),
    # Ubuntu's kernels report work that takes 10 ms of the processor, which is emulated here: a millisecond of a real one.
    re.compile(r"^workqueue: \w+( \[\w+\])? hogged CPU for >10000us \d+ times, consider switching to WQ_UNBOUND$"),
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


def findings(messages: list[Message], allowed: list[re.Pattern[str]] | None = None) -> list[Message]:
    """The messages that fail a test; `allowed` adds the ones that a test provokes on purpose to the list above."""
    passing = ALLOWED + (allowed or [])
    return [m for m in messages if is_finding(m) and not any(pattern.search(m.text) for pattern in passing)]


def is_finding(message: Message) -> bool:
    """Returns `True` if this message needs an explanation."""
    return message.level <= WARNING or bool(REPORTS.search(message.text))
