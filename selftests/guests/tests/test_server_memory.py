# SPDX-License-Identifier: GPL-2.0
"""Our server without memory: any of its allocations, on any path, fails once.

The client of the path loses its connection or is rejected, if that allocation cannot be missed, and learns of it at once;
the next one is served, and nothing is left.
"""

from __future__ import annotations

from collections import Counter
from itertools import count

from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair
from guests.harness.registry import test
from guests.lib.injection import STARVED, numbers, starvation
from guests.lib.leftovers import nothing_left
from guests.lib.live import LARGE, SMALL, data_goes_both_ways, ends, request, some_calls, until
from guests.lib.nfsd import PORTLIST, RESTART
from guests.lib.paths import CONTENT, PAGE, PATHS
from guests.lib.recall import delegations, returns, take_delegation
from guests.lib.requester import REFUSES, carried_out, export_file
from guests.lib.rules import rule

MODULE = "rpcrdma_rs"
# A line for each kind of failure, once in a while.
LOGGED = (
    *STARVED,
    # No memory, or no more files; a socket of soft-RoCE is one.
    r"(refused: |no more credits: no buffers, )error -(12|23)",
    r"no memory",
    r"socket: no more sockets",
    r"debugfs: out of free dentries",
    r"RDMA CMA: cma_listen_on_dev, error -12",
)


@test(
    "any allocation of the server fails: {path}",
    *("H-85", "V1-118", "V1-121"),
    limit=300,
    server="ours",
    device="rxe",
    allowed=LOGGED,
    needs=("lost memory",),
    cases=[{"path": path} for path in PATHS],
)
def serving(pair: Pair, path: str) -> None:
    """Of the connection, or of the call."""
    fh, _ = export_file(pair, PAGE)
    order = {"private_data": REFUSES, "memory": CONTENT.hex(), "exchanges": [[PATHS[path](fh)]]}
    outcomes: Counter[str] = Counter()

    def serve() -> None:
        (found,) = carried_out(pair, order)
        outcome = str(found.get("failed", "served"))
        assert "silence" not in outcome, str(found)
        outcomes[outcome] += 1

    with nothing_left(pair), starvation(pair.server, MODULE) as allocations:
        print(f"# served {allocations.each(numbers(pair, 17), serve)}: {dict(outcomes)}")
    (after,) = carried_out(pair, order)
    assert "failed" not in after, after


@test(
    "any allocation for a mount fails at the server, version {version}",
    *("H-85", "V1-122", "V2-32"),
    limit=600,
    server="ours",
    client="ours",
    device="rxe",
    allowed=LOGGED,
    needs=("lost memory",),
    cases=[{"version": 1}, {"version": 2}],
)
def mounted(pair: Pair, version: int) -> None:
    """The client takes another connection, and its data are whole in both directions."""
    name = f"{MOUNT_POINT}/starved"
    with (
        rule(pair.client, "starved", peer=SERVER.ipv4, version=version) as asked,
        rule(pair.server, "starved", side="server", peer=CLIENT.ipv4, version=version),
    ):
        pair.mount("4.2")
        pair.client.run(f"head -c 300000 /dev/urandom >/tmp/starved; cp /tmp/starved {name}")
        with starvation(pair.server, MODULE) as allocations:

            def connect() -> None:
                asked.reconnect()
                pair.drop_caches()
                pair.client.run(f"cmp /tmp/starved {name}; cp /tmp/starved {name}.new; mv {name}.new {name}", 60)

            print(f"# connected {allocations.each(numbers(pair, 49), connect)}")
        pair.client.run(f"rm {name}")
        pair.umount()


@test("any allocation of a listener fails", "H-85", server="ours", device="rxe", allowed=LOGGED, needs=("lost memory",))
def listening(pair: Pair) -> None:
    """Whoever asks for it learns that; the next one listens."""
    outcomes: Counter[str] = Counter()

    def listen() -> None:
        pair.server.run("rpc.nfsd 0")
        told = pair.server.run(f"echo 'rdma {NFS_PORT}' | tee {PORTLIST} >/dev/null", check=False)
        outcomes[told.out.strip().rpartition(": ")[2] or "listens"] += 1

    with nothing_left(pair), starvation(pair.server, MODULE) as allocations:
        print(f"# listened {allocations.each(range(1, 2000), listen)}: {dict(outcomes)}")
        pair.server.run(RESTART)
    assert set(outcomes) <= {"listens", "Cannot allocate memory"}, outcomes


@test(
    "any allocation of the reverse direction fails",
    *("BI-2", "H-85"),
    limit=600,
    server="ours",
    device="rxe",
    allowed=LOGGED,
    needs=("lost memory",),
)
def recalling(pair: Pair) -> None:
    """Of a connection with callbacks, or of a recall: nfsd calls again, and gets the delegation back."""
    rounds = count()

    def recall() -> None:
        # Not those of an earlier round: nfsd gives no delegation of a file for a while after a recall.
        name = f"starved{next(rounds)}-"
        pair.server.run(f"cd /export; for i in $(seq 8); do echo one >{name}$i; done")
        pair.mount("4.2")
        shared = take_delegation(pair, name, 8)
        before = returns(pair, 0)
        pair.server.run(f"echo two >>/export/{shared}", 60)
        assert returns(pair, before + 1) > before and not delegations(pair, shared)
        pair.umount()
        pair.server.run(f"rm /export/{name}*")

    with starvation(pair.server, MODULE) as allocations:
        print(f"# recalled {allocations.each(numbers(pair, 49), recall)}")


@test(
    "any allocation of the {end} fails while sizes change",
    *("H-85", "XC-72", "XC-97"),
    limit=600,
    server="ours",
    client="ours",
    device="rxe",
    allowed=LOGGED,
    needs=("lost memory",),
    cases=[{"end": "client"}, {"end": "server"}],
)
def resizing(pair: Pair, end: str) -> None:
    """The connection proceeds with the size it had, or another one takes its place; the next change succeeds."""
    starved, other = (pair.client, pair.server) if end == "client" else (pair.server, pair.client)

    def change() -> None:
        for size in (LARGE, SMALL):
            # Of a connection that has just been lost, nothing can be requested.
            request(other, f"peer-receive-size={size}", check=False)
            some_calls(pair)
            data_goes_both_ways(pair, 100000)

    with ends(pair, "3"):
        with starvation(starved, MODULE) as allocations:
            print(f"# changed {allocations.each(numbers(pair, 49), change)}")
        request(other, f"peer-receive-size={LARGE}")
        until(pair, 1 if end == "client" else 0, "peer_receive_size", str(LARGE))
