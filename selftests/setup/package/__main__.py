# SPDX-License-Identifier: GPL-2.0
"""Boots the disk of a machine with the package and looks which module its mounts use.

Usage: python3 -m setup.package DIRECTORY RELEASE OTHER-RELEASE [OLD-RELEASE]
DIRECTORY has disk and the kernels; RELEASE and OTHER-RELEASE have got the module, OLD-RELEASE has no Rust. At the
first boot the lines for modprobe are masked.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from guests.harness import accel, klog, network
from guests.harness.awake import awake
from guests.harness.config import Options
from guests.harness.guest import Guest, GuestError, indent
from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import (
    EXPORT_IN_MEMORY,
    IN_TREE,
    NETWORK,
    NFS_PORT,
    NO_KERBEROS,
    SERVER_UP,
    SHORT_GRACE,
    wait_until,
)

from .debian import Debian

BOOTED = 120.0
MODULES = ("rpcrdma", "rpcrdma_rs")
MASK = "/etc/modprobe.d/rpcrdma-rs.conf"
# The maintainer script without a build, which an emulated machine is too slow for.
POSTINST = """
touch /etc/dkms/no-autoinstall
/var/lib/dpkg/info/rpcrdma-rs-dkms.postinst configure
rm /etc/dkms/no-autoinstall
"""
# Removing a package has DKMS index the modules of each kernel again.
PURGE = "DEBIAN_FRONTEND=noninteractive apt-get -q purge -y rpcrdma-rs-dkms"
# The machine as a server, as the user guide has it. A boot begins with a time in which clients reclaim their state.
NFS_CONF = "/etc/nfs.conf.d/rdma.conf"
CONFIGURE = f"""
mkdir -p /srv/nfs
chmod 1777 /srv/nfs
echo '/srv/nfs *(rw,no_root_squash,no_subtree_check,insecure)' >/etc/exports
printf '%s\\n' '[nfsd]' rdma=y rdma-port={NFS_PORT} lease-time=10 grace-time=10 >{NFS_CONF}
systemctl -q enable nfs-server
"""
LISTENS = f"grep -qx 'rdma {NFS_PORT}' /proc/fs/nfsd/portlist 2>/dev/null"
FILES = r"find / -xdev \( -path /proc -o -path /sys -o -path /var/log -o -path /root \) -prune -o -iname '*rpcrdma?rs*' -print"


class Failed(Exception):
    """Something is not as the package promises."""


def check(kept: bool, text: str) -> None:
    """Fails the test unless a promise was kept."""
    if not kept:
        raise Failed(text)


def same(sums: list[str], where: str) -> None:
    """Fails unless these checksums are of the same data."""
    check(len(set(sums)) == 1, f"SHA-256 {where}: {sums}")


def loaded(guest: Guest) -> str:
    """The names of the two modules that the kernel has."""
    names = {line.split()[0] for line in guest.run("cat /proc/modules").lines}
    return " ".join(sorted(names.intersection(MODULES)))


def expect(guest: Guest, module: str) -> None:
    """Fails unless this module is loaded, and the other is not."""
    found = loaded(guest)
    check(found == module, f"'{module}' is to be loaded; it is '{found}'")


def move_data(guest: Guest, server: Guest, module: str) -> None:
    """Mounts with nothing done before, writes a file and reads it back, and compares all three of it."""
    name = f"data-{module}-{guest.boots}"
    guest.run(f"mkdir -p /mnt/nfs; mount -t nfs -o vers=4.2,proto=rdma,port={NFS_PORT} {SERVER.ipv4}:/ /mnt/nfs", 60)
    check("proto=rdma," in guest.run("grep ' /mnt/nfs ' /proc/mounts").out, "the mount goes over RDMA")
    expect(guest, module)
    written = f"head -c 8000000 /dev/urandom >/root/data; cp /root/data /mnt/nfs/{name}; sync"
    guest.run(written, 60)
    guest.run("echo 3 >/proc/sys/vm/drop_caches")
    sums = [
        guest.run("sha256sum </root/data").out,
        server.run(f"sha256sum </export/{name}").out,
        guest.run(f"sha256sum </mnt/nfs/{name}", 60).out,
    ]
    same(sums, "here, on the server and read back")


def serve_data(guest: Guest, client: Guest, module: str) -> None:
    """Another machine mounts this one, writes a file, and reads it back after nfsd was restarted."""
    wait_until(lambda: guest.run(LISTENS, check=False).rc == 0, "nfsd listens", 60 * guest.options.slowness)
    expect(guest, module)
    mounted = (
        f"mkdir -p /mnt/served; mount -t nfs -o vers=4.2,proto=rdma,port={NFS_PORT} {CLIENT.ipv4}:/srv/nfs /mnt/served"
    )
    client.run(mounted, 60)
    name = f"served-{module}-{guest.boots}"
    written = f"head -c 8000000 /dev/urandom >/tmp/data; cp /tmp/data /mnt/served/{name}; sync /mnt/served/{name}"
    client.run(written, 60)
    guest.run("systemctl restart nfs-server", 60)
    client.run("echo 3 >/proc/sys/vm/drop_caches")
    sums = [
        client.run("sha256sum </tmp/data").out,
        guest.run(f"sha256sum </srv/nfs/{name}").out,
        client.run(f"sha256sum </mnt/served/{name}", 60).out,
    ]
    same(sums, "at the client, here and read back")
    client.run(f"rm /mnt/served/{name}; umount /mnt/served", 60)
    guest.run("systemctl stop nfs-server", 60)


def unmount(guest: Guest) -> None:
    """Unmounts, and waits until sunrpc has let go of the transport's module."""
    guest.run("umount /mnt/nfs", 60)
    module = loaded(guest)
    refcnt = f"/sys/module/{module}/refcnt"
    wait_until(lambda: guest.run(f"cat {refcnt}").out.strip() == "0", f"{module} is free", 30 * guest.options.slowness)


class Machine:
    """The machine under test, with the tests in the order of its boots."""

    def __init__(self, directory: Path, releases: list[str], options: Options):
        self.directory = directory
        self.new, self.other, self.old = [*releases, ""][:3]
        self.options = options
        self.server = Guest("server", options, SERVER.tap, SERVER.mac, NO_KERBEROS + SHORT_GRACE)
        self.client: Debian | None = None
        self.passed = self.failed = 0

    def run(self) -> int:
        """Runs all tests, the later ones also after a failure."""
        try:
            self.server.start()
            self.server.wait_ready()
            network_up = NETWORK.format(driver="rdma_rxe", device="rxe", mtu=network.MTU, end=SERVER)
            self.server.run(
                network_up + SERVER_UP.format(port=NFS_PORT, export=EXPORT_IN_MEMORY, transport=IN_TREE), 40
            )
            self.boot(
                self.new,
                ("masked: rdma-core loads the in-tree module at boot", self.masked),
                ("its postinst puts the module into the place of an idle in-tree one", self.switched),
                *([("it is made a server, from its next boot on", self.configured)] if self.has_server else []),
            )
            if self.old:
                self.boot(
                    self.old, ("a kernel without Rust serves and mounts with the in-tree module", self.old_kernel)
                )
            self.boot(
                self.other,
                *(
                    [("it serves from its boot on, and goes on after a restart", self.served)]
                    if self.has_server
                    else []
                ),
                ("rdma-core loads the module at boot on the second kernel", self.at_boot),
                ("a mount there moves data over it with nothing else typed", self.mounted),
                ("modprobe -r rpcrdma takes it out, a mount brings it back", self.removed),
                ("purged while in use, it serves its mount to the end and leaves no file", self.purged),
            )
        finally:
            for guest in (self.client, self.server):
                if guest is not None:
                    guest.stop()
        print(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.passed and not self.failed else 1

    def boot(self, release: str, *tests: tuple[str, Callable[[], None]]) -> None:
        """Boots one of the machine's kernels and runs tests there."""
        self.client = guest = Debian(self.directory, release, self.options)
        try:
            guest.start()
            guest.wait_ready()
            state = guest.run("systemctl is-system-running --wait || true", BOOTED).out.strip()
            running = guest.run("uname -r").out.strip()
            print(f"booted {running} in {guest.boot_seconds:.0f} s: {state}")
            check(running == release, f"the kernel is to be {release}; it is {running}")
            for title, body in tests:
                self.test(title, body)
            guest.shut_down()
        except (GuestError, Failed) as error:
            self.failed += 1
            print(f"not ok boot of {release}\n{indent(str(error))}\n{guest.console_tail()}")
        finally:
            guest.stop()

    @property
    def has_server(self) -> bool:
        """Before Linux 7.2 the module is a client only."""
        major, minor = self.new.split(".")[:2]
        return (int(major), int(minor)) >= (7, 2)

    @property
    def guest(self) -> Debian:
        """The machine as it runs."""
        assert self.client is not None
        return self.client

    def test(self, title: str, body: Callable[[], None]) -> None:
        """Runs one test. A report of the kernel's fails it, too."""
        try:
            body()
            messages = klog.parse("debian", self.guest.kernel_records())
            reports = [str(m) for m in messages if klog.REPORTS.search(m.text)]
            check(not reports, "reports of the kernel:\n" + "\n".join(reports))
        except Exception as error:  # any failure is the test's result
            self.failed += 1
            known = isinstance(error, (Failed, GuestError))
            text = str(error) if known else "".join(traceback.format_exception(error))
            print(f"not ok {title}\n{indent(text)}")
            return
        self.passed += 1
        print(f"ok     {title}")

    def masked(self) -> None:
        """The mask is the guide's."""
        line = self.guest.run(f"cat {MASK}").out.strip()
        check(line == "blacklist rpcrdma_rs", f"{MASK} is the guide's; it says: {line}")
        wait_until(lambda: loaded(self.guest) != "", "a module is loaded", 30 * self.options.slowness)
        expect(self.guest, "rpcrdma")
        move_data(self.guest, self.server, "rpcrdma")

    def switched(self) -> None:
        """With the mask, and while the other is in use, it only prints a message."""
        said = self.guest.run(POSTINST, 60).out
        check("masks the module" in said, said)
        self.guest.run(f"rm {MASK}")
        said = self.guest.run(POSTINST, 60).out
        check("rpcrdma is in use" in said, said)
        expect(self.guest, "rpcrdma")
        unmount(self.guest)
        said = self.guest.run(POSTINST, 60).out
        check("loaded in the place of the in-tree rpcrdma" in said, said)
        expect(self.guest, "rpcrdma_rs")
        move_data(self.guest, self.server, "rpcrdma_rs")
        unmount(self.guest)

    def configured(self) -> None:
        """Nothing is started: the module is to be free for the tests of this boot."""
        self.guest.run(CONFIGURE, 60)

    def served(self) -> None:
        """With nothing typed since it booted; later tests are about mounts alone."""
        serve_data(self.guest, self.server, "rpcrdma_rs")
        self.guest.run("systemctl -q disable nfs-server", 60)

    def old_kernel(self) -> None:
        """The lines for modprobe are in force, and lead to the in-tree module."""
        if self.has_server:
            serve_data(self.guest, self.server, "rpcrdma")
        move_data(self.guest, self.server, "rpcrdma")
        unmount(self.guest)

    def at_boot(self) -> None:
        """rdma-core requests xprtrdma and svcrdma."""
        wait_until(lambda: loaded(self.guest) != "", "a module is loaded", 30 * self.options.slowness)
        expect(self.guest, "rpcrdma_rs")

    def mounted(self) -> None:
        """The mount that the issue is about."""
        move_data(self.guest, self.server, "rpcrdma_rs")
        unmount(self.guest)

    def removed(self) -> None:
        """By the name that others know."""
        self.guest.run("modprobe -r rpcrdma")
        expect(self.guest, "")
        self.guest.run("modprobe svcrdma")
        expect(self.guest, "rpcrdma_rs")
        self.guest.run("/usr/lib/rpcrdma-rs/switch rpcrdma")
        expect(self.guest, "rpcrdma")
        self.guest.run("modprobe -r rpcrdma")
        expect(self.guest, "")
        move_data(self.guest, self.server, "rpcrdma_rs")

    def purged(self) -> None:
        """The mount stays usable; afterwards the in-tree module is as if nothing had been."""
        said = self.guest.run(PURGE, 300).out
        check("stays in memory until the next boot" in said, said)
        self.guest.run("echo 3 >/proc/sys/vm/drop_caches")
        sums = [
            self.guest.run(f"cat {files} | sha256sum", 60).out
            for files in ("/root/data", "$(ls -t /mnt/nfs/* | head -n 1)")
        ]
        check(sums[0] == sums[1], f"the mount goes on: SHA-256 {sums}")
        left = self.guest.run(FILES, 120).out
        check(not left, f"files left:\n{left}")
        unmount(self.guest)
        self.guest.run("rmmod rpcrdma_rs")
        move_data(self.guest, self.server, "rpcrdma")
        unmount(self.guest)


def main() -> int:
    """Reads the command line."""
    directory, *releases = sys.argv[1:]
    network.make()
    options = Options()
    options.accel = accel.choose(options)
    with awake():
        return Machine(Path(directory), releases, options).run()


sys.exit(main())
