# SPDX-License-Identifier: GPL-2.0
"""Changes of sizes that end otherwise than they begin, and peers that keep to version 2 late, badly, or not at all."""

from __future__ import annotations

import re

from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.connecting import PROVOKED
from guests.lib.live import LARGE, SMALL, data_goes_both_ways, ends, request, shown, some_calls, until
from guests.lib.peer import peer
from guests.lib.requester import MEANWHILE, TAKES, carried_out, export_file, read_list, read_of, segment
from guests.lib.rpcload import loaded
from guests.lib.rules import rule
from guests.lib.sight import details, served
from guests.peer import wire
from guests.peer.wire import words

NFS = 100003
GOOD = "f6ab0e1801010303"
FIRST = 0x1001
LONGER = 16384
RECEIVES = 300  # more than the client has


def two(xid: int = FIRST) -> str:
    """A call of version 2 that does nothing."""
    return wire.msg(xid, 32, wire.rpc_call(xid, NFS, 3, 0), vers=2, direction=wire.CALL).hex()


def want(xid: int, size: int) -> str:
    """A REQXCH for the size."""
    return wire.optional(xid, 32, wire.CALL, wire.REQXCH, wire.characteristics((wire.RBSIZ, size))).hex()


def init(xid: int, *entries: tuple[int, int]) -> str:
    """An INITXCH."""
    return wire.optional(xid, 32, wire.CALL, wire.INITXCH, wire.characteristics(*entries) + words(0)).hex()


def operations(found: dict[str, object]) -> list[tuple[int, str]]:
    """The operations that the requester got, with what is in them."""
    messages = [wire.decode(bytes.fromhex(message))[0] for some in found["exchanges"] for message in some]
    return [(m["operation"], m["info"]) for m in messages if m["proc"] == wire.RDMA2_OPTIONAL]


@test("a change while nothing is called", "XC-70", "XC-98", server="ours", limit=90)
def idle(pair: Pair) -> None:
    """Larger Receives take the place of those that come back: the change waits for calls, makes none, and says how many."""
    with ends(pair, "3"):
        some_calls(pair)
        request(pair.client, f"receive-size={LARGE}")
        under_way = re.compile(rf"{SMALL} next {LARGE} left [1-9]\d*")
        limit = 20 * pair.options.slowness
        wait_until(lambda: under_way.fullmatch(shown(pair)[0]["receive_size"]), "nothing is under way", limit)
        _, before = shown(pair)
        pair.client.run("sleep 2")
        client, after = shown(pair)
        assert under_way.fullmatch(client["receive_size"]), client
        assert before["received"] == after["received"], (before, after)
        until(pair, 0, "receive_size", str(LARGE))
        until(pair, 1, "peer_receive_size", str(LARGE))
        data_goes_both_ways(pair, 10000)


# The server's second request is to confirm its announcement (XC-98).
CONFIRM = 0x80000001


@test(
    "growth without memory, and a response that {how}",
    *("XC-53", "XC-56", "XC-62", "XC-65", "XC-98"),
    server="ours",
    cases=[{"how": "is whole", "cut": 0}, {"how": "ends early", "cut": 4}],
)
def poor(pair: Pair, how: str, cut: int) -> None:
    """A server that cannot have the Receives that it has promised says so by an update of its old size; calls go on.

    The update waits until the announcement is confirmed, by any response.
    """
    response = wire.optional(CONFIRM, 32, wire.REPLY, wire.RESPXCH, words(0, 0, 0))
    confirmed = response[: len(response) - cut].hex()
    order = {
        "private_data": GOOD,
        "exchanges": [
            [two()],
            [init(0x2001, (wire.RBSIZ, SMALL)), two(0x2002)],
            [want(0x3001, LARGE), two(0x3002)],
            [confirmed, two(0x3003)],
            *([two(0x4000 + number)] for number in range(64)),
        ],
    }
    with rule(pair.server, "live", side="server", peer=CLIENT.ipv4, version="2", inline_max=LARGE, memory=1024):
        (found,) = carried_out(pair, order)
    assert "failed" not in found, found
    assert sum(len(some) for some in found["exchanges"]) == len(order["exchanges"]) + len(operations(found)), found
    pending, old = words(0, 0, 1, 1).hex(), words(wire.RBSIZ, 4, SMALL, 1).hex()
    assert [each for each in operations(found) if each[0] in (wire.RESPXCH, wire.UPDXCH)] == [
        (wire.RESPXCH, pending),
        (wire.UPDXCH, old),
    ], operations(found)


@test(
    "more calls than granted while Receives grow",
    *("V1-35", "V1-36", "XC-62", "XC-70", "XC-98"),
    server="ours",
    device="rxe",
)
def crowded(pair: Pair) -> None:
    """The client breaks its promise, not the server's: each call is served, and the change ends as it would have.

    The server reads four bytes of each such call from a client whose frames are late, so the calls of a crowd overlap.
    """
    granted, crowds, each, after = 4, 3, 5, 64

    def long(xid: int) -> str:
        message = wire.rpc_call(xid, NFS, 3, 0)
        chunk = read_list((len(message), segment(4))) + words(0, 0).hex()
        return words(xid, 2, 32, wire.RDMA_MSG, wire.CALL).hex() + chunk + message.hex()

    calls = [[0x4000 + crowd * each + number for number in range(each)] for crowd in range(crowds)]
    confirmed = wire.optional(CONFIRM, 32, wire.REPLY, wire.RESPXCH, words(0, 0, 0)).hex()
    order = {
        "private_data": GOOD,
        "memory": bytes(4).hex(),
        "exchanges": [
            [two()],
            [init(0x2001, (wire.RBSIZ, SMALL)), two(0x2002)],
            [want(0x3001, LARGE), *(long(xid) for xid in calls[0])],
            *([long(xid) for xid in crowd] for crowd in calls[1:]),
            # The server's own request comes at any time. A response to none is dropped.
            *([confirmed, two(0x5000 + number)] for number in range(after)),
            MEANWHILE,
        ],
    }
    seen: list[dict[str, str]] = []

    def look() -> None:
        all_calls = 2 + crowds * each + after
        wait_until(
            lambda: [one for one in served(pair.server) if one["calls"] == str(all_calls)], "calls are missing", 60
        )
        seen.extend(served(pair.server))

    settings = {"version": "2", "inline_max": LARGE, "credits": granted}
    pair.client.run("tc qdisc replace dev eth0 root netem delay 15ms limit 100000")
    with rule(pair.server, "two", side="server", peer=CLIENT.ipv4, **settings):
        (found,) = carried_out(pair, order, until=look)
    pair.client.run("tc qdisc del dev eth0 root")
    assert "failed" not in found, found
    assert int(seen[0]["excess_calls"]) >= crowds, seen
    replies = [wire.decode(bytes.fromhex(reply))[0] for some in found["exchanges"] for reply in some]
    answered = [reply["xid"] for reply in replies if reply["proc"] == wire.RDMA_MSG]
    assert sorted(answered) == sorted(
        [FIRST, 0x2002, *(xid for crowd in calls for xid in crowd), *(0x5000 + n for n in range(after))]
    ), found
    assert [each for each in operations(found) if each[0] in (wire.RESPXCH, wire.UPDXCH)] == [
        (wire.RESPXCH, words(0, 0, 1, 1).hex()),
        (wire.UPDXCH, words(wire.RBSIZ, 4, LARGE, 1).hex()),
    ], operations(found)


@test(
    "a client that announces itself late",
    *("XC-77", "XC-79", "XC-80"),
    server="ours",
    device="rxe",
    # The client's device, whose handles of this kind cannot be invalidated.
    allowed=(r"rxe0: qp#\d+ do_complete: non-flush error status = 9",),
)
def late(pair: Pair) -> None:
    """The server invalidates its handles from the announcement on, and not before."""
    count = 10
    fh, _ = export_file(pair, 3000)
    chunk = words(0).hex() + words(1, 1).hex() + segment(3000) + words(0, 0).hex()

    def read(xid: int) -> str:
        return words(xid, 2, 32, wire.RDMA_MSG, wire.CALL).hex() + chunk + (words(xid) + read_of(fh, 3000)[4:]).hex()

    plain = [[read(FIRST + number)] for number in range(count)]
    order = {
        "private_data": TAKES,
        "memory": bytes(3000).hex(),
        "exchanges": [*plain, [init(0x2001, (wire.REQREMINV, 1)), two(0x2002)], [read(0x3001)]],
    }
    with rule(pair.server, "two", side="server", peer=CLIENT.ipv4, version="auto"):
        (found,) = carried_out(pair, order)
    assert len(found["exchanges"]) == count + 1, found
    assert found["failed"].startswith("completions failed with status [9"), found


@test("a server that invalidates what it may not", "PD-31", "XC-76", "XC-80", device="rxe")
def unwanted(pair: Pair) -> None:
    """Against our announcement: the handle is one of the call's, so nothing is in doubt, and the counter rises."""
    settings = {"version": "2", "remote_invalidation": "off"}
    with peer(pair, "--private-data", GOOD, "--operations", "ignore") as server:
        with rule(pair.client, "off", port=server.port, **settings), loaded(pair) as load:
            load.open(f"port={server.port}")
            (announced,) = [m for m in server.messages() if m.get("operation") == wire.INITXCH]
            assert wire.characteristics((wire.REQREMINV, 0))[4:].hex() in announced["info"], announced
            server.order("misbehave", modes=["invalidate-own"])
            first, second = load.do(*["run count=1 call=100 reply=2000 reply_in=pages reply_room=20000"] * 2)
            assert first.good().counted["unsolicited_invalidates"] == 1, first
            assert second.good().counted["unsolicited_invalidates"] == 0, second
            assert len(server.of("connect")) == 1, "the connection ended"
            load.one("close").good()


@test(
    "a server that requests a size, and less while calls rely on it",
    *("XC-62", "XC-70", "XC-89", "XC-93", "XC-98"),
    device="rxe",
)
def relied_on(pair: Pair) -> None:
    """The client takes longer replies as soon as its Receives are there; what it has promised for calls stays."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, version="2", inline_max=LARGE)

    def of_the_client(messages: list[dict[str, object]], *which: int) -> list[tuple[object, object]]:
        return [(m["operation"], m["info"]) for m in messages if m.get("operation") in which]

    with client, peer(pair, "--private-data", GOOD, "--operations", "ignore") as server, server.mounted():
        (first,) = [m["xid"] for m in server.messages() if m.get("operation") == wire.REQXCH]
        begun = [bytes.fromhex(init(0x70000001)), wire.optional(first, 32, wire.REPLY, wire.RESPXCH, words(0, 0, 0))]
        server.told(begun, "begun")
        told = server.told([bytes.fromhex(want(0x70000002, LONGER))], "more")
        # Each look-up brings a Receive back.
        for number in range(RECEIVES):
            if of_the_client(told, wire.UPDXCH):
                break
            told += server.told([], f"after-{number}")
        assert of_the_client(told, wire.RESPXCH, wire.UPDXCH) == [
            (wire.RESPXCH, words(0, 0, 1, 1).hex()),
            (wire.UPDXCH, words(wire.RBSIZ, 4, LONGER, 1).hex()),
        ], told
        less = server.told([bytes.fromhex(want(0x70000003, SMALL))], "less")
        assert of_the_client(less, wire.RESPXCH) == [(wire.RESPXCH, words(0, 1, 1, 0).hex())], less
        assert details(pair.client, server.port)["receive_size"] == str(LONGER)


@test(
    "a server whose Receives are shorter than it says",
    *("XC-103", "XC-106"),
    device="rxe",
    # Of the server's device, too.
    allowed=(*PROVOKED, r"rxe0: qp#\d+ do_complete: non-flush error status = 2"),
    limit=120,
)
def liar(pair: Pair) -> None:
    """The call that it cannot take ends the connection, twice; then the client believes it no more, and the call succeeds."""
    client = rule(pair.client, "two", peer=SERVER.ipv4, version="2", inline_send=LONGER)
    lies = ("--private-data", GOOD, "--operations", str(LONGER), "--receive-size", str(SMALL))
    with client, peer(pair, *lies) as server, server.mounted():

        def longest() -> str:
            return details(pair.client, server.port)["inline_call"].split()[0]

        assert longest() == str(LONGER)
        written = f"dd if=/dev/zero of={MOUNT_POINT}/file bs=12000 count=1 oflag=direct conv=nocreat,notrunc"
        pair.client.run(written, 60)
        assert (len(server.of("established")), longest()) == (3, str(SMALL))


@test("a suspicion that was wrong", "V2-71", device="rxe", allowed=PROVOKED, limit=120)
def suspected(pair: Pair) -> None:
    """After two offers without an answer the client speaks version 1; as that is refused, it offers version 2 again."""
    answers = "disconnect,disconnect,range-2-2,right"
    with (
        rule(pair.client, "two", peer=SERVER.ipv4, version="auto"),
        peer(pair, "--private-data", GOOD, "--first-of-each", answers) as server,
        server.mounted("timeo=300"),  # the pauses between connections grow
    ):
        firsts = {m["connection"]: m["vers"] for m in reversed(server.messages())}
        assert sorted(firsts.items()) == [(1, 2), (2, 2), (3, 1), (4, 2)], firsts
        assert details(pair.client, server.port)["protocol"] == "2 (of auto)"


@test("an offer without an answer", "V2-15", "V2-16", "V2-50", "V2-71", device="rxe", allowed=PROVOKED, limit=150)
def unanswered(pair: Pair) -> None:
    """An error that is cut short is none. As the time to connect is up, the next connection offers version 2 again: one
    loss raises no suspicion."""
    with (
        rule(pair.client, "two", peer=SERVER.ipv4, version="auto"),
        peer(pair, "--private-data", GOOD, "--first-of-each", "range-cut-alone,right") as server,
        server.mounted("timeo=600"),  # a call is to outlive that time
    ):
        firsts = {m["connection"]: m["vers"] for m in reversed(server.messages())}
        assert sorted(firsts.items()) == [(1, 2), (2, 2)], firsts
        assert [m["vers"] for m in server.messages() if m["connection"] == 1] == [2], server.messages()
        assert details(pair.client, server.port)["protocol"] == "2 (of auto)"
