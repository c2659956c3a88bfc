#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the module for one of the test kernels, under out/. Usage: build.sh test|debug [MAKE-ARGUMENT...]

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

variant=$1
shift
case "$variant" in
test) kernel=$("$SETUP/setup.sh" --path kernel) ;;
debug) kernel=$("$SETUP/setup.sh" --path kernel-debug) ;;
*) die "no such kernel: $variant (test or debug)" ;;
esac

mkdir -p "$TOP/out/$variant"
"$SETUP/enter.sh" make -s -C "$kernel" M=/repo MO="/repo/out/$variant" LLVM=-19 "$@" modules
