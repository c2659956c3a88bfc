# SPDX-License-Identifier: GPL-2.0
"""The command line: `make soak`."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

from guests.harness import accel, network
from guests.harness.awake import awake
from guests.harness.config import REPO, Options
from guests.harness.guest import GuestError, indent
from guests.harness.pair import Pair
from guests.harness.runner import bring_up
from guests.lib import resources

from .cycle import Cycle, Finding, Plan
from .events import EVENTS, FAULTS, READY, REPORTED, WITNESS

STORM = REPO / "out/soak/storm"
SUMMARY = 20  # cycles
REFUSALS = 200  # lines
# Fields of a plan that are text.
COMMON = ("vers", "proto", "options", "end", "flavour")
# The faults do as the events say, without a word.
QUIET = f"cd {FAULTS}; echo 0 >verbose; echo Y >ignore-server-disconnect; echo Y >ignore-cache-wait"


def common(text: str) -> tuple[str, str]:
    """A field of all plans, and its value."""
    field, _, value = text.partition("=")
    if field not in COMMON:
        raise argparse.ArgumentTypeError(f"no such field: {field}")
    return field, value


def arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="soak", description="Hunts for races in native guests.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, help="that of the first cycle; the others follow it (default: drawn)")
    parser.add_argument("--kernel", choices=("native", "native-debug"), default="native")
    parser.add_argument("--client", choices=("ours", "in-tree"), default="ours", help="transport of the client guest")
    parser.add_argument("--server", choices=("ours", "in-tree"), default="in-tree", help="that of the server guest")
    names = [event.__name__ for event in EVENTS]
    parser.add_argument(
        "--only", metavar="EVENT", nargs="+", choices=names, default=(), help=f"events, of {', '.join(names)}"
    )
    parser.add_argument(
        "--plan",
        metavar="FIELD=VALUE",
        nargs="+",
        type=common,
        default=(),
        help=f"the same in all plans, of {', '.join(COMMON)}",
    )
    parser.add_argument("--first-finding", action="store_true", help="end with the first finding")
    parser.add_argument("--verbose", action="store_true", help="print the plan of each cycle")
    parser.add_argument("--keep-logs", type=Path, metavar="DIR", help="keep console logs here")
    return parser.parse_args()


def booted(options: Options) -> Pair:
    """New guests."""
    pair = bring_up(options, 3)
    shutil.copy(STORM, pair.client.share)
    pair.client.run(QUIET)
    for guest in pair.guests:
        guest.run(READY)
        guest.run(WITNESS)
    return pair


def tell(cycle: Cycle, error: BaseException) -> None:
    """A finding with its seed, its events and what the kernels say."""
    print(f"not ok seed {cycle.plan.seed}: {type(error).__name__}: {error}")
    print(indent("\n".join(cycle.events)))
    if not isinstance(error, (Finding, GuestError)):
        traceback.print_exception(error)
    try:
        for guest in cycle.pair.guests:
            print(f"what RPC and NFSv4 refused on {guest.name}:")
            print(indent(guest.run(f"grep -v '^#' {REPORTED} | tail -n {REFUSALS}", check=False).out))
        print(cycle.pair.describe_hang())
        print(indent("\n".join(str(message) for message in cycle.pair.kernel_messages()[-80:])))
    except GuestError as more:
        print(indent(str(more)))


def soak(options: Options, args: argparse.Namespace) -> int:
    """Cycles until the time is over, with the memory of the guests between some; the last line counts them, and the findings."""
    seed = int(time.time()) if args.seed is None else args.seed
    end = time.monotonic() + 60 * args.minutes
    good = findings = 0
    pair, starved = booted(options), {}
    try:
        while time.monotonic() < end and not (findings and args.first_finding):
            plan = dataclasses.replace(Plan.of(seed), **dict(args.plan))
            cycle = Cycle(pair, plan, tuple(args.only), starved)
            if args.verbose:
                print(f"# {cycle.plan}")
            try:
                cycle.run()
                good += 1
            except Exception as error:  # any failure is a finding
                findings += 1
                tell(cycle, error)
                pair.stop()
                pair, starved = booted(options), {}
            seed += 1
            if (good + findings) % SUMMARY == 0:
                kept = ", ".join(f"{guest.name} {sum(resources.memory(guest).values())} KiB" for guest in pair.guests)
                print(f"# {good + findings} cycles, {findings} findings, the next seed is {seed}; memory: {kept}")
    finally:
        pair.stop()
    print(f"{good} passed, {findings} failed")
    return 1 if findings or not good else 0


def main() -> int:
    """Runs."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args = arguments()
    options = Options(client=args.client, server=args.server)
    options.stretch = options.slowness / 2
    options.fit()
    options.logs = Path(os.environ["RPCRDMA_LOGS"]) if "RPCRDMA_LOGS" in os.environ else None
    network.make()
    options.accel = accel.choose(options)
    with awake():
        return soak(options, args)


sys.exit(main())
