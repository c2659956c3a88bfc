#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Boots an NFS/RDMA client with the module under virtme-ng, and a server for it, with an export mounted:
#
#   run.sh [OPTION...]                an interactive shell in the client
#   run.sh [OPTION...] -- COMMAND     a command there; its output and status are ours
#
# With KDIR in the environment, the client has the kernel that was built there, and the module that was built for it.
# (run.sh --help lists the options)

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../../.." && pwd)

die() {
	echo "error: $*" >&2
	exit 1
}

# The options that a guest of vng, and soft-RoCE in it, need besides the module's. All of them may be modules.
needed=(NET_9P_VIRTIO 9P_FS OVERLAY_FS VIRTIO_PCI VIRTIO_NET VIRTIO_CONSOLE SERIAL_8250_CONSOLE DEVTMPFS TMPFS UNIX RDMA_RXE)

# Copies kernel and modules to where the guests can read them.
copy_kernel() {
	local kdir=$1 to=$2 option release
	[ -e "$kdir/arch/x86/boot/bzImage" ] ||
		die "$kdir: no arch/x86/boot/bzImage: give the directory of a kernel that has been built, not of headers"
	for option in "${needed[@]}"; do
		grep -qsE "^CONFIG_$option=[ym]" "$kdir/.config" ||
			die "$kdir: the kernel lacks CONFIG_$option: merge .config.fragment into its configuration and build it again"
	done
	rm -rf "$to"
	install -D -m 644 "$kdir/arch/x86/boot/bzImage" "$to/arch/x86/boot/bzImage"
	# This machine may have no depmod, or not in a user's PATH.
	make -s -C "$kdir" INSTALL_MOD_PATH="$to/install" INSTALL_MOD_STRIP=1 DEPMOD=true modules_install
	release=$(cd "$to/install/lib/modules" && echo *)
	"$here/../enter.sh" depmod -b "/repo/${to#"$top"/}/install" "$release"
}

options=()
if [ -n "${KDIR:-}" ]; then
	copy_kernel "$KDIR" "$top/out/vng"
	options=(--built /repo/out/vng)
fi
PACKAGE=setup.vng exec "$here/../../guests/run.sh" "${options[@]}" "$@"
