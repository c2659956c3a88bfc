# SPDX-License-Identifier: GPL-2.0
"""Reads an export of llvm-cov, and lists the regions of src/proto that no test reaches, the tests themselves left out."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

CODE = 0  # the kind of a region that is neither a gap nor an expansion


def main(path: str) -> None:
    """Prints a line for each file, one for each line that is not reached, and the total."""
    reached: dict[Path, dict[tuple[int, ...], int]] = defaultdict(lambda: defaultdict(int))
    for function in json.loads(Path(path).read_text(encoding="utf-8"))["data"][0]["functions"]:
        file = Path(function["filenames"][0]).resolve()
        if "/src/proto/" not in str(file):
            continue
        for *place, count, _, _, kind in function["regions"]:
            # Each instance of a generic function has regions of its own.
            if kind == CODE:
                reached[file][tuple(place)] += count
    rooms: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    # vectors.rs has the data of the unit tests.
    for file, its in sorted(item for item in reached.items() if item[0].name != "vectors.rs"):
        lines = file.read_text(encoding="utf-8").splitlines()
        tests = next((n for n, line in enumerate(lines, 1) if line.startswith("mod tests")), len(lines) + 1)
        own = {place: count for place, count in its.items() if place[0] < tests}
        gone = sorted({place[0] for place, count in own.items() if not count})
        missed = sum(not count for count in own.values())
        name = str(file).partition("/src/proto/")[2]
        room = f"proto/{name.partition('/')[0]}" if "/" in name else "proto"
        for total in (rooms[room], rooms[""]):
            total[0] += len(own)
            total[1] += missed
        print(f"{name}: {len(own)} regions, {missed} not reached")
        for line in gone:
            print(f"    {line}: {lines[line - 1].strip()}")
    for room, (regions, missed) in sorted(rooms.items(), reverse=True):
        print(f"{room}{': ' if room else ''}{100 * (regions - missed) / regions:.1f} % of {regions} regions")


main(sys.argv[1])
