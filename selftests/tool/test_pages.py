# SPDX-License-Identifier: GPL-2.0
"""Statements of the pages that can be compared with the sources."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

from guests.lib.documentation import literals, names, section

from .fake import REPO

PAGES = (
    REPO / "README.md",
    REPO / "packaging/debian/control",
    *sorted((REPO / "packaging").glob("*.[48]")),
    *sorted((REPO / "Documentation").glob("*.rst")),
)


def in_tree_events() -> set[str]:
    """The trace events of the in-tree module, from the kernel's source."""
    header = sorted(Path("/cache").glob("linux-*/include/trace/events/rpcrdma.h"))[-1]
    text = header.read_text()
    found = set(re.findall(r"^TRACE_EVENT\((\w+),", text, re.M))
    macros = r"#define (DEFINE_\w+)\(name\)\s*\\\n\s*DEFINE_EVENT\(\w+,\s*(?:\\\n\s*)?([\w#]+),"
    for macro, pattern in re.findall(macros, text):
        for argument in re.findall(rf"^{macro}\((\w+)\);", text, re.M):
            found.add(re.sub(r"\bname\b", argument, pattern.replace("##", " ")).replace(" ", ""))
    return found


class Pages(unittest.TestCase):
    """The README, the pages and the description of the package."""

    def test_events(self) -> None:
        """the reference names the trace events of the client that the in-tree module lacks"""
        in_tree = in_tree_events()
        self.assertIn("xprtrdma_mr_localinv", in_tree)
        text = section("reference.rst", "Trace events").partition("\n====")[0]
        alone = [name for name in literals(text) if name.startswith("xprtrdma_")]
        lacking = set(names("reference.rst", "Trace events")) - in_tree
        self.assertEqual(sorted(alone), sorted(name for name in lacking if name.startswith("xprtrdma_")))
        self.assertIn("svcrdma_reply", lacking)

    def test_space(self) -> None:
        """the README and `make help` name the same space on the disk"""
        found = [re.findall(r"\b(\d+) GB\b", (REPO / page).read_text()) for page in ("README.md", "Makefile")]
        self.assertEqual(found, [found[0], found[0]])
        self.assertEqual(len(found[0]), 1)

    def test_reports(self) -> None:
        """a page that asks for a report says where to"""
        for page in PAGES:
            with self.subTest(page.name):
                self.assertNotRegex(page.read_text(), r"(?i)report\s+it(?!\s+to\b)")

    def test_kernels(self) -> None:
        """no page promises kernels that nothing has been built for"""
        for page in PAGES:
            with self.subTest(page.name):
                self.assertNotRegex(page.read_text(), r"7\.3\s+or\s+later")
