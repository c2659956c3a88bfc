# SPDX-License-Identifier: GPL-2.0
"""Calls that our server makes to its clients, over the connections of these."""

from __future__ import annotations

import re

from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.capture import capturing
from guests.lib.mountstats import calls
from guests.lib.recall import delegations, recall, take_delegation
from guests.lib.requester import NFS, REFUSES, XID, carried_out, null
from guests.peer import wire
from guests.peer.wire import words

CLIENTS = [{"client": client, "by": client} for client in ("ours", "in-tree")]
# The slots of the server, which it requests as credits.
SLOTS = 16


@test("recalls over connections of {by}", "BI-1", "BI-8", "BI-15", server="ours", cases=CLIENTS)
def recalled(pair: Pair, by: str) -> None:
    """A write on the server has nfsd call the client; nothing is called before the client has a session."""
    with capturing(pair.client, f"recall-{by}") as capture:
        recall(pair)
    calls = capture.decode("rpc.msgtyp == 0 && rpc.program >= 0x40000000", "frame.number", "rpcordma.flow_control")
    sessions = capture.decode("nfs.opcode == 43 && rpc.msgtyp == 0", "frame.number")
    assert calls and sessions, "tshark saw no call of the server, or no session"
    assert int(calls[0][0]) > int(sessions[0][0]), (calls[0], sessions[0])
    assert {int(credits) for _, credits in calls} == {SLOTS}, calls


@test("memory is flat over many recalls by {by}", "BI-13", "H-134", "H-135", server="ours", limit=120, cases=CLIENTS)
def many(pair: Pair, by: str) -> None:
    """Neither a page, nor a request, nor a Receive is lost with a call."""
    del by
    files, rounds = 100, pair.options.scaled(10, 4)
    pair.mount("4.2")
    seen = []
    for number in range(rounds):
        name = f"m{number}-"
        pair.server.run(f"cd /export; for i in $(seq {files}); do echo $i >{name}$i; done")
        take_delegation(pair, name, 4)
        pair.client.run(f"cd {MOUNT_POINT}; for i in $(seq {files}); do cat {name}$i; done >/dev/null", 60)
        before = calls(pair.client, MOUNT_POINT, "DELEGRETURN")
        pair.server.run(f"cd /export; rm -f {name}*", 60)
        wait_until(lambda name=name: not delegations(pair, name), "delegations are left", 20 * pair.options.slowness)
        assert calls(pair.client, MOUNT_POINT, "DELEGRETURN") > before
        seen.append(resources.memory(pair.server))
    pair.umount()
    # The caches of nfsd fill up in the first rounds.
    half = seen[len(seen) // 2 :]
    for kind in seen[0]:
        grown = half[-1][kind] - half[0][kind]
        assert grown < 1024, f"{kind} grew by {grown} KiB in {len(half)} rounds of {files} recalls: {half}"


# The operations of NFSv4.1 that make a session.
EXCHANGE_ID, CREATE_SESSION = 42, 43
CALLBACK_PROGRAM = 0x40000000
BACK_CHANNEL = 2


def opaque(data: bytes) -> bytes:
    """An opaque of variable length."""
    return words(len(data)) + data + bytes(-len(data) % 4)


def compound(operation: int, arguments: bytes) -> bytes:
    """A call with one operation of NFSv4.1."""
    body = wire.rpc_call(XID, NFS, 4, 1) + words(0, 1, 1, operation) + arguments
    return wire.msg(XID, 32, body)


def exchange_id(owner: str) -> bytes:
    """The call of a client with this name."""
    return compound(EXCHANGE_ID, bytes(8) + opaque(owner.encode()) + words(0, 0, 0))


def create_session(client: bytes, sequence: int) -> bytes:
    """The call for a session that the server may call back over."""
    attributes = words(0, 4096, 4096, 1024, 4, 4, 0)
    return compound(
        CREATE_SESSION,
        client + words(sequence, BACK_CHANNEL) + attributes * 2 + words(CALLBACK_PROGRAM, 1, 0),
    )


def result(message: str) -> bytes:
    """The result of the operation in an inline reply, behind its status."""
    _, payload = wire.decode(bytes.fromhex(message))
    # Six words of the RPC reply; then status, tag, number of results, operation and status.
    found = wire.Reader(payload[24:])
    assert [found.word() for _ in range(5)][::4] == [0, 0], f"the operation failed: {payload.hex()}"
    return found.rest


def header(credits: int, xid: str = "c" * 8, body: bytes = b"", proc: int = wire.RDMA_MSG) -> str:
    """A message in return to a call, with the placeholder of its xid in the header."""
    return xid + (words(1, credits, proc) + body).hex()


def reply(credits: int = 4, xid: str = "c" * 8, more: bytes = b"") -> str:
    """A good RPC reply, with `more` behind it."""
    return header(credits, xid, words(0, 0, 0)) + xid + (words(1, 0, 0, 0, 0) + more).hex()


GOOD = reply()
# Title, requirements, the messages in return to the first call of the server, and what nfsd thinks of the way back.
ANSWERS = [
    ("a good reply", ("BI-7",), [GOOD], "UP"),
    ("credits 0", ("BI-6",), [reply(0)], "UP"),
    ("credits 0xffffffff", ("BI-8",), [reply(0xFFFFFFFF)], "UP"),
    ("a reply to another xid first", ("BI-29",), [reply(4, "d" * 8), GOOD], "UP"),
    ("a reply that is cut first", ("BI-29",), [GOOD[:60], GOOD], "UP"),
    ("a reply with a chunk first", ("BI-24",), [header(4, body=words(0, 1, 0, 0, 0)) + GOOD[56:], GOOD], "UP"),
    ("an error about another xid first", ("BI-31",), [header(4, "d" * 8, words(2), 4), GOOD], "UP"),
    ("two replies", ("BI-29",), [GOOD, GOOD], "UP"),
    ("an error about the call", ("BI-31",), [header(4, body=words(2), proc=4)], "(?!UP|UNKNOWN).*"),
    ("an error about the version", ("BI-31",), [header(4, body=words(1, 1, 1), proc=4)], "(?!UP|UNKNOWN).*"),
    ("a reply longer than the call asks for", ("BI-19",), [reply(more=bytes(3000))], "(?!UP|UNKNOWN).*"),
]


@test(
    "calls of the server answered by: {title}",
    *("BI-9", "BI-22", "BI-23", "BI-24", "BI-25"),
    server="ours",
    cases=[{"title": title} for title, *_ in ANSWERS],
)
def answered(pair: Pair, title: str) -> None:
    """The server's call is well-formed; whatever comes in return, the connection stays, and calls over it are served."""
    ((_, _, answers, state),) = [row for row in ANSWERS if row[0] == title]
    owner = f"answers with {title}"
    (made,) = carried_out(pair, {"private_data": REFUSES, "exchanges": [[exchange_id(owner).hex()]]})
    assert "failed" not in made, made
    found = result(made["exchanges"][0][0])
    session = create_session(found[:8], int.from_bytes(found[8:12]))
    order = {
        "private_data": REFUSES,
        "exchanges": [[session.hex()], 1, *[[null().hex()]] * 3],
        "callbacks": [answers],
    }
    (done,) = carried_out(pair, order)
    assert "failed" not in done, done
    result(done["exchanges"][0][0])
    assert [len(replies) for replies in done["exchanges"]] == [1] * 4, done
    call, payload = wire.decode(bytes.fromhex(done["calls"][0]))
    assert (call["vers"], call["proc"], call["credits"]) == (1, wire.RDMA_MSG, SLOTS), call
    assert not call["read"] and not call["write"] and not call["reply"], call
    program = wire.Reader(payload)
    assert [program.word() for _ in range(6)] == [call["xid"], wire.CALL, 2, CALLBACK_PROGRAM, 1, 0], payload.hex()
    limit = 10 * pair.options.slowness
    wait_until(lambda: re.fullmatch(state, way_back(pair, owner)), f"nfsd's record of the way back: not {state}", limit)


def way_back(pair: Pair, owner: str) -> str:
    """The state of calls to the client with this name, as nfsd records it."""
    records = pair.server.run("cat /proc/fs/nfsd/clients/*/info", check=False).out.split("clientid:")
    (record,) = [record for record in records if f'name: "{owner}"' in record]
    return re.search(r"callback state: (\w+)", record)[1]
