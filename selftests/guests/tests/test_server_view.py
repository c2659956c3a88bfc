# SPDX-License-Identifier: GPL-2.0
"""What an administrator of our server sees and sets: the table, counters, sysctls, and rules for clients."""

from __future__ import annotations

import json
import re

from guests.harness.config import REPO
from guests.harness.network import CLIENT
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.capture import capturing
from guests.lib.documentation import names
from guests.lib.parameters import parameters
from guests.lib.requester import (
    MEANWHILE,
    REFUSES,
    TAKES,
    XID,
    carried_out,
    export_file,
    header,
    null,
    read_list,
    read_of,
    segment,
)
from guests.lib.rules import rule
from guests.lib.sight import DIRECTORY, served, table
from guests.peer import wire
from guests.peer.wire import words

TRACING = "/sys/kernel/tracing"
SYSCTLS = "/proc/sys/sunrpc/svc_rdma"
PAGE = "reference.rst"
# The log of the server.
REFUSED = (r"\S+ port \d+: refused: .*",)


@test("a client in the table, in its file and in JSON", "PD-14", "PD-18", server="ours", client="ours", device="rxe")
def shown(pair: Pair) -> None:
    """Both sides have the same thresholds, the client's `own` being the server's `peer`; the names are the documented ones."""
    with rule(pair.server, "lab", side="server", peer=f"{CLIENT.ipv4}/32", inline_send=8192, credits=40):
        pair.mount("4.2")
        pair.client.run(f"ls {MOUNT_POINT}")
        ours = table(pair.client)[NFS_PORT]
        ((port, row),) = table(pair.server, "server").items()
        assert (row["peer"], row["state"], row["rule"], row["device"]) == (CLIENT.ipv4, "connected", "lab", "rxe0"), row
        assert (ours["call"], ours["reply"]) == (row["call"], row["reply"]) == ("4096", "4096"), (ours, row)
        assert (ours["reply_by"], row["reply_by"]) == ("own", "peer"), (ours, row)
        assert (ours["asked"], ours["grant"]) == (row["asked"], row["grant"]), (ours, row)
        assert int(row["grant"]) <= 40 and row["used"] == "0", row
        file = pair.server.run(f"cd {DIRECTORY}; grep -l '^peer {CLIENT.ipv4} port {port}$' svc-*").out.strip()
        lines = [line.split()[0] for line in pair.server.run(f"cat {DIRECTORY}/{file}").lines]
        documented = [names(PAGE, f"{kind} of a client's connection") for kind in ("Lines", "Counters")]
        assert lines == sum(documented, []), lines
        assert file == f"svc-{row['xprt']}", file
        (found,) = served(pair.server)
        assert found["client_said"] == "that: send 4096 receive 4096 remote_invalidation on", found
        assert found["we_said"] == "that: send 8192 receive 4096 remote_invalidation on", found
        assert found["inline_reply"] == "4096 limited by peer" and found["reverse"] == "on", found
        shown = json.loads(pair.server.run(f"python3 -I -S {tool_in(pair)} show {file} --json").out)
        assert (shown["side"], shown["peer"]["port"], list(shown["counters"])) == ("server", port, documented[1]), shown
        (listed,) = json.loads(pair.server.run(f"python3 -I -S {tool_in(pair)} show --json").out)
        assert listed["inline_reply"] == {"bytes": 4096, "limited_by": "peer"}, listed
        pair.umount()
    wait_until(lambda: not served(pair.server), "the file of the connection stays", 30 * pair.options.slowness)


def tool_in(pair: Pair) -> str:
    """The tool in the server guest."""
    return pair.send(pair.server, REPO / "tools/rpcrdma")


@test(
    "counters of the server",
    *("V1-36", "BI-29", "PD-44", "V1-17", "V1-118"),
    server="ours",
    device="rxe",
)
def counted(pair: Pair) -> None:
    """Each message of a client is counted as what it is."""
    fh, _ = export_file(pair, 4096)
    good = null().hex()
    offered = header(words(0, 1, 1).hex() + segment(500) + words(0, 0).hex()) + read_of(fh, 500).hex()
    unknown = words(XID, 1, 8, wire.RDMA_MSG, 0, 0, 0, XID, wire.REPLY, 0, 0, 0, 0, 0).hex()
    order = {
        "memory": bytes(500).hex(),
        "exchanges": [
            [words(XID, 2, 32, 0).hex()],
            [words(XID, 1, 32, 9).hex()],
            ["00" * 12, words(XID, 1, 32, wire.RDMA_DONE).hex(), unknown, good],
            [offered],
            # The grant to a client that requests none is 1.
            [null(credits=0).hex()],
            [null(XID + number, credits=1).hex() for number in range(8)],
            MEANWHILE,
        ],
    }
    found: dict[str, str] = {}

    def look() -> None:
        wait_until(lambda: seen()["calls"] == "11", "calls are missing", 30 * pair.options.slowness)
        found.update(seen())

    def seen() -> dict[str, str]:
        connections = served(pair.server)
        return connections[0] if connections else {"calls": ""}

    (done,) = carried_out(pair, order, until=look)
    assert "failed" not in done, done
    assert found["client_said"] == "nothing, so: send 1024 receive 1024 remote_invalidation off", found
    expected = {
        "received": 16,
        "calls": 11,
        "read_segments": 0,
        "write_segments": 1,
        "written_bytes": 500,
        "remote_invalidates": 0,
        "version_errors": 1,
        "header_errors": 1,
        "unknown_callbacks": 1,
        "short": 1,
        "done": 1,
        "version": 1,
        "malformed": 1,
        "bad_reply": 0,
    }
    assert {name: int(found[name]) for name in expected} == expected, found
    # As many as the threads have not taken before the next one came.
    assert int(found["excess_calls"]) <= 7, found


@test("calls beyond the grant are served and counted", "V1-36", server="ours", device="rxe")
def excess(pair: Pair) -> None:
    """All get replies. One at least meets another that has none yet, if not on the first connection."""
    slow = read_list((40, segment(30000))) + words(0, 0).hex() + null().hex()[56:]
    burst = [header(slow), *[null(XID + number, credits=1).hex() for number in range(1, 20)]]
    order = {
        "private_data": REFUSES,
        "memory": bytes(30000).hex(),
        "exchanges": [[null(credits=1).hex()], burst, MEANWHILE],
    }
    counts: list[int] = []

    def look() -> None:
        def is_served() -> bool:
            connections = [one for one in served(pair.server) if one["calls"] == "21"]
            counts.extend(int(one["excess_calls"]) for one in connections)
            return bool(connections)

        wait_until(is_served, "calls are missing", 30 * pair.options.slowness)

    while not any(counts) and len(counts) < 50:
        (done,) = carried_out(pair, order, until=look)
        assert "failed" not in done, done
        wait_until(lambda: not served(pair.server), "the connection stays", 30 * pair.options.slowness)
    assert 0 < max(counts) < 20, counts


@test("trace events of the server", server="ours", device="rxe")
def traced(pair: Pair) -> None:
    """The life of a connection, a call with data in both directions, and a message that cannot be used."""
    fh, _ = export_file(pair, 4096)
    read = read_of(fh, 600)
    # Behind the arguments, where nfsd does not look.
    one = read_list((len(read), segment(500))) + words(1, 1).hex() + segment(600) + words(0, 0).hex()
    order = {
        "private_data": REFUSES,
        "memory": bytes(600).hex(),
        "exchanges": [[header(one) + read.hex()], [words(XID, 2, 32, 0).hex()]],
    }
    server = pair.server
    server.run("mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing")
    server.run(f"cd {TRACING}; echo >trace; echo 1 | tee events/rpcrdma_rs/svcrdma_*/enable")
    (done,) = carried_out(pair, order)
    assert "failed" not in done, done
    wait_until(lambda: not served(server), "the connection stays", 30 * pair.options.slowness)
    lines = server.run(f"cd {TRACING}; echo 0 | tee events/rpcrdma_rs/svcrdma_*/enable >/dev/null; cat trace").lines
    found = [re.sub(r".*: (svcrdma_\w+): xprt=\d+ ?", r"\1 ", line) for line in lines if ": svcrdma_" in line]
    xid = f"xid=0x{XID:08x}"
    length = len(bytes.fromhex(order["exchanges"][0][0].replace("h" * 8, "0" * 8).replace("o" * 16, "0" * 16)))
    # The clock of native guests has steps of 10 ms: lines of two processors come in any order.
    assert sorted(found) == [
        f"svcrdma_accept client={CLIENT.ipv4} sent=f6ab0e1801010303 received={REFUSES} inline_send=4096"
        " inline_recv=4096 credits=128",
        f"svcrdma_call {xid} count={length}",
        "svcrdma_close reason=the client hung up",
        f"svcrdma_read {xid} count=500",
        f"svcrdma_reply {xid} count={128 + 600}",
        f"svcrdma_unusable {xid} reason=unsupported version",
        f"svcrdma_write {xid} count=600",
    ], found


@test("sysctls of the server", server="ours", device="rxe")
def sysctls(pair: Pair) -> None:
    """They have the names and ranges of the in-tree module; sums begin anew when 0 is written to them."""
    server = pair.server
    found = server.run(f"ls {SYSCTLS}").lines
    assert sorted(found) == sorted(names(PAGE, "Sysctls of the server")), found

    def read(name: str) -> int:
        return int(server.run(f"cat {SYSCTLS}/{name}").out)

    for name, parameter, first, last in (
        ("max_requests", "server_credits", 4, 16384),
        ("max_req_size", "server_inline", 1024, 262144),
        ("max_outbound_read_requests", "server_reads", 1, 255),
    ):
        before = read(name)
        for value in (first, last, before):
            server.run(f"sysctl -q sunrpc.svc_rdma.{name}={value}")
            assert int(server.run(f"cat /sys/module/rpcrdma_rs/parameters/{parameter}").out) == value, name
        for value in (first - 1, last + 1):
            done = server.run(f"sysctl -q sunrpc.svc_rdma.{name}={value}", check=False)
            assert "Invalid argument" in done.out and read(name) == before, done
    fh, content = export_file(pair, 3000)
    server.run(f"for name in recv read write sq_starve; do echo 0 >{SYSCTLS}/rdma_stat_$name; done")
    assert [read(f"rdma_stat_{name}") for name in ("recv", "read", "write")] == [0, 0, 0]
    offered = header(words(0, 1, 2).hex() + segment(1000) + segment(2000) + words(0, 0).hex()) + read_of(fh, 3000).hex()
    order = {"private_data": REFUSES, "memory": bytes(3000).hex(), "exchanges": [[null().hex()], [offered]]}
    (done,) = carried_out(pair, order)
    # The second segment has the same place.
    assert "failed" not in done and bytes.fromhex(done["memory"])[:2000] == content[1000:], done
    # Connections that have ended count, too.
    wait_until(lambda: not served(server), "the connection stays", 30 * pair.options.slowness)
    assert [read(f"rdma_stat_{name}") for name in ("recv", "read", "write")] == [2, 0, 2]
    done = server.run(f"/bin/echo 7 >{SYSCTLS}/rdma_stat_recv", check=False)
    assert "Invalid argument" in done.out, done


@test("parameters of the server", "V1-26", "V1-27", server="ours", device="rxe")
def limits(pair: Pair) -> None:
    """No grant is larger than one of them, and the reply to the request names no more RDMA Reads than the other."""
    order = {"private_data": TAKES, "depth": 8, "exchanges": [[null(credits=100).hex()]] * 3}
    with (
        parameters(pair, pair.server, server_credits=8, server_reads=2),
        capturing(pair.client, "limits") as capture,
    ):
        (found,) = carried_out(pair, order)
    grants = [wire.decode(bytes.fromhex(reply))[0]["credits"] for (reply,) in found["exchanges"]]
    assert grants == [8, 8, 8], grants
    ((reads,),) = capture.decode("infiniband.cm.rep", "infiniband.cm.rep.initdepth")
    assert int(reads, 0) == 2, reads


@test("clients that a rule refuses", server="ours", device="rxe", allowed=REFUSED)
def refused(pair: Pair) -> None:
    """The request is rejected before any resource is made, with a line; other clients, and the same later, connect."""
    order = {"private_data": REFUSES, "exchanges": [[null().hex()]]}
    with rule(pair.server, "refused", side="server", connections=0, peer="192.168.77.0/24") as none:
        (done,) = carried_out(pair, order)
        # RDMA_CM_EVENT_REJECTED.
        assert done["failed"].startswith("event 8"), done
        log = pair.server.run("dmesg").out
        assert f"{CLIENT.ipv4} port " in log and "refused: rule refused allows 0 connections" in log, log
        assert not served(pair.server)
        # The port of another listener, and another device: the rule is not for this client.
        for attribute, other in (("port", NFS_PORT + 1), ("device", "rxe7"), ("peer", "192.0.2.0/24")):
            before = none.get(attribute)
            none.set(**{attribute: other})
            (done,) = carried_out(pair, order)
            assert "failed" not in done, (attribute, done)
            none.set(**{attribute: before})
        with rule(pair.server, "but-this", side="server", peer=CLIENT.ipv4):
            (done,) = carried_out(pair, order)
            assert "failed" not in done, done
    (done,) = carried_out(pair, order)
    assert "failed" not in done, done


@test("the most connections of a rule, and of all others", server="ours", client="ours", device="rxe", allowed=REFUSED)
def limited(pair: Pair) -> None:
    """One more is refused, and made when another one has ended; the limit of one rule does not count others' connections."""
    order = {"private_data": REFUSES, "exchanges": [[null().hex()]]}
    pair.mount("3")
    wait_until(lambda: len(served(pair.server)) == 1, "no connection", 30 * pair.options.slowness)
    with parameters(pair, pair.server, server_connections=1):

        def logged() -> bool:
            (done,) = carried_out(pair, order)
            assert done["failed"].startswith("event 8"), done
            return "refused: server_connections allows 1" in pair.server.run("dmesg").out

        # The log may have had another line in the last five seconds.
        wait_until(logged, "no line in the log", 30 * pair.options.slowness)
        with rule(pair.server, "two", side="server", peer=CLIENT.ipv4, connections=2):
            orders = [{**order, "private_data": REFUSES}] * 2
            done = carried_out(pair, *orders)
            assert not any("failed" in one for one in done), done
        pair.umount()
        wait_until(lambda: not served(pair.server), "the connection stays", 30 * pair.options.slowness)
        (done,) = carried_out(pair, order)
        assert "failed" not in done, done


@test("connections made again by a rule of the server", "PD-19", server="ours", client="ours", device="rxe")
def again(pair: Pair) -> None:
    """Writing `reconnect` ends the connections of the clients that it matches, whose mounts go on with the new terms."""
    pair.mount("4.2")
    pair.client.run(f"echo x >{MOUNT_POINT}/again")
    (before,) = table(pair.server, "server").values()
    with rule(pair.server, "larger", side="server", inline_receive=1024, peer=CLIENT.ipv4) as larger:
        larger.reconnect()
        pair.client.run(f"cat {MOUNT_POINT}/again", 60)
        wait_until(lambda: len(served(pair.server)) == 1, "not one connection", 30 * pair.options.slowness)
        (after,) = table(pair.server, "server").values()
        assert (before["call"], after["call"], after["call_by"]) == ("4096", "1024", "own"), (before, after)
        assert int(after["xprt"]) > int(before["xprt"]), (before, after)
        larger.set(peer="192.0.2.1")
        assert larger.try_to_set("reconnect", 1).rc != 0, "no connection matches"
    pair.umount()
