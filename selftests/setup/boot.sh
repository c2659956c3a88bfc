#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: makes what the harness expects of a kernel (arch/x86/boot/bzImage, install/lib/modules) and the initrd
# that a distribution's kernel needs to reach its root, from the unpacked packages of that kernel. Usage:
#
#   boot.sh DIRECTORY PACKAGES LINUX-SOURCE

set -euo pipefail

dir=$1 packages=$2 source=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# What the guests need before they have a root: its file system, and the drivers that udev would load.
BOOT="9pnet_virtio 9p overlay virtio_net virtio_rng"
# And after that. Modules of the kernel that these depend on come along.
WANTED="rdma_rxe nfsd nfsv3 nfsv4 rpcsec_gss_krb5 rpcrdma rdma_cm rdma_ucm ib_uverbs bonding dummy veth
	virtio_blk ext4 sch_netem sch_ingress cls_matchall cls_u32 act_gact"
# What Kerberos asks the kernel's cryptography for by name.
WANTED+=" cts cmac authenc krb5enc camellia_generic"

release=$(basename "$packages"/usr/lib/modules/*)
shipped=$packages/usr/lib/modules/$release
installed=$dir/install/lib/modules/$release

# The files of some modules and of what they depend on, in the order in which they can be loaded.
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
		case "$file" in
		*.xz) xz -dc "$file" >"$place/$(basename "$file" .xz)" ;;
		*) cp "$file" "$place/" ;;
		esac
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
	closure $BOOT | tee "$root/files" | sed -E 's,.*/([^/]*\.ko).*,/\1,' >"$root/modules"
	copy_modules "$root" <"$root/files"
	rm "$root/files"
	clang-19 -Os -static -nostdlib -fno-stack-protector -Wall -Werror -o "$root/init" \
		-include "$source/tools/include/nolibc/nolibc.h" "$here/guest_init.c"
	(cd "$root" && find . | cpio --quiet -o -H newc) >"$dir/initrd"
	rm -r "$root"
}

rm -rf "$dir"
mkdir -p "$dir/arch/x86/boot"
image=$(find "$packages" -name vmlinuz -o -name "vmlinuz-$release" | head -n 1)
cp "$image" "$dir/arch/x86/boot/bzImage"
# Where modprobe and depmod look for modules; the package's own place is /usr/lib.
mkdir -p "$packages/lib"
ln -sfn ../usr/lib/modules "$packages/lib/modules"
depmod -b "$packages" "$release"
modules
initrd
depmod -b "$dir/install" "$release"
