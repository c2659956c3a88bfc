# SPDX-License-Identifier: GPL-2.0
"""Citations of requirements: in code, unit tests, properties, and tests in guests."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from .requirements import HAZARD, ID

# The beginning of the tests in a Rust file; they stand last.
TESTS = "#[cfg(any(test"
# A test with its attributes and comments, and its body.
RUST_TEST = re.compile(
    r"((?:^[ \t]*//[^\n]*\n|^[ \t]*#\[[^\n]*\n)*)^[ \t]*#\[test\]\n(?:^[ \t]*#\[[^\n]*\n)*^[ \t]*fn (\w+)(.*?)(?=^    }\n|^}\n)",
    re.M | re.S,
)

Citations = dict[str, list[str]]


def code(top: Path) -> Citations:
    """The files whose comments name a requirement, outside of their tests."""
    found: Citations = defaultdict(list)
    for path in sorted((top / "src").rglob("*.rs")):
        body, _, _ = path.read_text().partition(TESTS)
        for name in set(ID.findall(body)):
            found[name].append(str(path.relative_to(top)))
    return found


def rust_tests(top: Path) -> Citations:
    """Unit tests, which run on the host and in the kernel, and properties."""
    found: Citations = defaultdict(list)
    units = [(path, path.read_text().partition(TESTS)[2]) for path in sorted((top / "src").rglob("*.rs"))]
    properties = [(path, path.read_text()) for path in sorted((top / "selftests/host/src").rglob("*.rs"))]
    for path, text in units + properties:
        place = path.relative_to(top / "src") if path.is_relative_to(top / "src") else Path("properties") / path.name
        for before, name, body in RUST_TEST.findall(text):
            for requirement in set(ID.findall(before + body)):
                found[requirement].append(f"{place.with_suffix('')}: {name}")
    return found


def named(node: ast.AST) -> set[str]:
    """The requirements that are constants of an expression."""
    texts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and ID.fullmatch(text)}


def guest_tests(top: Path) -> Citations:
    """Tests in guests: functions by the arguments of their decorators, tables of cases by their name."""
    found: Citations = defaultdict(list)
    for path in sorted((top / "selftests/guests/tests").glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            places: list[tuple[str, ast.AST]] = []
            if isinstance(node, ast.FunctionDef):
                places = [(node.name, decorator) for decorator in node.decorator_list]
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                places = [(node.targets[0].id, node.value)]
            for name, where in places:
                for requirement in named(where):
                    found[requirement].append(f"{path.stem}: {name}")
    return found


def unknown(top: Path, known: set[str]) -> list[str]:
    """The places that name an ID which no requirement, and no hazard, has."""
    places = []
    for path in sorted(
        [*(top / "src").rglob("*.rs"), *(top / "selftests").rglob("*.py"), *(top / "selftests").rglob("*.rs")]
    ):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            names = ID.findall(line) + HAZARD.findall(line)
            places += [f"{path.relative_to(top)}:{number}: {name}" for name in names if name not in known]
    return places
