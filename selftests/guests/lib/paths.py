# SPDX-License-Identifier: GPL-2.0
"""The paths of a call through a server, each as a call of the requester in user space."""

from __future__ import annotations

from collections.abc import Callable

from guests.lib.requester import BARE, NFS, WRITE, XID, call, header, null, read_list, read_of, segment
from guests.peer import wire
from guests.peer.wire import words

PAGE = 4096
# The memory of the client: a call that does nothing, and room.
CALL = wire.rpc_call(XID, NFS, 3, 0)
CONTENT = CALL.ljust(PAGE, b"\0")


def inline(fh: bytes) -> str:
    """A call with an inline reply."""
    del fh
    return null().hex()


def write_chunk(fh: bytes) -> str:
    """A READ with its data in a Write chunk: RDMA Writes, and a message behind them."""
    return header(words(0, 1, 1).hex() + segment(PAGE) + words(0, 0).hex()) + read_of(fh, PAGE).hex()


def reply_chunk(fh: bytes) -> str:
    """A READ with its reply in a Reply chunk."""
    return header(words(0, 0, 1, 1).hex() + segment(PAGE)) + read_of(fh, PAGE - 200).hex()


def read_chunk(fh: bytes) -> str:
    """A WRITE of bytes that are read by RDMA."""
    start = call(WRITE, fh + words(0, 0, PAGE, 0, PAGE))
    return header(read_list((len(start), segment(PAGE))) + words(0, 0).hex()) + start.hex()


def long_call(fh: bytes) -> str:
    """A call whose all bytes are read by RDMA."""
    del fh
    return header(read_list((0, segment(len(CALL)))) + words(0, 0).hex(), wire.RDMA_NOMSG)


def another_version(fh: bytes) -> str:
    """A call of version 3, which gets ERR_VERS."""
    del fh
    return words(XID, 3).hex() + null().hex()[16:]


def no_chunk(fh: bytes) -> str:
    """A READ whose reply has no room, which gets ERR_CHUNK."""
    return header(BARE) + read_of(fh, PAGE * 2).hex()


PATHS: dict[str, Callable[[bytes], str]] = {
    "an inline reply": inline,
    "a reply with a Write chunk": write_chunk,
    "a reply with a Reply chunk": reply_chunk,
    "a call with a Read chunk": read_chunk,
    "a Long call": long_call,
    "ERR_VERS": another_version,
    "ERR_CHUNK": no_chunk,
}
