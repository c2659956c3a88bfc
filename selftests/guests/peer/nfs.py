# SPDX-License-Identifier: GPL-2.0
"""The part of NFSv3 that a client needs to mount, look up, write and read: counters are only visible under a mount.

It has one directory, whose handle the real mount daemon gave to the client, and in it one file. Data is neither kept
nor delivered: a READ ends with an error. The tests examine the client's way of sending its calls.
"""

import wire

PROGRAM, VERSION = 100003, 3
NULL, GETATTR, LOOKUP, ACCESS, READ, WRITE, READDIR, READDIRPLUS = 0, 1, 3, 4, 6, 7, 16, 17
FSSTAT, FSINFO, PATHCONF, COMMIT = 18, 19, 20, 21

FILE = b"the file of the peer"
FILE_SIZE = 8 << 20
IO_SIZE = 1 << 20

NFS3ERR_NOENT, NFS3ERR_IO, NFS3ERR_NOTSUPP = 2, 5, 10004
REGULAR, DIRECTORY = 1, 2
FILE_SYNC = 2


def attributes(handle):
    """A fattr3."""
    regular = handle == FILE
    size = FILE_SIZE if regular else 4096
    return wire.words(
        *(REGULAR if regular else DIRECTORY, 0o777, 1, 0, 0),
        *(0, size, 0, size),
        *(0, 0),  # rdev
        *(0, 0x7065_6572, 0, 2 if regular else 1),  # fsid, fileid
        *(1, 0, 1, 0, 1, 0),
    )


def lookup(args):
    """One name exists."""
    args.opaque()
    if args.opaque() != b"file":
        return wire.words(NFS3ERR_NOENT, 0)
    return wire.words(0, len(FILE)) + FILE + wire.words(1) + attributes(FILE) + wire.words(0)


def write(args):
    """Replies that all was written; how the bytes came does not matter."""
    args.opaque()
    args.hyper()
    return wire.words(0, 0, 0, args.word(), FILE_SYNC, 1, 2)


def fsinfo(_args):
    """Sizes as large as the client takes them."""
    sizes = (IO_SIZE, IO_SIZE, 4096, IO_SIZE, IO_SIZE, 4096, IO_SIZE)
    return wire.words(0, 0, *sizes, 0x7FFFFFFF, 0xFFFFFFFF, 0, 1, 0x1B)


def readdir(_args):
    """An empty directory."""
    return wire.words(0, 0, 0, 0, 0, 1)


PROCEDURES = {
    NULL: lambda args: b"",
    GETATTR: lambda args: wire.words(0) + attributes(args.opaque()),
    LOOKUP: lookup,
    ACCESS: lambda args: wire.words(0, 0, 0x1F),
    READ: lambda args: wire.words(NFS3ERR_IO, 0),
    WRITE: write,
    READDIR: readdir,
    READDIRPLUS: readdir,
    FSSTAT: lambda args: wire.words(0, 0, *(0, 1 << 30) * 6, 0),
    FSINFO: fsinfo,
    PATHCONF: lambda args: wire.words(0, 0, 32, 255, 1, 1, 0, 1),
    COMMIT: lambda args: wire.words(0, 0, 0, 1, 2),
}


def reply(call, arguments):
    """The RPC reply to a call."""
    if (call["prog"], call["vers"]) != (PROGRAM, VERSION):
        if (call["prog"], call["proc"]) == (PROGRAM, NULL):
            return wire.rpc_reply(call["xid"])
        return wire.rpc_reply(call["xid"], status=wire.PROG_UNAVAIL)
    procedure = PROCEDURES.get(call["proc"])
    if procedure is None:
        return wire.rpc_reply(call["xid"], status=wire.PROC_UNAVAIL)
    try:
        return wire.rpc_reply(call["xid"], procedure(wire.Reader(arguments)))
    except wire.Malformed:
        return wire.rpc_reply(call["xid"], status=wire.GARBAGE_ARGS)


def looked_up(call, arguments):
    """The name in a LOOKUP, or None."""
    if call is None or (call["prog"], call["vers"], call["proc"]) != (PROGRAM, VERSION, LOOKUP):
        return None
    reader = wire.Reader(arguments)
    try:
        reader.opaque()
        return reader.opaque().decode(errors="replace")
    except wire.Malformed:
        return None
