# SPDX-License-Identifier: GPL-2.0
"""A server guest (nfsd) and a client guest, linked and brought up, the module under test in either of them or in both."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from . import klog, network
from .config import REPO, Options
from .guest import Guest, GuestError, indent
from .network import CLIENT, MTU, SERVER, End

NFS_PORT = 20049
MOUNT_POINT = "/mnt/nfs"

# A guest must find no transport but the one under test.
NO_IN_TREE = "install rpcrdma /bin/false\n"
# Without Kerberos nothing is lost, and probing for it costs half a second.
NO_KERBEROS = "install rpcsec_gss_krb5 /bin/false\n"
# While lockd is in its grace period, 50 s by default, nfsd grants no delegations.
SHORT_GRACE = "options lockd nlm_grace_period=1 nlm_timeout=3\n"

# Programs for the guests.
TOOLS = REPO / "selftests/guests/programs"

DRIVERS = {"rxe": "rdma_rxe", "siw": "siw"}

# A frame that does not fit into the adapter's queue breaks its queue pair of soft-RoCE. The queue pair of the
# connection manager, whose messages are such frames, does not recover.
NETWORK = """
modprobe {driver}
ip link set eth0 mtu {mtu} txqueuelen 10000 up
ip addr add {end.ipv4}/24 dev eth0
ip addr add {end.ipv6}/64 dev eth0 nodad
rdma link add {device}0 type {device} netdev eth0
"""

# When siw accepts a connection it replies first, and only then takes over the socket: a call that comes in between is
# overlooked. So the server's frames are delayed. Kernels that are built here have no such queue; see `Pair.overlooked`.
DELAY = """
if modprobe -q sch_netem; then tc qdisc replace dev eth0 root netem delay 5ms limit 10000; fi
"""

EXPORT_IN_MEMORY = "mount -t tmpfs -o size=80%,mode=1777 export /export"

# The server's records of its clients have to come back with the files.
EXPORT_ON_DISK = """
modprobe -a virtio_blk ext4
[ "$(blkid -o value -s TYPE /dev/vda)" = ext4 ] || mkfs.ext4 -q /dev/vda
mkdir -p /disk
mount /dev/vda /disk
[ -d /disk/export ] || cp -a /var/lib/nfs /disk/nfs
mkdir -p -m 1777 /disk/export
mount --bind /disk/export /export
mount --bind /disk/nfs /var/lib/nfs
"""

# nfsd of 7.3 takes a client for expired whose last sign of life came in the first second after boot, and repeats its
# EXCHANGE_ID then until memory is out. Guests that need no emulator are that quick.
SERVER_UP = """
until [ "$(cut -d . -f 1 /proc/uptime)" -ge 1 ]; do sleep 0.1; done
{transport}
mount -t nfsd nfsd /proc/fs/nfsd
{export}
mkdir -p /var/lib/nfs/nfsdcld /run/rpc_pipefs
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
echo 1048576 >/proc/fs/nfsd/max_block_size
echo '/export *(rw,no_root_squash,no_subtree_check,insecure,fsid=0)' >/etc/exports
rpcbind
exportfs -r
rpc.mountd
nfsdcld
rpc.nfsd 8
echo 'rdma {port}' >/proc/fs/nfsd/portlist
grep -q rdma /proc/fs/nfsd/portlist
"""

IN_TREE = "modprobe -a nfsd rpcrdma"
OURS = """
modprobe -a nfsd sunrpc rdma_cm configfs
insmod /share/rpcrdma_rs.ko {parameters}
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
"""

CLIENT_UP = """
modprobe -a nfsv3 nfsv4
mkdir -p {mount_point}
"""


class Late(AssertionError):
    """Something that was to happen has not happened in time."""


def network_script(device: str, end: End) -> str:
    """The commands that bring up the adapter of one end, and an RDMA device on it."""
    script = NETWORK.format(driver=DRIVERS[device], device=device, mtu=MTU, end=end)
    return script + DELAY if (device, end) == ("siw", SERVER) else script


def mount_command(vers: str, options: str = "", proto: str = "rdma", where: str = MOUNT_POINT) -> str:
    """The command that mounts the export; NFSv3 without the lock protocol, which is not the transport's."""
    path = "/export" if vers.startswith("3") else "/"
    host = f"[{SERVER.ipv6}]" if proto == "rdma6" else SERVER.ipv4
    words = [f"vers={vers}", f"proto={proto}", "hard"]
    if vers.startswith("3"):
        words += ["nolock", "mountproto=" + ("tcp6" if proto == "rdma6" else "tcp")]
    if options:
        words.append(options)
    return f"mount -t nfs -o {','.join(words)} {host}:{path} {where}"


class Server(Guest):
    """The guest that serves the export."""

    def __init__(self, options: Options, disk: Path | None = None):
        forbidden = NO_KERBEROS + (NO_IN_TREE if options.server == "ours" else "")
        super().__init__("server", options, SERVER.tap, SERVER.mac, forbidden + SHORT_GRACE, disk)
        if options.server == "ours":
            shutil.copy(options.module, self.share / "rpcrdma_rs.ko")
        shutil.copytree(TOOLS, self.share / "tools")

    def bring_up(self) -> None:
        """Waits for the guest, which has been started, and brings up its network and the NFS server."""
        self.wait_ready()
        export = EXPORT_ON_DISK if self.disk else EXPORT_IN_MEMORY
        ours = OURS.format(parameters=self.options.module_parameters)
        transport = ours if self.options.server == "ours" else IN_TREE
        script = SERVER_UP.format(port=NFS_PORT, export=export, transport=transport)
        self.run(network_script(self.options.device, SERVER) + script, 40)


class Pair:
    """Both guests, and the operations of tests on them."""

    def __init__(self, options: Options):
        self.options = options
        forbidden = NO_KERBEROS + (NO_IN_TREE if options.client == "ours" else "")
        # Its kernel is another one only where no module under test is in it.
        other = dict(options.server_guest)
        if options.server == "ours":
            other = {name: value for name, value in other.items() if name not in ("kernel", "memory")}
        on_server, on_client = replace(options, **other), replace(options, **options.client_guest)
        self.server = Server(on_server)
        self.client = Guest("client", on_client, CLIENT.tap, CLIENT.mac, forbidden)
        self.guests = [self.server, self.client]
        self._names = 0
        if options.client == "ours":
            shutil.copy(options.module, self.client.share / "rpcrdma_rs.ko")
        shutil.copytree(TOOLS, self.client.share / "tools")

    def start(self) -> None:
        """Boots both guests and brings up their network, server and client modules."""
        for guest in self.guests:
            guest.start()
        with ThreadPoolExecutor() as pool:
            for work in [pool.submit(self.server.bring_up), pool.submit(self._client_up)]:
                work.result()
        self.client.run(f"ping -c 1 -W 5 {SERVER.ipv4} >/dev/null; ping -c 1 -W 5 {SERVER.ipv6} >/dev/null")

    def _client_up(self) -> None:
        self.client.wait_ready()
        self.client.run(network_script(self.options.device, CLIENT) + CLIENT_UP.format(mount_point=MOUNT_POINT), 40)
        self.load_module()

    def load_module(self) -> None:
        """Loads the transport under test into the client."""
        if self.options.client == "ours":
            parameters = self.options.module_parameters
            self.client.run(f"modprobe -a sunrpc rdma_cm configfs; insmod /share/rpcrdma_rs.ko {parameters}")
            self.client.run("mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config")
        else:
            # Past the rule that keeps the kernel from loading it by itself.
            self.client.run("modprobe --ignore-install rpcrdma")

    @property
    def module(self) -> str:
        """The name of the module under test."""
        return "rpcrdma_rs" if self.options.client == "ours" else "rpcrdma"

    def unload_module(self, timeout: float = 20.0) -> None:
        """Unloads the module; sunrpc drops its last references from a workqueue, so this may take a moment."""
        self.client.run(
            f"until rmmod {self.module}; do sleep 0.1; done; ! grep '^{self.module} ' /proc/modules", timeout
        )

    def mount(self, vers: str, options: str = "", proto: str = "rdma", where: str = MOUNT_POINT) -> None:
        """Mounts the export."""
        self.client.run(f"mkdir -p {where}; {mount_command(vers, options, proto, where)}")

    def umount(self, where: str = MOUNT_POINT) -> None:
        """Unmounts."""
        self.client.run(f"umount {where}")

    def drop_caches(self) -> None:
        """Makes the client forget the data that it read or wrote."""
        self.client.run("sync; echo 3 >/proc/sys/vm/drop_caches")

    def send(self, guest: Guest, source: Path) -> str:
        """Puts a file into a guest's share, under a new name, since the guest caches names; returns its path."""
        self._names += 1
        name = f"{self._names}-{source.name}"
        shutil.copy(source, guest.share / name)
        return f"/share/{name}"

    def kernel_messages(self) -> list[klog.Message]:
        """The messages of both kernels since the last call."""
        return [m for guest in self.guests for m in klog.parse(guest.name, guest.kernel_records())]

    def reboot_server(self, disk: Path) -> None:
        """Cuts the server's power, and boots another server with its export on this disk."""
        self.server.stop()
        self.server = Server(self.server.options, disk)
        self.guests[0] = self.server
        self.server.start()
        self.server.bring_up()
        # Of the messages while a kernel boots only reports count.
        boot = klog.parse(self.server.name, self.server.kernel_records())
        assert not (reports := [m for m in boot if klog.REPORTS.search(m.text)]), reports

    def stop(self) -> None:
        """Ends both guests."""
        for guest in self.guests:
            guest.stop()

    @contextmanager
    def bridged(self, end: End, away: tuple[str, ...], back: tuple[str, ...]) -> Iterator[None]:
        """Changes the bridge's port to one end inside the block, as `ip link set` does, and changes it back."""
        network.ip("link", "set", end.tap, *away)
        try:
            yield
        finally:
            network.ip("link", "set", end.tap, *back)

    def unplugged(self) -> AbstractContextManager[None]:
        """The client's cable is out inside the block: no frame gets through, and no end is told."""
        return self.bridged(CLIENT, ("down",), ("up",))

    def overlooked(self) -> bool:
        """Returns `True` if siw has overlooked a call, which lies unread in a socket of the server.

        When siw accepts a connection it replies first, and only then registers for data in the socket. A call that
        comes in between stays there until the client ends the connection.
        """
        if self.options.device != "siw":
            return False

        def unread() -> set[str]:
            sockets = self.server.run("ss -tnH state established").out.splitlines()
            return {" ".join(s.split()) for s in sockets if s.split()[0] != "0"}

        try:
            before = unread()
            time.sleep(2 if before else 0)
            return bool(before & unread())
        except GuestError:
            return False

    def describe_hang(self) -> str:
        """The blocked tasks of both guests, their connections, the calls of sunrpc, what threads of nfsd do, and frames that are
        not sent."""
        script = (
            "cd /sys/kernel/debug; grep -r . rpcrdma_rs; cat sunrpc/rpc_clnt/*/tasks; cat /proc/fs/nfsd/pool_stats; "
            "grep . $(pgrep -x nfsd | sed 's|.*|/proc/&/stack|'); "
            "rdma resource show qp; tc -s qdisc show dev eth0; ip -s link show dev eth0"
        )
        parts = []
        for guest in self.guests:
            parts.append(guest.blocked_tasks())
            try:
                parts.append(
                    f"state of {guest.name}:\n{indent(guest.run(f'({script}) 2>/dev/null', 10, check=False).out)}"
                )
            except GuestError as error:
                parts.append(f"no state of {guest.name}: {error}")
        return "\n".join(parts)


def wait_until(condition, what: str, limit: float, interval: float = 0.1) -> float:
    """Polls a state that has no event to wait for; returns the seconds it took."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > limit:
            raise Late(f"{what}: not within {limit:.0f} s")
        time.sleep(interval)
    return time.monotonic() - start


__all__ = ["MOUNT_POINT", "NFS_PORT", "Late", "Pair", "indent", "wait_until"]
