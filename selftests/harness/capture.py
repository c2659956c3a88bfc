# SPDX-License-Identifier: GPL-2.0
"""Captures a guest's frames in QEMU, and has tshark decode them, independently of our own encoder."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .guest import Guest
from .registry import Skip


class Capture:
    """Frames of one guest, in a file that tshark can read once the capture has ended."""

    def __init__(self, guest: Guest, name: str):
        directory = guest.options.logs or guest.directory
        self.path = directory / f"{name}.pcap"
        self._guest = guest
        self._object = f"capture-{name}"

    def start(self) -> None:
        """Begins."""
        self._guest.monitor.call(
            "object-add",
            **{"qom-type": "filter-dump", "id": self._object, "netdev": "n0", "file": str(self.path), "maxlen": 5000},
        )

    def stop(self) -> None:
        """Ends. QEMU has left the virtio headers out, which versions before 8 did not."""
        self._guest.monitor.call("object-del", id=self._object)

    def decode(self, display_filter: str, *fields: str) -> list[list[str]]:
        """The fields of the frames that pass the filter; a field that occurs often is joined by commas."""
        words = [word for field in fields for word in ("-e", field)]
        out = tshark(self.path, "-Y", display_filter, "-T", "fields", *words)
        return [line.split("\t") for line in out.splitlines()]


def tshark(path: Path, *words: str) -> str:
    """The output of tshark."""
    done = subprocess.run(["tshark", "-n", "-r", str(path), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"tshark: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def capturing(guest: Guest, name: str) -> Iterator[Capture]:
    """Captures the frames on the guest's link inside the block."""
    if guest.options.accel == "native":
        raise Skip("frames are captured in QEMU")
    capture = Capture(guest, name)
    capture.start()
    try:
        yield capture
    finally:
        capture.stop()
