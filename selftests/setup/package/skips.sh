#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: installs the package and has Debian's DKMS called as the package of a kernel calls it, for kernels that the
# module is built for and kernels that it is not. A kernel is a fake: the configuration and the in-tree modules of a real one,
# with a Makefile that builds in no time, or fails to. Nothing outlives the run. The last line is 'N passed, N failed'. Usage:
#
#   skips.sh KERNEL       the directory of the stock kernel

set -euo pipefail

kernel=$1
if [ -z "${OVERLAID:-}" ]; then
	# A copy of the tree that ends with the mount namespace.
	layers=$(mktemp -d)
	mount -t tmpfs tmpfs "$layers"
	mkdir "$layers"/{changes,work,root}
	/repo/packaging/deb.sh "$layers/deb"
	mount -t overlay -o "lowerdir=/,upperdir=$layers/changes,workdir=$layers/work" overlay "$layers/root"
	cp "$layers"/deb/*.deb "$layers/root/package.deb"
	for place in proc sys dev repo cache; do
		mount --rbind "/$place" "$layers/root/$place"
	done
	mount -t tmpfs tmpfs "$layers/root/tmp"
	OVERLAID=y exec chroot "$layers/root" "$(realpath "${BASH_SOURCE[0]}")" "$kernel"
fi

passed=0 failed=0
# is NAME CONDITION...
is() {
	local name=$1 said
	shift
	if said=$("$@" 2>&1); then
		passed=$((passed + 1))
		echo "ok     $name"
	else
		failed=$((failed + 1))
		echo "not ok $name: $*"
		{ echo "$said" && cat /tmp/said; } | sed 's/^/    /'
	fi
}

# has_kernel RELEASE MAKE-RECIPE: as the packages of a kernel and of its headers leave it.
has_kernel() {
	local release=$1 recipe=$2 headers=/usr/src/linux-headers-$1 real=$kernel/kdir
	mkdir -p "$headers"/{include/config,rust,scripts} "/usr/lib/modules/$release/kernel"
	cp "$real"/.config "$real"/Module.symvers "$headers/"
	echo "$release" >"$headers/include/config/kernel.release"
	: >"$headers/rust/libkernel.rmeta"
	: >"$headers/scripts/target.json"
	# For modprobe and DKMS any module will do.
	cp "$kernel"/install/lib/modules/*/kernel/dummy.ko "$headers/module.ko"
	printf 'modules:\n\t@%s\n' "$recipe" >"$headers/Makefile"
	ln -s "$headers" "/usr/lib/modules/$release/build"
	cp "$kernel"/install/lib/modules/*/modules.{order,builtin,builtin.modinfo} "/usr/lib/modules/$release/"
	cp "$kernel"/install/lib/modules/*/kernel/*.ko "/usr/lib/modules/$release/kernel/"
	depmod "$release"
}
builds='echo once >>$(CURDIR)/built; cp $(CURDIR)/module.ko $(MO)/rpcrdma_rs.ko'
times_built() { grep -c . "/usr/src/linux-headers-$1/built" 2>/dev/null || true; }

# The package of a kernel runs these when its image and its headers are configured.
hooks() {
	local directory
	for directory in postinst.d header_postinst.d; do
		[ ! -d "/etc/kernel/$directory" ] ||
			run-parts --report --exit-on-error --arg="$1" --arg="/boot/vmlinuz-$1" "/etc/kernel/$directory" || return 1
	done
}
# heard COMMAND...: keeps what it prints.
heard() { "$@" >/tmp/said 2>&1 </dev/null; }
said() { tr -d '\r' </tmp/said | grep -qE "$1"; }
module_of() { modprobe -n -v -S "$1" --ignore-install "$2" | sed -n '$s,.*/\([^ ]*\)\.ko.*,\1,p'; }
has_ours() { [ "$(module_of "$1" rpcrdma_rs 2>/dev/null)" = rpcrdma_rs ]; }
lacks_ours() {
	! has_ours "$1" && ! find "/lib/modules/$1" -name 'rpcrdma_rs*' | grep . && ! dkms status rpcrdma-rs | grep -F ", $1, "
}
# For every name that a mount or rdma-core asks for, modprobe tries ours, and then takes the in-tree module.
has_in_tree() {
	modprobe -n -v -S "$1" svcrdma | grep -q 'modprobe --ignore-install rpcrdma' && [ "$(module_of "$1" rpcrdma)" = rpcrdma ]
}

newest=$(sed -nE 's/^([0-9.]+)\s.*/\1/p' /repo/packaging/kernels | tail -n 1)
good=$newest.90-good newer=99.1.0-newer lacking=$newest.91-lacking without=$newest.92-without
has_kernel "$good" "$builds"

is "the package is installed" heard dpkg -i /package.deb
is "a kernel of a tested series has the module" has_ours "$good"
is "it was compiled once" [ "$(times_built "$good")" = 1 ]

# A kernel of a series that nobody has tested.
has_kernel "$newer" "$builds"
is "newer: the hooks of its package do not fail" heard hooks "$newer"
is "newer: a line gives the reason" said "^rpcrdma-rs: not built for $newer: .* $newest is the newest that the module was tested on"
is "newer: nothing was compiled" [ -z "$(times_built "$newer")" ]
is "newer: it has no module" lacks_ours "$newer"
is "newer: the in-tree module is there" has_in_tree "$newer"
allow=$(tr -d '\r' </tmp/said | sed -n 's/.*: to allow it, //p' | head -n 1)
is "newer: the line has the commands that allow it" heard bash -ec "$allow"
is "newer: they have the module built" has_ours "$newer"

# A kernel of a tested series whose crate lacks something: only a compiler finds that.
has_kernel "$lacking" 'echo once >>$(CURDIR)/built; echo "error[E0432]: unresolved import" >&2; exit 1'
is "lacking: the hooks of its package do not fail" heard hooks "$lacking"
is "lacking: a line gives the reason" said "^rpcrdma-rs: not built for $lacking: error.E0432.: unresolved import .see /var/lib"
is "lacking: it was compiled once" [ "$(times_built "$lacking")" = 1 ]
is "lacking: it has no module" lacks_ours "$lacking"
is "lacking: the in-tree module is there" has_in_tree "$lacking"
is "lacking: an upgrade of the package does not fail" heard dpkg -i /package.deb
is "lacking: the others still have the module" eval 'has_ours "$good" && has_ours "$newer"'

# A kernel without Rust.
has_kernel "$without" "$builds"
sed -i '/^CONFIG_RUST=y/d' "/usr/src/linux-headers-$without/.config"
is "without Rust: the hooks of its package do not fail" heard hooks "$without"
is "without Rust: it has no module" lacks_ours "$without"
is "without Rust: the in-tree module is there" has_in_tree "$without"

is "the package is purged" heard dpkg -P rpcrdma-rs-dkms
is "nothing of it is left" lacks_ours "$good"
is "and nothing of what allowed a kernel" [ ! -e /etc/rpcrdma-rs ]

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
