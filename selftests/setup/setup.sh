#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Brings this machine from bare to ready, and does nothing that is done already:
#
#   setup.sh [STEP...]      steps: host tree linux stock kernel kernel-debug kernel-native
#                           kernel-native-debug (default: host tree linux stock)
#   setup.sh --path WHAT    prints the path of an entry, as seen inside the tree: tree, linux, kernel-stock, kernel,
#                           kernel-debug, kernel-native, kernel-native-debug
#   setup.sh --ready STEP   exits with status 0 if nothing would have to be done
#
# `stock` is the kernel that Debian's backports ship; the others are built here. The kernels of `kernel-native` and
# `kernel-native-debug` are programs.
#
# Everything lands in a cache outside the repository ($RPCRDMA_CACHE), each entry named after a hash of its
# sources. An entry counts only once it is complete and its key files are unharmed; otherwise it is made again.

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ENTER=$SETUP/enter.sh

linux_name() { echo "linux-$(printf '%s' "$SERIES $SUITE" | key_of)"; }

# Scripts without their comments, which may change without a rebuild.
code_of() { grep -hvE '^[[:space:]]*#' "$@"; }

# Options alone make the key of a kernel.
kernel_name() {
	local variant=$1
	{
		fragments "$variant" | (cd "$TOP" && xargs cat) | grep -E '^CONFIG_' | sort
		[[ $variant != native* ]] || cat "$SETUP"/native/*.patch
		code_of "$SETUP/$(kernel_script "$variant")"
		cat "$CACHE/$(linux_name)/.version"
		toolchain_key
	} | echo "kernel-$variant-$(key_of)"
}

# Two entries, since the slow one changes seldom: the kernel for the guests, and the build directory for modules.
stock_name() {
	echo "kernel-stock-$({
		kdir_name
		code_of "$SETUP/stock.sh" "$SETUP/boot.sh"
		cat "$SETUP/guest_init.c"
	} | key_of)"
}

kdir_name() {
	echo "kdir-$({
		code_of "$TOP"/packaging/{lib,kernel-tools,prepare}.sh
		cat "$CACHE/$(linux_name)/.package-version"
		toolchain_key
	} | key_of)"
}

fragments() {
	echo .config.fragment
	[ "$1" != native-debug ] || echo selftests/setup/native.config
	[ "$1" = test ] || echo "selftests/setup/$1.config"
}

kernel_script() {
	case "$1" in
	native*) echo native.sh ;;
	*) echo kernel.sh ;;
	esac
}

missing_on_host() {
	command -v mmdebstrap >/dev/null || echo mmdebstrap
	command -v unshare >/dev/null || echo util-linux
}

host_ready() { [ -z "$(missing_on_host)" ]; }

step_host() {
	local missing
	mapfile -t missing < <(missing_on_host)
	command -v apt-get >/dev/null ||
		die "this set-up needs Debian's apt-get; elsewhere install ${missing[*]} by hand and run again"
	AS_ROOT_WHY="install ${missing[*]}, which make and enter the tool tree" \
		stage host "installing on this machine: ${missing[*]}" 60 true -- install_host "${missing[@]}"
}

install_host() {
	as_root apt-get -q -o Acquire::Retries=3 update || true
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends "$@"
}

tree_ready() { intact "$(tree_dir)"; }

step_tree() {
	local dir
	dir=$(tree_dir)
	[ ! -e "$dir" ] || say "the tool tree in $dir is incomplete or damaged: making it again"
	need_space 4 "the tool tree"
	if [ "$(id -u)" -ne 0 ]; then
		say "root is needed once, to make the tool tree with the right file owners"
		sudo -v
	fi
	stage tree "making the tool-and-guest tree (Debian $SUITE, 1.6 GB)" 90 \
		'du -sm "$(tree_dir).partial" | cut -f1 | sed "s/$/ MB of 1600/"' -- make_tree "$dir"
	mkdir -p "$CACHE/home"
}

make_tree() {
	AS_ROOT_WHY="make the tool tree" as_root "$SETUP/tree.sh" "$1"
	[ -w "$1" ] || AS_ROOT_WHY="sign it off" as_root chown "$(id -u)" "$1"
	finish "$1" usr/bin/rustc usr/lib/rustlib/src/rust/library/core/src/lib.rs usr/bin/bindgen usr/bin/clang-19 \
		usr/bin/qemu-system-x86_64 usr/bin/tshark usr/sbin/rpc.nfsd usr/sbin/mount.nfs usr/bin/rdma sbin/guest-init
}

linux_ready() { intact "$CACHE/$(linux_name)" && [ -s "$CACHE/$(linux_name)/.package-version" ]; }

step_linux() {
	local name
	name=$(linux_name)
	need_space 4 "the kernel source"
	stage linux "fetching and unpacking Linux (series wanted: $SERIES)" 60 \
		'du -sm "$CACHE/$(linux_name).partial" | cut -f1 | sed "s/$/ MB of 1800/"' -- make_linux "$name"
}

make_linux() {
	# shellcheck disable=SC2086 # a list on purpose
	"$SETUP/linux.sh" "$CACHE/$1" "$SUITE" $SERIES
	finish "$CACHE/$1" .version Makefile rust/kernel/lib.rs include/linux/sunrpc/xprt.h
}

stock_ready() { intact "$CACHE/$(stock_name)"; }

step_stock() {
	local name
	name=$(stock_name)
	[ -d "$CACHE/$(linux_name)/.packages" ] ||
		die "Debian has no image of Linux $(cat "$CACHE/$(linux_name)/.version"): run make with KERNEL=test, which builds one"
	need_space 1 "the stock kernel"
	stage stock "preparing Debian's kernel $(cat "$CACHE/$(linux_name)/.package-version")" 180 \
		'tail -qn 1 "$CACHE/$(kdir_name)/.log"' -- make_stock "$name"
}

make_stock() {
	local name=$1
	"$ENTER" selftests/setup/stock.sh "/cache/$name" "/cache/$(kdir_name)" "/cache/$(linux_name)"
	finish "$CACHE/$name" arch/x86/boot/bzImage initrd kdir/.config kdir/Module.symvers kdir/rust/libkernel.rmeta
}

kernel_ready() { intact "$CACHE/$(kernel_name test)"; }
step_kernel() { kernel_variant test 900 1750; }

kernel_debug_ready() { intact "$CACHE/$(kernel_name debug)"; }
step_kernel_debug() { kernel_variant debug 1500 1800; }

kernel_native_ready() { intact "$CACHE/$(kernel_name native)"; }
step_kernel_native() { kernel_variant native 900 1650; }

kernel_native_debug_ready() { intact "$CACHE/$(kernel_name native-debug)"; }
step_kernel_native_debug() { kernel_variant native-debug 1500 1700; }

kernel_variant() {
	local variant=$1 estimate=$2 name
	# shellcheck disable=SC2034 # for the progress command
	OBJECTS=$3
	name=$(kernel_name "$variant")
	[ ! -e "$CACHE/$name" ] || say "the $variant kernel in $CACHE/$name is incomplete or damaged: going on with it"
	need_space 5 "the $variant kernel"
	# shellcheck disable=SC2034 # likewise
	KERNEL_NAME=$name
	stage "kernel-$variant" "building the $variant kernel, Linux $(cat "$CACHE/$(linux_name)/.version")" "$estimate" \
		'echo "$(find "$CACHE/$KERNEL_NAME" -name "*.o" | wc -l) objects of about $OBJECTS"' -- make_kernel "$variant" "$name"
}

make_kernel() {
	local variant=$1 name=$2 image=arch/x86/boot/bzImage
	[[ $variant != native* ]] || image=linux
	rm -f "$CACHE/$name/.complete"
	# shellcheck disable=SC2046 # a list on purpose
	"$ENTER" "selftests/setup/$(kernel_script "$variant")" "/cache/$(linux_name)" "/cache/$name" $(fragments "$variant" | sed 's,^,/repo/,')
	finish "$CACHE/$name" "$image" vmlinux Module.symvers .config rust/libkernel.rmeta
}

if [ "${1:-}" = --path ]; then
	case "$2" in
	tree) tree_dir ;;
	linux) echo "/cache/$(linux_name)" ;;
	kernel-stock) echo "/cache/$(stock_name)" ;;
	kernel) echo "/cache/$(kernel_name test)" ;;
	kernel-debug | kernel-native | kernel-native-debug) echo "/cache/$(kernel_name "${2#kernel-}")" ;;
	*) die "no such thing: $2" ;;
	esac
	exit
fi

ready() { "${1//-/_}_ready"; }

# One set-up at a time makes one entry; entries that exist do not wait for set-ups that make others.
step() {
	ready "$1" && return
	exec 9>"$CACHE/.lock-$1"
	flock -n 9 || {
		say "another set-up makes '$1' in $CACHE: waiting for it"
		flock 9
	}
	ready "$1" || "step_${1//-/_}"
	exec 9>&-
}

# beside STEP OTHER: both at the same time. Each of them uses one processor most of the time.
beside() {
	local first
	step "$1" &
	first=$!
	# shellcheck disable=SC2064 # the pid of now is the one to stop
	trap "kill $first 2>/dev/null; wait $first 2>/dev/null" EXIT
	step "$2"
	wait "$first" || exit
	trap - EXIT
}

if [ "${1:-}" = --ready ]; then
	ready "$2"
	exit
fi

[ $# -gt 0 ] || set -- host tree linux stock
for step; do
	case "$step" in
	host | tree | linux | stock | kernel | kernel-debug | kernel-native | kernel-native-debug) ;;
	*) die "no such step: $step (host tree linux stock kernel kernel-debug kernel-native kernel-native-debug)" ;;
	esac
done
while [ $# -gt 0 ]; do
	if [ "$1 ${2:-}" = "tree linux" ] && ! ready tree && ! ready linux; then
		beside tree linux
		shift
	else
		step "$1"
	fi
	shift
done
