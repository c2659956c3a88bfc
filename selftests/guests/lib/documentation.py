# SPDX-License-Identifier: GPL-2.0
"""The tables of the documentation, for tests that compare them with the module."""

from __future__ import annotations

import re
from dataclasses import dataclass

from guests.harness.config import REPO

DOCUMENTATION = REPO / "Documentation"


@dataclass
class Row:
    """A row of a table: the text of its cells, each on one line."""

    cells: list[str]

    @property
    def names(self) -> list[str]:
        """The literals in the first cell."""
        return literals(self.cells[0])


def literals(text: str) -> list[str]:
    """The texts between double backquotes."""
    return [" ".join(found.split()) for found in re.findall(r"``(.+?)``", text)]


def section(page: str, title: str) -> str:
    """The text of a section, up to the next title of any level."""
    text = (DOCUMENTATION / page).read_text()
    found = re.search(
        rf"^{re.escape(title)}\n([=-])\1+\n(.*?)(?=^[^\n ]+[^\n]*\n([=-])\3\3\3+\n|\Z)", text, re.M | re.S
    )
    assert found, f"{page} has no section '{title}'"
    return found[2]


def table(page: str, title: str) -> list[Row]:
    """The rows of the simple table in a section."""
    lines = section(page, title).splitlines()
    borders = [number for number, line in enumerate(lines) if re.fullmatch(r"=+( +=+)+", line)]
    assert len(borders) == 3, f"{page}: '{title}' has no table with a head"
    columns = [match.span() for match in re.finditer(r"=+", lines[borders[0]])]
    rows: list[Row] = []
    for line in lines[borders[1] + 1 : borders[2]]:
        # The last column may be longer than its border.
        ends = [end for _, end in columns[:-1]] + [None]
        cells = [line[start:end].strip() for (start, _), end in zip(columns, ends)]
        if cells[0]:
            rows.append(Row(cells))
        else:
            rows[-1].cells = [" ".join(f"{old} {more}".split()) for old, more in zip(rows[-1].cells, cells)]
    return rows


def names(page: str, title: str) -> list[str]:
    """The names that the table of a section is about, in their order."""
    return [name for row in table(page, title) for name in row.names]


def list_table(page: str, title: str) -> list[Row]:
    """The rows of the list-table in a section, without its head."""
    body = section(page, title)
    rows = re.split(r"^   \* - ", body, flags=re.M)[2:]
    return [Row([" ".join(cell.split()) for cell in re.split(r"^     - ", row, flags=re.M)]) for row in rows]
