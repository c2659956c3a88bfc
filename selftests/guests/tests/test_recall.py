# SPDX-License-Identifier: GPL-2.0
"""Calls that the server makes: delegation recall over the backchannel of NFSv4.2."""

from guests.harness.pair import MOUNT_POINT, NFS_PORT, Late, Pair
from guests.harness.registry import test
from guests.lib.capture import capturing
from guests.lib.mountstats import calls, transport
from guests.lib.recall import delegations, recall, returns, take_delegation, unsent
from guests.lib.rules import rule
from guests.lib.sight import table

HEADER = {"1": 28, "2": 32}  # bytes, without chunks


@test("the session is told how long a call from the server may be", "BI-20", limit=60, device="rxe", core=True)
def session(pair: Pair) -> None:
    """Both directions' thresholds hold for the backchannel, as its messages have no chunks."""
    with capturing(pair.client, "session") as capture:
        pair.mount("4.2")
        version = table(pair.client)[NFS_PORT]["ver"] if pair.options.client == "ours" else "1"
        pair.umount()
    found = capture.decode("nfs.opcode == 43 && rpc.msgtyp == 0", "nfs.maxreqsize4", "nfs.maxrespsize4")
    assert found, "tshark saw no CREATE_SESSION"
    back = {tuple(int(sizes.split(",")[1]) for sizes in frame) for frame in found}
    most = 4096 - HEADER[version]
    assert back == {(most, most)}, found


@test("delegations are recalled", "BI-1", limit=90, core=True)
def recalled(pair: Pair) -> None:
    """A write on the server makes nfsd call the client back on the client's own connection; the delegation returns."""
    recall(pair)


@test(
    "many recalls during I/O, {credits} credits",
    *("BI-1", "BI-2", "H-74"),
    limit=120,
    cases=[{"credits": 128}, {"credits": 4}],
)
def recalls_under_load(pair: Pair, credits: int) -> None:
    """Both directions share one connection: recalls get through while the client writes, with all its credits if few."""
    if pair.options.client == "ours":
        pair.client.run(f"echo {credits} >/sys/module/rpcrdma_rs/parameters/credits")
    count = pair.options.scaled(40, 5)
    # Not those of the other case: nfsd gives no delegation of a file for a while after a recall.
    name = f"r{credits}-"
    pair.server.run(f"cd /export; for i in $(seq {count}); do echo $i >{name}$i; done")
    # Small writes, so that many of them are under way.
    pair.mount("4.2", "wsize=16384")
    take_delegation(pair, name, 5)
    pair.client.run(f"for i in $(seq {count}); do cat {MOUNT_POINT}/{name}$i; done >/dev/null")
    # In this order: with a lease of ten seconds the client returns a delegation by itself when it has not used it for five
    # to thirteen, which must not fall between the two.
    before = calls(pair.client, MOUNT_POINT, "DELEGRETURN")
    called = transport(pair.client, MOUNT_POINT).get("reverse_calls", 0)
    held = len(delegations(pair, name))
    assert held >= count // 2, f"{held} delegations of {count}"
    writer = f"""
    i=0
    while [ ! -e /tmp/enough ]; do
        i=$((i + 1))
        dd if=/dev/zero of={MOUNT_POINT}/load bs=64k count=32 conv=fsync status=none
    done
    echo $i
    """
    pair.client.run("rm -f /tmp/enough")
    job = pair.client.spawn(writer)
    pair.server.run(f"cd /export; for i in $(seq {count}); do echo more >>{name}$i; done", 40)
    pair.client.run("touch /tmp/enough")
    rounds = int(pair.client.finish(job, "the writer", 30).out)
    returned = returns(pair, before + held) - before
    assert rounds > 0 and returned >= held and not delegations(pair, name), (
        f"{rounds} rounds, {returned} of {held} delegations returned"
    )
    after = transport(pair.client, MOUNT_POINT)
    if after.get("reverse_calls", 1) <= called:
        raise Late("the client had returned all delegations before they were recalled")
    waited = after["backlog_utilisation"]
    assert credits > 4 or pair.options.client != "ours" or waited, (
        "no call had to wait for a slot: there were credits left"
    )
    wanted = "".join(f"{i}\nmore\n" for i in range(1, count + 1))
    assert pair.client.run(f"cd {MOUNT_POINT}; for i in $(seq {count}); do cat {name}$i; done").out == wanted
    pair.umount()
    if pair.options.client == "ours":
        pair.client.run("echo 128 >/sys/module/rpcrdma_rs/parameters/credits")


@test(
    "{count} recalls during I/O and disconnects",
    "BI-1",
    "BI-10",
    "BI-22",
    "PD-20",
    limit=400,
    device="rxe",
    client="ours",
    cases=[{"count": 60}],
)
def recalls_with_disconnects(pair: Pair, count: int) -> None:
    """A recall that is lost with its connection is made again: none that was sent is lost, and none has an effect twice."""
    count = pair.options.scaled(count, 20)
    # The client itself returns a delegation that it has not used for some seconds, so only some are taken at a time,
    # and again until as many have been recalled.
    batch = count // 10
    pair.server.run(f"cd /export; for i in $(seq {count}); do echo $i >d-$i; done")
    recalled, turns = 0, 0
    with rule(pair.client, "recalls", port=NFS_PORT) as asked, unsent(pair) as given_up:
        pair.mount("4.2", "wsize=16384")
        take_delegation(pair, "d-", min(batch, 8))
        connections = connects(pair)
        load = f"dd if=/dev/zero of={MOUNT_POINT}/load bs=64k count=32 conv=fsync status=none"
        breaks = f"sleep 0.7; echo 1 >{asked.directory}/reconnect"
        pair.client.run("rm -f /tmp/enough")
        job = pair.client.spawn(f"while [ ! -e /tmp/enough ]; do {load}; {breaks}; done")
        while recalled < count and turns < 120:
            first = 1 + turns * batch % count
            turns += 1
            numbers = f"$(seq {first} {first + batch - 1})"
            pair.client.run(f"for i in {numbers}; do cat {MOUNT_POINT}/d-$i; done >/dev/null", 60)
            before = calls(pair.client, MOUNT_POINT, "DELEGRETURN")
            freed = calls(pair.client, MOUNT_POINT, "FREE_STATEID")
            held = len(delegations(pair, "d-"))
            pair.server.run(f"cd /export; for i in {numbers}; do echo more >>d-$i; done", 100)
            # nfsd may list one that is on its way out, and a client that has returned it does not again. One that was
            # not returned in time would have been revoked, and the client frees what was revoked.
            returned = returns(pair, before + held) - before
            revoked = calls(pair.client, MOUNT_POINT, "FREE_STATEID")
            assert held - 1 <= returned + revoked - freed, f"{returned} of {held} delegations returned"
            assert revoked <= given_up(), f"{revoked} delegations revoked, {given_up()} of them not recalled"
            assert not delegations(pair, "d-")
            recalled += min(held, returned)
        pair.client.run("touch /tmp/enough")
        pair.client.finish(job, "the writer", 60)
        made = connects(pair) - connections
        wanted = "".join(f"{i}\n" + "more\n" * len(range((i - 1) // batch, turns, 10)) for i in range(1, count + 1))
        assert pair.client.run(f"cd {MOUNT_POINT}; for i in $(seq {count}); do cat d-$i; done", 60).out == wanted
        pair.umount()
        unmade = given_up()
    # nfsd gives few delegations of files that it has recalled some of.
    if recalled < count // 3 or made < 3:
        raise Late(f"{recalled} recalls, {made} disconnects")
    print(f"# {recalled} recalls over {made + 1} connections; {unmade} given up by nfsd")


def connects(pair: Pair) -> int:
    """Connections made so far."""
    return transport(pair.client, MOUNT_POINT)["connect_count"]
