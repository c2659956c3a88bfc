#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Fetches and unpacks Debian's kernel: its source, and in .packages the image, modules and headers that were made from it.
# Usage:
#
#   linux.sh DIRECTORY SUITE SERIES...
#
# The first series that the suite's backports still carry is taken. .version is the version of Linux, .package-version
# the version of the packages.

set -euo pipefail

self=${BASH_SOURCE[0]}

# The packages of the kernel that was built from this version of the source. Of its flavours the one without a name is
# taken. The archive keeps older kernels for longer than their source.
image_packages() {
	local version=$1 package part
	for package in $(apt-cache pkgnames "linux-binary-${version%%-*}" | grep -E '^linux-binary-[^-]*-amd64$'); do
		apt-cache show "$package" | grep -xF "Version: $version" >/dev/null || continue
		for part in binary modules base headers; do
			echo "linux-$part-${package#linux-binary-}=$version"
		done
		return
	done
}

download() {
	local series version packages
	for series; do
		if apt-cache show "linux-source-$series" >/dev/null 2>&1; then
			version=$(apt-cache show "linux-source-$series" | sed -n 's/^Version: //p' | head -n 1)
			mapfile -t packages < <(image_packages "$version")
			apt-get download "linux-source-$series=$version" "${packages[@]}"
			echo "$version" >.package-version
			return
		fi
		echo "linux-source-$series is not carried any more"
	done
}

if [ "$1" = --download ]; then
	shift
	download "$@"
	exit
fi

dir=$1 suite=$2
shift 2
case "$dir" in
*/linux-*) rm -rf "$dir" "$dir.partial" ;;
*) echo "refusing to unpack into $dir" >&2 && exit 1 ;;
esac
self=$(realpath "$self")
mkdir -p "$dir.partial/.deb"
cd "$dir.partial/.deb"

"$(dirname "$self")/backports.sh" "$suite" "$self" --download "$@"
source=$(ls linux-source-*.deb 2>/dev/null || true)
[ -n "$source" ] || {
	echo "none of the supported series ($*) is to be had: give a built kernel tree of your own with 'make KDIR=...'"
	exit 3
}

dpkg-deb --fsys-tarfile "$source" | tar -xO --wildcards '*/linux-source-*.tar.xz' | tar -xJ -C .. --strip-components=1
rm "$source"
for package in *.deb; do
	[ -e "$package" ] || continue
	dpkg-deb -x "$package" ../.packages
done
mv .package-version ..
cd ..
rm -rf .deb
make -s kernelversion >.version
mv "$dir.partial" "$dir"
