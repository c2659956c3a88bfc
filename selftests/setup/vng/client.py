# SPDX-License-Identifier: GPL-2.0
"""A client under virtme-ng: the kernel to boot, the directory shared with the guest, the command line of vng.

The guest's root is the tool tree as this process sees it, copy-on-write, so that it has this repository at /repo.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

from guests.harness.config import REPO, Options
from guests.harness.guest import clock_parameters, network_adapter
from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import CLIENT_UP, MOUNT_POINT, NO_IN_TREE, NO_KERBEROS, mount_command, network_script

HERE = Path(__file__).parent
SHARE = "/share"  # in the guest
VERSION = "4.2"

# The tool tree does not change, so the guest may cache its files. The repository does: it is a file system of its own.
ROOT_FLAGS = "trans=virtio,version=9p2000.L,msize=262144,cache=loose"

# The status for a client that could not be set up, as with env(1) and timeout(1); vng's own for one that died is 255.
NOT_SET_UP = 125

SET_UP = """set -e
export HOME=/root
modules=/lib/modules/$(uname -r)
# vng mounts its overlays in the background, over this directory if that is late.
if [ ! -e $modules/modules.dep ]; then
    mkdir -p /lib/modules
    ln -sfn {modules}/$(uname -r) $modules
fi
# From here on, warnings go to the console.
echo 5 >/proc/sys/kernel/printk
cp {share}/modprobe.conf /etc/modprobe.d/vng.conf
# See the harness's init.sh.
for runtime in /sys/kernel/debug/sched/*_server/cpu*/runtime; do
    [ ! -e "$runtime" ] || echo 0 >"$runtime"
done
{network}
{client}
modprobe -a sunrpc rdma_cm
insmod {share}/rpcrdma_rs.ko {parameters}
while [ ! -e {share}/server-is-up ]; do sleep 0.2; done
{mount}
"""


class Client:
    """A guest that vng boots; one after the other may use the same server."""

    def __init__(self, options: Options):
        self.options = options
        self.directory = options.work / "vng"
        shutil.rmtree(self.directory, ignore_errors=True)
        self.share = self.directory / "share"
        self.share.mkdir(parents=True)
        self._start_up_file = False
        self._lay_out_kernel()
        self._fill_share()

    def _lay_out_kernel(self) -> None:
        """Lays kernel and modules out as if installed, which is the form that vng takes modules from as they are."""
        self.image = self.directory / "boot/vmlinuz"
        self.image.parent.mkdir()
        shutil.copy(self.options.image, self.image)
        (self.directory / "lib").mkdir()
        (self.directory / "lib/modules").symlink_to(self.options.modules / "lib/modules")

    def _fill_share(self) -> None:
        script = SET_UP.format(
            share=SHARE,
            modules=self.options.modules / "lib/modules",
            network=network_script(self.options.device, CLIENT),
            client=CLIENT_UP.format(mount_point=MOUNT_POINT),
            parameters=self.options.module_parameters,
            mount=mount_command(VERSION),
        )
        (self.share / "set-up").write_text(script)
        (self.share / "modprobe.conf").write_text(NO_KERBEROS + NO_IN_TREE)
        shutil.copy(self.options.module, self.share / "rpcrdma_rs.ko")
        for name in ("command.sh", "ready.sh"):
            shutil.copy(HERE / "guest" / name, self.share)

    @property
    def console(self) -> Path:
        """The log of warnings of the kernel of a guest that runs a command."""
        return self.directory / "console"

    def server_is_up(self) -> None:
        """Lets clients mount."""
        (self.share / "server-is-up").touch()

    def arguments(self, interactive: bool) -> list[str]:
        """The command line."""
        options = self.options
        append = (
            f"rootflags={ROOT_FLAGS} net.ifnames=0 panic=-1 tsc=reliable no_timer_check {clock_parameters(options)}"
        )
        qemu = [*network_adapter(CLIENT.tap, CLIENT.mac), "-device", "virtio-rng-pci", "-no-reboot"]
        # One core per socket, as the harness's guests have them.
        command = ["vng", "--run", str(self.image), "--name", "client", "--user", "root", "--disable-microvm"]
        command += ["--memory", f"{options.memory}M", "--cpus", f"{options.smp},sockets={options.smp}"]
        command += ["--rodir", f"{SHARE}={self.share}", "--rodir", f"{REPO}={REPO}"]
        if options.accel == "tcg":
            command += ["--disable-kvm"]
            qemu += ["-accel", options.emulator, "-cpu", options.cpu]
        if not interactive:
            command += ["--exec", f"bash {SHARE}/command.sh"]
            # A kernel has only one serial console, and vng throws its output away.
            append += " console=hvc0"
            qemu += ["-chardev", f"file,id=log,path={self.console}", "-device", "virtio-serial-pci,id=log"]
            qemu += ["-device", "virtconsole,bus=log.0,chardev=log"]
        return [*command, "--append", append, f"--qemu-opts={shlex.join(qemu)}"]

    def start(self, command: str, stdin: int | BinaryIO = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Starts a guest that runs a command and ends; the process has pipes for its output."""
        (self.share / "command").write_text(command + "\n")
        # Pipes, since QEMU opens the outputs by their names, which truncates a file and fails for a socket.
        return subprocess.Popen(
            self.arguments(interactive=False),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def start_shell(self, terminal: int | None = None) -> subprocess.Popen[bytes]:
        """Starts a guest with a shell on a terminal, or on ours; the shell's start-up file does the rest."""
        if not self._start_up_file:
            subprocess.run(["mount", "--bind", HERE / "guest/bashrc", "/root/.bashrc"], check=True)
            self._start_up_file = True
        return subprocess.Popen(
            self.arguments(interactive=True),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=terminal is not None,
        )

    def console_tail(self, lines: int = 30) -> str:
        """The last lines of the console."""
        if not self.console.exists():
            return ""
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-lines:])


def own_stdin() -> int | BinaryIO:
    """Our standard input, if QEMU can make use of it: not a terminal, whose settings it would change, nor a socket."""
    try:
        if os.isatty(0):
            return subprocess.DEVNULL
        os.close(os.open("/proc/self/fd/0", os.O_RDONLY))
    except OSError:
        return subprocess.DEVNULL
    return sys.stdin.buffer


def relay(process: subprocess.Popen[bytes]) -> list[threading.Thread]:
    """Copies the output of a guest's command to ours as it comes."""

    def copy(source: BinaryIO, target: BinaryIO) -> None:
        while data := os.read(source.fileno(), 65536):
            target.write(data)
            target.flush()

    assert process.stdout is not None and process.stderr is not None
    pairs = ((process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer))
    threads = [threading.Thread(target=copy, args=pair, daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    return threads


__all__ = ["NOT_SET_UP", "SERVER", "Client", "own_stdin", "relay"]
