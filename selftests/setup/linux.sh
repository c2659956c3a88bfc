#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: fetches and unpacks a Linux source package. Usage: linux.sh DIRECTORY SERIES...
# The first series that Debian's backports still carry is taken.

set -euo pipefail

dir=$1
shift
case "$dir" in
/cache/linux-*) rm -rf "$dir" "$dir.partial" ;;
*) echo "refusing to unpack into $dir" >&2 && exit 1 ;;
esac
mkdir -p "$dir.partial"
cd "$dir.partial"

apt-get -qq -o Acquire::Retries=3 update
for series in "$@"; do
	if apt-cache show "linux-source-$series" >/dev/null 2>&1; then
		apt-get -o Acquire::Retries=3 download "linux-source-$series"
		break
	fi
	echo "linux-source-$series is not carried any more"
done
deb=$(ls linux-source-*.deb 2>/dev/null || true)
[ -n "$deb" ] || {
	echo "none of the supported series ($*) is to be had: give a built kernel tree of your own with 'make KDIR=...'"
	exit 3
}

mkdir .deb
dpkg-deb --fsys-tarfile "$deb" | tar -x -C .deb --wildcards '*/linux-source-*.tar.xz'
find .deb -name 'linux-source-*.tar.xz' -exec tar -xJf {} --strip-components=1 \;
rm -rf .deb "$deb"
make -s kernelversion >.version
mv "$dir.partial" "$dir"
