# SPDX-License-Identifier: GPL-2.0
"""Drives the kernel's fault injection in the client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.guest import Guest
from guests.harness.pair import Pair

ROOT = "/sys/kernel/debug"
DEEPEST = 32  # frames, the most that the kernel looks through
FOR_EVER = -1


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
def injection(pair: Pair, kind: str, **settings: object) -> Iterator[None]:
    """Prepares a kind of failure for the block, which chooses the time. If the block fails, the guests are dropped."""
    writes = [f"echo {value} >{name.replace('_', '-')}" for name, value in {"verbose": 0, **settings}.items()]
    pair.client.run(f"cd {ROOT}/{kind}\n" + "\n".join(writes))
    yield
    disarm(pair.client, kind)


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
