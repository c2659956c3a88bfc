#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the module for the kernel of another Debian release as a user of that release would: by its compilers, against
# its headers package, with the Rust metadata rebuilt from its source package. Usage: series.sh SUITE (forky, sid, ...)
# The last line is 'N passed, N failed'.

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

suite=${1:?usage: series.sh SUITE}
dir=$CACHE/series-$suite
packages=rustc,rust-src,bindgen,make,flex,bison,bc,libelf-dev,libssl-dev,pahole,kmod,perl,python3,xz-utils,linux-source,linux-headers-amd64

# Releases move on: a tree older than a week is made again.
make_tree() {
	rm -rf --one-file-system "$dir" "$dir.partial"
	# A mirror may lag behind the last date that such a release vouches for its lists; signatures are checked anyway.
	mmdebstrap --variant=minbase --include="$packages" \
		--aptopt='Acquire::Retries "3"' --aptopt='Acquire::Check-Valid-Until "false"' \
		--customize-hook='mkdir -p "$1/repo" "$1/cache" "$1/guestroot"' \
		--customize-hook='n=$(chroot "$1" rustc -vV | sed -n "s/^LLVM version: \([0-9]*\).*/\1/p") &&
			chroot "$1" apt-get install -y --no-install-recommends "clang-$n" "llvm-$n"' \
		"$suite" "$dir.partial"
	mv "$dir.partial" "$dir"
	touch "$dir/.complete"
}

if [ -z "$(find "$dir/.complete" -mtime -7 2>/dev/null || true)" ]; then
	need_space 4 "the tree of $suite"
	stage "series-$suite" "making a tree of $suite with its compilers, kernel headers and kernel source" 120 \
		'du -smx "$dir.partial" | cut -f1 | sed "s/$/ MB of 2000/"' -- make_tree
fi

inside() { TREE=$dir "$SETUP/enter.sh" "$@"; }

kdir=$(cd "$dir" && find usr/src -maxdepth 1 -name 'linux-headers-*-amd64' | sort -V | tail -n 1)
[ -n "$kdir" ] || die "$suite has no kernel headers"
passed=0 failed=0

# A kernel that is too old must be refused with one line; nothing is built then.
refusal=$(inside packaging/check-kdir.sh --prepare "/$kdir" 2>&1 || true)
if [[ $refusal == *"is the oldest that the module builds for"* ]]; then
	echo "ok     $suite is not built for: $refusal"
	echo "1 passed, 0 failed"
	exit
fi

for what in prepare modules; do
	if inside make "$what" KDIR="/$kdir"; then
		passed=$((passed + 1))
		echo "ok     $suite: make $what KDIR=/$kdir"
	else
		failed=$((failed + 1))
		echo "not ok $suite: make $what KDIR=/$kdir"
	fi
done
[ "$failed" -gt 0 ] || inside modinfo out/kdir/rpcrdma_rs.ko | grep -E '^(vermagic|depends)'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
