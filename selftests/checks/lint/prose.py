#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures indirect words per 1,000 words of prose, by room.

Usage: prose.py [--lines [ROOM]]. Prose is the comments of Rust and C, the docstrings and comments of Python, the comments
of shell, README.md and Documentation, without code, literal blocks, quotations and generated parts. Fails if a room is
above LIMIT. --lines prints the lines that have such words, the worst first.
"""

from __future__ import annotations

import ast
import io
import math
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

# For 1,000 words. The prose of the kernel's Rust code has 1 to 4.
LIMIT = 5

# The words of a sentence that goes around its subject, each group with what to write instead.
INDIRECT = {
    r"those|that of|another one|the ones?(?= (?:that|which|who|whose|of|in|on|with|for|from|to|is|was)\b|[,.;:)])": "the noun",
    r"(?:of|by|to|from|in|with|for|on) which": "two sentences, or the verb first",
    r"any ?more": "no longer, or the new state",
    r"says|tells|asks": "names, returns, requests, or the function that is called",
    r"there (?:is|are|was|were)": "the subject first",
    r"goes|go on": "the action: is sent, is freed, continues",
    r"meanwhile|at once|anew": "while it does X, immediately, again",
    r"whoever|whatever": "the thread, task or value by its name",
}
WORDS = re.compile(r"\b(?:" + "|".join(INDIRECT) + r")\b", re.I)

GENERATED = "Documentation/conformance.rst"
CODE = re.compile(r"``[^`]+``|`[^`]+`|\"[^\"]*\"|https?://\S+")
Line = tuple[int, str]


def comments(text: str) -> Iterator[Line]:
    """The comments of Rust and C, without the examples in them."""
    is_code = is_block = False
    for at, line in enumerate(text.splitlines(), 1):
        found = re.match(r"(?:.*\s|)//[/!]?\s?(.*)", line)
        if not found and (is_block or "/*" in line):
            found = re.match(r"(?:.*/\*+|\s*\*)?\s?(.*)", line)
            is_block = "*/" not in line
        prose = found[1].removesuffix("*/") if found else ""
        is_code ^= prose.strip().startswith("```")
        if prose and not is_code and "SPDX" not in prose:
            yield at, prose


def python(text: str) -> Iterator[Line]:
    """The docstrings and comments of Python. The docstring of a unit test is its name."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        is_test = isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) and not is_test:
            yield from enumerate(node.body[0].value.value.splitlines(), node.body[0].lineno)


def shell(text: str) -> Iterator[Line]:
    """The lines of a shell script that are comments."""
    yield from ((at, line) for at, line in enumerate(text.splitlines(), 1) if re.match(r"\s*#(?!!)", line))


def page(text: str) -> Iterator[Line]:
    """A page without literal and line blocks, directives and rulers."""
    block = None
    for at, line in enumerate(text.splitlines(), 1):
        indent = len(line) - len(line.lstrip())
        block = None if line.strip() and indent <= (block or 0) else block
        if block is None and line.strip():
            if not re.match(r"\s*(?:[|]|\.\. |:[\w-]+:|[-=~]{3})", line):
                yield at, line
            if line.endswith("::") and not line.startswith(".. "):
                block = indent


READERS = {".rs": comments, ".c": comments, ".h": comments, ".py": python, ".sh": shell, ".rst": page, ".md": page}


def main() -> int:
    """Measures."""
    words: dict[str, int] = {}
    found: dict[str, list[tuple[int, str, str]]] = {}
    files = [path for top in ("src", "include", "selftests", "Documentation") for path in sorted(Path(top).rglob("*"))]
    for path in [Path("README.md"), *files]:
        if path.suffix not in READERS or str(path) == GENERATED or path.name.startswith("bindings_"):
            continue
        room = str(path if path.suffix == ".rst" else Path(*path.parts[:2]).with_suffix(""))
        for at, line in READERS[path.suffix](path.read_text()):
            prose = CODE.sub("X", line)
            words[room] = words.get(room, 0) + len(re.findall(r"[A-Za-z][\w'-]*", prose))
            if hits := len(WORDS.findall(prose)):
                found.setdefault(room, []).append((hits, f"{path}:{at}", line.strip()))
    bad = False
    for room in sorted(words):
        hits = sum(line[0] for line in found.get(room, []))
        is_above = hits > math.ceil(LIMIT * words[room] / 1000)
        bad |= is_above
        ratio = 1000 * hits / words[room]
        print(f"{ratio:5.1f}{' !' if is_above else '  '} {words[room]:6} words  {room}")
        if "--lines" in sys.argv and sys.argv[-1] in ("--lines", room):
            for _, where, line in sorted(found.get(room, []), key=lambda line: -line[0]):
                print(f"    {where}: {line}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
