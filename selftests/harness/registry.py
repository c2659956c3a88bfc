# SPDX-License-Identifier: GPL-2.0
"""How tests make themselves known."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .pair import Pair


class Skip(Exception):
    """Raised by a test that does not apply to this run; the text says why."""


@dataclass(frozen=True)
class Test:
    """One registered test."""

    name: str
    group: str
    function: Callable[[Pair], None]
    requirements: tuple[str, ...]
    limit: float
    allowed: tuple[re.Pattern[str], ...] = ()
    device: str | None = None
    arguments: dict[str, object] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The file and the name: what patterns are matched with."""
        return f"{self.group}: {self.name}"


TESTS: list[Test] = []


def test(
    name: str,
    *requirements: str,
    limit: float = 60.0,
    allowed: tuple[str, ...] = (),
    device: str | None = None,
    cases: list[dict[str, object]] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a test, which gets a started Pair.

    `requirements` are the IDs it covers, `limit` its seconds on the fast kernel, `allowed` patterns of kernel messages
    that it provokes, `device` the RDMA device it needs, `cases` keyword arguments for one test each, which
    the name may use.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        group = function.__module__.rpartition(".")[2]
        patterns = tuple(re.compile(text) for text in allowed)
        for case in cases or [{}]:
            title = name.format(**case)
            TESTS.append(Test(title, group, function, requirements, limit, patterns, device, case))
        return function

    return register


def load() -> list[Test]:
    """All tests, in the order of files and within a file as written."""
    import vm

    for module in sorted(pkgutil.iter_modules(vm.__path__), key=lambda m: m.name):
        if module.name.startswith("test_"):
            importlib.import_module(f"vm.{module.name}")
    return TESTS


def select(tests: list[Test], patterns: list[str]) -> list[Test]:
    """Those whose `file: name` contains any of the patterns; all without patterns."""
    return [t for t in tests if not patterns or any(p in t.title for p in patterns)]
