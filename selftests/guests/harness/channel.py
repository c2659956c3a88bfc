# SPDX-License-Identifier: GPL-2.0
"""The harness's end of the command channel: requests by number, replies sorted to the jobs that wait for them."""

from __future__ import annotations

import queue
import socket
import threading
from dataclasses import dataclass

TURN = 5.0  # seconds that a request waits for the guest to take the one before


class ChannelClosed(Exception):
    """The guest is gone."""


@dataclass
class Result:
    """The result of a command: exit status (negative: the signal that ended it) and its output, errors included."""

    rc: int
    out: str

    @property
    def lines(self) -> list[str]:
        """The output by lines."""
        return self.out.splitlines()


class Job:
    """A command that runs in the guest."""

    def __init__(self, channel: Channel, ident: str):
        self._channel = channel
        self._ident = ident
        self._parts: list[bytes] = []
        self._done: queue.Queue[int | None] = queue.Queue()
        self.result: Result | None = None

    def wait(self, timeout: float) -> Result:
        """The result; TimeoutError leaves the command running, ChannelClosed means that the guest died."""
        if self.result is None:
            try:
                rc = self._done.get(timeout=timeout)
            except queue.Empty:
                raise TimeoutError from None
            if rc is None:
                raise ChannelClosed
            self.result = Result(rc, self.text)
        return self.result

    @property
    def ended(self) -> bool:
        """It runs no longer."""
        return self.result is not None or not self._done.empty()

    def kill(self) -> None:
        """Ends the command and all it started."""
        self._channel.send("kill", self._ident)

    @property
    def text(self) -> str:
        """The output so far."""
        return b"".join(self._parts).decode(errors="replace")

    def take(self, word: str, rest: list[str]) -> None:
        """A reply from the guest."""
        if word == "out":
            self._parts.append(bytes.fromhex(rest[0]) if rest else b"")
        else:
            self._done.put(int(rest[0]))

    def lost(self) -> None:
        """No reply will come."""
        self._done.put(None)


class Channel:
    """Listens on a unix socket for QEMU, which connects before it starts the guest."""

    def __init__(self, path: str):
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(1)
        self._socket: socket.socket | None = None
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._next = 0
        self._closed = False
        self._order = threading.Lock()
        self._taken = threading.Event()
        self._taken.set()
        self.ready = threading.Event()

    def accept(self, timeout: float) -> None:
        """Takes QEMU's connection and starts to read from it."""
        self._listener.settimeout(timeout)
        self._socket, _ = self._listener.accept()
        self._listener.close()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, *words: str) -> None:
        """One line to the guest, which has taken the line before: a serial line that is full has been seen to stop for ever.

        A guest that takes no line for some seconds gets the next one all the same.
        """
        data = (" ".join(words) + "\n").encode()
        with self._order:
            self._taken.wait(TURN)
            self._taken.clear()
            self._write(data)

    def _write(self, data: bytes) -> None:
        with self._lock:
            if self._closed or self._socket is None:
                raise ChannelClosed
            try:
                self._socket.sendall(data)
            except OSError:
                raise ChannelClosed from None

    def request(self, word: str, text: str | None = None) -> Job:
        """Starts a command."""
        with self._lock:
            self._next += 1
            ident = str(self._next)
            job = self._jobs[ident] = Job(self, ident)
        self.send(word, ident, *([] if text is None else [text.encode().hex()]))
        return job

    def _read(self) -> None:
        assert self._socket is not None
        try:
            with self._socket.makefile("rb") as stream:
                for line in stream:
                    self._dispatch(line.decode().split())
        except OSError:
            pass
        with self._lock:
            self._closed = True
            jobs = list(self._jobs.values())
        for job in jobs:
            job.lost()
        self._taken.set()
        self.ready.set()

    def _dispatch(self, words: list[str]) -> None:
        if words == ["ready"]:
            self.ready.set()
            return
        if words == ["taken"]:
            self._taken.set()
            return
        word, ident, *rest = words
        with self._lock:
            job = self._jobs.get(ident) if word == "out" else self._jobs.pop(ident, None)
        if job is not None:
            job.take(word, rest)

    @property
    def closed(self) -> bool:
        """Returns `True` if the guest is gone."""
        return self._closed

    def close(self) -> None:
        """Ends the reader."""
        if self._socket is not None:
            self._socket.close()
        self._listener.close()
