#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Prints the arguments with which make takes the tools that a kernel was built by, for the kernel's build system picks
# the default compiler of this machine otherwise. Usage: kernel-tools.sh KERNEL-BUILD-DIRECTORY
# One argument a line, without blanks: CC=x86_64-linux-gnu-gcc-14, or LLVM=-19; RUSTC= and BINDGEN= where the plain
# names are other versions than those that built the kernel. RUSTC, BINDGEN and LLVM in the environment win.

# shellcheck source=packaging/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

kdir=${1:?usage: kernel-tools.sh KERNEL-BUILD-DIRECTORY}

here() { command -v "$1" >/dev/null; }

# tool VARIABLE DEFAULT WANTED-VERSION-LINE NAME...
# Prints VARIABLE=NAME for the first NAME that is of the wanted version, unless the plain name is.
tool() {
	local variable=$1 default=$2 wanted=$3 name
	shift 3
	if [ -n "${!variable:-}" ]; then
		echo "$variable=${!variable}"
		return
	fi
	for name in "$default" "$@"; do
		if here "$name" && [ "$("$name" --version | head -n 1)" = "$wanted" ]; then
			[ "$name" = "$default" ] || echo "$variable=$name"
			return
		fi
	done
}

if grep -q '^CONFIG_CC_IS_CLANG=y' "$kdir/.config"; then
	# Clang says its version, not under which name it was called.
	major=$(($(option CLANG_VERSION) / 10000))
	if [ -n "${LLVM:-}" ]; then
		echo "LLVM=$LLVM"
	elif here "clang-$major" && here "ld.lld-$major"; then
		echo "LLVM=-$major"
	else
		echo "LLVM=1"
	fi
else
	# GCC's line begins with the name that it was called by.
	compiler=$(option_text CC_VERSION_TEXT)
	echo "CC=${compiler%% *}"
fi

rustc=$(option_text RUSTC_VERSION_TEXT)
version=$(awk '{ print $2 }' <<<"$rustc")
tool RUSTC rustc "$rustc" "rustc-${version%.*}" "rustc-$version"
bindgen=$(option_text BINDGEN_VERSION_TEXT)
version=$(awk '{ print $2 }' <<<"$bindgen")
tool BINDGEN bindgen "$bindgen" "bindgen-${version%.*}" "bindgen-$version"
