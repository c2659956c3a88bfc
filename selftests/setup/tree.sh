#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes the tool-and-guest tree: a Debian root file system with one stable toolchain, QEMU and the programs the
# guests run. Usage: tree.sh DIRECTORY. Needs root.

set -euo pipefail

dir=$1
packages=$(sed 's/#.*//' "$(dirname "$0")/packages" | tr -s ' \n' ',,' | sed 's/^,//; s/,$//')

case "$dir" in
*/tree-*) rm -rf --one-file-system "$dir" "$dir.partial" ;;
*) echo "refusing to make a tree in $dir" >&2 && exit 1 ;;
esac

# Half of all files, which nobody reads here: of rust-src only library/ is compiled, of LLVM the static libraries are linked
# with nothing. And no file needs to be on the disk before the next one: an incomplete tree is made again. The last pattern
# that matches decides, and an asterisk matches slashes, too.
dpkg=(force-unsafe-io)
for path in '/usr/share/doc/*' '/usr/share/man/*' '/usr/share/info/*' '/usr/share/locale/*' \
	'/usr/src/rustc-*/src/*' '/usr/src/rustc-*/compiler/*' '/usr/lib/llvm-*/lib/lib*.a'; do
	dpkg+=("path-exclude=$path")
done
dpkg+=('path-include=/usr/src/rustc-*/library/*')

mmdebstrap --variant=minbase --include="$packages" \
	--aptopt='Acquire::Retries "3"' "${dpkg[@]/#/--dpkgopt=}" \
	--customize-hook='sed -n "s/ trixie / trixie-backports /p" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/backports.list"' \
	--customize-hook='mkdir -p "$1/repo" "$1/cache" "$1/guestroot" "$1/kernel" "$1/export" "$1/share" "$1/mnt/nfs"' \
	--customize-hook='ln -sf /proc/self/mounts "$1/etc/mtab"' \
	trixie "$dir.partial"

# The first program of a guest: gives it a writable root over the shared read-only one, then hands over to the
# init that the harness put into the share.
cat >"$dir.partial/sbin/guest-init" <<'INIT'
#!/bin/sh
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir -p /mnt/lower /mnt/up/data /mnt/up/work /mnt/root
mount --bind / /mnt/lower
mount -t overlay -o lowerdir=/mnt/lower,upperdir=/mnt/up/data,workdir=/mnt/up/work overlay /mnt/root
mount -t devtmpfs dev /mnt/root/dev
mount -t proc proc /mnt/root/proc
mount -t sysfs sys /mnt/root/sys
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose share /mnt/root/share
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro kernel /mnt/root/kernel
exec chroot /mnt/root /share/init
INIT
chmod 755 "$dir.partial/sbin/guest-init"
mv "$dir.partial" "$dir"
