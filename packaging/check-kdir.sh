#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Says in one line what a kernel build directory, or this machine, lacks for building the module. Usage:
#
#   check-kdir.sh [--prepare] [--tested] KERNEL-BUILD-DIRECTORY
#
#   --prepare   what is lacking for rebuilding the Rust metadata there (see prepare.sh), instead of the metadata itself
#   --tested    that the kernel is of a newer series than the module was tested on (see kernels), too

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=packaging/lib.sh
. "$here/lib.sh"

prepare=n tested=n
while [ $# -gt 1 ]; do
	case "$1" in
	--prepare) prepare=y ;;
	--tested) tested=y ;;
	*) die "no such option: $1" ;;
	esac
	shift
done
kdir=${1:?usage: check-kdir.sh [--prepare] [--tested] KERNEL-BUILD-DIRECTORY}

# Where the administrator adds to the list of series.
ALLOWED=/etc/rpcrdma-rs/kernels

lack() { die "$kdir: $*"; }

have() { command -v "$1" >/dev/null; }

headers_advice() {
	local release
	release=$(sed -n 's,.*/lib/modules/\([^/]*\)/build/*$,\1,p; s,.*/linux-headers-\([^/]*\)/*$,\1,p' <<<"$kdir")
	release=${release:-$(uname -r)}
	echo "install the headers of kernel $release ($(how_to_get "linux-headers-$release" "kernel-devel-$release" linux-headers))"
}

rust_advice() {
	case "$(distribution)" in
	debian)
		echo "Debian's kernels have it since 6.18 (for Debian 13: apt-get install -t trixie-backports linux-image-amd64 linux-headers-amd64)"
		;;
	ubuntu | fedora | arch) echo "install the newest kernel of this distribution, or configure one with CONFIG_RUST=y" ;;
	*) echo "configure it with CONFIG_RUST=y ('make rustavailable' tells what that needs)" ;;
	esac
}

check_directory() {
	[ -d "$kdir" ] || lack "no such directory: $(headers_advice)"
	[ -r "$kdir/.config" ] || lack "no .config: this is not the build directory of a configured kernel; $(headers_advice)"
}

# The series that the module was tested on, oldest first.
tested_series() {
	{ cat "$here/kernels" "$ALLOWED" 2>/dev/null || true; } | sed -nE 's/^([0-9]+\.[0-9]+).*/\1/p' | sort -uV
}

# sorted A B: does version A come before B, or are they the same?
sorted() { printf '%s\n' "$@" | sort -CV; }

check_series() {
	local release series oldest newest
	release=$(kernel_release)
	[ -n "$release" ] || return 0
	series=$(grep -oE '^[0-9]+\.[0-9]+' <<<"$release")
	oldest=$(tested_series | head -n 1)
	newest=$(tested_series | tail -n 1)
	sorted "$oldest" "$series" ||
		lack "the kernel is $release, and $oldest is the oldest that the module builds for: install a newer one"
	[ "$tested" = n ] || sorted "$series" "$newest" ||
		lack "the kernel is $release, and $newest is the newest that the module was tested on: to allow it," \
			"mkdir -p ${ALLOWED%/*} && echo $series >>$ALLOWED && dkms autoinstall -k $release"
}

check_options() {
	local name value
	grep -q '^CONFIG_RUST=y' "$kdir/.config" || lack "the kernel is built without Rust: $(rust_advice)"
	check_series

	# What part 1 of the fragment asks for; built in will do wherever a module will.
	while IFS='=' read -r name value; do
		case "$value" in
		y) grep -q "^$name=y" "$kdir/.config" ;;
		m) grep -qE "^$name=(y|m)" "$kdir/.config" ;;
		esac ||
			lack "the kernel lacks $name=$value: merge .config.fragment (part 1) into its configuration"
	done < <(sed '/^### Part 2/,$d' "$here/../.config.fragment" | grep '^CONFIG_')
}

# check_major BUILT-BY-MAJOR NAME PACKAGES...: is NAME here and of the kernel compiler's major version?
check_major() {
	local major=$1 name=$2 found
	shift 2
	have "$name" || lack "the kernel is built by $(option_text CC_VERSION_TEXT), and there is no $name here: $(how_to_get "$@")"
	found=$("$name" -dumpversion)
	[ "${found%%.*}" = "$major" ] ||
		lack "the kernel is built by $(option_text CC_VERSION_TEXT), and $name here is version $found: $(how_to_get "$@")"
}

check_compilers() {
	local tools compiler rustc bindgen built found
	tools=$("$here/kernel-tools.sh" "$kdir")
	named() { sed -n "s/^$1=//p" <<<"$tools"; }

	if grep -q '^CONFIG_CC_IS_CLANG=y' "$kdir/.config"; then
		built=$(($(option CLANG_VERSION) / 10000))
		compiler=$(named LLVM)
		case "$compiler" in
		1) compiler=clang ;;
		-*) compiler=clang$compiler ;;
		*) compiler=${compiler}clang ;;
		esac
		check_major "$built" "$compiler" "clang-$built lld-$built llvm-$built" "clang lld llvm" "clang lld llvm"
	else
		built=$(($(option GCC_VERSION) / 10000))
		check_major "$built" "$(named CC)" "gcc-$built" gcc gcc
	fi

	built=$(option_text RUSTC_VERSION_TEXT)
	rustc=$(named RUSTC)
	rustc=${rustc:-rustc}
	found=$(awk '{ print $2 }' <<<"$built")
	have "$rustc" || lack "the kernel is built by '$built', and there is no $rustc here: $(how_to_get rustc rust rust)"
	found=$("$rustc" --version)
	[ "$found" = "$built" ] ||
		lack "the kernel is built by '$built', and rustc here is '$found': install that one and name it with RUSTC=, as metadata can be read by no other"

	bindgen=$(named BINDGEN)
	bindgen=${bindgen:-bindgen}
	have "$bindgen" || lack "there is no $bindgen here: $(how_to_get bindgen bindgen-cli rust-bindgen)"
	if [ "$prepare" = y ]; then
		built=$(option_text BINDGEN_VERSION_TEXT)
		found=$("$bindgen" --version)
		[ "$found" = "$built" ] ||
			lack "the kernel is built by '$built', and bindgen here is '$found': install that one and name it with BINDGEN="
	fi
}

check_metadata() {
	[ -r "$kdir/rust/libkernel.rmeta" ] || lack "there is no Rust metadata (rust/*.rmeta): $(metadata_advice)"
	if [ -n "$(option X86)" ]; then
		[ -r "$kdir/scripts/target.json" ] || lack "scripts/target.json is missing beside the Rust metadata: $(metadata_advice)"
	fi
}

# What building rust/ and the kernel's own tools needs.
check_build_tools() {
	local tool rustc
	rustc=$("$here/kernel-tools.sh" "$kdir" | sed -n 's/^RUSTC=//p')
	[ -r "$("${rustc:-rustc}" --print sysroot)/lib/rustlib/src/rust/library/core/src/lib.rs" ] ||
		lack "the source of Rust's core library is not here: $(how_to_get rust-src rust-src rust-src)"
	for tool in make flex bison bc perl xz cc; do
		have "$tool" || lack "there is no $tool here: $(how_to_get "${tool/#cc/gcc}" "${tool/#cc/gcc}" "${tool/#cc/gcc}")"
	done
	[ -z "$(option DEBUG_INFO_BTF)" ] || have pahole || lack "there is no pahole here: $(how_to_get pahole dwarves pahole)"
	header gelf.h || lack "there is no gelf.h here: $(how_to_get "$(of_version libelf-dev libelf1t64)" elfutils-libelf-devel libelf)"
	[ -z "$(option MODULE_SIG)" ] || header openssl/evp.h ||
		lack "there is no openssl/evp.h here: $(how_to_get libssl-dev openssl-devel openssl)"
}

# of_version PACKAGE LIBRARY: a package by the version that its library is installed in here. A kernel from Debian's backports
# may have brought that from there, and apt takes no version by itself that fits it.
of_version() {
	local version
	version=$(dpkg-query -W -f '${Version}' "$2" 2>/dev/null || true)
	echo "$1${version:+=$version}"
}

header() { cc -E -x c - <<<"#include <$1>" >/dev/null 2>&1; }

check_directory
check_options
check_compilers
if [ "$prepare" = y ]; then
	check_build_tools
else
	check_metadata
fi
