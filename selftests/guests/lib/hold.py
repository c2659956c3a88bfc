# SPDX-License-Identifier: GPL-2.0
"""Drives selftests/modules/hold: reverse calls of the client's transport are held up on their way to the service, and
checks of verifiers fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.config import REPO
from guests.harness.pair import Pair

MODULE = "hold"
FILES = f"/sys/module/{MODULE}/parameters"


def count(pair: Pair, name: str) -> int:
    """The module's count of held calls."""
    return int(pair.client.run(f"cat {FILES}/{name}").out)


def fail_verifier(pair: Pair) -> None:
    """Has the next check of a verifier of RPCSEC_GSS fail; the count of these is 0 then."""
    pair.client.run(f"echo 1 >{FILES}/verifier")


@contextmanager
def holding(pair: Pair) -> Iterator[None]:
    """Has reverse calls held inside the block. After a failure nothing is tidied: the guests are dropped."""
    path = REPO / "out" / pair.options.variant / MODULE / f"{MODULE}.ko"
    assert path.exists(), f"{path} is not there: run selftests/setup/build.sh {pair.options.variant}"
    pair.client.run(f"insmod {pair.send(pair.client, path)}")
    yield
    pair.client.run(f"rmmod {MODULE}")
