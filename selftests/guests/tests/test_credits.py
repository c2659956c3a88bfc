# SPDX-License-Identifier: GPL-2.0
"""The number of calls that the client has outstanding, and the credits of abandoned calls.

The peer (selftests/guests/peer) grants credits by order, keeps replies back, and counts the calls that arrive until
then.
"""

from __future__ import annotations

import re

from guests.harness.guest import Job
from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.hostile import ABSENT, FOREIGN, NFS, READDIR, ask, counters, hostile, odd, stale_handle
from guests.lib.ibfault import faults
from guests.lib.lookups import LOOKUPS, PATIENT, ROOM, came, numbered, together
from guests.lib.parameters import parameters
from guests.lib.peer import Event, Peer
from guests.lib.rules import rule
from guests.lib.sight import details
from guests.peer import wire


def most_at_once(pair: Pair, server: Peer, count: int, first: int = 0) -> int:
    """Looks `count` names up in parallel; returns the most calls that the peer, which holds replies, had at a time."""
    before = len(server.of("released"))
    out = together(pair, *numbered("do-hold", count, first))
    assert out.count(ABSENT) == count, out
    rounds = [event["count"] for event in server.of("released")[before:]]
    assert sum(rounds) == count, f"calls held: {rounds}"
    return max(rounds)


def keep(pair: Pair, server: Peer, mode: str) -> None:
    """Has a look-up killed whose reply the peer keeps."""
    job = pair.client.spawn(f"stat {MOUNT_POINT}/do-{mode} & echo $! >/tmp/waiting; wait $!")
    server.wait(lambda event: event.get("mode") == mode, "the call did not come")
    kill(pair, job)


def kill(pair: Pair, job: Job) -> None:
    """Kills a process that waits for the peer."""
    pair.client.run("kill -9 $(cat /tmp/waiting)")
    pair.client.finish(job, "the killed process", 20, check=False)


def rise(pair: Pair, before: dict[str, int]) -> dict[str, int]:
    """The counters that have risen, and by how much."""
    after = counters(pair)
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


# The message of a module that ends the connection because too many calls are abandoned.
ENDED = r"port \d+: ending the connection: "


@test(
    "a peer that never replies for one name, {credits} credits",
    *("V1-41", "H-12"),
    limit=240,
    device="rxe",
    allowed=(ENDED,),
    # Few credits end many connections, and each of these is followed by a pause.
    cases=[{"credits": 4, "count": 60}, {"credits": 128, "count": 400}],
)
def never(pair: Pair, credits: int, count: int) -> None:
    """Calls are killed that never get a reply. Calls for other names get one within a second, before each kill and
    after it: the credits of abandoned calls do not come back, but they do not stop the mount."""
    limit = 1.0 * pair.options.slowness
    with parameters(pair, credits=credits), hostile(pair, "--credits", "128", *ROOM) as server:
        script = f"{LOOKUPS} killed {MOUNT_POINT} always-never {count} other {limit}"
        done = pair.client.run(f"timeout -s KILL 900 {script}", 150, check=False)
        assert done.rc == 0, f"{done}"
        print(f"       longest reply with {credits} credits, in seconds: {done.out.strip()}")
        came = {message["name"] for message in server.messages()}
        # One may be killed before it is sent, while the transport has no connection.
        missing = set(numbered("always-never", count)) - came
        assert len(missing) <= counters(pair)["exhausted_connections"], (
            f"never came to the peer: {sorted(missing)[:10]}"
        )
        assert ABSENT in ask(pair, "do-right")
        asked = {message["credits"] for message in server.messages()}
        assert asked == {credits}, f"credits asked for: {asked}"


@test(
    "credits 0xffffffff: no more calls than asked leave for",
    "V1-21",
    "V1-28",
    "V1-29",
    "V1-25",
    limit=120,
    device="rxe",
)
def boundless(pair: Pair) -> None:
    """The grant is cut down to the request: the peer never holds more calls than the client's credits word requests."""
    # With buffers as large as these the client requests fewer credits than it has slots.
    large = {"max_inline_send": 262144, "max_inline_receive": 262144}
    with parameters(pair, **large), hostile(pair, "--credits", str(0xFFFFFFFF), *ROOM, mount=PATIENT) as server:
        most = most_at_once(pair, server, 100)
        (asked,) = {message["credits"] for message in server.messages()}
        assert 4 <= asked < 100, f"credits asked for: {asked}"
        assert most == asked, f"{most} calls outstanding, with {asked} credits asked for"


@test("a small device: no more calls than asked leave for", "V1-27", "V1-29", limit=120, device="rxe")
def small_device(pair: Pair) -> None:
    """Queues that have no room for more make the client ask for fewer credits, which it keeps to."""
    with faults(pair, "max_qp_wr=250"), hostile(pair, "--credits", "128", *ROOM, mount=PATIENT) as server:
        most = most_at_once(pair, server, 40)
        (asked,) = {message["credits"] for message in server.messages()}
        assert 4 <= asked < 40, f"credits asked for: {asked}"
        assert most == asked, f"{most} calls outstanding, with {asked} credits asked for"


@test("one credit: one call at a time", "V1-25", "V1-27", limit=180, device="rxe")
def single(pair: Pair) -> None:
    """A grant of zero counts as one: calls continue, one by one."""
    with hostile(pair, "--credits", "0", mount=PATIENT) as server:
        most = most_at_once(pair, server, 5)
        assert most == 1, f"{most} calls outstanding"


@test("operations without a response keep their credits", "V2-59", "XC-99", limit=120, device="rxe")
def operations(pair: Pair) -> None:
    """A server of version 2 that ignores operations has no room for as many calls as it has granted."""
    granted, unanswered = 4, 2
    client = rule(pair.client, "two", peer=SERVER.ipv4, version="auto")
    with client, hostile(pair, "--operations", "ignore", "--credits", str(granted), mount=PATIENT) as server:
        sent = [m for m in server.messages() if m.get("operation") in (wire.INITXCH, wire.REQXCH)]
        assert len(sent) == unanswered, sent
        most = most_at_once(pair, server, 20)
        assert most == granted - unanswered, f"{most} calls outstanding besides {unanswered} operations"


@test("Receives that came back are used before more are made", "V1-33", limit=180, device="rxe")
def receives(pair: Pair) -> None:
    """A connection begins with few buffers, and allocates more until its load has enough; then it uses returned
    buffers, however many are waiting to be posted. More parallel calls get more buffers, and each call is sent only
    after a Receive for its reply is posted: otherwise the connection would be lost."""
    with hostile(pair, "--credits", "128", *ROOM, mount=PATIENT) as server:

        def made() -> tuple[int, int]:
            told = details(pair.client, server.port)
            return int(told["sends"].rpartition(" ")[2]), int(told["receives"].rpartition(" ")[2])

        first = enough = made()
        assert first[0] < 30 and first[1] < 30, f"Sends and Receives made: {first}"
        # A round may or may not have half of the buffers in use at a time, and so cause growth.
        quiet = 0
        for number in range(100, 3100, 100):
            assert most_at_once(pair, server, 30, number) == 30
            assert ABSENT in ask(pair, f"do-right.{number}")
            now = made()
            quiet, enough = (quiet + 1, enough) if now == enough else (0, now)
            if quiet == 6:
                break
        assert quiet >= 6, f"Sends and Receives made: {first}, and still more after {number // 100} rounds: {enough}"
        assert enough[0] > first[0] and enough[1] > first[1], f"Sends and Receives made: {first}, then {enough}"
        assert most_at_once(pair, server, 120, 10000) == 120
        assert made()[1] > enough[1], "120 calls had no more Receives than 30"
        assert len(server.of("connect")) == 1, server.of("connect")


@test("a new connection has one credit", "V1-31", "V1-32", "PD-20", limit=180, device="rxe")
def new_connection(pair: Pair) -> None:
    """Of many calls that wait one is sent, and the others when its reply has come; on every connection."""
    with hostile(pair, "--first-of-each", "hold", mount=PATIENT) as server:
        for again in (1, 2):
            names = numbered("do-keep", 12, 100 * again)
            job = pair.client.spawn(f"{LOOKUPS} together {MOUNT_POINT} {' '.join(names)}")
            came(server, names)
            assert ABSENT in ask(pair, f"do-disconnect.{again}")
            out = pair.client.finish(job, "the look-ups", 60).out
            assert out.count(ABSENT) == 12, out
        connections = [event["number"] for event in server.of("established")]
        assert connections == [1, 2, 3], f"connections: {connections}"
        for number in connections:
            early = before_first_reply(server, number)
            assert len(early) == 1, f"before the first reply on connection {number} came {len(early)} calls"
        for number in connections[1:]:
            later = [m for m in server.messages() if m["connection"] == number]
            assert len(later) >= 12, f"on connection {number} came {len(later)} calls only"


def before_first_reply(server: Peer, number: int) -> list[Event]:
    """The calls that came over a connection until the first reply was sent, which the peer holds for a while."""
    events = server.events
    start = next(at for at, e in enumerate(events) if e["event"] == "established" and e["number"] == number)
    end = next(at for at, e in enumerate(events) if at > start and e["event"] == "released")
    return [e for e in events[:end] if e["event"] == "message" and e["connection"] == number]


def tasks(pair: Pair) -> int:
    """The number of the client's RPC tasks."""
    return int(pair.client.run("cat /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks | wc -l").out)


@test("the grant falls below the calls in flight", "V1-30", "V1-27", limit=180, device="rxe")
def falling(pair: Pair) -> None:
    """No call is cancelled, and no new one is sent until fewer are left than are granted."""
    with hostile(pair, mount=PATIENT) as server:
        patience = 20 * pair.options.slowness
        before = counters(pair)
        old = pair.client.spawn(f"{LOOKUPS} together {MOUNT_POINT} {' '.join(numbered('do-keep', 8))}")
        came(server, numbered("do-keep", 8))
        assert ABSENT in ask(pair, "do-grant-2")
        new = pair.client.spawn(f"{LOOKUPS} together {MOUNT_POINT} {' '.join(numbered('do-right', 3))}")
        # They wait to be sent, or have been sent already; one may wait for directory attributes of another.
        wait_until(lambda: tasks(pair) > 8 or ABSENT in new.text, "new calls were not made", patience)
        for replied in range(1, 9):
            server.let_go()
            # The client has acted on the reply when its process has been told.
            wait_until(lambda n=replied: old.text.count(ABSENT) >= n, f"reply {replied} was not heard", patience)
        for job, count in ((old, 8), (new, 3)):
            out = pair.client.finish(job, "look-ups", 30).out
            assert out.count(ABSENT) == count, out
        let_go = server.of("let-go")
        assert len(let_go) == 8, f"let go: {let_go}"
        events = server.events
        fallen = next(at for at, e in enumerate(events) if e.get("name") == "do-grant-2")
        gone = [at for at, e in enumerate(events) if e["event"] == "let-go"]
        new_ones = [at for at, e in enumerate(events) if at > fallen and e["event"] == "message"]
        left = [8 - sum(replied < at for replied in gone) for at in new_ones]
        assert left and left[0] <= 1, f"with a grant of 2 a call was sent while {left[0]} others were outstanding"
        names = [e["name"] for e in events if e["event"] == "message"]
        assert all(names.count(name) == 1 for name in numbered("do-keep", 8)), f"sent again: {names}"
        assert not odd(rise(pair, before)), rise(pair, before)


@test("an abandoned call keeps its credit", "V1-41", "V1-113", limit=180, device="rxe")
def withheld(pair: Pair) -> None:
    """Of four credits three are left, until the reply has come."""
    with hostile(pair, "--credits", "4", mount=PATIENT) as server:
        assert most_at_once(pair, server, 9) == 4, "all four credits are not used"
        keep(pair, server, "keep")
        most = most_at_once(pair, server, 9, 100)
        assert most == 3, f"{most} others outstanding beside an abandoned call, with four credits"
        assert ABSENT in ask(pair, "do-let-go")
        most = most_at_once(pair, server, 9, 200)
        assert most == 4, f"{most} calls outstanding after the late reply, with four credits"
        assert counters(pair)["connect_count"] == 1 and len(server.lookups("do-keep")) == 1


@test("a reply to an unknown call, while another is abandoned", "V1-39", "V1-41", "V1-113", limit=120, device="rxe")
def unknown(pair: Pair) -> None:
    """It grants nothing, and the abandoned call still has its credit."""
    with hostile(pair, "--credits", "4", mount=PATIENT) as server:
        keep(pair, server, "keep")
        before = counters(pair)
        name = "do-unknown-xid-grants-32"
        job = pair.client.spawn(f"{LOOKUPS} together {MOUNT_POINT} {name}")
        limit = 20 * pair.options.slowness
        wait_until(lambda: "unknown_xids" in rise(pair, before), "the reply to the unknown call did not come", limit)
        # The reply to that call is kept back, too.
        most = most_at_once(pair, server, 9)
        assert most == 2, f"{most} calls outstanding, with two credits left"
        assert odd(rise(pair, before)) == {"unknown_xids": 1, "bad_xids": 1}, rise(pair, before)
        assert ABSENT in ask(pair, "do-let-go")
        assert ABSENT in pair.client.finish(job, "the look-up", 20).out
        assert odd(rise(pair, before)) == {"unknown_xids": 2, "bad_xids": 2}, rise(pair, before)


@test("late reply to an abandoned call", "V1-41", "V1-113", limit=120, device="rxe")
def late(pair: Pair) -> None:
    """It finds no caller, and that is no offence."""
    with hostile(pair) as server:
        before = counters(pair)
        keep(pair, server, "keep")
        assert ABSENT in ask(pair, "do-let-go")
        risen = rise(pair, before)
        assert odd(risen) == {"unknown_xids": 1, "bad_xids": 1}, risen
        assert len(server.of("connect")) == 1 and len(server.lookups("do-keep")) == 1
        assert ABSENT in ask(pair, "do-right")


@test("late reply that invalidates a handle of its own call", "V1-41", "PD-30", limit=120, device="rxe")
def late_own(pair: Pair) -> None:
    """The registration is invalidated by then, and the server may have been about to do that: no offence."""
    with hostile(pair, mount="nordirplus") as server:
        assert ABSENT in ask(pair, "arm-keep-own-at-READDIR")
        before = counters(pair)
        job = pair.client.spawn(f"ls {MOUNT_POINT} & echo $! >/tmp/waiting; wait $!")
        order = server.wait(lambda event: event.get("mode") == "keep-own", "the call did not come")
        kill(pair, job)
        assert ABSENT in ask(pair, "do-let-go")
        risen = rise(pair, before)
        assert odd(risen) == {"unknown_xids": 1, "bad_xids": 1}, risen
        (call,) = [m for m in server.messages(NFS, READDIR) if m["xid"] == order["xid"]]
        assert call["reply"] or call["write"], "the call had no chunk"
        assert len(server.of("connect")) == 1, "the connection was remade"
        assert ABSENT in ask(pair, "do-right")


@test(
    "late reply that invalidates a handle of another call",
    *("V1-41", "PD-30", "H-30"),
    limit=120,
    device="rxe",
    allowed=(FOREIGN,),
)
def late_foreign(pair: Pair) -> None:
    """The abandoned call never had that handle: the server's access to memory is in doubt, so the connection ends."""
    with hostile(pair, mount="nordirplus") as server:
        stale_handle(pair, server)
        before = counters(pair)
        keep(pair, server, "keep-stale")
        assert ABSENT in ask(pair, "do-let-go")
        risen = rise(pair, before)
        assert risen.get("foreign_invalidates") == 1, f"the late reply has passed unnoticed: {odd(risen)}"
        assert ABSENT in ask(pair, "do-right")
        assert len(server.of("connect")) == 2 and counters(pair)["connect_count"] == 2, "the connection was not remade"
        assert len(server.lookups("do-keep-stale")) == 1, "the abandoned call was sent again"
        said = pair.client.run("dmesg").out
        assert re.search(rf"port {server.port}: ending the connection: it invalidated", said), "the log does not say it"
