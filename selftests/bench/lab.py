# SPDX-License-Identifier: GPL-2.0
"""The two guests of a comparison: one server, and a client that changes from one transport to the other and back."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from guests.harness.config import REPO, Options
from guests.harness.guest import Guest
from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, Pair
from guests.lib import corpus, rpcload
from guests.lib.rules import ROOT

from . import rows
from .clients import Client
from .counter import Counting, Tally
from .listing import Listing
from .lockstep import Lockstep
from .symbols import Symbols, return_sites

BUILT = REPO / "out/bench"
LOAD = "/tmp/load"
FILES = 2000

SERVER_DATA = """
cd /export
head -c 64M /dev/urandom >data
mkdir many
cd many
seq -f file-%05g 3000 | xargs touch
"""

# Rules of networks and ports of other servers, as many as the count.
MAKE_RULES = """
cd {root}
mkdir $(seq -f other-%g {count})
for number in $(seq {count}); do
    echo 198.18.$((number / 250)).$((number % 250)) >other-$number/peer
    [ $((number % 2)) = 0 ] || echo $number >other-$number/port
done
"""

# The size limits of messages without chunks, under the same names for both clients.
INLINE = "for way in read write; do echo {size} >/proc/sys/sunrpc/rdma_max_inline_$way; done"
SERVER_INLINE = "echo {size} >/proc/sys/sunrpc/svc_rdma/max_req_size"
DEFAULT_INLINE = 4096

DELAY = "modprobe sch_netem; tc qdisc replace dev eth0 root netem delay {delay}us limit 10000"

# Files that are only read belong in the client's memory, where reading costs no network. A thread that feeds the random number
# generator runs often in a guest's first minutes. The entry of a neighbour expires, and each frame to it is dearer then.
CLIENT_DATA = """
ip neigh replace {server.ipv4} lladdr {server.mac} nud permanent dev eth0
echo none >/sys/class/misc/hw_random/rng_current || true
cp /share/load {load}
mkdir {tree}
cd {tree}
tar -xf /share/tree.tar
find . -type f >{files}
find . -type d >{directories}
"""


class BenchOptions(Options):
    """Options whose time limits only end a hang: a counting guest on a busy machine is slow."""

    slowness = 20.0


class Lab:
    """A started pair of guests."""

    def __init__(self, options: Options, clients: list[Client], counting: Counting | None = None):
        self.clients = clients
        self.counting = counting
        self.lockstep: Lockstep | None = None
        self.pair = Pair(options)
        self.client = self.pair.client
        self.server = self.pair.server
        shutil.copy(BUILT / "load", self.client.share / "load")
        self._current = self.clients[0]
        self._listings: dict[str, Listing] = {}
        for client in clients:
            client.place(self.pair)
        modules = rpcload.modules(options)
        shutil.copy(modules[rpcload.CLIENT], self.client.share)
        shutil.copy(modules[rpcload.SERVICE], self.server.share)
        self._pack_tree()

    def _pack_tree(self) -> None:
        """The first files of a source tree, as an archive in the client's share."""
        listing = corpus.make(self.pair.options, corpus.LARGE, "bench").archive.with_suffix(".list")
        listing.write_text("\n".join(listing.read_text().splitlines()[:FILES]) + "\n")
        archive = self.client.share / "tree.tar"
        subprocess.run(["tar", "-C", self.pair.options.linux, "-cf", archive, "-T", listing], check=True)

    def start(self) -> None:
        """Boots both guests and makes their data."""
        self.pair.start()
        self.server.run(SERVER_DATA + "insmod /share/rpcload_echo.ko", 120)
        self.client.run(
            CLIENT_DATA.format(
                server=SERVER, load=LOAD, tree=rows.TREE, files=rows.FILES, directories=rows.DIRECTORIES
            ),
            120,
        )
        if self.counting:
            self.lockstep = Lockstep(self.client, self.server)

    def stop(self) -> None:
        """Ends both guests."""
        self.pair.stop()

    def turns(self, visit: int) -> list[Client]:
        """The clients in the order of a visit, A B B A: a drift in the course of a run hits all of them."""
        return self.clients if visit % 2 == 0 else self.clients[::-1]

    def use(self, client: Client) -> None:
        """Changes the client's transport; nothing may be mounted."""
        if client != self._current:
            self.pair.unload_module()
            self.pair.options = replace(self.pair.options, client=client.family)
            client.load(self.pair)
            self._current = client

    @contextmanager
    def setting(self, setting: rows.Setting) -> Iterator[None]:
        """Mounts, or opens an RPC client, for the time of the block. After a failure the guests go anyway."""
        if setting.inline:
            self._inline(setting.inline)
        if setting.delay:
            for guest in self.pair.guests:
                guest.run(DELAY.format(delay=setting.delay // 2))
        # Builds of ours that are older than rules have no place for them.
        ruled = setting.rules and self.client.run(f"[ -d {ROOT} ]", check=False).rc == 0
        if ruled:
            self.client.run(MAKE_RULES.format(root=ROOT, count=setting.rules), 120)
        if setting.program:
            self.client.run(f"insmod /share/rpcload.ko; echo '{setting.client}' >{rows.CONTROL}", 60)
        else:
            self.pair.mount(setting.vers, setting.options)
        self._note_modules()
        yield
        if setting.program:
            self.client.run(f"echo close >{rows.CONTROL}; rmmod rpcload", 60)
        else:
            self.client.run(f"rm -rf {rows.COPY} {rows.OUT}; umount {MOUNT_POINT}", 300)
        if ruled:
            self.client.run(f"rmdir {ROOT}/other-*", 120)
        if setting.delay:
            for guest in self.pair.guests:
                guest.run("tc qdisc del dev eth0 root")
        if setting.inline:
            self._inline(DEFAULT_INLINE)

    def _inline(self, size: int) -> None:
        """Sets the inline sizes of both sides, for connections from then on."""
        self.client.run(INLINE.format(size=size))
        self.server.run(SERVER_INLINE.format(size=size))

    def _note_modules(self) -> None:
        """Modules land at other addresses each time they are loaded."""
        if self.counting:
            self.client.run("grep -F '[' /proc/kallsyms >/share/kallsyms")
            self.counting.symbols.load_modules((self.client.share / "kallsyms").read_text())
            self.counting.follow()
            self.counting.transport = self._listing(self._current)
            self.counting.take()

    def _listing(self, client: Client) -> Listing:
        """The instructions of a client's module."""
        if client.name not in self._listings:
            options = self.pair.options
            ours = options.module if client.family == "ours" else next(options.modules.rglob("rpcrdma.ko*"))
            self._listings[client.name] = Listing(client.module or ours)
        return self._listings[client.name]

    def count(self, words: str, timeout: float = 300.0) -> Tally:
        """Runs the load program under the counting emulator."""
        if self.counting is None or self.lockstep is None:
            raise RuntimeError("this pair does not count")
        with self.lockstep.running():
            done = self.client.run(f"{LOAD} {words}", timeout)
        tallies = self.counting.take()
        if len(tallies) != 1:
            raise RuntimeError(f"{len(tallies)} counts of: load {words}")
        tallies[0].operations = int(done.out)
        return tallies[0]


def counted(options: Options) -> tuple[Options, Counting]:
    """Options with a client guest that counts.

    Its time is made of instructions (-icount), so that the number of timer ticks follows from the work, however slow the
    emulator is: eight nanoseconds each, about its real speed, and short enough for the kernel's calibration of its
    timer at boot, a loop of 0.1 s. Its one CPU is of a model without a long instruction for copies: as one instruction
    any copy would cost nothing. Its network driver frees sent buffers when it sends again: an interrupt for that comes
    when the host gets round to it, which differed between runs by two percent of all instructions.
    """
    options.work.mkdir(parents=True, exist_ok=True)
    driver = next(options.modules.rglob("rdma_rxe.ko*"))
    symbols = Symbols(options.kernel, image_symbols(options))
    counting = Counting(BUILT / "count.so", options.work, symbols, return_sites(driver, "rxe_invalidate_mr"))
    client: dict[str, object] = {
        "accel": "tcg",
        "smp": 1,
        "cpu": "max,-erms,-fsrm,-fsrs,la57=off",
        "emulator": "tcg,thread=single",
        "qemu": (*counting.qemu(), "-icount", "shift=3"),
        "kernel_parameters": "virtio_net.napi_tx=0 nokaslr",
    }
    return replace(options, client_guest=client), counting


def image_symbols(options: Options) -> str:
    """The functions of the kernel image. A stock kernel has to be asked for them, in a boot of its own."""
    system_map = options.kernel / "System.map"
    if system_map.exists():
        return system_map.read_text()
    guest = Guest("symbols", replace(options, kernel_parameters="nokaslr"))
    try:
        guest.start()
        guest.wait_ready()
        return guest.run("grep -vF '[' /proc/kallsyms", 60).out
    finally:
        guest.stop()


def numbers(lab: Lab) -> dict[str, int]:
    """The numbers of the test module about its last command."""
    text = lab.client.run(f"cat {rows.CONTROL}").out
    return {name: int(value) for name, value in re.findall(r"^(\w+)=(-?\d+)$", text, re.M)}
