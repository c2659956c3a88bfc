#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the module for one of the test kernels, and the modules that only tests use, under out/. Usage:
# build.sh stock|test|debug|native|native-debug [MAKE-ARGUMENT...]
#
# The build is cached, so that a fresh clone of the same sources has it in a second; with KEEP=n it is not.

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

variant=$1
shift
case "$variant" in
stock) kernel=$("$SETUP/setup.sh" --path kernel-stock)/kdir ;;
test) kernel=$("$SETUP/setup.sh" --path kernel) ;;
debug | native | native-debug) kernel=$("$SETUP/setup.sh" --path "kernel-$variant") ;;
*) die "no such kernel: $variant (stock, test, debug, native or native-debug)" ;;
esac

[[ $variant != native* ]] || set -- ARCH=um "$@"

# Two builds at a time would spoil each other.
mkdir -p "$TOP/out"
exec 8>"$TOP/out/.building"
flock 8

mapfile -t tools < <("$SETUP/enter.sh" packaging/kernel-tools.sh "$kernel")

modules=(rpcload ibfault hold realdma)
# The others need kprobes, which native kernels lack.
[[ $variant != native* ]] || modules=(rpcload ibfault)
built_for=$(realpath "$CACHE/${kernel#/cache/}")

# Everything that the result is made from: the sources, the kernel, the tools and the arguments.
key=$({
	cd "$TOP"
	find Kbuild src include "${modules[@]/#/selftests/modules/}" -type f ! -path '*/.*' -print0 | LC_ALL=C sort -z |
		xargs -0 sha256sum
	tree_key
	echo "$built_for"
	sha256sum "$built_for/Module.symvers"
	cat "$SETUP/build.sh"
	printf '%s\n' "${tools[@]}" "$@"
} | key_of)
out=$TOP/out/$variant
cached=$CACHE/modules-$variant/$key

# The stamp is away while anything is built, so that an interrupted build is gone on with.
if [ -e "$out/rpcrdma_rs.ko" ] && [ "$(cat "$out/.key" 2>/dev/null)" = "$key" ]; then
	exit 0
fi
if intact "$cached"; then
	rm -rf "$out"
	cp -a "$cached" "$out"
	rm "$out/.complete"
	echo "$key" >"$out/.key"
	touch "$cached"
	exit 0
fi
rm -f "$out/.key"

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
for name in "${modules[@]}"; do
	build_modules "/repo/selftests/modules/$name" "out/$variant/$name" "$@"
done
wait "$ours"

if [ "${KEEP:-y}" = n ]; then
	echo "$key" >"$out/.key"
	exit 0
fi

# The last few are kept, for switching between branches.
rm -rf "$cached" "$cached.new"
mkdir -p "${cached%/*}"
cp -a "$out" "$cached.new"
mapfile -t built < <(cd "$cached.new" && find . -name '*.ko')
finish "$cached.new" "${built[@]}"
mv "$cached.new" "$cached"
find "${cached%/*}" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' | sort -rn | tail -n +7 | cut -d' ' -f2- |
	xargs -r rm -rf
echo "$key" >"$out/.key"
