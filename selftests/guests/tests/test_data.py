# SPDX-License-Identifier: GPL-2.0
"""Data survives the way to the server and back: every size, both directions, every kind of I/O."""

import hashlib

from guests.harness.pair import MOUNT_POINT, Pair
from guests.harness.registry import test
from guests.lib import corpus

from guests.programs import pattern

VERSIONS = [{"vers": "3"}, {"vers": "4.2"}]
MIB = 1 << 20

# Around nothing, a page, the inline thresholds of 1024 and 4096 bytes with their headers, a segment, a maximal call.
SIZES = [0, 1, 3, 900, 1023, 1024, 1025, 3500, 3900, 4000, 4095, 4096, 4097, 8191, 65537]
SIZES += [MIB - 1, MIB, MIB + 1, 3 * MIB + 5]


def digests(lines: list[tuple[str, str]]) -> str:
    """A manifest for sha256sum."""
    return "".join(f"{digest}  {name}\n" for digest, name in lines)


def check_digests(pair: Pair, directory: str, manifest: str, name: str, reader: str = "cat {}") -> None:
    """Both sides find the digests of the original contents: the server in its file system, the client by reading.

    `reader` is the shell command that prints a file.
    """
    path = pair.options.work / name
    path.write_text(manifest)
    pair.server.run(f"cd /export/{directory}; sha256sum --quiet -c {pair.send(pair.server, path)}", 60)
    pair.drop_caches()
    show = reader.format('"$file"')
    one = f'{show} | sha256sum | grep -q "^$digest " || {{ echo "$file: not what was written"; exit 1; }}'
    script = f"cd {MOUNT_POINT}/{directory}; while read -r digest file; do {one}; done <{pair.send(pair.client, path)}"
    pair.client.run(script, 90)


@test("files of {vers}: every size", "V1-45", "V1-46", "V1-50", "V1-51", limit=60, cases=VERSIONS, core=True)
def sizes(pair: Pair, vers: str) -> None:
    """Short and chunked messages, with lengths that are no multiple of four (XDR padding), written by the client."""
    pair.mount(vers)
    directory = f"sizes-{vers}"
    script = f"mkdir {MOUNT_POINT}/{directory}; cd {MOUNT_POINT}/{directory}\n"
    for mode in ("buffered", "direct"):
        for size in SIZES:
            script += f"python3 -I -S /share/tools/pattern.py write {mode} {mode}-{size} {size} {size}\n"
    pair.client.run(script, 60)
    wanted = [(pattern.digest(size, size), f"{mode}-{size}") for mode in ("buffered", "direct") for size in SIZES]
    check_digests(pair, directory, digests(wanted), directory)
    pair.umount()


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
    pair.mount(vers, f"rsize={size},wsize={size}")
    mounted = pair.client.run(f"grep ' {MOUNT_POINT} ' /proc/mounts").out
    assert f"rsize={size},wsize={size}," in mounted, mounted
    length = pair.options.scaled(min(max(size * 300, 2 * MIB), 8 * MIB), MIB) + 777
    wanted = pattern.digest(length, size)
    tool = "python3 -I -S /share/tools/pattern.py"
    for mode in ("buffered", "direct", "mmap"):
        pair.client.run(f"{tool} write {mode} {MOUNT_POINT}/io {length} {size}", 40)
        assert pair.server.run("sha256sum /export/io").out.split()[0] == wanted, f"written by {mode} I/O"
        pair.drop_caches()
        assert pair.client.run(f"{tool} read {mode} {MOUNT_POINT}/io", 40).out.strip() == wanted, f"read by {mode} I/O"
    pair.client.run(f"rm {MOUNT_POINT}/io")
    pair.umount()


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
