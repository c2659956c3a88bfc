# SPDX-License-Identifier: GPL-2.0
"""Runs all tests of this package; `python3 -m tool` in selftests. The last line is 'N passed, N failed'."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import TextIO


class Result(unittest.TestResult):
    """Reports each test in a line, and why it failed."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.stream = stream
        self.passed = 0

    def addSuccess(self, test: unittest.TestCase) -> None:
        """Reports a test that has passed."""
        self.passed += 1
        print(f"ok     {test.shortDescription() or test.id()}", file=self.stream)

    def addFailure(self, test: unittest.TestCase, err: tuple) -> None:
        """Reports a test that has failed, with the last line of its trace."""
        super().addFailure(test, err)
        print(f"not ok {test.shortDescription() or test.id()}", file=self.stream)
        print("".join(f"    {line}\n" for line in self.failures[-1][1].splitlines()), end="", file=self.stream)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: tuple | None) -> None:
        """Reports a case of a test if it has failed; its test is not reported then."""
        if err:
            self.addFailure(subtest, err)

    def addError(self, test: unittest.TestCase, err: tuple) -> None:
        """An exception is a failure."""
        self.addFailure(test, err)


def main() -> int:
    """Runs the tests, in the order of their files."""
    here = Path(__file__).parent
    result = Result(sys.stdout)
    unittest.defaultTestLoader.discover(str(here), "test_*.py", str(here.parent)).run(result)
    print(f"{result.passed} passed, {len(result.failures)} failed")
    return 1 if result.failures or not result.passed else 0


sys.exit(main())
