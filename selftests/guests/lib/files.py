# SPDX-License-Identifier: GPL-2.0
"""Files of many sizes that are written, and whose data is checked on both sides."""

from __future__ import annotations

from guests.harness.pair import MOUNT_POINT, Pair
from guests.programs import pattern

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


def every_size(pair: Pair, vers: str) -> None:
    """Files of all sizes, with lengths that are no multiple of four (XDR padding), written by the client."""
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


def every_kind(pair: Pair, size: int, vers: str) -> None:
    """I/O with rsize and wsize of `size`: buffered, O_DIRECT and mmap, in both directions."""
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
