# SPDX-License-Identifier: GPL-2.0
"""Guests that are processes of this machine: their kernel is of the architecture um, and its code runs as it is.

They have one processor each and need no virtualisation. What is measured on them by the clock is the cost of native code,
where an emulator's clock shows mostly the emulator. Their RDMA devices and their servers are those of the other guests.
"""

from __future__ import annotations

import itertools
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .config import REPO
from .network import CLIENT, MTU, SERVER

if TYPE_CHECKING:
    from .guest import Guest

INIT = "/repo/selftests/harness/native-init.sh"
QUEUE = 64  # frames that the network adapter takes at a time
BUFFER = 8 << 20  # bytes of frames on their way
SCRIPT = 1 << 10  # characters, of which each takes two bytes on the serial line
NUMBERS = itertools.count()  # of scripts, so that no two have the same name
# Messages of their kernel that are no finding: the adapter does not tell its speed, and its driver may say that it has taken
# all frames when it has taken as many as it may.
ALLOWED = [
    re.compile(r"^eth0 speed is unknown, defaulting to 1000$"),
    re.compile(r"^eth0: Budget exhausted after napi rescheduled$"),
]
# The options of a socket with which root may go past the machine's limit of its buffers.
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33


@cache
def link() -> dict[str, socket.socket]:
    """The ends of the link between the guests, by the names of their taps.

    Their driver does not come up on a tap: Linux 7.3 takes the lock of a queue there that a tap does not have.
    """
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in ends:
        for forced, option in ((SO_SNDBUFFORCE, socket.SO_SNDBUF), (SO_RCVBUFFORCE, socket.SO_RCVBUF)):
            try:
                end.setsockopt(socket.SOL_SOCKET, forced, BUFFER)
            except PermissionError:
                end.setsockopt(socket.SOL_SOCKET, option, BUFFER)
    return dict(zip((SERVER.tap, CLIENT.tap), ends, strict=True))


@contextmanager
def command(guest: Guest, agent: str) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """The command that starts a guest, and the descriptors that it inherits: of its command channel, and of its console."""
    options = guest.options
    with socket.socket(socket.AF_UNIX) as port, guest.console.open("wb") as console:
        port.connect(agent)
        words = [str(options.image), f"mem={options.memory}M", "seccomp=off"]
        words += ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={INIT}"]
        # Names that the kernel does not know become variables of its first process.
        words += [f"SHARE={guest.share}", f"KERNEL={options.modules}"]
        words += [f"ssl0=fd:{port.fileno()}", f"con0=null,fd:{console.fileno()}", "con=null", "ssl=null"]
        inherited = [port.fileno(), console.fileno()]
        if guest.tap:
            inherited.append(link()[guest.tap].fileno())
            words.append(f"vec0:transport=fd,fd={inherited[-1]},mac={guest.mac},mtu={MTU},depth={QUEUE}")
        words += [
            "panic=-1",
            "oops=panic",
            "log_buf_len=8M",
            "printk.time=1",
            "loglevel=7",
            *options.kernel_parameters.split(),
        ]
        yield words, tuple(inherited)


def shortened(script: str, share: Path) -> str:
    """A script that does the same, and fits into the buffer of a serial line.

    Once that is full, the line has been seen to stop for ever.
    """
    if len(script) < SCRIPT:
        return script
    file = share / f"script-{next(NUMBERS)}"
    file.write_text(script)
    return f". /share/{file.name}"


def never_idle(guest: Guest) -> None:
    """Keeps a guest's processor from going idle, since it may sleep through an interrupt then; see selftests/spin."""
    shutil.copy(REPO / "out/native/spin/spin.ko", guest.share)
    guest.run("insmod /share/spin.ko && chrt --idle --pid 0 $(cat /sys/module/spin/parameters/pid)")
