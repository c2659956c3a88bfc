# SPDX-License-Identifier: GPL-2.0
"""Drives selftests/modules/rpcload: an RPC client in the client guest that makes calls to order, and their service."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from guests.harness.channel import Job
from guests.harness.config import REPO, Options
from .mountstats import DEBUGFS, named, parse_own
from guests.harness.network import SERVER
from guests.harness.pair import Pair

FILES = "/sys/kernel/debug/rpcload"
CLIENT, SERVICE = "rpcload", "rpcload_echo"


def modules(options: Options) -> dict[str, Path]:
    """The paths of the two modules."""
    found = {}
    for name, variant in ((CLIENT, options.variant), (SERVICE, options.server_variant)):
        found[name] = REPO / "out" / variant / "rpcload" / f"{name}.ko"
        assert found[name].exists(), f"{found[name]} is not there: run selftests/setup/build.sh {variant}"
    return found


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command."""

    command: str
    error: int  # 0 or an errno
    reason: str
    values: dict[str, int]  # the numbers that the client gives
    counted: dict[str, int]  # by how much each counter of the transport rose

    def good(self) -> Outcome:
        """Itself, if nothing went wrong."""
        assert self.error == 0 and not self.values.get("mismatches"), str(self)
        return self


@dataclass(frozen=True)
class Running:
    """Commands under way."""

    commands: tuple[str, ...]
    script: str
    job: Job


class Load:
    """The client, loaded, with its service."""

    def __init__(self, pair: Pair):
        self._pair = pair

    def load(self) -> None:
        """Loads both modules. The service takes the in-tree transport, which has to be there."""
        paths = modules(self._pair.options)
        for guest, name in ((self._pair.server, SERVICE), (self._pair.client, CLIENT)):
            guest.run(f"insmod {self._pair.send(guest, paths[name])}")

    def unload(self) -> None:
        """Unloads both, and with the client its connection."""
        self._pair.client.run(f"rmmod {CLIENT}")
        self._pair.server.run(f"rmmod {SERVICE}")

    def bad_calls(self) -> int:
        """The number of calls that arrived wrong, by the service's count."""
        return int(self._pair.server.run(f"cat /sys/module/{SERVICE}/parameters/bad_calls").out)

    def start(self, *commands: str) -> Running:
        """Starts commands, one after the other, even if one fails."""
        steps = [f"echo {shlex.quote(c)} 2>/dev/null >{FILES}/control || true; echo =====" for c in commands]
        counters_of = f"cat {FILES}/stats; cat {DEBUGFS}/* 2>/dev/null || true"
        look = f"cat {FILES}/control; {counters_of}"
        script = "\n".join([counters_of, *[f"{s}; {look}" for s in steps]])
        return Running(commands, script, self._pair.client.spawn(script))

    def finish(self, running: Running, timeout: float = 30.0) -> list[Outcome]:
        """Waits for commands to end."""
        text = self._pair.client.finish(running.job, running.script, timeout).out
        first, *blocks = text.split("=====\n")
        outcomes, before = [], counters(first)
        for command, block in zip(running.commands, blocks, strict=True):
            after = counters(block)
            # Another connection of the same transport continues the count, another transport begins at zero.
            counted = {name: value - before.get(name, 0) for name, value in after.items()}
            outcomes.append(outcome(command, block, counted))
            before = after
        return outcomes

    def do(self, *commands: str, timeout: float = 30.0) -> list[Outcome]:
        """Gives commands, and waits for them."""
        return self.finish(self.start(*commands), timeout)

    def one(self, command: str, timeout: float = 30.0) -> Outcome:
        """Gives one command."""
        return self.do(command, timeout=timeout)[0]

    def stall(self, on: bool) -> None:
        """Holds back the replies of the reverse service to STALL, or releases them."""
        self._pair.client.run(f"echo {int(on)} >{FILES}/stall")

    def reverse_calls(self) -> int:
        """The number of calls that the reverse service has taken up."""
        return int(self._pair.client.run(f"cat /sys/module/{CLIENT}/parameters/reverse_calls").out)

    def open(self, words: str = "") -> Outcome:
        """Connects to the service, or to the address that the words name."""
        return self.one(f"open addr={SERVER.ipv4} {words}").good()


def counters(text: str) -> dict[str, int]:
    """The transport's counters by name; empty without a transport."""
    found = re.search(r"^\txprt:\s+rdma (.*)$", text, re.M)
    return named([int(n) for n in found[1].split()]) | parse_own(text) if found else {}


def outcome(command: str, text: str, counted: dict[str, int]) -> Outcome:
    """Reads the outcome of a command."""
    lines = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"\w+=", line))
    values = {name: int(value) for name, value in lines.items() if re.fullmatch(r"-?\d+", value)}
    return Outcome(command, -values.pop("error"), lines.get("reason", ""), values, counted)


@contextmanager
def loaded(pair: Pair) -> Iterator[Load]:
    """Has client and service loaded inside the block. After a failure nothing is tidied: the guests are dropped."""
    load = Load(pair)
    load.load()
    yield load
    load.unload()
