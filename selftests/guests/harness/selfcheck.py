# SPDX-License-Identifier: GPL-2.0
"""Checks of the harness itself: a test run that cannot fail proves nothing, so here are tests that have to."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from dataclasses import replace

from .config import Options
from .guest import DiedAtBoot
from . import runner as runner_module
from .pair import Pair
from .registry import Skip, Test
from .runner import Runner, bring_up


def passes(pair: Pair) -> None:
    """Nothing is wrong."""
    assert pair.client.run("echo fine").out == "fine\n"


def asserts(pair: Pair) -> None:
    """A wrong value."""
    assert pair.client.run("echo 1").out == "2\n"


def fails(pair: Pair) -> None:
    """A command that fails."""
    pair.client.run("echo about to fail; false; echo not reached")


def warns(pair: Pair) -> None:
    """A kernel message at warning level in the guest that the test does not use."""
    pair.server.run("echo '<4>something is odd' >/dev/kmsg")


def reports(pair: Pair) -> None:
    """A report of the kernel that comes at a harmless level."""
    pair.client.run("echo '<6>BUG: KASAN: use-after-free in nothing' >/dev/kmsg")


def locks(pair: Pair) -> None:
    """A report of lockdep, likewise."""
    pair.client.run("echo '<6>WARNING: inconsistent lock state' >/dev/kmsg")


def dies(pair: Pair) -> None:
    """A guest that dies."""
    pair.client.run("echo c >/proc/sysrq-trigger", 20)


def command_hangs(pair: Pair) -> None:
    """A command that never ends."""
    pair.client.run("sleep 1000", 2)


def test_hangs(pair: Pair) -> None:
    """A test that never ends."""
    pair.client.run("echo waiting; sleep 1000", 1000)


# The text that the report of each has to contain.
EXPECTED: list[tuple[Callable[[Pair], None], str]] = [
    (passes, "ok     selfcheck: passes"),
    (asserts, "AssertionError"),
    (fails, "about to fail"),
    (warns, "something is odd"),
    (reports, "use-after-free in nothing"),
    (locks, "inconsistent lock state"),
    (dies, "sysrq: Trigger a crash"),
    (command_hangs, "were not enough for"),
    (test_hangs, "blocked tasks of client"),
]


def boots(options: Options, guest: str, reports: int) -> tuple[int, str]:
    """Starts a pair whose `guest` reports something at its first `reports` boots: the count of boots, and the output."""
    started = 0

    class Unlucky(Pair):
        def start(self) -> None:
            nonlocal started
            super().start()
            started += 1
            if started <= reports and guest == "QEMU":
                self.server.stop()
                raise DiedAtBoot("server died at boot:\n    wild-memory-access")
            if started <= reports:
                getattr(self, guest).run("echo '<6>BUG: KASAN: wild-memory-access in booting' >/dev/kmsg")

    output = io.StringIO()
    runner_module.Pair, usual = Unlucky, runner_module.Pair
    try:
        with contextlib.redirect_stdout(output):
            bring_up(options).stop()
    except (AssertionError, DiedAtBoot) as error:
        output.write(str(error))
    finally:
        runner_module.Pair = usual
    return started, output.getvalue()


# The guest that reports, at how many boots, the number of boots that follow from that, and a text of the output.
BOOTS = [
    ("server", 1, 2, "again  boot"),
    ("server", 2, 2, "reports at boot:"),
    # Our module is in the client by then.
    ("client", 1, 1, "reports at boot:"),
    ("QEMU", 1, 2, "again  boot, because server died"),
    ("QEMU", 2, 2, "server died at boot"),
]


def nothing_fails(options: Options) -> bool:
    """Returns `True` if a run without a test is a failure."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = Runner(options).run([])
    return status != 0 and output.getvalue() == "0 passed, 0 failed\n"


def time_is_up(options: Options) -> bool:
    """Returns `True` if no test begins after the time given, and the output names it: the second would fail."""
    output = io.StringIO()
    tests = [Test(function.__name__, "selfcheck", function, (), 8.0) for function in (passes, asserts)]
    with contextlib.redirect_stdout(output):
        status = Runner(replace(options, until=time.time() + 1)).run(tests)
    said = output.getvalue()
    return status == 0 and "left out, out of time: 1 tests: selfcheck 1" in said and "1 passed, 0 failed" in said


# The file of results of the run below, less its notes.
TAP = """KTAP version 1
1..2
  KTAP version 1
  1..2
  ok 1 passes
  ok 2 skips # SKIP on purpose
ok 1 selfcheck
  KTAP version 1
  1..2
  not ok 1 asserts
  ok 2 passes # SKIP left out
not ok 2 other
"""


def skips(_pair: Pair) -> None:
    """Does not apply."""
    raise Skip("on purpose")


def written(options: Options) -> bool:
    """Returns `True` if the file has all results: of tests that pass, fail, are skipped, and are left out."""
    path = options.work / "selfcheck.tap"
    chosen = (("selfcheck", passes), ("selfcheck", skips), ("other", asserts), ("other", passes))
    tests = [Test(function.__name__, group, function, (), 8.0) for group, function in chosen]
    with contextlib.redirect_stdout(io.StringIO()):
        Runner(replace(options, tap=path, first_failure=True)).run(tests)
    return "".join(f"{line}\n" for line in path.read_text().splitlines() if "  #" not in line) == TAP


def run(options: Options) -> int:
    """0 if every test ended as it has to."""
    wrong = 0
    for guest, reports, expected, text in BOOTS:
        started, said = boots(options, guest, reports)
        right = started == expected and text in said and "wild-memory-access" in said
        wrong += not right
        print(f"{'ok    ' if right else 'not ok'} boot: {reports} of the {guest}'s with a report")
        if not right:
            print(f"started {started} times\n{said}")
    for function, text in EXPECTED:
        runner, output = Runner(options), io.StringIO()
        with contextlib.redirect_stdout(output):
            status = runner.run([Test(function.__name__, "selfcheck", function, (), 8.0)])
        right = text in output.getvalue() and (status == 0) == text.startswith("ok ")
        wrong += not right
        print(f"{'ok    ' if right else 'not ok'} {function.__name__}")
        if not right:
            print(output.getvalue())
    for name, right in (
        ("a run of nothing is a failure", nothing_fails(options)),
        ("the time is up", time_is_up(options)),
        ("all results are in the file", written(options)),
    ):
        print(f"{'ok    ' if right else 'not ok'} {name}")
        wrong += not right
    print(f"{len(BOOTS) + len(EXPECTED) + 3 - wrong} passed, {wrong} failed")
    return 1 if wrong else 0
