# SPDX-License-Identifier: GPL-2.0
"""Messages that no client should send, in families, each with the server's answer by RFC 8166, or, where that leaves a choice,
by the decision in requirements.rst."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from guests.peer import wire
from guests.peer.wire import words

from .requester import CHUNK, NFS

BAD_XID = 0x2002
# The bodies of errors; without one the server is silent.
VERSION = (wire.ERR_VERS, 1, 1)
SILENT: tuple[int, ...] = ()
MOST = 0xFFFFFFFF


@dataclass(frozen=True)
class Bad:
    """A message in hexadecimal digits, the requirements about it, and the body of the error in reply."""

    title: str
    requirements: tuple[str, ...]
    message: str
    body: tuple[int, ...]

    @property
    def head(self) -> tuple[int, int]:
        """Its xid and its version, which an error repeats."""
        return int(self.message[:8], 16), int(self.message[8:16], 16)


def call(
    *,
    proc: int = wire.RDMA_MSG,
    vers: int = 1,
    chunks: bytes | str = bytes(12),
    rpc_xid: int = BAD_XID,
    payload: bytes | None = None,
) -> str:
    """A call with the bad xid."""
    lists = chunks if isinstance(chunks, str) else chunks.hex()
    payload = wire.rpc_call(rpc_xid, NFS, 3, 0) if payload is None else payload
    return words(BAD_XID, vers, 32, proc).hex() + lists + payload.hex()


def lengths() -> Iterator[Bad]:
    """Messages that end before their header does."""
    whole = bytes.fromhex(
        call(chunks=wire.lists([(40, 1, 8, 0), (40, 1, 8, 0)], [[(1, 8, 0), (1, 8, 0)]], [(1, 8, 0)]))
    )
    header = len(whole) - 40
    for length in (0, 1, 4, 8, 12, 15):
        yield Bad(f"{length} bytes", ("V1-15",), whole[:length].hex(), SILENT)
    for length in (16, 17, 18, 19, *range(20, header + 4, 4)):
        yield Bad(f"{length} bytes of a header of {header}", ("V1-15", "V1-107"), whole[:length].hex(), CHUNK)


def versions() -> Iterator[Bad]:
    """Other versions, and types of them: an error is never answered (RFC 8166, section 4.5)."""
    for vers in (0, 2, 3, 0x100, MOST):
        for proc in (0, 1, 2, 3, 5, MOST):
            yield Bad(f"type {proc:#x} of version {vers:#x}", ("V1-104", "V1-106"), call(vers=vers, proc=proc), VERSION)
        yield Bad(f"an error of version {vers:#x}", ("V1-114",), call(vers=vers, proc=wire.RDMA_ERROR), SILENT)


def types() -> Iterator[Bad]:
    """Types that a server does not take, and errors about no call."""
    for proc in (wire.RDMA_MSGP, 5, 6, 7, 0x100, 0x01000000, MOST):
        yield Bad(f"type {proc:#x}", ("V1-9", "V1-107", "V1-116"), call(proc=proc), CHUNK)
    yield Bad("RDMA_DONE", ("V1-116",), call(proc=wire.RDMA_DONE), SILENT)
    for body in (
        (),
        (0,),
        (wire.ERR_VERS,),
        (wire.ERR_VERS, 1),
        (wire.ERR_VERS, 2, 1),
        (wire.ERR_CHUNK,),
        (3,),
        (MOST,),
    ):
        title = f"an error with the words {body}" if body else "an error without a code"
        yield Bad(title, ("V1-105", "V1-114"), wire.error(BAD_XID, 32, *body).hex(), SILENT)


def presence() -> Iterator[Bad]:
    """Words for the presence of a list, a chunk or a segment that are neither 0 nor 1."""
    segment, chunk = words(40, 1, 8, 0, 0), words(1, 1, 8, 0, 0)
    one, none = words(1), words(0)
    for word in (2, 0x100, 0x01000000, MOST):
        # What follows is right for a server that takes any word but 0 for presence.
        wrong = words(word)
        for title, lists in (
            ("the Read list", wrong + segment + none + none + none),
            ("a second segment", one + segment + wrong + segment + none + none + none),
            ("the Write list", none + wrong + chunk + none + none),
            ("a second Write chunk", none + one + chunk + wrong + chunk + none + none),
            ("the Reply chunk", none + none + wrong + chunk),
            ("the Reply chunk behind others", one + segment + none + one + chunk + none + wrong + chunk),
        ):
            yield Bad(f"{word:#x} for the presence of {title}", ("V1-18", "V1-107"), call(chunks=lists), CHUNK)


def counts() -> Iterator[Bad]:
    """Chunks of more segments than the message has, and more chunks than the server takes."""
    for count in (2, 3, 257, 0x0FFFFFFF, 0x10000000, 0x10000001, 0x80000000, MOST):
        array = words(count, 1, 8, 0, 0)
        for title, lists in (
            ("Write chunk", words(0, 1) + array + words(0, 0)),
            ("Reply chunk", words(0, 0, 1) + array),
        ):
            # What follows is taken for segments, and is too short or leaves no payload.
            yield Bad(f"a {title} of {count:#x} segments", ("V1-19", "V1-107"), call(chunks=lists), CHUNK)
    many = wire.lists(write=[[(1, 8, 0)]] * 17)
    yield Bad("17 Write chunks", ("V1-19",), call(chunks=many), CHUNK)


def places() -> Iterator[Bad]:
    """Read lists that describe no message."""
    for position in (1, 2, 3, 9, 21, 37, 42):
        lists = wire.lists(read=[(position, 1, 100, 0)])
        yield Bad(f"a chunk at position {position}", ("V1-71",), call(chunks=lists), CHUNK)
    for title, read in (
        ("at position 0 of RDMA_MSG", [(0, 1, 100, 0)]),
        ("at position 0 of RDMA_MSG, and another", [(0, 1, 100, 0), (40, 1, 100, 0)]),
        ("past the payload", [(400, 1, 100, 0)]),
        ("far past it", [(0xFFFFFFFC, 1, 100, 0)]),
        ("past 2^64", [(40, 1, 2, 2**64 - 1)]),
        ("of 4 GiB", [(40, 1, MOST, 0)]),
        ("of more than 4 GiB together", [(40, 1, MOST, 0), (40, 1, MOST, 0)]),
        ("of more than the server takes", [(40, 1, 3 << 20, 0), (40, 1, 3 << 20, 0)]),
        ("one within the other", [(20, 1, 100, 0), (24, 1, 100, 0)]),
    ):
        yield Bad(f"a chunk {title}", ("V1-79",), call(chunks=wire.lists(read=read)), CHUNK)


def long_calls() -> Iterator[Bad]:
    """RDMA_NOMSG without a call."""
    for title, lists in (
        ("no chunk", wire.lists()),
        ("a Write list alone", wire.lists(write=[[(1, 4096, 0)]])),
        ("a Reply chunk alone", wire.lists(reply=[(1, 4096, 0)])),
        ("a chunk at position 4 alone", wire.lists(read=[(4, 1, 100, 0)])),
        ("an empty chunk at position 0", wire.lists(read=[(0, 1, 0, 0)])),
        ("4 bytes at position 0", wire.lists(read=[(0, 1, 4, 0)])),
    ):
        long = call(proc=wire.RDMA_NOMSG, chunks=lists, payload=b"")
        yield Bad(f"RDMA_NOMSG with {title}", ("V1-11", "V1-107"), long, CHUNK)


def payloads() -> Iterator[Bad]:
    """Payloads that are no call of this xid."""
    for title, payload in (
        ("no payload", b""),
        ("a payload of 4 bytes", words(BAD_XID)),
        ("another xid", wire.rpc_call(BAD_XID + 1, NFS, 3, 0)),
        ("an xid with its bytes in reverse", wire.rpc_call(0x02200000, NFS, 3, 0)),
        ("neither call nor reply", words(BAD_XID, 2)),
        ("a type of 2^32 - 1", words(BAD_XID, MOST) + bytes(32)),
    ):
        yield Bad(f"{title} in RDMA_MSG", ("V1-7", "V1-107"), call(payload=payload), CHUNK)
    for title, payload, lists in (
        ("that nobody waits for", wire.rpc_reply(BAD_XID), wire.lists()),
        ("of two words", words(BAD_XID, wire.REPLY), wire.lists()),
        ("with another xid", wire.rpc_reply(BAD_XID + 1), wire.lists()),
        ("with a Read list", wire.rpc_reply(BAD_XID), wire.lists(read=[(24, 1, 8, 0)])),
        ("with a Write list", wire.rpc_reply(BAD_XID), wire.lists(write=[[(1, 8, 0)]])),
        ("with a Reply chunk", wire.rpc_reply(BAD_XID), wire.lists(reply=[(1, 8, 0)])),
    ):
        yield Bad(f"a reply {title}", ("BI-29",), call(payload=payload, chunks=lists), SILENT)


FAMILIES = {
    "lengths": lengths,
    "versions": versions,
    "types": types,
    "presence of lists": presence,
    "counts of segments": counts,
    "places in the message": places,
    "long calls": long_calls,
    "payloads": payloads,
}
