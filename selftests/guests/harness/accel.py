# SPDX-License-Identifier: GPL-2.0
"""Chooses between hardware virtualisation and emulation.

A /dev/kvm proves nothing: in a nested set-up guests may die in it. So KVM is taken only where the processor has the
extension and a guest was seen to boot.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from .config import Options
from .guest import Guest, GuestError


def choose(options: Options) -> str:
    """`kvm` or `tcg`, which RPCRDMA_ACCEL overrides; or `native`, if the kernel is one that needs neither."""
    if options.native:
        return "native"
    wanted = os.environ.get("RPCRDMA_ACCEL", "")
    if wanted in ("kvm", "tcg"):
        return wanted
    if wanted:
        raise SystemExit(f"error: RPCRDMA_ACCEL is '{wanted}', which is neither kvm nor tcg")
    extension = re.search(r"\b(vmx|svm)\b", Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace"))
    if not extension or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    return "kvm" if boots(replace(options, accel="kvm", logs=None)) else "tcg"


def boots(options: Options) -> bool:
    """Returns `True` if a guest boots as far as its agent."""
    guest = Guest("probe", options)
    try:
        guest.start()
        guest.wait_ready()
    except (GuestError, OSError) as error:
        print(f"no guest boots with {options.accel}: {str(error).splitlines()[0]}")
        return False
    finally:
        guest.stop()
    return True
