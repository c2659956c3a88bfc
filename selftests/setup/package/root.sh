#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes a bare root file system of a distribution as its users have it: no compiler but what a headers package brings, the
# kernels that the file `releases` then names, and what makes them boot in a guest. On Debian these are the newest kernel of
# backports, which has Rust, and the release's, which lacks it; on Ubuntu the kernel that the release came with. Usage:
#
#   root.sh SUITE DIRECTORY     (trixie or ubuntu:SUITE; needs root and the registry)

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

suite=$1 dir=$2
here=$SETUP/package
case "$dir" in
"$CACHE"/package-*) rm -rf --one-file-system "$dir" "$dir.partial" ;;
*) die "refusing to make a root in $dir" ;;
esac
mkdir -p "$dir.partial"
root=$dir.partial/root

# git and make are what somebody has who comes by the source; python is for the agent of the harness.
packages=git,make,ca-certificates,systemd-sysv,udev,kmod,initramfs-tools,lz4,e2fsprogs
packages+=,rdma-core,nfs-common,iproute2,python3-minimal,man-db
bootstrap() { "$1" --variant=minbase --aptopt='Acquire::Retries "3"' --dpkgopt=force-unsafe-io --include="$packages" "${@:2}"; }
case "$suite" in
ubuntu:*)
	# Its DKMS and its kernels compress by zstd.
	packages+=,zstd
	bootstrap "$SETUP/ubuntu.sh" "${suite#ubuntu:}" "/cache/${dir##*/}.partial/root"
	;;
*)
	bootstrap mmdebstrap \
		--customize-hook="sed -n 's/ $suite / $suite-backports /p' \"\$1/etc/apt/sources.list\" >\"\$1/etc/apt/sources.list.d/backports.list\"" \
		"$suite" "$root"
	;;
esac

# The guest's disk and serial ports; everything else is loaded from the disk.
printf '%s\n' virtio_pci virtio_blk ext4 >>"$root/etc/initramfs-tools/modules"
echo 'MODULES=list' >"$root/etc/initramfs-tools/conf.d/guest.conf"
# The fastest to unpack under emulation.
echo 'COMPRESS=lz4' >>"$root/etc/initramfs-tools/conf.d/guest.conf"

run() { "$here/chroot.sh" "$root" "$@"; }
install() { run apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends "$@"; }

# The newest kernel of a suite of Debian; the headers are named like the image.
newest_of() {
	run apt-cache show --no-all-versions "linux-headers-amd64/$1" | sed -En 's/^Depends: (.*, )?linux-headers-([0-9][^ ,]*).*/\2/p'
}
# The first kernel of a release of Ubuntu, whose archive keeps all of them.
first() {
	run apt-cache search --names-only '^linux-headers-[0-9.]+-[0-9]+-generic$' | sed 's/^linux-headers-//; s/ .*//' | sort -V | head -n 1
}

# install_kernel RELEASE [APT-OPTION...]
install_kernel() {
	[ -n "$1" ] || die "no kernel of $suite"
	install "${@:2}" "linux-image-$1" "linux-headers-$1"
	echo "$1" >>"$dir.partial/releases"
}

run apt-get -q -o Acquire::Retries=3 update
case "$suite" in
ubuntu:*) install_kernel "$(first)" ;;
*)
	for pocket in "$suite-backports" "$suite"; do
		install_kernel "$(newest_of "$pocket")" -t "$pocket"
	done
	;;
esac

mkdir "$dir.partial/archives"
mv "$dir.partial" "$dir"
