# SPDX-License-Identifier: GPL-2.0
"""Our server on a device that refuses requests: each request of each path, once.

The client of the path loses its connection, or is rejected, and learns of it at once; the next one is served, and nothing
is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.ibfault import Faults, faults
from guests.lib.leftovers import nothing_left
from guests.lib.live import LARGE, data_goes_both_ways, ends, request, some_calls
from guests.lib.connecting import PROVOKED
from guests.lib.nfsd import RESTART
from guests.lib.paths import CONTENT, PAGE, PATHS, read_chunk
from guests.lib.recall import delegations, returns, take_delegation
from guests.lib.requester import MEANWHILE, REFUSES, XID, carried_out, export_file, null
from guests.lib.rules import rule
from guests.peer import wire

# One such line in a while.
LOGGED = r"refused: error -12"


@contextmanager
def lesser(pair: Pair) -> Iterator[Faults]:
    """A device of the server that can be told to refuse. It is replaced while no listener uses it."""
    with faults(pair, guest=pair.server) as device:
        pair.server.run(RESTART)
        yield device
        pair.server.run(RESTART)


# What is refused while a connection is made, and whether the client is rejected for it.
STEPS = [
    # The next attempt is for fewer credits.
    ("alloc_pd", "1", False),
    ("alloc_pd", "always", True),
    ("create_cq", "1", False),
    ("create_cq", "always", True),
    ("create_qp", "1", False),
    ("create_qp", "always", True),
    ("post_recv", "1", True),
    ("post_recv", "1 3", True),
]


@test(
    "{what} {when} refused while a client connects",
    *("V1-121", "H-57"),
    server="ours",
    device="rxe",
    allowed=(LOGGED,),
    cases=[{"what": what, "when": when, "rejects": rejects} for what, when, rejects in STEPS],
)
def accepting(pair: Pair, what: str, when: str, rejects: bool) -> None:
    """The client is rejected with a line in the log, or gets fewer credits; the next one is served."""
    order = {"exchanges": [[null().hex()]]}
    with lesser(pair) as device, nothing_left(pair):
        device.refuse(what, when)
        (found,) = carried_out(pair, order)
        assert device.refused(what) >= 1, f"{what} was not asked for"
        device.refuse(what, "0")
        (good,) = carried_out(pair, order)
        log = pair.server.run("dmesg").out
    assert ("failed" in found) == rejects, found
    # The reason of a rejection by the consumer (InfiniBand Architecture Specification, 12.6.7.2).
    assert not rejects or "event 8, status 28" in found["failed"], found
    assert not rejects or re.search(LOGGED, log), f"the log does not name the error:\n{log}"
    assert "failed" not in good, good


@test(
    "no registration for the RDMA Reads of a connection",
    "V1-121",
    "V1-142",
    server="ours",
    device="siw",
    allowed=(LOGGED,),
)
def no_sinks(pair: Pair) -> None:
    """On iWARP they land in registrations, of which a connection has some from the start."""
    with lesser(pair) as device, nothing_left(pair):
        device.refuse("alloc_mr")
        found, good = carried_out(pair, *[{"exchanges": [[null().hex()]]}] * 2)
        assert device.refused("alloc_mr") == 1, "no registration was asked for"
    assert "failed" in found and "failed" not in good, (found, good)


# The requests of each path: the number from the message on, with how many of its chain go through.
REQUESTS = {
    "an inline reply": [("post_send", "1")],
    "a reply with a Write chunk": [("post_send", "1"), ("post_send", "1 1")],
    "a reply with a Reply chunk": [("post_send", "1"), ("post_send", "1 1")],
    "a call with a Read chunk": [("post_send", "1"), ("post_send", "2")],
    "a Long call": [("post_send", "1")],
    "ERR_VERS": [("post_send", "1")],
    "ERR_CHUNK": [("post_send", "1")],
}


@test(
    "{what} {when} refused: {path}",
    *("V1-118", "V1-120", "V1-121"),
    server="ours",
    device="rxe",
    cases=[{"path": path, "what": what, "when": when} for path in PATHS for what, when in REQUESTS[path]],
)
def serving(pair: Pair, path: str, what: str, when: str) -> None:
    """The connection ends, so that the client need not wait for a reply; the next one is served."""
    fh, _ = export_file(pair, PAGE)
    order = {"private_data": REFUSES, "memory": CONTENT.hex()}
    with lesser(pair) as device, nothing_left(pair):
        device.refuse(what, when)
        found, good = carried_out(
            pair, {**order, "exchanges": [[PATHS[path](fh)]]}, {**order, "exchanges": [[null(XID + 1).hex()]]}
        )
        assert device.refused(what) == 1, f"{what} was not asked for so often"
    assert "failed" in found and "silence" not in found["failed"], found
    assert "failed" not in good, good
    assert pair.server.run("cat /export/chunks | wc -c").out.strip() == str(PAGE)


@test(
    "{what} {when} refused: an RDMA Read over iWARP",
    *("V1-118", "V1-121", "V1-142"),
    server="ours",
    device="siw",
    cases=[
        {"what": what, "when": when}
        for what, when in [("map_mr_sg", "1"), ("post_send", "1"), ("post_send", "1 1"), ("post_send", "2")]
    ],
)
def reading_over_iwarp(pair: Pair, what: str, when: str) -> None:
    """The registration, the Read behind it, which invalidates it, and the reply."""
    fh, content = export_file(pair, PAGE)
    order = {"private_data": REFUSES, "memory": content.hex()}
    with lesser(pair) as device, nothing_left(pair):
        device.refuse(what, when)
        found, good = carried_out(
            pair, {**order, "exchanges": [[read_chunk(fh)]]}, {**order, "exchanges": [[null(XID + 1).hex()]]}
        )
        assert device.refused(what) == 1, f"{what} was not asked for so often"
    assert "failed" in found and "silence" not in found["failed"], found
    assert "failed" not in good, good


@test("map_mr_sg refused twice for a call over iWARP", "V1-118", "V1-142", server="ours", device="siw")
def unmapped_again(pair: Pair) -> None:
    """Memory that cannot be mapped ends the connection once; the call that comes again is rejected, and the next served."""
    fh, content = export_file(pair, PAGE)
    calls = [read_chunk(fh), null(XID + 1).hex(), read_chunk(fh)]
    order = {"private_data": REFUSES, "memory": content.hex()}
    with lesser(pair) as device, nothing_left(pair):
        device.refuse("map_mr_sg", "always")
        (found,) = carried_out(pair, {**order, "exchanges": [[calls[0]]]})
        (again,) = carried_out(pair, {**order, "exchanges": [[call] for call in calls[:2]]})
        refused = device.refused("map_mr_sg")
        device.refuse("map_mr_sg", "0")
        (good,) = carried_out(pair, {**order, "exchanges": [[calls[2]]]})
    assert "failed" in found and "silence" not in found["failed"], found
    assert "failed" not in again and refused == 2, (again, refused)
    rejected, served = (wire.decode(bytes.fromhex(reply))[0] for (reply,) in again["exchanges"])
    assert (rejected["proc"], rejected["error"]) == (wire.RDMA_ERROR, wire.ERR_CHUNK), rejected
    assert served["proc"] == wire.RDMA_MSG and "failed" not in good, (served, good)


@test(
    "post_recv {when} refused: Receives that come back",
    "V1-121",
    server="ours",
    device="rxe",
    cases=[{"when": "1"}, {"when": "1 1"}],
)
def coming_back(pair: Pair, when: str) -> None:
    """They are posted in batches: the connection of the call that fills one ends."""
    calls = [[null(XID + number).hex()] for number in range(128)]
    with lesser(pair) as device, nothing_left(pair):
        # The first Receives of a connection are posted before it is accepted.
        (good,) = carried_out(pair, {"exchanges": [calls[0]]})
        device.refuse("post_recv", f"2{when[1:]}")
        (found,) = carried_out(pair, {"exchanges": calls})
        assert device.refused("post_recv") == 1, "no Receive was posted again"
        (after,) = carried_out(pair, {"exchanges": [calls[0]]})
    assert "failed" in found and "silence" not in found["failed"], found
    assert "failed" not in good and "failed" not in after, (good, after)


@test(
    "the marker of a drain refused: {what}",
    *("V1-122", "H-85"),
    server="ours",
    device="rxe",
    # ib_core's report, once, with a trace.
    allowed=(
        r"failed to drain (recv|send) queue",
        r"WARNING: .* at ib_drain_[rs]q",
        r"^ |^(irq event stamp|(hard|soft)irqs last|Modules linked in|CPU|Hardware name|Tainted|Stack|Call Trace|RIP|Code|R\w\w|FS|CS|CR2|---+\[ )\b|cut here",
    ),
    cases=[{"what": "post_recv"}, {"what": "post_send"}],
)
def undrained(pair: Pair, what: str) -> None:
    """As with firmware that refuses all: no memory is freed that the device uses, and all is freed then."""
    with lesser(pair) as device, nothing_left(pair):

        def refuse() -> None:
            served = "grep -qx 'calls 1' /sys/kernel/debug/rpcrdma_rs/svc-*"
            wait_until(lambda: pair.server.run(served, check=False).rc == 0, "not served", 20 * pair.options.slowness)
            device.refuse(what, "always")

        (found,) = carried_out(pair, {"exchanges": [[null().hex()], MEANWHILE]}, until=refuse)
        assert "failed" not in found, found
        wait_until(lambda: device.refused(what) > 0, "no marker was refused", 20 * pair.options.slowness)
        device.refuse(what, "0")
        (good,) = carried_out(pair, {"exchanges": [[null().hex()]]})
    assert "failed" not in good, good


@test("post_send refused: a recall", *("BI-2", "V1-121"), server="ours", limit=120)
def recalling(pair: Pair) -> None:
    """The connection ends; nfsd calls again over the next one, and gets the delegation back."""
    name = "refused-recall-"
    pair.server.run(f"cd /export; for i in $(seq 8); do echo one >{name}$i; done")
    with lesser(pair) as device:
        pair.mount("4.2")
        shared = take_delegation(pair, name, 8)
        before = returns(pair, 0)
        device.refuse("post_send")
        pair.server.run(f"echo two >>/export/{shared}", 60)
        assert device.refused("post_send") == 1, "nothing was refused"
        assert returns(pair, before + 1) > before and not delegations(pair, shared)
        assert pair.client.run(f"cat {MOUNT_POINT}/{shared}").out == "one\ntwo\n"
        pair.umount()


@test(
    "{what} {when} refused while a client of version 2 connects",
    *("V2-32", "V1-121", "XC-60"),
    server="ours",
    client="ours",
    limit=120,
    cases=[{"what": "post_send", "when": str(number)} for number in range(1, 5)] + [{"what": "post_recv", "when": "2"}],
)
def exchanging(pair: Pair, what: str, when: str) -> None:
    """The answer to the first call, operations, the response: the mount takes another connection."""
    with (
        rule(pair.client, "two", peer=SERVER.ipv4, version=2),
        rule(pair.server, "two", side="server", peer=CLIENT.ipv4, version=2),
        lesser(pair) as device,
        nothing_left(pair),
    ):
        device.refuse(what, when)
        pair.mount("4.2")
        pair.client.run(f"head -c 70000 /dev/urandom >{MOUNT_POINT}/two; cat {MOUNT_POINT}/two >/dev/null")
        assert device.refused(what) == 1, f"{what} was not asked for so often"
        assert "protocol 2" in pair.server.run("cat /sys/kernel/debug/rpcrdma_rs/svc-*").out
        pair.umount()


# The requests of a server, and of one over iWARP, where its RDMA Reads need registrations.
VERBS = {"rxe": ("post_recv", "post_send"), "siw": ("alloc_mr", "map_mr_sg", "post_recv", "post_send")}


def turns(pair: Pair) -> Iterator[int]:
    """The numbers of the requests that are refused, one for each use: all at first, then some, or more with --rounds."""
    number, step = 1.0, 1 + 1 / pair.options.rounds
    while True:
        yield int(number)
        number = max(number + 1, number * step)


for device, verbs in VERBS.items():

    @test(
        f"{{what}} refused at any time, {device}",
        *("V1-121", "V1-122", "V2-32", "XC-60"),
        server="ours",
        client="ours",
        device=device,
        limit=300,
        allowed=(LOGGED, *PROVOKED),
        cases=[{"what": what} for what in verbs],
    )
    def at_any_time(pair: Pair, what: str) -> None:
        """While a client of version 2 connects, changes sizes, writes, reads and is called back: its data are whole, over
        another connection if need be, and nothing is left."""
        refused = []
        with lesser(pair) as device, nothing_left(pair):
            for number in turns(pair):
                before = device.refused(what)
                device.refuse(what, str(number))
                with ends(pair, "4.2"):
                    for guest in pair.guests:
                        request(guest, f"peer-receive-size={LARGE}", check=False)
                    some_calls(pair, 20)
                    data_goes_both_ways(pair, 100000)
                device.refuse(what, "0")
                if device.refused(what) == before:
                    break
                refused.append(number)
        print(f"# {what} refused: {refused}")
        assert refused, f"no {what} was asked for"
