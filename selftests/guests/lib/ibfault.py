# SPDX-License-Identifier: GPL-2.0
"""Drives selftests/modules/ibfault: the RDMA device of a guest becomes a small one, or refuses chosen requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.config import REPO
from guests.harness.guest import Guest
from guests.harness.pair import Pair

MODULE = "ibfault"
FILES = f"/sys/module/{MODULE}/parameters"


class Faults:
    """The device, which can be told to refuse."""

    def __init__(self, guest: Guest):
        self._guest = guest

    def refuse(self, what: str, when: str = "1") -> None:
        """Has a call refused: `when` is its number from now on and, of a chain, how many requests go through; "always" is
        for all calls, until "0" is given."""
        self._guest.run(f"echo {when} >{FILES}/{what}")

    def refused(self, what: str) -> int:
        """The number of calls that have been refused."""
        return int(self._guest.run(f"cat {FILES}/{what}").out)

    def hold_invalidations(self, hold: bool) -> None:
        """Keeps local invalidations back from now on, or posts the ones kept back."""
        self._guest.run(f"echo {hold:d} >{FILES}/hold_local_inv")

    def keep_queue_pairs(self, keep: bool) -> None:
        """Has moves to the error state refused from now on, or not."""
        self._guest.run(f"echo {keep:d} >{FILES}/keep_qp")

    def kept_queue_pairs(self) -> int:
        """The number of moves to the error state that were refused."""
        return int(self._guest.run(f"cat {FILES}/keep_qp").out)

    def held_invalidations(self) -> int:
        """The number of chains of local invalidations that are kept back."""
        return int(self._guest.run(f"cat {FILES}/hold_local_inv").out)


@contextmanager
def faults(pair: Pair, parameters: str = "", guest: Guest | None = None) -> Iterator[Faults]:
    """A lesser device for the block, of the client without another guest, unused before and after that.

    After a failure the guests are dropped anyway.
    """
    guest = guest or pair.client
    path = REPO / "out" / pair.options.variant / MODULE / f"{MODULE}.ko"
    assert path.exists(), f"{path} is not there: run selftests/setup/build.sh {pair.options.variant}"
    guest.run(f"insmod {pair.send(guest, path)} {parameters}")
    yield Faults(guest)
    guest.run(f"rmmod {MODULE}")
