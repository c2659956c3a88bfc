# SPDX-License-Identifier: GPL-2.0
"""A guest that boots Debian as it is installed: its own kernel, initramfs, systemd and udev, from a disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from guests.harness.config import Options
from guests.harness.guest import Guest, clock_parameters
from guests.harness.network import CLIENT

MEMORY = 2048
# Messages of udev, systemd and rdma-core are not looked at, and the emulated serial line is slow.
CMDLINE = "console=ttyS0 root=/dev/vda rw net.ifnames=0 panic=-1 log_buf_len=8M loglevel=4 systemd.show_status=false"
# Services of a boot that take long under emulation and matter to no test.
MASKED = ("e2scrub_reap.service", "modprobe@drm.service", "modprobe@efi_pstore.service", "getty-static.service")


class Debian(Guest):
    """One boot of the disk; data written to that is there at the next."""

    def __init__(self, directory: Path, release: str, options: Options):
        super().__init__("debian", replace(options, memory=MEMORY), CLIENT.tap, CLIENT.mac)
        self.kernel = directory / f"vmlinuz-{release}"
        self.initrd = directory / f"initrd.img-{release}"
        self.image = directory / "disk"

    def _command(self) -> list[str]:
        command = super()._command()
        masks = " ".join(f"systemd.mask={unit}" for unit in MASKED)
        for name, value in {
            "-kernel": str(self.kernel),
            "-initrd": str(self.initrd),
            "-append": f"{CMDLINE} {masks} tsc=reliable no_timer_check {clock_parameters(self.options)}",
        }.items():
            if name in command:
                command[command.index(name) + 1] = value
            else:
                command += [name, value]
        return [*command, "-drive", f"file={self.image},format=raw,if=virtio,cache=unsafe"]

    def shut_down(self) -> None:
        """Ends the boot so that the disk holds all that was written."""
        self.run("sync; mount -o remount,ro / 2>/dev/null || sync", 60)
        self.stop()
