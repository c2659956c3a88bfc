# SPDX-License-Identifier: GPL-2.0
"""Makes what the client executes independent of how fast the machine is: it and the server take turns.

How many interrupts, polls and task switches a reply costs depends on whether its frames come one by one or together,
and that on how the host schedules two emulators. So frames for the client are held back in its emulator until both
guests have nothing left to do, and then given to it all at once.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.guest import Guest
from harness.network import CLIENT, SERVER

HOLD = "hold"
FOREVER = 4_000_000_000  # microseconds: after that the filter would let go by itself
PAUSE = 0.0001  # seconds between two looks


class Lockstep:
    """Whoever lets the guests take turns, in a thread of its own."""

    def __init__(self, client: Guest, server: Guest):
        self._client = client
        self._tasks = [Path(f"/proc/{guest.pid}/task") for guest in (client, server)]
        self._stop = threading.Event()
        self.turns = 0
        client.monitor.call(
            "object-add",
            **{"qom-type": "filter-buffer", "id": HOLD, "netdev": "n0", "queue": "tx", "interval": FOREVER},
            status="off",
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """The guests take turns inside the block."""
        self._hold(True)
        self._stop.clear()
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            self._hold(False)

    def _hold(self, on: bool) -> None:
        self._client.monitor.call("qom-set", path=f"/objects/{HOLD}", property="status", value="on" if on else "off")

    def _run(self) -> None:
        given = -1
        while not self._stop.is_set():
            if not self._idle():
                time.sleep(PAUSE)
                continue
            frames = counters()
            # Idle means nothing if a frame was on its way between two looks.
            if frames[CLIENT.tap] == given or not self._idle() or counters() != frames:
                time.sleep(PAUSE)
                continue
            given = frames[CLIENT.tap]
            self._hold(False)
            self._hold(True)
            self.turns += 1

    def _idle(self) -> bool:
        """Whether no thread of an emulator runs or wants to: one that waits for a processor counts as running."""
        return not any(state(path) in "RD" for tasks in self._tasks for path in tasks.iterdir())


def state(task: Path) -> str:
    """A thread's state letter."""
    try:
        fd = os.open(task / "stat", os.O_RDONLY)
    except OSError:
        return "X"
    try:
        return os.read(fd, 200).decode(errors="replace").rpartition(")")[2][1]
    finally:
        os.close(fd)


def counters() -> dict[str, int]:
    """Frames that the host gave to each guest so far."""
    text = Path("/proc/net/dev").read_text(encoding="ascii")
    rows = {name: numbers.split() for name, numbers in re.findall(r"^\s*(\S+):(.*)$", text, re.M)}
    return {end.tap: int(rows[end.tap][9]) for end in (SERVER, CLIENT)}
