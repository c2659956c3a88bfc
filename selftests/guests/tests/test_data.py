# SPDX-License-Identifier: GPL-2.0
"""Data survives the way to the server and back: every size, both directions, every kind of I/O."""

import hashlib

from guests.harness.pair import MOUNT_POINT, Pair
from guests.harness.registry import test
from guests.lib import corpus, files
from guests.lib.files import MIB
from guests.programs import pattern

VERSIONS = [{"vers": "3"}, {"vers": "4.2"}]


@test("files of {vers}: every size", "V1-45", "V1-46", "V1-50", "V1-51", limit=60, cases=VERSIONS, core=True)
def sizes(pair: Pair, vers: str) -> None:
    """Short and chunked messages, with lengths that are no multiple of four (XDR padding), written by the client."""
    files.every_size(pair, vers)


@test("large file, vers={vers}", "V1-46", "V1-50", limit=120, cases=VERSIONS, core=True)
def large(pair: Pair, vers: str) -> None:
    """200 MiB, more than the client's cache need hold, in calls of the largest size."""
    pair.mount(vers, "rsize=1048576,wsize=1048576")
    size = pair.options.scaled(200) * MIB + 12345
    pair.client.run(f"python3 -I -S /share/tools/pattern.py write buffered {MOUNT_POINT}/large {size} {vers}", 90)
    wanted = pattern.digest(size, vers)
    assert pair.server.run("sha256sum /export/large", 60).out.split()[0] == wanted, "as written"
    pair.drop_caches()
    assert pair.client.run(f"sha256sum {MOUNT_POINT}/large", 60).out.split()[0] == wanted, "as read back"
    pair.client.run(f"rm {MOUNT_POINT}/large")
    pair.umount()


@test("source tree written by the client, vers={vers}", "V1-46", "V1-50", limit=180, cases=VERSIONS)
def tree_from_client(pair: Pair, vers: str) -> None:
    """Thousands of real files unpacked over the mount, checked on the server against digests made outside."""
    tree = corpus.make(pair.options, corpus.SMALL if pair.options.small else corpus.LARGE, "tree")
    assert pair.options.small or (tree.files >= 2000 and tree.bytes >= 30_000_000)
    pair.mount(vers)
    archive = pair.send(pair.client, tree.archive)
    pair.client.run(
        f"mkdir {MOUNT_POINT}/c{vers}; tar -xm --no-same-owner -f {archive} -C {MOUNT_POINT}/c{vers}; sync", 150
    )
    manifest = pair.send(pair.server, tree.manifest)
    pair.server.run(
        f"cd /export/c{vers}; sha256sum --quiet -c {manifest}; find . -type f | wc -l | grep -qx {tree.files}", 60
    )
    pair.umount()


@test("source tree read by the client, vers={vers}", "V1-46", "V1-50", limit=180, cases=VERSIONS)
def tree_to_client(pair: Pair, vers: str) -> None:
    """The same tree made by the server and read, listed and counted over a fresh mount."""
    tree = corpus.make(pair.options, corpus.SMALL if pair.options.small else corpus.LARGE, "tree")
    archive = pair.send(pair.server, tree.archive)
    pair.server.run(f"mkdir /export/s{vers}; tar -xm --no-same-owner -f {archive} -C /export/s{vers}", 60)
    pair.mount(vers)
    manifest = pair.send(pair.client, tree.manifest)
    count = f"find . -type f | wc -l | grep -qx {tree.files}"
    pair.client.run(f"cd {MOUNT_POINT}/s{vers}; sha256sum --quiet -c {manifest}; {count}", 150)
    pair.umount()
    pair.server.run(f"rm -rf /export/s{vers}")


@test(
    "I/O of {size} bytes, vers={vers}",
    "V1-45",
    "V1-46",
    "V1-50",
    limit=90,
    cases=[{"size": size, "vers": vers} for size in (4096, 32768, MIB) for vers in ("3", "4.2")],
)
def transfer_sizes(pair: Pair, size: int, vers: str) -> None:
    """rsize and wsize from one page to the largest; buffered, O_DIRECT and mmap, in both directions."""
    files.every_kind(pair, size, vers)


@test("sparse file, vers={vers}", "V1-46", "V1-50", limit=60, cases=VERSIONS)
def sparse(pair: Pair, vers: str) -> None:
    """Holes read as zeroes and stay holes on the server."""
    pair.mount(vers)
    size, spots = 24 * MIB + 1, [(0, b"first"), (10 * MIB + 1, b"middle"), (24 * MIB - 3, b"last")]
    script = f"truncate -s {size} {MOUNT_POINT}/sparse\n"
    wanted = bytearray(size)
    for offset, text in spots:
        script += f"printf {text.decode()} | dd of={MOUNT_POINT}/sparse bs=1 seek={offset} conv=notrunc status=none\n"
        wanted[offset : offset + len(text)] = text
    pair.client.run(script + "sync")
    line = pair.server.run("sha256sum /export/sparse; stat -c '%s %b %B' /export/sparse").lines
    size_seen, blocks, unit = (int(n) for n in line[1].split())
    digest = hashlib.sha256(wanted).hexdigest()
    assert line[0].split()[0] == digest and size_seen == size
    assert blocks * unit < MIB, f"{blocks * unit} bytes in use"
    pair.drop_caches()
    assert pair.client.run(f"sha256sum {MOUNT_POINT}/sparse; rm {MOUNT_POINT}/sparse").out.split()[0] == digest
    pair.umount()
