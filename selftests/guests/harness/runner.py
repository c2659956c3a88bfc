# SPDX-License-Identifier: GPL-2.0
"""Runs tests: keeps guests up between the tests of one file, judges kernel logs, prints results."""

from __future__ import annotations

import math
import re
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from . import klog, kmemleak, native
from .config import Options
from .earlier import Earlier
from .guest import CommandFailed, DiedAtBoot, Guest, GuestError, GuestTimeout, indent
from .pair import Late, Pair
from .registry import Skip, Test
from .shares import Shares
from .tap import Tap


# The kernel's messages when it loads our module, and the module's own.
OURS = re.compile(r"rpcrdma_rs\b")


# The begin of the line that lists the tests that were left out; run.sh and .ci/run look for it.
LEFT_OUT = "left out, out of time:"


class Overrun(Exception):
    """A test ran over its time limit."""


class Overlooked(Exception):
    """siw has overlooked a call, and the test would wait for it to time out."""


# When a device is removed, ib_core of 7.3 may free the table of GIDs before the work that frees its last entry: it warns, if
# the entry is still in use then, and the work later writes to memory that is free.
GID_TABLE = re.compile(r"free_gid_work|gid_table_release_one|GID entry ref leak")

# Seconds between looks for that, and how often it may happen to a test.
LOOK_EVERY = 5
OVERLOOKED = 3


class Runner:
    """The state of one run."""

    def __init__(self, options: Options):
        self.options = options
        self.pair: Pair | None = None
        self.group = ""
        self.device = options.device
        self.ends = (options.server, options.client)
        self.leaks_watched: list[Guest] = []
        self.passed = self.failed = self.repeated = 0
        self.skipped: list[str] = []
        self.tap = Tap(None, [])
        self.earlier = Earlier(options) if options.resume else None
        self.shares = Shares(options.share) if options.share else None

    def run(self, tests: list[Test]) -> int:
        """Runs the tests, or what the other runs that share them leave to this one; 0 if all passed, and at least one ran."""
        left_out: list[Test] = []
        fresh = tests
        if self.earlier is not None:
            fresh = [test for test in tests if test.title not in self.earlier]
            print(f"{len(tests) - len(fresh)} of {len(tests)} tests have passed in an earlier run of this module")
        self.tap = Tap(self.options.tap, fresh)
        try:
            for group, some in by_group(tests):
                if self.shares is not None and not self.shares.claim(group):
                    continue
                todo = [test for test in some if test in fresh]
                self.passed += len(some) - len(todo)
                left_out += self._group(todo)
                if self.failed and self.options.first_failure:
                    break
        finally:
            self.drop_pair()
            self.tap.close()
        if self.skipped:
            print(f"{len(self.skipped)} tests were skipped")
            for reason, count in Counter(self.skipped).most_common():
                print(f"    {count}: {reason}")
        if self.repeated:
            print(f"{self.repeated} of the tests were too slow once and have been run again")
        if left_out:
            print(f"{LEFT_OUT} {len(left_out)} tests: {by_file(left_out, tests)}")
        print(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.passed and not self.failed else 1

    def _group(self, tests: list[Test]) -> list[Test]:
        """Runs the tests of one file. Returns those that are left out because the time is up."""
        for number, test in enumerate(tests):
            if self._time_is_up():
                self._close_group()
                return tests[number:]
            self._one(test)
            if self.failed and self.options.first_failure:
                break
        self._close_group()
        return []

    def _time_is_up(self) -> bool:
        return time.time() >= self.options.until

    def _only_slow(self, error: Exception) -> bool:
        """On a busy machine time alone proves nothing; a wrong result or a kernel report always does."""
        return isinstance(error, (GuestTimeout, Late, Overrun)) and not self._reported()

    def _one(self, test: Test, patience: int | None = None, overlooked: int = OVERLOOKED) -> None:
        patience = self.options.patience if patience is None else patience
        start = time.monotonic()
        title = test.title
        try:
            if reason := test.unfit(self.options):
                raise Skip(reason)
            pair = self._pair_for(test)
            start = time.monotonic()
            self._body(test, pair)
            self._judge(test, pair)
        except Skip as reason:
            print(f"skip   {title}: {reason}")
            self.skipped.append(str(reason))
            self.tap.result(test, good=True, skipped=str(reason))
            return
        except Exception as error:  # any failure is the test's result
            if patience and not self._time_is_up() and self._only_slow(error):
                self._again(f"{title} ({time.monotonic() - start:.1f} s): {str(error).splitlines()[0]}")
                self.repeated += 1
                self.drop_pair()
                self._one(test, patience - 1, overlooked)
                return
            if overlooked and (isinstance(error, Overlooked) or self._without_ours()):
                self._again(f"{title} ({time.monotonic() - start:.1f} s): {error}")
                self.drop_pair()
                self._one(test, patience, overlooked - 1)
                return
            self.failed += 1
            print(f"not ok {title} ({time.monotonic() - start:.1f} s) [{' '.join(test.requirements)}]")
            explanation = self._explain(error)
            print(indent(explanation))
            self.tap.result(test, good=False)
            self.tap.note(explanation)
            self.drop_pair()
            return
        self.passed += 1
        self.tap.result(test, good=True)
        if self.earlier is not None:
            self.earlier.add(title)
        print(f"ok     {title} ({time.monotonic() - start:.1f} s)")

    def _again(self, text: str) -> None:
        print(f"again  {text}")
        self.tap.note(f"again: {text}")

    def _pair_for(self, test: Test) -> Pair:
        device = test.device or self.options.device
        ends = server, client = test.server or self.options.server, test.client or self.options.client
        now = (self.group, self.device, self.ends)
        if self.pair is not None and now != (test.group, device, ends):
            self._close_group()
        if self.pair is None:
            self.pair = bring_up(replace(self.options, device=device, server=server, client=client))
            self.group, self.device, self.ends = test.group, device, ends
            self.leaks_watched = [guest for guest in self.pair.guests if kmemleak.watch(guest)]
        return self.pair

    def _body(self, test: Test, pair: Pair) -> None:
        """Runs the function in a thread of its own, so that a hang can be cut off by taking its guests away."""
        limit = test.limit * self.options.slowness
        outcome: list[BaseException | None] = []

        def body() -> None:
            try:
                test.function(pair, **test.arguments)
                outcome.append(None)
            except BaseException as error:  # handed to the thread that waits
                outcome.append(error)

        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        end = time.monotonic() + limit
        while thread.is_alive() and (left := end - time.monotonic()) > 0:
            thread.join(min(left, LOOK_EVERY))
            if thread.is_alive() and pair.overlooked():
                pair.stop()
                thread.join(10)
                raise Overlooked("siw has overlooked a call on the server")
        if thread.is_alive():
            hang = pair.describe_hang()
            tails = "\n".join(guest.console_tail() for guest in pair.guests)
            pair.stop()
            thread.join(10)
            raise Overrun(f"over its time limit of {limit:.0f} s\n{hang}\n{tails}")
        if outcome[0] is not None:
            raise outcome[0]

    def _judge(self, test: Test, pair: Pair) -> None:
        """The kernel logs decide too."""
        allowed = [*test.allowed, *(native.ALLOWED if self.options.accel == "native" else ())]
        found = klog.findings(pair.kernel_messages(), allowed)
        if found:
            raise AssertionError("kernel messages that must not be:\n" + "\n".join(map(str, found[:60])))

    def _explain(self, error: Exception) -> str:
        if isinstance(error, (GuestError, Overrun, Overlooked)):
            text = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
        else:
            text = "".join(traceback.format_exception(error)).rstrip()
        if self.pair is not None and not isinstance(error, (Overrun, Overlooked)):
            text += self._late_messages(self.pair)
        return text

    def _without_ours(self) -> bool:
        """Returns `True` if the kernel of a server without our module has the fault that `GID_TABLE` names."""
        if self.pair is None or self.pair.options.server == "ours":
            return False
        return bool(GID_TABLE.search(self.pair.server.console_tail(200)))

    def _reported(self) -> bool:
        """Returns `True` if a kernel has a report, or no longer answers."""
        if self.pair is None:
            return False
        try:
            return any(klog.REPORTS.search(m.text) for m in self.pair.kernel_messages())
        except GuestError:
            return any(klog.REPORTS.search(guest.console_tail(200)) for guest in self.pair.guests)

    @staticmethod
    def _late_messages(pair: Pair) -> str:
        """The kernels' messages about a failure."""
        try:
            found = [m for m in pair.kernel_messages() if klog.is_finding(m)]
        except GuestError:
            return "\n" + "\n".join(guest.console_tail() for guest in pair.guests if not guest.alive)
        return "\nkernel messages:\n" + "\n".join(map(str, found[:60])) if found else ""

    def _close_group(self) -> None:
        """On a kernel that can tell, memory lost during the tests of a file is a failure of its own."""
        reports = {guest.name: kmemleak.leaks(guest) for guest in self.leaks_watched if guest.alive}
        if reports:
            bad = any(reports.values())
            self.passed, self.failed = self.passed + (not bad), self.failed + bad
            print(f"{'not ok' if bad else 'ok    '} {self.group}: no memory leaked")
            for name, text in reports.items():
                if text:
                    self.tap.bad(f"memory leaked in {name}\n{text[:8000]}")
                    print(indent(f"{name}:\n{text[:8000]}"))
        self.drop_pair()
        self.tap.end_group()

    def drop_pair(self) -> None:
        """Ends the guests."""
        self.leaks_watched = []
        if self.pair is not None:
            self.pair.stop()
            self.pair = None


def by_group(tests: list[Test]) -> Iterator[tuple[str, list[Test]]]:
    """The files of the tests, each with its tests, in their order."""
    return ((group, list(some)) for group, some in groupby(tests, lambda test: test.group))


def by_file(some: list[Test], tests: list[Test]) -> str:
    """The files of some of the tests, in their order, each with how many they are, and whether that is all of the file."""
    every = Counter(test.group for test in tests)
    counts = Counter(test.group for test in some).items()
    return ", ".join(f"{group} {count}{' (all)' if count == every[group] else ''}" for group, count in counts)


def bring_up(options: Options, boots: int = 2) -> Pair:
    """A started pair whose boot messages have no reports; other messages of the boot do not count.

    A report from before our module was loaded is the kernel's own, and costs another boot. So does a QEMU that ends by
    itself, or whose guest stands still: two emulated processors now and then trip over each other while they boot.
    """
    pair = Pair(options)
    try:
        pair.start()
        messages = pair.kernel_messages()
        reports = [m for m in messages if klog.REPORTS.search(m.text)]
        loaded = {
            guest.name: min(
                (m.seconds for m in messages if m.guest == guest.name and OURS.match(m.text)), default=math.inf
            )
            for guest in pair.guests
        }
        if reports and boots > 1 and all(m.seconds < loaded[m.guest] for m in reports):
            print(f"again  boot, because of a report before any module of ours: {reports[0]}")
            pair.stop()
            return bring_up(options, boots - 1)
        if reports:
            raise AssertionError("reports at boot:\n" + "\n".join(map(str, reports)))
    except BaseException as error:
        if isinstance(error, DiedAtBoot) and boots > 1:
            print("again  boot, because " + "\n    ".join(str(error).splitlines()[:2]))
            pair.stop()
            return bring_up(options, boots - 1)
        for guest in pair.guests:
            if not isinstance(error, CommandFailed):
                error.add_note(guest.console_tail())
        pair.stop()
        raise
    return pair
