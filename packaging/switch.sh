#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Puts one of the two modules that serve the transport "rdma" into the place of the other in the running kernel, if nothing
# uses the one that is loaded; else says what will. Usage:
#
#   switch.sh rpcrdma_rs    after it was installed
#   switch.sh rpcrdma       before rpcrdma_rs is removed
#
# Never fails: where the running kernel does not take a module, the other stays.

set -uo pipefail

say() { echo "rpcrdma-rs: $*"; }
loaded() { [ -d "/sys/module/$1" ]; }
# The attribute is missing where modules cannot be unloaded.
in_use() { [ "$(cat "/sys/module/$1/refcnt" 2>/dev/null || echo 1)" != 0 ]; }
has() { modprobe -q --dry-run --ignore-install "$1"; }
load() { modprobe --ignore-install "$1"; }

masked() {
	local file=/etc/modprobe.d/rpcrdma-rs.conf
	[ -e "$file" ] && ! grep -q '^install rpcrdma ' "$file"
}

# Before 7.2 the module is a client only.
client_only() {
	case "$(uname -r)" in
	[0-6].* | 7.[01].*) return 0 ;;
	*) return 1 ;;
	esac
}

serves() {
	grep -qs '^rdma' /proc/fs/nfsd/portlist ||
		grep -qsE '^[[:space:]]*rdma[[:space:]]*=[[:space:]]*(y|1|t|on)' /etc/nfs.conf /etc/nfs.conf.d/*.conf
}

to_rust() {
	# The kernel that runs may be one without a build, or not this root's at all.
	has rpcrdma_rs || return 0
	if masked; then
		say "/etc/modprobe.d/rpcrdma-rs.conf masks the module: the in-tree one goes on serving RDMA"
	elif client_only && serves; then
		say "this machine serves NFS over RDMA, which needs the in-tree module before Linux 7.2: keep it with"
		echo "    echo blacklist rpcrdma_rs >/etc/modprobe.d/rpcrdma-rs.conf"
	elif loaded rpcrdma_rs; then
		renew
	elif ! loaded rpcrdma; then
		say "the next mount with proto=rdma loads it"
	elif in_use rpcrdma || ! rmmod rpcrdma; then
		say "the in-tree rpcrdma is in use: after the next boot, or 'modprobe -r rpcrdma' when nothing is mounted" \
			"or served over RDMA, rpcrdma_rs takes its place"
	elif load rpcrdma_rs; then
		say "loaded in the place of the in-tree rpcrdma"
	else
		load rpcrdma
		say "the kernel refuses rpcrdma_rs (its log says why; with Secure Boot the key has to be enrolled, see" \
			"rpcrdma_rs(4)): the in-tree rpcrdma goes on"
	fi
}

# Of an upgrade: the version before is loaded.
renew() {
	if in_use rpcrdma_rs || ! rmmod rpcrdma_rs; then
		say "the module of before is in use: the new one is loaded after the next boot or 'modprobe -r rpcrdma_rs'"
	elif load rpcrdma_rs; then
		say "reloaded"
	else
		load rpcrdma
		say "the kernel refuses the new rpcrdma_rs (its log says why): the in-tree rpcrdma goes on"
	fi
}

to_in_tree() {
	loaded rpcrdma_rs || return 0
	if in_use rpcrdma_rs || ! rmmod rpcrdma_rs; then
		say "rpcrdma_rs is in use and stays in memory until the next boot; mounts after that use the in-tree rpcrdma"
	elif has rpcrdma && load rpcrdma; then
		say "the in-tree rpcrdma is loaded in its place"
	fi
}

case "${1:-}" in
rpcrdma_rs) to_rust ;;
rpcrdma) to_in_tree ;;
*)
	echo "error: switch to which module? rpcrdma_rs or rpcrdma" >&2
	exit 2
	;;
esac
exit 0
