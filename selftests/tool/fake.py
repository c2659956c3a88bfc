# SPDX-License-Identifier: GPL-2.0
"""The command `rpcrdma`, loaded as a module, over directories that look like the kernel module's."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from unittest import mock

REPO = Path(__file__).resolve().parents[2]
TOOL = REPO / "tools/rpcrdma"

# As `view.rs` prints them; the second peer is longer than its column.
TABLE = """\
side   xprt peer                                     device   netns      state         since ver   call by    reply by   inval  \
asked grant  used  wait for           recvs   mrs     KiB rule
client 3    192.0.2.1 port 20049                     rxe0     4026531840 connected      120s 2     4096 own    2048 peer on     \
  128    64     3     0 nothing          131     6    1080 none
client 14   fe80:1111:2222:3333:4444:5555:6666:7777%enp129s0f0np0 port 20049 mlx5_0   4026532001 connected        7s 1     8192 \
both   8192 both off       32    32    32     5 its turn         160    12    2096 12
client 20   2001:db8::9 port 20050                   -        4026531840 connecting  \n\
server 3    192.0.2.8 port 41234                     rxe0     4026531840 connected       60s 0     4096 both   1024 peer \
off       128    32     2     1 buffers         40     0      52 none
"""

TRANSPORT = """\
peer 192.0.2.1 port 20049
state connected
netns 4026531840
calls_waiting 0
waits_for nothing
device rxe0 port 1
gid 0000:0000:0000:0000:0000:ffff:c000:0202
protocol 2 (of auto)
since 120 s
rule none
private_data_sent f6ab0e1801010303
private_data_received 0102030405060708
we_said that: send 4096 receive 4096 remote_invalidation on
server_said that: send 2048 receive 16384 remote_invalidation on
inline_call 4096 limited by own
inline_reply 2048 limited by peer
remote_invalidation on (asked for: strict)
reverse on
receive_size 4096 next 16384 left 5
peer_receive_size 16384 requested 65536
credits asked 128 granted 64 used 3 abandoned 0
receives posted 131 of 136
sends posted 2 of 40
registrations used 6 of 16
memory 1080 KiB of 32768
remote_invalidates 17
late_replies 2
closed 130 s ago, after 20 s: the server hung up
failed 140 s ago: resolving the address: no route (-101)
"""
# Of a server without private data, with a rule whose name is a number.
SILENT = """\
peer fe80:1111:2222:3333:4444:5555:6666:7777%enp129s0f0np0 port 20049
state connected
netns 4026532001
calls_waiting 5
waits_for its turn
version_1 answered, for 3588 s
device mlx5_0 port 2
gid fe80:0000:0000:0000:0000:0000:0000:0002
since 7 s
rule 12
private_data_sent none
private_data_received none
we_said nothing, so: send 1024 receive 1024 remote_invalidation off
server_said nothing, so: send 1024 receive 1024 remote_invalidation off
inline_call 1024 limited by both
inline_reply 1024 limited by both
remote_invalidation off (asked for: on)
reverse off
receive_size 1024
peer_receive_size 1024
credits asked 32 granted 32 used 32 abandoned 1
registrations used 12 of 16
memory 2096 KiB of 32768
remote_invalidates 0
late_replies 0
"""
IDLE = """\
peer 2001:db8::9 port 20050
state connecting
netns 4026531840
calls_waiting 2
waits_for connection
remote_invalidates 0
late_replies 0
failed 3 s ago: connecting: refused (28)
"""

# A client without private data.
SERVED = """\
peer 192.0.2.8 port 41234
state connected
netns 4026531840
replies_waiting 1
waits_for buffers
device rxe0 port 1
gid 0000:0000:0000:0000:0000:ffff:c000:0202
protocol 2 (of auto)
since 60 s
rule none
private_data_sent f6ab0e1801010303
we_said that: send 4096 receive 4096 remote_invalidation on
client_said nothing, so: send 1024 receive 1024 remote_invalidation off
inline_call 4096 limited by both
inline_reply 1024 limited by peer
remote_invalidation off (asked for: on)
reverse on
receive_size 4096
peer_receive_size 1024
credits asked 128 granted 32 used 2 most 128
receives posted 40 of 41
sends posted 8 of 8
registrations used 0 of 0
memory 52 KiB of 32768
server_memory 904 KiB of 1048576
arguments 1028 KiB of 4104, 3 calls wait
server_arguments 2056 KiB of 1048576
received 1000
calls 990
"""

PARAMETERS = {
    "max_inline_send": 4096,
    "max_inline_receive": 4096,
    "credits": 128,
    "remote_invalidation": 2,
    "private_data": 1,
    "reverse": 0,
    "memory": 32768,
    "server_inline": 4096,
    "server_credits": 64,
    "server_connections": 65536,
    "version": 1,
    "inline_max": 1024,
}
OPTIONS = "rw,vers=4.2,proto=rdma,port=20049,addr=192.0.2.1"


@dataclass
class Done:
    """The result of a command."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> object:
        """The output as JSON."""
        return json.loads(self.out)


def load() -> ModuleType:
    """The tool as a module."""
    loader = SourceFileLoader("rpcrdma_tool", str(TOOL))
    with mock.patch.object(sys, "dont_write_bytecode", True):
        module = module_from_spec(spec_from_loader(loader.name, loader))
        loader.exec_module(module)
    return module


class ToolTest(unittest.TestCase):
    """A test with a fake of each directory that the tool uses."""

    def setUp(self) -> None:
        """Makes the directories, with three transports, a client's connection, and no rule."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.places = {
            name: self.root / name.lower() for name in ("SIGHT", "RULES", "PARAMETERS", "MODULES", "DEVICES")
        }
        for place in self.places.values():
            place.mkdir()
        self.places["MOUNTS"] = self.root / "mounts"
        self.sight, self.rules = self.places["SIGHT"], self.places["RULES"]
        (self.places["MODULES"] / "rpcrdma_rs").mkdir()
        (self.sight / "connections").write_text(TABLE)
        for number, text in ((3, TRANSPORT), (14, SILENT), (20, IDLE)):
            (self.sight / f"xprt-{number}").write_text(text)
        (self.sight / "svc-3").write_text(SERVED)
        for name, value in PARAMETERS.items():
            (self.places["PARAMETERS"] / name).write_text(f"{value}\n")
        self.mount("/mnt")
        self.tool = load()
        for name, place in self.places.items():
            setattr(self.tool, name, place)

    def mount(self, point: str, options: str = OPTIONS, kind: str = "nfs4") -> None:
        """Mounts something after the others, if only in the list of mounts."""
        with self.places["MOUNTS"].open("ab") as file:
            file.write(f"server:/ {point} {kind} {options} 0 0\n".encode())

    def rule(self, name: str, **values: object) -> None:
        """A rule as configfs shows it."""
        (self.rules / name).mkdir()
        for attribute in (*self.tool.MATCH, *self.tool.SETTINGS):
            none = "client" if attribute == "side" else "any" if attribute in self.tool.MATCH else "default"
            (self.rules / name / attribute).write_text(f"{values.get(attribute, none)}\n")

    def run_tool(self, *words: str) -> Done:
        """Runs a command in this process."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "argv", [str(TOOL), *words]),
        ):
            try:
                status = self.tool.main()
            except SystemExit as end:
                status = end.code or 0
        return Done(status, out.getvalue(), err.getvalue())

    def start(self, *words: str, **streams: object) -> subprocess.Popen:
        """Starts a command in a process of its own."""
        places = {name: str(place) for name, place in self.places.items()}
        script = (
            f"import sys; from pathlib import Path; from tool.fake import load; tool = load(); places = {places!r}\n"
        )
        script += "[setattr(tool, name, Path(place)) for name, place in places.items()]\n"
        # A run in the background begins with Ctrl-C ignored. No command that is not ended outlives its test for long.
        script += "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); signal.alarm(120)\n"
        script += f"sys.argv = {['rpcrdma', *words]!r}; sys.exit(tool.main())"
        # As a user has it, with buffered output.
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.Popen([sys.executable, "-c", script], cwd=REPO / "selftests", env=env, text=True, **streams)

    def refused(self, status: int, part: str, *words: str) -> None:
        """A command ends with a status, no output, and one line on standard error that has a part, after the usage."""
        done = self.run_tool(*words)
        said = [line for line in done.err.splitlines() if not line.startswith(("usage:", " "))]
        self.assertEqual((done.status, done.out, len(said)), (status, "", 1), done)
        self.assertIn(part, said[0])
