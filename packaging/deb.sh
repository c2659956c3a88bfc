#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the Debian package from this tree, with the tools of a machine or tree that has debhelper and dh-dkms. Usage:
# deb.sh [--source] OUTPUT-DIRECTORY. With --source the source package is built as well. The version is that of
# packaging/debian/changelog.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
for tool in dpkg-buildpackage dh dh_dkms; do
	command -v "$tool" >/dev/null || {
		echo "error: no $tool here: apt install dpkg-dev debhelper dh-dkms" >&2
		exit 1
	}
done
kinds=-b
if [ "$1" = --source ]; then
	kinds=-F
	shift
fi
mkdir -p "$1"
output=$(cd "$1" && pwd)
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' packaging/debian/changelog)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$work/rpcrdma-rs-$version
mkdir "$source"
# Without what a build has left in the tree.
tar -c --exclude='*.o' --exclude='*.bc' --exclude='.*.cmd' --exclude='.*.d' --exclude=bindings_generated.rs --exclude=bindings_helpers.rs \
	Kbuild LICENSE README.md .config.fragment include src tools packaging Documentation | tar -x -C "$source"
mv "$source/packaging/debian" "$source/debian"
# The tools were looked for above; a compiler, which dpkg-buildpackage takes for granted, is not needed.
(cd "$source" && dpkg-buildpackage -d -us -uc "$kinds" >"$output/build.log" 2>&1) || {
	tail -n 15 "$output/build.log" >&2
	echo "error: the package was not built: see $output/build.log" >&2
	exit 1
}
rm -f "$output"/*.deb
cp "$work"/*.deb "$output/"
[ "$kinds" = -b ] || cp "$work"/*.{dsc,tar.xz,buildinfo,changes} "$output/"
echo "the package is $output/rpcrdma-rs-dkms_${version}_all.deb"
