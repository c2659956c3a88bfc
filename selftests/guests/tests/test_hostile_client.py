# SPDX-License-Identifier: GPL-2.0
"""A client that breaks the protocol: it can do no more than use the service, and hurts nobody but itself.

Each message is followed by a good call on the same connection; after each family the server holds nothing of it.
"""

from __future__ import annotations

from collections import Counter

from guests.harness.pair import MOUNT_POINT, Pair
from guests.harness.registry import test
from guests.lib.documentation import table
from guests.lib.hostile_calls import FAMILIES, Bad
from guests.lib import resources
from guests.lib.leftovers import connections, nothing_left
from guests.lib.requester import (
    CHUNK,
    NFS,
    READ_RESULTS,
    REFUSES,
    WRITE,
    XID,
    call,
    carried_out,
    export_file,
    handle_of,
    header,
    null,
    opaque,
    read_list,
    read_of,
    rejection,
    segment,
    status,
    without_credits,
)
from guests.peer import wire
from guests.peer.wire import words

# The server's device, about RDMA that the client's has refused.
REFUSALS = (r"rxe0: .*", r"make_send_cqe: .*")


@test(
    "malformed messages: {family}",
    *("V1-2", "V1-3", "V1-5", "V1-8", "V1-12", "V1-20", "V1-40", "V1-103", "V1-139"),
    *sorted({requirement for family in FAMILIES.values() for bad in family() for requirement in bad.requirements}),
    server="ours",
    cases=[{"family": family} for family in FAMILIES],
)
def malformed(pair: Pair, family: str) -> None:
    """Each gets its error, or none, and the connection stays."""
    bad = list(FAMILIES[family]())
    with nothing_left(pair):
        order = {"private_data": REFUSES, "exchanges": [[each.message, null().hex()] for each in bad]}
        (found,) = carried_out(pair, order)
        assert "failed" not in found, found
    for each, exchange in zip(bad, found["exchanges"], strict=True):
        *replies, good = map(bytes.fromhex, exchange)
        expected = [rejection(*each.head, *each.body)] if each.body else []
        assert [without_credits(reply) for reply in replies] == expected, f"{each.title}: {exchange}"
        assert all(32 <= int.from_bytes(reply[8:12]) <= 128 for reply in replies), (
            f"{each.title}, its grant: {exchange}"
        )
        header, payload = wire.decode(good)
        head = [header[word] for word in ("xid", "vers", "credits", "proc")]
        assert (head, payload) == ([XID, 1, 32, wire.RDMA_MSG], wire.rpc_reply(XID)), f"{each.title}: {exchange}"


# Good calls, one after the other, behind a message: threads of a server may reply in any order. On a busy machine one may
# be late, so that more follow a message without an answer.
GOOD_XIDS = range(XID, XID + 200)
FEW = 8
OUTCOMES = ("as specified", "another error", "served", "no answer", "the connection ends", "silence")


def outcome(bad: Bad, found: dict[str, object]) -> str:
    """What a server did with a message on a connection of its own, one of `OUTCOMES`."""
    if "failed" in found:
        return "silence" if "silence" in found["failed"] else "the connection ends"
    replies = [bytes.fromhex(reply) for exchange in found["exchanges"] for reply in exchange]
    replies = [reply for reply in replies if int.from_bytes(reply[:4]) not in GOOD_XIDS]
    if [without_credits(reply) for reply in replies] == ([rejection(*bad.head, *bad.body)] if bad.body else []):
        return "as specified"
    if not replies:
        return "no answer"
    return "another error" if int.from_bytes(replies[0][12:16]) == wire.RDMA_ERROR else "served"


def compared(pair: Pair, family: str) -> None:
    """Each has a connection of its own, since the in-tree server ends some."""

    def outcomes(bad: list[Bad], good: int) -> list[str]:
        first, *others = ([null(xid).hex()] for xid in GOOD_XIDS[:good])
        orders = ({"private_data": REFUSES, "exchanges": [[each.message, *first], *others]} for each in bad)
        return [outcome(*each) for each in zip(bad, carried_out(pair, *orders), strict=True)]

    bad = list(FAMILIES[family]())
    counts = Counter(outcomes(bad, FEW))
    if counts["no answer"]:
        counts = Counter(outcomes(bad, len(GOOD_XIDS)))
    seen = {name: counts[name] for name in OUTCOMES if counts[name]}
    column = 2 if pair.options.server == "ours" else 1
    (row,) = (row for row in table("comparison.rst", "Malformed messages") if row.cells[0] == family)
    documented = {
        name.strip(): int(count) for count, name in (part.split(" ", 1) for part in row.cells[column].split(", "))
    }
    assert seen == documented, f"{family}: seen {seen}, documented {documented}"


# A report of the in-tree server's kernel is no matter of this test.
for server, allowed in (("in-tree", (".*",)), ("ours", ())):
    test(
        f"malformed messages, as comparison.rst has them: {{family}}, a server {server}",
        "V1-107",
        limit=240,
        server=server,
        allowed=allowed,
        # What the in-tree server does with short messages is not for the page.
        cases=[{"family": family} for family in FAMILIES if family != "lengths"],
    )(compared)


# RPC's own errors (RFC 5531, section 9): the transport carries them like any reply.
DENIED, RPC_MISMATCH, AUTH_ERROR, AUTH_BADCRED = 1, 0, 1, 1
UNKNOWN_PROGRAM, UNKNOWN_FLAVOUR = 0x20000001, 77
RPC_ERRORS = {
    "a version of RPC": (words(XID, 0, 3, NFS, 3, 0, 0, 0, 0, 0), words(DENIED, RPC_MISMATCH, 2, 2)),
    "a program": (wire.rpc_call(XID, UNKNOWN_PROGRAM, 3, 0), words(0, 0, 0, wire.PROG_UNAVAIL)),
    "a version of the program": (wire.rpc_call(XID, NFS, 77, 0), words(0, 0, 0, wire.PROG_MISMATCH)),
    "a procedure": (wire.rpc_call(XID, NFS, 3, 77), words(0, 0, 0, wire.PROC_UNAVAIL)),
    "a flavour": (words(XID, 0, 2, NFS, 3, 0, UNKNOWN_FLAVOUR, 0, 0, 0), words(DENIED, AUTH_ERROR, AUTH_BADCRED)),
}


@test("calls that RPC refuses", server="ours")
def refused(pair: Pair) -> None:
    """The reply is a message like others, and the connection stays."""
    calls = [wire.msg(XID, 32, payload).hex() for payload, _ in RPC_ERRORS.values()]
    with nothing_left(pair):
        (found,) = carried_out(pair, {"exchanges": [*([call] for call in calls), [null().hex()]]})
    assert "failed" not in found, found
    for (title, (_, expected)), (reply,) in zip(RPC_ERRORS.items(), found["exchanges"], strict=False):
        header, payload = wire.decode(bytes.fromhex(reply))
        assert header["proc"] == wire.RDMA_MSG, f"{title}: {header}"
        assert payload.startswith(words(XID, wire.REPLY) + expected), f"{title}: {payload.hex()}"


@test("words that are unusual, and right", "V1-3", "V1-24", "V1-37", server="ours")
def unusual(pair: Pair) -> None:
    """Any xid and any number of credits, and an xid that two calls have at a time."""
    messages = [null(0), null(0xFFFFFFFF), null(0x01000000), null(credits=0), null(credits=0xFFFFFFFF)]
    twice = [null().hex(), null().hex(), null(XID + 1).hex()]
    with nothing_left(pair):
        (found,) = carried_out(pair, {"exchanges": [*([message.hex()] for message in messages), twice]})
    assert "failed" not in found, found
    *single, both = found["exchanges"]
    for message, (reply,) in zip(messages, single, strict=True):
        header, payload = wire.decode(bytes.fromhex(reply))
        xid = int.from_bytes(message[:4])
        assert (header["xid"], payload) == (xid, wire.rpc_reply(xid)), (message.hex(), reply)
        assert 1 <= header["credits"] <= 128, (message.hex(), header)
    # The last of them need not be the last that is replied to.
    xids = [reply[:8] for reply in both]
    assert set(xids) <= {f"{XID:08x}", f"{XID + 1:08x}"} and f"{XID:08x}" in xids, xids


PAGE = 4096
NOT_HERS, NOWHERE = segment(PAGE, "0badbad0"), segment(PAGE, at=0)


def read_chunk(fh: bytes, wrong: str) -> str:
    """A WRITE of bytes that have to be read."""
    start = call(WRITE, fh + words(0, 0, PAGE, 2, PAGE))
    return header(read_list((len(start), wrong)) + words(0, 0).hex()) + start.hex()


def long_call(fh: bytes, wrong: str) -> str:
    """A call that has to be read as a whole."""
    del fh
    return header(read_list((0, wrong)) + words(0, 0).hex(), wire.RDMA_NOMSG)


def write_chunk(fh: bytes, wrong: str) -> str:
    """A READ with its data in a Write chunk."""
    return header(words(0, 1, 1).hex() + wrong + words(0, 0).hex()) + read_of(fh, PAGE - 4).hex()


def reply_chunk(fh: bytes, wrong: str) -> str:
    """A READ with its reply in a Reply chunk."""
    return header(words(0, 0, 1, 1).hex() + wrong) + read_of(fh, PAGE - READ_RESULTS).hex()


# Calls that have to be read from, or replied to, in memory that the client does not give.
NOT_GIVEN = {
    "a Read chunk with a handle that it never had": (read_chunk, NOT_HERS),
    "a Read chunk at address 0": (read_chunk, NOWHERE),
    "a Read chunk of more than its memory": (read_chunk, segment(PAGE + 4)),
    "a Long call with a handle that it never had": (long_call, NOT_HERS),
    "a Long call at address 0": (long_call, NOWHERE),
    "a Write chunk with a handle that it never had": (write_chunk, NOT_HERS),
    "a Write chunk at address 0": (write_chunk, NOWHERE),
    "a Reply chunk with a handle that it never had": (reply_chunk, NOT_HERS),
    "a Reply chunk at address 0": (reply_chunk, NOWHERE),
}


@test(
    "memory that the client does not give: {title}",
    *("V1-118", "V1-157", "H-150"),
    server="ours",
    # An iWARP device reports neither which RDMA Read was refused, nor that a Write was.
    device="rxe",
    allowed=REFUSALS,
    cases=[{"title": title} for title in NOT_GIVEN],
)
def not_given(pair: Pair, title: str) -> None:
    """Its connection ends, the call is not executed, and rejected when it comes again, once for each such connection."""
    pair.server.run("yes | head -c 9000 >/export/chunks; cp /export/chunks /export/before")
    # So that nfsd knows the client.
    pair.mount("3")
    pair.umount()
    fh = opaque(handle_of(pair, "/export/chunks"))
    make, wrong = NOT_GIVEN[title]
    message = make(fh, wrong)
    with nothing_left(pair):
        first, again, third = carried_out(
            pair, *[{"memory": bytes(PAGE).hex(), "exchanges": [[message], [null(XID + 1).hex()]]}] * 3
        )
    for ended in (first, third):
        assert "failed" in ended and "silence" not in ended["failed"] and not ended["exchanges"], ended
    assert "failed" not in again, again
    rejected, (reply,) = again["exchanges"]
    assert [without_credits(bytes.fromhex(each)) for each in rejected] == [rejection(XID, 1, *CHUNK)], again
    assert status(reply)[0] == wire.SUCCESS, again
    pair.server.run("cmp /export/chunks /export/before; rm /export/before")


# Frames of the server come so slowly that a megabyte takes a tenth of a second.
SLOW = "tc qdisc {} dev eth0 root netem limit 100000 rate 100mbit"
MEGABYTE = 1 << 20


@test(
    "memory that the client takes back while the server writes to it",
    *("V1-118", "V1-157", "H-150"),
    server="ours",
    device="rxe",
    allowed=REFUSALS,
)
def revoked(pair: Pair) -> None:
    """The connection ends with part of the data written; the call is rejected when it comes again, and then served."""
    fh, content = export_file(pair, MEGABYTE)
    lists = words(0, 1, 1).hex() + segment(MEGABYTE) + words(0, 0).hex()
    message = header(lists) + words(XID).hex() + read_of(fh, MEGABYTE).hex()[8:]
    order = {"memory": bytes(MEGABYTE).hex(), "exchanges": [[message], [null(XID + 1).hex()]]}
    pair.server.run(SLOW.format("add"))
    with nothing_left(pair):
        ended, again, third = carried_out(pair, {**order, "revoked": True}, order, order)
    pair.server.run("tc qdisc del dev eth0 root")
    assert "completions failed" in ended.get("failed", "") and not ended["exchanges"], ended.get("failed")
    for found in (again, third):
        assert "failed" not in found, found["failed"]
    rejected, _ = again["exchanges"]
    assert [without_credits(bytes.fromhex(each)) for each in rejected] == [rejection(XID, 1, *CHUNK)], rejected
    assert not any(bytes.fromhex(again["memory"])) and bytes.fromhex(third["memory"]) == content


# Over iWARP each of the connections keeps a port of the client for a minute.
@test(
    "mutated calls beside a good client",
    *("V1-103", "V1-139"),
    server="ours",
    device="rxe",
    limit=300,
    allowed=REFUSALS,
)
def mutated(pair: Pair) -> None:
    """Calls with words changed at random, cut, or with others put in; a mount on the same server reads its data meanwhile.

    --rounds 6 has 60,000 of them, or 50 with --small.
    """
    count = pair.options.scaled(20_000, 2_000) * max(1, pair.options.rounds // 2)
    pair.mount("3")
    pair.client.run(f"head -c 4M /dev/urandom >{MOUNT_POINT}/good")
    digest = pair.client.run(f"sha256sum <{MOUNT_POINT}/good").out
    pair.umount()
    # KASAN keeps freed objects for a while, of many connections here.
    with nothing_left(pair, slack=2 * resources.noise(pair.options)):
        pair.mount("3")
        assert connections(pair) >= 1, "the mount has no connection"
        reader = pair.client.spawn(
            f"""
            until [ -e /share/mutated ]; do
                echo 3 >/proc/sys/vm/drop_caches
                [ "$(sha256sum <{MOUNT_POINT}/good)" = "{digest.strip()}" ] || exit 1
                echo read
            done
            """
        )
        (pair.client.share / "mutated").unlink(missing_ok=True)
        (found,) = carried_out(pair, {"private_data": REFUSES, "memory": bytes(4096).hex(), "mutated": [1, count]})
        (pair.client.share / "mutated").touch()
        assert "read" in pair.client.finish(reader, "the reader", 60).out
        pair.client.run(f"rm {MOUNT_POINT}/good")
        pair.umount()
    assert "failed" not in found, found
    done = found["mutated"]
    # All were sent, and there were good replies, errors, and connections that ended.
    assert done["sent"] == count and min(done["good"], done["errors"], done["ended"]) >= count // 100, done
