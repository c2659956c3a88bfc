# SPDX-License-Identifier: GPL-2.0
"""Drives the kernel's fault injection in a guest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from guests.harness.guest import Guest
from guests.harness.pair import Pair
from guests.lib.connecting import PROVOKED
from guests.lib.rules import ROOT as RULES

SLAB = "failslab"
# The kernel's messages when it is out of memory.
STARVED = (*PROVOKED, r"page allocation failure", r"out of memory", r"rxe\d+: .*")
ROOT = "/sys/kernel/debug"
DEEPEST = 32  # frames, the most that the kernel looks through
FOR_EVER = -1
# All tasks, and those that they make.
MARK_TASKS = "for file in /proc/[0-9]*/make-it-fail; do echo 1 >$file || true; done 2>/dev/null"
# Has a failure happen that is still to come, so that the count of allocations is known again: the module allocates a rule for
# each directory.
SPEND = f"""
for n in $(seq 4000); do
    [ "$(cat {ROOT}/{SLAB}/times)" != 0 ] || break
    mkdir {RULES}/spend && rmdir {RULES}/spend || true
done 2>/dev/null
"""


def arm(guest: Guest, kind: str, interval: int, times: int) -> None:
    """From now on, one of `interval` fails, `times` times."""
    guest.run(f"cd {ROOT}/{kind}; echo {interval} >interval; echo {times} >times; echo 100 >probability")


def left(guest: Guest, kind: str) -> int:
    """The number of failures that are still to come."""
    return int(guest.run(f"cat {ROOT}/{kind}/times").out)


def disarm(guest: Guest, kind: str) -> None:
    """Ends all failures."""
    guest.run(f"echo 0 >{ROOT}/{kind}/probability")


@contextmanager
def injection(guest: Guest, kind: str, **settings: object) -> Iterator[None]:
    """Prepares a kind of failure for the block, which chooses the time. If the block fails, the guests are dropped."""
    writes = [f"echo {value} >{name.replace('_', '-')}" for name, value in {"verbose": 0, **settings}.items()]
    guest.run(f"cd {ROOT}/{kind}\n" + "\n".join(writes))
    yield
    disarm(guest, kind)


def text_of(guest: Guest, module: str, function: str = "") -> tuple[int, int]:
    """The begin and the end of a module's code, less its last function; or of a function with this in its name."""
    symbols = guest.run(rf"grep -i ' t .*\[{module}\]' /proc/kallsyms | sort").lines
    found = [(int(line.split()[0], 16), line.split()[2]) for line in symbols]
    start = next(address for address, name in found if function in name)
    return start, next((address for address, _ in found if function and address > start), found[-1][0])


def text_of_kernel(guest: Guest, function: str) -> tuple[int, int]:
    """The begin and the end of the code of one of the kernel's own functions."""
    found = guest.run(rf"grep -i -A 1 ' t {function}$' /proc/kallsyms").lines
    start, end = (int(line.split()[0], 16) for line in found)
    return start, end


class Allocations:
    """Makes the n-th allocation fail, of the module or of others on its behalf.

    The kernel makes every `interval`-th fail, and its count never decreases. But the count stops when no failure is
    left, at a multiple of the interval. So the interval for n more is the count and n; the guest keeps the count.
    """

    COUNT = "/tmp/allocations"

    def __init__(self, guest: Guest):
        self._guest = guest

    def fail(self, number: int) -> None:
        """Arms it: the allocation of this number from now on."""
        count = number + int(self._guest.run(f"cat {self.COUNT} 2>/dev/null || echo 0").out)
        self._guest.run(f"echo {count} >{self.COUNT}")
        arm(self._guest, SLAB, count, 1)

    def failed(self) -> bool:
        """Returns `True` if that allocation has failed."""
        return left(self._guest, SLAB) == 0

    def each(self, numbers: range, attempt: Callable[[], object]) -> str:
        """Attempts something with the allocation of each number failing, as far as it has so many; says how often."""
        count = 0
        for number in numbers:
            self.fail(number)
            attempt()
            count += 1
            if not self.failed():
                break
        else:
            raise AssertionError(f"there are more allocations than the {number} that were tried")
        self._guest.run(SPEND)
        assert self.failed(), "a rule needs no memory"
        return f"{count} times, each short of one allocation, up to number {number}"


def numbers(pair: Pair, pace: int = 81) -> range:
    """The numbers of the allocations that fail, one at a time: each with many rounds, else one of `pace`.

    That is odd: kmemleak allocates a record with each, and would otherwise be the only one to fail.
    """
    return range(2, 2000, max(1, pace // max(1, pair.options.rounds)))


@contextmanager
def starvation(guest: Guest, module: str, function: str = "") -> Iterator[Allocations]:
    """Prepares failures of allocations for the block: only those of the module, or of a function, by a task.

    None of vmalloc()'s own, which the module does not call, but rxe for its queues: that warns with a call trace. And none of
    interrupts, which may come while the module runs: the guest's network adapter receives nothing more after one has failed.
    """
    guest.run(MARK_TASKS)
    start, end = text_of(guest, module, function)
    spared, spared_end = text_of_kernel(guest, "__vmalloc_node_range_noprof")
    filters = {
        "require_start": hex(start),
        "require_end": hex(end),
        "reject_start": hex(spared),
        "reject_end": hex(spared_end),
        "stacktrace_depth": DEEPEST,
        "ignore_gfp_wait": "N",
        "task_filter": "Y",
    }
    with injection(guest, SLAB, **filters):
        yield Allocations(guest)
