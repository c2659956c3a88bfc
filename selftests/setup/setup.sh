#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Brings this machine from bare to ready, and does nothing that is done already:
#
#   setup.sh [STEP...]     steps: host tree linux kernel kernel-debug   (default: host tree linux kernel)
#   setup.sh --path WHAT   prints where something is: tree, kernel or kernel-debug (as seen inside the tree)
#
# Everything lands in a cache outside the repository ($RPCRDMA_CACHE), each entry named after a hash of what it is
# made from. An entry counts only once it is complete and its key files are unharmed; otherwise it is made again.

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ENTER=$SETUP/enter.sh

linux_name() { echo "linux-$(printf '%s' "$SERIES $(tree_key)" | key_of)"; }

# Options alone make the key of a kernel: comments may change without a rebuild.
kernel_name() {
	local variant=$1
	{
		fragments "$variant" | (cd "$TOP" && xargs cat) | grep -E '^CONFIG_' | sort
		cat "$SETUP/kernel.sh" "$CACHE/$(linux_name)/.version"
		tree_key
	} | echo "kernel-$variant-$(key_of)"
}

fragments() {
	echo .config.fragment
	[ "$1" != debug ] || echo selftests/setup/debug.config
}

step_host() {
	local missing=()
	command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
	command -v unshare >/dev/null || missing+=(util-linux)
	[ "${#missing[@]}" -gt 0 ] || return 0
	command -v apt-get >/dev/null ||
		die "this set-up needs Debian's apt-get; elsewhere install ${missing[*]} by hand and run again"
	AS_ROOT_WHY="install ${missing[*]}, which make and enter the tool tree" \
		stage host "installing on this machine: ${missing[*]}" 60 true -- install_host "${missing[@]}"
}

install_host() {
	as_root apt-get -q -o Acquire::Retries=3 update || true
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends "$@"
}

step_tree() {
	local dir
	dir=$(tree_dir)
	intact "$dir" && return 0
	[ ! -e "$dir" ] || say "the tool tree in $dir is incomplete or damaged: making it again"
	need_space 5 "the tool tree"
	if [ "$(id -u)" -ne 0 ]; then
		say "root is needed once, to make the tool tree with the right file owners"
		sudo -v
	fi
	stage tree "making the tool-and-guest tree (Debian $SUITE, 2.4 GB)" 90 \
		'du -sm "$(tree_dir).partial" | cut -f1 | sed "s/$/ MB of 2400/"' -- make_tree "$dir"
	mkdir -p "$CACHE/home"
}

make_tree() {
	AS_ROOT_WHY="make the tool tree" as_root "$SETUP/tree.sh" "$1"
	[ -w "$1" ] || AS_ROOT_WHY="sign it off" as_root chown "$(id -u)" "$1"
	finish "$1" usr/bin/rustc usr/bin/bindgen usr/bin/clang-19 usr/bin/qemu-system-x86_64 usr/bin/tshark \
		usr/sbin/rpc.nfsd usr/sbin/mount.nfs usr/bin/rdma sbin/guest-init
}

step_linux() {
	local name
	name=$(linux_name)
	intact "$CACHE/$name" && return 0
	need_space 4 "the kernel source"
	stage linux "fetching and unpacking Linux (series wanted: $SERIES)" 60 \
		'du -sm "$CACHE/$(linux_name).partial" | cut -f1 | sed "s/$/ MB of 1800/"' -- make_linux "$name"
}

make_linux() {
	# shellcheck disable=SC2086 # a list on purpose
	"$ENTER" selftests/setup/linux.sh "/cache/$1" $SERIES
	finish "$CACHE/$1" .version Makefile rust/kernel/lib.rs include/linux/sunrpc/xprt.h
}

step_kernel() { kernel_variant test 900 1750; }
step_kernel_debug() { kernel_variant debug 1500 1800; }

kernel_variant() {
	local variant=$1 estimate=$2 name
	# shellcheck disable=SC2034 # for the progress command
	OBJECTS=$3
	name=$(kernel_name "$variant")
	intact "$CACHE/$name" && return 0
	[ ! -e "$CACHE/$name" ] || say "the $variant kernel in $CACHE/$name is incomplete or damaged: going on with it"
	need_space 5 "the $variant kernel"
	# shellcheck disable=SC2034 # likewise
	KERNEL_NAME=$name
	stage "kernel-$variant" "building the $variant kernel, Linux $(cat "$CACHE/$(linux_name)/.version")" "$estimate" \
		'echo "$(find "$CACHE/$KERNEL_NAME" -name "*.o" | wc -l) objects of about $OBJECTS"' -- make_kernel "$variant" "$name"
}

make_kernel() {
	local variant=$1 name=$2
	rm -f "$CACHE/$name/.complete"
	# shellcheck disable=SC2046 # a list on purpose
	"$ENTER" selftests/setup/kernel.sh "/cache/$(linux_name)" "/cache/$name" $(fragments "$variant" | sed 's,^,/repo/,')
	finish "$CACHE/$name" arch/x86/boot/bzImage vmlinux Module.symvers .config rust/libkernel.rmeta
}

if [ "${1:-}" = --path ]; then
	case "$2" in
	tree) tree_dir ;;
	linux) echo "/cache/$(linux_name)" ;;
	kernel) echo "/cache/$(kernel_name test)" ;;
	kernel-debug) echo "/cache/$(kernel_name debug)" ;;
	*) die "no such thing: $2" ;;
	esac
	exit
fi

# One set-up at a time for one cache.
exec 9>"$CACHE/.lock"
flock -n 9 || {
	say "another set-up is at work in $CACHE: waiting for it"
	flock 9
}
[ $# -gt 0 ] || set -- host tree linux kernel
for step; do
	case "$step" in
	host | tree | linux | kernel | kernel-debug) "step_${step//-/_}" ;;
	*) die "no such step: $step (host tree linux kernel kernel-debug)" ;;
	esac
done
