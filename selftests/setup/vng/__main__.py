# SPDX-License-Identifier: GPL-2.0
"""The command line: `make vng`, and the part vng of the tests."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from pathlib import Path

from guests.harness import accel, network
from guests.harness.awake import awake
from guests.harness.config import REPO, Options
from guests.harness.guest import DiedAtBoot, GuestError
from guests.harness.pair import Server

from . import cases
from .client import NOT_SET_UP, Client, own_stdin, relay


def arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="run.sh", description="An NFS/RDMA client under virtme-ng, with the module under test."
    )
    parser.add_argument(
        "command", nargs="*", help="run this in the client's shell and end (default: an interactive shell)"
    )
    parser.add_argument("--kernel", choices=("stock", "test", "debug"), default=os.environ["RPCRDMA_VARIANT"])
    parser.add_argument("--built", type=Path, metavar="DIR", help="a kernel and its modules as run.sh lays them out")
    parser.add_argument("--device", choices=("rxe", "siw"), default="rxe")
    parser.add_argument("--smp", type=int, default=2, help="virtual CPUs per guest")
    parser.add_argument("--parameters", default="", help="module parameters for insmod")
    parser.add_argument("--test", action="store_true", help="test all of this")
    parser.add_argument("--until", type=float, default=math.inf, metavar="EPOCH", help="begin no test after this time")
    return parser.parse_args()


def options_of(args: argparse.Namespace) -> Options:
    """Turns arguments into options."""
    options = Options(
        device=args.device,
        smp=args.smp,
        until=args.until,
        module_parameters=args.parameters,
    )
    if args.built is not None:
        options.kernel = args.built
        options.module = REPO / "out/kdir/rpcrdma_rs.ko"
    elif not (options.kernel / ".complete").exists():
        target = "setup-debug" if args.kernel == "debug" else f"KERNEL={args.kernel}"
        sys.exit(f"error: the {args.kernel} kernel is not there: run 'make {target}'")
    if args.kernel == "debug":
        options.memory *= 2
    if not options.module.exists():
        sys.exit(f"error: {options.module} is not there: build the module first")
    return options


def serve(options: Options, boots: int = 2) -> Server:
    """A server that is up. QEMU now and then dies while it boots, which costs another boot."""
    server = Server(options)
    try:
        server.start()
        server.bring_up()
    except DiedAtBoot:
        server.stop()
        if boots <= 1:
            raise
        return serve(options, boots - 1)
    except BaseException:
        server.stop()
        raise
    return server


def run(options: Options, server_options: Options, command: str | None) -> int:
    """A shell in a client, or one command of it: its status."""
    client = Client(options)
    threads = []
    if command is None:
        print("booting a server, and a client under vng (Ctrl-a x ends it)", flush=True)
        process = client.start_shell()
    else:
        process = client.start(command, own_stdin())
        threads = relay(process)
    server = serve(server_options)
    client.server_is_up()
    status = process.wait()
    for thread in threads:
        thread.join()
    server.stop()
    if command is not None and status not in (0, NOT_SET_UP) and client.console.exists():
        if "Kernel panic" in client.console.read_text(errors="replace"):
            print(f"error: the client's kernel has panicked:\n{client.console_tail()}", file=sys.stderr)
    return status


def main() -> int:
    """Runs one command."""

    def stop(number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    args = arguments()
    command = " ".join(args.command) or None
    if command is None and not args.test and not (os.isatty(0) and os.isatty(1)):
        sys.exit("error: a shell needs a terminal: say what to run, as in make vng RUN='ls -l /mnt/nfs'")
    options = options_of(args)
    kernel = Path(os.environ["RPCRDMA_SERVER_KERNEL"])
    server_options = Options(variant=options.server_variant, device=args.device, kernel=kernel)
    network.make()
    options.accel = server_options.accel = accel.choose(server_options)
    with awake():
        if args.test:
            server = serve(server_options)
            try:
                return cases.run(options, server)
            finally:
                server.stop()
        return run(options, server_options, command)


try:
    status = main()
except GuestError as error:
    print(f"error: {error}", file=sys.stderr)
    status = NOT_SET_UP
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    status = 130
sys.exit(status)
