# SPDX-License-Identifier: GPL-2.0
"""Every transfer mode on purpose, with every byte checked at both ends.

NFS chooses its own sizes; these calls come from selftests/modules/rpcload (guests/lib/modes.py).
"""

import errno
from contextlib import nullcontext

from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, Pair
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.hostile import NFS, hostile
from guests.lib.modes import COUNTERS, MIB, Message, check_counters, reply_end, try_mode
from guests.lib.parameters import parameters
from guests.lib.rpcload import FILES, Load, loaded


READ, WRITE = 6, 7  # procedures of NFSv3
MODES = {
    "inline both ways": ("V1-2", "V1-3", "V1-45", "V1-54"),
    "Read chunk": ("V1-46", "V1-53", "V1-70", "V1-71", "V1-73", "V1-74", "V1-77"),
    "Write chunk": ("V1-46", "V1-83", "V1-84", "V1-85", "V1-87", "V1-151"),
    "Read chunk and Write chunk": ("V1-46", "V1-73", "V1-85", "V1-151"),
    "Reply chunk": ("V1-47", "V1-51", "V1-59", "V1-99"),
    "Long call": ("V1-47", "V1-48", "V1-59", "V1-73"),
    "Long call and Reply chunk": ("V1-47", "V1-48", "V1-51", "V1-99", "V1-153"),
    "Long call and Write chunk": ("V1-48", "V1-85", "V1-153"),
}


for mode, rows in MODES.items():

    @test("{mode}", *rows, cases=[{"mode": mode}])
    def in_mode(pair: Pair, mode: str) -> None:
        """Calls of all sizes use the mode, and no other, and each byte arrives."""
        try_mode(pair, mode)


# Lengths whose last word XDR pads, within a page and over several.
ODD = (5001, 12346, 100003)


@test("chunks of odd sizes have no room for padding", "V1-77", "V1-97", device="rxe", client="ours")
def unpadded(pair: Pair) -> None:
    """The memory that a WRITE offers to be read, and a READ to be written to, is exactly as long as its data."""
    with hostile(pair) as server:
        for size in ODD:
            dd = f"dd bs={size} count=1 status=none"
            pair.client.run(f"{dd} if=/dev/zero of={MOUNT_POINT}/file oflag=direct conv=nocreat,notrunc")
            # The peer has no data: the test looks at the client's offer.
            read = pair.client.run(f"{dd} if={MOUNT_POINT}/file of=/dev/null iflag=direct", check=False)
            assert "Input/output error" in read.out, read
        written = [sum(segment["length"] for segment in m["read"]) for m in server.messages(NFS, WRITE)]
        assert written == list(ODD), f"to be read of calls with {ODD} bytes: {written}"
        assert all(segment["position"] for m in server.messages(NFS, WRITE) for segment in m["read"]), "a Long call"
        offered = [[sum(s["length"] for s in chunk) for chunk in m["write"]] for m in server.messages(NFS, READ)]
        assert offered == [[size] for size in ODD], f"room for replies with {ODD} bytes: {offered}"


# A Long call or a Reply chunk, and the registrations that it takes: three with a gap between head, pages and tail.
PIECES = {
    "call=16384 call_in=pages": 1,
    "call=1048576 call_in=pages": 1,
    "call=20000 call_in=pages": 3,
    "call=16384 call_in=pages call_base=512": 3,
    "reply=16384 reply_in=pages": 1,
    "reply=1048576 reply_in=pages": 1,
    "reply=20000 reply_in=pages": 3,
    "reply=16384 reply_in=pages reply_base=512": 3,
    "call=16384 call_in=pages reply=16384 reply_in=pages": 2,
}


@test(
    "a whole message in one piece, remote invalidation {remote}",
    *("V1-47", "V1-99", "V1-125", "V1-134", "PD-30"),
    device="rxe",  # siw registers fewer pages at a time
    cases=[{"remote": 1}, {"remote": 0}],
)
def pieces(pair: Pair, remote: int) -> None:
    """The server invalidates a chunk with a single handle, if it may; the client invalidates any other."""
    parameter = "/sys/module/rpcrdma_rs/parameters/remote_invalidation"
    ours = pair.options.client == "ours"
    if ours:
        pair.client.run(f"echo {remote} >{parameter}")
    with loaded(pair) as load:
        load.open()
        commands = [f"run {words} count=4 depth=2 seed={seed}" for seed, words in enumerate(PIECES)]
        for outcome, registrations in zip(load.do(*commands, timeout=60), PIECES.values(), strict=True):
            outcome.good()
            check_counters(outcome)
            if ours:
                seen = outcome.counted["remote_invalidates"], outcome.counted["local_invalidates"]
                wanted = (4, 0) if remote and registrations == 1 else (0, 4 * registrations)
                assert seen == wanted, f"invalidated by the server and by us: {seen} instead of {wanted}\n{outcome}"
        assert load.bad_calls() == 0
    if ours:
        pair.client.run(f"echo 1 >{parameter}")


@test(
    "more registrations than the send queue has room for, credits {credits}",
    *("H-34", "H-4"),
    limit=120,
    cases=[{"credits": 128}, {"credits": 4}],
)
def registrations(pair: Pair, credits: int) -> None:
    """The queue has room for one registration with each credit, and for one message more, which here has six; the
    client has one and a half registrations for each credit, and at least six. The sender has to wait now and then, with
    4 credits for nearly every call. That costs no connection, and ends."""
    ours = pair.options.client == "ours"
    words = "call=16384 call_in=pages call_base=512 reply=16384 reply_in=pages reply_base=512"
    with parameters(pair, credits=credits, reverse=0) if ours else nullcontext(), loaded(pair) as load:
        load.open()
        # Each call has a buffer and a Receive afterwards.
        load.one("run count=512 depth=128 call=500 reply=500").good()
        for seed in range(3):
            outcome = load.one(f"run count=256 depth=128 seed={seed} {words}", timeout=60).good()
            assert outcome.values["calls"] == 256, str(outcome)
            check_counters(outcome)
            if ours:
                assert outcome.counted["connect_count"] == 0, str(outcome)
                assert outcome.counted["local_invalidates"] == 6 * 256, str(outcome)
                assert credits > 4 or outcome.counted["empty_sendctx"] > 0, f"nothing waited\n{outcome}"
        assert load.bad_calls() == 0


@test("reply shorter than its Reply chunk", "V1-50", "V1-99", "V1-100", "V1-102")
def short_reply(pair: Pair) -> None:
    """The chunk is for the largest reply; the actual reply is smaller, and ends anywhere in it."""
    with loaded(pair) as load:
        load.open()
        sizes = (0, 1, 4000, 4096, 12345, 200000, 294900, 294912)
        ends = [(size, place, room) for size in sizes for place in ("pages", "parts") for room in (294912, 300000)]
        commands = [f"run call=10 reply={n} reply_in={place} reply_room={room} count=3" for n, place, room in ends]
        for outcome in load.do(*commands):
            outcome.good()
            assert outcome.counted["reply_chunks"] >= 3, str(outcome)
            check_counters(outcome)


@test(
    "all modes at a time, depth 16, auth {auth}",
    "V1-46",
    "V1-47",
    "V1-155",
    cases=[{"auth": a} for a in ("null", "unix")],
)
def mixed(pair: Pair, auth: str) -> None:
    """Calls of all sizes and modes share a connection; every one gets its own data."""
    count = pair.options.scaled(80, 30)
    with loaded(pair) as load:
        load.open(f"auth={auth}")
        run = f"run count={count} depth=16 call={MIB} reply={MIB} vary=1 seed=7 {reply_end(pair, True)}"
        outcome = load.one(run, timeout=90).good()
        assert outcome.values["calls"] == count, str(outcome)
        idle = [name for name in COUNTERS if not outcome.counted[name]]
        assert not idle, f"not used: {idle}\n{outcome}"
        check_counters(outcome)
        assert load.bad_calls() == 0


@test("spoilt data is noticed", "V1-73", "V1-85")
def spoilt(pair: Pair) -> None:
    """One wrong byte in a call or a reply, in every mode: a check that cannot fail proves nothing."""
    kinds = [("pages", True), ("pages", False), ("parts", False)]
    messages = [Message(place, ddp, size=size) for place, ddp in kinds for size in (100, 100000)]
    flips = ("call", "reply", "none")
    commands = [
        f"run flip={flip} count=3 {m.words('call')} {m.words('reply')} {reply_end(pair, m.ddp)}"
        for m in messages
        for flip in flips
    ]
    with loaded(pair) as load:
        load.open()
        for outcome, flip in zip(load.do(*commands), flips * len(messages), strict=True):
            assert outcome.error == (0 if flip == "none" else errno.EBADMSG), str(outcome)
            wrong = {name: 3 * (flip == name) for name in ("call", "reply")}
            assert wrong == {name: outcome.values[f"{name}_mismatches"] for name in wrong}, str(outcome)
        assert load.bad_calls() == 3 * len(messages)


@test("calls that are too large, among others", "V1-119", "H-15")
def too_large(pair: Pair) -> None:
    """Each of them fails by itself: no other call does, and the connection stays."""
    if pair.options.client != "ours":
        return
    with loaded(pair) as load:
        load.open()
        outcome = load.one(f"run count=400 depth=16 call={2 * MIB} reply=4096 vary=1 seed=3", timeout=90)
        # A chunk has room for more than the server takes, which refuses such a call by RDMA_ERROR: on soft-RoCE for a
        # little more, on a device with larger registrations for all of these calls.
        failed, refused = outcome.counted["failed_marshals"], outcome.counted["header_errors"]
        assert outcome.values["calls"] == 400 and outcome.values["errors"] == failed + refused, str(outcome)
        assert failed + refused >= 2 and outcome.error == errno.EIO and outcome.values["mismatches"] == 0, str(outcome)
        assert outcome.counted["connect_count"] == 0, str(outcome)
        assert load.bad_calls() == 0


@test("calls without a waiting caller", "H-12")
def without_caller(pair: Pair) -> None:
    """A call is over when it was sent, once; its credit comes back with the reply, which finds no caller."""
    if pair.options.client != "ours":
        return  # it sends such a call, ends the connection and sends the call again, for ever
    with loaded(pair) as load:
        load.open()
        # Abandoned calls may hold half of the grant, which a server of ours raises with the load.
        load.one("run proc=null count=256 depth=64").good()
        late = 0
        for seed in range(4):
            commands = ["run proc=null answer=0 count=40 depth=4", f"run count=200 depth=64 call=1000 seed={seed}"]
            for outcome, calls in zip(load.do(*commands), (40, 200), strict=True):
                assert outcome.good().values["calls"] == outcome.counted["sends"] == calls, str(outcome)
                assert outcome.counted["connect_count"] == 0, str(outcome)
                late += outcome.counted["unknown_xids"]
        assert late == 160, f"{late} replies found no caller"


@test("NULL calls to nfsd, lost connections", "PD-20")
def null_calls(pair: Pair) -> None:
    """The features for benchmarks: many small calls with their times, and the time of a reconnect."""
    with loaded(pair) as load:
        opened = load.open("program=nfs")
        assert opened.values["connects"] == 1 and opened.values["connect_ns"] > 0, str(opened)
        for depth in (1, 8):
            outcome = load.one(f"run proc=null count=200 depth={depth}").good()
            v = outcome.values
            assert v["calls"] == 200 and outcome.counted["sends"] == 200, str(outcome)
            assert 0 < v["min_ns"] <= v["p50_ns"] <= v["p90_ns"] <= v["p99_ns"] <= v["p999_ns"], str(outcome)
            assert v["p999_ns"] <= v["max_ns"] <= v["total_ns"], str(outcome)
        for connects in (2, 3):
            again = load.one("reconnect").good()
            assert again.values["connects"] == connects and again.counted["connect_count"] == 1, str(again)
        load.one("run proc=null").good()
        load.one("close").good()


# Commands that make no sense, or come at the wrong time.
REFUSED_CLOSED = {
    "run": errno.ENOTCONN,
    "close": errno.ENOTCONN,
    "reconnect": errno.ENOTCONN,
    "open": errno.EINVAL,
    "open addr=nowhere": errno.EINVAL,
    f"open addr={SERVER.ipv4} port=65536": errno.EINVAL,
    f"open addr={SERVER.ipv4} reverse=17": errno.EINVAL,
    "launch": errno.EINVAL,
    "": errno.EINVAL,
}
REFUSED_OPEN = {
    f"open addr={SERVER.ipv4}": errno.EISCONN,
    "run depth=0": errno.EINVAL,
    "run count=5000000": errno.EINVAL,
    "run call=2097153": errno.EINVAL,
    "run call=65537": errno.EINVAL,
    "run call_ddp=1": errno.EINVAL,
    "run reply=10 reply_room=9": errno.EINVAL,
    "run call=1048576 call_in=pages reply=1048576 reply_in=pages depth=1024": errno.EINVAL,
    "run flip=reply verify=0": errno.EINVAL,
    "run flip=reply": errno.EINVAL,
    "run call": errno.EINVAL,
    "run cal=1": errno.EINVAL,
    "run call=x": errno.EINVAL,
    "close now": errno.EINVAL,
}


def check_refusals(load: Load, refused: dict[str, int]) -> None:
    """Each is refused with the right errno and a reason."""
    for outcome, error in zip(load.do(*refused), refused.values(), strict=True):
        assert outcome.error == error and outcome.reason, str(outcome)


@test("load generator: refusals, interruption, unloading", limit=120)
def tool(pair: Pair) -> None:
    """The tool itself: it refuses bad commands with a reason, ends when told to, and leaves nothing behind."""
    before = resources.rdma(pair.client), resources.rdma(pair.server)
    with loaded(pair) as load:
        check_refusals(load, REFUSED_CLOSED)
        load.open()
        check_refusals(load, REFUSED_OPEN)
        killed = pair.client.run(
            f"""
            sh -c 'echo run count=1000000 depth=4 call=1000 >{FILES}/control' 2>/dev/null & pid=$!
            sleep 1
            kill -KILL $pid
            wait $pid || true
            cat {FILES}/control
            """
        )
        assert "error=-4" in killed.out and "command=run" in killed.out, killed.out
        load.one("run count=10").good()
        assert pair.client.run(f"rmmod rpcload <{FILES}/control", check=False).rc != 0, "unloaded under a user"
    for _ in range(2):
        with loaded(pair) as load:
            load.open()
            load.one(f"run depth=4 count=8 call={MIB} call_in=pages call_ddp=1").good()
    for guest in pair.guests:
        assert "rpcload" not in guest.run("cat /proc/modules").out
    pair.unload_module()
    after = resources.rdma(pair.client), resources.rdma(pair.server)
    pair.load_module()
    assert after == before, f"RDMA objects before: {before}, afterwards: {after}"
