# SPDX-License-Identifier: GPL-2.0
"""Messages of version 2 that a peer in user space sends to either end: what each end takes from them, and its exact answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.connecting import PROVOKED
from guests.lib.live import request as request_change
from guests.lib.peer import peer
from guests.lib.requester import MEANWHILE, carried_out, null
from guests.lib.rules import rule
from guests.lib.sight import details, served
from guests.lib.steady import Writer
from guests.peer import wire
from guests.peer.wire import words

NFS, SYMLINK = 100003, 10
# Private data: sizes of 4096 bytes.
GOOD = "f6ab0e1801010303"
# The sizes before anything is announced, and of the Send buffers of the end under test.
BEFORE, LONGEST = 4096, 16384
RULE = {"version": "auto", "inline_send": LONGEST}

ERRORS = {wire.ERR_VERS: "ERR_VERS", wire.ERR_CHUNK: "BAD_HEADER", wire.INVAL_OPTION: "INVAL_OPTION"}
OPERATIONS = {wire.INITXCH: "INITXCH", wire.REQXCH: "REQXCH", wire.RESPXCH: "RESPXCH", wire.UPDXCH: "UPDXCH"}


def call(xid: int = 0x1001, **changes: object) -> bytes:
    """A call of version 2 that does nothing."""
    return wire.msg(xid, 32, wire.rpc_call(xid, NFS, 3, 0), **{"vers": 2, "direction": wire.CALL, **changes})


def reply(xid: int, direction: int) -> bytes:
    """A reply to no call."""
    return wire.msg(xid, 32, wire.rpc_reply(xid), vers=2, direction=direction)


def kind(header: dict[str, object]) -> str:
    """A message in a few words."""
    if header["proc"] == wire.RDMA_ERROR:
        return ERRORS[header["error"]]
    if header["proc"] == wire.RDMA2_OPTIONAL:
        return OPERATIONS[header["operation"]] + (f" {header['info']}" if header["operation"] == wire.RESPXCH else "")
    return f"version {header['vers']}"


def entry(number: int, value: bytes) -> bytes:
    """A characteristic with a value of any length."""
    return words(number, len(value)) + value + bytes(-len(value) % 4)


def size(value: int) -> bytes:
    """The size of the Receives."""
    return entry(wire.RBSIZ, words(value))


@dataclass(frozen=True)
class Announced:
    """An INITXCH: its entries, what stands behind them, and what becomes of it."""

    what: str
    rows: tuple[str, ...]
    entries: tuple[bytes, ...]
    size: int = BEFORE  # of the longest message then
    counted: int = 0  # as odd
    is_defective: bool = False
    nochg: bytes = words(0)
    behind: bytes = b""  # the operation's information
    direction: int = wire.CALL

    def message(self, xid: int) -> bytes:
        """The operation."""
        info = words(len(self.entries)) + b"".join(self.entries) + self.nochg
        return wire.optional(xid, 32, self.direction, wire.INITXCH, info, self.behind)


ANNOUNCED = [
    Announced("nothing", ("XC-14", "XC-21"), ()),
    Announced("8192", ("XC-68", "XC-103"), (size(8192),), 8192),
    Announced("0", ("XC-75",), (size(0),), counted=1),
    Announced("1023", ("XC-75",), (size(1023),), counted=1),
    Announced("1024", ("XC-75",), (size(1024),), 1024),
    Announced("4097", ("XC-75",), (size(4097),), 4096),
    Announced("0xffffffff", ("XC-28", "XC-75", "XC-103"), (size(0xFFFFFFFF),), LONGEST),
    Announced("two sizes", ("XC-13",), (size(8192), size(8192)), counted=1),
    Announced(
        "450 unknown ones, and a size",
        ("XC-9", "XC-12", "XC-26", "XC-46", "XC-87"),
        (*(entry(number, b"") for number in range(100, 550)), size(8192)),
        8192,
    ),
    Announced("an experimental one, and a size", ("XC-27",), (entry(0xFFFFFF00, b"any"), size(8192)), 8192),
    Announced("as unchanging what is not there", ("XC-18",), (size(8192),), 8192, 1, nochg=words(2, 2, 1)),
    Announced("in reply", ("XC-35",), (size(8192),), 8192, 1, direction=wire.REPLY),
    Announced("bytes behind it", ("XC-11",), (size(8192),), 8192, 1, behind=words(1)),
    Announced(
        "a size, and neither true nor false",
        ("XC-5", "XC-8", "XC-10"),
        (size(8192), entry(wire.REQREMINV, words(2))),
        is_defective=True,
    ),
    Announced("a size of three bytes", ("XC-6",), (entry(wire.RBSIZ, bytes(3)),), is_defective=True),
    Announced("a size of eight bytes", ("XC-7",), (entry(wire.RBSIZ, words(0, 8192)),), is_defective=True),
    Announced("bytes behind the entries", ("XC-11",), (size(8192),), nochg=words(0, 0), is_defective=True),
    Announced(
        "a value beyond its end",
        ("XC-3", "XC-4"),
        (size(8192), words(wire.RBSIZ, 4)),
        nochg=b"",
        behind=words(8192, 0),
        is_defective=True,
    ),
]


@test(
    "a client announces: {what}",
    *sorted({row for each in ANNOUNCED for row in each.rows}),
    server="ours",
    cases=[{"what": each.what, "announced": each} for each in ANNOUNCED],
)
def to_server(pair: Pair, what: str, announced: Announced) -> None:
    """The longest replies then; the server announces itself in return, or returns BAD_HEADER and changes nothing."""
    exchanges = [[call()], [announced.message(0x2001), call(0x3001)], [call(0x4001)]]
    order = {
        "private_data": GOOD,
        "exchanges": [*([message.hex() for message in sent] for sent in exchanges), MEANWHILE],
    }
    seen: list[dict[str, str]] = []

    def look() -> None:
        is_served = "grep -qx 'calls 3' /sys/kernel/debug/rpcrdma_rs/svc-*"
        wait_until(lambda: pair.server.run(is_served, check=False).rc == 0, "not served", 20 * pair.options.slowness)
        seen.extend(served(pair.server))

    with rule(pair.server, "two", side="server", peer=CLIENT.ipv4, **RULE):
        (found,) = carried_out(pair, order, until=look)
    assert "failed" not in found, (what, found)
    replies = [wire.decode(bytes.fromhex(reply))[0] for exchange in found["exchanges"] for reply in exchange]
    answer = "BAD_HEADER" if announced.is_defective else "INITXCH"
    assert sorted(map(kind, replies)) == [answer, *["version 2"] * 3], (what, replies)
    if announced.is_defective:
        assert [r["xid"] for r in replies if kind(r) == answer] == [0x2001], (what, replies)
    (shown,) = seen
    assert (int(shown["inline_reply"].split()[0]), int(shown["odd_operations"])) == (
        announced.size,
        announced.counted,
    ), (what, shown)


@test(
    "a server announces: {what}",
    *sorted({row for each in ANNOUNCED for row in each.rows}),
    device="rxe",
    allowed=PROVOKED,
    cases=[{"what": each.what, "announced": each} for each in ANNOUNCED],
)
def to_client(pair: Pair, what: str, announced: Announced) -> None:
    """The longest calls then; the client returns BAD_HEADER for a defective one, and changes nothing."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, **RULE)
    with client, peer(pair, "--private-data", GOOD, "--operations", "respond") as server, server.mounted():
        before = details(pair.client, server.port)
        assert (before["inline_call"].split()[0], before["odd_operations"]) == (str(BEFORE), "0"), before
        got = server.told([announced.message(0x70000001)], "behind")
        after = details(pair.client, server.port)
        errors = [(m["xid"], kind(m)) for m in got if m["proc"] == wire.RDMA_ERROR]
        assert errors == ([(0x70000001, "BAD_HEADER")] if announced.is_defective else []), (what, got)
        assert (int(after["inline_call"].split()[0]), int(after["odd_operations"])) == (
            announced.size,
            announced.counted,
        ), (what, after)


@dataclass(frozen=True)
class Spoken:
    """Messages to the server, sent together or one group after the other, and the kinds of its messages."""

    what: str
    rows: tuple[str, ...]
    exchanges: list[list[bytes]]
    replies: list[str]
    settings: dict[str, object] = field(default_factory=dict)


def request(xid: int, value: int) -> bytes:
    """A REQXCH for a size."""
    return wire.optional(xid, 32, wire.CALL, wire.REQXCH, wire.characteristics((wire.RBSIZ, value)))


def response(*subsets: int) -> str:
    """The kind of a RESPXCH with these subsets: what is done, rejected and pending."""
    return f"RESPXCH {words(*subsets).hex()}"


SPOKEN = [
    Spoken(
        "an announcement first",
        ("V2-68", "V2-72", "XC-38"),
        [[Announced("", (), (size(8192),)).message(0x2001), call()], [call(0x3001)]],
        ["INITXCH", "version 2", "version 2"],
    ),
    Spoken(
        "the first messages of both versions at once",
        ("V2-17", "V2-18", "V2-68"),
        [[call(), null(0x2001)], [call(0x3001)]],
        ["ERR_VERS", "version 2", "version 2"],
    ),
    Spoken(
        "a reply under the word for calls",
        ("V2-33", "V2-64"),
        [[call()], [reply(0x2001, wire.CALL)]],
        ["BAD_HEADER", "version 2"],
    ),
    Spoken(
        "a reply to no call",
        ("V2-34", "V2-64"),
        [[call()], [reply(0x2001, wire.REPLY), call(0x3001)]],
        ["version 2", "version 2"],
    ),
    Spoken(
        "two requests to grow at once",
        ("XC-57", "XC-92", "XC-105"),
        [[call()], [request(0x2001, 8192), request(0x2002, 16384)]],
        [response(0, 0, 1, 1), response(0, 1, 1, 0), "version 2"],
        {"inline_max": LONGEST},
    ),
    Spoken(
        "a request to shrink below the default",
        ("XC-93",),
        [[call()], [request(0x2001, 2048)]],
        [response(0, 1, 1, 0), "version 2"],
        {"inline_max": LONGEST},
    ),
    Spoken(
        "a request for more than a rule allows",
        ("XC-23", "XC-91", "XC-92"),
        [[call()], [request(0x2001, 0xFFFFFFFF)]],
        [response(0, 1, 1, 0), "version 2"],
        {"inline_max": LONGEST},
    ),
    Spoken(
        "a response to no request, and an update of nothing",
        ("XC-56", "XC-66"),
        [
            [call()],
            [
                wire.optional(0x2001, 32, wire.REPLY, wire.RESPXCH, words(0, 0, 0)),
                wire.optional(0x2002, 32, wire.CALL, wire.UPDXCH, entry(999, words(1)) + words(0)),
                call(0x3001),
            ],
        ],
        ["version 2", "version 2"],
    ),
]


@test(
    "a client says: {what}",
    *sorted({row for each in SPOKEN for row in each.rows}),
    server="ours",
    cases=[{"what": each.what, "spoken": each} for each in SPOKEN],
)
def said(pair: Pair, what: str, spoken: Spoken) -> None:
    """Exactly these messages return."""
    settings = {**RULE, **spoken.settings}
    with rule(pair.server, "two", side="server", peer=CLIENT.ipv4, **settings):
        order = {"private_data": GOOD, "exchanges": [[m.hex() for m in sent] for sent in spoken.exchanges]}
        (found,) = carried_out(pair, order)
    assert "failed" not in found, (what, found)
    got = [wire.decode(bytes.fromhex(reply))[0] for exchange in found["exchanges"] for reply in exchange]
    assert sorted(map(kind, got)) == spoken.replies, (what, got)


@test("a request in every second message", "XC-53", "XC-105", "V2-59", server="ours", limit=120)
def every_second(pair: Pair) -> None:
    """Each has its response, each call its reply, and the records of a mount beside them are whole."""
    count, sizes = 200, (8192, LONGEST, BEFORE)
    pairs = [[request(0x2001 + 2 * n, sizes[n % 3]), call(0x2002 + 2 * n)] for n in range(count)]
    pair.mount("3")
    writer = Writer(pair)
    with rule(pair.server, "two", side="server", peer=CLIENT.ipv4, **RULE, inline_max=LONGEST):
        order = {
            "private_data": GOOD,
            "exchanges": [[m.hex() for m in sent] for sent in [[call()], *pairs, [call(0x1002)]]],
        }
        (found,) = carried_out(pair, order)
    writer.finish()
    pair.umount()
    assert "failed" not in found, found
    kinds = Counter(kind(wire.decode(bytes.fromhex(reply))[0]) for replies in found["exchanges"] for reply in replies)
    print(f"# {dict(kinds)}")
    assert kinds.pop("version 2") == count + 2, kinds
    assert kinds.total() == count and all(word.startswith("RESPXCH ") for word in kinds), kinds


@dataclass(frozen=True)
class Heard:
    """Messages of the server in use, and what the client returns."""

    what: str
    rows: tuple[str, ...]
    messages: list[bytes]
    returned: tuple[str, ...] = ()
    counted: str = "odd_operations"  # "" if it is not
    settings: dict[str, object] = field(default_factory=dict)


UNKNOWN = wire.optional(0x70000001, 32, wire.CALL, 99)
HEARD = [
    Heard("an unknown operation", ("V2-45", "XC-30"), [UNKNOWN], ("INVAL_OPTION",), ""),
    Heard(
        "an unknown operation in reply", ("V2-48",), [wire.optional(0x70000001, 32, wire.REPLY, 99)], (), "malformed"
    ),
    Heard(
        "an unknown operation longer than its message",
        ("V2-47",),
        [UNKNOWN[:24] + words(4096)],
        ("BAD_HEADER",),
        counted=0,
    ),
    Heard(
        "a call with a chunk list",
        ("V2-53", "V2-64"),
        [
            wire.msg(
                0x70000001,
                1,
                wire.rpc_call(0x70000001, 0x40000000, 1, 0),
                vers=2,
                direction=wire.CALL,
                chunks=wire.lists(read=[(0, 0xDEAD, 64, 0x10000)]),
            )
        ],
        ("BAD_HEADER",),
        "",
    ),
    Heard(
        "two announcements, the second of more",
        ("XC-45", "XC-74"),
        [Announced("", (), (size(value),)).message(0x70000000 + value) for value in (8192, LONGEST)],
    ),
    Heard(
        "a request with 33 entries",
        ("XC-15", "XC-16", "XC-49"),
        [
            wire.optional(
                0x70000001,
                32,
                wire.CALL,
                wire.REQXCH,
                words(33) + b"".join(entry(number, b"") for number in range(100, 132)) + size(2048),
            )
        ],
        (response(0, 2, 0xFFFFFFFF, 1, 0),),
        "",
    ),
    Heard(
        "two requests to grow at once",
        ("XC-57", "XC-92", "XC-105"),
        [request(0x70000001, 8192), request(0x70000002, 16384)],
        (response(0, 0, 1, 1), response(0, 1, 1, 0)),
        "",
        {"inline_max": LONGEST},
    ),
    Heard("a request for 2048 bytes", ("XC-93",), [request(0x70000001, 2048)], (response(0, 1, 1, 0),), ""),
    Heard(
        "a request for more than its rule", ("XC-92",), [request(0x70000001, 0xFFFFFFFF)], (response(0, 1, 1, 0),), ""
    ),
    Heard(
        "a response to no request",
        ("XC-56",),
        [wire.optional(0x70000001, 32, wire.REPLY, wire.RESPXCH, words(0, 0, 0))],
    ),
    Heard(
        "a size that shrinks unasked",
        ("XC-74",),
        [wire.optional(0x70000001, 32, wire.CALL, wire.UPDXCH, size(1024) + words(0))],
    ),
    Heard(
        "an update of nothing",
        ("XC-66",),
        [wire.optional(0x70000001, 32, wire.CALL, wire.UPDXCH, entry(999, words(1)) + words(0))],
        (),
        "",
    ),
    Heard(
        "an update that is neither pending nor not",
        ("XC-66",),
        [wire.optional(0x70000001, 32, wire.CALL, wire.UPDXCH, size(8192) + words(2))],
        ("BAD_HEADER",),
        "",
    ),
]


@test(
    "a server says: {what}",
    *sorted({row for each in HEARD for row in each.rows}),
    device="rxe",
    allowed=PROVOKED,
    cases=[{"what": each.what, "heard": each} for each in HEARD],
)
def heard(pair: Pair, what: str, heard: Heard) -> None:
    """The client returns exactly this, counts what it drops, and calls go on over the same connection."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, **RULE, **heard.settings)
    with client, peer(pair, "--private-data", GOOD, "--operations", "respond") as server, server.mounted():
        got = server.told(heard.messages, "behind")
        returned = tuple(kind(m) for m in got if m["proc"] in (wire.RDMA_ERROR, wire.RDMA2_OPTIONAL))
        assert returned == heard.returned, (what, got)
        shown = details(pair.client, server.port)
        counts = {name: shown[name] for name in ("odd_operations", "malformed") if shown[name] != "0"}
        assert counts == ({heard.counted: "1"} if heard.counted else {}), (what, shown)
        assert len(server.of("established")) == 1, server.of("established")


@test("a response under the xid of a call", "XC-56", device="rxe", allowed=PROVOKED)
def mistaken(pair: Pair) -> None:
    """It is dropped and counted, and the call has its reply when that comes."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, **RULE)
    with client, peer(pair, "--private-data", GOOD, "--operations", "respond") as server, server.mounted():
        waiting = pair.client.spawn(f"stat {MOUNT_POINT}/do-keep 2>&1 || true")
        xid = server.wait(lambda event: event.get("name") == "do-keep", "the call")["xid"]
        server.told([respond(xid, 0, 0, 0)], "behind")
        assert details(pair.client, server.port)["odd_operations"] == "1" and not waiting.text, waiting.text
        server.let_go()
        assert "No such file" in pair.client.finish(waiting, "the call", 20).out
        assert len(server.lookups("do-keep")) == len(server.of("established")) == 1


@test("a flood of unknown operations of a server", "V2-75", device="rxe", allowed=PROVOKED, limit=120)
def flood(pair: Pair) -> None:
    """It gets an error for some of 1,000; the others are counted, and calls go on."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, **RULE)
    with client, peer(pair, "--private-data", GOOD, "--operations", "respond") as server, server.mounted():
        # As many at a time as the client has Receives for.
        for turn in range(125):
            server.order("send", messages=[UNKNOWN.hex()], count=8)
            if turn % 25 == 24:
                server.told([], f"behind-{turn}")
        errors = sum(message["proc"] == wire.RDMA_ERROR for message in server.messages())
        dropped = int(details(pair.client, server.port)["odd_operations"])
        print(f"# {errors} got an error, {dropped} were dropped")
        assert errors + dropped == 1000 and errors > 0, (errors, dropped)
        assert len(server.of("established")) == 1


@test(
    "{count} sizes of a server, one after the other",
    *("XC-28", "XC-60", "XC-101"),
    device="rxe",
    allowed=PROVOKED,
    limit=600,
    cases=[{"count": 400}],
)
def fickle(pair: Pair, count: int) -> None:
    """Each counts at once, and none keeps memory. --rounds 500 has 100,000."""
    count = count * max(2, pair.options.rounds) // 2
    updates = [
        wire.optional(0x70000001 + value, 32, wire.CALL, wire.UPDXCH, size(value) + words(0))
        for value in (LONGEST, 8192)
    ]
    client = rule(pair.client, "two", peer=SERVER.ipv4, **RULE)
    with client, peer(pair, "--private-data", GOOD, "--operations", "respond") as server, server.mounted():
        server.told(updates, "first")
        before = details(pair.client, server.port)["memory"]
        # A few at a time, for which the client has Receives.
        for turn in range(count // 8):
            server.order("send", messages=[message.hex() for message in updates], count=4)
            if turn % 1000 == 999:
                # The client would end a connection without calls.
                pair.client.run(f"ls {MOUNT_POINT}")
        for last, others in ((8192, updates), (LONGEST, updates[::-1])):
            server.told(others, f"behind-{last}")
            shown = details(pair.client, server.port)
            assert shown["inline_call"].split()[0] == str(last), shown
        assert shown["memory"] == before, (before, shown)
        assert len(server.of("established")) == 1, server.of("established")


@test(
    "a server shrinks unasked during {count} calls",
    "XC-70",
    "XC-101",
    device="rxe",
    allowed=PROVOKED,
    cases=[{"count": 16}],
)
def shrinks(pair: Pair, count: int) -> None:
    """It is counted; the calls have their replies, and longer ones are read from the client's memory from then on."""
    link = f"ln -s {'x' * 4090} {MOUNT_POINT}/link 2>&1 || true"
    client = rule(pair.client, "two", peer=SERVER.ipv4, **RULE)
    options = ("--private-data", GOOD, "--operations", str(LONGEST), "--credits", str(2 * count))
    with client, peer(pair, *options) as server, server.mounted():
        assert details(pair.client, server.port)["inline_call"].startswith(f"{LONGEST} ")
        pair.client.run(link)
        calls = [pair.client.spawn(f"stat {MOUNT_POINT}/do-keep.{number} 2>&1 || true") for number in range(count)]
        for number in range(count):
            server.wait(lambda event, name=f"do-keep.{number}": event.get("name") == name, "a call")
        server.told([wire.optional(0x70000001, 32, wire.CALL, wire.UPDXCH, size(BEFORE) + words(0))], "smaller")
        shown = details(pair.client, server.port)
        assert shown["inline_call"].startswith(f"{BEFORE} ") and shown["odd_operations"] == "1", shown
        assert server.order("step")["count"] == count
        for waiting in calls:
            assert "No such file" in pair.client.finish(waiting, "a call", 20).out
        pair.client.run(link)
        before, after = [message for message in server.messages() if (message["rpc"] or {}).get("proc") == SYMLINK]
        assert before["length"] > BEFORE and not before["read"], before
        assert after["length"] <= BEFORE and after["read"], after
        assert len(server.of("established")) == 1


OPTIONAL = wire.RDMA2_OPTIONAL


def respond(xid: int, *subsets: int) -> bytes:
    """A RESPXCH."""
    return wire.optional(xid, 32, wire.REPLY, wire.RESPXCH, words(*subsets))


@dataclass(frozen=True)
class Response:
    """What a server returns to a request for Receives of `LONGEST` bytes, and the longest calls then."""

    what: str
    rows: tuple[str, ...]
    subsets: tuple[int, ...]  # of done, rejected and pending entries
    size: int = 8192
    counter: str = ""
    is_pending: bool = False


RESPONSES = [
    Response("done", ("XC-50",), (1, 1, 0, 0), LONGEST),
    Response("rejected", ("XC-51",), (0, 1, 1, 0)),
    Response("pending", ("XC-52", "XC-67"), (0, 0, 1, 1), is_pending=True),
    Response("done and rejected", ("XC-53", "XC-54"), (1, 1, 1, 1, 0), counter="odd_operations"),
    Response("nothing", ("XC-53", "XC-55"), (0, 0, 0), counter="odd_operations"),
    Response("what cannot be decoded", ("XC-56",), (5, 1), counter="malformed"),
    Response("done, and an entry that is not there", ("XC-17", "XC-18"), (2, 1, 4, 0, 0), LONGEST, "odd_operations"),
]


@test(
    "a server responds: {what}",
    *sorted({row for each in RESPONSES for row in each.rows}),
    "XC-57",
    device="rxe",
    allowed=PROVOKED,
    cases=[{"what": each.what, "response": each} for each in RESPONSES],
)
def responded(pair: Pair, what: str, response: Response) -> None:
    """The calls are as long as the server has promised to take, and no longer."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, inline_max=LONGEST, **RULE)

    def requests() -> list[int]:
        return [m["xid"] for m in server.messages() if m["proc"] == OPTIONAL and m["operation"] == wire.REQXCH]

    with client, peer(pair, "--private-data", GOOD, "--operations", "ignore") as server, server.mounted():
        (first,) = requests()
        server.told([Announced("", (), (size(8192),)).message(0x70000001), respond(first, 0, 0, 0)], "begun")
        request_change(pair.client, f"peer-receive-size={LONGEST}")
        server.told([], "requested")
        first, second = requests()
        server.told([respond(second, *response.subsets)], "responded")
        shown = details(pair.client, server.port)
        counts = {name: shown[name] for name in ("odd_operations", "malformed") if shown[name] != "0"}
        assert shown["inline_call"].split()[0] == str(response.size), (what, shown)
        assert counts == ({response.counter: "1"} if response.counter else {}), (what, shown)
        assert ("requested" in shown["peer_receive_size"]) == response.is_pending, (what, shown)
        if not response.is_pending:
            request_change(pair.client, f"peer-receive-size={LONGEST}")
            server.told([], "again")
            assert len(requests()) == 3, "its place is taken"
        assert len(server.of("established")) == 1, server.of("established")


@test("version 1 for a call in use", "V2-67", "V2-71", "V2-73", device="rxe", allowed=PROVOKED)
def changed_mind(pair: Pair) -> None:
    """The server refuses version 2 after all: the connection ends, and all calls are made again in version 1."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, version="auto")
    with client, peer(pair, "--private-data", GOOD) as server, server.mounted():
        assert details(pair.client, server.port)["protocol"] == "2 (of auto)"
        pair.client.run(f"ls {MOUNT_POINT}/do-range-1-1 2>&1 || true")
        assert details(pair.client, server.port)["protocol"] == "1 (of auto)"
        first, again, *_ = server.lookups("do-range-1-1")
        assert (first["vers"], again["vers"]) == (2, 1) and first["xid"] == again["xid"], (first, again)
        assert len(server.of("established")) == 2


@test(
    "odd replies of version 2: {what}",
    "V2-18",
    "V2-33",
    "V2-64",
    device="rxe",
    allowed=PROVOKED,
    cases=[
        {"what": "of version 1 first", "name": "do-then-right:1=1", "works": True},
        {"what": "a call in place of the reply", "name": "do-edit:9=0", "works": False},
    ],
)
def odd_replies(pair: Pair, what: str, name: str, works: bool) -> None:
    """One of another version is dropped; one with a call in it ends its call with an I/O error. The connection stays."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, version="auto")
    with client, peer(pair, "--private-data", GOOD) as server, server.mounted():
        done = pair.client.run(f"stat {MOUNT_POINT}/{name} 2>&1", check=False)
        assert ("Input/output error" in done.out) != works, (what, done)
        pair.client.run(f"ls {MOUNT_POINT}")
        assert len(server.of("established")) == 1
