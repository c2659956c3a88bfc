# SPDX-License-Identifier: GPL-2.0
"""Rules for single peers: the choice of the rule for a connection, and the effect of each attribute and its time.

Each peer listens on a port of its own, so that a rule can be for it alone. The peer and the capture tell the client's
private data, the client's log its reading of the peer's.
"""

from __future__ import annotations

import json
from contextlib import ExitStack

from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.capture import capturing
from guests.lib.lookups import lookup
from guests.lib.mountstats import own
from guests.lib.peer import Peer, connections, peer
from guests.lib.private_data import REQUEST_FIELD, check_request, check_thresholds, sent_messages, size_byte
from guests.lib.rpcload import loaded
from guests.lib.rules import ROOT, rule
from guests.lib.sight import details
from guests.programs import pattern

LARGEST = "f6ab0e180101ffff"
SEND_WITH_INVALIDATE = "infiniband.bth.opcode in {22,23}"
RDMA_WRITE = "infiniband.bth.opcode in {6,8,10}"
MIB = 1 << 20


def only(server: Peer) -> object:
    """The one connection to a peer."""
    (logged,) = server.connections()
    return logged


@test("two peers under different rules at once", "PD-1", "PD-14", "PD-18", "PD-20", "V1-132", limit=120, device="rxe")
def two_peers(pair: Pair) -> None:
    """Each connection has its own private data and thresholds, and no message is longer than its own."""
    sizes = {"narrow": (1024, 2048), "wide": (65536, 16384)}
    with ExitStack() as stack, capturing(pair.client, "two-peers") as capture:
        servers = {}
        for name, (send, receive) in sizes.items():
            server = servers[name] = stack.enter_context(peer(pair, "--private-data", LARGEST))
            stack.enter_context(
                rule(pair.client, name, port=server.port, inline_send=send, inline_receive=receive, credits=8)
            )
        with servers["narrow"].mounted(where="/mnt/narrow"), servers["wide"].mounted():
            check_thresholds(pair, servers["wide"], 65536, 16384)
            pair.client.run("stat /mnt/narrow/nothing-there", check=False)
            domains = json.loads(pair.client.run("rdma -j resource show pd").out)
            ours = [domain for domain in domains if "rpcrdma_rs" in domain.get("comm", "")]
            assert len(ours) == 2, f"protection domains of two connections: {domains}"
            pair.client.run(
                "dd if=/dev/zero of=/mnt/narrow/file bs=60000 count=1 conv=nocreat,notrunc oflag=direct status=none"
            )
        for name, (send, receive) in sizes.items():
            server, logged = servers[name], only(servers[name])
            sent = f"f6ab0e180101{size_byte(send)}{size_byte(receive)}"
            found = (logged.sent, logged.received, logged.call, logged.reply, logged.credits, logged.rule)
            assert found == (sent, LARGEST, send, receive, 8, name), f"the log says {logged}"
            check_request(server, sent)
            longest = max(message["length"] for message in server.messages())
            assert longest <= send, f"{name}: a message of {longest} bytes"
    ports = capture.decode("infiniband.cm.req", "infiniband.cm.req.serviceid.dport", "infiniband.cm.req.ip_cm.private")
    wanted = {
        str(servers[name].port): f"f6ab0e180101{size_byte(send)}{size_byte(receive)}".ljust(2 * REQUEST_FIELD, "0")
        for name, (send, receive) in sizes.items()
    }
    assert {str(int(port, 0)): data for port, data in ports} == wanted, f"on the wire: {ports}"
    assert max(sent_messages(capture)) <= 65536


# The code of each size on the wire.
SIZES = {
    1024: "00",
    1025: "00",
    2047: "00",
    2048: "01",
    2049: "01",
    261119: "fd",
    261120: "fe",
    262143: "fe",
    262144: "ff",
}


@test("boundaries of the inline sizes", "PD-4", "PD-5", "PD-6", "PD-11", "PD-12", "V1-44", limit=240, device="rxe")
def boundaries(pair: Pair) -> None:
    """Every size that a message can name is sent, each on the next connection only; the others are refused."""
    with peer(pair, "--private-data", LARGEST) as server:
        with rule(pair.client, "edge", port=server.port, memory=1048576) as edge, server.mounted():
            for number, (size, byte) in enumerate(SIZES.items(), start=2):
                edge.set(inline_send=size, inline_receive=size)
                assert len(server.of("connect")) == number - 1, "a change of the rule has ended the connection"
                edge.reconnect()
                lookup(pair, f"nothing-{size}")
                logged = server.connections()[-1]
                rounded = (int(byte, 16) + 1) * 1024
                found = (logged.sent, logged.call, logged.reply)
                assert found == (f"f6ab0e180101{byte}{byte}", rounded, rounded), f"{size} bytes: {logged}"
                assert server.of("connect")[-1]["private_data"].startswith(logged.sent)
            assert edge.get("inline_send") == "262144"
            edge.set(inline_send="default")
            assert edge.get("inline_send") == "default"


BAD = {
    "peer": ("server", "an address, a network"),
    "port": ("0", "a port, 1 to 65535"),
    "device": ("rxe/0", "the name of an RDMA device"),
    "netns": ("-1", "the number of a network namespace"),
    "inline_send": ("1023", "a number of bytes, 1024 to 262144"),
    "inline_receive": ("262145", "a number of bytes, 1024 to 262144"),
    "remote_invalidation": ("maybe", "off, on, strict"),
    "credits": ("3", "a number of calls, 4 to 16384"),
    "private_data": ("2", "on, off"),
    "reverse": ("maybe", "on, off"),
    "memory": ("255", "a number of KiB, 256 to 1048576"),
}


@test("bad values are refused with their range", "PD-12", limit=60, allowed=(r"rule bad: \w+: '.*' is not .*",))
def bad_values(pair: Pair) -> None:
    """EINVAL, a line that names rule, attribute, value and range, and nothing changed."""
    with rule(pair.client, "bad", port=1) as bad:
        for attribute, (value, words) in BAD.items():
            before = bad.get(attribute)
            done = pair.client.run(f"/bin/echo '{value}' >{bad.directory}/{attribute}", check=False)
            assert done.rc != 0 and "Invalid argument" in done.out, f"{attribute} = {value}: {done}"
            assert bad.get(attribute) == before
            said = pair.client.run("dmesg | tail -n 5").out
            assert f"rule bad: {attribute}: '{value}' is not {words}" in said, said
        done = pair.client.run(f"mkdir {ROOT}/none", check=False)
        assert "Invalid argument" in done.out, f"a name that reads as no rule: {done}"
        done = pair.client.run(f"/bin/echo 1 >{bad.directory}/reconnect", check=False)
        assert "No such file or directory" in done.out, f"nothing to reconnect: {done}"


@test("the most specific rule holds", limit=120, device="rxe")
def most_specific(pair: Pair) -> None:
    """A longer prefix wins over a shorter one; the other attributes decide between equal ones."""
    with peer(pair, "--private-data", LARGEST) as server, ExitStack() as stack:
        netns = pair.client.run("stat -Lc %i /proc/self/ns/net").out.strip()
        patterns = {
            "all": {"peer": "0.0.0.0/0"},
            "net": {"peer": "192.168.77.0/24"},
            "host": {"peer": SERVER.ipv4},
            "netns": {"peer": SERVER.ipv4, "netns": netns},
            "device": {"peer": SERVER.ipv4, "device": "rxe0"},
            "port": {"peer": SERVER.ipv4, "port": server.port},
        }
        others = {"ipv6": {"peer": "::/0"}, "other": {"peer": SERVER.ipv4, "port": server.port, "device": "rxe1"}}
        # The most specific one first, so that the order of creation does not decide.
        rules = {
            name: stack.enter_context(rule(pair.client, name, **values))
            for name, values in (others | dict(reversed(patterns.items()))).items()
        }
        with server.mounted():
            for name in reversed(patterns):
                assert server.connections()[-1].rule == name, server.connections()
                rules[name].reconnect()
                rules[name].set(**dict.fromkeys(patterns[name], "any"))
                lookup(pair, f"after-{name}")
            assert server.connections()[-1].rule is None, "no rule is left for it"


@test("remote invalidation off", "PD-8", "PD-26", "PD-31", limit=90, device="rxe")
def invalidation_off(pair: Pair) -> None:
    """The server is told not to, and does not; the data is whole."""
    with rule(pair.client, "off", port=NFS_PORT, remote_invalidation="off"):
        with capturing(pair.client, "invalidation-off") as capture:
            pair.mount("4.2")
            check_data(pair, "off")
            counts = own(pair.client)
            pair.umount()
    assert capture.decode(RDMA_WRITE, "frame.number"), "the capture has no RDMA Write"
    assert not capture.decode(SEND_WITH_INVALIDATE, "frame.number"), "a Send With Invalidate"
    assert counts["remote_invalidates"] == 0 and counts["unsolicited_invalidates"] == 0, counts
    assert connections(pair.client, NFS_PORT)[-1].sent == "f6ab0e1801000303"


@test("remote invalidation off: a server that invalidates", "PD-31", "H-30", limit=90, device="rxe")
def invalidation_unwanted(pair: Pair) -> None:
    """Against our private data: the handle is one of the call's, so nothing is in doubt, and the counter rises."""
    with rule(pair.client, "off", port=1, remote_invalidation="off") as off:
        with peer(pair, "--private-data", "f6ab0e1801010000") as server, loaded(pair) as load:
            off.set(port=server.port)
            load.open(f"port={server.port}")
            server.order("misbehave", modes=["invalidate-own"])
            first, second = load.do(*["run count=1 call=100 reply=2000 reply_in=head"] * 2)
            assert first.good().counted["unsolicited_invalidates"] == 1, first
            assert second.good().counted["unsolicited_invalidates"] == 0, second
            assert len(server.of("connect")) == 1, "the connection ended"
            load.one("close").good()


@test("remote invalidation on", "PD-8", "PD-26", limit=90, device="rxe")
def invalidation_on(pair: Pair) -> None:
    """The in-tree server invalidates, although it does not say so."""
    with rule(pair.client, "on", port=NFS_PORT, remote_invalidation="on"):
        pair.mount("4.2")
        check_data(pair, "on")
        assert own(pair.client)["remote_invalidates"] > 0
        pair.umount()


STRICT = "it invalidates handles, and its private data does not say so"


@test("strict: a server that invalidates without announcing it", "PD-31", limit=90, device="rxe", allowed=(STRICT,))
def invalidation_strict(pair: Pair) -> None:
    """The in-tree server invalidates with its R bit clear: the connection ends, and the log has the reason."""
    with rule(pair.client, "strict", port=NFS_PORT, remote_invalidation="strict") as strict:
        pair.mount("3")
        file = f"{MOUNT_POINT}/strict"
        job = pair.client.spawn(f"dd if=/dev/zero of={file} bs=64k count=1 oflag=direct; cat {file}")

        def told() -> bool:
            return STRICT in pair.client.run("dmesg").out

        wait_until(told, "the log does not say why", 30 * pair.options.slowness)
        assert own(pair.client)["unsolicited_invalidates"] > 0
        # The next connection does not let the server invalidate, so that the call gets through.
        pair.client.finish(job, "writing", 90)
        assert connections(pair.client, NFS_PORT)[-1].sent == "f6ab0e1801000303"
        assert details(pair.client, NFS_PORT)["remote_invalidation"].startswith("off")
        # With another policy, everything is forgotten.
        strict.set(remote_invalidation="on")
        strict.reconnect()
        lookup(pair, "works-again")
        assert connections(pair.client, NFS_PORT)[-1].sent == "f6ab0e1801010303"
        pair.umount()


@test("no private data", "PD-44", "PD-48", "PD-52", limit=60, device="rxe")
def no_private_data(pair: Pair) -> None:
    """Nothing is sent, so the defaults of the protocol hold, and the sizes of the rule do not."""
    with peer(pair, "--private-data", LARGEST) as server:
        with rule(pair.client, "silent", port=server.port, private_data="off", inline_send=8192), server.mounted():
            logged = only(server)
            assert (logged.sent, logged.call, logged.reply) == ("none", 1024, 1024), logged
            check_request(server, "")
            check_thresholds(pair, server, 1024, 1024)


@test("no reverse direction", limit=90, device="rxe")
def no_reverse(pair: Pair) -> None:
    """NFSv4.1 and later do not mount, and the log has the reason; NFSv3 does, and moves its data."""
    with rule(pair.client, "forward", port=NFS_PORT, reverse="off"):
        done = pair.client.run(
            f"mount -t nfs -o vers=4.2,proto=rdma,port={NFS_PORT},retry=0 {SERVER.ipv4}:/ {MOUNT_POINT}",
            60,
            check=False,
        )
        assert done.rc != 0, "NFSv4.2 was mounted"
        assert "no reverse direction, by rule or parameter" in pair.client.run("dmesg | tail -n 20").out
        pair.mount("3")
        check_data(pair, "forward")
        pair.umount()
    pair.mount("4.2")
    pair.umount()


@test("a limit of memory", limit=90, device="rxe", allowed=("the memory limit is too small for the inline sizes",))
def memory(pair: Pair) -> None:
    """Fewer calls are outstanding where their buffers would take more; a limit that not even a few fit into is told."""
    with peer(pair, "--private-data", LARGEST) as server:
        limits = {"port": server.port, "inline_send": 16384, "inline_receive": 16384}
        with rule(pair.client, "small", **limits, memory=1024) as small, server.mounted():
            fewer = only(server).credits
            assert 4 <= fewer < 32, f"{fewer} credits of 16 KiB twice, within 1 MiB"
            small.set(memory=65536)
            small.reconnect()
            lookup(pair, "more")
            assert server.connections()[-1].credits == 128
            small.set(memory=256)
            small.reconnect()
            waits = pair.client.spawn(f"stat {MOUNT_POINT}/too-small")
            refusal = "dmesg | tail -n 20 | grep -q 'the memory limit is too small for the inline sizes'"
            wait_until(
                lambda: pair.client.run(refusal, check=False).rc == 0,
                "nothing is said of the limit",
                20 * pair.options.slowness,
            )
            small.set(memory=65536)
            pair.client.finish(waits, "stat, which waits for a connection", 60, check=False)


def check_data(pair: Pair, name: str) -> None:
    """Writes and reads a file, checked on both sides, then removes it."""
    tool, length = "python3 -I -S /share/tools/pattern.py", 3 * MIB + 5
    pair.client.run(f"{tool} write direct {MOUNT_POINT}/{name} {length} {name}")
    wanted = pattern.digest(length, name)
    assert pair.server.run(f"sha256sum /export/{name}").out.split()[0] == wanted, "written"
    pair.drop_caches()
    assert pair.client.run(f"{tool} read direct {MOUNT_POINT}/{name}").out.strip() == wanted, "read"
    pair.client.run(f"rm {MOUNT_POINT}/{name}")


@test("a rule is changed during I/O and holds after each reconnect", "PD-19", "PD-20", limit=240, device="rxe")
def changed_during_io(pair: Pair) -> None:
    """A writer continues through forty reconnects with other sizes each; its file is whole."""
    rounds = pair.options.scaled(40, 10)
    sizes = (1024, 65536, 4096, 16384)
    before = len(connections(pair.client, NFS_PORT))
    with rule(pair.client, "turn", port=NFS_PORT, inline_send=1024, inline_receive=1024) as turn:
        pair.server.run("echo 65536 >/proc/sys/sunrpc/svc_rdma/max_req_size")
        pair.mount("4.2")
        length = 64 * MIB
        tool = "python3 -I -S /share/tools/pattern.py"
        job = pair.client.spawn(
            f"while [ ! -e /tmp/stop ]; do {tool} write direct {MOUNT_POINT}/turn {length} turn; done; rm /tmp/stop"
        )
        for number in range(rounds):
            size = sizes[(number + 1) % len(sizes)]
            turn.set(inline_send=size, inline_receive=size)
            count = len(connections(pair.client, NFS_PORT))
            turn.reconnect()
            wait_until(
                lambda count=count: len(connections(pair.client, NFS_PORT)) > count,
                "no new connection",
                30 * pair.options.slowness,
            )
            logged = connections(pair.client, NFS_PORT)[-1]
            byte = size_byte(size)
            assert (logged.sent, logged.rule) == (f"f6ab0e180101{byte}{byte}", "turn"), logged
            assert logged.call == size, logged
        pair.client.run("touch /tmp/stop")
        pair.client.finish(job, "the writer", 120)
        found = pair.server.run("sha256sum /export/turn", 60).out.split()[0]
        assert found == pattern.digest(length, "turn"), "data was lost in a reconnect"
        pair.client.run(f"rm {MOUNT_POINT}/turn")
        pair.umount()
        pair.server.run("echo 4096 >/proc/sys/sunrpc/svc_rdma/max_req_size")
    assert len(connections(pair.client, NFS_PORT)) - before == rounds + 1, "more connections than reconnects"


@test("a rule keeps the module, and ends when it is removed", limit=60, device="rxe")
def removed(pair: Pair) -> None:
    """A rule that is removed while its connection is in use ends with that connection."""
    with peer(pair, "--private-data", LARGEST) as server:
        with rule(pair.client, "gone", port=server.port, inline_send=1024):
            with server.mounted():
                pair.client.run(f"exec 9<{ROOT}/gone/port; rmdir {ROOT}/gone; stat {MOUNT_POINT}/held", check=False)
                check_thresholds(pair, server, 1024, 4096)
                lookup(pair, "do-disconnect")
                assert [logged.rule for logged in server.connections()] == ["gone", None]
            # No rule is left to keep the module.
            pair.unload_module()
            pair.load_module()
            pair.client.run(f"mkdir {ROOT}/gone")
            done = pair.client.run("rmmod rpcrdma_rs", check=False)
            assert "in use" in done.out, f"a rule does not keep the module: {done}"
