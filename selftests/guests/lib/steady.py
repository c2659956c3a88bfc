# SPDX-License-Identifier: GPL-2.0
"""A program in the client that writes numbered records, without a pause."""

from __future__ import annotations

from guests.harness.pair import MOUNT_POINT, Pair, wait_until

TOOL = "python3 -I -S /share/tools/steady.py"
FILE, STATE = f"{MOUNT_POINT}/steady", "/tmp/steady"


class Writer:
    """The program that writes."""

    def __init__(self, pair: Pair):
        self._pair = pair
        pair.client.run(f"rm -f {STATE} {STATE}.enough")
        self._job = pair.client.spawn(f"{TOOL} write {FILE} {STATE}")
        self.wait_beyond(5)

    def written(self) -> int:
        """Records on the server so far."""
        return int(self._pair.client.run(f"cat {STATE} 2>/dev/null || true").out.strip() or 0)

    def wait_beyond(self, number: int) -> float:
        """Waits until it has written more than that; the seconds that took."""
        return wait_until(lambda: self.written() > number, "nothing is written", 60 * self._pair.options.slowness)

    def finish(self) -> None:
        """Ends it, and checks its records on both sides."""
        self._pair.client.run(f"touch {STATE}.enough")
        count = self._pair.client.finish(self._job, "the writer", 60).out.strip()
        assert self._pair.server.run(f"{TOOL} check /export/steady", 60).out.strip() == count, "on the server"
        self._pair.drop_caches()
        assert self._pair.client.run(f"{TOOL} check {FILE}; rm {FILE}", 60).out.strip() == count, "read back"
