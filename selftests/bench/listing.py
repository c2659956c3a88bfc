# SPDX-License-Identifier: GPL-2.0
"""The instructions of a module: which of them take a lock, and which are atomic."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

from .symbols import demangled

FUNCTION = re.compile(r"([0-9a-f]{16}) <(\S+)>:$")
INSTRUCTION = re.compile(r"\s+([0-9a-f]+):\t(.*)$")
# The operand of a call that takes a lock.
LOCK = re.compile(
    r"R_X86_64_(?:PLT|PC)32\s+(_raw_(?:spin|read|write)_lock\w*|mutex_lock\w*|down_(?:read|write)\w*)-0x4$"
)
ATOMIC = re.compile(r"lock |xchg .*\(")


@dataclass
class Body:
    """The instructions of a function."""

    start: int
    offsets: list[int] = field(default_factory=list)
    # The numbers of instructions before each that take a lock, and that are atomic; one more than the offsets.
    locks: list[int] = field(default_factory=lambda: [0])
    atomics: list[int] = field(default_factory=lambda: [0])

    def add(self, address: int, text: str) -> None:
        """The next instruction."""
        self.offsets.append(address - self.start)
        self.locks.append(self.locks[-1])
        self.atomics.append(self.atomics[-1] + bool(ATOMIC.match(text)))


class Listing:
    """All functions of a module, by name."""

    def __init__(self, module: Path):
        command = ["objdump", "-dr", "--no-show-raw-insn", str(module)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        bodies: dict[str, Body] = {}
        body = Body(0)
        for line in text.splitlines():
            if begin := FUNCTION.match(line):
                body = bodies.setdefault(begin[2], Body(int(begin[1], 16)))
            elif LOCK.search(line):
                body.locks[-1] += 1
            elif found := INSTRUCTION.match(line):
                body.add(int(found[1], 16), found[2])
        self._bodies = dict(zip(demangled(list(bodies)), bodies.values(), strict=True))

    def within(self, function: str, offset: int, instructions: int) -> tuple[int, int]:
        """The locks that a number of instructions take, from an offset on, and the atomic ones among them."""
        body = self._bodies.get(function)
        if body is None:
            return 0, 0
        first = bisect_left(body.offsets, offset)
        last = min(first + instructions, len(body.offsets))
        return body.locks[last] - body.locks[first], body.atomics[last] - body.atomics[first]
