# SPDX-License-Identifier: GPL-2.0
"""A client in user space (peer/requester.py), which sends the server any bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from guests.harness.network import SERVER
from guests.harness.pair import NFS_PORT, Pair
from guests.peer import wire

NFS, XID = 100003, 0x1001
# Sizes of 4096 bytes both ways; the client takes remote invalidation, or does not.
TAKES, REFUSES = "f6ab0e1801010303", "f6ab0e1801000303"


def null(xid: int = XID, credits: int = 32) -> bytes:
    """A call that does nothing."""
    return wire.msg(xid, credits, wire.rpc_call(xid, NFS, 3, 0))


def carried_out(pair: Pair, *orders: dict[str, object]) -> list[dict[str, object]]:
    """What the requester (peer/requester.py) in the client guest reports of these connections."""
    share = pair.client.share
    if not (share / "peer").exists():
        source = Path(__file__).parent.parent / "peer"
        shutil.copytree(source, share / "peer", ignore=shutil.ignore_patterns("__pycache__"))
    (share / "orders.json").write_text(json.dumps(orders))
    program = (
        "python3 -I -S -B -c 'import sys; sys.path.insert(0, \"/share/peer\"); import requester; requester.main()'"
    )
    done = pair.client.run(
        f"modprobe -a rdma_ucm ib_uverbs; {program} {SERVER.ipv4} {NFS_PORT} /share/orders.json", 120
    )
    return [json.loads(line) for line in done.lines]
