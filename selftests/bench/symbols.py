# SPDX-License-Identifier: GPL-2.0
"""From an address in the guest's kernel to its function, and from a function to the part of the kernel it is of."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

# The parts into which costs are divided, in the order of the tables.
PARTS = (
    "transport",
    "rpcload",
    "NFS",
    "sunrpc",
    "RDMA core",
    "rxe",
    "checksums",
    "copies",
    "network",
    "memory",
    "locks, scheduler",
    "interrupts, time",
    "system calls, files",
    "rest",
    "user space",
)

MODULES = {
    "rpcrdma": "transport",
    "rpcrdma_rs": "transport",
    "rpcload": "rpcload",
    "rpcload_echo": "rpcload",
    "rdma_rxe": "rxe",
    "siw": "rxe",
    "sunrpc": "sunrpc",
    "auth_rpcgss": "sunrpc",
    "ib_core": "RDMA core",
    "rdma_cm": "RDMA core",
    "iw_cm": "RDMA core",
    "ib_cm": "RDMA core",
    "nfs": "NFS",
    "nfsv3": "NFS",
    "nfsv4": "NFS",
    "nfs_acl": "NFS",
    "nfsd": "NFS",
    "lockd": "NFS",
    "grace": "NFS",
}

# Functions of the kernel image, by their name first and then by source directory.
NAMES = [
    (r"crc32|crc_", "checksums"),
    (r"^_*(mem(cpy|move|set)|copy_|rep_(mov|sto)|clear_page|clear_user|strn?cpy)|_copy_(to|from)_iter", "copies"),
    (r"spin_lock|spin_unlock|mutex|rwsem|down_|up_|lock_bh|rcu_read", "locks, scheduler"),
    (r"irq|softirq|tasklet|hrtimer|timer|tick|ktime|jiffies|clock|lapic|apic|rcu_", "interrupts, time"),
]
DIRECTORIES = [
    (r"^lib/(crc|crypto)|^arch/x86/lib/crc|^arch/x86/crypto|^crypto/", "checksums"),
    (r"^lib/iov_iter", "copies"),
    (r"^net/|^drivers/net/|^drivers/virtio/|^lib/(dim|checksum)", "network"),
    (r"^mm/|^arch/x86/mm/|^kernel/dma/|^lib/(xarray|radix-tree|maple_tree|scatterlist|sg_)", "memory"),
    (
        r"^kernel/(sched|locking|workqueue|kthread|smp|stop_machine)|^arch/x86/kernel/process|^lib/.*lock",
        "locks, scheduler",
    ),
    (r"^kernel/(irq|softirq|time|rcu)|^arch/x86/(entry|kernel/(irq|apic|tsc))|^arch/x86/events", "interrupts, time"),
    (r"^fs/|^io_uring|^kernel/(entry|fork|exit|signal)|^block/|^ipc/", "system calls, files"),
]


# The functions that begin a context (context.c): the software adapter with its network, the work of a connection under the
# lock that serializes its sends, its work for completions; and the functions that change and end tasks. All of the
# adapter's module belongs to the first. A server sends under no lock of sunrpc.
CONTEXTS = {
    "__common_interrupt": "adapter",
    "net_rx_action": "adapter",
    "net_tx_action": "adapter",
    "call_transmit": "send",
    "call_bc_transmit": "send",
    "svc_send": "send",
    "ib_cq_poll_work": "reply",
    "__switch_to": "switch",
    "do_exit": "exit",
}
ADAPTERS = ("rdma_rxe", "siw")
REGISTERS = "rxe_reg_fast_mr"  # the adapter's function that registers memory


@dataclass(frozen=True)
class Function:
    """A function, with the module it is in (none: the kernel image) and the part it counts to."""

    name: str
    module: str
    part: str


UNKNOWN = Function("?", "", "rest")


class Symbols:
    """The functions of the kernel image, and of the modules as they are loaded now."""

    def __init__(self, kernel: Path, image: str):
        self._objects = objects(kernel)
        self._image = self._table(image.splitlines())
        self.addresses = {function.name: address for address, function in zip(*self._image, strict=True)}
        self._modules: tuple[list[int], list[Function]] = ([], [])

    def load_modules(self, kallsyms: str) -> None:
        """Takes the functions of modules from the text of the guest's /proc/kallsyms."""
        self._modules = self._table([line for line in kallsyms.splitlines() if line.endswith("]")])

    def _table(self, lines: list[str]) -> tuple[list[int], list[Function]]:
        """Addresses, sorted, and the functions that begin there."""
        found: dict[int, Function] = {}
        rows = [line.split() for line in lines]
        names = demangled([row[2] for row in rows])
        for row, name in zip(rows, names, strict=True):
            address = int(row[0], 16)
            if row[1] not in "tTwW" or not address >> 63 or row[2].startswith(("__pfx_", "__cfi_")):
                continue
            module = row[3][1:-1] if len(row) > 3 else ""
            # Of several names for one address a name that does not look internal is the clearest.
            if address not in found or found[address].name.startswith("_"):
                found[address] = Function(name, module, self.part(name, module))
        ordered = sorted(found.items())
        return [address for address, _ in ordered], [function for _, function in ordered]

    def contexts(self) -> list[tuple[str, int]]:
        """The addresses that begin a context, by kind, and the address of the function that registers memory."""
        found, names = [], set()
        for table in (self._image, self._modules):
            for address, function in zip(*table, strict=True):
                adapter = function.module in ADAPTERS
                if kind := "adapter" if adapter else CONTEXTS.get(function.name):
                    found.append((kind, address))
                    names.add("adapter" if adapter else function.name)
                if function.name == REGISTERS:
                    found.append(("register", address))
                    names.add(REGISTERS)
        if missing := {"adapter", REGISTERS, *CONTEXTS} - names:
            raise RuntimeError(f"the guest has no function of: {', '.join(sorted(missing))}")
        return found

    def part(self, name: str, module: str) -> str:
        """The part of the kernel that a function belongs to."""
        if module:
            return MODULES.get(module, "network" if module.startswith("virtio") else "rest")
        for pattern, part in NAMES:
            if re.search(pattern, name):
                return part
        where = self._objects.get(name, "")
        return next((part for pattern, part in DIRECTORIES if re.search(pattern, where)), "rest")

    def find(self, address: int) -> tuple[Function, int]:
        """The function around an address, and the offset into it."""
        for addresses, functions in (self._modules, self._image):
            at = bisect_right(addresses, address) - 1
            # Modules lie apart from the image: an address far behind a module's last function is not in it.
            if at >= 0 and (addresses is self._image[0] or address - addresses[at] < 1 << 17):
                return functions[at], address - addresses[at]
        return UNKNOWN, -1


def objects(kernel: Path) -> dict[str, str]:
    """The object file of each function of the kernel image, by name."""
    done = subprocess.run(
        ["llvm-nm-19", "-A", "--defined-only", str(kernel / "vmlinux.a")],
        capture_output=True,
        text=True,
        check=False,
        cwd=kernel,
    )
    found = re.findall(r"^(?:\S*vmlinux\.a:)?(\S+\.o): *\w+ [tTwW] (\S+)$", done.stdout, re.M)
    return {name: where for where, name in found}


def return_sites(module: Path, callee: str) -> dict[tuple[str, int], str]:
    """The return sites of the calls of a function, as (function, offset), with the name to count each by: CALLEE<CALLER.

    A block begins at each return site, so the executions of that block are the calls of this caller.
    """
    done = subprocess.run(
        ["objdump", "-dr", "--no-show-raw-insn", str(module)], capture_output=True, text=True, check=True
    )
    sites, start, caller = {}, 0, ""
    for line in done.stdout.splitlines():
        if begin := re.match(r"([0-9a-f]{16}) <(\S+)>:$", line):
            start, caller = int(begin[1], 16), begin[2]
        elif (found := re.match(r"\s+([0-9a-f]+): R_X86_64_(?:PLT|PC)32\s+(\S+?)-0x4$", line)) and found[2] == callee:
            # The address of the operand, the last four bytes of the instruction.
            sites[caller, int(found[1], 16) + 4 - start] = f"{callee}<{caller}"
    return sites


def demangled(names: list[str]) -> list[str]:
    """Names of Rust functions as people write them; others as they are."""
    if not any(name.startswith("_R") for name in names):
        return names
    done = subprocess.run(["llvm-cxxfilt-19"], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
