# SPDX-License-Identifier: GPL-2.0
"""A device that knows memory by DMA addresses alone, and reads and writes copies of it (selftests/modules/realdma).

Memory that is not mapped, synchronised or unmapped as it should be shows in the data, and in the kernel log. The test
needs a kernel with DMA operations of single devices, which Debian's has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guests.harness.config import REPO
from guests.harness.pair import MOUNT_POINT, Pair, wait_until
from guests.harness.registry import test
from guests.lib import files
from guests.lib.modes import MODES, try_mode
from guests.lib.recall import recall
from guests.lib.rpcload import loaded


PARAMETERS = "/sys/module/realdma/parameters"
VERSIONS = [{"vers": "3"}, {"vers": "4.2"}]
SIZES = [{"size": size, "vers": vers} for size, vers in ((4096, "4.2"), (files.MIB, "3"))]


def count(pair: Pair, name: str) -> int:
    """A number of the device."""
    return int(pair.client.run(f"cat {PARAMETERS}/{name}").out)


@contextmanager
def real(pair: Pair) -> Iterator[None]:
    """The client's device is such a one. Nothing that is done to it in the block is wrong, and no mapping is left."""
    if pair.client.run("test -d /sys/module/realdma", check=False).rc:
        path = REPO / "out" / pair.options.variant / "realdma/realdma.ko"
        pair.unload_module()
        pair.client.run(f"rdma link delete rxe0; insmod {pair.send(pair.client, path)}")
        pair.client.run("rdma link add rxe0 type rxe netdev eth0")
        pair.load_module()
    # The mappings of the connection manager's Receives.
    before = count(pair, "mappings")
    assert before > 0, "the device does without DMA mappings"
    yield
    assert count(pair, "wrong") == 0, "the mistakes are in the kernel messages"
    wait_until(lambda: count(pair, "mappings") <= before, "mappings are left", 20 * pair.options.slowness)


@test(
    "real DMA: files of {vers}, every size", "H-95", "V1-127", limit=120, device="rxe", needs=("dma",), cases=VERSIONS
)
def sizes(pair: Pair, vers: str) -> None:
    """Inline data and chunks of both directions."""
    with real(pair):
        files.every_size(pair, vers)


@test(
    "real DMA: I/O of {size} bytes, vers={vers}", "H-95", "V1-127", limit=120, device="rxe", needs=("dma",), cases=SIZES
)
def transfers(pair: Pair, size: int, vers: str) -> None:
    """Buffered, direct and by mmap."""
    with real(pair):
        files.every_kind(pair, size, vers)


@test(
    "real DMA: calls of all shapes, over several connections", "H-95", "V1-127", limit=120, device="rxe", needs=("dma",)
)
def shapes(pair: Pair) -> None:
    """Data in head, pages and tail, in every mode of transfer, each byte checked on both sides."""
    with real(pair), loaded(pair) as load:
        load.open()
        for seed in range(4):
            shape = "call=200000 reply=200000 vary=1"
            load.one(f"run count=200 depth=16 seed={seed} {shape}", timeout=60).good()
            load.one("reconnect").good()
        assert load.bad_calls() == 0
        load.one("close").good()


@contextmanager
def moving(pair: Pair) -> Iterator[None]:
    """In the block the device's copies of memory do not begin at the same place in their page, as bounce buffers do not."""
    with real(pair):
        pair.client.run(f"echo 1 >{PARAMETERS}/moves")
        yield
        pair.client.run(f"echo 0 >{PARAMETERS}/moves")


@test(
    "real DMA: bounce buffers, calls of all shapes", "H-37", "H-95", "V1-127", limit=120, device="rxe", needs=("dma",)
)
def bounced_shapes(pair: Pair) -> None:
    """Memory without a gap has addresses with gaps: it takes more registrations, and every byte arrives."""
    with moving(pair), loaded(pair) as load:
        load.open()
        for seed in range(4):
            load.one(f"run count=200 depth=16 seed={seed} call=200000 reply=200000 vary=1", timeout=60).good()
        assert load.bad_calls() == 0
        load.one("close").good()


@test(
    "real DMA: bounce buffers, I/O of {size} bytes, vers={vers}",
    *("H-37", "H-95", "V1-127"),
    limit=120,
    device="rxe",
    needs=("dma",),
    cases=SIZES,
)
def bounced_transfers(pair: Pair, size: int, vers: str) -> None:
    """Buffered, direct and by mmap."""
    with moving(pair):
        files.every_kind(pair, size, vers)


@test(
    "real DMA: bounce buffers, mode: {mode}",
    *("H-37", "V1-46", "V1-47", "V1-127"),
    limit=120,
    device="rxe",
    needs=("dma",),
    cases=[{"mode": mode} for mode in MODES],
)
def bounced_modes(pair: Pair, mode: str) -> None:
    """Each mode of transfer, in all sizes and places; more registrations are the same chunks."""
    with moving(pair):
        try_mode(pair, mode)


NAMES, APPENDED = 2000, 9000


@test(
    "real DMA: bounce buffers, files of {vers}",
    *("H-37", "H-95", "V1-127"),
    limit=120,
    device="rxe",
    needs=("dma",),
    cases=VERSIONS,
)
def bounced_files(pair: Pair, vers: str) -> None:
    """Directories, whose replies have a head, pages and a tail, an append within a page, and direct I/O that begins and ends
    within pages."""
    with moving(pair):
        # Left by the test of the same with memory that stays.
        pair.server.run(f"rm -rf /export/sizes-{vers}")
        files.every_size(pair, vers)
        pair.mount(vers, "nordirplus" if vers == "3" else "")
        pair.client.run(f"mkdir {MOUNT_POINT}/many; cd {MOUNT_POINT}/many; seq -f file-%05g {NAMES} | xargs touch", 60)
        pair.drop_caches()
        assert pair.client.run(f"ls {MOUNT_POINT}/many | wc -l").out.strip() == str(NAMES)
        name = f"{MOUNT_POINT}/appended"
        pair.client.run(f"head -c 100 /dev/zero >{name}; head -c {APPENDED} /dev/urandom >/tmp/more")
        pair.client.run(f"cat /tmp/more >>{name}; sync {name}")
        wanted = pair.client.run("{ head -c 100 /dev/zero; cat /tmp/more; } | sha256sum").out
        assert pair.server.run("sha256sum </export/appended").out == wanted, "as written"
        pair.drop_caches()
        assert pair.client.run(f"sha256sum <{name}").out == wanted, "as read back"
        pair.client.run(f"python3 -I -S /share/tools/within.py {MOUNT_POINT}/within", 60)
        pair.client.run(f"rm -r {MOUNT_POINT}/many {MOUNT_POINT}/within {name}", 60)
        pair.umount()


@test("real DMA: delegations are recalled", "H-95", "BI-1", limit=120, device="rxe", needs=("dma",))
def recalled(pair: Pair) -> None:
    """The reverse direction: an unsolicited message, and a message that no reply follows."""
    with real(pair):
        recall(pair)
