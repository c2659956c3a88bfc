#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: configures and builds the test kernel. Usage: kernel.sh SOURCE OUTPUT FRAGMENT...

set -euo pipefail

src=$1 out=$2
shift 2

mkdir -p "$out"
make -s -C "$src" O="$out" LLVM=-19 rustavailable
make -s -C "$src" O="$out" LLVM=-19 allnoconfig
(cd "$out" && "$src/scripts/kconfig/merge_config.sh" -m -O "$out" "$out/.config" "$@" >/dev/null)
make -s -C "$src" O="$out" LLVM=-19 olddefconfig

# An option that olddefconfig drops silently would be missed only much later. Options that are gone because they can no
# longer be switched off are not missing.
missing=$(cat "$@" | grep -E '^CONFIG_[A-Z0-9_]+=' | grep -v '=n$' | grep -vxFf "$out/.config" || true)
if [ -n "$missing" ]; then
	echo "these options were asked for and are not set:"
	echo "$missing"
	exit 1
fi

make -C "$src" O="$out" LLVM=-19 -j"$(nproc)" bzImage modules
make -s -C "$src" O="$out" LLVM=-19 INSTALL_MOD_PATH="$out/install" INSTALL_MOD_STRIP=1 modules_install
