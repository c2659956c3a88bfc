#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the module for one of the test kernels, and the modules that only tests use, under out/. Usage:
# build.sh stock|test|debug [MAKE-ARGUMENT...]

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

variant=$1
shift
case "$variant" in
stock) kernel=$("$SETUP/setup.sh" --path kernel-stock)/kdir ;;
test) kernel=$("$SETUP/setup.sh" --path kernel) ;;
debug) kernel=$("$SETUP/setup.sh" --path kernel-debug) ;;
*) die "no such kernel: $variant (stock, test or debug)" ;;
esac

# Two builds at a time would spoil each other.
mkdir -p "$TOP/out"
exec 8>"$TOP/out/.building"
flock 8

mapfile -t tools < <("$SETUP/enter.sh" packaging/kernel-tools.sh "$kernel")

# build_modules SOURCE OUTPUT [MAKE-ARGUMENT...]
build_modules() {
	local source=$1 output=$2
	shift 2
	mkdir -p "$TOP/$output"
	"$SETUP/enter.sh" make -s -j"$(nproc)" -C "$kernel" M="$source" MO="/repo/$output" "${tools[@]}" "$@" modules
}

# The compiler of Rust uses one processor most of the time.
build_modules /repo "out/$variant" "$@" &
ours=$!
for name in rpcload ibfault hold realdma; do
	build_modules "/repo/selftests/$name" "out/$variant/$name" "$@"
done
wait "$ours"
