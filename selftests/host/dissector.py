# SPDX-License-Identifier: GPL-2.0
"""Compares what tools/rpcrdma2.lua shows of each message with what the decoder finds. Usage: dissector.py DIRECTORY

The directory comes from the host test `dissection`: messages.pcap, and expected, with a line for each message.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PREFIX = 5  # the note and the words of the prefix, which are compared of every message


def main(directory: Path) -> int:
    """Compares."""
    head, *expected = (directory / "expected").read_text(encoding="utf-8").splitlines()
    columns = [part for name in head.split("\t") for part in ("-e", f"rpcrdma2.{name}")]
    command = ["tshark", "-r", str(directory / "messages.pcap"), "-T", "fields", *columns]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    if not expected or len(shown) != len(expected):
        print(f"{len(expected)} messages, {len(shown)} shown")
        return 1
    bad = 0
    for number, (line, wanted) in enumerate(zip(shown, expected), 1):
        have, want = line.split("\t"), wanted.split("\t")
        # What follows the prefix counts only where the whole message has a meaning.
        have = have[: PREFIX if want[0] else None]
        if want[0] and len(want) == 1:
            have = have[:1]
        if have != want:
            bad += 1
            print(f"message {number}:\n  decoder   {want}\n  dissector {have}")
    print(f"{len(shown)} messages, {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
