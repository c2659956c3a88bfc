# SPDX-License-Identifier: GPL-2.0
"""Registers a program's port with this machine's rpcbind (RFC 1833).

Usage in a guest: `rpcbind.py set|unset PROGRAM VERSION NETID UNIVERSAL-ADDRESS`.
"""

import socket
import struct
import sys

SOCKET = "/run/rpcbind.sock"
RPCBIND, VERSION, PROCEDURES = 100000, 4, {"set": 1, "unset": 2}


def string(text):
    """An XDR string."""
    return struct.pack(">I", len(text)) + text.encode() + bytes(-len(text) % 4)


def call(procedure, arguments):
    """The result, a boolean, of one call."""
    message = struct.pack(">10I", 1, 0, 2, RPCBIND, VERSION, procedure, 0, 0, 0, 0) + arguments
    with socket.socket(socket.AF_UNIX) as to:
        to.connect(SOCKET)
        to.sendall(struct.pack(">I", len(message) | 1 << 31) + message)
        with to.makefile("rb") as stream:
            (length,) = struct.unpack(">I", stream.read(4))
            reply = stream.read(length & ~(1 << 31))
    accepted = reply[:24] == struct.pack(">6I", 1, 1, 0, 0, 0, 0)
    return accepted and struct.unpack(">I", reply[24:])[0] == 1


if __name__ == "__main__":
    what, program, version, netid, address = sys.argv[1:]
    words = struct.pack(">II", int(program, 0), int(version)) + string(netid) + string(address) + string("superuser")
    if not call(PROCEDURES[what], words):
        sys.exit(f"rpcbind refuses to {what} it")
