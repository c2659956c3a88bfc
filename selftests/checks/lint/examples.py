#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Collects the examples of the documentation of the code, so that the compiler sees them.

Usage: examples.py SRC. Prints a module for each example, which the main file includes with `--cfg RPCRDMA_EXAMPLES`. An
example is a block of a doc comment that is marked `ignore`: rustdoc would compile it as another crate, which sees nothing
of this one. As in rustdoc, a line that begins with `# ` belongs to the example and is not shown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

FENCE = "```ignore"
LINE = re.compile(r"\s*//[/!] ?(.*)")
HIDDEN = re.compile(r"^\s*#(?: |$)")


def examples(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The examples of a file: the number of the first line of each, and its lines."""
    begin, lines = 0, []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        found = LINE.match(text)
        line = found[1] if found else ""
        if not begin:
            begin = number + 1 if line.strip() == FENCE else 0
        elif not found or line.strip() == "```":
            yield begin, lines
            begin, lines = 0, []
        else:
            lines.append(HIDDEN.sub("", line))


def main() -> int:
    """Prints the modules."""
    src = Path(sys.argv[1])
    count = 0
    for path in sorted(src.rglob("*.rs")):
        for begin, lines in examples(path):
            count += 1
            body = "".join(f"    {line}\n" for line in lines)
            print(f"// {path.relative_to(src)}, from line {begin} on.\nmod example_{count} {{\n{body}}}")
    if not count:
        print("no examples found", file=sys.stderr)
    return not count


if __name__ == "__main__":
    sys.exit(main())
