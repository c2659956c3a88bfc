# SPDX-License-Identifier: GPL-2.0
"""The same over iWARP, whose Reads, handles and private data differ from RoCE's."""

from guests.harness.network import SERVER
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib.connecting import ATTEMPT, state, timed
from guests.lib.mountstats import transport
from guests.programs import pattern

VERSIONS = [{"vers": "3"}, {"vers": "4.2"}]


@test("siw: I/O, vers={vers}", "V1-142", "V1-46", "V1-50", limit=90, device="siw", cases=VERSIONS, core=True)
def siw(pair: Pair, vers: str) -> None:
    """Chunks of all kinds, checked on both sides."""
    pair.server.run("cd /export; mkdir -p many; cd many; seq -f file-%05g 400 | xargs touch")
    pair.mount(vers)
    tool = "python3 -I -S /share/tools/pattern.py"
    for size in (4096, 70001, pair.options.scaled(20 << 20) + 5):
        pair.client.run(f"{tool} write buffered {MOUNT_POINT}/siw {size} {size}", 60)
        wanted = pattern.digest(size, size)
        assert pair.server.run("sha256sum /export/siw").out.split()[0] == wanted, f"{size} bytes as written"
        pair.drop_caches()
        assert pair.client.run(f"{tool} read direct {MOUNT_POINT}/siw", 60).out.strip() == wanted, f"{size} bytes read"
    assert pair.client.run(f"ls {MOUNT_POINT}/many | wc -l").out == "400\n"
    after = transport(pair.client, MOUNT_POINT)
    assert after["read_chunks"] and after["write_chunks"] and after["reply_chunks"], after
    pair.umount()


@test("siw: rdma6", "V1-142", limit=60, device="siw")
def siw6(pair: Pair) -> None:
    """iWARP over IPv6."""
    pair.mount("4.2", proto="rdma6")
    pair.client.run(f"head -c 1000000 /dev/zero | tr '\\000' w >{MOUNT_POINT}/six")
    assert pair.server.run("tr -d w </export/six | wc -c; stat -c %s /export/six").lines == ["0", "1000000"]
    pair.umount()


@test("siw: unload", "H-85", limit=60, device="siw")
def unload(pair: Pair) -> None:
    """The module can be unloaded after mounts over iWARP too."""
    pair.unload_module()
    pair.load_module()


@test(
    "siw: {act} while the server does not reply",
    "H-49",
    limit=120,
    device="siw",
    cases=[{"act": "unload"}, {"act": "removal"}],
)
def silence(pair: Pair, act: str) -> None:
    """Over siw an attempt can only be waited for: rdma_connect blocks in a TCP connect, with the handler mutex held.

    So the transport, the module and the device stay as long as TCP tries: 131 seconds with the kernel's defaults, 35 with
    four retries, and 7 with one, as in this test. Beyond that nothing may wait.
    """
    limit = 5 * pair.options.slowness if pair.options.debug else 15
    pair.mount("3")
    pair.client.run(f"ip neigh replace {SERVER.ipv4} lladdr {SERVER.mac} nud permanent dev eth0")
    retries = pair.client.run("sysctl -n net.ipv4.tcp_syn_retries").out.strip()
    pair.client.run("sysctl -q -w net.ipv4.tcp_syn_retries=1")
    with pair.unplugged():
        pair.client.run("rdma link delete siw0; rdma link add siw0 type siw netdev eth0")
        user = pair.client.spawn(f"stat {MOUNT_POINT}/nothing")
        wait_until(lambda: state(pair) == ATTEMPT, "there was no attempt to connect", 30 * pair.options.slowness)
        pair.client.run("pkill -KILL -x stat")
        pair.client.finish(user, "its user", 10, check=False)
        steps = {
            "unload": f"umount -i -f {MOUNT_POINT}\nnow\nuntil rmmod {pair.module} 2>/dev/null; do sleep 0.1; done",
            "removal": f"umount -i -f {MOUNT_POINT}\nnow\nrdma link delete siw0",
        }
        unmounting, then = timed(pair, steps[act])
        assert unmounting + then < limit, f"unmounting took {unmounting:.1f} s, {act} {then:.1f} s; limit {limit:.0f} s"
    pair.client.run(f"ip neigh del {SERVER.ipv4} dev eth0; sysctl -q -w net.ipv4.tcp_syn_retries={retries}")
    if act == "removal":
        pair.client.run("rdma link add siw0 type siw netdev eth0")
        pair.unload_module(30)
    pair.load_module()
    pair.mount("3")
    pair.umount()
