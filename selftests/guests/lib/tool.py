# SPDX-License-Identifier: GPL-2.0
"""The command rpcrdma in the client."""

from __future__ import annotations

import shutil

from guests.harness.config import REPO
from guests.harness.pair import Pair

TOOL = REPO / "tools/rpcrdma"


def tool(pair: Pair, words: str, check: bool = True) -> str:
    """The output of the tool in the client."""
    path = pair.client.share / "rpcrdma"
    if not path.exists():
        shutil.copy(TOOL, path)
    done = pair.client.run(f"python3 -I -S /share/rpcrdma {words}", 60, check=check)
    return done.out
