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

# What the guests need before they have a root: its file system, and the drivers that udev would load.
BOOT="9pnet_virtio 9p overlay virtio_net virtio_rng"
# And after that. Modules of the kernel that these depend on come along.
WANTED="rdma_rxe nfsd nfsv3 nfsv4 rpcsec_gss_krb5 rpcrdma rdma_cm rdma_ucm ib_uverbs bonding dummy veth
	virtio_blk ext4 sch_netem sch_ingress cls_matchall cls_u32 act_gact"
# The algorithms that Kerberos requests from the kernel's cryptography by name.
WANTED+=" cts cmac authenc krb5enc camellia_generic"

case "$dir" in
/cache/kernel-stock-*) ;;
*) echo "refusing to make a kernel in $dir" >&2 && exit 1 ;;
esac
release=$(basename "$packages"/usr/lib/modules/*)
headers=$packages/usr/src/linux-headers-$release
shipped=$packages/usr/lib/modules/$release
installed=$dir/install/lib/modules/$release

# The files of some modules and of their dependencies, in loading order.
closure() {
	local module
	for module; do
		modprobe -d "$packages" -S "$release" --show-depends "$module" || exit 1
	done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++'
}

# Copies modules to a place, uncompressed: an emulated guest takes seconds to uncompress them.
copy_modules() {
	local place=$1 file
	while read -r file; do
		xz -dc "$file" >"$place/$(basename "$file" .xz)"
	done
}

modules() {
	mkdir -p "$installed/kernel"
	# shellcheck disable=SC2086 # lists on purpose
	closure $BOOT $WANTED | copy_modules "$installed/kernel"
	cp "$shipped"/modules.{order,builtin,builtin.modinfo} "$installed/"
}

initrd() {
	local root=$dir/initrd.d
	mkdir -p "$root"
	# shellcheck disable=SC2086
	closure $BOOT | tee "$root/files" | sed 's,.*/\(.*\)\.xz$,/\1,' >"$root/modules"
	copy_modules "$root" <"$root/files"
	rm "$root/files"
	clang-19 -Os -static -nostdlib -fno-stack-protector -Wall -Werror -o "$root/init" \
		-include "$source/tools/include/nolibc/nolibc.h" "$here/guest_init.c"
	(cd "$root" && find . | cpio --quiet -o -H newc) >"$dir/initrd"
	rm -r "$root"
}

# Debian builds no soft-iWARP; its driver needs nothing of the kernel that other modules do not get.
siw() {
	local build=$dir/siw
	cp -r "$source/drivers/infiniband/sw/siw" "$build"
	make -s -C "$kdir" "${tools[@]}" M="$build" CONFIG_RDMA_SIW=m modules
	strip -g -o "$installed/kernel/siw.ko" "$build/siw.ko"
	rm -r "$build"
}

rm -rf "$dir"
mkdir -p "$dir/arch/x86/boot"
cp "$shipped/vmlinuz" "$dir/arch/x86/boot/bzImage"
# Where modprobe and depmod look for modules; the package's own place is /usr/lib.
mkdir -p "$packages/lib"
ln -sfn ../usr/lib/modules "$packages/lib/modules"
depmod -b "$packages" "$release"
modules
initrd
prepared=$("$top/packaging/prepare.sh" --source "$source" --output "$kdir" "$headers")
ln -s "../$(basename "$prepared")" "$dir/kdir"
mapfile -t tools < <("$top/packaging/kernel-tools.sh" "$kdir")
siw
depmod -b "$dir/install" "$release"
