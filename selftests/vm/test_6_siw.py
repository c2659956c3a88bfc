# SPDX-License-Identifier: GPL-2.0
"""The same over iWARP, whose Reads, handles and private data differ from RoCE's."""

from harness.mountstats import transport
from harness.pair import MOUNT_POINT, Pair
from harness.registry import test

from .guest import pattern

VERSIONS = [{"vers": "3"}, {"vers": "4.2"}]


@test("siw: I/O, vers={vers}", "V1-142", "V1-46", "V1-50", limit=90, device="siw", cases=VERSIONS)
def siw(pair: Pair, vers: str) -> None:
    """Chunks of all kinds, checked on both sides."""
    pair.server.run("cd /export; mkdir -p many; cd many; seq -f file-%05g 400 | xargs touch")
    pair.mount(vers)
    tool = "python3 -I -S /share/tools/pattern.py"
    for size in (4096, 70001, pair.options.scaled(20 << 20) + 5):
        pair.client.run(f"{tool} write buffered {MOUNT_POINT}/siw {size} {size}", 60)
        wanted = pattern.digest(size, size)
        assert pair.server.run("sha256sum /export/siw").out.split()[0] == wanted, f"{size} octets as written"
        pair.drop_caches()
        assert pair.client.run(f"{tool} read direct {MOUNT_POINT}/siw", 60).out.strip() == wanted, f"{size} octets read"
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
    """The module goes after mounts over iWARP too."""
    pair.unload_module()
    pair.load_module()
