# SPDX-License-Identifier: GPL-2.0
"""In a guest: direct I/O whose memory begins and ends within pages, written, read back and compared.

within.py FILE
"""

import mmap
import os
import sys

PAGE = mmap.PAGESIZE
LENGTH = 16 * PAGE
CASES = (100, LENGTH), (3000, LENGTH), (8, 3 * PAGE + 20), (PAGE - 8, 2 * PAGE), (PAGE + 16, LENGTH)


def vary(name):
    """NFS takes memory at any place for direct I/O. Pages of a mapping are rarely neighbours, so that each is a piece."""
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    memory = mmap.mmap(-1, LENGTH + 2 * PAGE)
    for number, (start, length) in enumerate(CASES):
        data = bytes((number + i * 7 + i // PAGE) & 0xFF for i in range(length))
        memory[start : start + length] = data
        with memoryview(memory)[start : start + length] as part:
            assert os.pwritev(file, [part], 0) == length
        memory[:] = bytes(len(memory))
        with memoryview(memory)[start : start + length] as part:
            assert os.preadv(file, [part], 0) == length
        assert memory[start : start + length] == data, f"{length} bytes from {start} on are not what was written"
    os.close(file)


vary(sys.argv[1])
