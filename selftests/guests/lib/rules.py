# SPDX-License-Identifier: GPL-2.0
"""Rules for single peers: directories in a guest's configfs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.channel import Result
from guests.harness.guest import Guest

ROOT = "/sys/kernel/config/rpcrdma_rs"


class Rule:
    """A rule that is there."""

    def __init__(self, guest: Guest, name: str):
        self.guest = guest
        self.directory = f"{ROOT}/{name}"

    def try_to_set(self, attribute: str, value: object) -> Result:
        """Writes an attribute, which may be refused."""
        return self.guest.run(f"echo '{value}' >{self.directory}/{attribute}", check=False)

    def set(self, **values: object) -> None:
        """Writes attributes."""
        self.guest.run("\n".join(f"echo '{value}' >{self.directory}/{key}" for key, value in values.items()))

    def get(self, attribute: str) -> str:
        """Reads an attribute."""
        return self.guest.run(f"cat {self.directory}/{attribute}").out.strip()

    def reconnect(self) -> None:
        """Ends the connections that the rule is for."""
        self.set(reconnect=1)


@contextmanager
def rule(guest: Guest, name: str, **values: object) -> Iterator[Rule]:
    """A rule for the block. If the block fails, the guests are dropped anyway."""
    guest.run(f"mkdir {ROOT}/{name}")
    made = Rule(guest, name)
    if values:
        made.set(**values)
    yield made
    guest.run(f"rmdir {ROOT}/{name}")
