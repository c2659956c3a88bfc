# SPDX-License-Identifier: GPL-2.0
"""The settings of a run: kernel, device, client module, amount of data, time limits."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path("/repo")
GUEST_ROOT = Path("/guestroot")
OUR_MODULE = "out/{variant}/rpcrdma_rs.ko"


@dataclass
class Options:
    """The choices of one run."""

    variant: str = field(
        default_factory=lambda: os.environ["RPCRDMA_VARIANT"]
    )  # stock, test, debug, native or native-debug
    # The kernel of the server guest: never a debug kernel, unless our module is in it.
    server_variant: str = field(default_factory=lambda: os.environ["RPCRDMA_SERVER_VARIANT"])
    client: str = "ours"  # ours or in-tree
    server: str = "in-tree"  # likewise
    device: str = "rxe"  # rxe or siw
    small: bool = False
    rounds: int = 2
    patience: int = 0
    resume: bool = False  # leave out tests that have passed before
    until: float = math.inf  # seconds since the epoch; no test begins later
    share: Path | None = None  # the file by which several runs share the tests
    first_failure: bool = False  # and none after one has failed
    stretch: float | None = None  # the factor on all time limits; by default the kernel's
    smp: int = 2
    memory: int = 1280  # MiB per guest
    processor: int | None = None  # of this machine, which the guest stays on
    accel: str = "tcg"  # or kvm, or native: no virtual machine, but a process
    emulator: str = "tcg,thread=multi"  # QEMU's -accel where it emulates
    # Its -cpu then. With five levels of page tables, booting the debug kernel sometimes met a wild access in KASAN.
    cpu: str = "max,la57=off"
    qemu: tuple[str, ...] = ()  # more arguments for QEMU
    kernel_parameters: str = ""  # more of them
    client_guest: dict[str, object] = field(default_factory=dict)  # options that the client guest has otherwise
    server_guest: dict[str, object] = field(default_factory=dict)  # and the server guest
    module: Path = field(default_factory=lambda: REPO / OUR_MODULE.format(variant=os.environ["RPCRDMA_VARIANT"]))
    module_parameters: str = ""
    logs: Path | None = None
    tap: Path | None = None  # results in the kernel's test format
    work: Path = Path("/tmp/harness")
    kernel: Path = field(default_factory=lambda: Path(os.environ["RPCRDMA_KERNEL"]))
    linux: Path = field(default_factory=lambda: Path(os.environ["RPCRDMA_LINUX"]))

    def fit(self) -> None:
        """Gives the guests the kernels of the run, and their memory."""
        if self.server_variant != self.variant:
            # The module under test is in the client; a server that is looked at as closely only makes it wait.
            self.server_guest = {"kernel": Path(os.environ["RPCRDMA_SERVER_KERNEL"]), "memory": self.memory}
        if self.debug:
            self.memory *= 2

    @property
    def slowness(self) -> float:
        """The factor that stretches the time limits.

        The limits are written for an idle machine and are there to end hangs; a machine that shares its processors
        with others has been seen to take five times as long.
        """
        return self.stretch or (15.0 if self.debug else 6.0)

    @property
    def native(self) -> bool:
        """Whether the guests are processes of this machine."""
        return self.variant.startswith("native")

    @property
    def debug(self) -> bool:
        """Whether the client's kernel looks for bugs, which takes time and memory."""
        return self.variant.endswith("debug")

    def scaled(self, amount: int, least: int = 1) -> int:
        """An amount of data, or about a tenth of it with --small."""
        return max(least, amount // 10) if self.small else amount

    @property
    def image(self) -> Path:
        """The kernel to boot."""
        return self.kernel / ("linux" if self.native else "arch/x86/boot/bzImage")

    @property
    def initrd(self) -> Path | None:
        """The initial file system of a kernel that cannot reach its root by itself."""
        initrd = self.kernel / "initrd"
        return initrd if initrd.exists() else None

    @property
    def modules(self) -> Path:
        """The directory that holds lib/modules."""
        return self.kernel / "install"


def guest_variables(options: Options) -> dict[str, str]:
    """Variables for every guest's scripts."""
    return {"DEVICE": options.device, "RDMA_DEVICE": f"{options.device}0"}
