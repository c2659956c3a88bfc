# SPDX-License-Identifier: GPL-2.0
"""From samples to lines: medians, ratios ours / in-tree, and how far samples lie apart."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from .events import EVENTS
from .symbols import PARTS

Record = dict[str, str | float]  # strings where it comes from a file

NEAR = 0.02  # of the median: samples this near to one another agree
SHOWN = 20  # functions that are not the transport's in a row's profile

HEAD = (
    f"{'instructions per operation':38} {'ours':>11} {'in-tree':>11} {'ratio':>6} {'spread':>13}"
    f" {'transport':>13} {'locks':>9} {'atomics':>11} {'doorbells':>11} {'completions':>11} {'registr.':>9} {'inval. l+r':>15} {'copied':>15}"
)
PAIR = ("ours", "in-tree")  # the two that every table has
WORSE = 1.01  # ours / another client


def write_csv(path: Path, records: list[Record]) -> None:
    """One line for each sample."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, records[0].keys())
        writer.writeheader()
        writer.writerows(records)


def read_csv(path: Path) -> list[Record]:
    """The samples again."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Line:
    """One row with the samples of all clients."""

    name: str
    kind: str
    samples: dict[str, list[Record]]

    def values(self, transport: str, column: str) -> list[float]:
        """All samples of a column."""
        return [float(record[column]) for record in self.samples[transport]]

    def middle(self, transport: str, column: str = "instructions") -> float:
        """The median of a column."""
        return median(self.values(transport, column))

    def spread(self, transport: str, column: str = "instructions") -> float:
        """How far the samples lie apart, as a part of their median."""
        values = self.values(transport, column)
        return (max(values) - min(values)) / median(values) if median(values) else 0.0

    def agrees(self, transport: str) -> bool:
        """Whether most samples, and two at least, lie near to one another."""
        values = sorted(self.values(transport, "instructions"))
        most = len(values) // 2 + 1
        nearest = min(high - low for low, high in zip(values, values[most - 1 :], strict=False))
        return nearest <= NEAR * median(values)

    def ratio(self, other: str = "in-tree", column: str = "instructions") -> float | None:
        """Ours / another client's; nothing if that says nothing."""
        theirs = self.middle(other, column)
        return self.middle("ours", column) / theirs if theirs else None

    @property
    def others(self) -> list[str]:
        """The clients besides the pair."""
        return [name for name in self.samples if name not in PAIR]

    def text(self) -> str:
        """The line of the terminal's table."""
        ratio = self.ratio()
        spread = f"{100 * self.spread('ours'):.1f}% {100 * self.spread('in-tree'):.1f}%"

        def both(column: str, digits: int = 0) -> str:
            return "/".join(f"{self.middle(t, column):.{digits}f}" for t in PAIR)

        local, remote = (both(f"{where} invalidations", 1).split("/") for where in ("local", "remote"))
        inval = "/".join(f"{a}+{b}" for a, b in zip(local, remote, strict=True))
        return (
            f"{self.name:38} {self.middle('ours'):11,.0f} {self.middle('in-tree'):11,.0f}"
            f" {f'{ratio:.3f}' if ratio else '-':>6} {spread:>13} {both('transport'):>13} {both('own locks', 1):>9} {both('own atomics', 1):>11}"
            f" {both('doorbells', 2):>11}"
            f" {both('completions', 2):>11} {both('registrations', 1):>9} {inval:>15} {both('bytes copied by transport'):>15}"
            + "".join(f" {self.ratio(other) or 0:9.3f}" for other in self.others)
        )


def lines(records: list[Record]) -> list[Line]:
    """Samples by row, in their order; rows that one of the clients does not have yet are left out."""
    clients = dict.fromkeys([*PAIR, *(str(record["client"]) for record in records)])
    found: dict[str, Line] = {}
    for record in records:
        name, kind, client = (str(record[column]) for column in ("row", "kind", "client"))
        found.setdefault(name, Line(name, kind, {name: [] for name in clients})).samples[client].append(record)
    return [line for line in found.values() if all(line.samples.values())]


def table(records: list[Record]) -> str:
    """The terminal's table. Where a column has a / it is ours / in-tree; those at the end are ours / another client's."""
    all_lines = lines(records)
    others = "".join(f" {'/ ' + other:>9}" for other in (all_lines[0].others if all_lines else []))
    return "\n".join([HEAD + others, *(line.text() for line in all_lines)])


def profile(records: list[Record], functions: list[Record]) -> str:
    """Where the instructions go, for each row: by part of the kernel and event, then the transports' functions, and
    those of the rest of which the two transports differ most."""
    text = []
    for line in lines(records):
        text.append(line.name)
        for column in (*PARTS, *EVENTS):
            ours, theirs = line.middle("ours", column), line.middle("in-tree", column)
            if ours or theirs:
                text.append(f"    {column:28} {ours:12,.2f} {theirs:12,.2f}  {ours - theirs:+12,.2f}")
        text += by_function([record for record in functions if record["row"] == line.name])
    return "\n".join(text)


def by_function(records: list[Record]) -> list[str]:
    """The profile of one row."""
    costs: dict[str, dict[str, float]] = {client: {} for client in PAIR}
    own: set[str] = set()
    for record in records:
        client, name = str(record["client"]), str(record["function"])
        if client not in costs:
            continue
        costs[client][name] = float(record["instructions"])
        if record["part"] == "transport":
            own.add(name)
    text = []
    for client, functions in costs.items():
        text.append(f"    functions of the transport, {client}:")
        text += [f"        {cost:10,.1f} {name}" for name, cost in functions.items() if name in own]
    differences = {
        name: costs["ours"].get(name, 0.0) - costs["in-tree"].get(name, 0.0)
        for name in costs["ours"].keys() | costs["in-tree"].keys()
        if name not in own
    }
    text.append("    the largest differences elsewhere, ours less in-tree:")
    largest = sorted(differences, key=lambda name: (-abs(differences[name]), name))[:SHOWN]
    return [*text, *(f"        {differences[name]:+10,.1f} {name}" for name in largest)]


def apart(records: list[Record]) -> list[str]:
    """The rows whose samples do not agree."""
    return [line.name for line in lines(records) if not all(line.agrees(transport) for transport in line.samples)]


def summary(records: list[Record]) -> str:
    """The lines that say whether ours is as good as the in-tree transport, and how good the measurement is."""
    text = []
    all_lines = lines(records)
    for kind, limit in (("transport", 1.00), ("nfs", 1.03)):
        some = [line for line in all_lines if line.kind == kind]
        if not some:
            continue
        over = [line.name for line in some if (line.ratio() or 0) > limit]
        text.append(f"{kind} rows: {len(some) - len(over)} of {len(some)} at or below {limit:.2f}")
        text += [f"    above: {name}" for name in over]
    some = [line for line in all_lines if line.kind == "transport"]
    for column in ("doorbells", "completions") if some else ():
        more = {line.name: line.middle("ours", column) - line.middle("in-tree", column) for line in some}
        over = [name for name, difference in more.items() if round(difference, 2) > 0]
        text.append(f"{column} of transport rows: {len(some) - len(over)} of {len(some)} at or below the in-tree ones")
        text += [f"    above: {name}" for name in over]
    for other in all_lines[0].others if all_lines else ():
        over = [line.name for line in all_lines if (line.ratio(other) or 0) > WORSE]
        middle = median(line.ratio(other) or 0 for line in all_lines)
        rows = f"{len(all_lines) - len(over)} of {len(all_lines)} at or below {WORSE:.2f}"
        text.append(f"rows against {other}: {rows}, median {middle:.3f}")
        text += [f"    above: {name}" for name in over]
    loose = apart(records)
    text.append(f"most samples within 2 %: {len(all_lines) - len(loose)} of {len(all_lines)} rows")
    text += [f"    apart: {name}" for name in loose]
    return "\n".join(text)
