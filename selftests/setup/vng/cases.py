# SPDX-License-Identifier: GPL-2.0
"""The test of `make vng`: its behaviour for users, with one server for all."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from guests.harness import klog
from guests.harness.config import Options
from guests.harness.guest import indent
from guests.harness.pair import MOUNT_POINT, Server
from guests.harness.runner import LEFT_OUT

from .client import Client

# Seconds for a client from its boot to its end, before stretching. Emulated, a distribution's kernel takes half of that.
LIMIT = 100.0


@dataclass
class Outcome:
    """The outcome of a client."""

    status: int
    out: str
    err: str


class Bench:
    """The server, and clients one after the other."""

    def __init__(self, options: Options, server: Server):
        self.options = options
        self.server = server
        self.client = Client(options)
        self.client.server_is_up()

    @property
    def limit(self) -> float:
        """Seconds that a client may take."""
        return LIMIT * self.options.slowness

    def run(self, command: str, text: str = "") -> Outcome:
        """Runs a command in a client, with a text as its input."""
        process = self.client.start(command, subprocess.PIPE)
        try:
            out, err = process.communicate(text.encode(), self.limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not within {self.limit:.0f} s; its console:\n{self.client.console_tail()}") from None
        finally:
            end(process)
        return Outcome(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


class Terminal:
    """A shell in a client, on a terminal of its own."""

    def __init__(self, bench: Bench):
        self._deadline = time.monotonic() + bench.limit
        self._ours, theirs = pty.openpty()
        self.process = bench.client.start_shell(theirs)
        os.close(theirs)
        self.text = ""

    def expect(self, text: str) -> None:
        """Reads until a text has come that has not been asked for before."""
        start = len(self.text)
        while text not in self.text[start:]:
            if not self._read():
                raise AssertionError(f"the shell ended before '{text}'; the terminal:\n{indent(self.text)}")

    def type(self, line: str) -> None:
        """Types a line."""
        os.write(self._ours, line.encode() + b"\r")

    def wait(self) -> int:
        """Reads until the end; the status of vng."""
        while self._read():
            pass
        return self.process.wait(10)

    def close(self) -> None:
        """Ends the client if it has not ended."""
        end(self.process)
        os.close(self._ours)

    def _read(self) -> bool:
        os.set_blocking(self._ours, False)
        while time.monotonic() < self._deadline:
            try:
                data = os.read(self._ours, 4096)
            except BlockingIOError:
                time.sleep(0.1)
                continue
            except OSError:  # no process has the other end open
                return False
            self.text += data.decode(errors="replace").replace("\r", "")
            return bool(data)
        raise AssertionError(f"not in time; the terminal:\n{indent(self.text)}")


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends vng with all it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def asks_for_a_command(_bench: Bench) -> None:
    """Without a terminal it prints an error instead of starting a shell."""
    done = subprocess.run(
        [sys.executable, "-m", __package__], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done
    assert done.stderr.startswith("error: a shell needs a terminal") and done.stderr.count("\n") == 1, done.stderr


COMMAND = f"""grep ' {MOUNT_POINT} nfs4 .*[,]proto=rdma,' /proc/mounts || exit
grep -o '^rpcrdma[^ ]*' /proc/modules
head -c 8M /dev/urandom >/tmp/data
cp /tmp/data {MOUNT_POINT}/data
sync
echo 3 >/proc/sys/vm/drop_caches
sha256sum </tmp/data
sha256sum <{MOUNT_POINT}/data
dmesg >&2
echo "it's" $((6 * 7))
cat
exit 3
"""


def command(bench: Bench) -> None:
    """A command's input, both outputs and status are vng's; it has a mount over our module, which moves data intact."""
    done = bench.run(COMMAND, "from outside\n")
    assert done.status == 3, done
    _, *modules, written, read, its, text = done.out.splitlines()
    assert (its, text) == ("it's 42", "from outside"), done.out
    assert modules == ["rpcrdma_rs"], done.out
    served = bench.server.run("sha256sum </export/data").out.strip()
    assert written == read == served, (written, read, served)
    assert "rpcrdma_rs: " in done.err, done.err
    messages = done.err + "\n".join(bench.server.kernel_records())
    reports = [line for line in messages.splitlines() if klog.REPORTS.search(line)]
    assert not reports, "\n".join(reports)


def shell(bench: Bench) -> None:
    """A terminal gets a shell that begins with the mount in sight, and whose end ends the guest."""
    terminal = Terminal(bench)
    try:
        terminal.expect("vng:/repo# ")
        assert f" {MOUNT_POINT} nfs4 " in terminal.text and "proto=rdma," in terminal.text, terminal.text
        terminal.type(f"stat -f -c %T {MOUNT_POINT}; pwd")
        terminal.expect("nfs\n/repo\n")
        terminal.type("exit")
        assert terminal.wait() == 0, terminal.text
        assert "Kernel panic" not in terminal.text, terminal.text
    finally:
        terminal.close()


CASES: list[tuple[str, Callable[[Bench], None]]] = [
    ("without a terminal, a command is asked for", asks_for_a_command),
    ("a command, and data over rpcrdma_rs", command),
    ("a shell on a terminal", shell),
]


def run(options: Options, server: Server) -> int:
    """0 if all cases passed."""
    bench = Bench(options, server)
    passed = failed = 0
    for name, case in CASES:
        if time.time() >= options.until:
            left = len(CASES) - passed - failed
            print(f"{LEFT_OUT} {left} tests: vng {left}{' (all)' if left == len(CASES) else ''}")
            break
        start = time.monotonic()
        try:
            case(bench)
        except Exception as error:  # any failure is the test's result
            failed += 1
            print(f"not ok vng: {name} ({time.monotonic() - start:.1f} s)")
            print(indent(str(error) or traceback.format_exc()))
            if not isinstance(error, AssertionError):
                print(indent(traceback.format_exc()))
        else:
            passed += 1
            print(f"ok     vng: {name} ({time.monotonic() - start:.1f} s)")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1
