# SPDX-License-Identifier: GPL-2.0
"""Scans a debug kernel for memory without a pointer to it."""

from __future__ import annotations

from .guest import Guest

FILE = "/sys/kernel/debug/kmemleak"
# kmemleak leaves objects younger than this alone, so a scan has to wait for the last ones to come of age.
AGE = 5  # seconds
# An object counts as lost only once two scans have found it so with the same content.
SCAN = f"echo scan >{FILE}; echo scan >{FILE}"


def watch(guest: Guest) -> bool:
    """From here on `leaks` looks; what the kernel's boot has lost is its own. Returns `False` on a kernel without kmemleak.

    `clear` forgets objects that scans have reported, so these come first. They say in the log what they have found."""
    watched = guest.run(f"test -e {FILE} || exit 1; {SCAN}; echo clear >{FILE}", 120, check=False).rc == 0
    if watched:
        guest.kernel_records()
    return watched


def leaks(guest: Guest) -> str:
    """The reports of objects without a pointer to them that `watch` did not see."""
    # Pages alone: of Linux 7.3, nfsd_slot_shrinker_count() may count slots when no session is left, and do_shrink_slab()
    # then never ends.
    script = f"sync; echo 1 >/proc/sys/vm/drop_caches; sleep {AGE + 1}; {SCAN}; cat {FILE}"
    return guest.run(script, 120).out
