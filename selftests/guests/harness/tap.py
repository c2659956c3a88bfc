# SPDX-License-Identifier: GPL-2.0
"""Results for the tools of others: a file in the kernel's test format, KTAP, with a subtest for each file of tests."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path

from .registry import Test

VERSION = "KTAP version 1"


class Tap:
    """The file of a run; without a path nothing is kept."""

    def __init__(self, path: Path | None, tests: list[Test]):
        self._kept = path is not None
        self._file = Path(path or os.devnull).open("w")
        self._sizes = {group: len(list(some)) for group, some in groupby(tests, lambda test: test.group)}
        self._left = list(tests)
        self._group = ""
        self._groups = 0
        self._number = 0
        self._good = True
        self._say(VERSION, f"1..{len(self._sizes)}")

    def _say(self, *lines: str) -> None:
        self._file.write("".join(f"{line}\n" for line in lines))
        self._file.flush()

    def note(self, text: str) -> None:
        """Something that is no result."""
        self._say(*(f"  # {line}" for line in text.splitlines()))

    def bad(self, text: str) -> None:
        """The file of tests that is under way has failed as a whole."""
        self._good = False
        self.note(text)

    def result(self, test: Test, good: bool, skipped: str = "") -> None:
        """The result of the next test; the last one of a file ends the subtest."""
        if not self._kept:
            return
        assert self._left.pop(0) is test, "the results come in another order than the tests"
        if not self._number:
            self._group = test.group
            self._say(f"  {VERSION}", f"  # Subtest: {test.group}", f"  1..{self._sizes[test.group]}")
        self._number += 1
        name = test.name.replace("#", "No.")
        self._say(f"  {'ok' if good else 'not ok'} {self._number} {name}" + (f" # SKIP {skipped}" if skipped else ""))
        self._good = self._good and good

    def end_group(self) -> None:
        """The result of a file of tests, once all its tests have theirs."""
        if not self._number or self._number < self._sizes[self._group]:
            return
        self._groups += 1
        self._say(f"{'ok' if self._good else 'not ok'} {self._groups} {self._group}")
        self._number, self._good = 0, True

    def close(self) -> None:
        """Ends; the tests that are left have not run."""
        for test in list(self._left) if self._kept else ():
            self.result(test, True, "left out")
            self.end_group()
        self._file.close()
