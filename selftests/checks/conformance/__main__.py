# SPDX-License-Identifier: GPL-2.0
"""Writes Documentation/conformance.rst, or with --check compares it with the file.

Usage: python3 -m checks.conformance [--check]
"""

from __future__ import annotations

import difflib
import re
import sys
import textwrap
from collections import Counter, defaultdict
from pathlib import Path

from . import citations, places, requirements

TOP = Path(__file__).parents[3]
PAGE = TOP / "Documentation/conformance.rst"
WIDTH = 124
HEAD = """.. SPDX-License-Identifier: GPL-2.0

===========
Conformance
===========

Where each requirement of ``requirements.rst`` is met, and which tests would notice its loss. This page is made by
``make conformance`` from the citations in code and tests; ``make lint`` fails when it is out of date, when a requirement of
the client or of the server has neither a test nor a reason, and when one is cited that does not exist.
"""


class Table:
    """The requirements with their places and tests."""

    def __init__(self) -> None:
        self.requirements = requirements.load(TOP)
        self.tests = {"unit": citations.rust_tests(TOP), "guest": citations.guest_tests(TOP)}
        self.apart = {name: why for why, names in places.APART.items() for name in names.split()}
        self.open = set(places.OPEN.split())
        self.later = {name: why for why, names in places.LATER.items() for name in names.split()}
        self.places: dict[str, list[str]] = defaultdict(list)
        for place, names in places.PLACES.items():
            for name in names.split():
                self.places[name].append(place)
        for name, files in citations.code(TOP).items():
            named = {place.partition(":")[0] for place in self.places[name]}
            self.places[name] += [file for file in files if file not in named]

    def tested(self, name: str) -> bool:
        """Returns `True` if a test cites it."""
        return any(name in found for found in self.tests.values())

    def problems(self) -> list[str]:
        """The errors of the table itself."""
        found = [
            f"{place}: no such requirement or hazard"
            for place in citations.unknown(TOP, {*self.requirements, *requirements.hazards(TOP)})
        ]
        for place in places.PLACES:
            file, _, item = place.partition(": ")
            if not (TOP / file).exists() or not re.search(rf"\b{item}\b", (TOP / file).read_text()):
                found.append(f"selftests/checks/conformance/places.py: there is no {place}")
        for name in [*self.places, *self.apart, *self.open, *self.later, *places.UNTESTABLE]:
            if name not in self.requirements:
                found.append(f"selftests/checks/conformance/places.py: {name}: no such requirement")
        for name in self.requirements:
            reasons = [name in some for some in (self.apart, self.open, places.UNTESTABLE)]
            if name in self.apart or (name in self.later and not self.tested(name)):
                continue
            if not self.places[name]:
                found.append(f"{name}: nothing says where it is met")
            if self.tested(name) == any(reasons):
                found.append(
                    f"{name}: it has both a test and a reason for none" if any(reasons) else f"{name}: no test"
                )
        return found

    def count(self) -> str:
        """A sentence with the number of each kind."""
        kinds: Counter[str] = Counter()
        for name in self.requirements:
            if name in self.apart:
                kinds["apart"] += 1
            elif self.tested(name):
                kinds["tested"] += 1
            else:
                kinds["untestable" if name in places.UNTESTABLE else "open"] += 1
        ours = len(self.requirements) - kinds["apart"]
        return (
            f"Of {len(self.requirements)} requirements {ours} concern the client or the server: "
            f"{kinds['tested']} have tests, "
            f"{kinds['untestable']} cannot be tested for the reason given, {kinds['open']} have no test yet."
        )

    def entry(self, name: str) -> str:
        """The paragraph for one requirement."""
        if name in self.apart:
            return f"Not here: {self.apart[name]}."
        if name in self.later and not self.tested(name):
            return f"No test yet: {self.later[name]}."
        said = ["In " + ", ".join(f"``{place}``" for place in self.places[name]) + "."]
        for kind, title in (("unit", "Unit tests"), ("guest", "Tests in guests")):
            by_file: dict[str, list[str]] = defaultdict(list)
            for test in self.tests[kind].get(name, []):
                file, _, function = test.partition(": ")
                by_file[file].append(function)
            if by_file:
                said.append(
                    f"{title}: " + "; ".join(f"``{f}``: {', '.join(sorted(set(t)))}" for f, t in by_file.items()) + "."
                )
        if name in places.UNTESTABLE:
            said.append(f"Not testable: {places.UNTESTABLE[name]}.")
        if name in self.open:
            said.append("No test yet.")
        return " ".join(said)

    def page(self) -> str:
        """The text of the page."""
        parts = [HEAD, self.count() + "\n"]
        family = ""
        for name, requirement in self.requirements.items():
            if requirement.family != family:
                family = requirement.family
                parts.append(f"{family}\n{'=' * len(family)}\n")
            text = textwrap.fill(self.entry(name), WIDTH - 4, break_long_words=False, break_on_hyphens=False)
            parts.append(f"{name}\n{textwrap.indent(text, '    ')}\n")
        return "\n".join(parts)


def main() -> int:
    """Writes or checks the page."""
    table = Table()
    problems = table.problems()
    page = table.page()
    if "--check" in sys.argv[1:]:
        now = PAGE.read_text() if PAGE.exists() else ""
        if now != page:
            lines = difflib.unified_diff(now.splitlines(), page.splitlines(), "now", "wanted", lineterm="", n=0)
            problems += [f"{PAGE.name} is out of date: run 'make conformance'", *list(lines)[:20]]
    else:
        PAGE.write_text(page)
        print(table.count())
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
