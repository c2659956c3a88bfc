# SPDX-License-Identifier: GPL-2.0
"""What cannot be counted: operations in a second and their latency, connection times, memory of a connection.

These depend on the machine and on what else it does; the transports take short turns, so that it hits both alike, and
only ratios mean anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median

from harness import resources

from . import rows
from .lab import LOAD, TRANSPORTS, Lab, numbers
from .measure import Progress

SECONDS = 3
CONNECTIONS = 15  # as many as nconnect=16 makes more than nconnect=1
RECONNECTS = 10
IOPS = ": IOPS"  # at the end of a value's name
LEAST_IOPS = 0.97  # ours / in-tree


@dataclass(frozen=True)
class Load:
    """One load of fio."""

    what: str
    octets: int
    depth: int

    @property
    def name(self) -> str:
        """Its line in the table."""
        return f"{self.what} {rows.size(self.octets)}, depth {self.depth}"

    @property
    def command(self) -> str:
        """fio, with its results as JSON."""
        return (
            f"fio --name=x --filename={rows.DATA} --rw=rand{self.what} --bs={self.octets} --iodepth={self.depth} --direct=1"
            f" --ioengine=libaio --time_based --ramp_time=1 --runtime={SECONDS} --size=64M --output-format=json"
        )


LOADS = [
    Load(what, octets, depth)
    for octets, depth in ((4096, 1), (4096, 16), (65536, 8), (1 << 20, 4))
    for what in ("read", "write")
]

Values = dict[str, dict[str, list[float]]]  # by what, then by transport


class Speed:
    """All that is measured by the clock."""

    def __init__(self, lab: Lab, visits: int):
        self.lab = lab
        self.visits = visits
        self.values: Values = {}
        self.progress = Progress(len(TRANSPORTS) * (visits * (len(LOADS) + 1) + 1))

    def run(self) -> Values:
        """A B A B, in short turns; memory does not depend on how busy the machine is."""
        for visit in range(self.visits):
            for transport in TRANSPORTS:
                self.lab.use(transport)
                with self.lab.setting(rows.NFS3):
                    for load in LOADS:
                        self._fio(load, transport)
                self._connections(transport)
                if visit == 0:
                    self._memory(transport)
        return self.values

    def _note(self, what: str, transport: str, value: float) -> None:
        self.values.setdefault(what, {name: [] for name in TRANSPORTS})[transport].append(value)

    def _fio(self, load: Load, transport: str) -> None:
        text = self.lab.client.run(load.command, 30).out
        result = json.loads(text[text.index("{") :])["jobs"][0][load.what]
        percentiles = result["clat_ns"]["percentile"]
        self._note(load.name + IOPS, transport, result["iops"])
        for name in ("50.000000", "99.000000"):
            self._note(f"{load.name}: p{name[:2]} us", transport, percentiles[name] / 1000)
        self.progress.step(f"{transport:7} {load.name}: {result['iops']:.0f} IOPS")

    def _connections(self, transport: str) -> None:
        with self.lab.setting(rows.ECHO):
            self._note("connect us", transport, numbers(self.lab)["connect_ns"] / 1000)
            for _ in range(RECONNECTS):
                self.lab.client.run(f"echo reconnect >{rows.CONTROL}")
                self._note("reconnect us", transport, numbers(self.lab)["connect_ns"] / 1000)
        self.progress.step(f"{transport:7} connections")

    def _memory(self, transport: str) -> None:
        """What fifteen connections more take: idle, and after each had 1 MiB requests at depth 8 in both directions."""
        used = {}
        for setting in (rows.NFS3, rows.Setting("", vers="3", options="nconnect=16")):
            with self.lab.setting(setting):
                idle = sum(resources.memory(self.lab.client).values())
                for what in ("read", "write"):
                    self.lab.client.run(f"{LOAD} {what} {rows.DATA} 128 32 1048576 128", 120)
                used[setting.options] = (idle, sum(resources.memory(self.lab.client).values()))
        for at, name in enumerate(("new", "used")):
            each = (used["nconnect=16"][at] - used[""][at]) / CONNECTIONS
            self._note(f"memory of a {name} connection KiB", transport, each)
        self.progress.step(f"{transport:7} memory")


def table(values: Values) -> str:
    """Medians and their ratio."""
    text = [f"{'by the clock':44} {'ours':>10} {'in-tree':>10} {'ratio':>7}"]
    iops, below = 0, []
    for what, both in values.items():
        ours, theirs = (median(both[transport]) for transport in TRANSPORTS)
        ratio = f"{ours / theirs:.3f}" if theirs > 0 else "-"
        text.append(f"{what:44} {ours:10,.0f} {theirs:10,.0f} {ratio:>7}")
        if what.endswith(IOPS):
            iops += 1
            below += [what] if ours < LEAST_IOPS * theirs else []
    text.append(f"IOPS: {iops - len(below)} of {iops} loads at or above {LEAST_IOPS:.2f}")
    text += [f"    below: {what}" for what in below]
    return "\n".join(text)
