# SPDX-License-Identifier: GPL-2.0
"""One cycle of a soak: a mount of some kind, the load, what happens to it, and an end of some kind."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from guests.harness import klog
from guests.harness.native import ALLOWED
from guests.harness.pair import MOUNT_POINT, Pair
from guests.lib import kerberos

from .events import FAULTS, NO_RULE, QUEUE, REPORTED, Scene, happen

# What the events provoke, at warning level. The rest is a finding, and so is every report.
PROVOKED = re.compile(
    r"nfs: server .* (not responding|OK)|rpcrdma(_rs)?\b|svcrdma|[Nn][Ff][Ss][Dd]: |lockd: |rxe\d*: |infiniband rxe0"
    r"|rdma_rxe: |link is not ready|NFS(v4)?: |sunrpc: |fail_sunrpc|FAULT_INJECTION|callbacks suppressed"
)
# The first line of the kernel's reports about the memory that an event takes. Two may be printed at a time.
STARVING = re.compile("invoked oom-killer|python3: page allocation failure")
PRINTING = 2  # seconds that such a report takes
ENDS = ("plain", "plain", "plain", "force", "lazy")
LEASES = "/proc/sys/fs/leases-enable"
# An earlier cycle may have restarted nfsd, if it runs yet.
NO_GRACE = "{ echo Y >/proc/fs/nfsd/v4_end_grace; } 2>/dev/null || true"
PAIRS_OF_HANDS = 2  # events at the same time
LIMIT = 60  # seconds for each step of the end, before stretching
STANDS_STILL = 40  # seconds after the events


class Finding(Exception):
    """Something that must not be."""


@dataclass(frozen=True)
class Plan:
    """What a seed leads to, but for the moments, which the machine has a part in."""

    seed: int
    vers: str
    proto: str
    options: str
    end: str
    seconds: int
    processes: int
    size: int
    reload: bool
    hands: tuple[int, ...] = field(repr=False)
    flavour: str

    @staticmethod
    def of(seed: int) -> Plan:
        """Draws the plan of a seed."""
        draw = random.Random(seed)
        options = [f"nconnect={draw.choice((1, 4))}"]
        if draw.random() < 0.3:
            size = draw.choice((4096, 16384, 65536))
            options.append(f"rsize={size},wsize={size}")
        if draw.random() < 0.3:
            options.append(draw.choice(("noac", "sync", "timeo=50,retrans=1", "lookupcache=none")))
        return Plan(
            seed=seed,
            vers=draw.choice(("3", "4.0", "4.1", "4.2", "4.2")),
            proto=draw.choice(("rdma", "rdma", "rdma6")),
            options=",".join(options),
            end=draw.choice(ENDS),
            seconds=draw.choice((4, 8, 15)),
            processes=draw.choice((8, 8, 16)),
            size=draw.choice((1 << 16, 1 << 20, 2 << 20)),
            reload=draw.random() < 0.6,
            hands=tuple(draw.randrange(1 << 32) for _ in range(PAIRS_OF_HANDS)),
            flavour=draw.choice(("sys", "sys", "sys", *kerberos.FLAVOURS)),
        )

    @property
    def unmounts_amid(self) -> bool:
        """Whether the unmount comes amid the load.

        The NFS client keeps credentials of files beyond that, and gss_destroy_cred() has been seen to call with an RPC client that
        is gone: an oops in rpc_task_set_transport(), with either transport.
        """
        return self.end != "plain" and self.flavour == "sys"

    @property
    def keeps_state(self) -> bool:
        """Whether nfsd keeps its state, and grants no delegations.

        Else mounts of NFSv4.0 fail and hang, with the in-tree transport at both ends, too. An OPEN that fails, as all do in the
        grace period, leaves the last result of its owner in nfsd's memory: sent again, it gets this result, and the application
        EIO. A COMMIT recalls the delegation of its own client, in __break_lease(), and waits for its return; the client may want
        the reply first, to recover its state. The recall would come over TCP.
        """
        return self.vers == "4.0"

    def mount(self, pair: Pair) -> None:
        """Mounts as planned."""
        if self.flavour == "sys":
            pair.mount(self.vers, self.options, self.proto)
            return
        flavour = self.flavour
        if flavour == "krb5i" and self.vers != "3" and pair.options.server == "in-tree":
            # nfsd may overwrite the checksum of a reply before this server has sent it (guests/tests/test_kerberos.py).
            flavour = "krb5p"
        kerberos.mount(pair, self.vers, flavour, self.options)


class Cycle:
    """A cycle under way, with the list of its events."""

    def __init__(self, pair: Pair, plan: Plan, only: tuple[str, ...], starved: dict[str, float]):
        self.pair, self.plan, self.only = pair, plan, only
        # When each guest had no memory last. A report of an earlier cycle may end in this one.
        self._starved = starved
        self.events: list[str] = []
        self._described = False
        self._began = time.monotonic()

    def _say(self, text: str) -> None:
        self.events.append(f"{time.monotonic() - self._began:5.1f} {text}")

    def run(self) -> None:
        """Everything in order."""
        plan, client = self.plan, self.pair.client
        directory = f"{MOUNT_POINT}/soak-{plan.seed}"
        self._say(repr(plan))
        for guest in self.pair.guests:
            guest.run(f"echo >{REPORTED}")
        self.pair.server.run(
            f"echo {int(not plan.keeps_state)} >{LEASES}" + (f"; {NO_GRACE}" if plan.keeps_state else "")
        )
        plan.mount(self.pair)
        client.run(f"mkdir -p {directory}", LIMIT)
        words = f"{directory} {plan.seconds} {plan.processes} {plan.seed} {plan.size}"
        storm = client.spawn(f"/share/storm {words} 2>&1 || echo status $?")
        errors = self._happen()
        if errors:
            raise errors[0]
        client.run(f"echo 0 >{FAULTS}/probability")
        for guest in self.pair.guests:
            guest.run(f"{QUEUE} delay 0ms; {NO_RULE}")
        with self._watched():
            said = client.finish(storm, "storm", 2 * LIMIT).out
        self._judge_load(said)
        # A file of a process that was killed goes a little later.
        client.run(f"until rm -rf {directory} 2>/dev/null; do sleep 0.2; done", LIMIT)
        client.run(f"while mountpoint -q {MOUNT_POINT}; do umount {MOUNT_POINT}; done", LIMIT)
        self.pair.server.run("rm -rf /export/soak-*", LIMIT)
        if plan.reload:
            self._say("module unloaded and loaded")
            self.pair.unload_module(LIMIT)
            self.pair.load_module()
        self._judge_kernels()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Describes both guests if the load does not end in good time: when it does, what it waited for is over."""
        timer = threading.Timer(STANDS_STILL, self._describe)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _describe(self) -> None:
        self._described = True
        self._say(self.pair.describe_hang())

    def _happen(self) -> list[BaseException]:
        """The events, and the unmount if that comes in the middle of them."""
        errors: list[BaseException] = []
        end = time.monotonic() + self.plan.seconds

        def hand(seed: int) -> None:
            try:
                happen(Scene(self.pair, random.Random(seed), self._say, self.only, self.plan.keeps_state), end)
            except BaseException as error:  # handed to the thread that waits
                errors.append(error)

        hands = [threading.Thread(target=hand, args=(seed,), daemon=True) for seed in self.plan.hands]
        for thread in hands:
            thread.start()
        if self.plan.unmounts_amid:
            time.sleep(self.plan.seconds * random.Random(self.plan.seed).random())
            self._say(f"umount, {self.plan.end}")
            self.pair.client.run(f"umount -{self.plan.end[0]} {MOUNT_POINT} || true", LIMIT)
        for thread in hands:
            thread.join(4 * LIMIT * self.pair.options.slowness)
            if thread.is_alive():
                raise Finding("an event does not end")
        return errors

    def _judge_load(self, said: str) -> None:
        """Wrong data is one at any time, an error if the mount was there to the end."""
        if "WRONG DATA" in said or "status 2" in said:
            on_server = self.pair.server.run("ls -l /export/soak-*", LIMIT, check=False).out
            raise Finding(f"{said}on the server: {on_server}")
        if "for a moment" in said:
            raise Finding(f"a wrong size: {said}")
        if not self.plan.unmounts_amid and ("status" in said or ", 0 ended by an unmount" not in said):
            raise Finding(f"an error on a hard mount: {said}")

    def _judge_kernels(self) -> None:
        starved = self._starved
        for message in self.pair.kernel_messages():
            if STARVING.search(message.text):
                starved[message.guest] = message.seconds
            starves = message.seconds <= starved.get(message.guest, -PRINTING) + PRINTING
            # A description has stacks, too.
            if (starves or self._described) and (
                "Call Trace:" in message.text or not klog.REPORTS.search(message.text)
            ):
                continue
            if klog.REPORTS.search(message.text) or (
                klog.findings([message], ALLOWED) and not PROVOKED.search(message.text)
            ):
                raise Finding(str(message))
