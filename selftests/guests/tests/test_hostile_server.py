# SPDX-License-Identifier: GPL-2.0
"""A server that breaks the protocol: the client neither trusts it, nor dies of it, nor remembers it.

The peer does it by order, under a mount (guests/lib/hostile.py). After each test the client holds nothing of it; the last
test over soft-RoCE uses the in-tree server, over the same module.
"""

from __future__ import annotations

import errno
import itertools
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.pair import MOUNT_POINT, Late, Pair, wait_until
from guests.harness.registry import test
from guests.lib.hostile import (
    ABSENT,
    DEVICE,
    FAILED,
    FOREIGN,
    NFS,
    NULL,
    READDIR,
    ask,
    counters,
    hostile,
    misbehave,
    nothing_left,
    odd,
    stale_handle,
)
from guests.lib.peer import Peer, peer
from guests.lib.rpcload import loaded
from guests.lib.sight import ends

# Counters of messages dropped, by reason.
DROPPED = ("short", "version", "type", "xid_mismatch", "malformed", "undecodable")
RDMA_ERROR, ERR_CHUNK = 4, 2

# The client's messages when it ends a connection by its own decision.
SECOND = r"port \d+: ending the connection: a second reply to the same call"
STRANGE = r"port \d+: ending the connection: too many replies to unknown calls"


@contextmanager
def directory(pair: Pair, segments: int) -> Iterator[Peer]:
    """A mounted peer, with READDIRs that offer a Reply chunk of `segments` segments: one for all of the reply or, when its
    pages end within a page, one each for its head, its pages and its tail."""
    split = segments == 3
    options = ["--private-data", "f6ab0e1801010000"] if split else []
    with hostile(pair, *options, mount="nordirplus,rsize=2048" if split else "nordirplus") as server:
        yield server
        offered = {len(m["reply"] or []) for m in server.messages(NFS, READDIR)}
        # Some tests do not read a directory at all.
        assert offered <= {segments}, f"segments offered: {offered}"


# Mode, requirements, the counter that rises by one. The right reply follows, so the look-up ends well.
DROPS = [
    ("unknown-xid", ("V1-113",), "unknown_xids"),
    ("short", ("V1-15", "H-24"), "short"),
    ("empty", ("V1-15", "H-24"), "short"),
    ("error-cut", ("V1-105", "V1-114"), "undecodable"),
    ("error-code", ("V1-105", "V1-114"), "undecodable"),
    ("error-bare", ("V1-105", "V1-114"), "undecodable"),
    ("reverse-call", ("BI-16", "BI-3"), "reverse_unserved"),
    ("credits-zero", ("V1-25",), "zero_grants"),
]


def dropped(pair: Pair, mode: str, counter: str) -> None:
    """A message without meaning is dropped without a reply; the connection and the call continue."""
    with hostile(pair) as server:
        told, risen, sent = misbehave(pair, server, mode)
        assert ABSENT in told, told
        # sunrpc counts replies to unknown calls, too.
        expected = {counter: 1} | ({"bad_xids": 1} if mode == "unknown-xid" else {})
        assert odd(risen) == expected, f"{mode}: {risen}"
        assert sent == 1, f"the call was sent {sent} times"
        assert not [m for m in server.messages() if m["proc"] == RDMA_ERROR], "the client replied with an error"
        assert ABSENT in ask(pair, "do-right")


for drop, rows, rising in DROPS:
    case = {"mode": drop, "counter": rising}
    test("dropped and counted: {mode}", *rows, limit=90, device="rxe", cases=[case])(dropped)


def bad_reply(pair: Pair, mode: str) -> None:
    """A reply that contradicts its call ends the call with one error and a line in the log; the connection lives on."""
    with hostile(pair) as server:
        told, risen, sent = misbehave(pair, server, mode)
        assert FAILED in told, told
        said = pair.client.run(f"dmesg | grep -c 'port {server.port}: call [0-9a-f]* fails: bad reply: .' || true")
        assert said.out.strip() == "1", f"the log says it {said.out.strip()} times"
        assert odd(risen) == {"bad_replies": 1}, f"{mode}: {risen}"
        assert sent == 1, f"the call was sent {sent} times"
        assert ABSENT in ask(pair, "do-right")


# Replies with a whole header and the xid of a call that cannot be read: mode, requirements, the counter of the reason,
# and a word of the log's message about it.
UNREADABLE = [
    ("version-2", ("V1-108", "H-24"), "version", "version"),
    ("proc-2", ("V1-117",), "type", "type"),
    ("proc-3", ("V1-117",), "type", "type"),
    ("proc-5", ("V1-117",), "type", "type"),
    ("xid-mismatch", ("V1-7",), "xid_mismatch", "xid"),
    ("short-payload", ("V1-17",), "malformed", "payload"),
    ("direction", ("BI-28",), "malformed", "payload|direction"),
    ("malformed", ("V1-18", "V1-108"), "malformed", "optional"),
    ("segments-beyond-end", ("V1-19",), "malformed", "ends|truncated|short"),
    ("no-lists", ("V1-102", "V1-108"), "malformed", "lists"),
]
# The message may be a warning.
BAD = r"port \d+: .*\b({word})\b"


def unreadable(pair: Pair, mode: str, counter: str, word: str) -> None:
    """It can only be the reply to that call, and no other will come: the call ends with an error, once."""
    with hostile(pair) as server:
        told, risen, sent = misbehave(pair, server, mode)
        assert FAILED in told, f"after {sent} times: {told}, {odd(risen)}"
        assert odd(risen) == {"bad_replies": 1, counter: 1}, f"{mode}: {risen}"
        assert sent == 1, f"the call was sent {sent} times"
        assert not [m for m in server.messages() if m["proc"] == RDMA_ERROR], "the client replied with an error"
        said = pair.client.run(f"dmesg | grep 'port {server.port}: '").lines
        about = [line for line in said if not re.search(": (connected over|connection lost|cannot connect)", line)]
        assert len(about) == 1 and re.search(rf"\b({word})\b", about[0]), f"the log does not name the reason: {said}"
        assert ABSENT in ask(pair, "do-right")
        assert counters(pair)["connect_count"] == 1, "the connection ended"


for wrong, rows, rising, named_by in UNREADABLE:
    case = {"mode": wrong, "counter": rising, "word": named_by}
    test(
        "the call fails: a reply that cannot be read, {mode}",
        *rows,
        limit=90,
        device="rxe",
        allowed=(BAD.format(word=named_by),),
        cases=[case],
    )(unreadable)


@test(
    "the call fails: twice an RDMA_ERROR that cannot be read",
    *("V1-105", "V1-17"),
    limit=120,
    device="rxe",
    allowed=(BAD.format(word="RDMA_ERROR"),),
)
def undecodable(pair: Pair) -> None:
    """Once it is dropped silently. The call is sent again on a new connection, and the next one ends it."""
    with hostile(pair, mount="hard,timeo=20,retrans=1") as server:
        before = counters(pair)
        stat = f"timeout -s KILL {5 * pair.options.slowness:.0f} stat {MOUNT_POINT}/always-undecodable"
        done = pair.client.run(stat, 45, check=False)
        risen = {name: value - before[name] for name, value in counters(pair).items()}
        sent = server.lookups("always-undecodable")
        assert FAILED in done.out, f"after {len(sent)} times: {done}"
        assert [m["connection"] for m in sent] == [1, 2], f"sent: {sent}"
        wanted = {"undecodable": 2, "bad_replies": 1, "connect_count": 1}
        assert {name: risen[name] for name in wanted} == wanted, f"{risen}"
        assert ABSENT in ask(pair, "do-right")


# A reply that names the call but cannot be that to a call without chunks: mode, requirements.
BAD_REPLIES = [
    ("read-list", ("V1-82",)),
    ("write-chunk", ("V1-90", "H-23")),
    ("reply-chunk", ("V1-101", "H-23")),
    ("nomsg-chunk", ("V1-102", "H-23")),
    ("unaligned", ("V1-1", "H-27")),
]
for wrong, rows in BAD_REPLIES:
    test("the call fails: reply with {mode}", *rows, limit=90, device="rxe", cases=[{"mode": wrong}])(bad_reply)


def bad_chunk(pair: Pair, mode: str, procedure: str, segments: int) -> None:
    """The chunks in a reply are compared with the offer of the call."""
    with directory(pair, segments) as server:
        assert ABSENT in ask(pair, f"arm-{mode}-at-{procedure}")
        before = counters(pair)
        pair.client.run("echo 3 >/proc/sys/vm/drop_caches")
        script = {"READDIR": f"ls {MOUNT_POINT}", "READ": f"dd if={MOUNT_POINT}/file of=/dev/null bs=1M count=1"}
        done = pair.client.run(f"timeout -s KILL 100 {script[procedure]}", 45, check=False)
        assert FAILED in done.out, done
        after = counters(pair)
        (order,) = server.of("misbehaves")
        assert [m["xid"] for m in server.messages()].count(order["xid"]) == 1, "the call was sent again"
        for name in ("bad_replies", "connect_count"):
            rise = after[name] - before[name]
            assert rise == (name == "bad_replies"), f"{name} rose by {rise}"
        # The client has invalidated its registrations itself.
        assert after["local_invalidates"] > before["local_invalidates"], after
        assert ABSENT in ask(pair, "do-right")


# Replies about the Reply chunk of a READDIR and the Write chunk of a READ: mode, procedure, segments, requirements.
BAD_CHUNKS = [
    ("nomsg-longer", "READDIR", 1, ("V1-91", "H-23")),
    ("nomsg-longer", "READDIR", 3, ("V1-91", "H-23")),
    ("nomsg-wraps", "READDIR", 3, ("V1-91", "H-23")),
    ("nomsg-hole", "READDIR", 3, ("V1-92", "H-23")),
    ("nomsg-more-segments", "READDIR", 1, ("V1-89", "H-23")),
    ("nomsg-short", "READDIR", 1, ("V1-102", "H-27")),
    ("nomsg-unaligned", "READDIR", 1, ("V1-1", "H-27")),
    ("used-and-inline", "READDIR", 1, ("V1-101", "H-23")),
    ("write-longer", "READ", 1, ("V1-91", "H-23")),
    ("write-two", "READ", 1, ("V1-90", "H-23")),
]
for wrong, what, parts, rows in BAD_CHUNKS:
    case = {"mode": wrong, "procedure": what, "segments": parts}
    of = "" if parts == 1 else " of {segments} segments"
    test(f"the call fails: reply to {{procedure}} with {{mode}}{of}", *rows, limit=90, device="rxe", cases=[case])(
        bad_chunk
    )


@test(
    "a Reply chunk that was not written, segments: {segments}",
    *("H-23", "V1-95", "V1-102"),
    limit=90,
    device="rxe",
    cases=[{"segments": 1}, {"segments": 3}],
)
def unwritten(pair: Pair, segments: int) -> None:
    """The old contents of the memory are no reply; the call ends, and none of them reaches the caller."""
    with directory(pair, segments) as server:
        assert ABSENT in ask(pair, "arm-nomsg-unwritten-at-READDIR")
        pair.client.run("echo 3 >/proc/sys/vm/drop_caches")
        done = pair.client.run(f"timeout -s KILL 100 ls {MOUNT_POINT}", 45, check=False)
        (order,) = server.of("misbehaves")
        sent = [message["xid"] for message in server.messages()].count(order["xid"])
        # The RPC layer may send the call again when it cannot parse a reply, and then gets the right one.
        assert FAILED in done.out or sent > 1, f"bytes from before the call were taken for its reply: {done}"


@test(
    "a Reply chunk that was not written, of a call whose registration was kept",
    *("H-23", "V1-95", "V1-102"),
    device="rxe",
)
def unwritten_again(pair: Pair) -> None:
    """As above, but the memory is only a head, which still contains the reply to the last call."""
    with peer(pair, "--private-data", "f6ab0e1801010000") as server, loaded(pair) as load:
        load.open(f"port={server.port}")
        # The first reply leaves its call's registration to the second call.
        server.order("misbehave", modes=["invalidate-own", "nomsg-unwritten"])
        first, second = load.do(*["run count=1 call=100 reply=2000 reply_in=head"] * 2)
        assert first.good().counted["remote_invalidates"] == 1, first
        assert second.counted["reply_chunks"] >= 1, second
        wrong = server.of("misbehaves")[1]
        sent = [message["xid"] for message in server.messages()].count(wrong["xid"])
        # Both replies have the length of all the room, so that the first would pass for the second. The RPC layer may send the
        # call again, as above.
        assert second.error == errno.EIO or sent > 1, f"bytes from before the call were taken for its reply: {second}"
        load.one("close").good()
    nothing_left(pair)


@test(
    "the call fails: RDMA_ERROR {mode}",
    *("V1-110", "V1-111", "V1-112"),
    limit=90,
    device="rxe",
    cases=[{"mode": "err-vers", "counter": "version_errors"}, {"mode": "badheader", "counter": "header_errors"}],
)
def rdma_error(pair: Pair, mode: str, counter: str) -> None:
    """An error that names the call is final: no second attempt."""
    with hostile(pair) as server:
        told, risen, sent = misbehave(pair, server, mode)
        assert FAILED in told, told
        assert risen.get(counter) == 1, f"{mode}: {risen}"
        assert set(odd(risen)) <= {counter, "bad_replies"}, f"{mode}: {risen}"
        assert sent == 1, f"the call was sent {sent} times"
        assert ABSENT in ask(pair, "do-right")


@test(
    "the mount fails at once: RDMA_ERROR {mode} to the first call, vers={vers}",
    *("V1-110", "V1-111"),
    limit=90,
    device="rxe",
    cases=[{"mode": mode, "vers": vers} for mode in ("err-vers", "badheader") for vers in ("3", "4.2")],
)
def first_call(pair: Pair, mode: str, vers: str) -> None:
    """A server that speaks no version 1 is not asked again and again."""
    with peer(pair, "--first", mode) as server:
        command = server.mount_command(vers=vers)
        # mount.nfs reports an error in words of its own.
        traced = f"timeout -s KILL 20 strace -f -qq -e trace=mount {command}"
        done = pair.client.run(traced, 30, check=False)
        assert done.rc not in (0, 137) and "= -1 EIO " in done.out, f"mount: {done}"
        assert [e for e in server.of("misbehaves") if e["mode"] == mode], "the peer did not do it"
        nulls = server.messages(NFS, NULL)
        assert len(nulls) == 1, f"{len(nulls)} NULL calls"
    nothing_left(pair)


@test("every reply twice", "H-18", "V1-113", limit=90, device="rxe", allowed=(SECOND,))
@test("siw: every reply twice", "H-18", "V1-113", limit=90, device="siw", allowed=(SECOND,))
def twice(pair: Pair) -> None:
    """The second finds no call, or one that is being completed; either way the call completes once."""
    with hostile(pair) as server:
        for number in range(20):
            before = counters(pair)
            assert ABSENT in ask(pair, f"do-twice.{number}")
            wait_until(lambda: seconds(counters(pair)) == seconds(before) + 1, "the second reply is not counted", 20)
        assert len(server.of("misbehaves")) == 20


def seconds(numbers: dict[str, int]) -> int:
    """Second replies, by both counters."""
    return numbers["unknown_xids"] + numbers["duplicate_replies"]


@test("second reply during the local invalidation", "H-18", limit=120, device="rxe", allowed=(SECOND,))
def invalidated_twice(pair: Pair) -> None:
    """A call with a chunk does not complete before its registration is invalidated, even if a second reply comes."""
    with hostile(pair, mount="nordirplus") as server:
        for number in range(10):
            assert ABSENT in ask(pair, f"arm-twice-at-READDIR.{number}")
            before = counters(pair)
            pair.client.run("echo 3 >/proc/sys/vm/drop_caches")
            listed = pair.client.run(f"timeout -s KILL 100 ls {MOUNT_POINT}", 45)
            assert not listed.out.strip(), listed
            wait_until(lambda: seconds(counters(pair)) == seconds(before) + 1, "the second reply is not counted", 20)
        exposed = [m for m in server.messages(NFS, READDIR) if m["reply"] or m["write"]]
        assert len(exposed) >= 10, "the calls had no chunk, so nothing was invalidated"
        done = counters(pair)
        assert done["local_invalidates"] > 0, done


@test(
    "remote invalidation of a handle that is not the call's: {mode}",
    *("H-30", "PD-30", "PD-33", "V1-129"),
    limit=120,
    device="rxe",
    allowed=(FOREIGN,),
    cases=[{"mode": "invalidate-stale"}, {"mode": "unknown-xid-invalidate"}, {"mode": "reverse-invalidate"}],
)
def foreign(pair: Pair, mode: str) -> None:
    """The connection ends; calls without a reply are sent again on the next one."""
    with hostile(pair, mount="nordirplus") as server:
        stale_handle(pair, server)
        told, risen, sent = misbehave(pair, server, mode)
        assert ABSENT in told, told
        assert risen.get("foreign_invalidates") == 1, f"{mode}: {risen}"
        assert ABSENT in ask(pair, "do-right")
        assert counters(pair)["connect_count"] == 2 and len(server.of("connect")) == 2, "the connection was not remade"
        # The other messages were followed by the right reply, which may or may not be heard.
        assert sent == 2 or mode != "invalidate-stale", f"the call was sent {sent} times"
        said = pair.client.run("dmesg").out
        assert re.search(rf"port {server.port}: ending the connection: it invalidated", said), "the log does not say it"


@test(
    "siw: remote invalidation of a handle that is not the call's: {mode}",
    *("H-30", "PD-30"),
    limit=120,
    device="siw",
    allowed=(r"siw: got TERMINATE\. layer 0, type 2, code 9",),
    cases=[{"mode": "invalidate-stale"}, {"mode": "invalidate-dead"}],
)
def foreign_by_siw(pair: Pair, mode: str) -> None:
    """The device refuses it by itself, unlike rxe, and ends the connection; calls without a reply are sent again."""
    with hostile(pair, mount="nordirplus") as server:
        stale_handle(pair, server)
        told, risen, sent = misbehave(pair, server, mode)
        assert ABSENT in told, told
        assert odd(risen) == {"connect_count": 1} and sent == 2, (risen, sent)
        assert ABSENT in ask(pair, "do-right")


@test(
    "remote invalidation of a handle of another call, for a call with one of its own",
    *("H-30", "PD-30"),
    limit=120,
    device="rxe",
    allowed=(FOREIGN,),
)
def another(pair: Pair) -> None:
    """Its own handle is good after that, so the reply must not count; the READ is sent again on the next connection."""
    # The READ takes the first or the last of the three registrations; the one between them is not in use.
    with directory(pair, 3) as server:
        stale_handle(pair, server)
        assert ABSENT in ask(pair, "arm-invalidate-middle-at-READ")
        before = counters(pair)
        # The peer has no data for it; the test looks at the time of that reply.
        read = f"timeout -s KILL 100 dd if={MOUNT_POINT}/file of=/dev/null iflag=direct bs=2048 count=1"
        pair.client.run(read, 45, check=False)
        after = counters(pair)
        (order,) = server.of("misbehaves")
        assert [m["xid"] for m in server.messages() if m["write"]].count(order["xid"]) == 2, (
            "the READ was not sent again"
        )
        for name in ("foreign_invalidates", "connect_count"):
            assert after[name] == before[name] + 1, f"{name}: {before[name]}, then {after[name]}"
        assert ABSENT in ask(pair, "do-right")


@test("remote invalidation of handle 0xdead", "H-30", "PD-30", limit=120, device="rxe", allowed=(DEVICE,))
def dead(pair: Pair) -> None:
    """A handle that never was breaks the connection in the device already; the call is sent again all the same."""
    with hostile(pair) as server:
        told, risen, sent = misbehave(pair, server, "invalidate-dead")
        assert ABSENT in told, told
        assert risen.get("connect_count") == 1 and len(server.of("connect")) == 2, risen
        assert sent == 2, f"the call was sent {sent} times"


@test("a message longer than any Receive", "PD-13", "PD-18", limit=120, device="rxe", allowed=(DEVICE,))
def oversize(pair: Pair) -> None:
    """The device ends the connection; the call is sent again on the next one."""
    with hostile(pair) as server:
        told, risen, sent = misbehave(pair, server, "oversize")
        assert ABSENT in told, told
        assert risen.get("connect_count") == 1 and sent == 2, (risen, sent)


@test("an RDMA Write with immediate data", "V1-15", "V1-122", "H-24", limit=120, device="rxe")
def immediate(pair: Pair) -> None:
    """It takes a Receive that no message came into. The connection ends, and the call is sent again on the next one. The
    peer sends no reply on the first: one that came before the queue pair has left its state would be taken."""
    with hostile(pair) as server:
        told, risen, sent = misbehave(pair, server, "immediate")
        assert ABSENT in told, told
        assert risen.get("connect_count") == 1 and len(server.of("connect")) == 2, risen
        assert sent == 2, f"the call was sent {sent} times"
        how = ends(pair.client, server.port)
        assert how[0] == "an RDMA Write with immediate data has come", how


@test("reverse call with chunks", "BI-30", "BI-3", "V1-40", limit=90, device="rxe")
def reverse_chunks(pair: Pair) -> None:
    """It is refused with ERR_CHUNK, nothing of it is fetched, and the call with the same xid is not mixed up with it."""
    with hostile(pair) as server:
        told, risen, sent = misbehave(pair, server, "reverse-chunks")
        assert ABSENT in told and sent == 1, (told, sent)
        assert not odd(risen), risen
        (order,) = server.of("misbehaves")
        refusal = server.wait(lambda e: e.get("proc") == RDMA_ERROR, "no RDMA_ERROR came")
        expected = {"xid": order["xid"], "vers": 1, "error": ERR_CHUNK, "length": 20}
        assert {name: refusal.get(name) for name in expected} == expected, refusal
        assert refusal["credits"] == 1, f"a client that takes no calls has granted {refusal['credits']}"


@test("many reverse calls with chunks at once", "BI-30", "V1-121", limit=90, device="rxe")
def many_reverse_chunks(pair: Pair) -> None:
    """Each is refused, or the connection ends: the server waits for no reply in vain. The client's call ends well."""
    with hostile(pair) as server:
        told, _, sent = misbehave(pair, server, "reverse-chunks-many")
        refused = len([e for e in server.of("message") if e.get("proc") == RDMA_ERROR])
        ended = "more calls from the server than can be refused at once" in ends(pair.client, server.port)
        print(f"# {refused} of 12 refused, the connection {'ended' if ended else 'goes on'}")
        assert ABSENT in told and sent <= 1 + ended, (told, sent)
        assert refused == 12 or ended, f"{refused} of 12 refused, and the connection goes on"


REFUSED = [{"error": error} for error in ("err-vers", "badheader")]


@test("a server that hangs up after each reply", "V1-122", "PD-20", limit=120, device="rxe", allowed=(DEVICE,))
def hangs_up(pair: Pair) -> None:
    """It is connected to again, after pauses once that has happened twice, and does not flood the log."""
    with hostile(pair) as server:
        begin = len(pair.client.run("dmesg").out)
        # A connection brings one reply, to the call that its predecessor has left over, and ends at the next call: no reply
        # is overtaken by the end of its connection, after which sunrpc's own back-off would make the pauses.
        names = " ".join(f"{MOUNT_POINT}/do-disconnect.{number}" for number in range(80))
        start = time.monotonic()
        pair.client.run(f"timeout -s KILL 10 stat {names}", 40, check=False)
        took = time.monotonic() - start
        made = len(server.of("connect"))
        lines = len(re.findall(rf"port {server.port}: connect", pair.client.run("dmesg").out[begin:]))
        print(f"# {made} connections, {lines} lines in the log, in {took:.1f} s")
        # 10 connections and 20 lines in 10 seconds.
        assert made <= max(10, took) and lines <= 2 * max(10, took), (
            f"{made} connections, {lines} lines in {took:.1f} s"
        )
        if made < 4:
            raise Late(f"{made} connections are too few to see pauses between them")


@test(
    "the call that begins a connection is refused, {error}", "V1-110", "V1-123", limit=120, device="rxe", cases=REFUSED
)
def probe_refused(pair: Pair, error: str) -> None:
    """The attempt to connect fails then, and the next one is made; no caller sees the error."""
    with hostile(pair, mount="timeo=30") as server:
        assert ABSENT in ask(pair, f"arm-{error}-at-NULL")
        assert ABSENT in ask(pair, "do-never")
        assert [e["mode"] for e in server.of("misbehaves")] == ["never", error], server.of("misbehaves")
        # The second connection was given up before any caller used it.
        assert [m["connection"] for m in server.lookups("do-never")] == [1, 3], server.lookups("do-never")


@test("a call without a reply on a connection that lives", "V1-123", "BI-18", limit=120, device="rxe")
def silent(pair: Pair) -> None:
    """It is not sent again before that connection has ended: a server must not see an xid twice on one."""
    with hostile(pair, mount="timeo=30") as server:
        assert ABSENT in ask(pair, "do-never")
        sent = server.lookups("do-never")
        assert [message["connection"] for message in sent] == [1, 2], sent
        assert len({message["xid"] for message in sent}) == 1, sent
        assert "a call got no reply in time" in ends(pair.client, server.port)
        log = pair.client.run("dmesg").out
        assert f"port {server.port}: connection lost: a call got no reply in time" in log, "the log does not tell"
        # The next connection began with a call of the transport's own, whose reply is not a strange one.
        assert len([m for m in server.messages(NFS, NULL) if m["connection"] == 2]) == 1, "no call of its own"
        assert counters(pair)["bad_xids"] == 0, counters(pair)


@test("no two calls in a row use one handle", "V1-133", limit=90, device="rxe")
def handles(pair: Pair) -> None:
    """A registration has another key at each use."""
    with hostile(pair) as server:
        # The peer has no data: the test looks at the handles that it is offered.
        read = f"dd if={MOUNT_POINT}/file of=/dev/null bs=16384 count=1 iflag=direct status=none || true"
        pair.client.run("\n".join([read] * 12))
        used = [segment["handle"] for m in server.messages() for segment in itertools.chain(*m["write"])]
        assert len(used) >= 12 and len(set(used)) == len(used), used


@test("garbage", "V1-15", "V1-20", "V1-105", "V1-108", "V1-139", "H-24", limit=120, device="rxe")
@test("siw: garbage", "V1-15", "V1-20", "V1-105", "V1-108", "V1-139", "H-24", limit=120, device="siw")
def garbage(pair: Pair) -> None:
    """Messages without meaning, in all more than the client has Receives, cost none: later messages are received. At
    most as many arrive at a time as the client has granted credits for."""
    with hostile(pair) as server:
        for number in range(10):
            before = counters(pair)
            told = ask(pair, f"do-garbage.{number}")
            assert ABSENT in told, told
            after = counters(pair)
            risen = sum(after[name] - before[name] for name in (*DROPPED, "unknown_xids"))
            assert risen == 12, f"{risen} of 12 messages were counted: {before} {after}"
            assert after["connect_count"] == 1, "the connection ended"
            assert len(server.lookups(f"do-garbage.{number}")) == 1


@test("a flood of garbage", "V1-122", "H-24", limit=120, device="rxe", allowed=(DEVICE, STRANGE))
def flood(pair: Pair) -> None:
    """More messages than were asked for, faster than Receives can be posted, cost the connection but not the call. A
    client that is quick enough ends it because of their contents."""
    with hostile(pair) as server:
        for number in range(3):
            told = ask(pair, f"do-flood.{number}")
            assert ABSENT in told, told
        assert len([event for event in server.of("misbehaves") if event["mode"] == "flood"]) == 3
        assert ABSENT in ask(pair, "do-right")


@test("replies to 1100 unknown calls", "V1-113", "V1-122", limit=180, device="rxe", allowed=(STRANGE,))
def unknown(pair: Pair) -> None:
    """Replies to unknown calls cost no call, and cost the connection after 1024 of them: no sooner."""
    with hostile(pair) as server:
        for number in range(100):
            if number == 93:
                before = counters(pair)
                assert (before["unknown_xids"], before["connect_count"]) == (93 * 11, 1), before
            assert ABSENT in ask(pair, f"do-unknown-xids.{number}")
        after = counters(pair)
        assert (after["unknown_xids"] > 1024, after["connect_count"]) == (True, 2), after
        assert ends(pair.client, server.port) == ["too many replies to unknown calls"]


@test("disconnected in the middle of a call", "V1-122", "PD-20", "H-45", limit=120, device="rxe")
@test(
    "siw: disconnected in the middle of a call",
    *("V1-122", "PD-20", "H-45"),
    limit=120,
    device="siw",
    allowed=(r"port \d+: ",),
)
def disconnect(pair: Pair) -> None:
    """The call is sent again on a new connection; attempts that are cut off or refused in between do not end it."""
    with hostile(pair, "--connections", "ok,disconnect,reject,reject,ok", mount="timeo=600") as server:
        told, risen, sent = misbehave(pair, server, "disconnect")
        assert ABSENT in told, told
        outcomes = [event["outcome"] for event in server.of("connect")]
        assert outcomes == ["ok", "disconnect", "reject", "reject", "ok"], outcomes
        assert sent >= 2, f"the call was sent {sent} times"
        assert risen.get("connect_count", 0) >= 1, risen


@test(
    "the first connection: {outcome}, vers={vers}",
    "H-45",
    limit=120,
    device="rxe",
    cases=[{"outcome": outcome, "vers": vers} for outcome in ("reject", "disconnect") for vers in ("3", "4.2")],
)
def no_connection(pair: Pair, outcome: str, vers: str) -> None:
    """A server that accepts no connection, or ends each immediately: the mount fails, or is killed, without harm."""
    with peer(pair, "--private-data", "f6ab0e1801010303", "--connections", outcome) as server:
        command = server.mount_command("timeo=20,retrans=1", vers)
        pair.client.run(f"! timeout -s KILL 15 {command}", 20)
        assert server.of("connect"), "no attempt was made"
        assert not pair.client.run(f"grep ' {MOUNT_POINT} ' /proc/mounts || true").out, "it is mounted"
        said = pair.client.run(f"dmesg | grep 'port {server.port}: '").lines
        assert len(said) <= 2 * len(server.of("connect")) and len(said) < 20, "the log is flooded:\n" + "\n".join(said)
    nothing_left(pair)


@test("the in-tree server, after all that", "V1-122", limit=60)
def good_server(pair: Pair) -> None:
    """The module has kept nothing of all that: it still works, and can be unloaded."""
    pair.mount("4.2")
    pair.client.run(f"head -c 300000 /dev/zero | tr '\\000' g >{MOUNT_POINT}/good; sync")
    assert pair.server.run("tr -d g </export/good | wc -c; stat -c %s /export/good").lines == ["0", "300000"]
    pair.drop_caches()
    assert pair.client.run(f"tr -d g <{MOUNT_POINT}/good | wc -c").out.strip() == "0"
    pair.client.run(f"rm {MOUNT_POINT}/good")
    pair.umount()
    nothing_left(pair)
    pair.unload_module()
    pair.load_module()
