# SPDX-License-Identifier: GPL-2.0
"""The counting emulator: QEMU's arguments for it, and a reader of its files (count.c describes them)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .listing import Listing
from .symbols import Function, Symbols

# Functions of the kernel that copy, with the register that has the number of bytes when they are entered.
COPIES = {"memcpy": "rdx", "memmove": "rdx", "rep_movs_alternative": "rcx"}


@dataclass
class Tally:
    """The instructions and events of the guest between two marks, or a difference or mean of such."""

    operations: float = 0
    instructions: Counter[Function] = field(default_factory=Counter)
    entries: Counter[Function] = field(default_factory=Counter)
    copied: Counter[Function] = field(default_factory=Counter)  # bytes, by the caller of the copy
    copies: Counter[Function] = field(default_factory=Counter)  # calls, likewise

    @property
    def total(self) -> float:
        """All instructions."""
        return sum(self.instructions.values())

    def parts(self) -> Counter[str]:
        """Instructions by part of the kernel."""
        result: Counter[str] = Counter()
        for function, count in self.instructions.items():
            result[function.part] += count
        return result

    def entered(self, *names: str) -> float:
        """Entries of the functions of these names."""
        return sum(count for function, count in self.entries.items() if function.name in names)

    def minus(self, other: Tally) -> Tally:
        """This less the other: the slope between a long and a short run."""
        result = Tally(self.operations - other.operations)
        for mine, theirs, into in (
            (self.instructions, other.instructions, result.instructions),
            (self.entries, other.entries, result.entries),
            (self.copied, other.copied, result.copied),
            (self.copies, other.copies, result.copies),
        ):
            into.update(mine)
            into.subtract(theirs)
        return result

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            self.operations + other.operations,
            self.instructions + other.instructions,
            self.entries + other.entries,
            self.copied + other.copied,
            self.copies + other.copies,
        )

    def each(self) -> Tally:
        """The same per operation."""
        n = self.operations
        counters = (self.instructions, self.entries, self.copied, self.copies)
        return Tally(1, *(Counter({k: v / n for k, v in counter.items()}) for counter in counters))


USER = Function("(user space)", "", "user space")
# Events of the transport itself, counted as if they were functions.
LOCK, ATOMIC = (Function(name, "", "transport") for name in ("(lock)", "(atomic)"))
REGISTERED = Function("(registered bytes)", "", "rest")


def context(kind: str) -> Function:
    """A context of the kernel, whose instructions are counted as if they were the entries of a function."""
    return Function(f"({kind})", "", "rest")


class Counting:
    """One counting guest."""

    def __init__(self, plugin: Path, directory: Path, symbols: Symbols, sites: dict[tuple[str, int], str]):
        self.plugin = plugin
        self.out = directory / "count.out"
        self.symbols = symbols
        self.sites = sites
        self.transport: Listing | None = None  # the module of the transport that is loaded
        self._taken = 0
        self._contexts: list[tuple[str, int]] = []
        for old in directory.glob("count.out*"):
            old.unlink()

    def qemu(self) -> tuple[str, ...]:
        """The arguments that make QEMU count."""
        words = [f"file={self.plugin}", f"out={self.out}"]
        words += [f"copy={self.symbols.addresses[name]:x}:{register}" for name, register in COPIES.items()]
        return ("-plugin", ",".join(words))

    def follow(self) -> None:
        """Has the emulator follow the contexts of the modules that are loaded now, from the next mark on."""
        contexts = self.symbols.contexts()
        if contexts != self._contexts:
            partial = Path(f"{self.out}.contexts.partial")
            partial.write_text("".join(f"{kind} {address:x}\n" for kind, address in contexts))
            partial.rename(f"{self.out}.contexts")
            self._contexts = contexts

    def take(self) -> list[Tally]:
        """The counts since the last call, one Tally for each pair of marks."""
        result = []
        while (path := Path(f"{self.out}.{self._taken + 1}")).exists():
            result.append(self.read(path))
            path.unlink()
            self._taken += 1
        return result

    def read(self, path: Path) -> Tally:
        """Reads one file."""
        tally = Tally()
        for line in path.read_text().splitlines():
            kind, *words = line.split()
            if kind == "user":
                tally.instructions[USER] = int(words[0])
            elif kind == "b":
                function, offset = self.symbols.find(int(words[0], 16))
                tally.instructions[function] += int(words[1], 16) * int(words[2])
                if self.transport is not None and function.part == "transport":
                    locks, atomics = self.transport.within(function.name, offset, int(words[1], 16))
                    tally.entries[LOCK] += locks * int(words[2])
                    tally.entries[ATOMIC] += atomics * int(words[2])
                if offset == 0:
                    tally.entries[function] += int(words[2])
                elif name := self.sites.get((function.name, offset)):
                    tally.entries[Function(name, function.module, function.part)] += int(words[2])
            elif kind == "r":
                tally.entries[REGISTERED] += int(words[0])
            elif kind == "s":
                tally.entries[context(words[0])] += int(words[1])
                tally.entries[context(f"{words[0]} entered")] += int(words[2])
            else:
                caller, _ = self.symbols.find(int(words[1], 16))
                tally.copies[caller] += int(words[2])
                tally.copied[caller] += int(words[3])
                if caller.part == "transport":
                    tally.entries[context(f"copied by {words[4]}")] += int(words[3])
        kernel = tally.total - tally.instructions[USER]
        followed = tally.entered(*(f"({kind})" for kind in ("other", "send", "reply", "adapter")))
        if followed != kernel:
            raise RuntimeError(f"the kernel executed {kernel} instructions, of which {followed} have a context")
        return tally
