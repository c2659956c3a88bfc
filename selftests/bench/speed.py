# SPDX-License-Identifier: GPL-2.0
"""Measures by the clock: operations in a second and their latency, connection times, memory of a connection.

These depend on the machine and its other load, so only ratios mean anything. The builds take turns: in each visit every
build is loaded, has every load for two seconds, and is unloaded; the next visit takes the builds backwards.

Two ways inside one module could alternate in slices of 300 ms within one run of fio. Two modules cannot. sunrpc takes one
transport of an identifier at a time, whatever the network namespace, and a mount holds the module of its connections,
so that the other module is loaded only after an unmount. In two guests at a time the modules would differ by guest as
well. Paired turns measure the same ratio:

- Order and drift. A ratio compares two turns of the same visit. With A B B A, a drift that is linear over two visits adds
  to the logarithm of one ratio and subtracts the same from the next. Slices cancel faster drifts, too; here, drifts of
  less than two visits remain as scatter, and no order remains as a bias.
- Place. A module lands at other addresses each time it is loaded, and that changes how often the emulator misses its
  tables. Slices have one place for a whole run, the same error in each of them; turns draw a new place each, so this error
  is part of the scatter and falls with the number of visits.
- The method itself. The control is our module under another name, with turns of its own. Its ratio differs from 1 by the
  error of the method and by nothing else, and it is printed beside every ratio.

The error is the printed interval, which is made of the turns themselves: all of the above is in it. Turns of two seconds
have been seen to scatter by up to 7 % on a machine without other load. Eight visits then know the ratio of one load to a
standard error of up to 3.5 %, since a ratio has the scatter of two turns, and the mean of eight loads to between a third of
that and all of it, by the part of the scatter that the loads of a turn share; 2,000 slices, ten minutes of each load, would
know a ratio to 0.3 to 0.5 %. The error halves with four times the visits (`--speed-visits 32`). A verdict on 1 % needs an
interval narrower than that; with a wider one, only its ends are a statement.
"""

from __future__ import annotations

import json
import math
import time
from bisect import bisect
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, groupby
from statistics import fmean, median, stdev

from guests.harness.pair import wait_until
from guests.lib import resources

from . import rows
from . import table as tables
from .builds import CONTROL
from .lab import LOAD, Lab, numbers
from .loads import Load, select
from .measure import Progress
from .sides import CLIENT_SIDE, SERVER_SIDE, Side

CONNECTIONS = 15  # besides the first, nconnect's most
RECONNECTS = 4
BUSY = 8  # requests of 1 MiB on each of them at a time
CROWD = (1, 16, 64, 256, 1000)  # clients with a connection each, at which numbers memory is measured
BUSY_CROWDS = (16, 64, 256)  # that --more adds, each with its connections busy
JUDGED_CROWD = 16  # with fewer, the memory is mostly the kernel allocator's
CROWD_VISITS = 1
CROWD_GUEST = 8192  # MiB that a guest needs for them
BUSY_CROWD = (
    "run each=1 verify=0 count=4 depth=4 call=65536 call_in=pages call_ddp=1 reply=65536 reply_in=pages reply_ddp=1"
)
# Free pages in the lists of each processor count as used: one page in this number may be there. 0 lets the kernel choose, and
# it chooses many times the size of a connection.
FREE_LISTS = "echo {} >/proc/sys/vm/percpu_pagelist_high_fraction"
FEW = 100_000
IOPS = ": IOPS"  # at the end of a value's name
MEMORY_VISITS = 2
LEAST_IOPS = 0.98  # ours / in-tree: no load may lie below it with its whole interval
LEAST_MEAN = 1.02  # ours / in-tree, the mean of all loads
ERROR = 0.01  # most that ours / ours may differ from 1
MOST_MEMORY = {CLIENT_SIDE: 0.15, SERVER_SIDE: 0.35}  # ours / in-tree, of an idle connection
# At the beginning of a value's name.
IDLE_MEMORY = "memory of an idle connection"
BUSY_MEMORY = "memory of a busy connection"
FEWEST = 4  # turns that an interval needs
CHANCE = 0.95  # that the true ratio lies in it


Values = dict[str, dict[str, list[float]]]  # by what, then by build


class Speed:
    """All that is measured by the clock, or the loads whose names have one of the patterns."""

    def __init__(self, lab: Lab, visits: int, patterns: list[str], memory_only: bool = False, more: bool = False):
        self.lab = lab
        self.visits = MEMORY_VISITS if memory_only else visits
        self.loads = [] if memory_only else select(patterns, more)
        self.loads_only = bool(patterns) and not memory_only
        self.mounts = [rows.NFS3, rows.TUNED_NFS3] if more else [rows.NFS3]
        self.crowds = [CROWD, *((size,) for size in BUSY_CROWDS if more)]
        self.values: Values = {}
        # A thousand connections share the error of one measurement, so these do without the control.
        self.crowded = [build.name for build in lab.builds if build.name != CONTROL]
        steps = len(lab.builds) * (self.visits * len(self.loads))
        if not self.loads_only:
            steps += len(lab.builds) * (self.visits + MEMORY_VISITS * len(self.mounts))
            steps += len(self.crowded) * CROWD_VISITS * len(self.crowds)
        self.progress = Progress(steps)

    def run(self) -> Values:
        """All visits, in short turns; memory does not depend on how busy the machine is."""
        for visit in range(self.visits):
            for build in self.lab.turns(visit):
                self.lab.use(build)
                for setting, some in groupby(self.loads, key=lambda load: load.setting):
                    with self.lab.setting(setting):
                        for load in some:
                            self._fio(load, build.name)
                if not self.loads_only:
                    self._others(visit, build.name)
        return self.values

    def _others(self, visit: int, build: str) -> None:
        self._connections(build)
        if visit < MEMORY_VISITS:
            for mount in self.mounts:
                self._memory(mount, build)
        if visit < CROWD_VISITS and build in self.crowded:
            for crowd in self.crowds:
                self._crowd(crowd, build)

    def _note(self, what: str, build: str, value: float) -> None:
        self.values.setdefault(what, {build.name: [] for build in self.lab.builds})[build].append(value)

    def _fio(self, load: Load, build: str) -> None:
        text = self.lab.client.run(load.command, 30).out
        results = json.loads(text[text.index("{") :])["jobs"]
        told = []
        for name, job, result in zip(load.names, load.jobs, results, strict=True):
            ways = ("read", "write") if job.rw == "mixed" else (job.rw,)
            iops = sum(result[way]["iops"] for way in ways)
            self._note(name + IOPS, build, iops)
            percentiles = result[ways[0]]["clat_ns"]["percentile"]
            for which in ("50.000000", "99.000000"):
                self._note(f"{name}: p{which[:2]} us", build, percentiles[which] / 1000)
            told.append(f"{name}: {iops:.0f} IOPS")
        self.progress.step(f"{build:7} {'; '.join(told)}")

    def _connections(self, build: str) -> None:
        with self.lab.setting(rows.ECHO):
            self._note("connect us", build, numbers(self.lab)["connect_ns"] / 1000)
            for _ in range(RECONNECTS):
                self.lab.client.run(f"echo reconnect >{rows.CONTROL}")
                self._note("reconnect us", build, numbers(self.lab)["connect_ns"] / 1000)
        self.progress.step(f"{build:7} connections")

    def _memory(self, mount: rows.Setting, build: str) -> None:
        """The memory of each of many connections: idle, and after it was busy in both directions."""
        one, many = (self._held(mount, connections) for connections in (1, 1 + CONNECTIONS))
        sizes = f", {rows.TUNED.strip()}" if mount.inline else ""
        for name, before, after in zip((IDLE_MEMORY, BUSY_MEMORY), one, many, strict=True):
            self._note(f"{name}{sizes}, KiB", build, (after - before) / CONNECTIONS)
        self.progress.step(f"{build:7} memory")

    def _crowd(self, sizes: tuple[int, ...], build: str) -> None:
        """Memory of each of many connections, how long it takes to make them, and to end them."""
        control = f"echo '{{}}' >{rows.CONTROL}"
        most = sizes[-1]
        self.lab.compared.run(FREE_LISTS.format(FEW))
        with self.lab.setting(rows.ECHO):
            before = sum(resources.memory(self.lab.compared).values())
            pairs = resources.rdma(self.lab.compared)["qp"]
            made = 0
            for fewer, size in zip((0, *sizes), sizes, strict=False):
                self.lab.client.run(control.format(f"crowd clients={size - fewer}"), 600)
                made += numbers(self.lab)["connect_ns"]
                self._note_held(IDLE_MEMORY, size, before, build)
            self._note(f"{most} connections: made, us each", build, made / 1000 / most)
            self.lab.client.run(control.format(BUSY_CROWD), 900)
            self._note_held(BUSY_MEMORY, most, before, build)
            start = time.monotonic()
            self.lab.client.run(control.format("close"), 600)
            # sunrpc ends them on its work queues; nothing else is to be measured beside that.
            wait_until(lambda: resources.rdma(self.lab.compared)["qp"] < pairs, "queue pairs are left", 600)
            self._note(f"{most} connections: ended, us each", build, (time.monotonic() - start) * 1e6 / most)
            self.lab.client.run(control.format(rows.ECHO.client))
        self.lab.compared.run(FREE_LISTS.format(0))
        self.progress.step(f"{build:7} {most} connections")

    def _note_held(self, what: str, connections: int, before: int, build: str) -> None:
        """Notes the memory of each of a number of connections."""
        held = sum(resources.memory(self.lab.compared).values()) - before
        self._note(connections_of(what, connections), build, held / connections)

    def _held(self, mount: rows.Setting, connections: int) -> tuple[int, int]:
        """KiB that the compared guest holds with a number of connections, before and after they were busy."""
        self.lab.compared.run(FREE_LISTS.format(FEW))
        with self.lab.setting(replace(mount, options=f"nconnect={connections}")):
            # A connection is made when it is first used, which is in turn.
            self.lab.client.run(f"{LOAD} getattr {rows.DATA} 1 {4 * connections}")
            idle = resources.memory(self.lab.compared)
            depth = BUSY * connections
            for what in ("read", "write"):
                self.lab.client.run(f"{LOAD} {what} {rows.DATA} {depth} {depth} {rows.MIB} {depth}", 120)
            busy = resources.memory(self.lab.compared)
        self.lab.compared.run(FREE_LISTS.format(0))
        return sum(idle.values()), sum(busy.values())


def connections_of(what: str, connections: int) -> str:
    """The name of the memory of each of a number of connections."""
    return f"{what}, one of {connections:,}, KiB"


@dataclass(frozen=True)
class Ratio:
    """Ours / another build's, and its interval with a confidence of 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        # A few turns say nothing of how far others would lie apart.
        return f"{self.value:.3f}" + (f" ({self.low:.3f}..{self.high:.3f})" if self.low < self.high else "")


def ratio(values: dict[str, list[float]], other: str = "in-tree") -> Ratio | None:
    """Each turn is compared with the other's next to it: the machine itself changes in the course of a run."""
    turns = list(zip(values["ours"], values.get(other, []), strict=False))
    if not turns or any(theirs <= 0 for _, theirs in turns):
        return None
    return mean([math.log(ours / theirs) for ours, theirs in turns])


def mean(logs: list[float]) -> Ratio:
    """The geometric mean of turns, and its interval by Student's distribution.

    Drawing the same few turns again and again takes their scatter for the scatter of all turns: with eight, such an
    interval missed the true value one time in ten, twice as often as it claims.
    """
    middle, reach = fmean(logs), 0.0
    if len(logs) >= FEWEST:
        reach = student(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Ratio(*(math.exp(value) for value in (middle, middle - reach, middle + reach)))


@cache
def student(freedom: int, steps: int = 100_000) -> float:
    """The value that Student's t does not exceed on either side by the chance of an interval.

    t is sqrt(freedom) * tan(angle), and the density of the angle is proportional to cos(angle) ** (freedom - 1).
    """
    width = math.pi / 2 / steps
    areas = list(accumulate(math.cos((n + 0.5) * width) ** (freedom - 1) for n in range(steps)))
    return math.sqrt(freedom) * math.tan(bisect(areas, CHANCE * areas[-1]) * width)


def overall(values: Values, other: str = "in-tree") -> Ratio | None:
    """The mean of all loads. All loads of a turn count as one sample, since they share the state of the machine then."""
    loads = [each for what, each in values.items() if what.endswith(IOPS)]
    turns = min((len(each[build]) for each in loads for build in ("ours", other) if build in each), default=0)
    if not turns or any(other not in each for each in loads):
        return None
    return mean([fmean(math.log(each["ours"][n] / each[other][n]) for each in loads) for n in range(turns)])


def table(values: Values) -> str:
    """Medians, and the ratios of the turns; also the ratio of ours to itself, which ought to be 1."""
    text = [f"{'by the clock':54} {'ours':>10} {'in-tree':>10} {'ratio (95 %)':>23} {'ours / ours':>23}"]
    for what, both in values.items():
        ours, theirs = (median(both[build]) for build in ("ours", "in-tree"))
        found, control = ratio(both), ratio(both, CONTROL)
        text.append(f"{what:54} {ours:10,.0f} {theirs:10,.0f} {found or '-'!s:>23} {control or ''!s:>23}")
    return "\n".join(text)


def summary(values: Values, side: Side) -> str:
    """The verdict on the measurements by the clock."""
    text = []
    loads = {what: found for what, both in values.items() if what.endswith(IOPS) and (found := ratio(both))}
    below = [f"{what} {found}" for what, found in loads.items() if found.high < LEAST_IOPS]
    if loads:
        reach = f"{len(loads) - len(below)} of {len(loads)} loads reach {LEAST_IOPS:.2f} with their interval"
        text += [f"IOPS, ours / in-tree: {reach}", *tables.named("below", below)]
    if found := overall(values):
        verdict = "within" if round(found.value, 3) >= LEAST_MEAN else "below"
        text.append(f"mean of all loads, ours / in-tree: {found}, {verdict} {LEAST_MEAN:.2f}")
    if found := overall(values, CONTROL):
        verdict = "within" if abs(found.value - 1) <= ERROR else "not within"
        text.append(f"mean of all loads, ours / ours: {found}, {verdict} {100 * ERROR:.0f} % of 1")
    few = [connections_of(IDLE_MEMORY, size) for size in CROWD if size < JUDGED_CROWD]
    memory = {what: both for what, both in values.items() if what.startswith(IDLE_MEMORY) and what not in few}
    idle = {what: found.value for what, both in memory.items() if (found := ratio(both))}
    if idle:
        text += tables.judged("memory of an idle connection, ours / in-tree", idle, MOST_MEMORY[side.name])
    return "\n".join(text)
