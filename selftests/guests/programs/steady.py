# SPDX-License-Identifier: GPL-2.0
"""Writes numbered records to a file, each synchronously, and checks them.

Usage in a guest: `steady.py write PATH STATE` appends records until STATE.enough exists, and keeps the number written so far
in STATE; `steady.py check PATH` fails unless the file has all records from 0 on, once and in order, and prints how many.
"""

import os
import struct
import sys

SIZE = 8192


def record(number):
    """The bytes of a record; no two records are alike."""
    return b"".join(struct.pack("<II", number, word) for word in range(SIZE // 8))


def write(path, state):
    """Appends records, and reports its progress."""
    number = 0
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_SYNC, 0o644)
    told = os.open(state, os.O_WRONLY | os.O_CREAT, 0o644)
    while not os.path.exists(state + ".enough"):
        if os.write(file, record(number)) != SIZE:
            sys.exit("a short write")
        number += 1
        os.pwrite(told, b"%12d\n" % number, 0)
    os.close(file)
    print(number)


def check(path):
    """Compares the file with the records that were written."""
    number = 0
    with open(path, "rb") as file:
        while data := file.read(SIZE):
            if data != record(number):
                sys.exit(f"record {number} is wrong")
            number += 1
    print(number)


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
