#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: configures and builds the kernel that runs as a process. Usage: native.sh SOURCE OUTPUT FRAGMENT...
# An option of a later fragment overrides an earlier one. The patches in native/ are applied to a copy of the source.

set -euo pipefail

src=$1 out=$2
shift 2

um() { make -C "$out/patched" O="$out" ARCH=um LLVM=-19 "$@"; }

# Of names only: patch replaces the files that it changes. A copy is complete once all patches are on it.
mkdir -p "$out"
if [ ! -e "$out/patched/.patched" ]; then
	rm -rf "$out/patched"
	mkdir "$out/patched"
	cp -al "$src"/* "$out/patched"
	for patch in "${BASH_SOURCE[0]%/*}"/native/*.patch; do
		patch -d "$out/patched" -p1 --no-backup-if-mismatch <"$patch"
	done
	touch "$out/patched/.patched"
fi

um -s rustavailable
um -s allnoconfig
(cd "$out" && "$src/scripts/kconfig/merge_config.sh" -m -O "$out" "$out/.config" "$@" >/dev/null)
um -s olddefconfig

missing=$(cat "$@" | sed -n 's/^\(CONFIG_[A-Z0-9_]*\)=/\1 /p' | awk '{ last[$1] = $2 } END { for (o in last) print o "=" last[o] }' |
	grep -v '=n$' | grep -vxFf "$out/.config" || true)
if [ -n "$missing" ]; then
	echo "these options were asked for and are not set:"
	echo "$missing"
	exit 1
fi

um -j"$(nproc)" linux modules
um -s INSTALL_MOD_PATH="$out/install" INSTALL_MOD_STRIP=1 modules_install
