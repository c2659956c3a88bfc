# SPDX-License-Identifier: GPL-2.0
"""The mount that `explain` gets, and its explanation."""

from __future__ import annotations

import os
from unittest import mock

from .fake import OPTIONS, ToolTest

NAMES = {
    "größe": "größe",
    "каталог": "каталог",
    "数据": "数据",
    "of two words": r"of\040two\040words",
    "no\xa0break": "no\xa0break",
    "line\u2028separator": "line\u2028separator",
    "back\\slash": r"back\134slash",
    "tab\tand#": r"tab\011and\043",
    "return\rhere": "return\rhere",
}


class Mounts(ToolTest):
    """`rpcrdma explain DIRECTORY`."""

    def explained(self, where: str, transport: int = 3) -> str:
        """The explanation of a directory, which is about a transport."""
        done = self.run_tool("explain", where)
        self.assertEqual(done.status, 0, done)
        self.assertIn(f"Transport {transport} to ", done.out)
        return done.out

    def test_names(self) -> None:
        """mount points with letters, spaces and signs of all kinds are found"""
        for name, written in NAMES.items():
            with self.subTest(name):
                self.mount(f"/srv/{written}")
                self.explained(f"/srv/{name}")

    def test_bytes(self) -> None:
        """a mount point whose name is not UTF-8 is found"""
        with self.places["MOUNTS"].open("ab") as file:
            file.write(b"server:/ /srv/gr\xf6\xdfe nfs4 " + OPTIONS.encode() + b" 0 0\n")
        self.explained(os.fsdecode(b"/srv/gr\xf6\xdfe"))

    def test_below(self) -> None:
        """a directory below a mount point is explained, the deepest mount holds"""
        self.mount("/mnt/inner", OPTIONS.replace("20049", "20050").replace("192.0.2.1", "2001:db8::9"))
        for where in ("/mnt/some/directory", "/mnt/", "/mnt/inner2", "/mnt/./a/../b", "/mnt/inner/.."):
            with self.subTest(where):
                self.explained(where)
        for where in ("/mnt/inner", "/mnt/inner/deeper"):
            with self.subTest(where):
                self.explained(where, 20)

    def test_relative(self) -> None:
        """a relative directory is one below the working directory"""
        with mock.patch.object(os, "getcwd", return_value="/mnt/some"):
            self.explained("directory")
            self.explained(".")
            self.explained("..")

    def test_links(self) -> None:
        """symbolic links to a mount, and out of the directory of one, are followed"""
        (self.root / "link").symlink_to("/mnt/some")
        (self.root / "chain").symlink_to("link/directory")
        self.explained(str(self.root / "link"))
        self.explained(str(self.root / "chain/below"))
        (self.root / "self").symlink_to("self")
        self.assertEqual(self.run_tool("explain", str(self.root / "self")).status, 1)

    def test_untouched(self) -> None:
        """no system call touches a path on a mount of NFS, which may hang"""
        asked = []
        with mock.patch.object(os, "lstat", side_effect=lambda path, **_: asked.append(str(path)) or os.stat("/")):
            self.explained("/mnt/some/directory")
        self.assertEqual([path for path in asked if path.startswith("/mnt")], [])

    def test_covered(self) -> None:
        """a mount under another one is not the one that is seen"""
        self.mount("/mnt", "rw", "tmpfs")
        self.refused(1, "/mnt is not on a mount of NFS", "explain", "/mnt")
        self.mount("/mnt")
        self.explained("/mnt")

    def test_other(self) -> None:
        """what is no mount over RDMA, or one without a transport, ends with status 1"""
        self.refused(1, "/srv is not on a mount of NFS", "explain", "/srv")
        self.refused(1, "is not on a mount of NFS", "explain", "/mntx")
        self.mount("/tcp", "rw,proto=tcp,addr=192.0.2.1")
        self.refused(1, "/tcp/below is mounted over tcp, not over RDMA", "explain", "/tcp/below")
        self.mount("/gone", OPTIONS.replace("192.0.2.1", "192.0.2.7"))
        self.refused(1, "no transport of rpcrdma_rs goes to 192.0.2.7 port 20049", "explain", "/gone")

    def test_several_addresses(self) -> None:
        """a mount that may use more addresses of the server is said to"""
        self.assertNotIn("max_connect", self.explained("/mnt"))
        self.mount("/trunked", f"max_connect=4,{OPTIONS}")
        self.assertIn("max_connect=4", self.explained("/trunked"))

    def test_words(self) -> None:
        """the explanation has sizes, sides, credits and ends in words"""
        said = self.explained("/mnt")
        for part in (
            "Transport 3 to 192.0.2.1 port 20049: connected.",
            "It was made 120 s ago over rxe0 port 1; no rule is for this server, so the module parameters hold.",
            "Inline calls have up to 4096 bytes: our own setting (4096 bytes) is the smaller one: raise inline_send",
            "Inline replies have up to 2048 bytes: the server says no more than 2048 bytes: it can be raised only there.",
            "Remote invalidation is on (asked for: strict); credits: asked 128 granted 64 used 3 abandoned 0.",
            "Buffers take 1080 KiB of 32768.",
            "No call waits.",
            "Before: closed 130 s ago, after 20 s: the server hung up",
            "Before: failed 140 s ago: resolving the address: no route (-101)",
        ):
            self.assertIn(part, said)

    def test_silent_server(self) -> None:
        """a server without private data, and a client without"""
        self.mount("/silent", OPTIONS.replace("192.0.2.1", "fe80:1111:2222:3333:4444:5555:6666:7777"))
        said = self.explained("/silent", 14)
        self.assertIn("rule 12 holds", said)
        self.assertIn("The server sent no private data, so it takes and sends 1024 bytes at most.", said)
        self.assertIn("Inline calls have up to 1024 bytes, as we send no private data", said)
        self.assertIn("Calls wait for their turn", said)

    def test_port(self) -> None:
        """the explanation has the rate, the kind and the MTU of the port, if the system shows them"""
        self.assertNotIn("Gb/sec", self.explained("/mnt"))
        port = self.places["DEVICES"] / "rxe0/ports/1"
        (port / "gids").mkdir(parents=True)
        for directory in ("types", "ndevs"):
            (port / "gid_attrs" / directory).mkdir(parents=True)
        for name, text in {
            "state": "4: ACTIVE",
            "rate": "100 Gb/sec (4X EDR)",
            "link_layer": "Ethernet",
            "gids/0": "fe80:0000:0000:0000:0000:0000:0000:0001",
            "gids/1": "0000:0000:0000:0000:0000:ffff:c000:0202",
            "gid_attrs/types/0": "IB/RoCE v1",
            "gid_attrs/types/1": "RoCE v2",
            "gid_attrs/ndevs/1": "eth0",
        }.items():
            (port / name).write_text(f"{text}\n")
        self.assertIn("The port is ACTIVE: Ethernet, 100 Gb/sec (4X EDR), RoCE v2 over eth0.", self.explained("/mnt"))
