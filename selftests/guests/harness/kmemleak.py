# SPDX-License-Identifier: GPL-2.0
"""Scans a debug kernel for memory without a pointer to it."""

from __future__ import annotations

from .guest import Guest

FILE = "/sys/kernel/debug/kmemleak"
# kmemleak leaves objects younger than this alone, so a scan has to wait for the last ones to come of age.
AGE = 5  # seconds


def available(guest: Guest) -> bool:
    """Returns `True` if the kernel has it and it is on."""
    return guest.run(f"test -e {FILE} && echo clear >{FILE}", check=False).rc == 0


def leaks(guest: Guest) -> str:
    """The reports of objects allocated since the last `clear` that two scans in a row found unreferenced."""
    script = (
        f"sync; echo 3 >/proc/sys/vm/drop_caches; sleep {AGE + 1}; echo scan >{FILE}; echo scan >{FILE}; cat {FILE}"
    )
    return guest.run(script, 120).out
