# SPDX-License-Identifier: GPL-2.0
"""The ways to reply wrongly to a call. Each gives the steps that the peer takes instead of sending the right reply.

If the client has to drop the message, the right reply follows, so that the call ends and the test need not wait for a
timeout: the client's counter shows that it dropped the message, and so does the success of the call after all. If the
message has to end the call, nothing follows.
"""

import random
from dataclasses import dataclass, field

import edits
import wire

GARBAGE = 12  # messages; fewer than the 16 that the client's credits for reverse calls promise Receives for
FLOOD = 800  # messages; more than it has Receives
FOREIGN = (0xDEAD, 64, 0x10000)  # a segment that no call has offered
CALLBACK = 0x40000000
UNPROMPTED, ANNOUNCED = 0x70000001, 8192  # xid and size of an announcement


@dataclass
class Send:
    """Sends a message; with a handle, the client's registration of that handle is invalidated on arrival."""

    message: bytes
    handle: int | None = None


class Immediate:
    """Sends no message, but takes a Receive all the same: an RDMA Write with immediate data."""


class Deliver:
    """Waits until the client has what was sent."""


class Disconnect:
    """Ends the connection."""


class Hold:
    """Keeps the right reply back until the client has been silent for a while."""


@dataclass
class Keep:
    """Keeps the right reply back until `LetGo` or a signal; with a handle, it will invalidate that."""

    handle: int | None = None


class LetGo:
    """Sends the replies that were kept."""


@dataclass
class Grant:
    """From here on every reply grants `credits`, one that was kept included."""

    credits: int


@dataclass
class Query:
    """A call from the client, with the data that a reply may need."""

    header: dict
    payload: bytes  # the right RPC reply
    credits: int
    chunks: bytes | None = None  # the lists that the right reply returns
    offered: dict = field(default_factory=dict)  # the call's own lists, "write" and "reply"
    last_handle: int | None = None  # a handle of an earlier call, no longer valid
    last_middle: int | None = None  # the handle of the segment in the middle of that call
    xid: int = field(init=False)

    def __post_init__(self):
        self.xid = self.header["xid"]

    def reply(self, credits=None, **changes):
        """The right reply, but for the arguments given."""
        version = {"vers": 2, "direction": wire.REPLY} if self.header.get("vers") == 2 else {}
        words = {"chunks": self.chunks, **version, **changes}
        payload = words.pop("payload", self.payload)
        return Send(wire.msg(self.xid, self.credits if credits is None else credits, payload, **words))


def other_xid(q, credits=None):
    """A whole reply to a call that was never made."""
    xid = q.xid ^ 0x80000000
    return Send(wire.msg(xid, q.credits if credits is None else credits, wire.words(xid) + q.payload[4:]))


def own_handle(q):
    """The handle of the first segment that the call has offered."""
    return next(chunk for chunk in [*q.offered["write"], q.offered["reply"]] if chunk)[0]["handle"]


def wrong_handle(q, handle):
    """The right reply, but it invalidates a handle that is not the call's."""
    send = q.reply()
    send.handle = handle
    return [send]


def reverse(q, chunks):
    """A callback, with the xid of the call in progress: the two directions have nothing to do with each other."""
    return Send(wire.msg(q.xid, 1, wire.rpc_call(q.xid, CALLBACK, 1, 0), chunks=chunks))


def garbage(q, count):
    """Noise, and noise behind the words that every message begins with; always the same noise."""
    noise = random.Random(8166)
    # A message with the xid of the call that waits would end it.
    xid = q.xid ^ 0x40000000
    sends = []
    for number in range(count):
        bytes = noise.randbytes(noise.randrange(0, 1024))
        begin = (b"", wire.words(xid), wire.words(xid, 1, 32, number % 6), wire.words(number, 1, 32, 0))[number % 4]
        # A random word must not be taken for an RDMA_ERROR or a reply.
        if number % 4 == 2 and number % 6 in (wire.RDMA_NOMSG, wire.RDMA_ERROR):
            bytes = wire.words(0x67617262) + bytes
        sends.append(Send((begin + bytes)[:1024]))
    return [*sends, q.reply()]


def returned(q, *lengths, more=()):
    """The lists with the offered Reply chunk returned, its first segments with these lengths and the others empty."""
    offered = q.offered["reply"] or []
    padded = [*lengths, *[0] * len(offered)]
    chunk = [(s["handle"], length, s["offset"]) for s, length in zip(offered, padded, strict=False)]
    return wire.lists(reply=[*chunk, *more])


def nomsg(q, chunks):
    """A reply that claims to be in the Reply chunk, where the peer has written nothing."""
    return [q.reply(proc=wire.RDMA_NOMSG, payload=b"", chunks=chunks)]


def written(q, more, count=1):
    """The right reply, but with a Write chunk full to `more` bytes beyond its end, `count` times."""
    chunk = [(s["handle"], s["length"] + more, s["offset"]) for s in q.offered["write"][0]]
    return [q.reply(chunks=wire.lists(write=[chunk] * count))]


def error(q, *body, vers=1):
    """An RDMA_ERROR."""
    return Send(wire.error(q.xid, q.credits, *body, vers=vers))


def announcement(size=ANNOUNCED, unknown=0):
    """A size, behind unknown entries, and a grant that counts for nothing: it comes with no reply."""
    entries = [(1000 + number, number) for number in range(unknown)]
    start = wire.characteristics(*entries, (wire.RBSIZ, size)) + wire.words(0)
    return Send(wire.optional(UNPROMPTED, 32, wire.CALL, wire.INITXCH, start))


MODES = {
    "right": lambda q: [q.reply()],
    "credits-zero": lambda q: [q.reply(credits=0)],
    "credits-max": lambda q: [q.reply(credits=0xFFFFFFFF)],
    "unknown-xid": lambda q: [other_xid(q), q.reply()],
    "unknown-xid-grants-32": lambda q: [other_xid(q, 32), Keep()],
    "twice": lambda q: [q.reply(), q.reply()],
    "short": lambda q: [Send(wire.words(q.xid)), q.reply()],
    "empty": lambda q: [Send(b""), q.reply()],
    "version-2": lambda q: [q.reply(vers=2)],
    "proc-2": lambda q: [q.reply(proc=wire.RDMA_MSGP)],
    "proc-3": lambda q: [q.reply(proc=wire.RDMA_DONE)],
    "proc-5": lambda q: [q.reply(proc=5)],
    "xid-mismatch": lambda q: [q.reply(payload=wire.words(q.xid ^ 1) + q.payload[4:])],
    "short-payload": lambda q: [q.reply(payload=wire.words(q.xid))],
    "direction": lambda q: [q.reply(payload=wire.words(q.xid, 2) + q.payload[8:])],
    "malformed": lambda q: [Send(wire.words(q.xid, 1, q.credits, 0, 2))],
    "segments-beyond-end": lambda q: [Send(wire.words(q.xid, 1, q.credits, 0, 0, 1, 0x0FFFFFFF, 0, 0, 0, 0))],
    "err-vers": lambda q: [error(q, wire.ERR_VERS, 2, 3)],
    "badheader": lambda q: [error(q, wire.ERR_CHUNK)],
    "error-cut": lambda q: [error(q, wire.ERR_VERS, 1), q.reply()],
    "error-code": lambda q: [error(q, 9), q.reply()],
    "error-bare": lambda q: [error(q), q.reply()],
    "undecodable": lambda q: [error(q, 9)],
    "read-list": lambda q: [q.reply(chunks=wire.lists(read=[(0, *FOREIGN)]))],
    "write-chunk": lambda q: [q.reply(chunks=wire.lists(write=[[FOREIGN]]))],
    "reply-chunk": lambda q: [q.reply(chunks=wire.lists(reply=[FOREIGN]))],
    "no-lists": lambda q: nomsg(q, wire.lists()),
    "nomsg-chunk": lambda q: nomsg(q, wire.lists(reply=[FOREIGN])),
    "nomsg-longer": lambda q: nomsg(q, returned(q, q.offered["reply"][0]["length"] + 4)),
    "nomsg-wraps": lambda q: nomsg(q, returned(q, q.offered["reply"][0]["length"], 0xFFFFFFFF)),
    "nomsg-hole": lambda q: nomsg(q, returned(q, 0, 1000)),
    "nomsg-more-segments": lambda q: nomsg(q, returned(q, 100, more=[FOREIGN])),
    "nomsg-short": lambda q: nomsg(q, returned(q, 16)),
    "nomsg-unaligned": lambda q: nomsg(q, returned(q, 99)),
    "nomsg-unwritten": lambda q: nomsg(q, returned(q, q.offered["reply"][0]["length"], 1000)),
    "used-and-inline": lambda q: [q.reply(chunks=returned(q, 32))],
    "write-longer": lambda q: written(q, 4),
    "write-two": lambda q: written(q, 0, 2),
    "unaligned": lambda q: [q.reply(payload=q.payload + b"\0")],
    "invalidate-own": lambda q: [Send(q.reply().message, own_handle(q))],
    "reverse-invalidate": lambda q: [Send(reverse(q, wire.lists()).message, q.last_handle), q.reply()],
    "invalidate-dead": lambda q: wrong_handle(q, 0xDEAD),
    "invalidate-stale": lambda q: wrong_handle(q, q.last_handle),
    "invalidate-middle": lambda q: wrong_handle(q, q.last_middle),
    "unknown-xid-invalidate": lambda q: [
        Send(other_xid(q).message, q.last_handle),
        q.reply(),
    ],
    "oversize": lambda q: [q.reply(payload=q.payload + bytes(300000))],
    "immediate": lambda q: [Immediate()],
    # Answers to an offer of version 2.
    "range-1-1": lambda q: [error(q, wire.ERR_VERS, 1, 1, vers=2)],
    "range-1-1-own-word": lambda q: [Send(wire.error(q.xid, 128, wire.ERR_VERS, 1, 1))],
    "range-1-2": lambda q: [error(q, wire.ERR_VERS, 1, 2, vers=2)],
    "range-3-5": lambda q: [error(q, wire.ERR_VERS, 3, 5, vers=2)],
    "range-2-1": lambda q: [error(q, wire.ERR_VERS, 2, 1, vers=2)],
    "range-2-2": lambda q: [error(q, wire.ERR_VERS, 2, 2, vers=2)],
    "range-cut": lambda q: [error(q, wire.ERR_VERS, 1, vers=2), q.reply()],
    "range-cut-alone": lambda q: [error(q, wire.ERR_VERS, 1, vers=2)],
    "error-4": lambda q: [error(q, 4, vers=2)],
    "error-4-other": lambda q: [Send(wire.error(q.xid ^ 1, q.credits, 4, vers=2)), q.reply()],
    "announce-first": lambda q: [announcement(), Hold()],
    "announce-reply": lambda q: [announcement(), Deliver(), q.reply()],
    "announce-often": lambda q: [announcement(4096, 12), Deliver(), *[announcement(), Deliver()] * 8, q.reply()],
    "announce-refuse": lambda q: [announcement(), error(q, wire.ERR_VERS, 1, 1, vers=2)],
    "reply-1": lambda q: [q.reply(vers=1, direction=None)],
    "denied": lambda q: [q.reply(payload=wire.rpc_denied(q.xid))],
    "refuse-disconnect": lambda q: [error(q, wire.ERR_VERS, 1, 1, vers=2), Deliver(), Disconnect()],
    "disconnect": lambda q: [Disconnect()],
    "reply-disconnect": lambda q: [q.reply(), Disconnect()],
    "hold": lambda q: [Hold()],
    "never": lambda q: [],
    "keep": lambda q: [Keep()],
    "keep-stale": lambda q: [Keep(q.last_handle)],
    "keep-own": lambda q: [Keep(own_handle(q))],
    "grant-2": lambda q: [Grant(2), q.reply(credits=2)],
    "let-go": lambda q: [LetGo(), q.reply()],
    "reverse-chunks": lambda q: [reverse(q, wire.lists(read=[(0, *FOREIGN)])), q.reply()],
    "reverse-chunks-many": lambda q: [*[reverse(q, wire.lists(read=[(0, *FOREIGN)]))] * 12, q.reply()],
    "reverse-call": lambda q: [reverse(q, None), q.reply()],
    "unknown-xids": lambda q: [*[other_xid(q)] * 11, q.reply()],
    "garbage": lambda q: garbage(q, GARBAGE),
    "flood": lambda q: garbage(q, FLOOD),
}


def steps(mode, query):
    """The steps of the peer in a mode."""
    name, _, changes = mode.partition(":")
    if not changes:
        return MODES[mode](query)
    wrong = Send(edits.apply(query.reply().message, changes))
    return {"edit": [wrong], "then-right": [wrong, query.reply()]}[name]
