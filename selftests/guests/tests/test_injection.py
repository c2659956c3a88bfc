# SPDX-License-Identifier: GPL-2.0
"""Faults that the kernel itself injects: connections lost in the middle of anything, allocations that fail."""

from __future__ import annotations

import re
from collections import Counter

from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair, mount_command, wait_until
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.connecting import PROVOKED
from guests.lib.hostile import ABSENT, hostile
from guests.lib.injection import FOR_EVER, SLAB, STARVED, arm, disarm, injection, left, numbers, starvation
from guests.lib.lookups import PATIENT, ROOM, came, numbered
from guests.lib.mountstats import transport
from guests.lib.reverse import NULL, bed
from guests.lib.rules import rule
from guests.lib.sight import details
from guests.lib.steady import Writer


SUNRPC = "fail_sunrpc"
EVERY = 25  # Sends


@test(
    "sunrpc injects disconnects, vers={vers}",
    *("V1-122", "PD-20"),
    limit=600,
    allowed=PROVOKED,
    device="rxe",
    cases=[{"vers": "3"}, {"vers": "4.2"}],
    needs=("lost sends",),
)
def disconnects(pair: Pair, vers: str) -> None:
    """Each 25th Send loses the connection, during any other activity; nothing is lost, and nothing is done twice."""
    wanted = 25 * max(1, pair.options.rounds)
    with injection(pair.client, SUNRPC, ignore_server_disconnect="Y", ignore_cache_wait="Y"):
        pair.mount(vers)
        writer = Writer(pair)
        before = transport(pair.client, MOUNT_POINT)["connect_count"]

        def lost() -> int:
            return transport(pair.client, MOUNT_POINT)["connect_count"] - before

        arm(pair.client, SUNRPC, EVERY, FOR_EVER)
        wait_until(lambda: lost() >= wanted, "too few connections were lost", 400 * pair.options.slowness, 1)
        disarm(pair.client, SUNRPC)
        writer.finish()
        print(f"# injected disconnects, vers={vers}: {lost()} connections, {EVERY} Sends each")
        pair.umount()


@test("any allocation of a mount fails", "H-85", limit=900, allowed=STARVED, device="rxe", needs=("lost memory",))
def mounting(pair: Pair) -> None:
    """The mount fails with a message or succeeds; nothing is left behind, and the next mount works."""
    client = pair.client
    idle = resources.rdma(client)
    outcomes: Counter[str] = Counter()

    def mount() -> None:
        told = client.run(f"{mount_command('3')} && stat {MOUNT_POINT} >/dev/null", 60, check=False)
        outcomes[re.sub(r"mount.nfs: | for .*", "", told.out.strip()) or "mounted"] += 1
        client.run(f"umount {MOUNT_POINT}", check=told.rc == 0)

    with starvation(client, pair.module) as allocations:
        print(f"# mounted {allocations.each(numbers(pair), mount)}: {dict(outcomes)}")
    assert set(outcomes) <= {"mounted", "Cannot allocate memory"}, outcomes
    wait_until(lambda: resources.rdma(client) == idle, "RDMA objects are left", 20 * pair.options.slowness)
    pair.mount("3")
    pair.umount()


@test(
    "any allocation of another connection fails",
    *("H-85", "V1-122"),
    limit=900,
    allowed=STARVED,
    device="rxe",
    needs=("lost memory",),
)
def connecting(pair: Pair) -> None:
    """An existing mount continues: the transport tries to connect again."""
    client = pair.client
    pair.mount("3")
    client.run(f"head -c 300000 /dev/urandom >{MOUNT_POINT}/starved")
    total = client.run(f"sha256sum <{MOUNT_POINT}/starved").out
    with rule(client, "starved", port=NFS_PORT) as asked, starvation(client, pair.module) as allocations:

        def connect() -> None:
            asked.reconnect()
            pair.drop_caches()
            assert client.run(f"sha256sum <{MOUNT_POINT}/starved", 60).out == total

        print(f"# connected {allocations.each(numbers(pair), connect)}")
    client.run(f"rm {MOUNT_POINT}/starved")
    pair.umount()


@test(
    "no memory for one more request",
    *("H-9", "H-85"),
    limit=180,
    allowed=STARVED,
    device="rxe",
    needs=("lost memory",),
)
def requests(pair: Pair) -> None:
    """A call without a request gets one as soon as memory is free, although no other call ends."""
    client = pair.client
    with starvation(client, pair.module), hostile(pair, "--credits", "128", *ROOM, mount=PATIENT) as server:
        # The number that a transport begins with; one after the other, so that it has made no more.
        names, holders = numbered("always-never", 16), []
        for name in names:
            holders.append(client.spawn(f"echo $$ >>/tmp/waiting; exec stat {MOUNT_POINT}/{name}"))
            came(server, [name])
        arm(client, SLAB, 1, 1000)
        late = client.spawn(f"stat {MOUNT_POINT}/do-right")
        wait_until(lambda: left(client, SLAB) < 1000, "the call needs no memory", 20 * pair.options.slowness)
        disarm(client, SLAB)
        assert ABSENT in client.finish(late, "the look-up", 10 * pair.options.slowness, check=False).out
        assert len(server.of("connect")) == 1, "the other calls were timed out first"
        client.run("kill -9 $(cat /tmp/waiting)")
        for holder in holders:
            client.finish(holder, "a killed process", 20, check=False)


@test(
    "a reverse call gets through when all Receives are in use, and there is no memory for more",
    *("BI-2", "H-74", "H-85"),
    limit=180,
    allowed=STARVED,
    device="rxe",
    needs=("lost memory",),
)
def no_receive_left(pair: Pair) -> None:
    """Calls that wait for Receives, which only the replies to others give back, must not keep the reply to a reverse call
    from going out."""
    # More than the Receives of a client that knows of the reverse direction.
    callers = 100
    with starvation(pair.client, pair.module, "BufferSpec4make"), bed(pair, "--credits", "128", *ROOM) as it:
        arm(pair.client, SLAB, 1, FOR_EVER)
        it.server.order("hold")
        running = it.load.start(f"run count={callers} depth={callers} call=100 reply=100")
        it.wait(lambda: it.queued() > 0 and it.queued() + len(it.kept()) == callers, "no call waits for a Receive")
        assert details(pair.client, it.server.port)["waits_for"] == "buffers"
        sent = len(it.kept())
        for count in (1, 8):
            order = it.server.order("call", procedure=NULL, count=count)
            last = it.replies_to(order)[-1]
            took = last["at"] - order["at"]
            assert took < 1.0 * pair.options.slowness, f"{count} reverse calls took {took:.1f} s"
        assert len(it.kept()) == sent < callers, f"{len(it.kept())} calls have found Receives"
        it.server.order("release")
        outcome = it.load.finish(running)[0].good()
        assert outcome.values["calls"] == callers and it.connections() == 1, str(outcome)
