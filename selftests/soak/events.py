# SPDX-License-Identifier: GPL-2.0
"""What happens to a mount under load. Each event draws its details, prints what it does, and does it."""

from __future__ import annotations

import functools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from guests.harness.guest import Guest
from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import NFS_PORT, Pair
from guests.lib.kerberos import SERVER_NAME
from guests.lib.nfsd import LINK_UP, PORTLIST, START
from guests.lib.rules import ROOT
from guests.lib.sight import DIRECTORY

FAULTS = "/sys/kernel/debug/fail_sunrpc"
PARAMETERS = "/sys/module/rpcrdma_rs/parameters"
LIMIT = 60  # seconds, before stretching
RECALLED = 10  # seconds
SIZES = (1024, 4096, 16384, 65536)
RULE = f"{ROOT}/soak"
NO_RULE = f"rmdir {RULE} 2>/dev/null || true"
# Set up before the first connection: soft-RoCE ends queue pairs whose packets find the queue of the adapter replaced.
QUEUE = "tc qdisc change dev eth0 root netem limit 100000"
# A thread of nfsd that commits a file may have to wait for a delegation of it, __break_lease(), by default for 45 s.
# A mount may find the client of an earlier one by the other address, unmounted lazily; gssd wants a name for each address.
READY = f"""
tc qdisc replace dev eth0 root netem limit 100000
echo 5 >/proc/sys/fs/lease-break-time
echo '{SERVER.ipv6} {SERVER_NAME}' >>/etc/hosts
"""

# A trace buffer of its own has the messages that RPC and NFSv4 refuse: an application sees EIO for each of the reasons.
TRACES = "/sys/kernel/tracing/instances/soak"
REPORTED = f"{TRACES}/trace"
REFUSED = """
rpcgss/rpcgss_bad_seqno rpcgss/rpcgss_unwrap_failed rpcgss/rpcgss_unwrap rpcgss/rpcgss_verify_mic rpcgss/rpcgss_get_mic
rpcgss/rpcgss_wrap rpcgss/rpcgss_svc_unwrap rpcgss/rpcgss_svc_unwrap_failed rpcgss/rpcgss_svc_seqno_bad rpcgss/rpcgss_svc_mic
sunrpc/rpc_call_rpcerror sunrpc/rpc_bad_verifier sunrpc/rpc__garbage_args sunrpc/rpc__unparsable sunrpc/rpc__stale_creds
sunrpc/rpc__bad_creds sunrpc/rpc_xdr_overflow sunrpc/xprt_retransmit nfs4/nfs4_xdr_status nfs4/nfs4_xdr_bad_operation
nfs4/nfs4_state_mgr nfs4/nfs4_state_mgr_failed nfs4/nfs4_open_file nfs4/nfs4_open_reclaim nfs4/nfs4_open_expired
"""
WITNESS = f"""
modprobe -a auth_rpcgss nfsv4
mkdir {TRACES}; cd {TRACES}/events
for event in nfs4_open_file nfs4_open_reclaim nfs4_open_expired; do echo 'error != 0' >nfs4/$event/filter; done
for event in {" ".join(REFUSED.split())}; do echo 1 >$event/enable; done
"""

# Takes so much of the memory that is available, for a second.
HOG = """
python3 -I -S -c 'import sys, time
taken = b"x" * (int(sys.argv[1]) << 20)
time.sleep(1)' $(awk '/MemAvailable/ {{ print int($2 * {share} / 100 / 1024) }}' /proc/meminfo)
"""


@dataclass(frozen=True)
class Scene:
    """Where events happen: the guests, the random numbers, and the list of what has happened."""

    pair: Pair
    draw: random.Random
    say: Callable[[str], None]
    only: tuple[str, ...] = ()  # names of events; none for all
    keeps_state: bool = False  # no event takes nfsd's state

    @property
    def own(self) -> list[Guest]:
        """The guests with our module."""
        ends = (self.pair.client, self.pair.options.client), (self.pair.server, self.pair.options.server)
        return [guest for guest, of in ends if of == "ours"]


ONE_AT_A_TIME = threading.Lock()


def alone(event: Callable[[Scene], None]) -> Callable[[Scene], None]:
    """An event that would fail because of another of its kind."""

    @functools.wraps(event)
    def one(scene: Scene) -> None:
        with ONE_AT_A_TIME:
            event(scene)

    return one


def cable(scene: Scene) -> None:
    """Frames are lost for a time, shorter and longer than the device tries for."""
    seconds = scene.draw.choice((0.05, 0.3, 1, 3, 8))
    scene.say(f"cable out for {seconds} s")
    with scene.pair.unplugged():
        time.sleep(seconds)


@alone
def restart(scene: Scene) -> None:
    """The server ends its connections, and comes back."""
    seconds = scene.draw.choice((0, 1))
    scene.say(f"server stopped for {seconds} s")
    port = f"echo 'rdma {NFS_PORT}' >{PORTLIST}"
    scene.pair.server.run(f"rpc.nfsd 0; sleep {seconds}; rpc.nfsd 8; {port}", LIMIT)


@alone
def device(scene: Scene) -> None:
    """The client's device is removed, and another is added."""
    scene.say("device removed")
    scene.pair.client.run("rdma link delete rxe0; sleep 0.2; rdma link add rxe0 type rxe netdev eth0", LIMIT)


def disconnects(scene: Scene) -> None:
    """sunrpc ends connections in the middle of anything."""
    interval, times = scene.draw.choice((3, 20, 100, 500)), scene.draw.choice((1, 3, 10))
    scene.say(f"every {interval}th Send disconnects, {times} times")
    scene.pair.client.run(f"cd {FAULTS}; echo {interval} >interval; echo {times} >times; echo 100 >probability")


def kill(scene: Scene) -> None:
    """Calls are abandoned."""
    number = scene.draw.choice((1, 2, 8))
    scene.say(f"{number} processes killed")
    children = "pgrep -x storm | grep -vx $(pgrep -o -x storm)"
    scene.pair.client.run(f"{children} | shuf -n {number} | xargs -r kill -9", check=False)


def caches(scene: Scene) -> None:
    """The client forgets what it has read."""
    scene.say("caches dropped")
    scene.pair.client.run("echo 3 >/proc/sys/vm/drop_caches", LIMIT)


def memory(scene: Scene) -> None:
    """Memory is short, and reclaim waits for writes."""
    share = scene.draw.choice((50, 80, 95))
    scene.say(f"{share} % of the memory taken")
    scene.pair.client.run(HOG.format(share=share), 2 * LIMIT, check=False)


def recall(scene: Scene) -> None:
    """The server calls delegations back over the same connections."""
    scene.say("delegations recalled")
    # nfsd drops the recall, and the revocation with it, while the client has no callback channel: nfsd4_run_cb_work(). The process
    # that opens the file waits for as long as the client lives.
    change = f"timeout {RECALLED} sh -c 'chmod 640 $1; : >>$1' sh"
    script = f"for f in $(ls -d /export/soak-*/file-* | shuf -n 6); do {change} $f; done"
    scene.pair.server.run(script, LIMIT, check=False)


def look(scene: Scene) -> None:
    """Everything that shows connections is read."""
    scene.say("debugfs and statistics read")
    files = "/sys/kernel/debug/rpcrdma_rs /sys/kernel/debug/sunrpc"
    script = f"cat /proc/self/mountstats; find {files} -type f -exec cat {{}} +"
    scene.pair.client.run(f"for i in 1 2 3; do {script}; done >/dev/null 2>&1", LIMIT, check=False)


def trace(scene: Scene) -> None:
    """All events of the module are traced for a moment."""
    if scene.pair.client not in scene.own:
        return
    scene.say("traced")
    enable = "/sys/kernel/tracing/events/rpcrdma_rs/enable"
    scene.pair.client.run(f"echo 1 >{enable}; sleep 0.3; echo 0 >{enable}", LIMIT)


def parameters(scene: Scene) -> None:
    """The next connections have other sizes."""
    if scene.pair.client not in scene.own:
        return
    settings = (
        ("max_inline_send", (1024, 4096, 65536)),
        ("max_inline_receive", (1024, 4096, 65536)),
        ("remote_invalidation", (0, 1)),
        ("credits", (4, 16, 128, 1024)),
    )
    some = [(name, scene.draw.choice(values)) for name, values in scene.draw.sample(settings, 2)]
    scene.say(f"parameters {some}")
    scene.pair.client.run("\n".join(f"echo {value} >{PARAMETERS}/{name}" for name, value in some))


def version(scene: Scene) -> None:
    """The next connections of an end are of version 2, if the other permits it, or of version 1."""
    for guest in scene.own:
        value = scene.draw.choice((0, 0, 1))
        scene.say(f"{guest.name}: version={value}")
        guest.run(f"echo {value} >{PARAMETERS}/version; echo 65536 >{PARAMETERS}/inline_max")


def sizes(scene: Scene) -> None:
    """Connections of version 2 in use are raised, or made smaller; those of version 1 refuse that."""
    for guest in scene.own:
        change = f"{scene.draw.choice(('receive-size', 'peer-receive-size'))}={scene.draw.choice(SIZES)}"
        scene.say(f"{guest.name}: {change}")
        files = f"{DIRECTORY}/xprt-* {DIRECTORY}/svc-*"
        guest.run(f"for file in {files}; do echo {change} >$file || true; done 2>/dev/null", LIMIT)


@alone
def rules(scene: Scene) -> None:
    """A rule for the other end goes, and another may come, and end the connections that it is for."""
    if not scene.own:
        return
    guest = scene.draw.choice(scene.own)
    side, peer = ("client", SERVER) if guest is scene.pair.client else ("server", CLIENT)
    guest.run(NO_RULE)
    if scene.draw.random() < 0.3:
        scene.say(f"{guest.name}: no rule")
        return
    values = {
        "inline_send": scene.draw.choice(SIZES),
        "inline_receive": scene.draw.choice(SIZES),
        "credits": scene.draw.choice((4, 32, 256)),
        "version": scene.draw.choice(("1", "auto")),
    }
    some = dict(scene.draw.sample(list(values.items()), 2))
    lines = [f"echo {value} >{RULE}/{name}" for name, value in {"side": side, "peer": peer.ipv4, **some}.items()]
    ends = scene.draw.random() < 0.5
    if ends:
        # Refused while no connection is for the rule.
        lines.append(f"echo 1 2>/dev/null >{RULE}/reconnect || true")
    scene.say(f"{guest.name}: rule {some}" + (", and its connections end" if ends else ""))
    guest.run("\n".join([f"mkdir {RULE}", *lines]), LIMIT)


def delay(scene: Scene) -> None:
    """Frames of an end are late. They keep their order: soft-RoCE gives up a connection whose frames overtake each other."""
    guest = scene.draw.choice((scene.pair.client, scene.pair.server))
    milliseconds = scene.draw.choice((0, 0.3, 3, 20))
    scene.say(f"{guest.name}: frames late by {milliseconds} ms")
    guest.run(f"{QUEUE} delay {milliseconds}ms", LIMIT)


@alone
def server_device(scene: Scene) -> None:
    """The server's device is removed, and another is added."""
    if scene.pair.server not in scene.own:
        return
    scene.say("server's device removed")
    # rpc.nfsd opens no port where one is. Contexts of Kerberos are made over TCP.
    scene.pair.server.run(f"rdma link delete rxe0; rpc.nfsd 0; {LINK_UP}; {START}echo 'tcp 2049' >{PORTLIST}", LIMIT)


# How often each happens, beside the others.
EVENTS = {
    cable: 3,
    restart: 2,
    device: 1,
    disconnects: 5,
    kill: 3,
    caches: 2,
    memory: 1,
    recall: 3,
    look: 2,
    trace: 1,
    parameters: 2,
    version: 2,
    sizes: 3,
    rules: 2,
    delay: 2,
    server_device: 1,
}


# nfsd forgets who has opened what.
LOSE_STATE = (restart, server_device)


def happen(scene: Scene, end: float) -> None:
    """One event after the other until a time."""
    events = {event: often for event, often in EVENTS.items() if not (scene.keeps_state and event in LOSE_STATE)}
    some = {event: often for event, often in events.items() if event.__name__ in scene.only} or events
    while time.monotonic() < end:
        time.sleep(scene.draw.choice((0.05, 0.3, 1, 2)))
        (event,) = scene.draw.choices(list(some), list(some.values()))
        event(scene)
