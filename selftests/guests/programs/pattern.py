# SPDX-License-Identifier: GPL-2.0
"""Writes and reads files of known contents, buffered, with O_DIRECT or through mmap.

Usage in a guest: `pattern.py write MODE FILE SIZE SEED`, `pattern.py read MODE FILE` (prints the SHA-256).

The contents are one MiB of pseudo-random bytes, repeated, with the number of each 4 KiB block stamped into it, so
that an exchanged, repeated or missing block shows. The harness imports this file to know the digest beforehand.
"""

import hashlib
import mmap
import os
import struct
import sys

MIB = 1 << 20
BLOCK = 4096


def pieces(size, seed):
    """The contents, at most a MiB at a time."""
    base = bytearray(hashlib.shake_128(str(seed).encode()).digest(min(MIB, size)))
    done = 0
    while done < size:
        count = min(MIB, size - done)
        for offset in range(0, count - 7, BLOCK):
            struct.pack_into("<Q", base, offset, (done + offset) // BLOCK)
        yield bytes(base[:count])
        done += count


def digest(size, seed):
    """The SHA-256 that a file of this size and seed must have."""
    total = hashlib.sha256()
    for piece in pieces(size, seed):
        total.update(piece)
    return total.hexdigest()


def write(mode, path, size, seed):
    """Makes the file, and has it on the server when this returns."""
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | (os.O_DIRECT if mode == "direct" else 0)
    fd = os.open(path, flags, 0o644)
    if mode == "mmap":
        os.ftruncate(fd, size)
        with mmap.mmap(fd, size) as view:
            for index, piece in enumerate(pieces(size, seed)):
                view[index * MIB : index * MIB + len(piece)] = piece
            view.flush()
    else:
        aligned = mmap.mmap(-1, MIB)
        for piece in pieces(size, seed):
            aligned[: len(piece)] = piece
            with memoryview(aligned) as view:
                rest = view[: len(piece)]
                while rest:
                    rest = rest[os.write(fd, rest) :]
                rest.release()
    os.fsync(fd)
    os.close(fd)


def read(mode, path):
    """The SHA-256 of the contents of the file."""
    total = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if mode == "direct" else 0))
    if mode == "mmap":
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as view:
            for offset in range(0, len(view), MIB):
                total.update(view[offset : offset + MIB])
    else:
        aligned = mmap.mmap(-1, MIB)
        while count := os.readv(fd, [aligned]):
            total.update(aligned[:count])
    os.close(fd)
    return total.hexdigest()


def main(words):
    """The command line."""
    if words[0] == "write":
        write(words[1], words[2], int(words[3]), words[4])
    else:
        print(read(words[1], words[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
