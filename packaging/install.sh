#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Installs a built module for one kernel, and the lines for modprobe that prefer it to the in-tree one; or removes both. A
# package does the same and more (make deb). Usage, as root:
#
#   install.sh MODULE RELEASE       RELEASE as uname -r has it
#   install.sh --uninstall RELEASE

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=${INSTALL_MOD_PATH:-}
lines=$prefix/etc/modprobe.d/rpcrdma-rs.conf

die() {
	echo "error: $*" >&2
	exit 1
}

[ $# -eq 2 ] || die "usage: install.sh MODULE RELEASE | install.sh --uninstall RELEASE"
release=$2
tree=$prefix/lib/modules/$release
module=$tree/updates/rpcrdma_rs.ko
[ -n "$prefix" ] || [ "$(id -u)" -eq 0 ] || die "root is needed to change $tree: use sudo"
[ -d "$tree" ] || die "$tree: no such directory: the kernel $release is not installed"

index() {
	depmod ${prefix:+-b "$prefix"} "$release"
	echo "updated the index of modules of $release (depmod)"
}

# Lines of this or of another version of ours.
has_our_lines() { [ -e "$lines" ] && grep -q '^install rpcrdma .*rpcrdma_rs' "$lines"; }

if [ "$1" = --uninstall ]; then
	# The lines alone are what an interrupted run leaves.
	[ -e "$module" ] || has_our_lines || die "$module: not there; a package's module goes with the package"
	if [ -e "$module" ]; then
		rm "$module"
		echo "removed $module"
	fi
	rmdir --ignore-fail-on-non-empty "$tree/updates" 2>/dev/null || true
	index
	# The lines hold for all kernels.
	others=$(find "$prefix"/lib/modules/*/updates -name 'rpcrdma_rs.ko*' -print -quit 2>/dev/null || true)
	if [ -n "$others" ]; then
		echo "kept $lines: $others is there, too"
	elif has_our_lines; then
		rm "$lines"
		echo "removed $lines"
	fi
	[ -n "$prefix" ] || [ "$release" != "$(uname -r)" ] || [ -n "$(find "$tree/updates" -name 'rpcrdma_rs.ko*' 2>/dev/null)" ] ||
		"$here/switch.sh" rpcrdma
	exit
fi

[ -e "$1" ] || die "$1: not there: build it first, with 'make KDIR=...'"
found=$(modinfo -F vermagic "$1")
[ "${found%% *}" = "$release" ] || die "$1 is built for ${found%% *}, not for $release"
install -D -m 644 "$1" "$module.new"
# A signature would not survive that.
[ -n "$(modinfo -F signer "$module.new")" ] || strip -g "$module.new"
mv "$module.new" "$module"
echo "installed $module"
index
next="the next mount with proto=rdma loads it; 'modprobe rpcrdma_rs' does so now"
if [ -e "$lines" ] && ! has_our_lines; then
	echo "left $lines as it is, which has other lines: a mount with proto=rdma loads the in-tree module"
	next="'modprobe rpcrdma_rs' loads it"
else
	install -D -m 644 "$here/modprobe.conf" "$lines"
	echo "installed $lines:"
	grep '^install' "$lines" | sed 's/^/    /'
fi
if [ -z "$(modinfo -F signer "$module")" ] && grep -qsE '\[(integrity|confidentiality)\]' /sys/kernel/security/lockdown; then
	echo "warning: this kernel is locked down (Secure Boot) and refuses the module, which is not signed:" \
		"see Documentation/installation.rst"
fi
if [ -z "$prefix" ] && [ "$release" = "$(uname -r)" ] && [ -d /sys/module/rpcrdma ]; then
	echo "the in-tree rpcrdma is loaded now: with nothing mounted over RDMA, 'modprobe -r rpcrdma && modprobe rpcrdma_rs'"
else
	echo "$next"
fi
