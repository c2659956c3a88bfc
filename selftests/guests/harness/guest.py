# SPDX-License-Identifier: GPL-2.0
"""One guest: its process, QEMU or a kernel that is a program, its console, command channel and monitor."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from . import native
from .channel import Channel, ChannelClosed, Job, Result
from .config import GUEST_ROOT, Options
from .network import MTU

HERE = Path(__file__).parent
BOOT_LIMIT = 60.0  # seconds, before stretching
BOOT_SILENCE = 15.0  # seconds without a word on the console, likewise
# A blocked task is a finding before the kernel's default of two minutes, but a large fsync may take its time.
HUNG_TASK = 25  # seconds, before stretching
# With these the driver of the network adapter has a page for each frame, and no page pool. Freeing one of a pool lets
# softirqs in, and soft-RoCE does that under a lock that they take, when a connection ends: a lockdep report, or a hang.
NIC = "mrg_rxbuf=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,guest_uso4=off,guest_uso6=off"


class GuestError(Exception):
    """A guest did not carry out a command; the text shows why."""


class CommandFailed(GuestError):
    """A command ended with a status other than 0."""

    def __init__(self, guest: Guest, script: str, result: Result):
        where = f"{guest.name}: status {result.rc}"
        super().__init__(f"{where} from:\n{indent(script)}\nwith output:\n{indent(result.out)}")
        self.result = result


class DiedAtBoot(GuestError):
    """The process ended before its guest was up, or its processors stand still."""


class GuestTimeout(GuestError):
    """Something took too long."""


def indent(text: str) -> str:
    """Sets a text off from the text around it."""
    return "\n".join("    " + line for line in text.strip("\n").splitlines())


def clock_parameters(options: Options) -> str:
    """Spares an emulated guest the calibration of its clocks, which is slow and, on a busy machine, fails.

    Under emulation the guest's time stamp counter is the host's, whose frequency is half of the host's bogomips; a
    guest whose time is its instructions (-icount) has one of a gigahertz.
    """
    if options.accel != "tcg":
        return ""
    if "-icount" in options.qemu:
        return "lpj=10000000 tsc_early_khz=1000000"
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    bogomips = re.search(r"^bogomips\s*: ([\d.]+)", cpuinfo, re.M)
    if not bogomips or "constant_tsc" not in cpuinfo:
        return "lpj=10000000"
    return f"lpj=10000000 tsc_early_khz={round(float(bogomips[1]) * 500)}"


def network_adapter(tap: str, mac: str) -> list[str]:
    """QEMU's arguments for an adapter at this tap."""
    netdev = f"tap,id=n0,ifname={tap},script=no,downscript=no,vhost=off"
    return ["-netdev", netdev, "-device", f"virtio-net-pci,netdev=n0,mac={mac},host_mtu={MTU},romfile=,{NIC}"]


class Guest:
    """A machine that runs the tree read-only, with a share of its own at /share."""

    boots = 0  # of this run, so that logs of several boots stay apart

    def __init__(
        self,
        name: str,
        options: Options,
        tap: str | None = None,
        mac: str = "",
        modprobe: str = "",
        disk: Path | None = None,
    ):
        self.name = name
        self.options = options
        self.tap = tap
        self.mac = mac
        self.disk = disk
        self.directory = options.work / name
        shutil.rmtree(self.directory, ignore_errors=True)
        self.share = self.directory / "share"
        self.share.mkdir(parents=True)
        Guest.boots += 1
        self.console = (options.logs or self.directory) / f"{Guest.boots:03}-{name}.console"
        self.console.parent.mkdir(parents=True, exist_ok=True)
        self._fill_share(modprobe)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._monitor: Monitor | None = None
        self.boot_seconds = 0.0

    def _fill_share(self, modprobe: str) -> None:
        shutil.copy(HERE / "init.sh", self.share / "init")
        (self.share / "init").chmod(0o755)
        shutil.copy(HERE / "agent.py", self.share / "agent.py")
        (self.share / "hostname").write_text(self.name + "\n")
        (self.share / "modprobe.conf").write_text(modprobe)
        (self.share / "hung-task").write_text(f"{round(HUNG_TASK * self.options.slowness)}\n")

    def start(self) -> None:
        """Starts the process; `wait_ready` waits until the guest takes commands."""
        agent = str(self.directory / "agent.sock")
        self._channel = Channel(agent)
        with ExitStack() as files:
            command, inherited = (
                files.enter_context(native.command(self, agent))
                if self.options.accel == "native"
                else (self._command(), ())
            )
            if self.options.processor is not None:
                command = ["taskset", "--cpu-list", str(self.options.processor), *command]
            (self.directory / "command").write_text(" ".join(command) + "\n")
            self._started = time.monotonic()
            log = files.enter_context((self.directory / "process.log").open("wb"))
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=inherited,
            )
        try:
            self._channel.accept(20)
        except TimeoutError:
            raise GuestError(f"{self.name} did not start:\n{indent(self._process_log())}") from None

    def _process_log(self) -> str:
        return (self.directory / "process.log").read_text(errors="replace")

    def _command(self) -> list[str]:
        options = self.options
        accel, cpu = {"tcg": (options.emulator, options.cpu), "kvm": ("kvm", "host")}[options.accel]
        cmdline = (
            "console=ttyS0 root=root rootfstype=9p ro init=/sbin/guest-init "
            "rootflags=trans=virtio,version=9p2000.L,msize=262144,cache=loose "
            "panic=-1 oops=panic log_buf_len=8M printk.time=1 loglevel=7 tsc=reliable no_timer_check sysrq_always_enabled "
            f"{clock_parameters(options)} {options.kernel_parameters}"
        )
        command = ["qemu-system-x86_64", "-accel", accel, "-cpu", cpu]
        # One core per socket: the table of processors for a kernel without ACPI lists one per socket.
        command += ["-smp", f"{options.smp},sockets={options.smp}", "-m", f"{options.memory}M"]
        command += ["-machine", "pc,acpi=off,graphics=off"]
        command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-name", self.name]
        command += ["-kernel", str(options.image), "-append", cmdline]
        if options.initrd:
            command += ["-initrd", str(options.initrd)]
        # The multiplexer is there for its escape C-a b, which sends the break that starts a SysRq.
        console = f"socket,id=con,path={self.directory}/con.sock,server=on,wait=off,mux=on,logfile={self.console}"
        command += ["-chardev", console, "-serial", "chardev:con"]
        command += ["-chardev", f"socket,id=agent,path={self.directory}/agent.sock"]
        command += ["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=agent"]
        command += ["-qmp", f"unix:{self.directory}/qmp.sock,server=on,wait=off"]
        command += ["-device", "virtio-rng-pci"]
        command += self._share_device("root", GUEST_ROOT, "readonly=on,multidevs=remap,")
        command += self._share_device("kernel", options.modules, "readonly=on,")
        command += self._share_device("share", self.share, "")
        if self.tap:
            command += network_adapter(self.tap, self.mac)
        if self.disk:
            command += ["-drive", f"file={self.disk},if=virtio,format=raw"]
        return [*command, *options.qemu]

    @staticmethod
    def _share_device(tag: str, path: Path, flags: str) -> list[str]:
        device = f"local,id={tag},path={path},{flags}security_model=none"
        return ["-fsdev", device, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]

    def wait_ready(self) -> None:
        """Returns when the guest's agent has reported."""
        channel = self._need_channel()
        start = changed = time.monotonic()
        size = 0
        while not channel.ready.wait(1):
            now = time.monotonic()
            if now - start > BOOT_LIMIT * self.options.slowness:
                raise GuestTimeout(f"{self.name} did not boot in time:\n{self.console_tail()}")
            if self.console.exists() and self.console.stat().st_size != size:
                size, changed = self.console.stat().st_size, now
            elif now - changed > BOOT_SILENCE * self.options.slowness:
                raise DiedAtBoot(f"{self.name} went silent while it booted:\n{self.console_tail()}")
        if channel.closed:
            raise DiedAtBoot(f"{self.name} died at boot:\n{indent(self._process_log())}\n{self.console_tail()}")
        self.boot_seconds = time.monotonic() - self._started

    def _need_channel(self) -> Channel:
        if self._channel is None:
            raise GuestError(f"{self.name} is not started")
        return self._channel

    def spawn(self, script: str) -> Job:
        """Starts a shell script (with `set -e`) in the guest."""
        if self.options.accel == "native":
            script = native.shortened(script, self.share)
        try:
            return self._need_channel().request("run", script)
        except ChannelClosed:
            raise self._died(script) from None

    def run(self, script: str, timeout: float = 30.0, check: bool = True) -> Result:
        """Runs a shell script in the guest; the time limit is stretched on a slow kernel."""
        return self.finish(self.spawn(script), script, timeout, check)

    def finish(self, job: Job, what: str, timeout: float, check: bool = True) -> Result:
        """Waits for a script that `spawn` started. One that takes too long is killed."""
        try:
            result = job.wait(timeout * self.options.slowness)
        except ChannelClosed:
            raise self._died(what) from None
        except TimeoutError:
            limit = f"{timeout:.0f} s (times {self.options.slowness:.0f})"
            text = f"{self.name}: {limit} were not enough for:\n{indent(what)}"
            raise GuestTimeout(f"{text}\noutput:\n{indent(job.text)}\n{self.console_tail()}") from None
        if check and result.rc != 0:
            error = CommandFailed(self, what, result)
            if result.rc > 128:  # Ended by a signal: the kernel log has the place.
                log = self.run("dmesg | tail -n 10", check=False).out
                error.add_note(f"end of the kernel log of {self.name}:\n{indent(log)}")
            raise error
        return result

    def _died(self, what: str) -> GuestError:
        return GuestError(f"{self.name} died while doing:\n{indent(what)}\n{self.console_tail(60)}")

    def kernel_records(self, timeout: float = 20.0) -> list[str]:
        """The records of /dev/kmsg since the last call."""
        try:
            job = self._need_channel().request("kmsg")
        except ChannelClosed:
            raise self._died("read /dev/kmsg") from None
        text = self.finish(job, "read /dev/kmsg", timeout).out
        with self.console.with_suffix(".kmsg").open("a") as log:
            log.write(text)
        return text.splitlines()

    def console_tail(self, lines: int = 25) -> str:
        """The last lines of the console, for error messages."""
        try:
            text = self.console.read_text(errors="replace")
        except OSError:
            text = ""
        return f"last console lines of {self.name}:\n{indent(chr(10).join(text.splitlines()[-lines:]))}"

    def blocked_tasks(self) -> str:
        """Has the kernel print its tasks (SysRq w, then t) on the console, which works when the agent does not."""
        if not self.alive:
            return f"{self.name} is not running"
        start = self.console.stat().st_size
        try:
            self._press_keys()
        except OSError as error:
            return f"{self.name}: no SysRq: {error}"
        text = self.console.read_bytes()[start:].decode(errors="replace").splitlines()
        stop = next((i for i, line in enumerate(text) if "Show State" in line), len(text))
        return f"blocked tasks of {self.name} (all tasks: see {self.console}):\n{indent(chr(10).join(text[:stop]))}"

    def _press_keys(self) -> None:
        # The console has been made quiet; 7 makes it print the rest.
        if self.options.accel == "native":
            for key in "7w":  # Not t: printing all tasks takes longer than an interrupt may.
                native.sysrq(self, key)
                self._quiet_console()
            return
        with socket.socket(socket.AF_UNIX) as con:
            con.settimeout(5)
            con.connect(str(self.directory / "con.sock"))
            for key in (b"7", b"w", b"t"):
                con.sendall(b"\x01b" + key)
                self._quiet_console()

    def _quiet_console(self, limit: float = 30.0) -> None:
        """Waits until the console has been silent for half a second."""
        deadline, size = time.monotonic() + limit, -1
        while time.monotonic() < deadline and (now := self.console.stat().st_size) != size:
            size = now
            time.sleep(0.5)

    @property
    def monitor(self) -> Monitor:
        """QEMU's monitor."""
        if self.options.accel == "native":
            raise GuestError(f"{self.name} is no guest of QEMU, which alone has a monitor")
        if self._monitor is None:
            self._monitor = Monitor(self.directory / "qmp.sock")
        return self._monitor

    @property
    def pid(self) -> int:
        """The process."""
        if self._process is None:
            raise GuestError(f"{self.name} is not started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Returns `True` if the process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Ends the process, as if the guest's power were cut."""
        if self._process is not None and self._process.poll() is None:
            # A kernel that is a process would tidy up in its idle task, which cannot sleep.
            end = self._process.kill if self.options.accel == "native" else self._process.terminate
            end()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._channel is not None:
            self._channel.close()
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None


class Monitor:
    """QEMU's machine protocol, as far as needed."""

    def __init__(self, path: Path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        self._socket.connect(str(path))
        self._stream = self._socket.makefile("rwb")
        self._stream.readline()
        self.call("qmp_capabilities")

    def call(self, command: str, **arguments: object) -> object:
        """Executes one command; skips events in between."""
        self._stream.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        self._stream.flush()
        while True:
            reply = json.loads(self._stream.readline())
            if "error" in reply:
                raise GuestError(f"monitor: {command}: {reply['error']['desc']}")
            if "return" in reply:
                return reply["return"]

    def close(self) -> None:
        """Ends the session."""
        self._socket.close()
