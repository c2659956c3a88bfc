# SPDX-License-Identifier: GPL-2.0
"""Lists the defects, and puts them into a copy of the sources.

Usage: python3 -m checks.mutations --check | --list [PATTERN...] | --apply NUMBER SRC
"""

from __future__ import annotations

import sys
from pathlib import Path

from checks.conformance import requirements
from guests.harness.needs import lacking_natively
from guests.harness.registry import load, select

from .defects import DEFECTS, HOST, Defect

TOP = Path(__file__).parents[3]
KNOWN = {*requirements.load(TOP), *requirements.hazards(TOP)}
TESTS = load()


def place(src: Path, old: str) -> list[Path]:
    """The files that have a text, as often as they have it."""
    return [path for path in sorted(src.rglob("*.rs")) for _ in range(path.read_text().count(old))]


def problems(defect: Defect) -> list[str]:
    """The mistakes in a defect."""
    found = []
    for old, new in defect.edits:
        if (count := len(place(TOP / "src", old))) != 1:
            found.append(f"{defect.name}: stands {count} times in src: {old!r}")
        if old == new:
            found.append(f"{defect.name}: changes nothing")
    for name in defect.broken.split():
        if name not in KNOWN:
            found.append(f"{defect.name}: no such requirement or hazard: {name}")
    if defect.found_by != HOST and not select(TESTS, [defect.found_by]):
        found.append(f"{defect.name}: no such test: {defect.found_by}")
    return found


def kernel(defect: Defect) -> str:
    """The kernel of the guests that run the test that has to find a defect."""
    tests = [] if defect.found_by == HOST else select(TESTS, [defect.found_by])
    return "stock" if any(test.emulated or lacking_natively(test.needs) for test in tests) else "native"


def apply(defect: Defect, src: Path) -> None:
    """Puts a defect into the sources under `src`."""
    for old, new in defect.edits:
        (path,) = place(src, old)
        path.write_text(path.read_text().replace(old, new))


def main(arguments: list[str]) -> int:
    match arguments:
        case ["--check"]:
            found = [line for defect in DEFECTS for line in problems(defect)]
            print("\n".join(found), end="\n" if found else "")
            return bool(found)
        case ["--list", *patterns]:
            for number, defect in enumerate(DEFECTS):
                title = f"{defect.name} ({defect.broken})"
                if not patterns or any(pattern in title for pattern in patterns):
                    print(number, title, kernel(defect), defect.found_by, sep="\t")
        case ["--apply", number, src]:
            apply(DEFECTS[int(number)], Path(src))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


sys.exit(main(sys.argv[1:]))
