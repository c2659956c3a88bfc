# SPDX-License-Identifier: GPL-2.0
"""The command line: `make bench`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from guests.harness import accel, klog, network
from guests.harness.awake import awake
from guests.harness.config import OUR_MODULE, REPO
from guests.harness.pair import Pair

from . import builds, document, loads, speed, table, versions
from .lab import BUILT, BenchOptions, Lab, counted
from .measure import Measurement, clock
from .rows import Row, select, select_served
from .sides import CLIENT_SIDE, SERVER_SIDE, Side


def arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="bench", description="Compares our transport with the in-tree one.")
    parser.add_argument(
        "pattern",
        nargs="*",
        help="count only rows whose name contains one of these; with --only speed, the same for loads",
    )
    parser.add_argument(
        "--side", choices=(CLIENT_SIDE, SERVER_SIDE), default=CLIENT_SIDE, help="the side whose transports are compared"
    )
    parser.add_argument(
        "--more",
        action="store_true",
        help="also measure larger inline sizes, mixed loads, nconnect=1 and 16, a longer round trip, and busy connections"
        " by their number (forty minutes more); a pattern finds these without it",
    )
    parser.add_argument("--visits", type=int, default=2, help="turns of each transport")
    parser.add_argument("--speed-visits", type=int, default=8, help="the same for measurements by the clock")
    parser.add_argument(
        "--only", choices=("count", "speed", "memory", "versions", "overhead"), help="leave the rest out"
    )
    parser.add_argument("--kernel", choices=("test", "stock"), default="stock", help="the kernel of guests that count")
    parser.add_argument(
        "--timed-kernel",
        choices=("native", "same"),
        default="native",
        help="that of guests that are measured by the clock",
    )
    parser.add_argument(
        "--builds", help="those to count instructions of; by default ours,in-tree, and at the client repaired as well"
    )
    parser.add_argument("--timed", default="ours,in-tree,control", help="the builds to measure by the clock")
    parser.add_argument(
        "--other", action="append", default=[], metavar="NAME=FILE", help="one more, another build of ours"
    )
    parser.add_argument("--module", type=Path, help="another build of the module")
    parser.add_argument("--list", action="store_true", help="list the rows")
    parser.add_argument(
        "--profile", action="store_true", help="print the instructions of each row by part and function"
    )
    return parser.parse_args()


@contextmanager
def started(lab: Lab) -> Iterator[Lab]:
    """A lab for the time of the block; reports of its kernels are printed at the end."""
    try:
        lab.start()
        yield lab
        for message in lab.pair.kernel_messages():
            if klog.REPORTS.search(message.text):
                print(message)
    finally:
        lab.stop()


def compared(names: str, args: argparse.Namespace, options: BenchOptions) -> list[builds.Build]:
    """The builds that the command line names; the guests boot with ours, the first."""
    found = builds.chosen(names.split(","), BUILT / "repaired/rpcrdma.ko", options.module, args.other)
    if missing := [build.name for build in found if build.file and not build.file.exists()]:
        sys.exit(f"error: there is no module of {' or '.join(missing)}")
    if [build.name for build in found[:1]] != [builds.OURS]:
        sys.exit("error: the first build is ours")
    return found


def rows_of(args: argparse.Namespace) -> list[Row]:
    """The rows that the command line names."""
    return select_served(args.pattern) if args.side == SERVER_SIDE else select(args.pattern, args.more)


def results(side: Side) -> tuple[Path, Path, Path]:
    """The files for the samples, the profile and the page of a side."""
    there = BUILT / side.name if side.serves else BUILT
    there.mkdir(exist_ok=True)
    return there / "results.csv", there / "functions.csv", there / document.name_of(side)


def count(args: argparse.Namespace, side: Side) -> str:
    """Measures the rows that count instructions; returns the version of the kernel."""
    options = BenchOptions(accel=accel.choose(BenchOptions()))
    options.module = args.module or options.module
    options, counting = counted(options, side)
    names = args.builds or ("ours,in-tree" if side.serves else "ours,in-tree,repaired")
    samples, functions, _ = results(side)
    with started(Lab(options, side, compared(names, args, options), counting)) as lab:
        Measurement(lab, rows_of(args), args.visits, samples, functions).run()
        return lab.client.run("uname -r").out.strip()


def timed(args: argparse.Namespace) -> BenchOptions:
    """The options of guests that are measured by the clock."""
    if args.timed_kernel == "same":
        return BenchOptions(accel=accel.choose(BenchOptions()))
    kernel = Path(os.environ["RPCRDMA_NATIVE_KERNEL"])
    module = REPO / OUR_MODULE.format(variant="native")
    if not (kernel / ".complete").exists() or not module.exists():
        sys.exit("error: the native kernel, or the module for it, is not there: run make setup-native")
    processors = sorted(os.sched_getaffinity(0))
    return BenchOptions(
        variant="native",
        server_variant="native",
        kernel=kernel,
        module=module,
        accel="native",
        # Each has a processor of this machine for itself, if the machine has two.
        smp=1,
        client_guest={"processor": processors[0]},
        server_guest={"processor": processors[-1]},
    )


def between_versions(args: argparse.Namespace) -> str:
    """Compares version 2 with version 1 between two ends of ours."""
    options = replace(timed(args), client="ours", server="ours")
    options.module = args.module or options.module
    pair = Pair(options)
    try:
        pair.start()
        return versions.run(pair)
    finally:
        pair.stop()


def overhead(args: argparse.Namespace) -> str:
    """Counts our instructions in version 2 beside version 1, between two ends of ours; the server has both."""
    options = BenchOptions(accel=accel.choose(BenchOptions()))
    options.module = args.module or options.module
    side = Side(CLIENT_SIDE)
    options, counting = counted(options, side)
    options = replace(options, server="ours", module_parameters="version=1")
    samples, functions = BUILT / "overhead.csv", BUILT / "overhead-functions.csv"
    with started(Lab(options, side, builds.of_versions(), counting)) as lab:
        lab.server.run("echo 0 >/sys/module/rpcrdma_rs/parameters/version")
        Measurement(lab, select(args.pattern or ["NULL"]), args.visits, samples, functions).run()
    return table.versions(table.read_csv(samples))


def by_the_clock(args: argparse.Namespace, side: Side, options: BenchOptions) -> speed.Values:
    """Measures by the clock."""
    options.memory = speed.CROWD_GUEST
    options.module = args.module or options.module
    with started(Lab(side.options(options), side, compared(args.timed, args, options))) as lab:
        return speed.Speed(lab, args.speed_visits, args.pattern, args.only == "memory", args.more).run()


def report(args: argparse.Namespace, side: Side, kernel: str, values: speed.Values) -> None:
    """Prints the tables of the counts, and writes the profile and the page."""
    samples, by_function, page = results(side)
    records, functions = table.read_csv(samples), table.read_csv(by_function)
    profile = table.profile(records, functions)
    (page.parent / "profile.txt").write_text(profile + "\n")
    if args.profile:
        print(profile)
    print("\n\n".join(filter(None, (table.table(records), table.tuned(records), table.summary(records)))))
    command = document.command_of(side, args.more, args.pattern)
    native = args.timed_kernel == "native"
    page.write_text(document.page(side, records, functions, values, kernel, native, command))


def main() -> int:
    """Runs."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args = arguments()
    side = Side(args.side)
    found = [row.name for row in rows_of(args)]
    if args.only == "speed":
        found = [name for load in loads.select(args.pattern, args.more) for name in load.names]
    if args.list:
        print("\n".join(found))
        return 0
    if not found:
        sys.exit(f"error: nothing has {' or '.join(args.pattern)} in its name")
    start = time.monotonic()
    network.make()
    if args.only == "versions":
        with awake():
            print(between_versions(args))
        return 0
    if args.only == "overhead":
        with awake():
            print(overhead(args))
        return 0
    counts = args.only in (None, "count")
    # What is missing is told before the counts, which take most of an hour.
    timed_options = timed(args) if not counts or (not args.only and not args.pattern) else None
    if counts and timed_options and args.timed_kernel == "native" and (args.module or args.other):
        sys.exit("error: --module and --other are for one kernel: use --only, or --timed-kernel same")
    kernel, values = "", {}
    with awake():
        if counts:
            kernel = count(args, side)
        if timed_options:
            values = by_the_clock(args, side, timed_options)
    print()
    if kernel:
        report(args, side, kernel, values)
    if values:
        print("\n" + speed.table(values) + "\n\n" + speed.summary(values, side))
    print(
        f"\ntook {clock(time.monotonic() - start)}; samples, profile, plots and a summary are in {results(side)[0].parent.relative_to(REPO)}"
    )
    return 0


sys.exit(main())
