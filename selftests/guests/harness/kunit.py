# SPDX-License-Identifier: GPL-2.0
"""Runs the module's KUnit tests in a guest and reads their results (KTAP) from debugfs."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass

from . import klog
from .config import Options
from .guest import Guest, indent

RESULTS = "/sys/kernel/debug/kunit"
LINE = re.compile(r"^(\s*)(not ok|ok) \d+ (?:- )?(\S+)(.*)$")


@dataclass(frozen=True)
class Case:
    """One test of a suite."""

    suite: str
    name: str
    verdict: str  # ok, not ok or skip


def parse(suite: str, text: str) -> list[Case]:
    """The tests of one results file: the lines below the suite's own, which stands leftmost."""
    found = [match for match in map(LINE.match, text.splitlines()) if match]
    return [Case(suite, m[3], "skip" if "# SKIP" in m[4] else m[2]) for m in found if m[1]]


def suites(guest: Guest) -> set[str]:
    """The names of the suites that are there."""
    return set(guest.run(f"ls {RESULTS}").out.split())


def run(options: Options) -> int:
    """Boots a guest, loads the module, and prints every result."""
    guest = Guest("kunit", options, modprobe="install rpcrdma /bin/false\n")
    shutil.copy(options.module, guest.share / options.module.name)
    try:
        guest.start()
        guest.wait_ready()
        before = suites(guest)
        guest.kernel_records()
        guest.run(f"modprobe -a sunrpc rdma_cm; insmod /share/{options.module.name} {options.module_parameters}", 120)
        ours = sorted(suites(guest) - before)
        results = {name: guest.run(f"cat {RESULTS}/{name}/results").out for name in ours}
        unload = guest.run(f"rmmod {options.module.stem}", check=False)
        messages = klog.parse(guest.name, guest.kernel_records())
    finally:
        guest.stop()
    return report(results, messages, unload.rc == 0)


def report(results: dict[str, str], messages: list[klog.Message], unloaded: bool) -> int:
    """Prints the results; 0 if tests ran and all is well."""
    cases = [case for suite, text in results.items() for case in parse(suite, text)]
    for case in cases:
        print(f"{case.verdict:6} {case.suite}: {case.name}")
    bad = [m for m in messages if klog.REPORTS.search(m.text) or "not ok" in m.text or "EXPECTATION FAILED" in m.text]
    if bad:
        print("kernel messages:\n" + indent("\n".join(map(str, bad[:80]))))
    for suite in sorted(set(results) - {case.suite for case in cases}):
        print(f"not ok {suite}: no results:\n{indent(results[suite])}")
    count = {verdict: sum(case.verdict == verdict for case in cases) for verdict in ("ok", "not ok", "skip")}
    if not unloaded:
        print("not ok the module could not be unloaded")
    if not cases:
        print("not ok the module brought no KUnit test: was it built with its tests?")
    failures = count["not ok"] + (not unloaded) + (not cases) + (bool(bad) and not count["not ok"])
    print(f"{count['ok']} passed, {failures} failed, {count['skip']} skipped in {len(results)} suites")
    return 1 if failures else 0
