# SPDX-License-Identifier: GPL-2.0
"""Makes the instructions of a guest that counts independent of the speed of the machine: it and the other take turns.

The number of interrupts, polls and task switches for a message depends on its frames coming one by one or together, and that
on the host's scheduling of two emulators. The number of timer ticks that the counting guest sees depends on its time spent
waiting. So once it has nothing left to do it is stopped, clock and all; frames for it are held back until the other guest has
nothing left to do, either; then it gets all of them and runs again. The other is stopped while it runs: it takes seconds to
reply to requests for many megabytes, which the other would repeat before that.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from guests.harness.guest import Guest
from guests.harness.network import ip

HOLD = "hold"
FOREVER = 4_000_000_000  # microseconds: after that the filter would let go by itself
QUEUE = 50_000  # frames that wait for a guest while it is stopped
PAUSE = 0.00005  # seconds between two looks


class Lockstep:
    """Lets the guests take turns, in a thread of its own."""

    def __init__(self, counted: Guest, other: Guest, tap: str, other_tap: str):
        self._counted = counted
        self._other = other
        self._tap = tap
        self._taps = (tap, other_tap)
        self._threads = {guest: Path(f"/proc/{guest.pid}/task") for guest in (counted, other)}
        self._stop = threading.Event()
        self.turns = 0
        for name in self._taps:
            ip("link", "set", name, "txqueuelen", str(QUEUE))
        counted.monitor.call(
            "object-add",
            **{"qom-type": "filter-buffer", "id": HOLD, "netdev": "n0", "queue": "tx", "interval": FOREVER},
            status="off",
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """The guests take turns inside the block."""
        self._hold(True)
        self._other.monitor.call("stop")
        self._stop.clear()
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            self._other.monitor.call("cont")
            self._hold(False)

    def _hold(self, on: bool) -> None:
        self._counted.monitor.call("qom-set", path=f"/objects/{HOLD}", property="status", value="on" if on else "off")

    def _run(self) -> None:
        given = -1
        while not self._stop.is_set():
            if not self._idle(self._counted):
                time.sleep(PAUSE)
                continue
            self._counted.monitor.call("stop")
            self._other.monitor.call("cont")
            frames = self._other_turn()
            if frames != given:
                self._other.monitor.call("stop")
            self._hold(False)
            self._hold(True)
            self._counted.monitor.call("cont")
            self.turns += 1
            if frames == given:
                # Nothing for it: each waits for its own clock.
                self._wait_for_counted(frames)
                self._other.monitor.call("stop")
            given = frames

    def _other_turn(self) -> int:
        """Waits until the other has nothing left to do. Returns the frames so far for the guest that counts."""
        frames = self._sent()
        while not self._stop.is_set():
            # Idle means nothing if a frame was on its way between two looks.
            before, frames = frames, self._sent()
            if frames == before and self._idle(self._other) and self._sent() == frames:
                break
            time.sleep(PAUSE)
        return frames[self._tap]

    def _wait_for_counted(self, frames: int) -> None:
        """Waits until the guest that counts does something, or has something to do."""
        while not self._stop.is_set() and self._sent()[self._tap] == frames and self._idle(self._counted):
            time.sleep(PAUSE)

    def _idle(self, guest: Guest) -> bool:
        """True when no thread of an emulator runs or wants to: one that waits for a processor counts as running.

        One thread may set another going before it is looked at and after the other was, so it looks twice.
        """
        return not any(state(path) in "RD" for _ in range(2) for path in self._threads[guest].iterdir())

    def _sent(self) -> dict[str, int]:
        """Frames that the host gave to each guest so far."""
        text = Path("/proc/net/dev").read_text(encoding="ascii")
        rows = {name: numbers.split() for name, numbers in re.findall(r"^\s*(\S+):(.*)$", text, re.M)}
        return {name: int(rows[name][9]) for name in self._taps}


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
