# SPDX-License-Identifier: GPL-2.0
"""A readable transcript of one mount: modules, negotiated terms, transfers, and the objects that are left.

The transport under test is at the client, at the server, or at both.
"""

from __future__ import annotations

import re
import time

from . import klog
from guests.lib import corpus, resources
from guests.lib.capture import Capture, capturing
from .config import Options
from .guest import Guest
from guests.lib.mountstats import MEANING, SUSPICIOUS, named, of_mount, own
from .network import CLIENT, SERVER
from .pair import MOUNT_POINT, Pair
from .runner import bring_up

NAMES = {"ours": "rpcrdma_rs", "in-tree": "rpcrdma"}
IDENTIFIER = "f6ab0e18"
SEND_WITH_INVALIDATE = {
    "rxe": "infiniband.bth.opcode in {22,23}",
    "siw": "iwarp_rdma.opcode in {4,6}",
}


class Demo:
    """The transcript, and whether all that it promises came true."""

    def __init__(self, options: Options):
        self.options = options
        self.broken: list[str] = []
        self.start = time.monotonic()

    def title(self, text: str) -> None:
        """Begins a chapter."""
        print(f"\n== {text} [{time.monotonic() - self.start:.0f} s]")

    def promise(self, kept: bool, text: str) -> None:
        """Prints a fact that must be true."""
        print(f"   {'yes' if kept else 'NO '}  {text}")
        if not kept:
            self.broken.append(text)

    def run(self) -> int:
        """The whole story; 0 if every promise was kept."""
        server, client = NAMES[self.options.server], NAMES[self.options.client]
        self.title(f"two guests boot: an NFS server with {server}, a client with {client}")
        pair = bring_up(self.options)
        try:
            print("   " + pair.client.run("uname -srvm").out.strip())
            self._modules(pair)
            with capturing(pair.client, "demo") as capture:
                self._mount(pair)
                self._first_file(pair)
            self._private_data(pair, capture)
            self._module_says(pair)
            self._copy(pair)
            self._statistics(pair)
            self._end(pair)
        finally:
            pair.stop()
        self.title("done")
        for text in self.broken:
            print(f"   not as promised: {text}")
        return 1 if self.broken else 0

    def _modules(self, pair: Pair) -> None:
        self.title("modules of both")
        for guest, transport in ((pair.server, self.options.server), (pair.client, self.options.client)):
            names = {line.split()[0] for line in guest.run("cat /proc/modules").lines}
            shown = sorted(n for n in names if re.search("rdma|rpc|rxe|siw|nfs|ib_|cm$", n))
            print(f"   {guest.name}: {' '.join(shown)}")
            for other, module in NAMES.items():
                expected = other == transport
                words = f"{module} is {'' if expected else 'not '}loaded"
                self.promise((module in names) == expected, f"in the {guest.name}, {words}")

    def _mount(self, pair: Pair) -> None:
        self.title("mount")
        pair.mount("4.2")
        line = pair.client.run(f"grep ' {MOUNT_POINT} ' /proc/mounts").out.strip()
        print(f"   {line}")
        self.promise("proto=rdma," in line, "the mount goes over RDMA")

    def _first_file(self, pair: Pair) -> None:
        """A few operations of each kind for the capture."""
        pair.client.run(
            f"cd {MOUNT_POINT}; head -c 100000 /dev/zero >first; sync; cat first >/dev/null; ls -l >/dev/null"
        )

    def _private_data(self, pair: Pair, capture: Capture) -> None:
        self.title("RDMA-CM private data (RFC 8797), as tshark reads it from the wire")
        if self.options.device == "rxe":
            sent = capture.decode("infiniband.cm.req.ip_cm", "infiniband.cm.req.ip_cm.private")
            received = capture.decode("infiniband.cm.rep.private", "infiniband.cm.rep.private")
            pairs = [(sent, f"ConnectRequest from {CLIENT.ipv4}"), (received, f"ConnectReply from {SERVER.ipv4}")]
        else:
            sent = capture.decode("iwarp_mpa.privatedata && iwarp_mpa.req", "iwarp_mpa.privatedata")
            received = capture.decode("iwarp_mpa.privatedata && iwarp_mpa.rep", "iwarp_mpa.privatedata")
            pairs = [(sent, f"MPA request from {CLIENT.ipv4}"), (received, f"MPA reply from {SERVER.ipv4}")]
        messages = [self._message(rows, name) for rows, name in pairs]
        if all(messages):
            (ours_send, ours_receive), (peer_send, peer_receive) = messages
            print(f"   in force: calls inline up to {min(ours_send, peer_receive)} bytes, ", end="")
            print(f"replies up to {min(peer_send, ours_receive)} bytes")
        count = len(capture.decode(SEND_WITH_INVALIDATE[self.options.device], "frame.number"))
        print(f"   replies on the wire that invalidate a handle (Send With Invalidate): {count}")

    def _message(self, rows: list[list[str]], name: str) -> tuple[int, int] | None:
        """Prints one side's message; its send and receive sizes in bytes."""
        data = bytes.fromhex(rows[0][0].split(",")[0].replace(":", "")) if rows else b""
        at = data.find(bytes.fromhex(IDENTIFIER))
        self.promise(at >= 0 and len(data) >= at + 8, f"{name} carries the message")
        if at < 0 or len(data) < at + 8:
            print(f"        bytes: {data.hex()}")
            return None
        version, flags, send, receive = data[at + 4 : at + 8]
        print(f"        {data[at : at + 4].hex()} {data[at + 4 : at + 8].hex(' ')}   ", end="")
        print(f"version {version}, remote invalidation {'yes' if flags & 1 else 'no'}, ", end="")
        print(f"sends up to {(send + 1) * 1024}, receives up to {(receive + 1) * 1024} bytes")
        return (send + 1) * 1024, (receive + 1) * 1024

    def _module_says(self, pair: Pair) -> None:
        self.title("messages and files of the module")
        self._messages = pair.kernel_messages()
        for message in self._messages:
            if re.search(r"rpcrdma|threshold|inline", message.text):
                print(f"   log of the {message.guest}: {message.text}")
        for guest in pair.guests:
            print(self._debugfs(guest) or f"   (no files in debugfs of the {guest.name})")

    @staticmethod
    def _debugfs(guest: Guest) -> str:
        """All files that the module shows in a guest, each line with its file's name."""
        done = guest.run("cd /sys/kernel/debug/rpcrdma_rs && grep -r . . || true", check=False)
        return "\n".join(
            f"   debugfs of the {guest.name}: {line.removeprefix('./')}"
            for line in done.lines
            if ":" in line and "can't cd" not in line
        )

    def _copy(self, pair: Pair) -> None:
        tree = corpus.make(self.options, corpus.MEDIUM, "demo")
        self.title(f"a source tree of {tree.files} files and {tree.bytes} bytes goes in, and comes back")
        self.promise(tree.files >= 500 and tree.bytes >= 10_000_000, "it is a real one: 500 files and 10 MB at least")
        archive = pair.send(pair.client, tree.archive)
        pair.client.run(
            f"mkdir {MOUNT_POINT}/tree; tar -xm --no-same-owner -f {archive} -C {MOUNT_POINT}/tree; sync", 60
        )
        manifest = pair.send(pair.server, tree.manifest)
        check = "sha256sum --quiet -c {0} && find . -type f | wc -l"
        done = pair.server.run("cd /export/tree; " + check.format(manifest), 60, check=False)
        self.promise(done.out.strip() == str(tree.files), f"on the server, SHA-256 is right for all {tree.files} files")
        manifest = pair.send(pair.client, tree.manifest)
        pair.drop_caches()
        done = pair.client.run(f"cd {MOUNT_POINT}/tree; " + check.format(manifest), 60, check=False)
        self.promise(done.out.strip() == str(tree.files), "read back by the client after dropping its caches, too")

    def _statistics(self, pair: Pair) -> None:
        self.title("the transport's line of /proc/self/mountstats")
        numbers, _ = of_mount(pair.client, MOUNT_POINT)
        print(f"   xprt: rdma {' '.join(map(str, numbers))}")
        values = named(numbers) | own(pair.client)
        for name, words in MEANING.items():
            if name in values:
                print(f"   {values[name]:12}  {words}")
        for name in ("read_chunks", "write_chunks", "reply_chunks"):
            self.promise(values.get(name, 0) > 0, f"{name.replace('_', ' ')} were used")
        if pair.module == "rpcrdma_rs":
            self.promise(values.get("remote_invalidates", 0) > 0, "remote invalidation was used")
            odd = {name: values[name] for name in SUSPICIOUS if values.get(name)}
            self.promise(not odd, f"nothing came that should not have come {odd or ''}")

    def _end(self, pair: Pair) -> None:
        self.title("the end")
        pair.umount()
        pair.unload_module()
        self._unloaded(pair.client, pair.module, "unmounted")
        if self.options.server == "ours":
            pair.server.run("rpc.nfsd 0; until rmmod rpcrdma_rs; do sleep 0.1; done", 60)
            self._unloaded(pair.server, "rpcrdma_rs", "nfsd stopped")
        found = klog.findings(self._messages + pair.kernel_messages())
        for message in found:
            print(f"   {message}")
        self.promise(not found, "no warning in either kernel log")

    def _unloaded(self, guest: Guest, module: str, why: str) -> None:
        """Checks that a module has left nothing."""
        self.promise(resources.module_use(guest, module) is None, f"{why}, and {module} is unloaded")
        left = resources.rdma(guest)
        print(f"   RDMA objects left on the {guest.name}: " + ", ".join(f"{n} {kind}" for kind, n in left.items()))
        # An idle device holds its management queue pair, and nothing of ours.
        self.promise(left["mr"] == 0 and left["cm_id"] == 0 and left["qp"] <= 1, "none of them is the transport's")
