# SPDX-License-Identifier: GPL-2.0
"""Calls that our server makes to its clients, over the connections of these."""

from __future__ import annotations

from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib import resources
from guests.lib.capture import capturing
from guests.lib.mountstats import calls
from guests.lib.recall import delegations, recall, take_delegation

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
    files, rounds = 50, pair.options.scaled(6, 4)
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
