# SPDX-License-Identifier: GPL-2.0
"""The two guests of a comparison, of which one changes from one build of the transport to the other and back."""

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
from .builds import Build
from .counter import Counting, Tally
from .listing import Listing
from .lockstep import Lockstep
from .sides import SERVICE, Side
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

# The load program runs at the client, which has its marks executed here.
MARKS_UP = f"setsid {LOAD} marks </dev/null >/dev/null 2>&1 &"

DELAY = "modprobe sch_netem; tc qdisc replace dev eth0 root netem delay {delay}us limit 10000"

# A thread that feeds the random number generator runs often in a guest's first minutes. The entry of a neighbour expires, and
# each frame to it is dearer then.
QUIET = """
ip neigh replace {other.ipv4} lladdr {other.mac} nud permanent dev eth0
echo none >/sys/class/misc/hw_random/rng_current || true
cp /share/load {load}
"""

# Files that are only read belong in the client's memory, where reading costs no network.
CLIENT_DATA = """
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

    def __init__(self, options: Options, side: Side, builds: list[Build], counting: Counting | None = None):
        self.side = side
        self.builds = builds
        self.counting = counting
        self.lockstep: Lockstep | None = None
        self.pair = Pair(options)
        self.client = self.pair.client
        self.server = self.pair.server
        self.compared, self._other = side.guests(self.pair)
        for guest in self.pair.guests:
            shutil.copy(BUILT / "load", guest.share / "load")
        self._current = self.builds[0]
        self._listings: dict[str, Listing] = {}
        for build in builds:
            build.place(self.compared)
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
        for guest, end in zip((self.compared, self._other), reversed(self.side.ends), strict=True):
            guest.run(QUIET.format(other=end, load=LOAD))
        self.server.run(f"{SERVER_DATA}insmod /share/{SERVICE}.ko", 120)
        self.client.run(CLIENT_DATA.format(tree=rows.TREE, files=rows.FILES, directories=rows.DIRECTORIES), 120)
        if self.counting:
            self.lockstep = Lockstep(self.compared, self._other, *(end.tap for end in self.side.ends))
            if self.side.serves:
                self.server.run(MARKS_UP)

    def stop(self) -> None:
        """Ends both guests."""
        self.pair.stop()

    def turns(self, visit: int) -> list[Build]:
        """The builds in the order of a visit, A B B A: a drift in the course of a run hits all of them."""
        return self.builds if visit % 2 == 0 else self.builds[::-1]

    def use(self, build: Build) -> None:
        """Changes the transport of the compared guest; nothing may be mounted."""
        if build != self._current:
            self.side.change(self.pair, self._current, build)
            self._current = build

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
            self.compared.run("grep -F '[' /proc/kallsyms >/share/kallsyms")
            self.counting.symbols.load_modules((self.compared.share / "kallsyms").read_text())
            self.counting.follow()
            self.counting.transport = self._listing(self._current)
            self.counting.take()

    def _listing(self, build: Build) -> Listing:
        """The instructions of a module."""
        if build.name not in self._listings:
            options = self.pair.options
            present = options.module if build.family == "ours" else next(options.modules.rglob("rpcrdma.ko*"))
            self._listings[build.name] = Listing(build.file or present)
        return self._listings[build.name]

    def count(self, words: str, timeout: float = 300.0) -> Tally:
        """Runs the load program under the counting emulator."""
        if self.counting is None or self.lockstep is None:
            raise RuntimeError("this pair does not count")
        with self.lockstep.running():
            marks = f"MARKS={SERVER.ipv4} " if self.side.serves else ""
            done = self.client.run(f"{marks}{LOAD} {words}", timeout)
        tallies = self.counting.take()
        if len(tallies) != 1:
            raise RuntimeError(f"{len(tallies)} counts of: load {words}")
        tallies[0].operations = int(done.out)
        return tallies[0]


def counted(options: Options, side: Side) -> tuple[Options, Counting]:
    """Options with a guest that counts, the one of a side.

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
    guest: dict[str, object] = {
        "accel": "tcg",
        "smp": 1,
        "cpu": "max,-erms,-fsrm,-fsrs,la57=off",
        "emulator": "tcg,thread=single",
        "qemu": (*counting.qemu(), "-icount", "shift=3"),
        "kernel_parameters": "virtio_net.napi_tx=0 nokaslr",
    }
    return side.options(options, guest), counting


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
