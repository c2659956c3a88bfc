# SPDX-License-Identifier: GPL-2.0
"""A real source tree to copy: a part of the kernel's, packed once per run, with the digests it must have."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from guests.harness.config import Options

# More than 2,000 files and 30 MB.
LARGE = ("net/sunrpc", "fs/nfs", "fs/nfsd", "drivers/infiniband", "kernel", "lib")
# More than 500 files and 10 MB.
MEDIUM = ("drivers/infiniband/core", "drivers/infiniband/hw")
SMALL = ("net/sunrpc", "fs/nfs", "fs/nfsd")


@dataclass(frozen=True)
class Corpus:
    """The packed tree; `manifest` is in the format of sha256sum."""

    archive: Path
    manifest: Path
    files: int
    bytes: int


def make(options: Options, directories: tuple[str, ...], name: str) -> Corpus:
    """Packs these directories of the kernel source."""
    archive, manifest = options.work / f"{name}.tar", options.work / f"{name}.sha256"
    paths = [
        p for d in directories for p in sorted((options.linux / d).rglob("*")) if p.is_file() and not p.is_symlink()
    ]
    names = [str(p.relative_to(options.linux)) for p in paths]
    listing = options.work / f"{name}.list"
    listing.parent.mkdir(parents=True, exist_ok=True)
    listing.write_text("\n".join(names) + "\n")
    subprocess.run(["tar", "-C", options.linux, "-cf", archive, "-T", listing], check=True)
    bytes = 0
    with manifest.open("w") as out:
        for path, short in zip(paths, names, strict=True):
            data = path.read_bytes()
            bytes += len(data)
            out.write(f"{hashlib.sha256(data).hexdigest()}  {short}\n")
    return Corpus(archive, manifest, len(paths), bytes)
