# SPDX-License-Identifier: GPL-2.0
"""Runs that share their tests (guests/lanes.sh): each takes the next file of tests that no other has begun."""

from __future__ import annotations

import fcntl
from pathlib import Path


class Shares:
    """The files of tests that have been taken, a line for each, in a file that all the runs have."""

    def __init__(self, path: Path):
        self._path = path

    def claim(self, group: str) -> bool:
        """Takes a file of tests, unless another run has it."""
        with self._path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if group in file.read().splitlines():
                return False
            file.write(f"{group}\n")
            return True
