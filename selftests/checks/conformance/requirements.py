# SPDX-License-Identifier: GPL-2.0
"""The requirements, as Documentation/requirements.rst has them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path("Documentation/requirements.rst")
ID = re.compile(r"(?<!TV-)\b(?:PD|V1|BI|V2|XC)-\d+\b")
HAZARDS = Path("Documentation/hazards.rst")
HAZARD = re.compile(r"\bH-\d+\b")
ENTRY = re.compile(r"^((?:PD|V1|BI|V2|XC)-\d+) \(([A-Z* ]+), ([^;]+); (.+)\)\n((?:    .*\n)+)", re.M)


@dataclass(frozen=True)
class Requirement:
    """One requirement."""

    name: str
    level: str
    who: str
    source: str
    text: str

    @property
    def family(self) -> str:
        """PD, V1, BI, V2 or XC."""
        return self.name.partition("-")[0]


def hazards(top: Path) -> set[str]:
    """The IDs of the hazards."""
    return set(re.findall(r"^(H-\d+)$", (top / HAZARDS).read_text(), re.M))


def load(top: Path) -> dict[str, Requirement]:
    """All of them, by their IDs, in the order of the page."""
    page = (top / PAGE).read_text()
    found = {match[1]: Requirement(*match.groups()[:4], " ".join(match[5].split())) for match in ENTRY.finditer(page)}
    headed = re.findall(r"^((?:PD|V1|BI|V2|XC)-\d+) \(", page, re.M)
    if len(found) != len(headed) or len(headed) != len(set(headed)):
        raise SystemExit(f"error: {PAGE}: entries that cannot be read, or twice: {set(headed) ^ set(found)}")
    return found
