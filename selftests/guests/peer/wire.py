# SPDX-License-Identifier: GPL-2.0
"""RPC-over-RDMA headers of versions 1 and 2, and RPC messages, read and written independently of the module's own code.

Writing takes any word for any field: a peer that misbehaves has to send messages that no encoder would make.
"""

import struct

RDMA_MSG, RDMA_NOMSG, RDMA_MSGP, RDMA_DONE, RDMA_ERROR = range(5)
RDMA2_OPTIONAL = 5
INITXCH, REQXCH, RESPXCH, UPDXCH = range(1, 5)
RBSIZ, REQREMINV, BRS = range(1, 4)
ERR_VERS, ERR_CHUNK, INVAL_OPTION = 1, 2, 3
CALL, REPLY = 0, 1
SUCCESS, PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR = range(6)


class Malformed(Exception):
    """A message from the client that is malformed."""


def words(*values):
    """XDR of unsigned integers."""
    return struct.pack(f">{len(values)}I", *values)


class Reader:
    """A cursor over XDR."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def word(self):
        """One unsigned integer."""
        self.at += 4
        if self.at > len(self.data):
            raise Malformed("truncated")
        return struct.unpack_from(">I", self.data, self.at - 4)[0]

    def hyper(self):
        """One unsigned hyper integer."""
        return self.word() << 32 | self.word()

    def flag(self):
        """The word before an optional item."""
        value = self.word()
        if value > 1:
            raise Malformed(f"optional-data word {value}")
        return value

    def opaque(self):
        """Bytes of variable length with their padding."""
        length = self.word()
        if self.at + length > len(self.data):
            raise Malformed("truncated")
        data = self.data[self.at : self.at + length]
        self.at += length + -length % 4
        return data

    def segment(self):
        """A plain segment."""
        return {"handle": self.word(), "length": self.word(), "offset": self.hyper()}

    def chunk(self):
        """A counted array of segments."""
        return [self.segment() for _ in range(self.word())]

    @property
    def rest(self):
        """The bytes that have not been read."""
        return self.data[self.at :]


def decode(message):
    """The header as a dictionary that JSON can take, and the rest of the message."""
    reader, found = Reader(message), {}
    try:
        for name in ("xid", "vers", "credits", "proc"):
            found[name] = reader.word()
        if found["proc"] in (RDMA_MSG, RDMA_NOMSG):
            if found["vers"] == 2:
                found["direction"] = reader.word()
            found["read"] = []
            while reader.flag():
                found["read"].append({"position": reader.word(), **reader.segment()})
            found["write"] = []
            while reader.flag():
                found["write"].append(reader.chunk())
            found["reply"] = reader.chunk() if reader.flag() else None
        elif found["proc"] == RDMA_ERROR:
            found["error"] = reader.word()
        elif found["proc"] == RDMA2_OPTIONAL and found["vers"] == 2:
            found["direction"], found["operation"] = reader.word(), reader.word()
            found["info"] = reader.opaque().hex()
    except Malformed as reason:
        found["malformed"] = str(reason)
    return found, reader.rest


def decode_call(payload):
    """The RPC call in a payload as a dictionary, and its arguments; (None, b"") if it is none."""
    reader = Reader(payload)
    try:
        xid, kind, version, program, program_version, procedure = (reader.word() for _ in range(6))
        for _ in ("credential", "verifier"):
            reader.word()
            reader.opaque()
    except Malformed:
        return None, b""
    if kind != CALL or version != 2:
        return None, b""
    return {"xid": xid, "prog": program, "vers": program_version, "proc": procedure}, reader.rest


def decode_reply(payload):
    """The RPC reply in a payload as a dictionary, and its results; (None, b"") if it is none that was accepted."""
    reader = Reader(payload)
    try:
        xid, kind, denied, _ = (reader.word() for _ in range(4))
        reader.opaque()
        status = reader.word()
    except Malformed:
        return None, b""
    if kind != REPLY or denied:
        return None, b""
    return {"xid": xid, "status": status}, reader.rest


def lists(read=(), write=(), reply=None):
    """The three chunk lists: `read` of (position, handle, length, offset), chunks of (handle, length, offset)."""
    data = b"".join(words(1, position, handle, length, offset >> 32, offset & 0xFFFFFFFF)
                    for position, handle, length, offset in read)  # fmt: skip
    data += words(0) + b"".join(words(1) + array(chunk) for chunk in write)
    return data + words(0) + (words(0) if reply is None else words(1) + array(reply))


def array(chunk):
    """A counted array of segments."""
    return words(len(chunk)) + b"".join(
        words(handle, length, offset >> 32, offset & 0xFFFFFFFF) for handle, length, offset in chunk
    )


def msg(xid, credits, payload, vers=1, proc=RDMA_MSG, chunks=None, direction=None):
    """A message with three lists; those of version 2 have a direction in front of them."""
    begin = words(xid, vers, credits, proc) + (b"" if direction is None else words(direction))
    return begin + (lists() if chunks is None else chunks) + payload


def error(xid, credits, *body, vers=1):
    """An RDMA_ERROR."""
    return words(xid, vers, credits, RDMA_ERROR, *body)


def optional(xid, credits, direction, operation, info=b"", payload=b""):
    """An RDMA2_OPTIONAL."""
    begin = words(xid, 2, credits, RDMA2_OPTIONAL, direction, operation, len(info))
    return begin + info + bytes(-len(info) % 4) + payload


def characteristics(*entries):
    """A set of characteristics of one word each: (id, value)."""
    return words(len(entries)) + b"".join(words(number, 4, value) for number, value in entries)


def rpc_denied(xid):
    """An RPC reply that denies the call: the version of RPC is not served."""
    return words(xid, REPLY, 1, 0, 2, 2)


def rpc_reply(xid, results=b"", status=SUCCESS):
    """An accepted RPC reply with verifier AUTH_NONE."""
    return words(xid, REPLY, 0, 0, 0, status) + results


def rpc_call(xid, program, version, procedure, arguments=b""):
    """An RPC call with AUTH_NONE."""
    return words(xid, CALL, 2, program, version, procedure, 0, 0, 0, 0) + arguments
