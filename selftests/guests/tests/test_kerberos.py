# SPDX-License-Identifier: GPL-2.0
"""Kerberos: calls and replies are larger, and with privacy none of their data may be placed apart."""

from __future__ import annotations

import re
import time

from guests.harness.pair import MOUNT_POINT, NFS_PORT, Pair
from guests.harness.registry import test
from guests.lib import hold, kerberos
from guests.lib.files import SIZES, check_digests, digests
from guests.lib.mountstats import SUSPICIOUS, transport
from guests.lib.rules import rule
from guests.programs import pattern

SERVERS = [{"server": server, "of": server} for server in ("in-tree", "ours")]
MIB = 1 << 20
ANSWER = 3  # seconds that a call waits for its reply
TIMER = 500  # milliseconds, of calls that are to be sent again
CALLS = 16


def mount(pair: Pair, vers: str, flavour: str, options: str = "") -> None:
    """Mounts the export with a flavour of Kerberos, which is in force then."""
    kerberos.mount(pair, vers, flavour, options)
    line = pair.client.run(f"grep ' {MOUNT_POINT} ' /proc/mounts").out
    assert f"sec={flavour}," in line and "proto=rdma," in line, line


def reader(pair: Pair, flavour: str, vers: str) -> str:
    """The command that reads a file back.

    nfsd of Linux 7.3 counts the pages of an NFSv4 reply before RPCSEC_GSS appends the checksum of krb5i, which lies in
    a page of its own where the data ends with a page. The next READ of the same thread overwrites that page while the
    reply still waits to be sent, over TCP as well, and the client reports EIO. One READ at a time meets no other.
    """
    if flavour != "krb5i" or vers.startswith("3"):
        return "cat {}"
    rsize = pair.client.run(f"sed -n 's|.* {MOUNT_POINT} .*[ ,]rsize=\\([0-9]*\\).*|\\1|p' /proc/mounts").out.strip()
    return f"dd iflag=direct status=none bs={int(rsize)} if={{}}"


def undisturbed(pair: Pair) -> None:
    """One connection, and nothing odd on it."""
    counts = transport(pair.client, MOUNT_POINT)
    odd = {name: counts[name] for name in ("bad_xids", "bad_replies", *SUSPICIOUS) if counts.get(name)}
    assert counts["connect_count"] == 1 and not odd, f"{counts['connect_count']} connections, {odd}"


@test(
    "files of every size, {flavour}, vers={vers}, server {of}",
    *("V1-136", "V1-137", "V1-138"),
    limit=180,
    cases=[
        {"flavour": flavour, "vers": vers, **server}
        for server in SERVERS
        for flavour in kerberos.FLAVOURS
        for vers in ("3", "4.2")
    ],
)
def sizes(pair: Pair, flavour: str, vers: str, of: str) -> None:
    """Each is whole on the server, and when it is read back; no connection was lost over it."""
    mount(pair, vers, flavour)
    directory = f"{flavour}-{vers}"
    script = f"mkdir {MOUNT_POINT}/{directory}; cd {MOUNT_POINT}/{directory}\n"
    for mode in ("buffered", "direct"):
        for size in SIZES:
            script += f"python3 -I -S /share/tools/pattern.py write {mode} {mode}-{size} {size} {size}\n"
    pair.client.run(script, 120)
    wanted = [(pattern.digest(size, size), f"{mode}-{size}") for mode in ("buffered", "direct") for size in SIZES]
    # A server of ours takes that page out of the thread's hands.
    read = reader(pair, flavour, vers) if of == "in-tree" else "cat {}"
    check_digests(pair, directory, digests(wanted), directory, read)
    undisturbed(pair)
    pair.umount()


@test(
    "a connection of 1024 bytes both ways, {flavour}",
    "V1-136",
    "V1-137",
    client="ours",
    limit=120,
    cases=[{"flavour": f} for f in kerberos.FLAVOURS],
)
def small_inline(pair: Pair, flavour: str) -> None:
    """Tokens, credentials and verifiers that do not fit go by RDMA."""
    kerberos.bring_up(pair)
    with rule(pair.client, "small", port=NFS_PORT, inline_send=1024, inline_receive=1024):
        mount(pair, "4.2", flavour)
        names = " ".join(f"{number}-{'n' * 200}" for number in range(30))
        pair.client.run(f"mkdir {MOUNT_POINT}/{flavour}; cd {MOUNT_POINT}/{flavour}; touch {names}; ls -l | wc -l", 60)
        found = pair.server.run(f"ls /export/{flavour} | wc -l").out.strip()
        assert found == "30", f"{found} files"
        undisturbed(pair)
        pair.umount()


@test("the context of a user ends, {flavour}", limit=120, cases=[{"flavour": flavour} for flavour in kerberos.FLAVOURS])
def expiry(pair: Pair, flavour: str) -> None:
    """With a ticket of seconds the user's calls fail when it expires, and succeed with the next, on one connection."""
    mount(pair, "4.2", flavour)
    pair.server.run(f"mkdir -p /export/alice; chown {kerberos.USER_ID} /export/alice")
    seconds = round(5 * pair.options.slowness)
    run = f"setpriv --reuid {kerberos.USER_ID} --regid {kerberos.USER_ID} --clear-groups env KRB5CCNAME=FILE:/tmp/krb5cc_{kerberos.USER_ID}"
    login = f"echo {kerberos.PASSWORD} | {run} kinit {{}} {kerberos.USER} >/dev/null"
    write = f"{run} sh -c 'date >{MOUNT_POINT}/alice/{flavour}'"
    pair.client.run(f"{login.format(f'-l {seconds}s')}; {write}", 60)
    over = f"for i in $(seq {8 * seconds}); do {write} 2>/tmp/said || break; sleep 0.5; done; cat /tmp/said"
    said = pair.client.run(over, 4 * seconds).out
    assert re.search("expired|Permission denied|Key has", said), f"calls went on after the ticket: {said}"
    # The first write may still fail: for some seconds after it has looked for a ticket in vain, auth_rpcgss does not
    # look for another. The ticket outlives that, however slow the machine.
    pair.client.run(f"{login.format('')}; until {write}; do sleep 0.5; done", 60)
    undisturbed(pair)
    pair.umount()


@test(
    "a verifier that cannot be checked, vers={vers}",
    "V1-123",
    limit=120,
    device="rxe",
    needs=("kprobes",),
    cases=[{"vers": "3"}, {"vers": "4.2"}],
)
def unverified(pair: Pair, vers: str) -> None:
    """sunrpc drops the reply and waits for another, which does not come. The timer of the call ends the connection, and
    the call ends well on the next one."""
    # No call is made behind the back of this test: NFSv3 has no lease to renew, and that of NFSv4 is new.
    mount(pair, vers, "krb5", f"timeo={10 * ANSWER},noac")
    with hold.holding(pair):
        before = transport(pair.client, MOUNT_POINT)["connect_count"]
        hold.fail_verifier(pair)
        start = time.monotonic()
        pair.client.run(f"stat {MOUNT_POINT}", 30)
        seconds = time.monotonic() - start
        assert hold.count(pair, "verifier") == 0, "no verifier was checked"
        after = transport(pair.client, MOUNT_POINT)["connect_count"]
        assert after == before + 1, f"{after - before} reconnects within {seconds:.1f} s"
        assert seconds > ANSWER * 0.9, f"the call ended after {seconds:.1f} s"
    said = pair.client.run("dmesg").out
    assert "connection lost: a call got no reply in time" in said, said
    pair.umount()


@test(
    "replies that come when calls are sent again",
    "V1-123",
    limit=180,
    device="rxe",
)
def outdated(pair: Pair) -> None:
    """The replies come when the timers of their calls expire, some before that, some after; and some when a call has its next
    sequence number, and has yet to find that its connection must end. Each call ends well all the same."""
    # Each timer of a call is longer than the last. After a major timeout sunrpc would use the first again, and with sixteen calls
    # one of them would end each connection before its first reply.
    mount(pair, "3", "krb5p", f"nconnect=1,timeo={TIMER // 100},retrans=100,noac")
    calls = f"for i in $(seq {CALLS}); do stat {MOUNT_POINT}/file-$i >/dev/null & done; wait"
    pair.client.run(f"for i in $(seq {CALLS}); do : >{MOUNT_POINT}/file-$i; done")
    before = transport(pair.client, MOUNT_POINT)["connect_count"]
    delays = range(TIMER - 16, TIMER + 14, 4)
    for delay in list(delays) * max(1, pair.options.rounds // 2):
        pair.server.run(f"tc qdisc replace dev eth0 root netem delay {delay}ms limit 100000")
        said = pair.client.run(f"({calls}) 2>&1", 60).out
        assert not said, f"replies after {delay} ms: {said}"
    pair.server.run("tc qdisc del dev eth0 root")
    again = transport(pair.client, MOUNT_POINT)["connect_count"] - before
    assert again, "no call was sent again"
    pair.umount()


@test(
    "a large file, {flavour}, server {of}",
    *("V1-136", "V1-138"),
    limit=180,
    cases=[{"flavour": flavour, **server} for server in SERVERS for flavour in kerberos.FLAVOURS],
)
def large(pair: Pair, flavour: str, of: str) -> None:
    """Calls of the largest size."""
    mount(pair, "4.2", flavour, "rsize=1048576,wsize=1048576")
    size = pair.options.scaled(24, 3) * MIB + 5
    pair.client.run(f"python3 -I -S /share/tools/pattern.py write buffered {MOUNT_POINT}/large {size} large", 120)
    wanted = pattern.digest(size, "large")
    assert pair.server.run("sha256sum /export/large", 60).out.split()[0] == wanted, "as written"
    pair.drop_caches()
    show = (reader(pair, flavour, "4.2") if of == "in-tree" else "cat {}").format(f"{MOUNT_POINT}/large")
    assert pair.client.run(f"{show} | sha256sum", 120).out.split()[0] == wanted, "as read back"
    undisturbed(pair)
    pair.client.run(f"rm {MOUNT_POINT}/large")
    pair.umount()
