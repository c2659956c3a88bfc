# SPDX-License-Identifier: GPL-2.0
"""Version 2 of the protocol: offered and served where a rule says so, and version 1 with every other end.

The version of a connection stands in its file, and in each message that the peer of the tests receives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair, wait_until
from guests.harness.registry import Skip, test
from guests.lib import files, recall
from guests.lib.capture import capturing
from guests.lib.connecting import PROVOKED
from guests.lib.messages import Message, messages
from guests.lib.nfsd import PORTLIST, RESTART
from guests.lib.peer import Peer, peer
from guests.lib.requester import MEANWHILE, TAKES, carried_out, export_file, null, read_of, segment
from guests.lib.rules import Rule, rule
from guests.lib.sight import details, served
from guests.lib.sight import ends as ends_of
from guests.peer import wire
from guests.peer.wire import words

AUTO, TWO = "auto", "2"
GOOD = "f6ab0e1801010303"


def client_rule(pair: Pair, version: str) -> AbstractContextManager[Rule]:
    """A rule of the client for all servers of these tests."""
    return rule(pair.client, "two", peer=SERVER.ipv4, version=version)


def server_rule(pair: Pair, version: str) -> AbstractContextManager[Rule]:
    """A rule of the server for all clients of these tests."""
    return rule(pair.server, "two", side="server", peer=CLIENT.ipv4, version=version)


@contextmanager
def ends(pair: Pair, version: str = AUTO) -> Iterator[None]:
    """Both ends of ours may speak version 2 for the block."""
    with client_rule(pair, version), server_rule(pair, version):
        yield


@test(
    "both ends over iWARP, vers={vers}",
    *("V2-1", "V2-6", "V2-31", "V1-142"),
    server="ours",
    device="siw",
    cases=[{"vers": "3"}, {"vers": "4.2"}],
    limit=90,
)
@test(
    "both ends, vers={vers}",
    *("V2-1", "V2-2", "V2-3", "V2-6", "V2-7", "V2-8", "V2-31", "V2-35", "V2-54", "V2-72"),
    server="ours",
    cases=[{"vers": "3"}, {"vers": "4.2"}],
    limit=90,
)
def both(pair: Pair, vers: str) -> None:
    """Files of every size go both ways in version 2; the next connection, without a rule, is of version 1."""
    with ends(pair):
        pair.mount(vers)
        assert details(pair.client, NFS_PORT)["protocol"] == "2 (of auto)"
        assert [shown["protocol"] for shown in served(pair.server)] == ["2 (of auto)"]
        pair.umount()
        files.every_size(pair, vers)
    pair.mount(vers)
    assert details(pair.client, NFS_PORT)["protocol"] == "1 (of 1)"
    pair.umount()


@test(
    "all messages as the dissector shows them, vers={vers}",
    *("V2-1", "V2-2", "V2-31", "V2-35", "V2-54"),
    server="ours",
    device="rxe",
    cases=[{"vers": "3"}, {"vers": "4.2"}],
    limit=90,
)
def dissected(pair: Pair, vers: str) -> None:
    """A dissector that shares nothing with our decoder finds no fault in any message of a mount, data and listings."""
    with ends(pair), capturing(pair.client, f"version-2-{vers}") as capture:
        pair.mount(vers)
        pair.client.run(
            f"cd {MOUNT_POINT}; mkdir many; for n in $(seq 60); do head -c $((n * n * 20)) /dev/urandom >many/$n; done;"
            f"cat many/* >/tmp/all; ls -l many >/dev/null; rm -r many",
            60,
        )
        pair.umount()
    found = messages(capture)
    assert len(found) >= 300, found
    # The program of the mount, if any, goes over TCP.
    assert {message.version for message in found} == {"2"}, found
    assert not [message for message in found if message.note], found
    assert {"INITXCH", "REQXCH", "RESPXCH"} <= {message.operation for message in found}
    kinds = {message.proc for message in found}
    print(f"# {len(found)} messages, of types {' '.join(sorted(kinds))}")


@test("delegations are recalled", "V2-52", "V2-53", "V2-74", server="ours", limit=120)
def recalls(pair: Pair) -> None:
    """The server calls the client in version 2, and gets its reply."""
    with ends(pair):
        recall.recall(pair)


@contextmanager
def first_messages(pair: Pair, what: str, offers_sent: int) -> Iterator[None]:
    """The messages of the block begin with so many offers of version 2, as a capture shows over soft-RoCE."""
    if pair.options.device != "rxe":
        yield
        return
    with capturing(pair.client, what) as capture:
        yield
    first_contact(messages(capture), offers_sent)


def write(pair: Pair) -> None:
    """A file is written and read over the mount."""
    pair.client.run(f"echo right >{MOUNT_POINT}/version; grep -qx right {MOUNT_POINT}/version", 60)


@test("the in-tree server", "V2-9", "V2-10", "V2-12", "V2-13", "V2-71", server="in-tree", limit=120)
def in_tree_server(pair: Pair) -> None:
    """It refuses version 2: version 1 on the same connection, and no offer on the next ones, until the rule is written."""
    with client_rule(pair, AUTO) as two:
        for what, offers_sent in (("contact", 1), ("memory", 0), ("forgotten", 1)):
            if what == "forgotten":
                two.set(version=AUTO)
            with first_messages(pair, f"in-tree-server-{what}", offers_sent):
                pair.mount("4.2")
                assert details(pair.client, NFS_PORT)["protocol"] == "1 (of auto)"
                write(pair)
                pair.umount()
        pair.mount("3")
        with first_messages(pair, "in-tree-server-reconnect", 0):
            pair.server.run(RESTART, 60)
            write(pair)
        assert details(pair.client, NFS_PORT)["protocol"] == "1 (of auto)"
        assert ends_of(pair.client, NFS_PORT), "no connection has ended"
        pair.umount()


def first_contact(found: list[Message], offers_sent: int) -> None:
    """A NULL of version 2 and its refusal come first, where one is offered; all else is of version 1."""
    offered, rest = found[: 2 * offers_sent], found[2 * offers_sent :]
    if offered:
        call, refusal = offered
        assert (call.source, call.version, call.proc) == (CLIENT.ipv4, "2", "0"), call
        assert (refusal.source, refusal.xid, refusal.proc, refusal.err) == (SERVER.ipv4, call.xid, "4", "1"), refusal
    assert rest and {message.version for message in rest} == {"1"}, rest


@test("the memory of a suspicion expires", "V2-9", "V2-14", "V2-71", server="in-tree", allowed=PROVOKED, limit=900)
def suspicion_expires(pair: Pair) -> None:
    """Two lost offers count for ten minutes, also for the server that has the port by then. Waits with --rounds 40."""
    if pair.options.rounds < 40:
        raise Skip("waits ten minutes")

    def known() -> str:
        return details(pair.client, lost.port).get("version_1", "nothing")

    with client_rule(pair, AUTO):
        with peer(pair, "--private-data", GOOD, "--first-of-each", "disconnect,disconnect,right") as lost:
            with lost.mounted():
                assert re.fullmatch(r"suspected, for \d+ s", known()), known()
                assert [message["vers"] for message in lost.messages()][:3] == [2, 2, 1], lost.messages()
        pair.server.run(f"echo 'rdma {lost.port}' >{PORTLIST}")
        for what, offers_sent, then in (("suspected", 0, "suspected"), ("expired", 1, "refused")):
            with first_messages(pair, f"in-tree-server-{what}", offers_sent):
                pair.mount("4.2", f"port={lost.port}")
                assert details(pair.client, lost.port)["protocol"] == "1 (of auto)"
                write(pair)
            assert known().startswith(then), known()
            if what == "suspected":
                wait_until(lambda: known() == "nothing", "the suspicion does not expire", 660, 2)
            pair.umount()
        pair.server.run(RESTART, 60)


@test("the in-tree client", "V2-19", "V2-20", client="in-tree", server="ours", limit=120)
def in_tree_client(pair: Pair) -> None:
    """It is served in version 1 by a server that may speak version 2, on each connection."""
    with server_rule(pair, AUTO):
        with first_messages(pair, "in-tree-client", 0):
            pair.mount("3")
            assert [shown["protocol"] for shown in served(pair.server)] == ["1 (of auto)"]
            write(pair)
        with first_messages(pair, "in-tree-client-reconnect", 0):
            pair.server.run(RESTART, 60)
            write(pair)
        assert [shown["protocol"] for shown in served(pair.server)] == ["1 (of auto)"]
        pair.umount()


@test("version 2 alone, of an in-tree server", "V2-11", "V2-62", server="in-tree", allowed=PROVOKED, limit=60)
def in_tree_refuses(pair: Pair) -> None:
    """The mount fails, as that without a device, and the log names the reason."""
    with client_rule(pair, TWO):
        failed = pair.client.run(
            f"timeout 20 mount -t nfs -o vers=4.2,proto=rdma {SERVER.ipv4}:/ {MOUNT_POINT}", check=False
        )
        assert failed.rc not in (0, 124), failed
        assert "no version of the protocol in common" in pair.client.run("dmesg").out


# The answer to the first message, the requirements, the version that follows, and the number of connections.
ANSWERS = [
    ("right", ("V2-7", "V2-22"), "2", 1),
    ("denied", ("V2-65",), "2", 1),
    ("twice", ("V2-5",), "2", 1),
    ("range-cut", ("V2-50",), "2", 1),
    ("error-4-other", ("V2-69",), "2", 1),
    ("range-1-1", ("V2-9", "V2-10", "V2-12"), "1", 1),
    ("range-1-1-own-word", ("V2-13",), "1", 1),
    ("range-1-2", ("V2-66",), "1", 1),
    ("badheader", ("V2-16",), "1", 1),
    ("reply-1", ("V2-16",), "1", 1),
    ("error-4", ("V2-16", "V2-69"), "1", 2),
    ("refuse-disconnect", ("V2-14",), "1", 2),
    ("disconnect", ("V2-15", "V2-71"), "2", 2),
]

for mode, rows, version, connections in ANSWERS:

    @test(
        "the first answer: {mode}",
        *rows,
        "V2-4",
        allowed=PROVOKED,
        limit=90,
        cases=[{"mode": mode, "version": version, "connections": connections}],
    )
    def answered(pair: Pair, mode: str, version: str, connections: int) -> None:
        """Exactly this version follows, and no call was sent before it was known."""
        with client_rule(pair, AUTO), peer(pair, "--private-data", GOOD, "--first", mode) as server:
            with server.mounted():
                assert details(pair.client, server.port)["protocol"] == f"{version} (of auto)"
                pair.client.run(f"ls {MOUNT_POINT}")
            assert len(server.of("established")) == connections
            keeps(server, version)
            if version == "1":
                # V2-71: it is remembered, until the rule is written.
                with server.mounted():
                    remembered = details(pair.client, server.port)["version_1"]
                    cause = "answered" if mode == "reply-1" else "refused"
                    assert re.fullmatch(rf"{cause}, for \d+ s", remembered), remembered
                assert server.messages()[-1]["vers"] == 1
                assert offers(server) == 1


OFFERS = "/sys/kernel/tracing/events/rpcrdma_rs/xprtrdma_offer/enable"


@test(
    "a traced offer: {mode}",
    "V2-4",
    allowed=PROVOKED,
    cases=[
        {"mode": "right", "outcome": "accepted"},
        {"mode": "range-1-1", "outcome": "version 1"},
        {"mode": "range-3-5", "outcome": "no version in common"},
        {"mode": "error-4", "outcome": "an error"},
        {"mode": "disconnect", "outcome": "no answer"},
    ],
)
def traced(pair: Pair, mode: str, outcome: str) -> None:
    """The event names the first outcome."""
    with client_rule(pair, AUTO), peer(pair, "--private-data", GOOD, "--first", mode) as server:
        pair.client.run(f"echo >/sys/kernel/tracing/trace; echo 1 >{OFFERS}; mkdir -p {MOUNT_POINT}")
        done = pair.client.run(f"timeout 30 {server.mount_command()} && umount {MOUNT_POINT}", 40, check=False)
        assert (done.rc == 0) == (mode != "range-3-5"), done
        shown = pair.client.run(f"echo 0 >{OFFERS}; grep xprtrdma_offer: /sys/kernel/tracing/trace").lines
        assert re.search(rf"xprt=\d+ xid=0x\w+ reason={outcome}$", shown[0]), shown


@test(
    "the first grant: {mode}",
    *("V2-5", "V2-22", "XC-38"),
    cases=[{"mode": "credits-zero", "announces": False}, {"mode": "credits-max", "announces": True}],
)
def first_grant(pair: Pair, mode: str, announces: bool) -> None:
    """None counts as one credit, which a call gets; more than was requested as that, and the client announces itself."""
    granting = peer(pair, "--private-data", GOOD, "--first", mode, "--operations", "respond")
    with client_rule(pair, AUTO), granting as server:
        with server.mounted():
            pair.client.run(f"ls {MOUNT_POINT}")
            granted = int(details(pair.client, server.port)["credits"].split()[3])
        _, second, *_ = server.messages()
        assert (second.get("operation") == wire.INITXCH) == announces, second
        # The other replies grant 32.
        assert granted == 32 and len(server.of("established")) == 1


EARLY = [
    {"mode": "announce-first", "protocol": "2", "call": 8192, "odd": 0},
    # The first is too long to be kept, and the others come after the one that is.
    {"mode": "announce-often", "protocol": "2", "call": 8192, "odd": 8},
    {"mode": "announce-refuse", "protocol": "1", "call": 4096, "odd": 1},
]


@test("a server announces itself before it answers: {mode}", "V2-5", "XC-38", "XC-68", cases=EARLY)
def announced_first(pair: Pair, mode: str, protocol: str, call: int, odd: int) -> None:
    """The size counts in version 2, the grant does not: no message follows before the answer."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, version=AUTO, inline_send=16384)
    hasty = peer(pair, "--private-data", GOOD, "--first", mode, "--operations", "respond")
    with client, hasty as server, server.mounted():
        shown = details(pair.client, server.port)
        assert shown["protocol"].startswith(f"{protocol} ") and shown["inline_call"].startswith(f"{call} "), shown
        assert int(shown["odd_operations"]) == odd, shown
        if mode == "announce-first":
            kinds = [event["event"] for event in server.events if event["event"] in ("message", "released")]
            assert kinds[:2] == ["message", "released"], kinds
        assert len(server.of("established")) == 1


@test("a server hangs up at our announcement", "XC-34", "XC-38", allowed=PROVOKED, limit=60)
def no_announcement(pair: Pair) -> None:
    """The next connections have none, though the server announces itself, and calls go on in version 2."""
    options = ("--private-data", GOOD, "--first-of-each", "announce-reply", "--operations", "disconnect")
    with client_rule(pair, AUTO), peer(pair, *options) as server, server.mounted():
        pair.client.run(f"ls {MOUNT_POINT}")
        assert details(pair.client, server.port)["protocol"].startswith("2 ")
        connections = {message["connection"] for message in server.messages() if message["proc"] == wire.RDMA2_OPTIONAL}
        assert connections == {1} and len(server.of("established")) == 2, server.events


def offers(server: Peer) -> int:
    """The number of first messages in version 2."""
    firsts = {m["connection"]: m for m in reversed(server.messages())}
    return sum(message["vers"] == 2 for message in firsts.values())


def keeps(server: Peer, version: str) -> None:
    """The first message is a short one of version 2; all others of the last connection have the version."""
    first, *others = server.messages()
    assert (first["vers"], first["length"], first["direction"]) == (2, 72, wire.CALL), first
    last = others[-1]["connection"]
    versions = {message["vers"] for message in others if message["connection"] == last}
    assert versions == {int(version)}, versions


@test(
    "no version in common: {mode}",
    "V2-11",
    "V2-66",
    allowed=PROVOKED,
    cases=[{"mode": mode} for mode in ("range-3-5", "range-2-1", "range-2-2")],
)
def nothing_in_common(pair: Pair, mode: str) -> None:
    """The mount fails at once, after one connection."""
    with client_rule(pair, AUTO), peer(pair, "--private-data", GOOD, "--first-of-each", mode) as server:
        failed = pair.client.run(f"mkdir -p {MOUNT_POINT}; timeout 30 {server.mount_command()}", check=False)
        assert failed.rc not in (0, 124), failed
        assert len(server.of("established")) == 1, server.of("established")


@test("a peer without private data", "V2-8", "V2-22", "V2-23", "V2-24", "V2-25", allowed=PROVOKED, limit=90)
def without_private_data(pair: Pair) -> None:
    """It takes 4096 bytes once it has agreed to version 2, and no more than 1024 in version 1."""
    link = f"ln -s {'x' * 2000} {MOUNT_POINT}/link"
    for mode, longest, inline in (("right", 4096, True), ("range-1-1", 1024, False)):
        with client_rule(pair, AUTO), peer(pair, "--first", mode) as server, server.mounted():
            assert details(pair.client, server.port)["inline_call"].startswith(f"{longest} ")
            pair.client.run(link, check=False)
            # We take as much, and have said so.
            assert server.of("connect")[0]["private_data"].startswith(GOOD)
            sent = [message for message in server.messages() if message["length"] > 1024]
            assert bool(sent) == inline, sent
            assert all(message["length"] <= longest and not message["read"] for message in sent)


@test("version 2 and small Receives", "V2-24", "V2-63", allowed=(r"rule two: version 2 needs",))
def small_receives(pair: Pair) -> None:
    """A rule cannot demand version 2 without what it needs; one that permits it has version 1, and the log tells."""
    needs = "version 2 needs private data"
    for first, then in (
        ({"version": "2"}, ("inline_receive", 1024)),
        ({"inline_receive": 1024}, ("version", "2")),
        ({"private_data": "off"}, ("version", "2")),
    ):
        with rule(pair.client, "two", peer=SERVER.ipv4, **first) as made:
            refused = made.try_to_set(*then)
            assert refused.rc != 0 and made.get(then[0]) == "default", refused
            assert f"rule two: {needs}" in pair.client.run("dmesg | tail -n 3").out
    with rule(pair.client, "two", peer=SERVER.ipv4, version=AUTO, inline_receive=1024):
        pair.mount("4.2")
        assert details(pair.client, NFS_PORT)["protocol"] == "1 (of 1)"
        pair.umount()
    assert pair.client.run(f"dmesg | grep -c ': {needs}.*version 1 is used'").out.strip() == "1"


@test("a long first message", "V2-24", "V2-61", server="ours")
def long_first_message(pair: Pair) -> None:
    """The server takes one of 4096 bytes; its first answer to a client that has promised nothing is short."""
    data = bytes(range(1, 251)) * 12
    (pair.client.share / "content").write_bytes(data)
    fh, _ = export_file(pair, 3000)
    read = read_of(fh, 2000)
    messages = [
        wire.msg(0x1001, 32, read, vers=2, direction=wire.CALL),
        wire.msg(0x2001, 32, words(0x2001) + read[4:], vers=2, direction=wire.CALL),
    ]
    long = wire.msg(0x3001, 32, wire.rpc_call(0x3001, 100003, 3, 0, bytes(4000)), vers=2, direction=wire.CALL)
    with server_rule(pair, AUTO):
        orders = [{"exchanges": [[message.hex()] for message in messages]}, {"exchanges": [[long.hex()]]}]
        silent, first = carried_out(pair, *orders)
    (refused,), (answered,) = silent["exchanges"]
    # A reply of 2000 bytes does not fit into the first answer, and then does.
    assert bytes.fromhex(refused)[12:16] == words(wire.RDMA_ERROR), refused
    assert len(bytes.fromhex(answered)) > 2000 and wire.decode(bytes.fromhex(answered))[0]["vers"] == 2
    ((reply,),) = first["exchanges"]
    assert wire.decode(bytes.fromhex(reply))[0]["proc"] == wire.RDMA_MSG, reply


@test("invalidation by characteristics", "V2-26", "XC-77", "XC-78", "XC-79", "XC-80", server="ours")
def invalidation(pair: Pair) -> None:
    """A client that announces it gets Sends With Invalidate, and no other; private data counts for version 1 alone."""
    pair.server.run("head -c 100000 /dev/zero >/export/invalidated")
    for setting, invalidates in (("on", True), ("off", False)):
        client = rule(pair.client, "two", peer=SERVER.ipv4, version=AUTO, remote_invalidation=setting)
        with client, server_rule(pair, AUTO):
            pair.mount("3")
            pair.client.run(f"cat {MOUNT_POINT}/invalidated >/dev/null")
            (shown,) = served(pair.server)
            assert shown["protocol"].startswith("2 ") and (shown["remote_invalidates"] != "0") == invalidates, shown
            pair.umount()
    fh, _ = export_file(pair, 3000)
    chunk = words(0).hex() + words(1, 1).hex() + segment(3000) + words(0, 0).hex()
    begin = words(0x1001, 2, 32, wire.RDMA_MSG, wire.CALL).hex()
    call = begin + chunk + read_of(fh, 3000).hex()
    seen: list[dict[str, str]] = []

    def look() -> None:
        wait_until(lambda: [s for s in served(pair.server) if s["write_segments"] != "0"], "no reply was sent", 20)
        seen.extend(served(pair.server))

    with server_rule(pair, AUTO):
        order = {"private_data": TAKES, "memory": bytes(3000).hex(), "exchanges": [[call], MEANWHILE]}
        (found,) = carried_out(pair, order, until=look)
    assert "failed" not in found, found
    assert [shown["remote_invalidates"] for shown in seen] == ["0"], seen


@test(
    "characteristics of both ends: {call} and {reply}",
    *("XC-21", "XC-38", "XC-40", "XC-88", "XC-89", "V2-25"),
    server="ours",
    # The sizes of the client, send and receive, those of the server, and what follows.
    cases=[
        {"own": (16384, 8192), "peers": (16384, 16384), "call": "16384", "reply": "8192"},
        # The server's Send buffers are shorter than what the client takes.
        {"own": (16384, 16384), "peers": (4096, 8192), "call": "8192", "reply": "4096"},
    ],
)
def characteristics(pair: Pair, own: tuple[int, int], peers: tuple[int, int], call: str, reply: str) -> None:
    """Each end keeps to the size of the other's Receives, and plans no reply that the server cannot send."""

    def sizes(of: tuple[int, int]) -> dict[str, object]:
        return {"version": AUTO, "inline_send": of[0], "inline_receive": of[1]}

    client = rule(pair.client, "two", peer=SERVER.ipv4, **sizes(own))
    with client, rule(pair.server, "two", side="server", peer=CLIENT.ipv4, **sizes(peers)):
        pair.mount("4.2")
        shown = details(pair.client, NFS_PORT)
        assert (shown["inline_call"].split()[0], shown["inline_reply"].split()[0]) == (call, reply), shown
        assert shown["odd_operations"] == "0"
        assert [shown["odd_operations"] for shown in served(pair.server)] == ["0"]
        # Around the sizes, and with chunks.
        for size in (4000, 8000, 8192, 12000, 16000, 16384, 300000):
            pair.client.run(f"head -c {size} /dev/urandom >/tmp/sent; cp /tmp/sent {MOUNT_POINT}/sent")
            pair.drop_caches()
            pair.client.run(f"cmp /tmp/sent {MOUNT_POINT}/sent")
        pair.umount()


# The peer's treatment of operations, and the longest call that follows.
OPERATIONS = [("refuse", "4096"), ("refuse-both", "4096"), ("ignore", "4096"), ("8192", "8192"), ("2048", "2048")]


@test(
    "a peer and operations: {how}",
    *(
        "XC-24",
        "XC-37",
        "XC-39",
        "XC-41",
        "XC-42",
        "XC-44",
        "XC-47",
        "XC-55",
        "XC-85",
        "XC-98",
        "V2-44",
        "V2-45",
        "V2-51",
    ),
    limit=90,
    cases=[{"how": how, "longest": longest} for how, longest in OPERATIONS],
)
def operations(pair: Pair, how: str, longest: str) -> None:
    """The client announces itself behind the first answer; a peer without characteristics is served as before."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, version=AUTO, inline_send=16384)
    with client, peer(pair, "--private-data", GOOD, "--operations", how) as server, server.mounted():
        assert details(pair.client, server.port)["inline_call"].split()[0] == longest
        pair.client.run(f"ls {MOUNT_POINT}")
        offer, init, *calls = server.messages()
        request = calls.pop(0) if "operation" in calls[0] else None
        # A client that was refused in between sends no request.
        assert request or how == "refuse", calls
        assert init["operation"] == wire.INITXCH, init
        start = wire.characteristics((wire.RBSIZ, 4096), (wire.REQREMINV, 1), (wire.BRS, 1))
        assert init["info"] == (start + words(1, 0b110)).hex()
        assert init["length"] <= 1024 and init["direction"] == wire.CALL
        if request:
            assert (request["operation"], request["direction"]) == (wire.REQXCH, wire.CALL), request
            assert request["info"] == words(0).hex()
        xids = [message["xid"] for message in (offer, init, *([request] if request else []), *calls)]
        assert len(set(xids)) == len(xids), xids
        assert calls and all(call["proc"] == wire.RDMA_MSG for call in calls)


def respond(xid: int, *subsets: int) -> bytes:
    """A RESPXCH of our server, without its credits: the words of three subsets with their counts."""
    info = words(*subsets)
    return words(xid, 2, wire.RDMA2_OPTIONAL, wire.REPLY, wire.RESPXCH, len(info)) + info


@test(
    "operations of a client",
    *("XC-13", "XC-25", "XC-45", "XC-46", "XC-48", "XC-49", "XC-50", "XC-51", "XC-52", "XC-102", "V2-72"),
    server="ours",
)
def client_operations(pair: Pair) -> None:
    """The server announces itself in return, and rejects each change; calls go on."""

    def request(xid: int, *entries: tuple[int, int]) -> bytes:
        return wire.optional(xid, 32, wire.CALL, wire.REQXCH, wire.characteristics(*entries))

    init = wire.characteristics((wire.RBSIZ, 8192), (wire.REQREMINV, 0)) + words(0)
    inits = [wire.optional(xid, 32, wire.CALL, wire.INITXCH, init) for xid in (0x2001, 0x2002, 0x2003)]
    unknown = [(number, 7) for number in range(100, 132)]
    # Each exchange, and what comes back last.
    exchanges = [
        ([two()], None),
        ([inits[0], request(0x3001)], respond(0x3001, 0, 0, 0)),
        ([request(0x3002, (wire.RBSIZ, 0xFFFFFFFF))], respond(0x3002, 0, 1, 1, 0)),
        ([request(0x3003, (wire.RBSIZ, 4096))], respond(0x3003, 1, 1, 0, 0)),
        ([request(0x3004, *unknown, (wire.RBSIZ, 2048))], respond(0x3004, 0, 2, 0xFFFFFFFF, 1, 0)),
        ([request(0x3005, (wire.RBSIZ, 8192), (wire.RBSIZ, 8192))], respond(0x3005, 0, 1, 3, 0)),
        ([*inits[1:], two(0x4001)], None),
    ]
    with server_rule(pair, AUTO):
        order = {"private_data": GOOD, "exchanges": [[m.hex() for m in sent] for sent, _ in exchanges]}
        (found,) = carried_out(pair, order)
    assert "failed" not in found, found
    replies = [[bytes.fromhex(reply) for reply in exchange] for exchange in found["exchanges"]]
    for got, (_, expected) in zip(replies, exchanges, strict=True):
        last = got[-1]
        if expected is None:
            assert wire.decode(last)[0]["proc"] == wire.RDMA_MSG, last.hex()
        else:
            assert last[:8] + last[12:] == expected, (last.hex(), expected.hex())
    # It announces itself once.
    assert [len(got) for got in replies] == [1, 2, 1, 1, 1, 1, 1], replies
    announced, _ = wire.decode(replies[1][0])
    own = wire.characteristics((wire.RBSIZ, 4096), (wire.REQREMINV, 0), (wire.BRS, 0)) + words(1, 0b110)
    assert (announced["operation"], announced["direction"]) == (wire.INITXCH, wire.CALL), announced
    assert announced["info"] == own.hex(), announced


@test("a flood of unknown operations", "V2-75", server="ours", device="rxe")
def flood(pair: Pair) -> None:
    """A client that takes few messages at a time gets an error for some operations; the others are counted, and calls go on."""
    turns, each = 40, 25
    count = turns * each
    unknown = [wire.optional(0x2001 + number, 32, wire.CALL, 99) for number in range(count)]
    floods = [[*unknown[turn * each :][:each], two(0x9001 + turn)] for turn in range(turns)]
    exchanges = [[two()], *floods]
    seen: list[dict[str, str]] = []
    with server_rule(pair, AUTO):
        order = {
            "private_data": GOOD,
            "receives": 4,
            "exchanges": [*([message.hex() for message in sent] for sent in exchanges), MEANWHILE],
        }

        def look() -> None:
            served_all = f"grep -qx 'calls {1 + turns}' /sys/kernel/debug/rpcrdma_rs/svc-*"
            wait_until(lambda: pair.server.run(served_all, check=False).rc == 0, "the last call is not served", 60)
            seen.extend(served(pair.server))

        (found,) = carried_out(pair, order, until=look)
    assert "failed" not in found, found
    errors = sum(len(replies) - 1 for replies in found["exchanges"][1:])
    dropped = int(seen[0]["odd_operations"])
    print(f"# of {count} operations {errors} got an error, {dropped} were dropped")
    assert errors and dropped and errors + dropped == count, (errors, dropped)
    assert all(wire.decode(bytes.fromhex(last))[0]["proc"] == wire.RDMA_MSG for *_, last in found["exchanges"])


def two(xid: int = 0x1001, direction: int = wire.CALL, **changes: object) -> bytes:
    """A call of version 2 that does nothing."""
    return wire.msg(xid, 32, wire.rpc_call(xid, 100003, 3, 0), **{"vers": 2, "direction": direction, **changes})


def refusal(xid: int, version: int, *body: int) -> tuple[int, ...]:
    """The words of an error, without its credits."""
    return (xid, version, wire.RDMA_ERROR, *body)


RANGE = (wire.ERR_VERS, 1, 2)
# The messages of a client to a server that speaks both, and its replies: the words of an error, or the version.
SERVED = [
    ("version 1", ("V2-20",), [null()], [1]),
    ("version 2", ("V2-7", "V2-19"), [two()], [2]),
    ("another version, then each", ("V2-62", "V2-68"), [two(vers=3), null(0x2001)], [refusal(0x1001, 3, *RANGE), 1]),
    ("another version, then 2", ("V2-62", "V2-68"), [two(vers=3), two(0x2001)], [refusal(0x1001, 3, *RANGE), 2]),
    ("a later version 2", ("V2-70",), [two(proc=10), null(0x2001)], [refusal(0x1001, 2, wire.ERR_VERS, 1, 1), 1]),
    ("a defect first", ("V2-68",), [two(direction=2), null(0x2001)], [refusal(0x1001, 2, wire.ERR_CHUNK), 1]),
    ("version 1 on version 2", ("V2-17", "V2-18"), [two(), null(0x2001)], [2, refusal(0x2001, 1, *RANGE)]),
    ("version 2 on version 1", ("V2-17", "V2-18"), [null(), two(0x2001)], [1, refusal(0x2001, 2, *RANGE)]),
    ("unknown type later", ("V2-30",), [two(), two(0x2001, proc=10)], [2, refusal(0x2001, 2, wire.ERR_CHUNK)]),
    ("the direction of no word", ("V2-33", "V2-64"), [two(), two(0x2001, 2)], [2, refusal(0x2001, 2, wire.ERR_CHUNK)]),
    (
        "an unknown operation",
        ("V2-45", "XC-30"),
        [two(), wire.optional(0x2001, 32, wire.CALL, 99)],
        [2, refusal(0x2001, 2, wire.INVAL_OPTION)],
    ),
    (
        "an operation longer than its message",
        ("V2-47",),
        [two(), wire.optional(0x2001, 32, wire.CALL, 99)[:24] + words(4096)],
        [2, refusal(0x2001, 2, wire.ERR_CHUNK)],
    ),
    (
        "an unknown operation in reply, and an error",
        ("V2-48", "V2-39", "V2-50"),
        [two(), wire.optional(0x3001, 32, wire.REPLY, 99), wire.error(0x3002, 32, 9, vers=2), two(0x2001)],
        [2, 2],
    ),
]


@test(
    "a server of both: {what}",
    *sorted({row for _, rows, _, _ in SERVED for row in rows}),
    server="ours",
    cases=[{"what": what, "messages": messages, "replies": replies} for what, _, messages, replies in SERVED],
)
def server_of_both(pair: Pair, what: str, messages: list[bytes], replies: list[int | tuple[int, ...]]) -> None:
    """Exactly these replies."""
    with server_rule(pair, AUTO):
        # Each message is sent once the reply to the one before is here; one without a reply is sent with the next.
        exchanges: list[list[str]] = [[]]
        for message in messages:
            exchanges[-1].append(message.hex())
            if message[:4] not in (words(0x3001), words(0x3002)):
                exchanges.append([])
        (found,) = carried_out(pair, {"private_data": GOOD, "exchanges": exchanges[:-1]})
        assert "failed" not in found, found
        got = [bytes.fromhex(reply) for exchange in found["exchanges"] for reply in exchange]
        assert len(got) == len(replies), (what, [reply.hex() for reply in got])
        for reply, expected in zip(got, replies, strict=True):
            if isinstance(expected, tuple):
                assert reply[:8] + reply[12:] == words(*expected), (what, reply.hex())
            else:
                header, payload = wire.decode(reply)
                assert header["vers"] == expected and header["proc"] == wire.RDMA_MSG, (what, reply.hex())
                assert header.get("direction", wire.REPLY) == wire.REPLY
                assert wire.decode_reply(payload)[0] is not None, (what, reply.hex())


@test(
    "a server of one version: {version}",
    "V2-9",
    "V2-62",
    "V2-20",
    server="ours",
    cases=[{"version": "1"}, {"version": "2"}],
)
def server_of_one(pair: Pair, version: str) -> None:
    """The other version is refused with the range."""
    number = int(version)
    other = two() if number == 1 else null()
    with server_rule(pair, version):
        (found,) = carried_out(pair, {"private_data": GOOD, "exchanges": [[other.hex()]]})
        ((reply,),) = found["exchanges"]
        got = bytes.fromhex(reply)
        assert got[:8] + got[12:] == words(*refusal(0x1001, 3 - number, wire.ERR_VERS, number, number)), reply
