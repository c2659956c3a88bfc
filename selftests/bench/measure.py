# SPDX-License-Identifier: GPL-2.0
"""Runs the rows, build by build and back again, and records the cost of each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from . import table
from .counter import Tally
from .events import EVENTS
from .lab import Lab
from .rows import Row
from .symbols import PARTS, Function

LEAST = 0.5  # instructions per operation that a function has in the profile
MORE = 3  # visits that rows whose samples do not agree get on top


@dataclass
class Sample:
    """One measurement of a row, per operation."""

    row: Row
    build: str
    visit: int
    repeat: int
    tally: Tally

    def record(self) -> table.Record:
        """A line of the CSV file."""
        parts = self.tally.parts()
        return {
            "row": self.row.name,
            "kind": self.row.kind,
            "build": self.build,
            "visit": self.visit,
            "repeat": self.repeat,
            "own limit": self.row.own,
            "instructions": round(self.tally.total, 1),
            **{part: round(parts[part], 1) for part in PARTS},
            **{name: round(count(self.tally), 3) for name, count in EVENTS.items()},
        }


def functions(samples: list[Sample]) -> Iterator[dict[str, str | float]]:
    """The lines of the profile: instructions of each function per operation, the mean of a row's samples."""
    for (row, build), some in groupby(
        sorted(samples, key=lambda s: (s.row.name, s.build)), key=lambda s: (s.row.name, s.build)
    ):
        tallies = [sample.tally for sample in some]
        total: Counter[Function] = Counter()
        for tally in tallies:
            total.update(tally.instructions)
        for function, count in total.most_common():
            if count / len(tallies) >= LEAST:
                yield {
                    "row": row,
                    "build": build,
                    "part": function.part,
                    "module": function.module,
                    "function": function.name,
                    "instructions": round(count / len(tallies), 1),
                }


class Progress:
    """Prints the progress of the run, one line for each row and visit."""

    def __init__(self, total: int):
        self.total = total
        self.done = 0
        self.start = time.monotonic()

    def step(self, text: str) -> None:
        """One more is done."""
        self.done += 1
        spent = time.monotonic() - self.start
        left = spent / self.done * (self.total - self.done)
        print(f"[{self.done}/{self.total}, {clock(left)} left] {text}", flush=True)


def clock(seconds: float) -> str:
    """A duration for people."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class Measurement:
    """All rows, `visits` times per build; rows whose samples then disagree, a few times more."""

    def __init__(self, lab: Lab, rows: list[Row], visits: int, results: Path, by_function: Path):
        self.lab = lab
        self.rows = rows
        self.visits = visits
        self.results = results
        self.functions = by_function
        self.samples: list[Sample] = []
        self.progress = Progress(sum(min(row.visits or visits, visits) for row in rows) * len(lab.builds))

    def run(self) -> list[Sample]:
        """All visits."""
        for visit in range(self.visits):
            self._visit(visit, [row for row in self.rows if not row.visits or visit < row.visits])
        for visit in range(self.visits, self.visits + MORE):
            names = table.apart(self._records())
            if not names:
                break
            print(f"once more, since samples do not agree: {len(names)} rows", flush=True)
            again = [row for row in self.rows if row.name in names]
            self.progress.total += len(again) * len(self.lab.builds)
            self._visit(visit, again)
        return self.samples

    def _visit(self, visit: int, rows: list[Row]) -> None:
        for build in self.lab.turns(visit):
            self.lab.use(build)
            for setting, some in groupby(rows, key=lambda row: row.setting):
                with self.lab.setting(setting):
                    for row in some:
                        self._row(row, build.name, visit)
                # The samples so far are kept, should the run be ended before its time.
                table.write_csv(self.results, self._records())
                table.write_csv(self.functions, list(functions(self.samples)))

    def _records(self) -> list[table.Record]:
        return [sample.record() for sample in self.samples]

    def _row(self, row: Row, build: str, visit: int) -> None:
        start = time.monotonic()
        if row.rehearsal:
            self._prepare(row)
            self.lab.count(row.rehearsal)
        totals = []
        for repeat, tally in enumerate(self._repeats(row)):
            self.samples.append(Sample(row, build, visit, repeat, tally))
            totals.append(f"{tally.total:,.0f}")
        took = time.monotonic() - start
        self.progress.step(f"{build:7} {row.name}: {' '.join(totals)} ({took:.1f} s)")

    def _repeats(self, row: Row) -> Iterator[Tally]:
        for _ in range(row.repeats):
            yield self._once(row)

    def _prepare(self, row: Row) -> None:
        if row.before:
            self.lab.client.run(row.before, 120)

    def _once(self, row: Row) -> Tally:
        self._prepare(row)
        tallies = []
        for number, words in enumerate(row.loads):
            tally = self.lab.count(words)
            if row.operations:
                tally.operations = row.operations[number]
            tallies.append(tally)
        return (tallies[1].minus(tallies[0]) if len(tallies) > 1 else tallies[0]).each()
