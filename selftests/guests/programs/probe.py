# SPDX-License-Identifier: GPL-2.0
"""Looks up names that are not there, one after the other, and measures how long each takes.

Usage in a guest: `probe.py DIRECTORY ENOUGH`, until the file ENOUGH exists; prints the number of names, and the longest
times in milliseconds: the median, that of 1 of 100, and the longest of all.
"""

import os
import sys
import time


def main(directory, enough):
    """Measures."""
    took = []
    while not os.path.exists(enough):
        start = time.monotonic()
        try:
            os.stat(f"{directory}/no-{os.getpid()}-{len(took)}")
        except FileNotFoundError:
            took.append(time.monotonic() - start)
    took.sort()
    print(len(took), *(f"{took[int(part * (len(took) - 1))] * 1000:.0f}" for part in (0.5, 0.99, 1)))


if __name__ == "__main__":
    main(*sys.argv[1:])
