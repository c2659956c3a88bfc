#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that rooms of the module use only rooms below them (Documentation/architecture.rst).

Usage: arrows.py SRC. A file uses the paths of its `use` items and paths that begin with `crate`, tests left out; of
names that are passed on, the origin counts. No files may use each other in a circle, but a file and those of its
directory. A version of the protocol is named in `proto` alone, by its own files and by `wire`, the door.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# The rooms that each room may use besides itself. `proto` is for all, and uses nothing.
BELOW = {
    "bindings": set(),
    "proto": set(),
    "os": {"bindings"},
    "trace": {"bindings"},
    "verbs": {"bindings", "os"},
    "cm": {"bindings", "os", "verbs"},
    "sunrpc": {"bindings", "os", "proto"},
    "policy": {"bindings", "os", "proto"},
    "view": {"os", "policy", "proto"},
    "link": {"cm", "os", "proto", "verbs"},
    "client": {"cm", "link", "os", "policy", "proto", "sunrpc", "trace", "verbs", "view"},
    "server": {"cm", "link", "os", "policy", "proto", "sunrpc", "trace", "verbs", "view"},
    "config": {"client", "os", "policy", "proto", "server"},
}
MAIN = "rpcrdma_rs_main"

# The versions of the protocol, and the files that may name both.
VERSIONS = {("proto", "v1"), ("proto", "v2")}
DOORS = {("proto",), ("proto", "wire")}

USE = re.compile(r"^\s*(pub(?:\([^)]*\))? )?use ([^;]+);", re.M)

# The origins of the names that a module passes on (`pub use`).
Passed = dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]]


def paths(tree: str, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of a tree of `use`, without their local names."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    names = tuple(name for name in re.sub(r"\s+as \w+$", "", head.strip()).split("::") if name)
    if not brace:
        yield before + names
        return
    depth, start = 0, 0
    inner = rest[: rest.rindex("}")]
    for at, letter in enumerate(inner + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if inner[start:at].strip():
                yield from paths(inner[start:at], before + names)
            start = at + 1


def module_of(path: Path, src: Path) -> tuple[str, ...]:
    """The path of a file's module in the crate; nothing for the main file."""
    parts = path.relative_to(src).with_suffix("").parts
    return () if parts == (MAIN,) else parts


def code_of(path: Path) -> str:
    """The text of a file without comments and tests."""
    text = re.sub(r"//.*", "", path.read_text())
    return re.split(r"#\[cfg\((?:any\(test, )?CONFIG_KUNIT|#\[cfg\(test\)\]", text)[0]


def uses(path: Path, module: tuple[str, ...]) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """The names that a file uses, as paths from the root of the crate, each with whether it passes that on."""
    text = code_of(path)
    for found in re.findall(r"\bcrate::([\w:]+)", USE.sub("", text)):
        yield False, tuple(found.split("::"))
    for public, item in USE.findall(text):
        for found in paths(item):
            if found[0] == "crate":
                yield bool(public), found[1:]
            elif found[0] in ("self", "super"):
                up = 0
                while found[up : up + 1] == ("super",):
                    up += 1
                yield bool(public), module[: len(module) - up] + found[max(up, found[0] == "self") :]
            elif path.with_suffix("").joinpath(found[0] + ".rs").exists():
                yield bool(public), module + found


def home(used: tuple[str, ...], modules: dict[tuple[str, ...], Path], passed: Passed) -> tuple[str, ...]:
    """The module that a path leads into: its longest beginning that is one, or the origin of the name that follows."""
    at = used
    while at not in modules:
        at = at[:-1]
    further = passed.get((at, used[len(at) : len(at) + 1]))
    return home(further, modules, passed) if further and at != used else at


def circles(arrows: dict[tuple[str, ...], set[tuple[str, ...]]]) -> list[list[tuple[str, ...]]]:
    """The groups of modules each of which reaches all others of its group."""

    def reached(start: tuple[str, ...]) -> set[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        left = [start]
        while left:
            for target in arrows[left.pop()] - found:
                found.add(target)
                left.append(target)
        return found

    reach = {module: reached(module) for module in arrows}
    groups = {frozenset(other for other in reach[module] if module in reach[other]) for module in arrows}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def main() -> int:
    """Checks."""
    src = Path(sys.argv[1])
    files = [path for path in sorted(src.rglob("*.rs")) if not path.name.startswith("bindings_")]
    modules = {module_of(path, src): path for path in files}
    arrows: dict[tuple[str, ...], set[tuple[str, ...]]] = {module: set() for module in modules}
    used_by = {module: list(uses(path, module)) for module, path in modules.items()}
    passed = {(module, used[-1:]): used for module in modules for public, used in used_by[module] if public}
    bad = 0
    for module, path in modules.items():
        if module[:1] != ("proto",) and re.search(r"\bv[12]::", code_of(path)):
            print(f"{path.relative_to(src)}: names a version of the protocol")
            bad = 1
        for _, used in used_by[module]:
            target = home(used, modules, passed)
            # A room's own file names the files of the room, and may be named by them.
            if target != module and target != module[: len(target)] and module != target[: len(module)]:
                arrows[module].add(target)
            version = target[:2] if target[:2] in VERSIONS else None
            may = module in DOORS or module[:2] == version
            if version and not may:
                print(f"{path.relative_to(src)}: {'::'.join(used)} is of a version, which proto::wire alone may name")
                bad = 1
            room, other = module[:1], target[:1]
            # Modules inside the file of the bindings name each other.
            is_inner = not other and room == ("bindings",)
            if room and room != other and not is_inner and not (other and other[0] in BELOW[room[0]]):
                print(f"{path.relative_to(src)}: {'::'.join(used)} is in a room that is not below {room[0]}")
                bad = 1
    for circle in circles(arrows):
        print(f"a circle of {len(circle)} files: {', '.join('::'.join(module) for module in circle)}")
        bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
