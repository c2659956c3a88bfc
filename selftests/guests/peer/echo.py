# SPDX-License-Identifier: GPL-2.0
"""The program of rpcload_echo.ko, as far as small calls need it, and the program that rpcload.ko serves in the reverse
direction. Both are described in selftests/modules/rpcload/rpcload.h.
"""

import struct

import wire

PROGRAM, VERSION = 0x2000720D, 1
NULL, ECHO = 0, 1
NO_END = 1 << 4

REVERSE_PROGRAM, REVERSE_VERSION = 0x2000720E, 1


def word(seed, index):
    """Eight bytes of data, as a number."""
    mask = (1 << 64) - 1
    value = ((seed << 32 | index) * 0x9E3779B97F4A7C15) & mask
    value = ((value ^ value >> 32) * 0xD6E8FEB86659FD93) & mask
    return value ^ value >> 32


def data(seed, length):
    """The first `length` bytes of the data of a seed."""
    return b"".join(struct.pack("<Q", word(seed, index)) for index in range(-(-length // 8)))[:length]


def echo(args):
    """The result of an ECHO, whose own data is not looked at."""
    seed, length, flags = args.word(), args.word(), args.word()
    args.opaque()
    seed = (~seed * 0x9E3779B1) & 0xFFFFFFFF
    end = b"" if flags & NO_END else wire.words(seed ^ 0x656E6421)
    return wire.words(0, seed, length) + data(seed, length) + bytes(-length % 4) + end


PROCEDURES = {NULL: lambda args: b"", ECHO: echo}


def reply(call, arguments):
    """The RPC reply to a call."""
    if call["vers"] != VERSION or call["proc"] not in PROCEDURES:
        return wire.rpc_reply(call["xid"], status=wire.PROC_UNAVAIL)
    try:
        return wire.rpc_reply(call["xid"], PROCEDURES[call["proc"]](wire.Reader(arguments)))
    except wire.Malformed:
        return wire.rpc_reply(call["xid"], status=wire.GARBAGE_ARGS)


def is_right(results):
    """Returns `True` if these are the results of a reverse REPLY, or of a procedure without results."""
    if not results:
        return True
    reader = wire.Reader(results)
    try:
        found = reader.opaque()
    except wire.Malformed:
        return False
    return found == data(len(found), len(found)) and not reader.rest
