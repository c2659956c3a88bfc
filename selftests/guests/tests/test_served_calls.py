# SPDX-License-Identifier: GPL-2.0
"""Arguments and results of calls to our server, inline and in chunks of any form."""

from __future__ import annotations

from guests.harness.network import SERVER
from guests.harness.pair import Pair
from guests.harness.registry import test
from guests.lib.capture import capturing
from guests.lib.ibfault import faults
from guests.lib.nfsd import RESTART
from guests.lib.private_data import Sent, sends
from guests.lib.requester import (
    BARE,
    CHUNK,
    READ,
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


@test(
    "arguments in Read chunks of any form",
    *("V1-16", "V1-72", "V1-73", "V1-76", "V1-77", "V1-78", "V1-80", "V1-107"),
    server="ours",
)
def arguments(pair: Pair) -> None:
    """A WRITE is executed with its bytes in the right places, and zeros where padding is missing."""
    pair.mount("3")  # so that nfsd knows the client
    pair.umount()
    pair.server.run(": >/export/chunks")
    fh, data = opaque(handle_of(pair, "/export/chunks")), bytes(range(1, 251)) * 8
    size = len(data)

    start = call(WRITE, fh + words(0, 0, size, 2, size))
    whole = start + data
    forms = {
        "one chunk": (read_list((len(start), segment(size))) + words(0, 0).hex(), wire.RDMA_MSG, start, data),
        "behind an empty segment": (
            read_list((len(start), segment(0)), (len(start), segment(size)), (len(start), segment(0)))
            + words(0, 0).hex(),
            wire.RDMA_MSG,
            start,
            data,
        ),
        "a Long call": (read_list((0, segment(len(whole)))) + words(0, 0).hex(), wire.RDMA_NOMSG, b"", whole),
        "a Long call with bytes behind its header": (
            read_list((0, segment(len(whole)))) + words(0, 0).hex(),
            wire.RDMA_NOMSG,
            bytes(range(99)),
            whole,
        ),
        "two bytes short of its count": (
            read_list((len(start), segment(size - 2))) + words(0, 0).hex(),
            wire.RDMA_MSG,
            start,
            data,
        ),
    }
    forms["a Long call between empty segments"] = (
        read_list((0, segment(0)), (0, segment(len(whole))), (0, segment(0))) + words(0, 0).hex(),
        wire.RDMA_NOMSG,
        b"",
        whole,
    )
    # Both chunks are of the same memory, and the bytes between them are in the message.
    two = (len(start), segment(1000)), (len(start) + 1500, segment(500))
    between = start + data[1000:1500]
    for title, chunks in (("two chunks", two), ("two chunks, the last one first", two[::-1])):
        forms[title] = (read_list(*chunks) + words(0, 0).hex(), wire.RDMA_MSG, between, data[:1000])
    padded = call(WRITE, fh + words(0, 0, size - 2, 2, size - 2))
    forms["with bytes for padding"] = (
        read_list((len(padded), segment(size))) + words(0, 0).hex(),
        wire.RDMA_MSG,
        padded,
        data,
    )
    for number, (title, (lists, proc, inline, memory)) in enumerate(forms.items()):
        pair.server.run("truncate -s 0 /export/chunks")
        # nfsd would reply to a call with the same xid without executing it.
        xid = words(0x5000 + number)
        inline, memory = (xid + part[4:] if part[:4] == start[:4] else part for part in (inline, memory))
        message = header(lists, proc, 0x5000 + number) + inline.hex()
        before: list[list[str]] = []
        if "short" in title:
            # Calls with ones where padding is missing: their pages are the next that the server takes.
            memory = memory[:-2] + b"\xff" * (8192 - size + 2)
            full = call(WRITE, fh + words(0, 0, 8192, 2, 8192))
            lists = read_list((len(full), segment(8192))) + words(0, 0).hex()
            before = [[header(lists, proc, xid) + words(xid).hex() + full[4:].hex()] for xid in range(0x6000, 0x6010)]
        order = {"private_data": REFUSES, "memory": memory.hex(), "exchanges": [*before, [message]]}
        (found,) = carried_out(pair, order)
        assert "failed" not in found, f"{title}: {found}"
        assert all(status(done[0]) == (wire.SUCCESS, 0) for done in found["exchanges"]), f"{title}: {found}"
        expected = data[:-2] + b"\0\0" if "short" in title else data[:-2] if "padding" in title else data
        expected = data[:1500] + data[:500] if "two chunks" in title else expected
        shown = pair.server.run(f"head -c {size} /export/chunks | od -An -v -tx1").out
        written = "".join(shown.split())
        assert written == expected.hex(), f"{title}: {len(written) // 2} bytes, {written[-16:]}"


@test(
    "results in Write chunks of any form",
    *("V1-46", "V1-50", "V1-53", "V1-56", "V1-85", "V1-86", "V1-87", "V1-88", "V1-94", "V1-96", "V1-98", "V1-150"),
    server="ours",
    device="rxe",
)
def results(pair: Pair) -> None:
    """The data of a READ is written to its chunk in front of the reply, as far as that has room, with the lengths."""
    fh, content = export_file(pair, 1000)
    read = read_of(fh, 999).hex()
    content = content[:999]

    def answer(chunks: str) -> tuple[dict[str, object], bytes, bytes]:
        message = header(words(0).hex() + chunks) + read
        (found,) = carried_out(pair, {"private_data": REFUSES, "memory": bytes(1200).hex(), "exchanges": [[message]]})
        assert "failed" not in found, f"{chunks}: {found}"
        return *wire.decode(bytes.fromhex(found["exchanges"][0][0])), bytes.fromhex(found["memory"])

    def lengths(head: dict[str, object]) -> list[list[int]]:
        return [[segment["length"] for segment in chunk] for chunk in head["write"]]

    one = words(1, 1).hex() + segment(1200) + words(0, 0).hex()
    with capturing(pair.client, "results") as capture:
        head, payload, memory = answer(one)
    # Neither the data nor its padding is in the message, and no padding in the chunk.
    assert memory == content + bytes(201) and lengths(head) == [[999]], head
    assert len(payload) == READ_RESULTS, payload
    assert sends(capture, SERVER.ipv4) == [Sent(len(payload) + 52, "", 999)], sends(capture, SERVER.ipv4)
    # All segments are of the same memory: the second is written over the first. A second chunk has no result.
    segments = words(1, 3).hex() + segment(600) + segment(600) + segment(100)
    head, payload, memory = answer(segments + words(1, 1).hex() + segment(50) + words(0, 0).hex())
    assert memory == content[600:] + content[399:600] + bytes(600) and lengths(head) == [[600, 399, 0], [0]], head
    # No result of GETATTR may be placed.
    message = header(words(0).hex() + one) + call(1, fh).hex()
    (found,) = carried_out(pair, {"private_data": REFUSES, "memory": bytes(1200).hex(), "exchanges": [[message]]})
    head, payload = wire.decode(bytes.fromhex(found["exchanges"][0][0]))
    assert lengths(head) == [[0]] and len(payload) == 24 + 4 + 84 and not any(bytes.fromhex(found["memory"])), found
    # Without segments the data is inline.
    head, payload, memory = answer(words(1, 0, 0, 0).hex())
    assert head["write"] == [[]] and payload[READ_RESULTS:] == content + b"\0" and memory == bytes(1200), head
    # READDIR has no result that may be placed either, and no data lies behind the end of a file.
    for procedure, arguments in ((16, words(0, 0, 0, 0, 512)), (READ, words(0, 5000, 100))):
        of = opaque(handle_of(pair, "/export")) if procedure != READ else fh
        message = header(words(0).hex() + segments + words(1, 1).hex() + segment(50) + words(0, 0).hex())
        message += call(procedure, of + arguments).hex()
        (found,) = carried_out(pair, {"private_data": REFUSES, "memory": bytes(1200).hex(), "exchanges": [[message]]})
        head, payload = wire.decode(bytes.fromhex(found["exchanges"][0][0]))
        assert status(found["exchanges"][0][0]) == (wire.SUCCESS, 0) and lengths(head) == [[0, 0, 0], [0]], found
        assert not any(bytes.fromhex(found["memory"])), found
    # A Reply chunk for a reply that fits stays empty beside the data.
    head, payload, memory = answer(words(1, 1).hex() + segment(1200) + words(0, 1, 1).hex() + segment(1200))
    assert memory == content + bytes(201) and lengths(head) == [[999]], head
    assert [piece["length"] for piece in head["reply"]] == [0] and len(payload) == READ_RESULTS, head
    # A byte for each of many segments, all at the same place: the last one stays.
    many = words(1, 200).hex() + segment(1) * 200 + words(0, 0).hex()
    message = header(words(0).hex() + many) + read_of(fh, 100).hex()
    (found,) = carried_out(pair, {"private_data": REFUSES, "memory": bytes(1200).hex(), "exchanges": [[message]]})
    head, _ = wire.decode(bytes.fromhex(found["exchanges"][0][0]))
    assert lengths(head) == [[1] * 100 + [0] * 100], head
    assert bytes.fromhex(found["memory"]) == content[99:100] + bytes(1199), found["memory"][:16]
    # A chunk that is too small, of data with padding and without: the call is rejected, and nothing is written.
    for length in (999, 1000):
        message = header(words(0, 1, 1).hex() + segment(900) + words(0, 0).hex()) + read_of(fh, length).hex()
        (found,) = carried_out(pair, {"private_data": REFUSES, "memory": bytes(1200).hex(), "exchanges": [[message]]})
        (reply,) = map(bytes.fromhex, found["exchanges"][0])
        assert without_credits(reply) == rejection(XID, 1, *CHUNK) and not any(bytes.fromhex(found["memory"])), found


@test("long replies, with and without a Reply chunk for them", "V1-47", "V1-51", "V1-56", "V1-100", server="ours")
def reply_chunks(pair: Pair) -> None:
    """A reply that does not fit goes to the Reply chunk; if that has too little room, the call is rejected."""
    fh, content = export_file(pair, 6000)
    whole = READ_RESULTS + 6000
    chunk = words(0, 0, 1, 1).hex()
    message = header(chunk + segment(whole)) + read_of(fh, 6000).hex()
    order = {"private_data": REFUSES, "memory": bytes(whole).hex()}
    long, short, small, none = carried_out(
        pair,
        {**order, "exchanges": [[message]]},
        {**order, "exchanges": [[header(chunk + segment(whole)) + read_of(fh, 300).hex()]]},
        {**order, "exchanges": [[header(chunk + segment(whole - 4)) + read_of(fh, 6000).hex()]]},
        {**order, "exchanges": [[header(BARE) + read_of(fh, 6000).hex()]]},
    )
    head, _ = wire.decode(bytes.fromhex(long["exchanges"][0][0]))
    assert (head["proc"], head["reply"][0]["length"]) == (wire.RDMA_NOMSG, whole), head
    assert bytes.fromhex(long["memory"])[READ_RESULTS:] == content, long["memory"][:256]
    head, payload = wire.decode(bytes.fromhex(short["exchanges"][0][0]))
    assert (head["proc"], head["reply"][0]["length"]) == (wire.RDMA_MSG, 0), head
    assert payload[READ_RESULTS:] == content[:300] and not any(bytes.fromhex(short["memory"])), payload
    for found in (small, none):
        (reply,) = found["exchanges"][0]
        assert without_credits(bytes.fromhex(reply)) == rejection(XID, 1, *CHUNK), found
        assert not any(bytes.fromhex(found["memory"])), "bytes of a reply that was not sent"


@test("a reply that the device of the server refuses", "V1-121", server="ours")
def refused_reply(pair: Pair) -> None:
    """The connection ends, so that the client need not wait for it; the next one works."""
    with faults(pair, guest=pair.server) as device:
        device.refuse("post_send")
        found, good = carried_out(pair, *[{"exchanges": [[null().hex()]]}] * 2)
        assert device.refused("post_send") == 1, "no reply was refused"
        pair.server.run(RESTART)
    assert "failed" in found and "silence" not in found["failed"], found
    assert "failed" not in good, good


@test("arguments that cannot be decoded", "V1-109", server="ours")
def garbage(pair: Pair) -> None:
    """With a good header in front of them, they get an RPC reply."""
    fh, _ = export_file(pair, 8)
    start = call(WRITE, fh + words(0, 0, 3000, 2, 3000))
    messages = {
        "a file handle that is too long": header(BARE) + call(1, words(100) + bytes(100)).hex(),
        "bytes that are missing": header(BARE) + (start + bytes(2000)).hex(),
        "a chunk that is too short": header(read_list((len(start), segment(2000))) + words(0, 0).hex()) + start.hex(),
    }
    order = {"private_data": REFUSES, "memory": bytes(2000).hex(), "exchanges": [[m] for m in messages.values()]}
    (found,) = carried_out(pair, order)
    assert "failed" not in found, found
    for title, (reply,) in zip(messages, found["exchanges"], strict=True):
        assert status(reply)[0] == wire.GARBAGE_ARGS, f"{title}: {reply}"
