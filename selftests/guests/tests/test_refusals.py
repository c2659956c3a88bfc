# SPDX-License-Identifier: GPL-2.0
"""A device that refuses, or is small: no call is lost or ends wrongly, nothing leaks, and the log names the refusal."""

from __future__ import annotations

import re
import time

from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, Pair, mount_command, wait_until
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.hostile import ABSENT, ask, hostile
from guests.lib.ibfault import faults
from guests.lib.mountstats import transport
from guests.lib.parameters import parameters
from guests.lib.rpcload import loaded
from guests.lib.sight import ends


# The refused request while a connection is made, and the step that the log names.
STEPS = {
    "alloc_pd": "protection domain",
    "create_cq": "completion queue",
    "create_qp": "queue pair",
    "alloc_mr": "queue pair",
    "post_recv": "Receives",
}


def unchanged(pair: Pair, before: dict[str, int]) -> None:
    """The client holds as many RDMA objects as before."""
    # sunrpc drops the last references from a workqueue.
    limit = 20 * pair.options.slowness
    wait_until(lambda: resources.rdma(pair.client) == before, f"RDMA objects are left beyond {before}", limit)


@test(
    "{what} refused while connecting",
    *("PD-20", "H-57"),
    limit=120,
    device="rxe",
    cases=[{"what": what} for what in STEPS],
    core=True,
)
def connecting(pair: Pair, what: str) -> None:
    """The attempt ends, with a message that names the step, and leaves nothing; the next one succeeds."""
    before = resources.rdma(pair.client)
    with faults(pair) as device:
        device.refuse(what)
        said = len(pair.client.run("dmesg").out)
        pair.mount("4.2")
        assert device.refused(what) == 1, f"{what} was not asked for"
        log = pair.client.run("dmesg").out[said:]
        assert STEPS[what] in log, f"the log does not name the step:\n{log}"
        assert transport(pair.client, MOUNT_POINT)["connect_count"] == 1
        pair.client.run(f"head -c 300000 /dev/urandom >{MOUNT_POINT}/refused; rm {MOUNT_POINT}/refused")
        pair.umount()
        unchanged(pair, before)


@test("each rejection is told as one", "H-45", limit=240, device="rxe")
def rejected(pair: Pair) -> None:
    """The Receives that fail because of the rejection are no cause of their own, whichever is found first."""
    port = 20098
    # The reason of a rejection for a port that nothing listens on (InfiniBand Architecture Specification, 12.6.7.2).
    rejection = "connecting: refused (8)"
    job = pair.client.spawn(f"mkdir -p {MOUNT_POINT}; {mount_command('4.2', f'port={port}')}")

    def told() -> list[str]:
        return re.findall(rf"port {port}: cannot connect: (.*);", pair.client.run("dmesg").out)

    # The mount makes a new transport for each attempt, or keeps the first.
    patience = 40 * pair.options.slowness
    wait_until(lambda: len(told()) >= 4 or set(told()) - {rejection}, "not enough attempts", patience)
    job.kill()
    assert set(told()) == {rejection}, f"attempts: {told()}"
    pair.client.run(f"umount -l {MOUNT_POINT}", check=False)


# Calls that register memory, with one piece or three, and calls that do not.
WORDS = {
    "inline": "call=1000 reply=1000",
    "Read chunk": "call=65536 call_in=pages call_ddp=1",
    "Write chunk": "reply=65536 reply_in=pages reply_ddp=1",
    "three pieces": "call=20000 call_in=pages",
    "Reply chunk": "reply=20000 reply_in=pages",
}

# The refused request while calls are under way, its number, the calls, and whether the connection is in doubt then.
REFUSALS = [
    ("post_send", "5", "inline", True),
    ("post_send", "5", "Read chunk", True),
    ("post_send", "5 1", "Read chunk", True),
    ("post_send", "5 2", "three pieces", True),
    ("local_inv", "3", "three pieces", True),
    ("local_inv", "3 1", "three pieces", True),
    ("local_inv", "3 2", "Reply chunk", True),
    ("post_recv", "1", "inline", True),
    ("post_recv", "1 3", "Write chunk", True),
    ("map_mr_sg", "5", "Read chunk", False),
    ("map_mr_sg", "5", "three pieces", False),
    ("map_mr_sg", "5", "Reply chunk", False),
    ("alloc_mr", "1", "Read chunk", False),
]


@test(
    "{what} {when} refused, {calls}",
    *("V1-120", "H-6", "H-11", "H-13", "H-30", "H-34"),
    limit=120,
    device="rxe",
    cases=[{"what": w, "when": n, "calls": c, "fatal": f} for w, n, c, f in REFUSALS],
)
def working(pair: Pair, what: str, when: str, calls: str, fatal: bool) -> None:
    """Every call gets a reply with its own data, over the same connection or over the next one."""
    before = resources.rdma(pair.client)
    with faults(pair) as device, loaded(pair) as load:
        load.open()
        load.one(f"run {WORDS[calls]}").good()
        device.refuse(what, when)
        said = len(pair.client.run("dmesg").out)
        # Few at a time: a queue pair of rxe that fails while many packets come in may lock itself up, since it frees
        # them under a lock that soft interrupts take, and freeing lets soft interrupts run. Only a pool must be
        # exhausted.
        depth = 64 if what == "alloc_mr" else 2
        outcome = load.one(f"run count=128 depth={depth} seed=1 {WORDS[calls]}", timeout=90).good()
        assert outcome.values["calls"] == 128, str(outcome)
        assert device.refused(what) == 1, f"{what} was not asked for so often"
        assert outcome.counted["connect_count"] == fatal, str(outcome)
        log = pair.client.run("dmesg").out[said:]
        assert ("the device refused a work request" in log) == fatal, log
        assert load.bad_calls() == 0
        load.one("close").good()
        unchanged(pair, before)


@test("memory that can never be mapped", "V1-120", "H-37", "H-74", limit=150, device="rxe")
def unmapped(pair: Pair) -> None:
    """The call fails within seconds, with a line in the log; calls that register nothing succeed throughout."""
    client = pair.client
    with faults(pair) as device:
        pair.mount("3", "noac")
        client.run(f"echo before >{MOUNT_POINT}/unmapped")
        before = transport(client, MOUNT_POINT)
        said = len(client.run("dmesg").out)
        device.refuse("map_mr_sg", "always")
        # The call is tried for a second, also where that is time for few other calls.
        done = client.run(
            f"""
            dd if=/dev/zero of={MOUNT_POINT}/unmapped bs=64k count=1 oflag=direct conv=notrunc 2>/tmp/said & writer=$!
            passed=0
            while kill -0 $writer 2>/dev/null; do
                stat {MOUNT_POINT}/unmapped >/dev/null
                ! kill -0 $writer 2>/dev/null || passed=$((passed + 1))
            done
            wait $writer && failed=no || failed=yes
            echo $failed $passed
            cat /tmp/said
            """,
            40,
        )
        failed, passed = done.lines[0].split()
        assert failed == "yes" and "Input/output error" in done.out, f"{done}"
        assert int(passed) >= 2, "the call ended before others could pass"
        assert device.refused("map_mr_sg") >= 2, "the call was not tried again"
        device.refuse("map_mr_sg", "0")
        assert client.run(f"cat {MOUNT_POINT}/unmapped").out.strip() == "before"
        after = transport(client, MOUNT_POINT)
        assert after["failed_marshals"] == before["failed_marshals"] + 1, f"{before} {after}"
        assert after["connect_count"] == before["connect_count"], "the connection ended"
        log = client.run("dmesg").out[said:]
        assert "fails: it cannot be sent: its memory cannot be mapped" in log, log
        client.run(f"dd if=/dev/zero of={MOUNT_POINT}/unmapped bs=64k count=1 oflag=direct; rm {MOUNT_POINT}/unmapped")
        pair.umount()


# Calls of the largest size, and how many pages each of their chunks has. Head and tail are parts of their own.
LARGEST = {
    "call=1048576 call_in=pages call_ddp=1": (256, 0),
    "reply=1048576 reply_in=pages reply_ddp=1": (256, 0),
    "call=1048576 call_in=pages": (256, 2),
    "reply=1048576 reply_in=pages": (256, 2),
    "call=1048000 call_in=pages call_ddp=1 call_base=1234": (257, 0),
}


@test(
    "registrations of {pages} pages",
    *("V1-46", "V1-47", "V1-69", "V1-70", "V1-78", "H-4", "H-37"),
    limit=120,
    device="rxe",
    cases=[{"pages": 20}, {"pages": 100}],
    core=True,
)
def pages_per_registration(pair: Pair, pages: int) -> None:
    """A chunk has as many segments as it takes; every byte of it is moved, and every registration is invalidated."""
    before = resources.rdma(pair.client)
    with faults(pair, f"fast_reg_pages={pages}"), loaded(pair) as load:
        load.open()
        commands = [f"run count=4 depth=2 seed={seed} {words}" for seed, words in enumerate(LARGEST)]
        for outcome, (covered, ends) in zip(load.do(*commands, timeout=90), LARGEST.values(), strict=True):
            outcome.good()
            wanted = 4 * (-(-covered // pages) + ends)
            count = outcome.counted["local_invalidates"]
            assert count == wanted, f"{count} registrations instead of {wanted}\n{outcome}"
        both = "call=1048576 call_in=pages reply=1048576 reply_in=pages"
        load.one(f"run count=8 depth=4 seed=9 {both}", timeout=60).good()
        assert load.bad_calls() == 0
        load.one("close").good()
        unchanged(pair, before)


@test(
    "no mount over {what}",
    *("V1-153", "PD-27"),
    limit=60,
    device="rxe",
    cases=[
        {"what": "registrations of 8 pages", "words": "fast_reg_pages=8"},
        {"what": "a device without fast registration", "words": "mem_mgt=0"},
        {"what": "a device without local invalidation", "words": "no_local_inv=1"},
    ],
)
def too_small(pair: Pair, what: str, words: str) -> None:
    """The log has the reason. A call of the largest size would need more segments than a chunk may have; and a
    registration that is not made for one call must not be offered to the server to invalidate."""
    before = resources.rdma(pair.client)
    with faults(pair, words):
        said = len(pair.client.run("dmesg").out)
        mount = f"mount -t nfs -o vers=4.2,proto=rdma,retry=0 {SERVER.ipv4}:/ {MOUNT_POINT}"
        done = pair.client.run(f"timeout 60 {mount}", 70, check=False)
        assert done.rc not in (0, 124), str(done)
        log = pair.client.run("dmesg").out[said:]
        assert "the device lacks fast registration or is too small" in log, f"{what}: {log}"
        unchanged(pair, before)


# The messages of the module, and of rxe about requests whose queue pair is gone.
KEPT = (r"rpcrdma_rs: rxe0: cannot end the requests of a queue pair \(-110\): it is destroyed with them",)


@test("a queue pair that the device does not move to the error state", "V1-122", limit=120, device="rxe", allowed=KEPT)
def kept(pair: Pair) -> None:
    """As with firmware that does not answer: the unmount ends, no memory is used that is freed, and the device can go."""
    before = resources.rdma(pair.client)
    with faults(pair) as device:
        pair.mount("4.2")
        pair.client.run(f"head -c 100000 /dev/zero >{MOUNT_POINT}/kept; rm {MOUNT_POINT}/kept")
        device.keep_queue_pairs(True)
        pair.umount()
        wait_until(lambda: device.kept_queue_pairs() >= 2, "no queue pair was kept", 20 * pair.options.slowness)
        unchanged(pair, before)
        device.keep_queue_pairs(False)
        log = pair.client.run("dmesg").out
        assert re.search(KEPT[0], log), "the log does not tell"
        pair.mount("4.2")
        pair.umount()
        unchanged(pair, before)
    pair.client.run("rdma link delete rxe0; rdma link add rxe0 type rxe netdev eth0", 30)


@test("queues of {depth} requests", "H-4", "H-57", limit=90, device="rxe", cases=[{"depth": 500}, {"depth": 250}])
def queues(pair: Pair, depth: int) -> None:
    """The client requests as many credits as the device has room for, and calls beyond them wait."""
    before = resources.rdma(pair.client)
    with faults(pair, f"max_qp_wr={depth}"), loaded(pair) as load:
        said = len(pair.client.run("dmesg").out)
        load.open()
        asked = re.search(r"(\d+) credits asked for", pair.client.run("dmesg").out[said:])
        assert asked and 4 <= int(asked[1]) < 128, f"{asked}"
        for words in WORDS.values():
            load.one(f"run count=128 depth=64 {words}", timeout=60).good()
        assert load.bad_calls() == 0
        load.one("close").good()
        unchanged(pair, before)


@test("queue pairs of 500 requests, fewer than the device says", "H-57", limit=120, device="rxe")
def less_than_said(pair: Pair) -> None:
    """Out of memory may mean that the queue is too long: the mount gets fewer credits instead of trying for ever."""
    before = resources.rdma(pair.client)
    with faults(pair, "max_create_wr=500"):
        said = len(pair.client.run("dmesg").out)
        limit = 10 * pair.options.slowness
        mount = f"mount -t nfs -o vers=4.2,proto=rdma,retry=0 {SERVER.ipv4}:/ {MOUNT_POINT}"
        done = pair.client.run(f"timeout -s KILL {limit:.0f} {mount}", 20, check=False)
        log = pair.client.run("dmesg").out[said:]
        assert done.rc == 0, f"no mount within {limit:.0f} s: {done}\n{log}"
        asked = re.search(r"(\d+) credits asked for", log)
        assert asked and 4 <= int(asked[1]) < 128, f"credits: {log}"
        pair.client.run(f"head -c 300000 /dev/urandom >{MOUNT_POINT}/less; rm {MOUNT_POINT}/less")
        pair.umount()
        unchanged(pair, before)


@test(
    "a call ends after its local invalidation, {how}",
    *("V1-126", "V1-127", "H-31"),
    limit=120,
    device="rxe",
    cases=[{"how": how} for how in ("replied", "killed")],
)
def invalidated(pair: Pair, how: str) -> None:
    """The caller of a call waits, killed or not, while the server may reach its memory."""
    with (
        parameters(pair, remote_invalidation=0),
        faults(pair) as device,
        hostile(pair, mount="nordirplus") as server,
    ):
        if how == "killed":
            assert ABSENT in ask(pair, "arm-keep-at-READDIR")
        began = time.monotonic()
        device.hold_invalidations(True)
        job = pair.client.spawn(f"ls {MOUNT_POINT} & echo $! >/tmp/listing; wait $!")
        if how == "killed":
            server.wait(lambda event: event.get("mode") == "keep", "the call did not come")
            pair.client.run("kill -9 $(cat /tmp/listing)")
        limit = 20 * pair.options.slowness
        wait_until(lambda: device.held_invalidations() > 0, "nothing was invalidated locally", limit)
        # Other calls continue, and when that one is over this one would have ended.
        assert ABSENT in ask(pair, "do-right")
        assert device.held_invalidations() == 1, f"{device.held_invalidations()} chains are kept back"
        assert job.result is None and not job.text, f"the caller did not wait: {job.text}"
        pair.client.run("test -e /proc/$(cat /tmp/listing)/comm")
        device.hold_invalidations(False)
        took = time.monotonic() - began
        done = pair.client.finish(job, "the caller", 20, check=False)
        assert done.rc == (0 if how == "replied" else 137), f"{done}"
        # A slow machine may reach the limit, after which the connection ends instead.
        assert len(server.of("connect")) == 1 or took >= 10, f"the connection was remade within {took:.1f} s"
        assert transport(pair.client, MOUNT_POINT)["local_invalidates"] > 0


@test("a killed call does not wait for its local invalidation for ever", "V1-128", "H-31", limit=150, device="rxe")
def overdue(pair: Pair) -> None:
    """No timer of the RPC layer is left when the caller is killed that waits for its reply to be delivered: the
    connection, and with it the invalidation, ends instead, and the next connection works."""
    with (
        parameters(pair, remote_invalidation=0),
        faults(pair) as device,
        hostile(pair, mount="nordirplus") as server,
    ):
        # One that was complete in time is not held against the connection.
        pair.client.run(f"ls {MOUNT_POINT}; sleep 12", 40)
        pair.drop_caches()
        assert not ends(pair.client, server.port), "a healthy connection has ended"
        assert transport(pair.client, MOUNT_POINT)["local_invalidates"] > 0
        device.hold_invalidations(True)
        job = pair.client.spawn(f"ls {MOUNT_POINT} & echo $! >/tmp/listing; wait $!")
        limit = 20 * pair.options.slowness
        wait_until(lambda: device.held_invalidations() > 0, "nothing was invalidated locally", limit)
        pair.client.run("kill -9 $(cat /tmp/listing)")
        # The limit is 10 seconds, or up to twice as long shortly after another invalidation.
        done = pair.client.finish(job, "the killed caller", 40, check=False)
        assert done.rc == 137, f"{done}"
        device.hold_invalidations(False)
        assert ABSENT in ask(pair, "do-right")
        assert len(server.of("connect")) == 2, "the connection was not remade once"
        why = ends(pair.client, server.port)
        assert why == ["memory of a call could not be invalidated"], f"the connection ended: {why}"
