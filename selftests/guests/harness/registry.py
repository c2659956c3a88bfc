# SPDX-License-Identifier: GPL-2.0
"""The registry of the tests."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .needs import lacking_natively, lacks_device, missing

if TYPE_CHECKING:
    from .config import Options
    from .pair import Pair


class Skip(Exception):
    """Raised by a test that does not apply to this run; the text is the reason."""


@dataclass(frozen=True)
class Test:
    """One registered test."""

    name: str
    group: str
    function: Callable[[Pair], None]
    requirements: tuple[str, ...]
    limit: float
    allowed: tuple[re.Pattern[str], ...] = ()
    device: str | None = None
    server: str | None = None
    client: str | None = None
    arguments: dict[str, object] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    emulated: str = ""
    core: bool = False

    def unfit(self, options: Options) -> str:
        """Why it cannot run on the kernels of this run, or nothing."""
        if self.emulated and options.native:
            return f"not in native guests: {self.emulated}"
        return missing(self.needs, options) or lacks_device(self.device or options.device, options)

    def beside_native(self, which: str) -> bool:
        """Whether a run in emulated guests has it beside one in native guests: `rest`, if these do not run it; `core`, if it
        is one of the core, too."""
        return bool(self.emulated) or lacking_natively(self.needs) or (which == "core" and self.core)

    @property
    def title(self) -> str:
        """The file and the name, which patterns are matched with."""
        return f"{self.group}: {self.name}"


TESTS: list[Test] = []

# The order of the files. A run that has a time limit leaves out the last ones, so the files that show most about the
# protocol come first: a peer and a device that misbehave, then lost connections, then everyday use of the in-tree
# server, which demo and bench exercise as well.
ORDER = (
    "test_hostile_server",
    "test_hostile_client",
    "test_server",
    "test_served_calls",
    "test_server_faults",
    "test_server_memory",
    "test_server_sizes",
    "test_server_view",
    "test_version_2",
    "test_characteristics",
    "test_live_sizes",
    "test_live_trouble",
    "test_callbacks",
    "test_serving",
    "test_storms",
    "test_reply_fields",
    "test_credits",
    "test_private_data",
    "test_reverse",
    "test_rules",
    "test_refusals",
    "test_real_dma",
    "test_transfer_modes",
    "test_reconnect",
    "test_recovery",
    "test_netns",
    "test_statistics",
    "test_debugfs",
    "test_troubleshooting",
    "test_documented_names",
    "test_mount_variants",
    "test_kerberos",
    "test_recall",
    "test_mount",
    "test_data",
    "test_attributes",
    "test_client_faults",
    "test_siw",
    "test_idle",
    "test_injection",
    "test_unload",
)


def test(
    name: str,
    *requirements: str,
    limit: float = 60.0,
    allowed: tuple[str, ...] = (),
    device: str | None = None,
    server: str | None = None,
    client: str | None = None,
    cases: list[dict[str, object]] | None = None,
    needs: tuple[str, ...] = (),
    emulated: str = "",
    core: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a test, which gets a started Pair.

    `requirements` are the IDs it covers, `limit` its seconds on the fast kernel, `allowed` patterns of kernel messages
    that it provokes, `device` the RDMA device it needs, `server` and `client` the transports of the guests, `cases`
    keyword arguments for one test each, which the name may use. `needs` names what not every kernel has (needs.py),
    `emulated` is the reason why native
    guests do not run it, and `core` makes it run on Debian's kernel, too, where most tests run in native guests alone.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        group = function.__module__.rpartition(".")[2]
        patterns = tuple(re.compile(text) for text in allowed)
        for case in cases or [{}]:
            title = name.format(**case)
            # A case may choose the transports, too.
            ends = (case.get("server", server), case.get("client", client))
            case = {key: value for key, value in case.items() if key not in ("server", "client")}
            TESTS.append(
                Test(title, group, function, requirements, limit, patterns, device, *ends, case, needs, emulated, core)
            )
        return function

    return register


def load() -> list[Test]:
    """All tests, the files in the order of ORDER and within a file as written, but those over iWARP last.

    So the guests boot once for each device.
    """
    from guests import tests

    files = {module.name for module in pkgutil.iter_modules(tests.__path__)}
    if files != set(ORDER):
        raise SystemExit(f"error: either ORDER or guests/tests lacks {' '.join(sorted(files ^ set(ORDER)))}")
    for name in ORDER:
        importlib.import_module(f"{tests.__name__}.{name}")
    TESTS.sort(key=lambda test: (ORDER.index(test.group), test.device == "siw"))
    return TESTS


def select(tests: list[Test], patterns: list[str], beside_native: str = "") -> list[Test]:
    """The tests whose `file: name` contains any of the patterns; all without patterns."""
    return [
        t
        for t in tests
        if (not beside_native or t.beside_native(beside_native))
        and (not patterns or any(p in t.title for p in patterns))
    ]
