# SPDX-License-Identifier: GPL-2.0
"""A client in user space (peer/requester.py), which sends the server any bytes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from guests.harness.guest import Guest
from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair
from guests.peer import wire
from guests.peer.wire import words

NFS, XID = 100003, 0x1001
# The body of an error.
CHUNK = (wire.ERR_CHUNK,)
# Sizes of 4096 bytes both ways; the client takes remote invalidation, or does not.
TAKES, REFUSES = "f6ab0e1801010303", "f6ab0e1801000303"


def null(xid: int = XID, credits: int = 32) -> bytes:
    """A call that does nothing."""
    return wire.msg(xid, credits, wire.rpc_call(xid, NFS, 3, 0))


def share_peer(guest: Guest) -> None:
    """Puts the programs of the peer into the guest's share."""
    if not (guest.share / "peer").exists():
        source = Path(__file__).parent.parent / "peer"
        shutil.copytree(source, guest.share / "peer", ignore=shutil.ignore_patterns("__pycache__"))


# An exchange that waits until `carried_out` has called `until`.
MEANWHILE = "/share/meanwhile"


def carried_out(
    pair: Pair, *orders: dict[str, object], until: Callable[[], object] | None = None
) -> list[dict[str, object]]:
    """What the requester (peer/requester.py) in the client guest reports of these connections."""
    share = pair.client.share
    (share / "meanwhile").unlink(missing_ok=True)
    share_peer(pair.client)
    (share / "orders.json").write_text(json.dumps(orders))
    program = (
        "python3 -I -S -B -c 'import sys; sys.path.insert(0, \"/share/peer\"); import requester; requester.main()'"
    )
    command = f"modprobe -a rdma_ucm ib_uverbs; {program} {SERVER.ipv4} {NFS_PORT} /share/orders.json"
    job = pair.client.spawn(command)
    if until:
        until()
        (share / "meanwhile").touch()
    done = pair.client.finish(job, command, 120)
    return [json.loads(line) for line in done.lines]


def rejection(xid: int, version: int, *body: int) -> bytes:
    """An RDMA_ERROR, but for its credits."""
    return words(xid, version) + words(wire.RDMA_ERROR, *body)


def without_credits(message: bytes) -> bytes:
    """A message without the word that the server is free to choose."""
    return message[:8] + message[12:]


HANDLE, ADDRESS = "h" * 8, "o" * 16
GETATTR, READ, WRITE = 1, 6, 7
ROOT = words(1, 20, 0, 0, 0, 0, 0)  # a credential of AUTH_SYS, without groups


def call(procedure: int, arguments: bytes, xid: int = XID) -> bytes:
    """A call of NFSv3 by root."""
    return words(xid, wire.CALL, 2, NFS, 3, procedure) + ROOT + words(0, 0) + arguments


def header(lists: str, proc: int = wire.RDMA_MSG, xid: int = XID) -> str:
    """A header with these lists, in hexadecimal digits."""
    return words(xid, 1, 32, proc).hex() + lists


def segment(length: int, handle: str = HANDLE, at: int | None = None) -> str:
    """A segment at the beginning of the memory, or at any address."""
    return handle + words(length).hex() + (ADDRESS if at is None else f"{at:016x}")


def read_list(*segments: tuple[int, str]) -> str:
    """A Read list of (position, segment)."""
    return "".join(words(1, position).hex() + of for position, of in segments) + words(0).hex()


def handle_of(pair: Pair, path: str) -> bytes:
    """The handle of a file for NFSv3, as nfsd makes it for a client of the export."""
    script = "import os; f = os.open('/proc/fs/nfsd/filehandle', os.O_RDWR); os.write(f, b'* {} 64\\n'); print(os.read(f, 999).decode())"
    shown = pair.server.run(f'python3 -c "{script.format(path)}"').out.strip()
    return bytes.fromhex(shown.removeprefix("\\x"))


def opaque(data: bytes) -> bytes:
    """An opaque of variable length."""
    return words(len(data)) + data.ljust(len(data) + -len(data) % 4, b"\0")


def status(reply: str) -> tuple[int, int]:
    """The status of an inline RPC reply, and the first word of its results."""
    _, payload = wire.decode(bytes.fromhex(reply))
    accepted, results = wire.decode_reply(payload)
    assert accepted is not None, reply
    return accepted["status"], int.from_bytes(results[:4]) if results else 0


def export_file(pair: Pair, length: int) -> tuple[bytes, bytes]:
    """Makes a file of the export, for a client that nfsd knows; its handle, and its content."""
    content = bytes(at * 7 % 251 for at in range(length))
    (pair.client.share / "content").write_bytes(content)
    pair.mount("3")
    pair.client.run(f"cp /share/content {MOUNT_POINT}/chunks")
    pair.umount()
    return opaque(handle_of(pair, "/export/chunks")), content


def read_of(fh: bytes, length: int) -> bytes:
    """A call that reads this many bytes from the start of a file."""
    return call(READ, fh + words(0, 0, length))


# Bytes of an inline reply to READ that are not data: the header, and the results in front of the data.
REPLY_HEADER, READ_RESULTS = 28, 128
BARE = words(0, 0, 0).hex()
