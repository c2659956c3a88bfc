# SPDX-License-Identifier: GPL-2.0
"""Draws the results: ratios with their spread, and the instructions by part of the kernel. Usage: python -m bench.plots DIRECTORY"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
# The same results make the same file.
matplotlib.rcParams["svg.hashsalt"] = "rpcrdma-rs"

from matplotlib import pyplot  # noqa: E402 (the kind of output is chosen first)

from . import table  # noqa: E402
from .symbols import PARTS  # noqa: E402

ROW_HEIGHT = 0.24  # inches


def ratios(lines: list[table.Line], path: Path) -> None:
    """One dot for each row, with the range of its samples."""
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + ROW_HEIGHT * len(lines)))
    for at, line in enumerate(lines):
        theirs = line.middle("in-tree")
        values = [value / theirs for value in line.values("ours", "instructions")]
        spread = [value / theirs for value in line.values("in-tree", "instructions")]
        axes.plot([min(spread), max(spread)], [at, at], color="silver", linewidth=5, solid_capstyle="butt")
        axes.plot([min(values), max(values)], [at, at], color="tab:blue", linewidth=1.5)
        axes.plot([line.ratio() or 0], [at], "o", color="tab:blue", markersize=4)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(lines)), [line.name for line in lines], fontsize=7)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlabel("instructions per operation, ours / in-tree (grey: range of the in-tree samples)")
    axes.grid(axis="x", linewidth=0.3)
    save(figure, path)


def parts(lines: list[table.Line], path: Path) -> None:
    """Two bars for each row, divided by part of the kernel; 100 is all that the in-tree transport's row costs."""
    figure, axes = pyplot.subplots(figsize=(11, 1.6 + 1.6 * ROW_HEIGHT * len(lines)))
    colors = pyplot.get_cmap("tab20").colors
    for at, line in enumerate(lines):
        whole = line.middle("in-tree")
        for build, offset in (("ours", -0.2), ("in-tree", 0.2)):
            left = 0.0
            for number, part in enumerate(PARTS):
                width = 100 * line.middle(build, part) / whole
                label = part if at == 0 and build == "ours" else None
                axes.barh(at + offset, width, 0.36, left, color=colors[number % len(colors)], label=label)
                left += width
    axes.set_yticks(range(len(lines)), [line.name for line in lines], fontsize=7)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlabel("instructions per operation by part of the kernel, in-tree = 100 (upper bar: ours, lower: in-tree)")
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, path)


def save(figure: pyplot.Figure, path: Path) -> None:
    """Writes the file without its date."""
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main(directory: Path) -> None:
    """Draws the results that a run has left."""
    lines = table.lines(table.read_csv(directory / "results.csv"))
    for kind in ("transport", "nfs", "connection"):
        if some := [line for line in lines if line.kind == kind]:
            ratios(some, directory / f"ratios-{kind}.svg")
            parts(some, directory / f"parts-{kind}.svg")


main(Path(sys.argv[1]))
