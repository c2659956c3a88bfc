# SPDX-License-Identifier: GPL-2.0
"""Private data (RFC 8797): the client's own, its reading of the peer's, and the thresholds that it keeps to.

The peer reports the bytes that it received, and the client's kernel log the client's reading. A kept threshold is seen
from outside: data that fits is sent inline, other data by a chunk, and no message is longer.
"""

from __future__ import annotations


from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.capture import Capture, capturing
from guests.lib.connecting import PROVOKED
from guests.lib.lookups import lookup
from guests.lib.mountstats import SUSPICIOUS, transport
from guests.lib.parameters import parameter, parameters
from guests.lib.peer import Peer, connections, peer
from guests.lib.private_data import (
    CLIENT_DEFAULT,
    HEADERS,
    REPLY_FIELD,
    REQUEST_FIELD,
    check_log,
    check_request,
    check_thresholds,
    sent_messages,
    size_byte,
)
from guests.programs import pattern


NONE = {"received": "none", "call": 1024, "reply": 1024}
GOOD = "f6ab0e1801010303"
# Title, requirements, the private data of the accept, and the client's reading if that is not 4096 bytes both ways.
ACCEPTS = [
    ("none", ("PD-34", "PD-44", "PD-48", "PD-52", "V1-43"), "", NONE),
    ("TV-PD-1, at offset 0", ("PD-9", "PD-14", "PD-16"), GOOD, {}),
    ("TV-PD-4, at offset 3", ("PD-36", "PD-37", "PD-43"), "aabbcc" + GOOD, {}),
    ("TV-PD-5, behind near matches", ("PD-36", "PD-43"), "0000000401020304f6ab0e190000f6ab" + GOOD, {}),
    ("in the last 8 bytes of the field", ("PD-36", "PD-40"), GOOD.rjust(2 * REPLY_FIELD, "0"), {}),
    ("TV-PD-9, reserved bits set", ("PD-7",), "f6ab0e1801ff0303", {"received": "f6ab0e1801ff0303"}),
    (
        "TV-PD-11, version 2 and then a good one",
        ("PD-39", "PD-42", "PD-50"),
        "f6ab0e1802010303" + "f6ab0e1801000700",
        {"received": "f6ab0e1801000700", "call": 1024},
    ),
    ("TV-PD-7, version 2", ("PD-38", "PD-39"), "f6ab0e1802010303", NONE),
    ("TV-PD-8, version 0", ("PD-38", "PD-39"), "f6ab0e1800010303", NONE),
    # rxe pads with zeros, which would complete a message that is cut short anywhere else (TV-PD-6).
    ("cut short by the end of the field", ("PD-40", "PD-41"), GOOD[:14].rjust(2 * REPLY_FIELD, "0"), NONE),
    ("TV-PD-14, little-endian", ("PD-4", "PD-35"), "180eabf601010303", NONE),
]


def accepted_with(pair: Pair, what: str, bytes: str, received: str, call: int, reply: int) -> None:
    """The private data of the accept decides the thresholds, and can never make the connection fail."""
    with peer(pair, "--private-data", bytes) as server, server.mounted():
        check_log(server, CLIENT_DEFAULT, received, call, reply)
        check_request(server, CLIENT_DEFAULT)
        check_thresholds(pair, server, call, reply)
        assert len(server.of("connect")) == 1, f"{what}: connected more than once"


# iWARP pads nothing, and carries more.
ACCEPTS_BY_SIW = [
    *ACCEPTS,
    # A field longer than InfiniBand's; with 4 bytes more siw's client fails by itself.
    ("in the last 8 of 248 bytes", ("PD-36", "PD-40", "PD-49"), GOOD.rjust(2 * 248, "0"), {}),
    # Here it can be cut short anywhere.
    ("TV-PD-6, cut short", ("PD-40", "PD-41"), GOOD[:14], NONE),
    ("TV-PD-6, behind other data", ("PD-40", "PD-41"), "aabb" + GOOD[:14], NONE),
]

for title, rows, accepted, expected in ACCEPTS:
    case = {"what": title, "bytes": accepted, "received": GOOD, "call": 4096, "reply": 4096, **expected}
    test(
        "the peer's private data: {what}",
        *rows,
        "PD-18",
        limit=60,
        device="rxe",
        client="ours",
        cases=[case],
        core=True,
    )(accepted_with)

for title, rows, accepted, expected in ACCEPTS_BY_SIW:
    case = {"what": title, "bytes": accepted, "received": GOOD, "call": 4096, "reply": 4096, **expected}
    test("siw: the peer's private data: {what}", *rows, "V1-142", limit=60, device="siw", client="ours", cases=[case])(
        accepted_with
    )


@test("RDMA Reads in flight are as many as the device takes", "V1-38", limit=60, device="rxe", core=True)
def reads_in_flight(pair: Pair) -> None:
    """The request to connect carries the number to the server, and zero for Reads of our own."""
    with capturing(pair.client, "reads-in-flight") as capture:
        pair.mount("3")
        pair.umount()
    found = capture.decode("infiniband.cm.req", "infiniband.cm.req.responderres", "infiniband.cm.req.initdepth")
    limit = int(pair.client.run("ibv_devinfo -v -d rxe0 | awk '/max_qp_rd_atom/ { print $2 }'").out)
    assert {(int(responder, 0), int(initiator, 0)) for responder, initiator in found} == {(min(limit, 255), 0)}, found


@test("a new connection is a new exchange", "PD-19", "PD-20", "PD-46", limit=90, device="rxe", client="ours")
def afresh(pair: Pair) -> None:
    """The values of the parameters hold from the next connection on; the private data of a reject does not count."""
    accepted, refused = "f6ab0e180101ffff", "f6ab0e1801000000"
    options = ("--private-data", accepted, "--reject-data", refused, "--connections", "ok,reject,ok")
    with peer(pair, *options) as server, server.mounted():
        with parameters(pair, max_inline_send=8192, max_inline_receive=2048):
            # The old connection keeps its terms.
            check_thresholds(pair, server, 4096, 4096)
            assert len(server.of("connect")) == 1, "a change of parameters ended the connection"
            lookup(pair, "do-disconnect")
        first, second = server.connections()
        assert (first.sent, first.received) == (CLIENT_DEFAULT, accepted), first
        assert (first.call, first.reply) == (4096, 4096), first
        # A reject said 1024 bytes both ways, the accept did not.
        assert (second.sent, second.received) == ("f6ab0e1801010701", accepted), second
        assert (second.call, second.reply) == (8192, 2048), second
        assert [event["outcome"] for event in server.of("connect")] == ["ok", "reject", "ok"]
        check_thresholds(pair, server, 8192, 2048)


LARGEST = {"peer_send": 262144, "peer_receive": 262144}
SETTINGS = [{"send": size, "receive": size, "remote": 1, **LARGEST} for size in (1024, 8192, 65536, 262144)] + [
    {"send": 65536, "receive": 8192, "remote": 1, "peer_send": 16384, "peer_receive": 32768},
    {"send": 8192, "receive": 262144, "remote": 0, "peer_send": 4096, "peer_receive": 262144},
]


@test(
    "parameters: send {send}, receive {receive}, invalidation {remote}; peer: send {peer_send}, receive {peer_receive}",
    *("PD-3", "PD-4", "PD-5", "PD-6", "PD-8", "PD-9", "PD-10", "PD-14", "PD-16", "PD-18", "PD-26", "PD-50"),
    limit=90,
    device="rxe",
    client="ours",
    cases=SETTINGS,
)
def settings(pair: Pair, send: int, receive: int, remote: int, peer_send: int, peer_receive: int) -> None:
    """The bytes follow the parameters; each direction has the smaller of its two sizes."""
    sent = f"f6ab0e1801{remote:02x}{size_byte(send)}{size_byte(receive)}"
    announced = f"f6ab0e180101{size_byte(peer_send)}{size_byte(peer_receive)}"
    values = {"max_inline_send": send, "max_inline_receive": receive, "remote_invalidation": remote}
    with parameters(pair, **values), peer(pair, "--private-data", announced) as server:
        with capturing(pair.client, f"private-data-{server.port}") as capture, server.mounted():
            call, reply = min(send, peer_receive), min(receive, peer_send)
            check_log(server, sent, announced, call, reply)
            check_request(server, sent)
            check_thresholds(pair, server, call, reply)
        check_capture(capture, server, sent, announced)


def check_capture(capture: Capture, server: Peer, sent: str, announced: str) -> None:
    """The wire carried the same private data, and messages as long as the peer has received."""
    port = f"infiniband.cm.req.ip_cm.dport == {server.port}"
    requests = capture.decode(
        "infiniband.cm.req", "infiniband.cm.req.serviceid.dport", "infiniband.cm.req.ip_cm.private"
    )
    assert [sent.ljust(2 * REQUEST_FIELD, "0")] == [data for _, data in requests], f"{port}: {requests}"
    replies = capture.decode("infiniband.cm.rep", "infiniband.cm.rep.private")
    assert [[announced.ljust(2 * REPLY_FIELD, "0")]] == replies, f"reply: {replies}"
    received = sorted(message["length"] for message in server.messages())
    assert sent_messages(capture) == received, f"on the wire {sent_messages(capture)}, received {received}"


BAD_VALUES = ["1023", "262145", "0", "-1", "many", "4096x"]


@test(
    "parameters: values out of range",
    *("PD-12", "PD-11"),
    limit=60,
    device="rxe",
    client="ours",
    allowed=(r"parameter max_inline_(send|receive): \d+ is not in 1024\.\.262144",),
)
def bad_values(pair: Pair) -> None:
    """An invalid size is refused and changes nothing; one that is no multiple of 1024 is rounded down."""
    for name in ("max_inline_send", "max_inline_receive"):
        for value in BAD_VALUES:
            # The shell's own echo does not tell which error it was.
            done = pair.client.run(f"/bin/echo {value} >/sys/module/rpcrdma_rs/parameters/{name}", check=False)
            assert done.rc != 0 and "Invalid argument" in done.out, f"{name} = {value}: {done}"
            assert parameter(pair.client, name) == "4096", f"{value} has changed {name}"
    with parameters(pair, max_inline_send=5000, max_inline_receive=9215):
        assert parameter(pair.client, "max_inline_send") == "5000"
        with peer(pair, "--private-data", "f6ab0e180101ffff") as server, server.mounted():
            check_log(server, "f6ab0e1801010307", "f6ab0e180101ffff", 4096, 8192)
            check_request(server, "f6ab0e1801010307")
            check_thresholds(pair, server, 4096, 8192)


MIB = 1 << 20


@test(
    "in-tree server: reconnect with inline sizes of {size}, I/O at each end, vers={vers}",
    *("PD-1", "PD-13", "PD-14", "PD-19", "PD-20", "PD-21", "PD-48", "V1-33", "V1-42"),
    limit=120,
    device="rxe",
    client="ours",
    allowed=PROVOKED,
    cases=[{"size": size, "vers": vers} for size in (1024, 65536) for vers in ("3", "4.2")],
)
def reconnect(pair: Pair, size: int, vers: str) -> None:
    """Calls that wait while the connection is remade are planned again, with the sizes of the new one."""
    before = len(connections(pair.client, NFS_PORT))
    pair.mount(vers)
    announced = max(size, 4096)  # the server's least
    pair.server.run(f"echo {announced} >/proc/sys/sunrpc/svc_rdma/max_req_size")
    try:
        with parameters(pair, max_inline_send=size, max_inline_receive=size):
            write_through_reconnect(pair)
            check_io(pair, size)
            first, *_, last = connections(pair.client, NFS_PORT)[before:]
        assert (first.sent, first.call, first.reply) == (CLIENT_DEFAULT, 4096, 4096), first
        byte = size_byte(size)
        assert (last.sent, last.call, last.reply) == (f"f6ab0e180101{byte}{byte}", size, size), last
        assert last.received[-4:] == size_byte(announced) * 2, f"the server announced something else: {last}"
        counts = transport(pair.client, MOUNT_POINT)
        odd = {name: counts[name] for name in ("bad_xids", "bad_replies", *SUSPICIOUS) if counts.get(name)}
        assert not odd, f"counters of misbehaviour: {odd}"
    finally:
        pair.server.run("echo 4096 >/proc/sys/sunrpc/svc_rdma/max_req_size; rm -f /export/pd*")
    pair.umount()


def write_through_reconnect(pair: Pair) -> None:
    """Takes the server's device away while the client writes; the file must be whole."""
    length = pair.options.scaled(32, 8) * MIB + 77
    tool = "python3 -I -S /share/tools/pattern.py"
    job = pair.client.spawn(f"{tool} write direct {MOUNT_POINT}/pd {length} reconnect")

    def started() -> bool:
        return int(pair.server.run("stat -c %s /export/pd 2>/dev/null || echo 0").out) >= MIB

    wait_until(started, "the writer did not start", 20 * pair.options.slowness)
    pair.server.run("rdma link delete rxe0; rdma link add rxe0 type rxe netdev eth0")
    pair.client.finish(job, "the writer", 60)
    found = pair.server.run("sha256sum /export/pd", 60).out.split()[0]
    assert found == pattern.digest(length, "reconnect"), "bytes were lost in the reconnect"


def check_io(pair: Pair, size: int) -> None:
    """Files around the threshold, written and read in one call each where they fit into one, checked on both sides."""
    tool = "python3 -I -S /share/tools/pattern.py"
    for length in (1, size - HEADERS, size, size + HEADERS, 3 * size + 1, 2 * MIB + 5):
        name = f"pd-{length}"
        before = transport(pair.client, MOUNT_POINT)
        pair.client.run(f"{tool} write direct {MOUNT_POINT}/{name} {length} {name}")
        written = transport(pair.client, MOUNT_POINT)
        wanted = pattern.digest(length, name)
        assert pair.server.run(f"sha256sum /export/{name}").out.split()[0] == wanted, f"{length} bytes written"
        pair.drop_caches()
        found = pair.client.run(f"{tool} read direct {MOUNT_POINT}/{name}").out.strip()
        assert found == wanted, f"{length} bytes read"
        chunks = written["read_chunks"] - before["read_chunks"]
        assert bool(chunks) == (length >= size), f"{length} bytes with a threshold of {size}: {chunks} Read chunks"
