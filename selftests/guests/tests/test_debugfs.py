# SPDX-License-Identifier: GPL-2.0
"""The files and the tool for administrators: the table, the file of each transport, and the ends of connections."""

from __future__ import annotations

import json
import re

from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.connecting import PROVOKED
from guests.lib.lookups import lookup
from guests.lib.peer import peer
from guests.lib.rules import rule
from guests.lib.sight import DIRECTORY, details, ends, table
from guests.lib.tool import tool


TRACING = "/sys/kernel/tracing"
ANNOUNCED = "f6ab0e180101010f"  # sends up to 2048 bytes, receives up to 16384


@test("the table and the file of a connection", "PD-14", "PD-18", limit=60, device="rxe")
def shown(pair: Pair) -> None:
    """Both show the thresholds with the side that limits them, the private data as it came, and the rule."""
    with (
        peer(pair, "--private-data", "0102" + ANNOUNCED, "--credits", "20") as server,
        rule(pair.client, "shown", port=server.port, inline_send=8192, inline_receive=4096, credits=40),
        server.mounted(),
    ):
        lookup(pair, "nothing")
        row = table(pair.client)[server.port]
        head, *lines = pair.client.run(f"cat {DIRECTORY}/connections").lines
        assert all(line[head.index("state")] == "c" for line in lines if "connected" in line), "columns do not align"
        netns = pair.client.run("stat -Lc %i /proc/self/ns/net").out.strip()
        found = {name: row[name] for name in row if name not in ("xprt", "peer", "since", "recvs", "mrs", "KiB")}
        assert found == {
            "device": "rxe0",
            "netns": netns,
            "state": "connected",
            "ver": "1",
            "call": "8192",
            "call_by": "own",
            "reply": "2048",
            "reply_by": "peer",
            "inval": "on",
            "asked": "40",
            "grant": "20",
            "used": "0",
            "wait": "0",
            "for": "nothing",
            "rule": "shown",
        }, row
        assert int(row["recvs"]) >= 16 and int(row["KiB"]) > 100, row
        seen = details(pair.client, server.port)
        assert seen["private_data_sent"] == "f6ab0e1801010703", seen
        assert seen["private_data_received"].startswith("0102" + ANNOUNCED), seen
        assert seen["server_said"] == "that: send 2048 receive 16384 remote_invalidation on", seen
        assert seen["we_said"] == "that: send 8192 receive 4096 remote_invalidation on", seen
        assert seen["inline_call"] == "8192 limited by own", seen
        assert seen["inline_reply"] == "2048 limited by peer", seen
        assert seen["device"] == "rxe0 port 1", seen
        # Over RoCE our address is made of the IPv4 address.
        assert seen["gid"] == "0000:0000:0000:0000:0000:ffff:c0a8:4d02", seen
        assert seen["credits"] == "asked 40 granted 20 used 0 abandoned 0", seen


@test("a peer without private data", "PD-44", "V1-43", limit=60, device="rxe")
def silent_peer(pair: Pair) -> None:
    """It limits both directions to the protocol's default for peers without private data."""
    with peer(pair) as server, server.mounted():
        seen = details(pair.client, server.port)
        assert seen["private_data_received"] == "none", seen
        assert seen["server_said"] == "nothing, so: send 1024 receive 1024 remote_invalidation off", seen
        assert seen["inline_call"] == "1024 limited by peer", seen


@test("the resource that calls wait for", "V1-41", limit=60, device="rxe")
def waiting(pair: Pair) -> None:
    """With its one credit held by a call without a reply, the next ones wait for credits."""
    with peer(pair, "--private-data", ANNOUNCED, "--credits", "1") as server, server.mounted():
        client = pair.client
        jobs = [client.spawn(f"stat {MOUNT_POINT}/always-never.{number}") for number in range(3)]

        def held() -> bool:
            row = table(client)[server.port]
            return row["used"] == "1" and row["for"] == "credits" and int(row["wait"]) >= 1

        wait_until(held, "nothing waits for credits", 30 * pair.options.slowness)
        assert details(client, server.port)["waits_for"] == "credits"
        for job in jobs:
            job.kill()


@test("how connections have ended", "PD-19", limit=120, device="rxe", allowed=PROVOKED)
def ended(pair: Pair) -> None:
    """The reasons, the last one first: the server hung up, a rule asked for it."""
    with peer(pair, "--private-data", ANNOUNCED) as server, rule(pair.client, "end", port=server.port) as end:
        with server.mounted():
            lookup(pair, "do-disconnect")
            end.reconnect()
            lookup(pair, "afterwards")
            assert ends(pair.client, server.port)[:2] == ["a rule asked for a new one", "the server hung up"]


@test("files that all may read", limit=60, device="rxe")
def modes(pair: Pair) -> None:
    """Under lockdown only files without write permission can be opened; reading during a reconnect and unload is safe."""
    pair.mount("3")
    modes = pair.client.run(f"stat -c %a {DIRECTORY}/connections {DIRECTORY}/xprt-*").lines
    assert set(modes) == {"444"}, modes
    job = pair.client.spawn(
        f"while [ ! -e /tmp/stop ]; do cat {DIRECTORY}/* >/dev/null 2>&1 || true; done; rm /tmp/stop"
    )
    with rule(pair.client, "again", port=NFS_PORT) as again:
        for number in range(pair.options.scaled(30, 5)):
            again.reconnect()
            pair.client.run(f"stat {MOUNT_POINT}/nothing-{number}", check=False)
    pair.umount()
    pair.unload_module()
    pair.client.run("touch /tmp/stop")
    pair.client.finish(job, "the reader", 30)
    pair.load_module()


@test("the tool shows connections and explains a mount", limit=120, device="rxe")
def tool_shows(pair: Pair) -> None:
    """Table, JSON and words agree with the files; a failure is reported in one line."""
    with peer(pair, "--private-data", ANNOUNCED) as server, server.mounted():
        (row,) = [r for r in json.loads(tool(pair, "--json show")) if r["peer"]["port"] == server.port]
        whole = json.loads(tool(pair, f"show {row['xprt']} --json"))
        for found in (row, whole):
            assert found["inline_call"] == {"bytes": 4096, "limited_by": "own"}, found
            assert found["inline_reply"] == {"bytes": 2048, "limited_by": "peer"}, found
        assert f"port {server.port}" in tool(pair, "show")
        said = tool(pair, f"explain {MOUNT_POINT}")
        for part in (
            "no rule is for this server",
            "Inline calls have up to 4096 bytes: our own setting (4096 bytes) is the smaller one: raise inline_send",
            "Inline replies have up to 2048 bytes: the server says no more than 2048 bytes",
            "No call waits.",
        ):
            assert part in said, said
        assert tool(pair, "watch --count 2 --interval 0").count(f"port {server.port}") == 2
        assert tool(pair, f"explain {MOUNT_POINT}/some/directory").startswith(f"Transport {row['xprt']} to ")
        port = re.search(r"^The port is ACTIVE: Ethernet, .*, RoCE v2 over \w+\.$", said, re.M)
        assert port, said
    assert "is not on a mount of NFS" in tool(pair, "explain /tmp", check=False)


@test("the tool makes rules", limit=120, device="rxe")
def tool_rules(pair: Pair) -> None:
    """A rule that it adds holds; one that cannot be is not left behind."""
    with peer(pair, "--private-data", "f6ab0e180101ffff") as server:
        tool(pair, f"rule add big inline_send=65536 port={server.port}")
        with server.mounted():
            assert server.connections()[-1].rule == "big"
            tool(pair, "rule set big inline_send=8192")
            tool(pair, "rule reconnect big")
            lookup(pair, "again")
            assert server.connections()[-1].call == 8192
            assert "rule big holds" in tool(pair, f"explain {MOUNT_POINT}")
        assert f"big: port={server.port} inline_send=8192" in tool(pair, "rule list")
        assert "give ATTRIBUTE=VALUE" in tool(pair, "rule add odd colour=red", check=False)
        tool(pair, "rule del big")
        assert json.loads(tool(pair, "rule list --json"))["rules"] == {}


def recorded(pair: Pair, script: str) -> list[tuple[str, dict[str, str]]]:
    """The events of a script: name and fields, in order of time."""
    pair.client.run(f"echo >{TRACING}/trace; echo 1 >{TRACING}/events/rpcrdma_rs/enable")
    pair.client.run(script, 60)
    pair.client.run(f"echo 0 >{TRACING}/events/rpcrdma_rs/enable")
    found = []
    for line in pair.client.run(f"cat {TRACING}/trace", 60).lines:
        if event := re.search(r" xprtrdma_(\w+): +(.*)", line):
            # Only modes and reasons are several words.
            fields = dict(re.findall(r"(\w+)=(.*?)(?= \w+=|$)", event[2]))
            single = {key: value.split()[0] for key, value in fields.items() if key not in ("rtype", "wtype", "reason")}
            found.append((event[1], fields | single | {"text": event[2]}))
    return found


@test(
    "a recorded mount and read can be followed from connect to close",
    limit=120,
    device="rxe",
    emulated="their trace clock ticks, so that events of two processors are not in order",
)
def followed(pair: Pair) -> None:
    """By the number of the transport and the xid of a call; the offered handle is also the invalidated one."""
    pair.server.run("head -c 65536 /dev/urandom >/export/traced")
    path, options = f"{MOUNT_POINT}/traced", "vers=3,proto=rdma,hard,nolock,mountproto=tcp"
    script = f"mkdir -p {MOUNT_POINT}; mount -t nfs -o {options} {SERVER.ipv4}:/export {MOUNT_POINT}\n"
    script += f"dd if={path} of=/dev/null bs=65536 count=1 iflag=direct status=none; umount {MOUNT_POINT}"
    events = recorded(pair, script)
    (begin,) = [fields for name, fields in events if name == "op_connect"]
    assert begin["peer"] == f"[{SERVER.ipv4}]:{NFS_PORT}", begin
    of_xprt = [(name, fields) for name, fields in events if fields["xprt"] == begin["xprt"]]
    names = [name for name, _ in of_xprt]
    assert names[:2] == ["op_connect", "inline_thresh"] and names[-1] == "op_close", names
    made, close = of_xprt[1][1], of_xprt[-1][1]
    assert (made["sent"], made["inline_send"], made["inline_recv"]) == ("f6ab0e1801010303", "4096", "4096"), made
    assert close["reason"] == "sunrpc closed it", close
    # The one call whose reply comes by RDMA Write is the READ.
    (read,) = [fields for name, fields in of_xprt if name == "marshal" and fields["wtype"] == "write chunk"]
    assert int(read["recv_max"]) > 65536 and read["rtype"] == "inline", read
    of_call = [(name, fields) for name, fields in of_xprt if fields.get("xid") == read["xid"]]
    assert [name for name, _ in of_call] == ["marshal", "mr_map", "post_send", "reply"], of_call
    handle = re.search(r":(0x[0-9a-f]{8}) \(FROM_DEVICE\)", of_call[1][1]["text"])
    assert handle, of_call[1]
    invalidated = [fields["inv_rkey"] for name, fields in of_xprt if name == "wc_receive"]
    assert handle[1] in invalidated, f"{handle[1]} is not among {invalidated}"
    # Each call has its reply.
    xids = {what: [f["xid"] for name, f in of_xprt if name == what] for what in ("post_send", "reply")}
    assert sorted(xids["post_send"]) == sorted(xids["reply"]) and len(xids["reply"]) > 3, xids
    pair.server.run("rm /export/traced")


NAMES = {
    "rdma_slot_table_entries": ("credits", 64),
    "rdma_max_inline_read": ("max_inline_receive", 8192),
    "rdma_max_inline_write": ("max_inline_send", 16384),
}


@test("sysctls have the names of the in-tree module", limit=60, device="rxe")
def sysctls(pair: Pair) -> None:
    """They are the defaults, with their ranges; sysctls without a meaning take the in-tree module's values."""
    client = pair.client
    for name, (parameter, value) in NAMES.items():
        before = client.run(f"cat /sys/module/rpcrdma_rs/parameters/{parameter}").out.strip()
        assert client.run(f"sysctl -n sunrpc.{name}").out.strip() == before
        client.run(f"sysctl -q sunrpc.{name}={value}")
        assert client.run(f"cat /sys/module/rpcrdma_rs/parameters/{parameter}").out.strip() == str(value)
        done = client.run(f"sysctl -q sunrpc.{name}=1", check=False)
        assert "Invalid argument" in done.out, done
        client.run(f"sysctl -q sunrpc.{name}={before}")
    client.run("sysctl -q sunrpc.rdma_inline_write_padding=0 sunrpc.rdma_memreg_strategy=5 sunrpc.rdma_pad_optimize=1")
