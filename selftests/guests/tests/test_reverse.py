# SPDX-License-Identifier: GPL-2.0
"""Calls that the server makes to the client (RFC 8167), without NFS: the peer calls a service of rpcload.

A reverse call and its reply share a connection with forward calls, and nothing else: neither credits nor xids.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.pair import Pair
from guests.harness.registry import test
from guests.lib import hold, resources
from guests.lib.ibfault import faults
from guests.lib.reverse import GRANT, NULL, REPLY, STALL, SUCCESS, SYSTEM_ERR, Bed, bed
from guests.lib.rpcload import FILES
from guests.lib.sight import details

SLOTS = 32  # and the reverse calls that it has memory for
CREDITS = "/sys/module/rpcrdma_rs/parameters/credits"

# Bytes around the data of a REPLY: the headers of RPC-over-RDMA and of the RPC reply, and the length.
AROUND = 28 + 24 + 4
# The peer's private data: none, for a threshold of 1024 bytes, and 4096 bytes both ways.
THRESHOLDS = {1024: (), 4096: ("--private-data", "f6ab0e1801010303")}
OVERFLOW = r"port \d+: ending the connection: more reverse calls than granted"


@test(
    "a reverse call gets through when all credits are in use, grant {grant}",
    *("BI-2", "BI-4", "H-74"),
    limit=90,
    device="rxe",
    cases=[{"grant": 4}, {"grant": 1}],
    core=True,
)
def no_credit_left(pair: Pair, grant: int) -> None:
    """A server that replies to its clients only after the reply to its own call gets that immediately, although the
    client has more calls to send than it may. Nor does the client send one of them because of the reverse call."""
    callers = 12
    with bed(pair, "--credits", str(grant)) as it:
        it.server.order("hold")
        running = it.load.start(f"run count={callers} depth={callers} call=100 reply=100")
        it.wait_kept(grant)
        it.wait(lambda: it.queued() == callers - grant, "the other callers do not wait for a credit")
        order = it.server.order("call", procedure=NULL, credits=2 * callers)
        (reply,) = it.replies_to(order)
        assert len(it.kept()) == grant, f"{len(it.kept())} calls were sent with {grant} credits"
        it.server.order("release")
        outcome = it.load.finish(running)[0].good()
        took = reply["at"] - order["at"]
        assert took < 1.0 * pair.options.slowness, f"the reverse call took {took:.1f} s"
        assert outcome.values["calls"] == callers and it.connections() == 1, str(outcome)


# Four credits then mean 30 registrations, 15 for each of these calls, and four requests.
FEW_PAGES = "fast_reg_pages=20"
MANY = "call=100 reply=100 reply_in=pages reply_room=1048576"


@test("a reverse call gets through when all registrations are in use", "BI-2", "H-34", "H-74", limit=90, device="rxe")
def no_registration_left(pair: Pair) -> None:
    """As when all credits are in use. Calls that wait for registrations, which only replies return, must not delay the
    reply to a reverse call, at any moment; nor do they hold credits while they wait."""
    callers = 6
    with faults(pair, FEW_PAGES), few_credits(pair), bed(pair) as it:
        it.server.order("hold")
        running = it.load.start(f"run count={callers} depth={callers} {MANY}")
        it.wait_kept(2)
        it.wait(lambda: it.queued() == 2, "the other calls do not wait")
        assert len(it.kept()) == 2, f"{len(it.kept())} calls have found registrations"
        for count in (1, GRANT, GRANT):
            order = it.server.order("call", procedure=NULL, count=count)
            last = it.replies_to(order)[-1]
            took = last["at"] - order["at"]
            assert took < 1.0 * pair.options.slowness, f"{count} reverse calls took {took:.1f} s"
        assert len(it.kept()) == 2, f"{len(it.kept())} calls have found registrations"
        assert details(pair.client, it.server.port)["waits_for"] == "registrations"
        # One reply is enough for the next call, and the last one for all.
        it.server.let_go()
        it.wait_kept(3)
        it.call(NULL)
        it.server.order("release")
        outcome = it.load.finish(running)[0].good()
        assert outcome.values["calls"] == callers and it.connections() == 1, str(outcome)


@test("reverse calls come while calls find no registration", "BI-2", "H-74", limit=120, device="rxe")
def between_registrations(pair: Pair) -> None:
    """Replies to reverse calls are queued while the building of a call fails."""
    with faults(pair, FEW_PAGES), few_credits(pair), bed(pair) as it:
        running = it.load.start(f"run count=600 depth=12 {MANY}")
        for _ in range(30):
            it.call(NULL, count=GRANT)
        outcome = it.load.finish(running, 60)[0].good()
        assert outcome.values["calls"] == 600 and it.connections() == 1, str(outcome)


@test(
    "the grant in reverse replies",
    *("BI-4", "BI-5", "BI-7", "BI-22", "BI-23", "BI-24", "BI-26", "BI-27", "BI-34"),
    limit=60,
    device="rxe",
)
def grant_in_replies(pair: Pair) -> None:
    """Each reply grants 16 calls, with any request of the server."""
    with bed(pair) as it:
        for credits in (1, 16, 64, 0xFFFFFFFF):
            for procedure, argument in ((NULL, None), (REPLY, 100)):
                it.call(procedure, argument=argument, credits=credits)
        assert len(it.replies()) == 8 and it.connections() == 1


@test("a reverse call with credits 0", "BI-6", limit=60, device="rxe")
def credits_zero(pair: Pair) -> None:
    """It counts as a request for 1, and is served."""
    with bed(pair) as it:
        it.call(NULL, credits=0)
        it.call(REPLY, argument=8, credits=0)
        it.load.one("run count=4").good()
        assert it.connections() == 1


@test(
    "a reverse reply of the largest size that fits, {threshold} bytes",
    *("BI-19", "PD-16"),
    limit=60,
    device="rxe",
    cases=[{"threshold": threshold} for threshold in THRESHOLDS],
)
def largest(pair: Pair, threshold: int) -> None:
    """It is sent inline: the message has the largest size that the server has announced to receive."""
    with bed(pair, *THRESHOLDS[threshold]) as it:
        (reply,) = it.call(REPLY, argument=threshold - AROUND)
        assert reply["length"] == threshold, f"a message of {reply['length']} bytes"
        assert it.connections() == 1


@test(
    "a reverse reply that does not fit, {length} bytes for 1024",
    *("BI-32", "BI-19"),
    limit=60,
    device="rxe",
    cases=[{"length": length} for length in (1028, 2000, 4096)],
)
def too_long(pair: Pair, length: int) -> None:
    """The server gets a system error instead of silence, and the connection lives on."""
    with bed(pair) as it:
        (lost,) = it.server.order("call", procedure=REPLY, argument=length - AROUND)["xids"]
        # With one thread the reply to this call is behind the other one.
        it.call(NULL)
        replies = it.replies()
        assert lost in replies, "the reverse call got no reply"
        reply = replies[lost]
        assert reply["rpc"]["status"] == SYSTEM_ERR, reply
        assert reply["length"] == 28 + 24, reply
        it.call(REPLY, argument=1024 - AROUND)
        it.load.one("run count=4").good()
        assert it.connections() == 1, "the connection ended"


@test("a reverse call that is longer than a page", "BI-19", limit=60, device="rxe")
def long_call(pair: Pair) -> None:
    """The client has no room for it, although its Receives do: the server gets a system error instead of silence."""
    inline = "/sys/module/rpcrdma_rs/parameters/max_inline_receive"
    pair.client.run(f"echo 8192 >{inline}")
    try:
        with bed(pair, "--private-data", "f6ab0e1801010707") as it:
            (long,) = it.replies_to(it.server.order("call", padding=4096))
            assert long["rpc"]["status"] == SYSTEM_ERR, long
            it.call(NULL, padding=4000)
            it.load.one("run count=4").good()
            assert it.connections() == 1, "the connection ended"
    finally:
        pair.client.run(f"echo 4096 >{inline}")


@test("more reverse calls than granted", "BI-10", "BI-34", limit=120, device="rxe", allowed=(OVERFLOW,))
def too_many(pair: Pair) -> None:
    """The client takes them while it has memory; one more ends the connection, and the next connection serves both
    directions. No call is lost that the client has made."""
    with bed(pair) as it:
        it.load.stall(True)
        it.server.order("hold")
        running = it.load.start("run count=4 depth=1")
        it.wait_kept(1)
        for number in range(2, 2 + SLOTS // GRANT):
            # At most as many as the client has posted Receives for. Its next call shows that it has received these.
            it.server.order("call", procedure=STALL, count=GRANT)
            it.server.order("step")
            it.wait_kept(number)
        assert it.connections() == 1, f"the connection ended before {SLOTS} calls were outstanding"
        it.server.order("call", procedure=STALL)
        it.wait_kept(2 + SLOTS // GRANT)
        assert it.connections() == 2, "the call was sent again on the same connection"
        it.server.order("release")
        it.load.finish(running)[0].good()
        # They are all served, but the connection that their replies belong to is gone.
        it.load.stall(False)
        it.call(NULL)
        assert it.load.reverse_calls() == SLOTS + 1 and len(it.replies()) == 1
        it.call(NULL, count=GRANT)
        assert it.connections() == 2
        said = pair.client.run(f"dmesg | grep -E 'port {it.server.port}: ending'").lines
        assert len(said) == 1, said


@test(
    "the connection is lost while reverse calls are served, which ends {when} the reconnect",
    *("BI-36", "BI-34"),
    limit=90,
    device="rxe",
    cases=[{"when": "before"}, {"when": "after"}],
)
def lost(pair: Pair, when: str) -> None:
    """The replies are dropped: on the next connection the server has not called yet. Its next call there gets a reply,
    and after two such losses the client can still take calls."""
    with bed(pair) as it:
        for number in (1, 2):
            before = it.load.reverse_calls()
            it.load.stall(True)
            xids = it.server.order("call", procedure=STALL, count=GRANT)["xids"]
            it.wait(lambda n=before: it.load.reverse_calls() == n + 1, "no call is served")
            it.server.order("disconnect")
            it.server.wait(lambda e, n=number: (e["event"], e.get("number")) == ("disconnected", n), "no disconnect")
            if when == "before":
                it.load.stall(False)
                it.wait(lambda n=before: it.load.reverse_calls() == n + GRANT, "not all calls are served")
            it.load.one("run proc=null").good()
            it.load.stall(False)
            # With one thread the reply to this call is behind the others.
            it.call(NULL)
            late = set(xids) & set(it.replies())
            assert not late, f"replies on a connection that their calls did not come on: {late}"
            assert it.connections() == number + 1
        it.call(NULL, count=GRANT)
        assert it.connections() == 3 and it.load.reverse_calls() == 3 * GRANT + 2


@test("an RDMA_ERROR with the xid of a reverse call", "BI-31", "BI-3", limit=90, device="rxe")
def error(pair: Pair) -> None:
    """It is about none of the client's calls: the calls of both directions that are under way end well."""
    with bed(pair) as it:
        it.load.stall(True)
        it.server.order("hold")
        running = it.load.start("run count=5 depth=4")
        it.wait_kept(4)
        reverse = it.server.order("call", procedure=STALL)
        it.wait(lambda: it.load.reverse_calls() == 1, "the call is not served")
        it.server.order("error", xid=reverse["xids"][0])
        # The fifth call shows that the client has read all messages before the replies.
        it.server.order("step")
        it.wait_kept(5)
        it.load.stall(False)
        (reply,) = it.replies_to(reverse)
        assert reply["rpc"]["status"] == SUCCESS, reply
        it.server.order("release")
        outcome = it.load.finish(running)[0].good()
        assert outcome.counted["bad_xids"] == 1, f"the error was not looked at: {outcome}"
        assert len(it.kept()) == 5 and it.connections() == 1, "a call was sent again"


@contextmanager
def few_credits(pair: Pair) -> Iterator[None]:
    """Has transports ask for as few credits as can be for the block."""
    if pair.options.client == "ours":
        pair.client.run(f"echo 4 >{CREDITS}")
    yield
    if pair.options.client == "ours":
        pair.client.run(f"echo 128 >{CREDITS}")


@test("reverse calls as soon as a connection is up", "BI-11", "BI-12", limit=90, device="rxe")
def at_once(pair: Pair) -> None:
    """All granted calls, back to back, find Receives on every connection, besides the Receives for replies. With four
    credits the client has hardly more."""
    with few_credits(pair), bed(pair) as it:
        for number in (2, 3, 4):
            it.server.order("greet", procedure=REPLY, argument=500, count=GRANT)
            it.load.one("reconnect").good()
            greeting = it.server.wait(
                lambda e, n=number: e["event"] == "greeted" and e["connection"] == n, "the peer made no calls"
            )
            assert all(reply["connection"] == number for reply in it.replies_to(greeting))
            it.load.one("run count=16 depth=16").good()
        assert it.connections() == 4, "a connection ended"


@test(
    "a reverse call meets the last reference of the transport",
    *("H-70", "H-71"),
    limit=120,
    device="rxe",
    needs=("kprobes",),
)
def last_reference(pair: Pair) -> None:
    """The client closes while a completion hands a reverse call over: the memory of the transport stays until that is
    done. The kernel reports it otherwise."""
    rounds = 3
    before = resources.rdma(pair.client)
    with hold.holding(pair), bed(pair) as it:
        for number in range(1, rounds + 1):
            meet_close(it)
            it.wait(lambda n=number: hold.count(pair, "held") == n, "the call was not held")
            # sunrpc drops the last references from a workqueue.
            it.wait(lambda: resources.rdma(pair.client) == before, f"RDMA objects are left beyond {before}")
            it.open()
        assert hold.count(pair, "last") == rounds, "the transport was not at its end when the call was let go"
        it.load.one("close").good()


def meet_close(it: Bed) -> None:
    """Closes the client as soon as a reverse call is held."""
    wait = f"until read -r on <{hold.FILES}/holding && [ $on = 1 ]; do :; done"
    script = f"{wait}; echo close >{FILES}/control"
    job = it.pair.client.spawn(script)
    it.server.order("call", procedure=NULL)
    it.pair.client.finish(job, script, 20)
