# SPDX-License-Identifier: GPL-2.0
"""Guests that are processes of this machine: their kernel is of the architecture um, and its code runs as it is.

They need no virtualisation. What is measured on them by the clock is the cost of native code, where an emulator's clock shows
mostly the emulator. Their RDMA devices, their link and their servers are the same as in other guests.
"""

from __future__ import annotations

import itertools
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .network import MTU

if TYPE_CHECKING:
    from .guest import Guest

INIT = "/repo/selftests/guests/harness/native-init.sh"
QUEUE = 64  # frames that the network adapter takes at a time
SCRIPT = 1 << 10  # characters; each takes two bytes on the serial line
NUMBERS = itertools.count()  # of scripts, so that no two have the same name
# Messages of their kernel that are no finding: the adapter does not tell its speed, its driver may say that it has taken all
# frames when it has taken as many as it may, and it drops segments of TCP that the host has joined, many of them at a time.
ALLOWED = [
    re.compile(r"^eth0 speed is unknown, defaulting to 1000$"),
    re.compile(r"^eth0: Budget exhausted after napi rescheduled$"),
    re.compile(r"^uml-vector uml-vector.0 eth0: Incoming GSO frames and GRO disabled on the interface$"),
    re.compile(r"^net_ratelimit: \d+ callbacks suppressed$"),
]
# A request to the management console: a magic number, the version of the protocol, the length of the text, the text. A reply:
# an error, whether more follows, the length, the text.
REQUEST = struct.Struct("III512s")
REQUEST_HEAD = (0xCAFEBABE, 2)
REPLY = struct.Struct("III")


@contextmanager
def command(guest: Guest, agent: str) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """The command that starts a guest, and the descriptors that it inherits: of its command channel, and of its console."""
    options = guest.options
    with socket.socket(socket.AF_UNIX) as port, guest.console.open("wb") as console:
        port.connect(agent)
        # Its memory is a file. /dev/shm, which it would take, may be a small one.
        words = [
            "env",
            "TMPDIR=/tmp",
            str(options.image),
            f"mem={options.memory}M",
            f"ncpus={options.smp}",
            "seccomp=on",
        ]
        words += [f"uml_dir={guest.directory}/", f"umid={guest.name}"]
        words += ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={INIT}"]
        # Names that the kernel does not know become variables of its first process.
        words += [f"SHARE={guest.share}", f"KERNEL={options.modules}"]
        words += [
            f"ssl0=fd:{port.fileno()}",
            f"con0=null,fd:{console.fileno()}",
            "con=null",
            "ssl=null",
            "console=tty0",
        ]
        if guest.tap:
            words.append(f"vec0:transport=tap,ifname={guest.tap},mac={guest.mac},mtu={MTU},depth={QUEUE},gro=0")
        words += ["panic=-1", "oops=panic", "log_buf_len=8M", "printk.time=1", "loglevel=7", "sysrq_always_enabled"]
        yield [*words, *options.kernel_parameters.split()], (port.fileno(), console.fileno())


def shortened(script: str, share: Path) -> str:
    """A script that does the same, and fits into the buffer of a serial line.

    Once that is full, the line has been seen to stop for ever.
    """
    if len(script) < SCRIPT:
        return script
    file = share / f"script-{next(NUMBERS)}"
    file.write_text(script)
    return f". /share/{file.name}"


def sysrq(guest: Guest, key: str) -> None:
    """Presses a key of SysRq at the management console, which answers while nothing else does."""
    path = guest.directory / "mconsole.client"
    path.unlink(missing_ok=True)
    text = f"sysrq {key}".encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as console:
        console.bind(str(path))
        console.settimeout(10)
        console.sendto(REQUEST.pack(*REQUEST_HEAD, len(text), text), str(guest.directory / guest.name / "mconsole"))
        while REPLY.unpack_from(console.recv(4096))[1]:
            pass
