# SPDX-License-Identifier: GPL-2.0
"""Looks names up that a server does not have, with a limit to how long that may take.

Usage in a guest: `lookups.py together DIRECTORY NAME...` looks all names up at the same time and prints the results;
`lookups.py killed DIRECTORY NAME COUNT OTHER LIMIT` looks up NAME.0, NAME.1 .. one after the other, and kills each
look-up once the server has it. Before each kill and after it the reply for OTHER has to come within LIMIT seconds. Prints the
longest that it took, by `waiting` and `killed`.
"""

import errno
import glob
import os
import select
import signal
import sys
import threading
import time

TASKS = "/sys/kernel/debug/sunrpc/rpc_clnt/*/tasks"
PAUSE = 0.002  # seconds between looks at them


def look_up(path):
    """The error of a look-up in words."""
    try:
        os.stat(path)
    except OSError as error:
        return os.strerror(error.errno)
    return "found"


def together(directory, names):
    """Prints a line for each name."""

    def one(name):
        os.write(1, f"{name}: {look_up(f'{directory}/{name}')}\n".encode())

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def sent():
    """The number of look-ups of this machine that have been sent and wait for their replies. Before one there may be a call
    for the attributes of the directory, which gets its reply."""
    count = 0
    for path in glob.glob(TASKS):
        try:
            with open(path, encoding="ascii") as tasks:
                count += sum(" LOOKUP " in line and "q:xprt_pending" in line for line in tasks)
        except OSError:
            pass  # a client that has gone
    return count


class Child:
    """A process that does something, and is killed in the end."""

    def __init__(self, work, *arguments):
        self.pid = os.fork()
        if self.pid == 0:
            work(*arguments)
            os._exit(0)

    def kill(self):
        """Ends it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Prober:
    """Looks one name up again and again; it is a process of its own because a look-up may never end."""

    def __init__(self, path, limit):
        self.path, self.limit = path, limit
        self._orders, self._order = os.pipe()
        self._result, self._results = os.pipe()
        self._child = Child(self._work)

    def _work(self):
        while os.read(self._orders, 1):
            os.write(self._results, look_up(self.path).encode())

    def probe(self, when):
        """The seconds that a look-up takes."""
        start = time.monotonic()
        os.write(self._order, b".")
        if not select.select([self._result], [], [], self.limit)[0]:
            raise SystemExit(f"no reply about {self.path} within {self.limit} s, {when}")
        told = os.read(self._result, 100).decode()
        if told != os.strerror(errno.ENOENT):
            raise SystemExit(f"{self.path}: {told}, {when}")
        return time.monotonic() - start

    def end(self):
        """Ends it."""
        self._child.kill()


def killed(directory, name, count, other, limit):
    """Prints the longest times."""
    prober = Prober(f"{directory}/{other}", limit)
    longest = {"waiting": prober.probe("to begin with"), "killed": 0.0}
    waiting = None
    try:
        for number in range(count):
            waiting = Child(look_up, f"{directory}/{name}.{number}")
            deadline = time.monotonic() + limit
            while not sent():
                if time.monotonic() > deadline:
                    raise SystemExit(f"{name}.{number} was not sent within {limit} s, with {number} killed before it")
                time.sleep(PAUSE)
            took = prober.probe(f"while {name}.{number} is waiting")
            longest["waiting"] = max(longest["waiting"], took)
            waiting.kill()
            waiting = None
            took = prober.probe(f"after {name}.{number} was killed")
            longest["killed"] = max(longest["killed"], took)
    finally:
        prober.end()
        if waiting is not None:
            waiting.kill()
    print(" ".join(f"{when}={took:.3f}" for when, took in longest.items()))


def main(words):
    """The command line."""
    if words[0] == "together":
        together(words[1], words[2:])
    else:
        killed(words[1], words[2], int(words[3]), words[4], float(words[5]))


if __name__ == "__main__":
    main(sys.argv[1:])
