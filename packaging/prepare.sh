#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes a kernel build directory that has Rust metadata out of one that lacks it, as the headers packages of some
# distributions do: rebuilds rust/ from the matching kernel source, with the compilers that built the kernel. Usage:
#
#   prepare.sh [--source PATH] [--output DIRECTORY] [--check] KERNEL-BUILD-DIRECTORY
#
# Prints the directory to give to make as KDIR: the given one if nothing is missing there, else DIRECTORY, which is made
# again only if the kernel, its source or a compiler has changed. It cannot be moved, nor can an unpacked source that it
# was made from: paths of both are in it. Uses no network.
#
#   --source    unpacked kernel source, or linux-source-*.tar.xz; default: whatever under /usr/src matches.
#               A file .package-version in an unpacked source says of which package version it is.
#   --output    default: /var/lib/rpcrdma-rs/RELEASE for root, ~/.cache/rpcrdma-rs/kdir-RELEASE for others
#   --check     only look: print the directory if it is there and up to date, else fail
#
# Exit status: 0; 77 if it cannot be made here, for want of a matching kernel source or of space; or 1.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=packaging/lib.sh
. "$here/lib.sh"

say() { echo "==> $*" >&2; }
cannot() {
	echo "error: $*" >&2
	exit 77
}

source='' output='' check=n kdir=''
while [ $# -gt 0 ]; do
	case "$1" in
	--source | --output)
		[ $# -ge 2 ] || die "$1 needs a path"
		declare "${1#--}=$2"
		shift
		;;
	--check) check=y ;;
	--help) sed -n '/^# Makes/,/^# Exit/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit ;;
	-*) die "no such option: $1 (see prepare.sh --help)" ;;
	*) kdir=$1 ;;
	esac
	shift
done
[ -n "$kdir" ] || die "no kernel build directory given (see prepare.sh --help)"
[ -r "$kdir/.config" ] || "$here/check-kdir.sh" "$kdir"
kdir=$(cd "$kdir" && pwd -P)

if [ -r "$kdir/rust/libkernel.rmeta" ]; then
	echo "$kdir"
	exit
fi

release=$(kernel_release)
[ -n "$release" ] || cannot "$kdir: no include/config/kernel.release: this is not the build directory of a built kernel"
kernel_version=${release%%[-+]*}
kernel_package=$(kernel_package)

if [ -n "$output" ]; then
	outputs=("$output")
else
	# What root has made, others can use.
	outputs=("/var/lib/rpcrdma-rs/$release")
	[ "$(id -u)" -eq 0 ] || outputs+=("${XDG_CACHE_HOME:-$HOME/.cache}/rpcrdma-rs/kdir-$release")
fi

mapfile -t tools < <("$here/kernel-tools.sh" "$kdir")

# tool VARIABLE DEFAULT: the name of a compiler.
tool() {
	local argument
	for argument in "${tools[@]}"; do
		[ "${argument%%=*}" != "$1" ] || { echo "${argument#*=}" && return; }
	done
	echo "$2"
}

version_of() { "$1" --version 2>/dev/null | head -n 1 || true; }

# What the stamp says of the kernel and of the compilers. The C compiler's version is not among them: the metadata does not
# depend on it, and it changes with updates.
kernel_id() {
	{
		cat "$kdir/.config" "$kdir/Module.symvers"
		echo "$release $kernel_package"
	} | sha256sum | cut -c1-32
}
tools_id() {
	{
		echo "${tools[*]}"
		version_of "$(tool RUSTC rustc)"
		version_of "$(tool BINDGEN bindgen)"
	} | sha256sum | cut -c1-32
}
source_id() { [ -d "$1" ] || stat -c '%s.%Y' "$1"; }

# Is what is there still good? With no source named, the one it was made from counts, or, where that was a package's
# archive, what was unpacked of it.
up_to_date() {
	local kernel compilers from from_id
	{ read -r kernel && read -r compilers && read -r from && read -r from_id; } 2>/dev/null <"$stamp" || return 1
	[ "$kernel" = "$(kernel_id)" ] && [ "$compilers" = "$(tools_id)" ] || return 1
	[ -r "$output/source/Makefile" ] && [ -s "$output/rust/libkernel.rmeta" ] || return 1
	if [ -n "$source" ]; then
		[ "$(realpath "$source")" = "$from" ] && [ "$(source_id "$from")" = "$from_id" ]
	elif [ -f "$from" ] && [ "$(source_id "$from")" != "$from_id" ]; then
		# A newer package is none of this kernel's; the same one may have been built again.
		[ -n "$(misfit "$from")" ]
	fi
}

# source_version PATH: 'VERSION PACKAGE-VERSION' of a source, the latter empty where it is not known.
source_version() {
	local path=$1 makefile package='' owner
	if [ -d "$path" ]; then
		makefile=$(head -n 6 "$path/Makefile" 2>/dev/null || true)
		package=$(cat "$path/.package-version" 2>/dev/null || true)
	else
		makefile=$(tar -xJOf "$path" --wildcards --no-wildcards-match-slash --occurrence=1 '*/Makefile' 2>/dev/null |
			head -n 6 || true)
	fi
	if [ -z "$package" ] && owner=$(dpkg-query -S "$(realpath "$path")" 2>/dev/null); then
		package=$(dpkg-query -W -f '${Version}' "${owner%%: *}")
	fi
	awk -v package="$package" '
		$2 == "=" { part[$1] = $3 }
		END {
			version = part["VERSION"] "." part["PATCHLEVEL"]
			if (part["SUBLEVEL"] + 0)
				version = version "." part["SUBLEVEL"]
			print version part["EXTRAVERSION"], package
		}' <<<"$makefile"
}

# misfit PATH: why a source is not the kernel's; nothing if it is.
misfit() {
	local version package
	read -r version package <<<"$(source_version "$1")"
	if [ "$version" = . ]; then
		echo "it is no kernel source"
	elif [ -n "$package" ] && [ -n "$kernel_package" ] && [ "$package" != "$kernel_package" ]; then
		echo "it is of package version $package, the kernel of $kernel_package"
	elif [ "$version" != "$kernel_version" ] && [ "$version.0" != "$kernel_version" ] &&
		[ "$version" != "${release%%+*}" ]; then
		echo "it is Linux $version, the kernel is $kernel_version"
	elif [ -d "$1" ] && [ ! -r "$1/rust/kernel/lib.rs" ]; then
		echo "it has no rust/kernel/lib.rs"
	elif [ -d "$1" ] && [ -e "$1/.config" ]; then
		echo "something was built in it: give it a 'make mrproper'"
	fi
}

no_source() { cannot "$kdir: there is no Rust metadata, and $*: $(metadata_advice)"; }

find_source() {
	local path why misfits=''
	if [ -n "$source" ]; then
		[ -e "$source" ] || die "$source: no such kernel source"
		why=$(misfit "$source")
		[ -z "$why" ] || no_source "$source cannot give it, for $why"
		source=$(realpath "$source")
		return
	fi
	for path in /usr/src/linux-source-*/ /usr/src/linux-source-*.tar.xz /usr/src/linux-*/ /usr/src/kernels/*/; do
		path=${path%/}
		if [ -d "$path" ]; then
			[ -r "$path/rust/kernel/lib.rs" ] || continue
		else
			[ -r "$path" ] || continue
		fi
		why=$(misfit "$path")
		if [ -z "$why" ]; then
			source=$path
			return
		fi
		misfits="$misfits${misfits:+, }$path ($why)"
	done
	[ -z "$misfits" ] || no_source "no source under /usr/src is the kernel's: $misfits"
	no_source "no kernel source under /usr/src"
}

done_already() {
	if up_to_date; then
		(cd "$output" && pwd -P)
		exit
	fi
}

# Is there a place for it? What an earlier run has left there makes room.
find_place() {
	local place=$output free
	if [ -e "$output" ] && [ ! -e "$stamp" ] && [ -n "$(ls -A "$output" 2>/dev/null)" ]; then
		cannot "$output: something is there that prepare.sh has not made: remove it, or name another directory with --output"
	fi
	until [ -e "$place" ]; do
		place=$(dirname "$place")
	done
	free=$(($(df -Pk "$place" | awk 'NR == 2 { print int($4 / 1024) }') + $(du -smx "$output" 2>/dev/null | cut -f1 | grep . || echo 0)))
	[ "$free" -ge 1500 ] ||
		cannot "$output: 1500 MB are needed, and $free MB are free: make room, or name another directory with --output"
}

for output in "${outputs[@]}"; do
	stamp=$output/.prepared
	done_already
done
if [ "$check" = y ]; then
	find_source
	find_place
	die "$kdir: there is no Rust metadata yet: run '$(prepare_command)'"
fi
"$here/check-kdir.sh" --prepare "$kdir"
find_source
find_place
mkdir -p "$output" || die "$output: cannot be made"
output=$(cd "$output" && pwd -P)
stamp=$output/.prepared
# One at a time. The second finds what the first has made.
exec 9<"$output"
flock 9
done_already
: >"$stamp"
find "$output" -mindepth 1 -maxdepth 1 ! -name .prepared -exec rm -rf {} +
log=$output/.log

# run WHAT COMMAND...: with its output in the log, whose last lines tell why it failed.
run() {
	local what=$1
	shift
	if ! "$@" >>"$log" 2>&1 9<&-; then
		tail -n 10 "$log" | sed 's/^/    | /' >&2
		die "$what failed: see $log"
	fi
}

from=$source from_id=$(source_id "$source")
if [ -f "$source" ]; then
	say "unpacking $source"
	mkdir "$output/linux"
	# The rest is needed by no module.
	run "unpacking $source" tar -xJf "$source" -C "$output/linux" --strip-components=1 \
		--exclude='linux-source-*/Documentation/*.rst' --exclude='linux-source-*/drivers/gpu/*.[ch]' \
		--exclude='linux-source-*/drivers/*.c' --exclude='linux-source-*/sound/*.[ch]' \
		--exclude='linux-source-*/tools/testing' --exclude='linux-source-*/tools/perf'
	source=$output/linux
fi

cp "$kdir/.config" "$kdir/Module.symvers" "$output/"
# For the module's BTF.
[ ! -e "$kdir/vmlinux" ] || cp "$kdir/vmlinux" "$output/"

# Without what a make that runs this script passes on.
kbuild() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u KBUILD_OUTPUT -u KBUILD_EXTMOD -u CC -u LLVM -u ARCH \
		make -C "$source" O="$output" KERNELRELEASE="$release" "${tools[@]}" "$@"
}

# The configuration must stay what it is. Only what the C tools and openssl of this machine decide may differ: their
# versions change with each update of a distribution, and the metadata does not depend on them.
run "configuring" kbuild olddefconfig
probed='^(#|CONFIG_(CC_VERSION_TEXT|(GCC|CLANG|AS|LD|LLD|PAHOLE)_VERSION|OPENSSL_SUPPORTS_ML_DSA)=)'
changes=$(diff <(grep -vE "$probed" "$kdir/.config") <(grep -vE "$probed" "$output/.config") |
	sed -n 's/^< \(.*\)/\1 would go/p; s/^> \(.*\)/\1 would come/p' || true)
[ -z "$changes" ] ||
	die "$kdir: the kernel's configuration does not stay the same with $from and the tools here: $(head -n 3 <<<"$changes" | paste -sd,)"

say "building the kernel crate for $release (2 to 5 minutes; log: $log)"
run "building the kernel crate" kbuild -j"$(nproc)" modules_prepare

# The kernel must have each Rust symbol that modules may now be linked to, and the other way round: other names would
# mean another compiler or another source.
exports() { cat "$output"/rust/exports_*_generated.h | sed -n 's/^EXPORT_SYMBOL_RUST_GPL(\(.*\));$/\1/p' | sort; }
lacking=$(comm -23 <(exports) <(awk '{ print $2 }' "$kdir/Module.symvers" | sort))
superfluous=$(comm -13 <(exports) <(awk '$3 == "vmlinux" && $2 ~ /^(_R|rust_helper_)/ { print $2 }' "$kdir/Module.symvers" | sort))
if [ -n "$lacking$superfluous" ]; then
	die "$from is not the source of this kernel: $(grep -c . <<<"$lacking" || true) Rust symbols are not in its Module.symvers," \
		"$(grep -c . <<<"$superfluous" || true) of those there were not built ($(head -n 1 <<<"$lacking$superfluous"))"
fi
# With the configuration, all that vermagic is made from.
grep -qF "\"$release\"" "$output/include/generated/utsrelease.h" ||
	die "$from calls its release $(cut -d'"' -f2 "$output/include/generated/utsrelease.h"), and the kernel is $release"

# Objects serve no further purpose.
find "$output/rust" -name '*.o' -delete
# A stamp that outlives a crash says that all else has, too.
printf '%s\n' "$(kernel_id)" "$(tools_id)" "$from" "$from_id" >"$stamp.new"
sync -f "$output"
mv "$stamp.new" "$stamp"
echo "$output"
