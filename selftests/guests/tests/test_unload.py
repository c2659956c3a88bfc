# SPDX-License-Identifier: GPL-2.0
"""Nothing is left behind: many mounts, then an unload, over and over."""

import itertools

from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, Pair
from guests.harness.registry import test
from guests.lib import resources

MOUNTS = 50
# The difference that rounds of the same work may have for other reasons (per-CPU caches, slab pages half full).
SLACK = {"slab": 512, "pages": 2048}  # KiB


@test("fifty uses with I/O, then rmmod, in rounds", "H-85", limit=600)
def rounds(pair: Pair) -> None:
    """RDMA objects, slab and pages are back where they were after each round; the first one warms caches up."""
    mounts = pair.options.scaled(MOUNTS, 5)
    idle = resources.rdma(pair.client)
    script = f"""
    i=0
    while [ $i -lt {mounts} ]; do
        i=$((i + 1))
        if [ $((i % 2)) = 0 ]; then vers=3,nolock path=/export; else vers=4.2 path=/; fi
        mount -t nfs -o vers=$vers,proto=rdma {SERVER.ipv4}:$path {MOUNT_POINT}
        head -c 100000 /dev/zero >{MOUNT_POINT}/life
        cat {MOUNT_POINT}/life | wc -c | grep -qx 100000
        rm {MOUNT_POINT}/life
        umount {MOUNT_POINT}
    done
    """
    seen = []
    for number in range(1 + max(1, pair.options.rounds)):
        pair.client.run(script if number else script.replace(f"-lt {mounts}", "-lt 6"), 3 * mounts)
        pair.unload_module()
        left = resources.rdma(pair.client)
        assert left == idle, f"round {number}: RDMA objects {left}, before any mount {idle}"
        seen.append(resources.memory(pair.client))
        pair.load_module()
    if pair.options.debug:
        # KASAN keeps freed memory for a while, so that the figures mean nothing there; kmemleak looks instead.
        return
    for kind, slack in SLACK.items():
        growth = [after[kind] - before[kind] for before, after in itertools.pairwise(seen)]
        assert min(growth) <= slack, f"{kind} grew by {growth} KiB in rounds of {mounts} mounts"


@test("unload and load while idle", "H-85", limit=60, core=True)
def reload(pair: Pair) -> None:
    """The class leaves sunrpc and comes again, ten times."""
    for _ in range(pair.options.scaled(10, 3)):
        pair.unload_module()
        pair.load_module()
    assert resources.module_use(pair.client, pair.module) == 0
    pair.mount("4.2")
    assert (resources.module_use(pair.client, pair.module) or 0) > 0
    pair.umount()
