# SPDX-License-Identifier: GPL-2.0
"""The client's attempts to connect, and the devices' messages about the connections that are lost before them."""

from __future__ import annotations

import re
from itertools import pairwise

from guests.harness.pair import Pair

# rxe's message about a peer that no longer replies, as in these tests.
PROVOKED = (r"rxe\d+: qp#\d+ make_send_cqe: non-flush error status = \d+", r"rxe\d+: qp#\d+ .*retry.*exceeded")


def connected(pair: Pair) -> list[str]:
    """The numbers of the client's connected queue pairs."""
    return re.findall(r"lqpn (\d+) .*type RC state RTS", pair.client.run("rdma resource show qp").out)


# The event that `attempts` counts.
TRACE = "/sys/kernel/tracing/events/rdma_cma/cm_id_destroy/enable"
# An attempt to connect, and the pause between two of them, as seen from outside: whether the transport is connecting,
# and whether it has an identifier of the connection manager.
ATTEMPT, PAUSE = (True, True), (True, False)


def state(pair: Pair) -> tuple[bool, bool]:
    """The progress of the client's only transport in connecting: `ATTEMPT`, `PAUSE` or neither."""
    text = pair.client.run(
        "cat /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma*/xprt_state; rdma resource show cm_id"
    ).out
    return "CONNECTING" in text, f"comm [{pair.module}]" in text


def attempts(pair: Pair) -> int:
    """The number of attempts to connect that have failed since `TRACE` was turned on: each destroys its identifier."""
    return int(pair.client.run("grep -c 'cm_id_destroy:' /sys/kernel/tracing/trace || true").out)


def timed(pair: Pair, script: str) -> list[float]:
    """Runs a script that prints `now` between its steps; returns the seconds of guest time that each took."""
    now = "now() { cut -d' ' -f1 /proc/uptime; }"
    times = [float(line) for line in pair.client.run(f"{now}\nnow\n{script}\nnow", 150).lines]
    return [end - start for start, end in pairwise(times)]
