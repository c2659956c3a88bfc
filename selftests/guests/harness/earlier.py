# SPDX-License-Identifier: GPL-2.0
"""Tests that have passed before: a run that was cut short is continued by the next one (--resume)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .config import REPO, Options

RESULTS = Path("/cache/results")

# The parts of selftests that VM tests consist of, and the kinds of their files that count.
PARTS = ("guests", "modules")
SOURCES = (".py", ".c", ".sh")


class Earlier:
    """The tests that passed in earlier runs of the same module and tests, on the same kernels, with as much data."""

    def __init__(self, options: Options):
        key = hashlib.sha256(options.module.read_bytes())
        for path in sorted(path for part in PARTS for path in (REPO / "selftests" / part).rglob("*.*")):
            if path.suffix in SOURCES:
                key.update(path.read_bytes())
        for word in (options.kernel, options.server_variant, options.device, options.small, options.rounds):
            key.update(f"{word}\0".encode())
        RESULTS.mkdir(exist_ok=True)
        self._path = RESULTS / key.hexdigest()[:16]
        self._titles = set(self._path.read_text().splitlines()) if self._path.exists() else set()

    def __contains__(self, title: str) -> bool:
        return title in self._titles

    def add(self, title: str) -> None:
        """It has passed now."""
        with self._path.open("a") as file:
            file.write(f"{title}\n")
