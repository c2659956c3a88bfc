#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the module for the kernel of another release of a distribution as a user of that release would: by its compilers,
# against its headers package, with the Rust metadata rebuilt from its source package where the headers lack it. Then boots
# that kernel in a guest, which mounts an export, compares data and unloads the module. Usage:
#
#   series.sh [--build-only | --tree-only | --core] SUITE     (a suite of packaging/kernels: forky, sid, ubuntu:resolute, ...)
#
# With --core the guest passes the core set as well, which takes up to an hour under emulation. TESTS="pattern..." has it run
# the VM tests that match, and nothing else.
#
# out/series/SUITE.tsv gets the result, for the table of Documentation/installation.rst (series.py), but not with TESTS. A
# suite that cannot be fetched is left out, and a line says so. The last line is 'N passed, N failed'.

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

builds=y boots=y sets=mount
usage="series.sh [--build-only | --tree-only | --core] SUITE"
case "${1:-}" in
--build-only) boots=n ;;
--tree-only) builds=n ;;
--core) sets="mount core" ;;
-*) die "usage: $usage" ;;
esac
[[ ${1:-} != --* ]] || shift
suite=${1:?usage: $usage}
[ -z "${TESTS:-}" ] || sets=chosen
series=${suite/:/-}
dir=$CACHE/series-$series
result=$TOP/out/series/$series.tsv
# The tests of the harness that a booted kernel has to pass.
declare -A tests=(
	[mount]="test_mount: test_unload:"
	[core]="test_data: test_attributes: test_recall: test_reconnect: test_private_data: test_rules: test_debugfs:"
	[chosen]="${TESTS:-}"
)
declare -A says=([mount]="mount, data and unloading" [core]="the core set" [chosen]="${TESTS:-}")

packages=rustc,rust-src,bindgen,make,flex,bison,bc,libelf-dev,libssl-dev,pahole,kmod,perl,python3,xz-utils
case "$suite" in
ubuntu:*)
	packages+=,zstd,linux-headers-generic
	flavour=generic
	;;
*)
	packages+=,linux-source,linux-headers-amd64
	flavour=amd64
	;;
esac
passed=0 failed=0

# bootstrap COMMAND SUITE DIRECTORY: the tree, by mmdebstrap or a command like it. A mirror may lag behind the date up to
# which such a release vouches for its lists; signatures are checked anyway.
bootstrap() {
	"$1" --variant=minbase --include="$packages" \
		--aptopt='Acquire::Retries "3"' --aptopt='Acquire::Check-Valid-Until "false"' --skip=cleanup/apt/lists --dpkgopt=force-unsafe-io \
		--customize-hook='mkdir -p "$1/repo" "$1/cache" "$1/guestroot"' \
		--customize-hook='n=$(chroot "$1" rustc -vV | sed -n "s/^LLVM version: \([0-9]*\).*/\1/p") &&
			chroot "$1" apt-get install -y --no-install-recommends "clang-$n" "llvm-$n"' \
		--customize-hook='for h in "$1"/usr/src/linux-headers-*-generic; do
			[ ! -d "$h" ] || chroot "$1" apt-get install -y --no-install-recommends "linux-lib-rust-${h##*/linux-headers-}"; done' \
		"${@:2}"
}

make_tree() {
	rm -rf --one-file-system "$dir" "$dir.partial"
	case "$suite" in
	ubuntu:*) bootstrap "$SETUP/ubuntu.sh" "${suite#ubuntu:}" "/cache/${dir##*/}.partial" ;;
	*) bootstrap mmdebstrap "$suite" "$dir.partial" ;;
	esac
	mv "$dir.partial" "$dir"
	touch "$dir/.complete"
}

# Releases move on: a tree older than a week is made again.
tree_ready() { [ -n "$(find "$dir/.complete" -mtime -7 2>/dev/null || true)" ]; }

inside() { TREE=$dir "$SETUP/enter.sh" "$@"; }

left_out() {
	echo "$suite: left out: $*"
	echo "0 passed, 0 failed"
	exit
}

# The image and the modules of the kernel that the headers are of, unpacked into the tree, whose release may have moved on.
fetch_kernel() {
	rm -rf "$dir/kernel"
	inside bash -ec '
		release=$1
		packages="linux-image-$release linux-modules-$release"
		[ "$2" = generic ] || packages="linux-binary-$release linux-modules-$release linux-base-$release"
		mkdir -p /kernel/debs && cd /kernel/debs
		apt-get -q -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false update
		# shellcheck disable=SC2086 # a list
		apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=3 download $packages
		for deb in *.deb; do
			dpkg-deb -x "$deb" /kernel/root
		done
		# One place for all distributions, and one compression that the tool tree has.
		[ -e /kernel/root/usr/lib/modules ] || { mkdir -p /kernel/root/usr/lib && mv /kernel/root/lib/modules /kernel/root/usr/lib/; }
		find /kernel/root -name "*.ko.zst" -exec zstd -q -d --rm {} +
		rm -r /kernel/debs
		touch /kernel/.complete
	' - "$release" "$flavour"
}

# check WHAT COMMAND...: one step, whose outcome stands in the variable of the table.
check() {
	local what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		echo "ok     $suite: $what"
	else
		failed=$((failed + 1))
		echo "not ok $suite: $what"
		return 1
	fi
}

build() {
	rm -rf "$TOP/out/kdir" "$TOP/out/series-$series"
	mkdir -p "$TOP/out/series-$series"
	inside make modules KDIR="$kdir" 2>&1 | tee "$TOP/out/series-$series/log" || return 1
	cp "$TOP/out/kdir/rpcrdma_rs.ko" "$TOP/out/series-$series/"
	[ "$sets" = mount ] || [ "$boots" = n ] || build_of_tests
}

# The modules that only tests use, for the client and, of the kernel of all other tests, for the server.
build_of_tests() {
	local name
	for name in rpcload ibfault; do
		mkdir -p "$TOP/out/series-$series/$name"
		# shellcheck disable=SC2016 # for the shell inside
		inside bash -ec 'mapfile -t tools < <(packaging/kernel-tools.sh "$1")
			make -s -C "$1" M="/repo/selftests/modules/$2" MO="/repo/$3/$2" "${tools[@]}" modules' \
			- "$kdir" "$name" "out/series-$series" || return 1
	done
	"$SETUP/setup.sh" && "$SETUP/build.sh" stock
}

# objtool follows the code to the end of each function. What ends in a function of core that this kernel's objtool does not
# know ends in a panic, mostly, which the compiler of all other tests has found to be impossible.
no_warnings() { ! grep -F "warning: objtool" "$TOP/out/series-$series/log"; }

# What modpost is content with the kernel still refuses if its release, or the versions of its symbols, are others.
versioned() { inside modinfo -F vermagic "out/series-$series/rpcrdma_rs.ko" | grep -qF " modversions"; }

boot_ready() { [ "$(cat "$CACHE/kernel-series-$series/.complete" 2>/dev/null)" = "$release" ]; }
make_boot() {
	[ -e "$dir/kernel/.complete" ] || fetch_kernel || return 1
	# Where the tool tree sees it.
	rm -rf "$CACHE/kernel-series-$series"
	"$SETUP/enter.sh" selftests/setup/boot.sh "/cache/kernel-series-$series" "/cache/${dir##*/}/kernel/root" \
		"$("$SETUP/setup.sh" --path linux)" || return 1
	echo "$release" >"$CACHE/kernel-series-$series/.complete"
}

metadata=headers
built=no booted=no mounted=no core=-

# boot KERNEL: the tests in a guest with a kernel of the harness.
boot() {
	local some patterns
	for some in $sets; do
		read -ra patterns <<<"${tests[$some]}"
		check "${says[$some]} on $release" env KERNEL="$1" "$TOP/selftests/guests/run.sh" test "${patterns[@]}" || continue
		case "$some" in
		mount) booted=yes mounted=yes ;;
		core) core=$(date +%F) ;;
		esac
	done
}

# The day on which the core set passed on this kernel, as an earlier run has found.
core_before() {
	{ cat "$result" "$TOP/Documentation/kernels.tsv" 2>/dev/null || true; } |
		awk -F '\t' -v suite="$suite" -v release="$release" '!found && $1 == suite && $2 == release && NF == 11 { print found = $10 }'
}

# The suite whose kernel all other tests boot: the kernel, its headers and its metadata are in the cache already.
stock() {
	local headers
	"$SETUP/setup.sh" && headers=$(find "$CACHE/$("$SETUP/setup.sh" --path linux | sed 's,.*/,,')/.packages/usr/src" -maxdepth 1 -name 'linux-headers-*-amd64')
	[ -n "$headers" ] || die "$suite has no kernel headers"
	dir=${headers%/usr/src/*} kdir=${headers#"$dir"} release=${headers##*/linux-headers-}
	metadata="source package"
	check "selftests/setup/build.sh stock" "$SETUP/build.sh" stock && built=yes
	[ "$built$boots" != yesy ] || boot stock
	versioned() { "$SETUP/enter.sh" modinfo -F vermagic out/stock/rpcrdma_rs.ko | grep -qF " modversions"; }
}

other() {
	kdir=$(cd "$dir" && find usr/src -maxdepth 1 -name "linux-headers-*-$flavour" | sort -V | tail -n 1)
	[ -n "$kdir" ] || die "$suite has no kernel headers"
	kdir=/$kdir
	release=${kdir#/usr/src/linux-headers-}
	if ! inside packaging/check-kdir.sh "$kdir" 2>/dev/null; then
		metadata="source package"
		check "make prepare KDIR=$kdir" inside make prepare KDIR="$kdir" || true
	fi
	[ "$failed" -gt 0 ] || ! check "make KDIR=$kdir" build || built=yes
	[ "$built" = no ] || check "no warnings of objtool" no_warnings || true
	[ "$built$boots" = yesy ] || return 0
	if ! boot_ready && ! (stage "boot-$series" "making a bootable $release" 60 true -- make_boot); then
		echo "$suite: not booted: its image was not fetched or unpacked"
	else
		boot "series-$series"
	fi
}

if [ "$suite" != trixie-backports ] && ! tree_ready; then
	[ "${suite#ubuntu:}" = "$suite" ] || "${BASH_SOURCE[0]}" --tree-only sid || left_out "its tree is made from that of sid"
	need_space 6 "the tree of $suite"
	if ! (stage "series-$series" "making a tree of $suite with its compilers and kernel headers" 120 \
		'du -smx "$dir.partial" | cut -f1 | sed "s/$/ MB of 2000/"' -- make_tree); then
		rm -rf --one-file-system "$dir.partial"
		! grep -qE 'Could not resolve|Could not connect|Unable to connect|Failed to fetch|Temporary failure|40[34] +Not Found|403 +Forbidden' \
			"$CACHE/log/series-$series.log" || left_out "its archive is not reached from here"
		echo "0 passed, 1 failed"
		exit 1
	fi
fi

[ "$builds" = y ] || exit 0

case "$suite" in
trixie-backports) stock ;;
*) other ;;
esac

if [ "$sets" = chosen ]; then
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
	exit
fi
config=$dir$kdir/.config
text() { sed -n "s/^CONFIG_$1=\"\(.*\)\"/\1/p" "$config"; }
versions=no
[ "$built" = no ] || ! versioned || versions=yes
[ "$core" != - ] || core=$(core_before)
mkdir -p "${result%/*}"
printf '%s\t' "$suite" "$release" "$(text CC_VERSION_TEXT | sed -E 's/^([^ ]*).* ([0-9.]+)$/\1 \2/')" \
	"$(text RUSTC_VERSION_TEXT | cut -d' ' -f2)" "$versions" "$metadata" "$built" "$booted" "$mounted" "${core:--}" >"$result"
date +%F >>"$result"
cat "$result"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
