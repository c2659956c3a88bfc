#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Says in one line what a kernel build directory, or this machine, lacks for building the module. Usage:
# check-kdir.sh KERNEL-BUILD-DIRECTORY

set -euo pipefail

kdir=$1
fragment=$(dirname "${BASH_SOURCE[0]}")/../../.config.fragment

die() {
	echo "error: $kdir: $*" >&2
	exit 1
}

[ -d "$kdir" ] || die "no such directory"
[ -r "$kdir/.config" ] || die "no .config: this is not the build directory of a configured kernel"
grep -q '^CONFIG_RUST=y' "$kdir/.config" ||
	die "the kernel is built without Rust: configure it with CONFIG_RUST=y ('make rustavailable' tells what that needs)"

# What part 1 of the fragment asks for; built in will do wherever a module will.
while IFS='=' read -r option value; do
	case "$value" in
	y) grep -q "^$option=y" "$kdir/.config" ;;
	m) grep -qE "^$option=(y|m)" "$kdir/.config" ;;
	esac ||
		die "the kernel lacks $option=$value: merge .config.fragment (part 1) into its configuration"
done < <(sed '/^### Part 2/,$d' "$fragment" | grep '^CONFIG_')

[ -r "$kdir/rust/libkernel.rmeta" ] ||
	die "the kernel crate is not built there: build the kernel, or at least 'make modules_prepare'"
built=$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="\(.*\)"/\1/p' "$kdir/.config")
rustc=${RUSTC:-rustc}
command -v "$rustc" >/dev/null || die "no rustc here: install the one that built the kernel ($built)"
here=$("$rustc" --version)
[ "$here" = "$built" ] || die "built by '$built', but rustc here is '$here': set RUSTC to the same compiler"
command -v "${BINDGEN:-bindgen}" >/dev/null || die "no bindgen here: install it (Debian: apt-get install bindgen)"
