# SPDX-License-Identifier: GPL-2.0
"""The command line: test, list, kunit, demo, selfcheck, boots."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import sys
from pathlib import Path

from . import accel, kunit, network, registry, selfcheck
from .awake import awake
from .config import OUR_MODULE, Options
from .demo import Demo
from .runner import Runner


# The set-up's names of the kernels.
STEPS = {
    "stock": "stock",
    "test": "kernel",
    "debug": "kernel-debug",
    "native": "kernel-native",
    "native-debug": "kernel-native-debug",
}


def arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="run.sh", description="Tests of the module in virtual machines.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("test", "run the VM tests whose `file: name` contains a PATTERN (default: all)"),
        ("list", "list the tests with the requirements they cover"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("pattern", nargs="*")
        command.add_argument(
            "--beside-native",
            choices=("rest", "core"),
            default="",
            help="only the tests that native guests do not run; with `core`, also those that are to run on two kernels",
        )
        common(command)
    common(commands.add_parser("kunit", help="run the module's KUnit tests in a guest"))
    common(commands.add_parser("demo", help="one mount with a readable transcript"))
    common(commands.add_parser("selfcheck", help="check that the harness notices all failures"))
    common(commands.add_parser("boots", help="say whether a guest boots on this machine"))
    return parser.parse_args()


def common(command: argparse.ArgumentParser) -> None:
    """The options that every command takes."""
    command.add_argument("--kernel", choices=STEPS, default=os.environ["RPCRDMA_VARIANT"])
    command.add_argument("--client", choices=("ours", "in-tree"), default="ours", help="transport of the client guest")
    command.add_argument(
        "--server", choices=("ours", "in-tree"), default="in-tree", help="transport of the server guest"
    )
    command.add_argument("--device", choices=("rxe", "siw"), default="rxe")
    command.add_argument("--small", action="store_true", help="a tenth of the data, for the debug kernel")
    command.add_argument("--rounds", type=int, default=2, help="rounds of the tests that repeat themselves")
    command.add_argument("--patience", type=int, default=0, help="how often to repeat a test that is only too slow")
    command.add_argument(
        "--resume", action="store_true", help="leave out tests that this module has passed in an earlier run"
    )
    command.add_argument("--until", type=float, default=math.inf, metavar="EPOCH", help="begin no test after this time")
    command.add_argument("--share", type=Path, metavar="FILE", help="run only files of tests that no run with FILE has")
    command.add_argument("--first-failure", action="store_true", help="begin no test after one has failed")
    command.add_argument(
        "--stretch", type=float, help="by how much to stretch the time limits of tests (default: 6 to 15)"
    )
    command.add_argument("--smp", type=int, default=2, help="virtual CPUs per guest")
    command.add_argument("--module", type=Path, help=f"default: {OUR_MODULE}")
    command.add_argument("--parameters", default="", help="module parameters for insmod, at both ends")
    command.add_argument(
        "--tap",
        type=Path,
        metavar="FILE",
        help="write the results into a file, too, in the kernel's test format (KTAP)",
    )
    command.add_argument("--keep-logs", type=Path, metavar="DIR", help="keep console logs and captures here")


def options_of(args: argparse.Namespace) -> Options:
    """Turns arguments into options."""
    options = Options(
        client=args.client,
        server=args.server,
        device=args.device,
        small=args.small,
        rounds=args.rounds,
        patience=args.patience,
        resume=args.resume,
        until=args.until,
        share=args.share,
        first_failure=args.first_failure,
        stretch=args.stretch,
        smp=args.smp,
        module_parameters=args.parameters,
        logs=Path(os.environ["RPCRDMA_LOGS"]) if args.keep_logs else None,
        tap=args.tap,
    )
    options.module = args.module or options.module
    options.fit()
    if not (options.kernel / ".complete").exists():
        sys.exit(f"error: the {args.kernel} kernel is not there: run selftests/setup/setup.sh {STEPS.get(args.kernel)}")
    ours = "ours" in (options.client, options.server)
    if ours and not options.module.exists():
        sys.exit(f"error: {options.module} is not there: build the module first")
    if ours:
        # One run tests one module, even if another is built during it.
        options.work.mkdir(parents=True, exist_ok=True)
        options.module = Path(shutil.copy(options.module, options.work / "rpcrdma_rs.ko"))
    return options


def main() -> int:
    """Runs one command."""

    def stop(number: int, _frame: object) -> None:
        # Once is enough: a second signal would only cut the clean-up short.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    args = arguments()
    if args.command == "list":
        for test in registry.select(registry.load(), args.pattern, args.beside_native):
            print(f"{test.title} [{' '.join(test.requirements)}]")
        return 0
    options = options_of(args)
    if args.command == "kunit" and options.client != "ours":
        sys.exit("error: the in-tree module has no KUnit tests")
    network.make()
    options.accel = accel.choose(options)
    if args.command == "boots":
        return 0 if accel.boots(options) else 1
    with awake():
        if args.command == "kunit":
            return kunit.run(options)
        if args.command == "selfcheck":
            return selfcheck.run(options)
        if args.command == "demo":
            return Demo(options).run()
        return Runner(options).run(registry.select(registry.load(), args.pattern, args.beside_native))


try:
    status = main()
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    status = 130
sys.exit(status)
