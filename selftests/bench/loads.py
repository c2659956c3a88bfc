# SPDX-License-Identifier: GPL-2.0
"""The loads of fio that are measured by the clock."""

from __future__ import annotations

from dataclasses import dataclass

from . import rows

SECONDS = 2


@dataclass(frozen=True)
class Job:
    """Requests of fio: reads, writes, or both in random order."""

    rw: str  # read, write or mixed
    bytes: int
    depth: int

    @property
    def name(self) -> str:
        """Its name in the table."""
        what = "70 % read, 30 % write" if self.rw == "mixed" else self.rw
        return f"{what} {rows.size(self.bytes)}, depth {self.depth}"

    @property
    def arguments(self) -> str:
        """Its part of fio's command line."""
        rw = "randrw --rwmixread=70" if self.rw == "mixed" else f"rand{self.rw}"
        return f"--name=x --rw={rw} --bs={self.bytes} --iodepth={self.depth}"


@dataclass(frozen=True)
class Load:
    """One run of fio: jobs side by side on a mount."""

    jobs: tuple[Job, ...]
    setting: rows.Setting = rows.NFS3
    prefix: str = ""

    @property
    def names(self) -> list[str]:
        """The lines of its jobs in the table."""
        beside = " and ".join(rows.size(job.bytes) for job in self.jobs) + " together: " if len(self.jobs) > 1 else ""
        return [self.prefix + beside + job.name for job in self.jobs]

    @property
    def command(self) -> str:
        """fio, with its results as JSON.

        It stays on the processor that the network adapter interrupts: which one it would be on is a matter of chance, and
        made a difference of a tenth. It reads the processor's clock, since the kernel's costs a system call in native guests.
        """
        common = (
            f"--filename={rows.DATA} --size=64M --direct=1 --ioengine=libaio --time_based --ramp_time=500ms"
            f" --runtime={SECONDS} --clocksource=cpu --output-format=json"
        )
        return f"taskset -c 0 fio {common} {' '.join(job.arguments for job in self.jobs)}"


def loads(
    sizes: tuple[tuple[int, int], ...],
    setting: rows.Setting = rows.NFS3,
    prefix: str = "",
    ways: tuple[str, ...] = ("read", "write"),
) -> list[Load]:
    """Loads of one job each, for pairs of size and depth."""
    return [Load((Job(rw, bytes, depth),), setting, prefix) for bytes, depth in sizes for rw in ways]


def delayed(microseconds: int) -> rows.Setting:
    """A mount behind a network that makes each round trip longer."""
    return rows.Setting("", vers="3", delay=microseconds)


LOADS = loads(((4096, 1), (4096, 16), (65536, 8), (1 << 20, 4)))
# The loads that only --more adds.
MORE_LOADS = [
    *loads(((8192, 16),)),
    Load((Job("mixed", 4096, 16),)),
    Load((Job("read", 4096, 8), Job("read", 1 << 20, 1))),
    *(
        load
        for setting in (rows.Setting("nconnect=1", vers="3", options="nconnect=1"), rows.NFS3_4, rows.NFS3_16)
        for load in loads(((4096, 64),), setting, setting.options + ": ", ("read",))
    ),
    *loads(((4096, 1), (8192, 16)), rows.TUNED_NFS3, rows.TUNED.strip() + ": "),
    *(
        load
        for milliseconds in (1, 5)
        for load in loads(
            ((4096, 1), (4096, 16), (65536, 8)), delayed(1000 * milliseconds), f"RTT +{milliseconds} ms: ", ("read",)
        )
    ),
]


def select(patterns: list[str], more: bool) -> list[Load]:
    """The loads whose names contain one of the patterns, of all; without any, the default loads."""
    if not patterns:
        return [*LOADS, *MORE_LOADS] if more else LOADS
    return [
        load
        for load in [*LOADS, *MORE_LOADS]
        if any(pattern.lower() in name.lower() for pattern in patterns for name in load.names)
    ]
