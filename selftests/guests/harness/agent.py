# SPDX-License-Identifier: GPL-2.0
"""Runs in a guest: executes the commands that the harness sends over a virtio-serial port, or a serial line.

The protocol is lines of words; every free text in them is hexadecimal. In: `run ID SCRIPT`, `kill ID`, `kmsg ID`.
Out: `ready`, then `taken` for each line that came in, and per request `out ID TEXT` any number of times and `end ID STATUS`
once. Imports are few because each costs a tenth of a second under emulation.
"""

import os
import select

KMSG_RECORD = 8192


def open_port():
    """The port that QEMU named `agent`; without udev /dev has no names. Or the line of a guest without ports."""
    base = "/sys/class/virtio-ports"
    for node in os.listdir(base) if os.path.exists(base) else ():
        with open(f"{base}/{node}/name", encoding="ascii") as f:
            if f.read().strip() == "agent":
                return os.open(f"/dev/{node}", os.O_RDWR)
    import tty

    line = os.open("/dev/ttyS0", os.O_RDWR | os.O_NOCTTY)
    tty.setraw(line)
    return line


class Agent:
    """One command channel: any number of commands run at the same time."""

    def __init__(self):
        self.port = open_port()
        self.kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        self.poll = select.poll()
        self.poll.register(self.port, select.POLLIN)
        self.jobs = {}  # pipe -> (id, pid)
        self.statuses = {}  # pid -> status of a command that has ended while its pipe has not
        self.pending = b""

    def say(self, *words):
        """Writes one line, however many pieces the port takes it in."""
        data = " ".join(words).encode() + b"\n"
        while data:
            data = data[os.write(self.port, data) :]

    def run(self, ident, script):
        """Starts a shell with the script in a process group of its own, its output in a pipe."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(write, 1)
            os.dup2(write, 2)
            os.execv("/bin/sh", ["sh", "-ec", script])
        os.close(write)
        self.jobs[read] = (ident, pid)
        self.poll.register(read, select.POLLIN)

    def kill(self, ident):
        """Ends a command with all it started. Its pipe may stay open in a process that left the group."""
        for pipe, (job, pid) in list(self.jobs.items()):
            if job == ident:
                try:
                    os.killpg(pid, 9)
                except ProcessLookupError:
                    pass
                self.finish(pipe)

    def finish(self, pipe):
        """Reports the end of a command whose output has ended."""
        ident, pid = self.jobs.pop(pipe)
        self.poll.unregister(pipe)
        os.close(pipe)
        status = self.statuses.pop(pid, None)
        if status is None:
            status = os.waitpid(pid, 0)[1]
        self.say("end", ident, str(os.waitstatus_to_exitcode(status)))

    def reap(self):
        """Reaps children that have ended: this is process 1, so daemons that lost their parent are here too."""
        commands = {pid for _, pid in self.jobs.values()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in commands:
                self.statuses[pid] = status

    def drain_kmsg(self, ident):
        """Sends the kernel messages that came since the last time, one record each."""
        while True:
            try:
                record = os.read(self.kmsg, KMSG_RECORD)
            except BlockingIOError:
                break
            except BrokenPipeError:
                record = b"4,0,0,-;harness: kernel messages were lost\n"
            self.say("out", ident, record.hex())
        self.say("end", ident, "0")

    def handle(self, line):
        """One request."""
        word, ident, *rest = line.decode().split()
        if word == "run":
            self.run(ident, bytes.fromhex(rest[0]).decode())
        elif word == "kill":
            self.kill(ident)
        elif word == "kmsg":
            self.drain_kmsg(ident)

    def serve(self):
        """Runs for ever."""
        self.say("ready")
        while True:
            events = self.poll.poll(1000)
            self.reap()
            for fd, _ in events:
                if fd == self.port:
                    self.pending += os.read(self.port, 65536)
                    *lines, self.pending = self.pending.split(b"\n")
                    for line in lines:
                        self.handle(line)
                        self.say("taken")
                elif fd in self.jobs:
                    data = os.read(fd, 16384)
                    if data:
                        self.say("out", self.jobs[fd][0], data.hex())
                    else:
                        self.finish(fd)


Agent().serve()
