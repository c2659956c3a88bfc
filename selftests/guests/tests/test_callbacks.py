# SPDX-License-Identifier: GPL-2.0
"""Calls that our server makes to its clients, over the connections of these."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guests.harness.network import CLIENT
from guests.harness.pair import MOUNT_POINT, Late, Pair, wait_until
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.capture import capturing
from guests.lib.connecting import PROVOKED
from guests.lib.mountstats import calls
from guests.lib.recall import delegations, recall, returns, server_view, take_delegation
from guests.lib.rules import rule
from guests.lib.requester import MEANWHILE, NFS, REFUSES, XID, carried_out, null
from guests.peer import wire
from guests.peer.wire import words

CLIENTS = [{"client": client, "by": client} for client in ("ours", "in-tree")]
# The slots of the server, which it requests as credits.
SLOTS = 16


@test(
    "recalls over connections of {by}",
    "BI-1",
    "BI-15",
    server="ours",
    cases=CLIENTS,
)
def recalled(pair: Pair, by: str) -> None:
    """A write on the server has nfsd call the client; nothing is called before the client has a session."""
    with capturing(pair.client, f"recall-{by}") as capture:
        recall(pair)
    calls = capture.decode(
        "rpc.msgtyp == 0 && rpc.program >= 0x40000000",
        "frame.number",
        "rpcordma.flow_control",
        "rpcrdma2.credit",
    )
    sessions = capture.decode("nfs.opcode == 43 && rpc.msgtyp == 0", "frame.number")
    assert sessions, "tshark saw no session"
    if not calls:
        raise Late("the client had returned the delegation before it was recalled")
    assert int(calls[0][0]) > int(sessions[0][0]), (calls[0], sessions[0])
    # Either version has a field of its own.
    assert {int(one or two) for _, one, two in calls} == {SLOTS}, calls


# Files of which each round of recalls has a delegation. After some hundred recalls nfsd gives few for half a minute.
ROUND = 50


@test(
    "memory is flat over many recalls by {by}",
    "BI-13",
    "H-134",
    "H-135",
    server="ours",
    limit=120,
    cases=CLIENTS,
)
def many(pair: Pair, by: str) -> None:
    """Neither a page, nor a request, nor a Receive is lost with a call. --rounds 200 makes 20,000 calls."""
    del by
    pair.mount("4.2")
    seen = []
    recalled, wanted = 0, 2 * ROUND * max(2, pair.options.rounds)
    while recalled < wanted:
        name = f"m{len(seen)}-"
        pair.server.run(f"cd /export; for i in $(seq {ROUND}); do echo $i >{name}$i; done")
        take_delegation(pair, name, 4)
        pair.client.run(
            f"cd {MOUNT_POINT}; for i in $(seq {ROUND}); do cat {name}$i; done >/dev/null",
            60,
        )
        before = calls(pair.client, MOUNT_POINT, "DELEGRETURN")
        pair.server.run(f"cd /export; rm -f {name}*", 60)
        wait_until(
            lambda name=name: not delegations(pair, name),
            "delegations are left",
            20 * pair.options.slowness,
        )
        returned = calls(pair.client, MOUNT_POINT, "DELEGRETURN") - before
        assert returned > 0
        recalled += returned
        seen.append(resources.memory(pair.server))
    pair.umount()
    # The caches of nfsd fill up in the first rounds.
    half = seen[len(seen) // 2 :]
    for kind in seen[0]:
        grown = half[-1][kind] - half[0][kind]
        assert grown < resources.noise(pair.options), (
            f"{kind} grew by {grown} KiB in {len(half)} of {len(seen)} rounds, {recalled} recalls: {half}"
        )


# Operations of NFSv4.1.
OPEN, PUTROOTFH, EXCHANGE_ID, CREATE_SESSION, SEQUENCE, RECLAIM_COMPLETE = (
    18,
    24,
    42,
    43,
    53,
    58,
)
CB_RECALL, CB_SEQUENCE = 4, 11
CALLBACK_PROGRAM = 0x40000000
BACK_CHANNEL = 2
READ_DELEGATION = 0x101
# OPEN_DELEGATE_NONE_EXT, WND4_RESOURCE, and no word when one becomes available.
NO_DELEGATION = words(3, 2, 0).hex()
# Bytes in front of an inline reply's results: header, RPC reply; status, tag, number of results; operation, status.
RESULTS = 28 + 24 + 12 + 8


def text(*parts: int | bytes | str) -> str:
    """Hexadecimal digits of words, of bytes, and of placeholders."""
    of = {int: lambda part: words(part).hex(), bytes: bytes.hex, str: str}
    return "".join(of[type(part)](part) for part in parts)


def opaque(data: str) -> bytes:
    """An opaque of variable length."""
    return words(len(data)) + data.encode() + bytes(-len(data) % 4)


def compound(*operations: str, **version: int) -> str:
    """A call with operations of NFSv4.1, by root."""
    credential = words(1, 20, 0, 0, 0, 0, 0)
    call = words(XID, wire.CALL, 2, NFS, 4, 1) + credential + words(0, 0)
    return text(wire.msg(XID, 32, call, **version), words(0, 1, len(operations)), *operations)


def session(owner: str, *files: str, **version: int) -> list[object]:
    """The calls of a client that gets a delegation of each file."""
    attributes = words(0, 4096, 4096, 1024, 4, 4, 0)
    calls = [
        [text(EXCHANGE_ID, bytes(8), opaque(owner), words(0, 0, 0))],
        [
            text(
                CREATE_SESSION,
                "{client}{sequence}",
                BACK_CHANNEL,
                attributes * 2,
                CALLBACK_PROGRAM,
                words(1, 0),
            )
        ],
        [text(SEQUENCE, "{session}", 1, 0, 0, 0), text(RECLAIM_COMPLETE, 0)],
    ]
    return [*([compound(*operations, **version)] for operations in calls), *taking(owner, files, version)]


def taking(owner: str, files: tuple[str, ...], version: dict[str, int]) -> Iterator[object]:
    """The calls for delegations. nfsd gives none during its grace period, or while it makes the way back."""
    for slot, file in enumerate(files, 1):
        opened = text(words(0, READ_DELEGATION, 0), "{client}", opaque(owner), words(0, 0), opaque(file))
        operations = (text(SEQUENCE, "{session}{turn}", slot, slot, 0), text(PUTROOTFH), text(OPEN, opened))
        call = compound(*operations, **version)
        yield {"messages": [call], "while": NO_DELEGATION}


TRACE = "/sys/kernel/tracing"
EIO = 5
KEEP = {
    "client": [0, RESULTS, 8],
    "sequence": [0, RESULTS + 8, 4],
    "session": [1, RESULTS, 16],
}


def header(credits: int, xid: str = "c" * 8, proc: int = wire.RDMA_MSG) -> str:
    """The start of a message in return to a call."""
    return text(xid, 1, credits, proc)


def reply(credits: int = 4, xid: str = "c" * 8, chunks: bytes = bytes(12), more: bytes = b"") -> str:
    """The reply of a client that has returned the delegation, with `more` behind it."""
    results = text(CB_SEQUENCE, 0, "{88-116}{112-116}", CB_RECALL, 0)
    return text(
        header(credits, xid),
        chunks,
        xid,
        words(1, 0, 0, 0, 0),
        words(0, 0, 2),
        results,
        more,
    )


GOOD = reply()
# Title, requirements, the messages in return to each call of the server, and the outcome for nfsd.
ANSWERS = [
    ("a good reply", ("BI-7",), [[GOOD]], 0),
    ("credits 0", ("BI-6",), [[reply(0)]], 0),
    ("credits 0xffffffff", ("BI-8",), [[reply(0xFFFFFFFF)]], 0),
    ("a reply to another xid first", ("BI-29",), [[reply(4, "d" * 8), GOOD]], 0),
    ("a reply that is cut, and a good one to the call that comes again", ("BI-29",), [[GOOD[:80]], [GOOD]], 0),
    ("a reply with a chunk first", ("BI-24",), [[reply(4, chunks=words(0, 1, 0, 0, 0)), GOOD]], 0),
    ("an error about another xid first", ("BI-31",), [[text(header(4, "d" * 8, 4), 2), GOOD]], 0),
    ("two replies", ("BI-29",), [[GOOD, GOOD]], 0),
    ("an error about the call", ("BI-31",), [[text(header(4, proc=4), 2)]], -EIO),
    ("an error about the version", ("BI-31",), [[text(header(4, proc=4), 1, 1, 1)]], -EIO),
    ("a reply longer than the call asks for", ("BI-19",), [[reply(more=bytes(3000))]], -EIO),
]


@test(
    "a recall answered by: {title}",
    *("BI-5", "BI-7", "BI-22", "BI-23", "BI-24", "BI-25"),
    server="ours",
    cases=[{"title": title} for title, *_ in ANSWERS],
)
def answered(pair: Pair, title: str) -> None:
    """The server's call is well-formed; whatever comes in return, the connection stays, and calls over it are served."""
    (number,) = [number for number, row in enumerate(ANSWERS) if row[0] == title]
    answers, outcome = ANSWERS[number][2:]
    owner, file = f"client {number}", f"answer-{number}"
    pair.server.run(
        f"echo data >/export/{file}; cd {TRACE}; echo 1 >events/nfsd/nfsd_cb_seq_status/enable; echo >trace"
    )
    # An open that does not wait for the delegation.
    writer = pair.server.spawn(
        f"""
        until grep -qs 'deleg.*"/{file}"' /proc/fs/nfsd/clients/*/states; do sleep 0.1; done
        ! dd of=/export/{file} oflag=nonblock conv=notrunc count=0
        """
    )
    order = {
        "private_data": REFUSES,
        "keep": KEEP,
        "exchanges": [*session(owner, file), len(answers), MEANWHILE, *[[null().hex()]] * 3],
        "callbacks": answers,
    }
    # A client that has gone ends its calls with another error.
    traced = f"until grep -q tk_status= {TRACE}/trace; do sleep 0.1; done"
    (done,) = carried_out(pair, order, until=lambda: pair.server.run(traced, 20))
    assert "failed" not in done, done
    pair.server.finish(writer, "the writer", 10)
    assert [len(replies) for replies in done["exchanges"]] == [1] * 7, done
    call, payload = wire.decode(bytes.fromhex(done["calls"][0]))
    assert (call["vers"], call["proc"], call["credits"]) == (1, wire.RDMA_MSG, SLOTS), call
    assert not call["read"] and not call["write"] and not call["reply"], call
    words_of_call = wire.Reader(payload)
    assert [words_of_call.word() for _ in range(6)] == [
        call["xid"],
        wire.CALL,
        2,
        CALLBACK_PROGRAM,
        1,
        1,
    ], payload.hex()
    (status, *_) = re.findall(r"tk_status=(-?\d+)", pair.server.run(f"cat {TRACE}/trace").out)
    assert int(status) == outcome, f"the call ended with {status}"


TWO = {"vers": 2, "direction": wire.CALL}
# The header of version 2 has a word more.
KEEP_TWO = {name: [exchange + 1, at + 4, length] for name, (exchange, at, length) in KEEP.items()}


@test("a client of version 2 that takes no calls", "XC-81", "XC-83", server="ours")
def deaf(pair: Pair) -> None:
    """One that announces so gets none, and its session is told that it has no way back; that of another client has."""
    # nfsd tells it in the last word of a sequence.
    sequence = compound(text(SEQUENCE, "{session}{turn}", 1, 1, 0), **TWO)
    none = words(0).hex()
    for takes in (0, 1):
        file = f"deaf-{takes}"
        pair.server.run(f"echo data >/export/{file}")
        init = wire.characteristics((wire.BRS, takes)) + words(0)
        # The second one has a reply.
        announced = [
            wire.optional(0x2001, 32, wire.CALL, wire.INITXCH, init).hex(),
            wire.msg(XID, 32, null()[28:], **TWO).hex(),
        ]
        calls = session(f"client that takes {takes}", *[file] * takes, **TWO)
        told = [] if takes else [{"messages": [sequence], "while": none}]
        order = {"private_data": REFUSES, "keep": KEEP_TWO, "exchanges": [announced, *calls, *told]}
        with rule(pair.server, "two", side="server", peer=CLIENT.ipv4, version="2"):
            (done,) = carried_out(pair, order)
        assert "failed" not in done and not done["calls"], done


# Calls that do nothing, one after the other: more time than a call of the server takes that nothing holds back.
A_WHILE = [[null().hex()]] * 10
# Opens files together, without waiting for the delegations.
OPENS = """
import os, sys
for file in sys.argv[1:]:
    try:
        os.open(file, os.O_WRONLY | os.O_NONBLOCK)
    except BlockingIOError:
        pass
"""


@test(
    "three recalls at a time, and a grant of {grant}",
    *("BI-2", "BI-4", "BI-8", "BI-9", "BI-21", "BI-35"),
    server="ours",
    limit=90,
    cases=[{"grant": 1}, {"grant": 16}],
)
def granted(pair: Pair, grant: int) -> None:
    """Before the first reply, and with a grant of one, one recall is on its way. The next connection starts afresh."""
    for connection in "first", "second":
        name = f"{connection}-{grant}-"
        files = [f"{name}{number}" for number in range(3)]
        opens = f"python3 -c '{OPENS}' {' '.join(f'/export/{file}' for file in files)}"
        pair.server.run(f"cd /export; touch {' '.join(files)}")
        held = f"cat /proc/fs/nfsd/clients/*/states 2>/dev/null | grep -c 'deleg.*\"/{name}'"
        writer = pair.server.spawn(f"until [ $({held}) = 3 ]; do sleep 0.1; done\n{opens}")
        most = min(3, 1 + grant)
        steps = [
            *[*session(f"client of {name}", *files), 1, *A_WHILE],
            *[{"call": 0, "answers": [reply(grant)]}, most, *A_WHILE],
            *[{"call": 1, "answers": [reply(grant)]}, 3, {"call": 2, "answers": [GOOD]}, [null().hex()]],
        ]
        (done,) = carried_out(pair, {"private_data": REFUSES, "keep": KEEP, "exchanges": steps})
        assert "failed" not in done, done
        pair.server.finish(writer, "the writer", 10)
        seen = done["seen"][6:]
        assert seen == [1] * 10 + [most] * 10 + [3], f"calls seen on the {connection} connection: {seen}"
        headers = [wire.decode(bytes.fromhex(call)) for call in done["calls"]]
        xids = [header["xid"] for header, _ in headers]
        assert len(set(xids)) == 3 and xids == [wire.Reader(payload).word() for _, payload in headers], headers


@test(
    "a recall that finds no connection",
    "BI-17",
    server="ours",
    client="ours",
    limit=120,
    device="rxe",
    allowed=PROVOKED,
)
def unconnected(pair: Pair) -> None:
    """The server waits for the client, and makes the call over the next connection; the delegation is not revoked."""
    name = "unconnected-"
    pair.server.run(f"cd /export; for i in $(seq 8); do echo one >{name}$i; done")
    pair.mount("4.2")
    shared = take_delegation(pair, name, 8)
    before = calls(pair.client, MOUNT_POINT, "DELEGRETURN")
    pair.client.run("rdma link delete rxe0", 30)
    writer = pair.server.spawn(f"echo two >>/export/{shared}")
    wait_until(lambda: "callback state: UP" not in server_view(pair, "info"), "the server found a connection", 20)
    pair.client.run(f"rdma link add rxe0 type rxe netdev eth0; stat {MOUNT_POINT}/{name}1", 60)
    pair.server.finish(writer, "the writer", 60)
    assert returns(pair, before + 1) > before, "the delegation was not returned"
    assert pair.client.run(f"cat {MOUNT_POINT}/{shared}", 60).out == "one\ntwo\n"
    pair.umount()
