# SPDX-License-Identifier: GPL-2.0
"""The builds of the transport that are compared, each a module: ours, the in-tree one, and others beside them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from guests.harness.guest import Guest

OURS, IN_TREE, REPAIRED, CONTROL = "ours", "in-tree", "repaired", "control"
VERSION_1, VERSION_2 = "version 1", "version 2"
MODULES = {"ours": "rpcrdma_rs", "in-tree": "rpcrdma"}


@dataclass(frozen=True)
class Build:
    """One of them. Builds whose modules have the same name are of the same family."""

    name: str
    family: str
    file: Path | None = None  # none: the module that is in the guest anyway
    parameters: str = ""

    @property
    def module(self) -> str:
        """The module's name."""
        return MODULES[self.family]

    def place(self, guest: Guest) -> None:
        """Puts the module into the guest's share."""
        if self.file is not None:
            there = guest.share / self.name
            there.mkdir()
            shutil.copy(self.file, there / f"{self.module}.ko")

    def load(self, guest: Guest, parameters: str) -> None:
        """Loads the module; its dependencies were loaded with the guest's own module."""
        parameters = f"{parameters} {self.parameters}"
        if self.file is not None:
            guest.run(f"insmod /share/{self.name}/{self.module}.ko {parameters}")
        elif self.family == "ours":
            guest.run(f"insmod /share/{self.module}.ko {parameters}")
        else:
            # Past the rule that keeps the kernel from loading it by itself.
            guest.run(f"modprobe --ignore-install {self.module}")

    def unload(self, guest: Guest) -> None:
        """Unloads it; sunrpc drops its last references from a work queue, so this may take a moment."""
        guest.run(f"until rmmod {self.module}; do sleep 0.1; done; ! grep '^{self.module} ' /proc/modules", 20)


def of_versions() -> list[Build]:
    """Ours, as clients of either version of the protocol; the first is how the guest boots."""
    return [Build(VERSION_1, "ours", parameters="version=1"), Build(VERSION_2, "ours", parameters="version=2")]


def chosen(names: list[str], repaired: Path, ours: Path, others: list[str]) -> list[Build]:
    """The builds of a run, in the order of their turns.

    `repaired` is the in-tree module that signals as few Sends as it means to; `control` is ours under another name, so any
    difference between the two is the error of the method. `others` are NAME=FILE, other builds of ours.
    """
    known = {
        OURS: Build(OURS, "ours"),
        IN_TREE: Build(IN_TREE, "in-tree"),
        REPAIRED: Build(REPAIRED, "in-tree", repaired),
        CONTROL: Build(CONTROL, "ours", ours),
    }
    for other in others:
        name, _, file = other.partition("=")
        known[name] = Build(name, "ours", Path(file))
        names = [*names, name]
    return [known[name] for name in names]
