# SPDX-License-Identifier: GPL-2.0
"""From samples to lines: medians, ratios ours / in-tree, and the spread of samples."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from .builds import VERSION_1, VERSION_2
from .events import EVENTS
from .symbols import PARTS

Record = dict[str, str | float]  # strings where it comes from a file

NEAR = 0.02  # of the median: samples this near to one another agree
SHOWN = 20  # functions that are not the transport's in a row's profile

PAIR = ("ours", "in-tree")  # the two that every table has
TUNED = "inline 16 KiB "  # in the name of a row whose inline sizes are larger than by default

# The limits of each row; the limit of the own instructions comes with the row.
HOST_PART = 0.95  # ours / in-tree
HOST_PART_OF_OTHERS = 1.00  # ours / another build
TOTAL = 1.005  # ours / any build
LOCKS = 3  # that a call may take
WIDTH = 116  # of the lines that name rows
NAME = 42  # of the column of names


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
    """One row with the samples of all builds."""

    name: str
    kind: str
    samples: dict[str, list[Record]]

    def values(self, build: str, column: str) -> list[float]:
        """All samples of a column."""
        return [float(record[column]) for record in self.samples[build]]

    def middle(self, build: str, column: str = "instructions") -> float:
        """The median of a column."""
        return median(self.values(build, column))

    def spread(self, build: str, column: str = "instructions") -> float:
        """The distance between the extreme samples, as a part of their median."""
        values = self.values(build, column)
        return (max(values) - min(values)) / median(values) if median(values) else 0.0

    def agrees(self, build: str) -> bool:
        """True when most samples, and two at least, lie near to one another."""
        values = sorted(self.values(build, "instructions"))
        most = len(values) // 2 + 1
        nearest = min(high - low for low, high in zip(values, values[most - 1 :], strict=False))
        return nearest <= NEAR * median(values)

    def ratio(self, other: str = "in-tree", column: str = "instructions") -> float | None:
        """Ours / another build's; nothing if theirs is zero."""
        theirs = self.middle(other, column)
        return self.middle("ours", column) / theirs if theirs else None

    @property
    def own_limit(self) -> float:
        """The limit of the own instructions, ours / in-tree."""
        return float(self.samples["ours"][0]["own limit"])

    def locks(self) -> float:
        """Locks that our transport takes for each call; an operation may make several calls."""
        return self.middle("ours", "own locks") / max(1.0, self.middle("ours", "sends posted"))

    @property
    def others(self) -> list[str]:
        """The builds besides the pair."""
        return [name for name in self.samples if name not in PAIR]

    def both(self, column: str, digits: int = 0) -> str:
        """The medians of a column, ours / in-tree."""
        return "/".join(f"{self.middle(build, column):,.{digits}f}" for build in PAIR)

    def shown(self, other: str = "in-tree", column: str = "instructions") -> str:
        """The ratio, for people."""
        ratio = self.ratio(other, column)
        return f"{ratio:.3f}" if ratio else "-"

    def spreads(self) -> str:
        """The spread of the samples of both."""
        return " ".join(f"{100 * self.spread(build):.1f}%" for build in PAIR)

    def invalidations(self) -> str:
        """Local + remote ones, ours / in-tree."""
        return "/".join(
            "+".join(f"{self.middle(build, f'{where} invalidations'):.1f}" for where in ("local", "remote"))
            for build in PAIR
        )

    def sends(self) -> str:
        """Sends for each doorbell of the send queue, ours / in-tree."""
        pairs = ((self.middle(build, "sends posted"), self.middle(build, "send doorbells")) for build in PAIR)
        return "/".join(f"{sends / doorbells:.2f}" if doorbells else "-" for sends, doorbells in pairs)

    def burst(self) -> str:
        """Operations for each run of a handler of completions, ours / in-tree."""
        runs = (self.middle(build, "reply runs") for build in PAIR)
        return "/".join(f"{1 / run:.1f}" if run else "-" for run in runs)


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, its width, and its value for a line."""

    title: str
    width: int
    value: Callable[[Line], str]


def costs(others: list[str]) -> list[Column]:
    """The columns of the cost of an operation."""
    columns = [
        Column("ours", 11, lambda line: f"{line.middle('ours'):,.0f}"),
        Column("in-tree", 11, lambda line: f"{line.middle('in-tree'):,.0f}"),
        Column("ratio", 6, Line.shown),
        Column("spread", 13, Line.spreads),
        Column("host part", 19, lambda line: line.both("host part")),
        Column("ratio", 6, lambda line: line.shown(column="host part")),
        Column("transport", 13, lambda line: line.both("transport")),
        Column("ratio", 6, lambda line: line.shown(column="transport")),
        Column("send stage", 13, lambda line: line.both("send stage")),
        Column("reply stage", 15, lambda line: line.both("reply stage")),
    ]
    for other in others:
        columns.append(Column(f"/ {other}", 10, lambda line, other=other: line.shown(other)))
        columns.append(Column("its host", 8, lambda line, other=other: line.shown(other, "host part")))
    return columns


HAPPENED = [
    Column("locks", 9, lambda line: line.both("own locks", 1)),
    Column("atomics", 11, lambda line: line.both("own atomics", 1)),
    Column("doorbells", 11, lambda line: line.both("doorbells", 2)),
    Column("Sends each", 10, Line.sends),
    Column("completions", 11, lambda line: line.both("completions", 2)),
    Column("burst", 9, Line.burst),
    Column("registr.", 9, lambda line: line.both("registrations", 1)),
    Column("registered bytes", 19, lambda line: line.both("registered bytes")),
    Column("inval. l+r", 15, Line.invalidations),
    Column("into Sends", 13, lambda line: line.both("bytes copied into sends")),
    Column("from Receives", 13, lambda line: line.both("bytes copied from receives")),
    Column("copied by adapter", 21, lambda line: line.both("bytes copied by rxe")),
    Column("allocations", 13, lambda line: line.both("page allocations", 1)),
    Column("task switches", 13, lambda line: line.both("task switches", 1)),
]


def lines(records: list[Record]) -> list[Line]:
    """Samples by row, in their order; rows that one of the builds does not have yet are left out."""
    builds = dict.fromkeys([*PAIR, *(str(record["build"]) for record in records)])
    found: dict[str, Line] = {}
    for record in records:
        name, kind, build = (str(record[column]) for column in ("row", "kind", "build"))
        found.setdefault(name, Line(name, kind, {name: [] for name in builds})).samples[build].append(record)
    return [line for line in found.values() if all(line.samples.values())]


def versions(records: list[Record]) -> str:
    """Our own instructions and all in each version of the protocol, and their ratios, version 2 / version 1."""
    found: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        found.setdefault(str(record["row"]), {}).setdefault(str(record["build"]), []).append(record)
    text = [f"{'instructions per operation, by version':{NAME}} {'own':>21} {'all':>25}"]
    for name, samples in found.items():
        cells = []
        for column, width in (("transport", 6), ("instructions", 8)):
            one, two = (Line(name, "", samples).middle(build, column) for build in (VERSION_1, VERSION_2))
            cells.append(f"{one:>{width},.0f} {two:>{width},.0f} {two / one:7.3f}")
        text.append(f"{name:{NAME}} {cells[0]} {cells[1]}")
    return "\n".join(text)


def table(records: list[Record]) -> str:
    """The terminal's tables. Where a value has a / it is ours / in-tree; the columns at the end of the first are ours / another
    build's."""
    all_lines = lines(records)
    others = all_lines[0].others if all_lines else []
    return "\n\n".join(
        "\n".join(
            [
                " ".join([f"{title:{NAME}}", *(f"{column.title:>{column.width}}" for column in columns)]),
                *(
                    " ".join([f"{line.name:{NAME}}", *(f"{column.value(line):>{column.width}}" for column in columns)])
                    for line in all_lines
                ),
            ]
        )
        for title, columns in (("instructions per operation", costs(others)), ("per operation", HAPPENED))
    )


def untuned(name: str) -> str:
    """The row that one of larger inline sizes is compared with."""
    return name.replace(TUNED, "", 1)


# Ours with larger inline sizes / ours with the default, the same of the in-tree build, and ours / in-tree.
TUNED_RATIOS = (("ours", "ours"), ("in-tree", "in-tree"), ("ours", "in-tree"))


def tuned(records: list[Record]) -> str:
    """The effect of larger inline sizes, if rows with them were measured."""
    found = {line.name: line for line in lines(records)}
    pairs = [
        (line, found[name]) for line in found.values() if (name := untuned(line.name)) != line.name and name in found
    ]
    if not pairs:
        return ""
    titles = "".join(f"{title:>13}" for title in ("ours", "in-tree", "ours/in-tree", "both 16 KiB"))
    text = [
        f"{'inline 16 KiB / 4 KiB':{NAME}} {'all instructions':>52} {'host part':>52} {'registrations':>20}",
        f"{'':{NAME}} {titles} {titles}",
    ]
    for large, small in pairs:
        words = [f"{large.name:{NAME}}"]
        for column in ("instructions", "host part"):
            ratios = [large.middle(mine, column) / small.middle(theirs, column) for mine, theirs in TUNED_RATIOS]
            words.append("".join(f"{ratio:13.3f}" for ratio in (*ratios, large.ratio(column=column) or 0)))
        words.append(f"{small.both('registrations', 1)} to {large.both('registrations', 1)}".rjust(20))
        text.append(" ".join(words))
    return "\n".join(text)


def profile(records: list[Record], functions: list[Record]) -> str:
    """The instructions of each row: by part of the kernel and event, then the transports' functions, and the other
    functions in which the two transports differ most."""
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
    costs: dict[str, dict[str, float]] = {build: {} for build in PAIR}
    own: set[str] = set()
    for record in records:
        build, name = str(record["build"]), str(record["function"])
        if build not in costs:
            continue
        costs[build][name] = float(record["instructions"])
        if record["part"] == "transport":
            own.add(name)
    text = []
    for build, functions in costs.items():
        text.append(f"    functions of the transport, {build}:")
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
    return [line.name for line in lines(records) if not all(line.agrees(build) for build in line.samples)]


def judged(what: str, figures: dict[str, float], limit: float, digits: int = 3) -> list[str]:
    """A line with the number of figures within a limit, and lines with the figures outside."""
    figures = {name: round(figure, digits) for name, figure in figures.items()}
    largest = sorted(figures.items(), key=lambda item: -item[1])
    over = [f"{name} {figure:.{digits}f}" for name, figure in largest if figure > limit]
    text = f"{what}: {len(figures) - len(over)} of {len(figures)} rows within {limit:.{digits}f}"
    return [text, *named("above", over)]


def named(what: str, names: list[str]) -> list[str]:
    """The lines that name the rows outside of a limit."""
    if not names:
        return []
    # A name stays on one line.
    text = f"{what}: " + "; ".join(name.replace(" ", "\N{NO-BREAK SPACE}") for name in names)
    wrapped = textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]


def ratios(lines: list[Line], other: str, column: str) -> dict[str, float]:
    """Ours / another build's, by row; rows without a figure of theirs are left out."""
    return {line.name: ratio for line in lines if (ratio := line.ratio(other, column)) is not None}


def summary(records: list[Record]) -> str:
    """The verdict: the number of rows within each limit, the rows outside, and the quality of the measurement."""
    all_lines = lines(records)
    if not all_lines:
        return "no row has samples of both builds"
    text = []
    for limit in sorted({line.own_limit for line in all_lines}):
        some = [line for line in all_lines if line.own_limit == limit]
        text += judged("own instructions, ours / in-tree", ratios(some, "in-tree", "transport"), limit)
    for other in ("in-tree", *all_lines[0].others):
        limit = HOST_PART if other == "in-tree" else HOST_PART_OF_OTHERS
        text += judged(f"host part, ours / {other}", ratios(all_lines, other, "host part"), limit)
    # A row above the limit here would be above it if the transport itself cost nothing.
    least = {
        line.name: (line.middle("ours", "host part") - line.middle("ours", "transport"))
        / line.middle("in-tree", "host part")
        for line in all_lines
    }
    text += judged("host part less our own instructions, ours / in-tree", least, HOST_PART)
    for other in ("in-tree", *all_lines[0].others):
        text += judged(f"all instructions, ours / {other}", ratios(all_lines, other, "instructions"), TOTAL)
    locks = {line.name: line.locks() for line in all_lines if line.kind != "connection"}
    if locks:
        text += judged("own locks per call", locks, LOCKS, 2)
    for column in ("doorbells", "completions"):
        more = {line.name: line.middle("ours", column) - line.middle("in-tree", column) for line in all_lines}
        text += judged(f"{column}, ours less in-tree", more, 0, 2)
    loose = apart(records)
    text.append(f"most samples within 2 %: {len(all_lines) - len(loose)} of {len(all_lines)} rows")
    return "\n".join([*text, *named("apart", loose)])
