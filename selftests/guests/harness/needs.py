# SPDX-License-Identifier: GPL-2.0
"""What tests need that not every kernel has: a test names it once, and is skipped elsewhere."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from .config import Options


@dataclass(frozen=True)
class Need:
    """Something that some of the kernels have."""

    text: str
    kernels: frozenset[str]
    of_server: bool = False  # it is the server's kernel that must have it


NEEDS = {
    "kprobes": Need("kprobes, by which selftests/modules/hold stops tasks", frozenset({"stock", "debug"})),
    "dma": Need("DMA operations of single devices, which selftests/modules/realdma replaces", frozenset({"stock"})),
    "disk": Need(
        "a server with a disk, which keeps its files when the power is cut", frozenset({"stock"}), of_server=True
    ),
    "lockdown": Need("lockdown", frozenset({"stock"})),
    "memory control": Need("the memory controller of control groups", frozenset({"stock", "native"})),
    "lost sends": Need("sunrpc's fault injection", frozenset({"debug", "native"})),
    # Without the filter all allocations of the guest would fail, not the module's.
    "lost memory": Need("failing allocations by caller", frozenset({"debug", "native"})),
}


@functools.cache
def _has_module(modules: Path, name: str) -> bool:
    return any(modules.rglob(f"{name}.ko*"))


def lacks_device(device: str, options: Options) -> str:
    """What the kernel of this run lacks of an RDMA device, or nothing. Distributions need not build each driver."""
    driver = {"rxe": "rdma_rxe"}.get(device, device)
    return "" if _has_module(options.modules, driver) else f"needs {driver}: the {options.variant} kernel lacks that"


def missing(needs: tuple[str, ...], options: Options) -> str:
    """What the kernels of this run lack of these, or nothing."""
    for need in (NEEDS[name] for name in needs):
        kernel = options.server_variant if need.of_server else options.variant
        # What looks for bugs natively lacks what native kernels lack.
        if kernel.removesuffix("-debug") not in need.kernels:
            return f"needs {need.text}: the {options.variant} kernel lacks that"
    return ""


def lacking_natively(needs: tuple[str, ...]) -> bool:
    """Returns `True` if native guests lack one of these."""
    return any("native" not in NEEDS[name].kernels for name in needs)
