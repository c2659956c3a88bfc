#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks the shape of the module: the lengths of its files and functions, and the size of its largest type.

Usage: shape.py SRC [--figures]. Tests are left out of functions and types. --figures prints the largest of each kind.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

MOST_LINES = 500
MOST_LINES_OF_A_FUNCTION = 40
MOST_METHODS = 50
# Of types with more than `MANY_METHODS`; others are tables of values, or stand for an object of C.
MOST_FIELDS = 12
MANY_METHODS = 40

VISIBLE = r"(?:pub(?:\([^)]*\))? )?"
FUNCTION = re.compile(rf'( *){VISIBLE}(?:const )?(?:unsafe )?(?:extern "C" )?fn (\w+)')
IMPL = re.compile(r"(?:unsafe )?impl(?:<.*?>)? (?:.* for )?(?:\w+::)*(\w+)")
STRUCT = re.compile(rf"{VISIBLE}struct (\w+)[^;(]*\{{$")
FIELD = re.compile(rf"    {VISIBLE}\w+: ")

Type = tuple[str, str]  # Room and name: the client and the server each have a connection.


def code(path: Path) -> list[str]:
    """The lines of a file before its tests, which stand last."""
    text = path.read_text()
    return re.split(r"^(?:#\[.*\]\n)*mod tests \{$", text, maxsplit=1, flags=re.M)[0].splitlines()


def functions(lines: list[str]) -> dict[str, int]:
    """The functions, and their lengths from `fn` to the last brace."""
    found = {}
    for at, line in enumerate(lines):
        if not (match := FUNCTION.match(line)):
            continue
        end = lines.index(f"{match[1]}}}", at) if f"{match[1]}}}" in lines[at:] else at
        # A function without a body ends with its signature.
        signature = next(n for n in range(at, len(lines)) if lines[n].rstrip().endswith(("{", "}", ";")))
        found[f"{match[2]}, line {at + 1}"] = end - at + 1 if lines[signature].rstrip().endswith("{") else 1
    return found


def types(lines: list[str], room: str) -> tuple[Counter[Type], Counter[Type]]:
    """The methods and the fields of the types."""
    methods, fields = Counter(), Counter()
    of, counts = None, methods
    for line in lines:
        if match := STRUCT.match(line):
            of, counts = (room, match[1]), fields
        elif match := IMPL.match(line):
            of, counts = (room, match[1]), methods
        elif line == "}":
            of = None
        elif of and (FIELD if counts is fields else FUNCTION).match(line):
            # Functions in functions, and fields of anonymous types, stand deeper.
            if len(line) - len(line.lstrip()) == 4:
                counts[of] += 1
    return methods, fields


def main() -> int:
    src = Path(sys.argv[1])
    lengths, sizes = Counter(), Counter()
    methods: Counter[Type] = Counter()
    fields: Counter[Type] = Counter()
    for path in sorted(src.rglob("*.rs")):
        name = path.relative_to(src)
        lengths[str(name)] = len(path.read_text().splitlines())
        lines = code(path)
        sizes.update({f"{name}: {function}": length for function, length in functions(lines).items()})
        more = types(lines, name.parts[0].removesuffix(".rs"))
        methods.update(more[0])
        fields.update(more[1])
    if not lengths:
        print(f"no files in {src}")
        return 1

    large = {kind: count for kind, count in fields.items() if methods[kind] > MANY_METHODS}
    kinds = (
        ("lines", lengths, MOST_LINES),
        ("lines of a function", sizes, MOST_LINES_OF_A_FUNCTION),
        ("methods", {"::".join(kind): count for kind, count in methods.items()}, MOST_METHODS),
        ("fields of a large type", {"::".join(kind): count for kind, count in large.items()}, MOST_FIELDS),
    )
    bad = 0
    for kind, counts, most in kinds:
        for name, count in Counter(counts).most_common(5):
            bad += count > most
            if count > most or "--figures" in sys.argv:
                print(f"{name}: {count} {kind}, of {most}")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
