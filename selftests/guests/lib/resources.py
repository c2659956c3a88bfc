# SPDX-License-Identifier: GPL-2.0
"""Counts a guest's RDMA objects and memory, to compare before and after."""

from __future__ import annotations

import re

from guests.harness.config import Options
from guests.harness.guest import Guest

RDMA_KINDS = ("qp", "cq", "pd", "mr", "cm_id")
PAGE_KIB = 4


def rdma(guest: Guest) -> dict[str, int]:
    """RDMA objects of all devices by kind."""
    text = guest.run("rdma resource show").out
    return {kind: sum(int(n) for n in re.findall(rf"\b{kind} (\d+)", text)) for kind in RDMA_KINDS}


def memory(guest: Guest) -> dict[str, int]:
    """KiB that no reclaim gives back: unreclaimable slab and pages that are neither free, nor cache, nor slab.

    Each processor keeps lists of free pages, longer the more it allocates, which MemFree does not count.
    """
    script = "sync; for i in 1 2 3; do echo 3 >/proc/sys/vm/drop_caches; done; cat /proc/meminfo /proc/zoneinfo"
    text = guest.run(script).out
    values = {name: int(kib) for name, kib in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
    known = sum(values.get(name, 0) for name in ("MemFree", "Cached", "Buffers", "Slab", "AnonPages", "PageTables"))
    lists = PAGE_KIB * sum(int(pages) for pages in re.findall(r"^ +count: +(\d+)$", text, re.M))
    return {"slab": values["SUnreclaim"], "pages": values["MemTotal"] - known - lists}


def noise(options: Options) -> int:
    """KiB by which the memory of a guest may differ, although nothing is lost: KASAN keeps freed objects for a while."""
    return 4096 if options.debug else 1024


def module_use(guest: Guest, module: str) -> int | None:
    """The number of references to the module; None if it is not loaded."""
    found = re.search(rf"^{module} \d+ (-?\d+) ", guest.run("cat /proc/modules").out, re.M)
    return int(found[1]) if found else None
