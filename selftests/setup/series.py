#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes the table of tested kernels into Documentation/installation.rst.

Usage: series.py [--check]. The rows stand in Documentation/kernels.tsv, one for each suite of packaging/kernels; those of
out/series, which series.sh has made, take the place of older ones. --check only says whether the page and the list of
suites fit the rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
ROWS = TOP / "Documentation/kernels.tsv"
PAGE = TOP / "Documentation/installation.rst"
KERNELS = TOP / "packaging/kernels"
BEGIN, END = ".. Begin of what series.py writes.\n", ".. End of what series.py writes.\n"
TITLES = (
    "Suite",
    "Kernel",
    "Compiler",
    "rustc",
    "Versions",
    "Metadata",
    "Builds",
    "Boots",
    "Mounts",
    "Core set",
    "Date",
)

Row = tuple[str, ...]


def suites() -> list[str]:
    """The suites that the module is tested on, oldest series first."""
    lines = [line.split() for line in KERNELS.read_text().splitlines()]
    return [suite for words in lines if words and words[0][0].isdigit() for suite in words[1:]]


def read(path: Path) -> list[Row]:
    """The rows of a file that have all columns."""
    found = [tuple(line.split("\t")) for line in path.read_text().splitlines()]
    return [row for row in found if len(row) == len(TITLES)]


def rows() -> list[Row]:
    """The newest row of each suite that has one, in the order of the suites."""
    found = {
        row[0]: row for path in [ROWS, *sorted(TOP.glob("out/series/*.tsv"))] if path.exists() for row in read(path)
    }
    return [found[suite] for suite in suites() if suite in found]


def table(lines: list[Row]) -> str:
    """The rows as a table of reStructuredText."""
    widths = [max(len(line[at]) for line in [TITLES, *lines]) for at in range(len(TITLES))]
    rule = "  ".join("=" * width for width in widths)
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in [TITLES, *lines]]
    return "\n".join([rule, text[0], rule, *text[1:], rule]) + "\n"


def main() -> int:
    """Writes, or checks."""
    check = "--check" in sys.argv[1:]
    lines = read(ROWS) if check else rows()
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    written = f"{before}{BEGIN}\n{table(lines)}\n{END}{after}"
    if check:
        lacking = [suite for suite in suites() if suite not in {row[0] for row in lines}]
        if written != page or lacking:
            print(f"run selftests/setup/series.py; suites without a row: {' '.join(lacking) or 'none'}")
            return 1
        return 0
    ROWS.write_text("".join("\t".join(row) + "\n" for row in lines))
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
