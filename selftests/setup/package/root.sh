#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes a bare Debian root file system as its users have it: no compiler but what a headers package brings, two kernels (the
# newest of backports, which has Rust, and the release's, which lacks it), and what makes them boot in a guest.
# Usage: root.sh DIRECTORY. Needs root and the registry.

set -euo pipefail

dir=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case "$dir" in
*/package-*) rm -rf --one-file-system "$dir" "$dir.partial" ;;
*) echo "refusing to make a root in $dir" >&2 && exit 1 ;;
esac
mkdir -p "$dir.partial"
root=$dir.partial/root

# git and make are what somebody has who comes by the source; python is for the agent of the harness.
mmdebstrap --variant=minbase --aptopt='Acquire::Retries "3"' --dpkgopt=force-unsafe-io \
	--include=git,make,ca-certificates,systemd-sysv,udev,kmod,initramfs-tools,lz4,e2fsprogs \
	--include=rdma-core,nfs-common,iproute2,python3-minimal,man-db \
	--customize-hook='sed -n "s/ trixie / trixie-backports /p" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/backports.list"' \
	trixie "$root"

# The guest's disk and serial ports; everything else is loaded from the disk.
printf '%s\n' virtio_pci virtio_blk ext4 >>"$root/etc/initramfs-tools/modules"
echo 'MODULES=list' >"$root/etc/initramfs-tools/conf.d/guest.conf"
# The fastest to unpack under emulation.
echo 'COMPRESS=lz4' >>"$root/etc/initramfs-tools/conf.d/guest.conf"

run() { "$here/chroot.sh" "$root" "$@"; }
install() { run apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends "$@"; }

# The headers of a suite's newest kernel; they are named like the image.
headers() {
	run apt-cache show --no-all-versions "linux-headers-amd64/$1" | sed -En 's/^Depends: (.*, )?(linux-headers-[0-9][^ ,]*).*/\2/p'
}

run apt-get -q -o Acquire::Retries=3 update
for suite in trixie-backports trixie; do
	headers=$(headers "$suite")
	[ -n "$headers" ] || { echo "no headers of $suite's kernel" && exit 1; }
	install -t "$suite" "${headers/headers/image}" "$headers"
	echo "${headers#linux-headers-}" >>"$dir.partial/releases"
done

mkdir "$dir.partial/archives"
mv "$dir.partial" "$dir"
