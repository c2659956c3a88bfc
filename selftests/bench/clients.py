# SPDX-License-Identifier: GPL-2.0
"""The client transports that are compared, each a module: ours, the in-tree one, and others beside them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from guests.harness.pair import Pair

OURS, IN_TREE, REPAIRED, CONTROL = "ours", "in-tree", "repaired", "control"
MODULES = {"ours": "rpcrdma_rs", "in-tree": "rpcrdma"}


@dataclass(frozen=True)
class Client:
    """One of them. Clients whose modules have the same name are of the same family."""

    name: str
    family: str
    module: Path | None = None  # none: the module that is in the guest anyway

    def place(self, pair: Pair) -> None:
        """Puts the module into the client's share."""
        if self.module is not None:
            there = pair.client.share / self.name
            there.mkdir()
            shutil.copy(self.module, there / f"{MODULES[self.family]}.ko")

    def load(self, pair: Pair) -> None:
        """Loads the module; its dependencies were loaded with the guest's own module."""
        if self.module is None:
            pair.load_module()
        else:
            pair.client.run(f"insmod /share/{self.name}/{MODULES[self.family]}.ko {pair.options.module_parameters}")


def chosen(names: list[str], repaired: Path, ours: Path, others: list[str]) -> list[Client]:
    """The clients of a run, in the order of their turns.

    `repaired` is the in-tree module that signals as few Sends as it means to; `control` is ours under another name, so any
    difference between the two is the error of the method. `others` are NAME=FILE, other builds of ours.
    """
    known = {
        OURS: Client(OURS, "ours"),
        IN_TREE: Client(IN_TREE, "in-tree"),
        REPAIRED: Client(REPAIRED, "in-tree", repaired),
        CONTROL: Client(CONTROL, "ours", ours),
    }
    for other in others:
        name, _, file = other.partition("=")
        known[name] = Client(name, "ours", Path(file))
        names = [*names, name]
    return [known[name] for name in names]
