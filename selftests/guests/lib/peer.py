# SPDX-License-Identifier: GPL-2.0
"""The peer of selftests/guests/peer: starts it in the server guest, reads its events, mounts its export."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

from guests.harness.guest import Guest, GuestError, indent
from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until

PEER = Path(__file__).parents[1] / "peer"
START_LIMIT = 40.0  # seconds, before stretching: an emulated guest takes long to start Python
EVENT_LIMIT = 20.0

# Each peer has a port of its own, away from the in-tree server's, so that a port in the log belongs to one peer.
PORTS = itertools.count(20100)

# Nothing is cached, so that each look-up reaches the peer; one without a reply ends.
OPTIONS = "soft,timeo=100,retrans=2,retry=0,noacl,lookupcache=none,noac"

LOG_LINE = re.compile(
    r"port (?P<port>\d+): connected over (?P<device>\S+): private data sent (?P<sent>[0-9a-f]{16}|none), "
    r"received (?P<received>[0-9a-f]{16}|none); inline thresholds: call (?P<call>\d+) reply (?P<reply>\d+) bytes; "
    r"(?P<credits>\d+) credits asked for; (?:rule (?P<rule>\S+)|no rule)"
)

Event = dict[str, object]


@dataclass(frozen=True)
class Logged:
    """One connection, by the client's kernel log."""

    sent: str
    received: str
    call: int
    reply: int
    credits: int
    rule: str | None = None


def connections(client: Guest, port: int) -> list[Logged]:
    """The connections to a port of the server in the client's log, oldest first."""
    text = client.run("dmesg").out
    found = [match for match in LOG_LINE.finditer(text) if int(match["port"]) == port]
    return [
        Logged(m["sent"], m["received"], int(m["call"]), int(m["reply"]), int(m["credits"]), m["rule"]) for m in found
    ]


class Peer:
    """A peer that runs in the server guest."""

    def __init__(self, pair: Pair, *options: str):
        self.pair = pair
        self.port = next(PORTS)
        self._orders = f"/tmp/peer-{self.port}"
        self._number = 0
        words = ["--port", str(self.port), "--orders", self._orders, *options]
        if not (pair.server.share / "peer").exists():
            shutil.copytree(PEER, pair.server.share / "peer", ignore=shutil.ignore_patterns("__pycache__"))
        # With the directory as its program, Python imports from there although it is isolated.
        self._script = f"modprobe -a rdma_ucm ib_uverbs; exec python3 -I -S -B /share/peer {shlex.join(words)}"
        self._job = pair.server.spawn(self._script)
        self._pid = self.wait(lambda event: event["event"] == "listening", "listening", START_LIMIT)["pid"]

    def _sync(self) -> None:
        """Waits for the events that the peer has written and the channel has not delivered yet."""
        before = sum(event["event"] == "sync" for event in self.events)
        self.pair.server.run(f"kill -USR1 {self._pid}")
        what = "peer: in step"
        limit = EVENT_LIMIT * self.pair.options.slowness
        wait_until(lambda: sum(event["event"] == "sync" for event in self.events) > before, what, limit, 0.02)

    @property
    def events(self) -> list[Event]:
        """The events so far. A line that is none of ours is the trace of a failure."""
        *lines, _ = self._job.text.split("\n")
        try:
            return [json.loads(line) for line in lines]
        except ValueError:
            raise GuestError(f"the peer failed:\n{indent(self._job.text)}") from None

    def of(self, kind: str) -> list[Event]:
        """The events of one kind that have happened until now."""
        self._sync()
        return [event for event in self.events if event["event"] == kind]

    def wait(self, condition: Callable[[Event], bool], what: str, limit: float = EVENT_LIMIT) -> Event:
        """The first event that meets the condition, as soon as it has happened."""
        found: list[Event] = []

        def happened() -> bool:
            found.extend(event for event in self.events if condition(event))
            return bool(found)

        try:
            wait_until(happened, f"peer: {what}", limit * self.pair.options.slowness)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None
        return found[0]

    def order(self, order: str, **words: int | list[str] | None) -> Event:
        """Sends an order (see orders.py); returns the event that confirms it."""
        self._number += 1
        number = self._number
        line = json.dumps({"order": order, "number": number, **words})
        self.pair.server.run(f"echo {shlex.quote(line)} >{self._orders}")
        return self.wait(lambda event: event["event"] == "order" and event["number"] == number, f"order {order}")

    def messages(self, program: int | None = None, procedure: int | None = None) -> list[Event]:
        """The messages that the peer has received; with arguments, the inline calls of an RPC procedure."""
        messages = self.of("message")
        if program is None:
            return messages
        wanted = (program, procedure)
        return [m for m in messages if isinstance(c := m["rpc"], dict) and (c["prog"], c["proc"]) == wanted]

    def told(self, messages: list[bytes], what: str, count: int = 1) -> list[Event]:
        """Has it send messages, behind which a call is made of the mount; the messages that it has received since."""
        before = len(self.messages())
        self.order("send", messages=[message.hex() for message in messages], count=count)
        self.pair.client.run(f"ls {MOUNT_POINT}/{what} 2>&1 || true")
        # The look-up, at least.
        limit = EVENT_LIMIT * self.pair.options.slowness
        wait_until(lambda: any(m["name"] == what for m in self.messages()[before:]), f"no {what}", limit)
        return self.messages()[before:]

    def lookups(self, name: str) -> list[Event]:
        """The LOOKUP calls for a name."""
        return [m for m in self.messages() if m["name"] == name]

    def let_go(self) -> None:
        """Has it send the oldest reply that it has kept."""
        self.pair.server.run(f"kill -USR2 {self._pid}")

    def mount_command(self, options: str = "", vers: str = "3", where: str = MOUNT_POINT) -> str:
        """The shell command that mounts the peer; the server's own mount daemon gives the file handle away.

        A mount with another version than 3 does not get beyond the NULL call.
        """
        words = [f"vers={vers},proto=rdma,port={self.port}", *(["nolock,mountproto=tcp"] if vers == "3" else [])]
        words += [OPTIONS, *([options] if options else [])]
        return f"mount -t nfs -o {','.join(words)} {SERVER.ipv4}:/export {where}"

    @contextmanager
    def mounted(self, options: str = "", where: str = MOUNT_POINT) -> Iterator[None]:
        """Mounts the peer for the block. After a failure nothing is tidied: the guests are dropped."""
        self.pair.client.run(f"mkdir -p {where}; {self.mount_command(options, where=where)}", 60)
        yield
        self.pair.client.run(f"umount {where} || umount -f {where}", 60)

    def connections(self) -> list[Logged]:
        """The connections to this peer in the client's log."""
        return connections(self.pair.client, self.port)

    def tail(self, count: int = 25) -> str:
        """The last events, for error messages."""
        return f"last events of the peer:\n{indent(chr(10).join(self._job.text.splitlines()[-count:]))}"

    def stop(self) -> None:
        """Ends the peer; its connections end with it."""
        self._job.kill()
        done = self.pair.server.finish(self._job, self._script, 10, check=False)
        if done.rc != -SIGKILL:
            raise GuestError(f"the peer ended by itself, with status {done.rc}:\n{indent(done.out)}")


@contextmanager
def peer(pair: Pair, *options: str) -> Iterator[Peer]:
    """A peer for the block. If the block fails, its error has the last events of the peer."""
    server = Peer(pair, *options)
    try:
        yield server
    except BaseException as error:
        error.add_note(server.tail())
        raise
    finally:
        server.stop()
