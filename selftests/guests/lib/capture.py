# SPDX-License-Identifier: GPL-2.0
"""Captures a guest's frames at its tap, and has tshark decode them, independently of our own encoder."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from guests.harness.guest import Guest

WITH_DISSECTOR = Path(__file__).parents[2] / "setup/with-dissector.sh"
ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS = 263, 6
SO_RCVBUFFORCE = 33
BUFFER = 64 << 20  # bytes of frames that wait to be written
FRAME = 1 << 18  # bytes, more than any has
POLL = 0.2  # seconds
# The head of the file (magic number, version, time zone, accuracy, longest frame, Ethernet) and of each frame.
FILE_HEAD = struct.pack("IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, FRAME, 1)
FRAME_HEAD = struct.Struct("IIII")


class Capture:
    """Frames of one guest, in a file that tshark can read once the capture has ended."""

    def __init__(self, guest: Guest, name: str, most: int = FRAME):
        self._most = most
        directory = guest.options.logs or guest.directory
        self.path = directory / f"{name}.pcap"
        assert guest.tap, f"{guest.name} has no network"
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        self._socket.settimeout(POLL)
        self._tap = guest.tap
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._socket.bind((self._tap, ETH_P_ALL))
        self._thread.start()

    def _write(self) -> None:
        with self.path.open("wb") as file:
            file.write(FILE_HEAD)
            while True:
                # Asked first: what has passed before the end is in the socket then.
                last = self._stopped.is_set()
                try:
                    frame = self._socket.recv(FRAME)
                except TimeoutError:
                    if last:
                        return
                    continue
                now = time.time_ns() // 1000
                file.write(FRAME_HEAD.pack(now // 1000000, now % 1000000, min(len(frame), self._most), len(frame)))
                file.write(frame[: self._most])

    def stop(self) -> None:
        """Ends, with all frames in the file."""
        self._stopped.set()
        self._thread.join()
        statistics = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        self._socket.close()
        _, lost = struct.unpack("II", statistics)
        assert not lost, f"{lost} frames did not get into the capture"

    def decode(self, display_filter: str, *fields: str) -> list[list[str]]:
        """The fields of the frames that pass the filter; a field that occurs often is joined by commas."""
        words = [word for field in fields for word in ("-e", field)]
        out = tshark(self.path, "-Y", display_filter, "-T", "fields", *words)
        return [line.split("\t") for line in out.splitlines()]


def tshark(path: Path, *words: str) -> str:
    """The output of tshark, which has our dissector of version 2."""
    command = [str(WITH_DISSECTOR), "tshark", "-n", "-r", str(path), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"tshark: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def capturing(guest: Guest, name: str, most: int = FRAME) -> Iterator[Capture]:
    """Captures the frames on the guest's link inside the block: of each its length, and up to `most` bytes."""
    capture = Capture(guest, name, most)
    capture.start()
    try:
        yield capture
    finally:
        capture.stop()
