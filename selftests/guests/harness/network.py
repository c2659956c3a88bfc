# SPDX-License-Identifier: GPL-2.0
"""The link between two guests: a bridge with one tap each, inside this process's own network namespace."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

MTU = 4200  # room for RoCE's largest path MTU, 4096 bytes, with its headers
QUEUE = 8192  # frames that wait for a guest; of a thousand requests at once 500, the usual number, would be less
BRIDGE = "br0"


@dataclass(frozen=True)
class End:
    """One end of the link."""

    name: str
    tap: str
    mac: str
    ipv4: str
    ipv6: str


SERVER = End("server", "tap1", "52:54:00:77:00:01", "192.168.77.1", "fd77::1")
CLIENT = End("client", "tap2", "52:54:00:77:00:02", "192.168.77.2", "fd77::2")


def ip(*words: str) -> None:
    """Runs the ip command, whose complaint becomes the error's text."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def make() -> None:
    """Makes bridge and taps. Their users need no more rights; they vanish with the namespace."""
    ip("link", "add", BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0")
    ip("link", "set", BRIDGE, "mtu", str(MTU))
    for end in (SERVER, CLIENT):
        ip("tuntap", "add", end.tap, "mode", "tap", "vnet_hdr")
        ip("link", "set", end.tap, "mtu", str(MTU), "txqueuelen", str(QUEUE), "master", BRIDGE, "up")
    ip("link", "set", BRIDGE, "up")
