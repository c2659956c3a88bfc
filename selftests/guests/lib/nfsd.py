# SPDX-License-Identifier: GPL-2.0
"""The NFS server of the server guest, and its listeners."""

from guests.harness.pair import NFS_PORT

PORTLIST = "/proc/fs/nfsd/portlist"

LINK_UP = "rdma link add rxe0 type rxe netdev eth0"

# Threads come with the listeners that are there already.
START = f"""
echo 'rdma {NFS_PORT}' >{PORTLIST}
rpc.nfsd 8
grep -q 'rdma {NFS_PORT}' {PORTLIST}
"""

RESTART = f"""
rpc.nfsd 0{START}"""
