# SPDX-License-Identifier: GPL-2.0
"""Every field of a reply, with values it cannot have: each case gives the exact outcome of the call.

One right reply is changed by edits (selftests/guests/peer/edits.py), which commas join. `N=HEX` sets word N, `N+HEX` adds
to it, `N<HEX.HEX` inserts words in front of it, `N-COUNT` removes words, `cut~BYTES` ends the message there, `pad~BYTES`
appends zeroes. So `6=1,7<1.dead.40.0.10000` sets the flag of the Reply chunk, and inserts a chunk of one segment.

A case is its edits, the outcome of the call, and the counters that rise by one. All cases of a group happen under one
mount, one after the other, so that each also shows that the client remembers nothing of earlier cases.
"""

from __future__ import annotations

import itertools
import shlex
from dataclasses import dataclass

from guests.harness.pair import MOUNT_POINT, Pair
from guests.harness.registry import test
from guests.lib import mountstats
from guests.lib.hostile import ABSENT, DEVICE, FAILED, ask, counters, hostile, nothing_left, odd
from guests.lib.peer import Peer, peer
from guests.lib.rpcload import loaded


SEPARATOR = "====="
STRONGER = r"RPC: server \S+ requires stronger authentication"
# Replies made wrong at random in each round (--rounds). Damage by them is best seen on the debug kernel.
MUTATIONS = 2_500
# Every kind of wrong reply that the transport counts.
WAYS = (
    *(
        "bad_replies",
        "short",
        "version",
        "type",
        "xid_mismatch",
        "malformed",
        "undecodable",
        "unknown_xids",
        "zero_grants",
    ),
    *("version_errors", "header_errors", "renamed_segments", "reverse_unserved"),
)

# The outcomes of a call, with the verdicts that its caller gets, and the number of times that it is sent.
FAILS = "fails"  # the transport ends it
DROPPED = "dropped"  # the message is dropped, and the right one that follows counts
TAKEN = "taken"  # nothing is wrong for a transport, nor for the layers above it
RESENT = "resent"  # the RPC layer cannot read the delivered reply, and sends the call again, on another connection
REFUSED = "refused"  # the RPC layer ends it with an error of its own, or NFS does
DENIED = "denied"  # likewise, and the log has the server's wish for stronger authentication
OUTCOMES = {
    FAILS: ({FAILED}, 1),
    DROPPED: ({ABSENT}, 1),
    TAKEN: ({ABSENT}, 1),
    RESENT: ({ABSENT}, 2),
    REFUSED: ({FAILED, *(f"{it} not supported" for it in ("Protocol", "Protocol family", "Operation"))}, 1),
    DENIED: ({"Permission denied"}, 1),
}

# The devices, and the beginning of the names of their tests. Over iWARP messages are split otherwise.
DEVICES = {"rxe": "", "siw": "siw: "}

Case = tuple[str, str, tuple[str, ...]]


def each(template: str, values: str, outcome: str, *rising: str) -> list[Case]:
    """A case for each of the values, which are words."""
    return [(template.format(value), outcome, rising) for value in values.split()]


# The right reply to the LOOKUP, by words: 0 xid, 1 version, 2 credits, 3 type, 4 to 6 lists; 7 xid, 8 REPLY, 9 accepted,
# 10 and 11 verifier, 12 success; 13 NFS3ERR_NOENT, 14 no attributes.
LARGE = "2 3 ff 100 10000 1000000 7fffffff 80000000 ffffffff"
COUNTS = "2 ff fffffff 10000000 40000001 80000000 ffffffff"
SEGMENT = "dead.40.0.10000"

PREFIX = [
    *each("cut~{}", "0 1 3 4 7 8 11 12 15", DROPPED, "short"),
    *each("1={}", "0 " + LARGE, FAILS, "version"),
    *each("2={}", "0", TAKEN, "zero_grants"),
    *each("2={}", "1 " + LARGE, TAKEN),
    *each("3={}", "2 3 5 6 ff 10000 1000000 80000000 ffffffff", FAILS, "type"),
    *each("0+{}", "1 80000000", DROPPED, "xid_mismatch", "bad_xids"),
    *each("0+{0},7+{0}", "1 80000000", DROPPED, "unknown_xids", "bad_xids"),
]
LISTS = [
    *each("cut~{}", "16 17 19 20 23 24 27", FAILS, "malformed"),
    *each("4={}", LARGE, FAILS, "malformed"),
    *each("5={}", LARGE, FAILS, "malformed"),
    *each("6={}", LARGE, FAILS, "malformed"),
    # A Read segment, two of them, and one that is made of the words that follow.
    *each("4<1.{}", f"0.{SEGMENT} ffffffff.{SEGMENT} 0.{SEGMENT}.1.4.{SEGMENT}", FAILS),
    *each("4={}", "1", FAILS, "xid_mismatch"),
    # A Write chunk without segments, with one, and two chunks.
    *each("5<1.{}", f"0 1.{SEGMENT} 0.1.0 1.{SEGMENT}.1.1.{SEGMENT}", FAILS),
    *each("5<1.{}", COUNTS, FAILS, "malformed"),
    # A Reply chunk. One without segments has no meaning.
    *each("6=1,7<{}", "0", TAKEN),
    *each("6=1,7<{}", f"1.{SEGMENT} 2.{SEGMENT}.{SEGMENT}", FAILS),
    *each("6=1,7<{}", COUNTS, FAILS, "malformed"),
    # Nothing inline, and nowhere else either.
    *each("3=1{}", " ,cut~28", FAILS, "malformed"),
    *each("3=1,6=1,7<{}", f"1.{SEGMENT}", FAILS),
]
ERRORS = [
    *each("3=4,cut~{}", "16 17 19", DROPPED, "undecodable"),
    *each("3=4,4={}", "0 3 ff 1000000 80000000 ffffffff", DROPPED, "undecodable"),
    *each("3=4,4=1,cut~{}", "20 23 24 27", DROPPED, "undecodable"),
    *each("3=4,4=1{}", ".1.1,cut~28 .2.2 .0.0 .ffffffff.0", FAILS, "version_errors"),
    *each("3=4,4=2{}", ",cut~20 ,pad~4", FAILS, "header_errors"),
]
PAYLOAD = [
    *each("cut~{}", "28 31 32 35", FAILS, "malformed"),
    *each("cut~{}", "37 39 43 57 58 59", FAILS),
    *each("pad~{}", "1 2 3", FAILS),
    *each("pad~{}", "4 100", TAKEN),
    *each("7+{}", "1 80000000 ffffffff", FAILS, "xid_mismatch"),
    *each("8={}", LARGE, FAILS, "malformed"),
    *each("8={}", "0", DROPPED, "reverse_unserved"),
    # From here on sunrpc reads.
    *each("cut~{}", "36 40 44 48", RESENT),
    *each("9={}", "2 ffffffff", REFUSED),
    *each("9=1,10={}", "2 ffffffff", RESENT),
    *each("9=1,10=1,11={}", "1 3", RESENT),
    *each("9=1,10=1,11={}", "5", DENIED),
    *each("9=1,10=0,11={}", "2", REFUSED),
    *each("12={}", "4 5 6 ffffffff", RESENT),
    *each("12={}", "1 2 3", REFUSED),
    *each("cut~{}", "52 56", REFUSED),
]
GROUPS = {
    "prefix": (PREFIX, ("V1-7", "V1-15", "V1-25", "V1-108", "V1-113", "V1-117")),
    "lists": (LISTS, ("V1-17", "V1-18", "V1-19", "V1-20", "V1-82", "V1-90", "V1-101", "V1-102")),
    "errors": (ERRORS, ("V1-105", "V1-110", "V1-111", "V1-112")),
    "payload": (PAYLOAD, ("V1-1", "V1-17", "BI-16", "BI-28")),
}

# The right reply to a READDIR has the Reply chunk that was offered, empty: 6 is its flag, 7 the number of its segments, 8
# to 11 the segment (handle, length, offset), and 12 the xid of the payload.
REPLY_CHUNK = [
    *each("6=0,7-5{}", ",pad~0", TAKEN),
    *each("6={}", LARGE, FAILS, "malformed"),
    *each("7={}", "0 2", FAILS, "xid_mismatch"),
    *each("7={}", COUNTS.removeprefix("2 "), FAILS, "malformed"),
    *each("7=0,8-4{}", ",pad~0", FAILS),
    *each("7=2,12<{}", SEGMENT, FAILS),
    *each("8{}", "+1 =0 =ffffffff", TAKEN, "renamed_segments"),
    *each("10{}", "+1 +ffffffff", TAKEN, "renamed_segments"),
    *each("11{}", "+1 +1000 +ffffffff", TAKEN, "renamed_segments"),
    *each("9={}", "1 4 100 7fffffff 80000000 ffffffff", FAILS),
    *each("4<1.{}", f"0.{SEGMENT}", FAILS),
    *each("5<1.{}", f"0 1.{SEGMENT}", FAILS),
    # Everything in the chunk, and no length of it can be right.
    *each("3=1{}", ",cut~48 ,pad~4", FAILS),
    *each("3=1,9={},cut~48", "1 10 13 15 ffffffff", FAILS),
    *each("3=1,6=0,7-5{}", ",cut~28", FAILS, "malformed"),
]
# The reply to a READ has the Write chunk, empty: 5 is its flag, 6 the number of its segments, 7 to 10 the segment, 11 the
# end of the list, 12 the flag of the Reply chunk, 13 the xid of the payload.
WRITE_CHUNK = [
    *each("5=0,6-6{}", ",pad~0", TAKEN),
    *each("5={}", LARGE, FAILS, "malformed"),
    *each("6={}", "2", FAILS, "xid_mismatch"),
    *each("6={}", COUNTS.removeprefix("2 "), FAILS, "malformed"),
    *each("6=0,7-4{}", ",pad~0", FAILS),
    *each("6=2,11<{}", SEGMENT, FAILS),
    *each("7{}", "+1 =0 =ffffffff", TAKEN, "renamed_segments"),
    *each("9{}", "+1 +ffffffff", TAKEN, "renamed_segments"),
    *each("10{}", "+1 +1000 +ffffffff", TAKEN, "renamed_segments"),
    *each("8={}", "7fffffff 80000000 ffffffff", FAILS),
    *each("11={}", "1 " + LARGE, FAILS, "malformed"),
    *each("11<1.{}", f"0 1.{SEGMENT}", FAILS),
    *each("12={}", "1 " + LARGE, FAILS, "malformed"),
    *each("12=1,13<{}", f"1.{SEGMENT}", FAILS),
    *each("12=1,13<{}", "0", TAKEN),
    *each("4<1.{}", f"0.{SEGMENT}", FAILS),
    *each("3=1{}", ",cut~52 ,pad~4", FAILS),
]
# The command, its verdict if the reply is taken, cases, requirements. The peer has no data: a READ ends with its error.
CHUNKS = {
    "READDIR": (f"ls {MOUNT_POINT}", "", REPLY_CHUNK, ("V1-89", "V1-91", "V1-101", "V1-102", "H-23")),
    "READ": (
        f"dd if={MOUNT_POINT}/file of=/dev/null bs=64K count=1 iflag=direct status=none",
        FAILED,
        WRITE_CHUNK,
        ("V1-66", "V1-89", "V1-90", "V1-91", "H-23"),
    ),
}


@dataclass(frozen=True)
class Result:
    """The verdict that a command got, and the rise of the counters."""

    told: str
    risen: dict[str, int]


def play(pair: Pair, server: Peer, commands: list[str], limit: float) -> list[Result]:
    """Runs the commands one after the other."""
    look = f"cat /proc/self/mountstats; echo {SEPARATOR}; cat {mountstats.DEBUGFS}/xprt-*; echo {SEPARATOR}"
    steps = [f"{{ timeout -s KILL 60 {command}; }} 2>&1 || true; echo {SEPARATOR}; {look}" for command in commands]
    text = pair.client.run("\n".join([look, *steps]), limit).out
    blocks = text.split(f"{SEPARATOR}\n")[:-1]

    def numbers(stats: str, own: str) -> dict[str, int]:
        line = mountstats.line_of(mountstats.block_in(stats, MOUNT_POINT))
        return mountstats.named(line) | mountstats.parse_own(own, server.port)

    results, before = [], numbers(*blocks[:2])
    for told, stats, own in itertools.batched(blocks[2:], 3, strict=True):
        after = numbers(stats, own)
        results.append(
            Result(told.strip(), {name: after[name] - before[name] for name in after if after[name] != before[name]})
        )
        before = after
    return results


def wrong(case: Case, result: Result, sent: int, right: str | None = None) -> str:
    """The difference of a case from its outcome; empty if there is none. `right` is the verdict after the right reply."""
    edits, outcome, rising = case
    verdicts, times = OUTCOMES[outcome]
    verdicts = {right} if right is not None and outcome == TAKEN else verdicts
    # The verdict follows the name.
    told = result.told.rpartition(": ")[2]
    expected = dict.fromkeys(rising, 1)
    expected |= {"bad_replies": 1} if outcome == FAILS else {"connect_count": 1} if outcome == RESENT else {}
    if told in verdicts and sent == times and odd(result.risen) == expected:
        return ""
    return f"{edits}: {outcome}, {expected} expected: told '{told}', sent {sent} times, {odd(result.risen)}"


def judge(lines: list[str], cases: list[Case]) -> None:
    """Fails if a case came out otherwise."""
    otherwise = [line for line in lines if line]
    assert not otherwise, f"{len(otherwise)} of {len(cases)} cases:\n" + "\n".join(otherwise)


def group(pair: Pair, name: str) -> None:
    """Look-ups, each with another edit of the right reply."""
    cases, _ = GROUPS[name]
    with hostile(pair) as server:
        modes = [f"{'then-right' if outcome == DROPPED else 'edit'}:{edits}" for edits, outcome, _ in cases]
        names = [f"do-{mode}" for mode in modes]
        results = play(pair, server, [f"stat '{MOUNT_POINT}/{name}'" for name in names], 1.5 * len(cases) + 20)
        done = [event["mode"] for event in server.of("misbehaves")]
        assert done == modes, f"the peer did {done}"
        asked = [message["name"] for message in server.messages()]
        judge([wrong(*it) for it in zip(cases, results, map(asked.count, names), strict=True)], cases)


for (part, (its_cases, rows)), device in itertools.product(GROUPS.items(), DEVICES):
    test(
        f"{DEVICES[device]}{len(its_cases)} replies with another {{name}}",
        *rows,
        limit=240,
        device=device,
        allowed=(r"port \d+: ", STRONGER),
        cases=[{"name": part}],
    )(group)


def chunks(pair: Pair, procedure: str) -> None:
    """Calls that offer a chunk, each with another edit of the right reply."""
    command, right, cases, _ = CHUNKS[procedure]
    with hostile(pair, mount="nordirplus") as server:
        modes = [f"edit:{edits}" for edits, _, _ in cases]
        steps = [
            f"stat '{MOUNT_POINT}/arm-{mode}-at-{procedure}' >/dev/null 2>&1; echo 3 >/proc/sys/vm/drop_caches; {command}"
            for mode in modes
        ]
        results = play(pair, server, [f"sh -c {shlex.quote(step)}" for step in steps], 2.5 * len(cases) + 20)
        orders = server.of("misbehaves")
        assert [order["mode"] for order in orders] == modes, f"the peer did {orders}"
        xids = [message["xid"] for message in server.messages()]
        sent = [xids.count(order["xid"]) for order in orders]
        judge([wrong(*it, right) for it in zip(cases, results, sent, strict=True)], cases)
        assert counters(pair)["connect_count"] == 1, "the connection ended"


for (procedure, (_, _, its_cases, rows)), device in itertools.product(CHUNKS.items(), DEVICES):
    test(
        f"{DEVICES[device]}{len(its_cases)} replies to {{procedure}} with other chunks",
        *rows,
        limit=300,
        device=device,
        allowed=(r"port \d+: ",),
        cases=[{"procedure": procedure}],
    )(chunks)


@test(
    "replies changed at random",
    *("V1-139", "H-24"),
    limit=2400,
    device="rxe",
    # A reply may happen to ask for that.
    allowed=(r"port \d+: ", DEVICE, STRONGER),
)
def mutated(pair: Pair) -> None:
    """Calls of all shapes, each with a random wrong reply before the right one: each of them ends in some way, and calls
    after them succeed."""
    count = MUTATIONS * max(1, pair.options.rounds)
    # With any credits in a reply, the peer has Receives for all credits that the client requests.
    receives = ("--receives", "160", "--receive-size", "8192", "--credits", "64")
    options = ("--private-data", "f6ab0e1801010303", *receives, "--mutate", str(count))
    ways = dict.fromkeys(WAYS, 0)
    with peer(pair, *options) as server, loaded(pair) as load:
        load.open(f"port={server.port}")
        while not server.of("mutated"):
            outcome = load.one(f"run count={MUTATIONS} depth=64 call=20000 reply=20000 vary=1 verify=0", 800)
            ways = {name: ways[name] + outcome.counted.get(name, 0) for name in ways}
        print(f"# {len(server.of('established'))} connections; {ways}")
        assert all(ways.values()), f"not every way of being wrong was met: {ways}"
        load.one("run count=200 depth=16 call=500 reply=500").good()
        load.one("close").good()
    nothing_left(pair)


@test("a reply longer than the peer has said it would send", "PD-17", limit=60, device="rxe")
def longer(pair: Pair) -> None:
    """The peer's sizes limit the plans, never the Receives, which keep the size that the client has told."""
    with hostile(pair, "--private-data", "f6ab0e1801010000", mount="nordirplus") as server:
        (logged,) = server.connections()
        assert (logged.call, logged.reply) == (1024, 1024), logged
        # The call offers a Reply chunk, which a reply of this length would have to use.
        assert ABSENT in ask(pair, "arm-edit:pad~3800-at-READDIR")
        pair.client.run(f"echo 3 >/proc/sys/vm/drop_caches; ls {MOUNT_POINT}")
        assert len(server.of("misbehaves")) == 1, "the peer did not do it"
        after = counters(pair)
        assert after["connect_count"] == 1 and not after["bad_replies"], after


# Bytes in the Write chunk, count in the reply, bytes that the reader may get: words 21 to 23 of the reply to a READ are its
# count, the end of the file, and the length of the data.
COUNTED = [(32, 64), (64, 64), (128, 64), (64, 0), (0, 64)]


@test(
    "a READ of {count} bytes by its reply, {placed} by its chunk",
    *("V1-152", "V1-91", "H-23"),
    limit=60,
    device="rxe",
    allowed=(r"NFS: server cheating in read reply: count \d+ > recvd \d+",),
    cases=[{"placed": placed, "count": count} for placed, count in COUNTED],
)
def counted(pair: Pair, placed: int, count: int) -> None:
    """The reader gets no more than both say. The transport hands on the length placed; NFS compares it with the count."""
    with hostile(pair):
        edits = f"pad~12,8={placed:x},19=0.0.{count:x}.1.{count:x}"
        done = pair.client.run(f"stat '{MOUNT_POINT}/arm-edit:{edits}-at-READ'", check=False)
        assert ABSENT in done.out, done
        before = counters(pair)
        read = f"dd if={MOUNT_POINT}/file of=/tmp/counted bs=64K count=1 iflag=direct status=none"
        pair.client.run(f"timeout -s KILL 60 {read} || true")
        got = int(pair.client.run("stat -c %s /tmp/counted; rm /tmp/counted").out)
        after = counters(pair)
        assert got == min(placed, count), f"the reader got {got} bytes"
        assert after["reply_bytes"] - before["reply_bytes"] == placed, "the transport has taken another length"
        assert after["bad_replies"] == before["bad_replies"] and after["connect_count"] == 1, after
