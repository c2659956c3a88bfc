#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks the order of selftests: the map of its directories, and the imports of its tests.

Usage: order.py SELFTESTS. README.rst names each directory; a test imports no test, nor does the harness or the library;
programs for guests import nothing from outside; the files of tests are named by their subject.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_DIRECTORIES = 8
# Directories whose own directories are places, too, which the map names.
PARTED = ("guests", "checks", "modules", "setup")
# Parts of these, which have no line of their own.
WITHIN = ("setup/native", "setup/package/guest", "setup/vng/guest")
TESTS = "guests.tests"
REGISTRY = "guests/harness/registry.py"
# A guest sees their directory alone.
ALONE = ("guests/programs", "guests/peer")


def directories(top: Path) -> list[str]:
    """The directories that have files: all at the top, and those in `PARTED`."""
    files = subprocess.run(["git", "ls-files", "."], cwd=top, capture_output=True, text=True, check=True).stdout.split()
    found = set()
    for parts in (Path(file).parts[:-1] for file in files):
        found.add("/".join(parts[:1]))
        if parts[:1] and parts[0] in PARTED:
            found.add("/".join(parts[:2]))
    return sorted(found - {"", *WITHIN})


def imports(path: Path, top: Path) -> Iterator[str]:
    """The modules that a file imports, and the names that it takes from them, as paths from `top`."""
    package = path.relative_to(top).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield from (f"{module}.{name.name}" for name in node.names)


def map_of(top: Path) -> Iterator[str]:
    """The mistakes in the map."""
    found = directories(top)
    page = (top / "README.rst").read_text()
    named = set(re.findall(r"``([\w/]+)``", page))
    for directory in found:
        is_module = directory.startswith("modules/") and directory.removeprefix("modules/") in named
        is_parted = directory in PARTED and any(name.startswith(f"{directory}/") for name in named)
        if directory not in named and not is_module and not is_parted:
            yield f"README.rst: no line for {directory}"
    count = sum("/" not in directory for directory in found)
    if count > MOST_DIRECTORIES:
        yield f"{count} directories side by side; at most {MOST_DIRECTORIES} may be"


def borrowed(top: Path) -> Iterator[str]:
    """The imports that must not be."""
    for path in sorted((top / "guests").rglob("*.py")):
        file = str(path.relative_to(top))
        for name in imports(path, top):
            if name.startswith(TESTS) and file != REGISTRY:
                yield f"{file}: imports {name}: what two files need stands in guests/lib"
            if name.startswith("guests") and file.startswith(ALONE):
                yield f"{file}: imports {name}, which is not there in a guest"


def numbered(top: Path) -> Iterator[str]:
    """The files of tests whose name is a number."""
    files = sorted((top / "guests/tests").glob("test_[0-9]*.py"))
    yield from (f"{path.relative_to(top)}: name it by its subject" for path in files)


def main() -> int:
    """Checks."""
    top = Path(sys.argv[1]).resolve()
    found = [*map_of(top), *borrowed(top), *numbered(top)]
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
