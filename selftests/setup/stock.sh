#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: makes the test bed of a distribution's kernel as shipped, without installing it. Usage:
#
#   stock.sh DIRECTORY KDIR SOURCE
#
# SOURCE is what linux.sh made. DIRECTORY gets what the harness expects of a kernel (arch/x86/boot/bzImage,
# install/lib/modules) and the initrd that such a kernel needs to reach its root. KDIR becomes the build directory for
# modules, as packaging/prepare.sh makes it for users; kdir in DIRECTORY leads to it.

set -euo pipefail

dir=$1 kdir=$2 source=$3
packages=$source/.packages
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)

case "$dir" in
/cache/kernel-stock-*) ;;
*) echo "refusing to make a kernel in $dir" >&2 && exit 1 ;;
esac
release=$(basename "$packages"/usr/lib/modules/*)
headers=$packages/usr/src/linux-headers-$release
installed=$dir/install/lib/modules/$release

# Debian builds no soft-iWARP; its driver needs nothing of the kernel that other modules do not get.
siw() {
	local build=$dir/siw
	cp -r "$source/drivers/infiniband/sw/siw" "$build"
	make -s -C "$kdir" "${tools[@]}" M="$build" CONFIG_RDMA_SIW=m modules
	strip -g -o "$installed/kernel/siw.ko" "$build/siw.ko"
	rm -r "$build"
}

"$here/boot.sh" "$dir" "$packages" "$source"
prepared=$("$top/packaging/prepare.sh" --source "$source" --output "$kdir" "$headers")
ln -s "../$(basename "$prepared")" "$dir/kdir"
mapfile -t tools < <("$top/packaging/kernel-tools.sh" "$kdir")
siw
depmod -b "$dir/install" "$release"
